//! The one place of the scheduler that reads a clock.
//!
//! Invariant: the time given here never goes backwards, whatever the machine's clock does; it starts at the wall clock's
//! time and advances with the time since boot, which goes on while the machine is suspended: other schedulers do not wait
//! for it. A scheduler that runs for months may be off by the drift corrected meanwhile. Timers need the former; the
//! timestamps written into conditions and events tolerate the latter.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_runtime::Timer;
use rustix::time::{ClockId, clock_gettime};

/// The clock that never jumps and counts the time the machine was suspended. Where there is no such clock, one that never
/// jumps.
#[cfg(any(target_os = "linux", target_os = "android"))]
const SINCE_BOOT: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const SINCE_BOOT: ClockId = ClockId::Monotonic;

/// A source of the current time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Since boot.
    started: Duration,
    started_at: Timestamp,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { started: since_boot(), started_at: Self::wall() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.started_at + since_boot().saturating_sub(self.started)
    }

    /// What the machine's clock says, for people and other machines.
    pub(crate) fn wall() -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::EPOCH + since_epoch
    }

    /// When this clock was started.
    pub(crate) const fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// How long it is until `at`; zero when that has passed.
    pub(crate) fn until(&self, at: Timestamp) -> Duration {
        at.saturating_since(self.now())
    }
}

fn since_boot() -> Duration {
    let time = clock_gettime(SINCE_BOOT);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// What the core measures lengths with.
#[derive(Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }
}

impl Timer for Stopwatch {
    fn nanos(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// RFC 3339 with six fractional digits, the form of `metav1.MicroTime`.
pub(crate) fn to_micro_time(at: Timestamp) -> String {
    match jiff::Timestamp::from_nanosecond(i128::from(at.as_nanos())) {
        Ok(at) => format!("{at:.6}"),
        Err(_) => at.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_from_the_start_and_never_goes_back() {
        let clock = Clock::start();
        let mut last = clock.started_at();
        for _ in 0..1_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        assert!(clock.until(last + Duration::from_secs(3_600)) <= Duration::from_secs(3_600));
        assert_eq!(clock.until(clock.started_at()), Duration::ZERO);
    }

    #[test]
    fn micro_time_always_has_six_digits() {
        assert_eq!(
            to_micro_time(Timestamp::from_nanos(1_500_000_000)),
            "1970-01-01T00:00:01.500000Z"
        );
        assert_eq!(to_micro_time(Timestamp::EPOCH), "1970-01-01T00:00:00.000000Z");
    }
}
