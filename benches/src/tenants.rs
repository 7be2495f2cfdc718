//! What pods of one tenant cost the core, beside what is placed otherwise: time, live heap, and what stays of them.

mod cluster;
mod rows;
mod units;

pub use self::rows::rows;
pub use self::units::units;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::table::Table;

/// How the live heap is measured: the program's allocator.
pub type Heap<'a> = &'a peak_alloc::PeakAlloc;

/// How long this thread has used a processor: what others do on the machine meanwhile does not count.
fn core_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// How long pods of others wait, with and without a tenant that does its worst.
///
/// # Errors
/// If an engine cannot be built.
pub fn beside(n_nodes: usize, minutes: u64) -> anyhow::Result<Table> {
    use kube_scheduler_tests::tenants::beside::{Pace, Play, play, quantile};

    let mut table = Table::new([
        "tenant",
        "others",
        "wait p50 ms",
        "p99 ms",
        "p99.9 ms",
        "max ms",
        "attempt p50 ms",
        "p99 ms",
        "tenant's attempts",
        "refused",
        "longest ms",
        "busy %",
    ]);
    let length = Duration::from_secs(60 * minutes);
    for (name, tenants) in
        [("quiet", None), ("1 pod/s", Some((60, 40))), ("10 pods/s", Some((600, 40)))]
    {
        let pace = Pace::Measured(core_time);
        let outcome = play(&Play { n_nodes, length, others_per_second: 50, tenants, pace })?;
        let at = |sorted, thousandths| format!("{:.2}", millis(quantile(sorted, thousandths)));
        let (waits, attempts) = (&outcome.waits, &outcome.attempts);
        table.push(vec![
            name.to_owned(),
            waits.len().to_string(),
            at(waits, 500),
            at(waits, 990),
            at(waits, 999),
            at(waits, 1000),
            at(attempts, 500),
            at(attempts, 990),
            outcome.n_tenant.to_string(),
            outcome.n_refused.to_string(),
            format!("{:.2}", millis(outcome.longest)),
            format!("{:.2}", 100.0 * outcome.busy.as_secs_f64() / length.as_secs_f64()),
        ]);
    }
    Ok(table)
}
