//! Detects a core thread that hangs: the thread updates a heartbeat, and a task checks it.
//!
//! A core that hangs looks healthy from outside: lists and watches go on, and the lease is renewed by a task of its own. So
//! `/livez` and leader election use what is published here.
//!
//! Invariants: a core that waits for work, or for the answer of an extender, which has a time-out of its own, never counts
//! as hanging; neither does time in which the whole process stood still; a hang is over with the first sign of life.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

/// How often to look for signs of life.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The heartbeat of the core thread: a number that grows with each piece of work, odd while the thread rests.
///
/// Only the core thread may change it, so that a beat costs no more than a write to memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heartbeat(Arc<AtomicU64>);

impl Heartbeat {
    /// Reports that a piece of work is done.
    pub(crate) fn beat(&self) {
        self.set((self.0.load(Ordering::Relaxed) | 1).wrapping_add(1));
    }

    /// Nothing is being worked on until the result is dropped.
    pub(crate) fn rest(&self) -> Rest<'_> {
        self.set((self.0.load(Ordering::Relaxed) | 1).wrapping_add(2));
        Rest(self)
    }

    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// While it lives, the core rests.
#[derive(Debug)]
pub(crate) struct Rest<'a>(&'a Heartbeat);

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.0.beat();
    }
}

/// Looks for signs of life.
#[derive(Debug)]
pub(crate) struct Watchdog {
    heartbeat: Heartbeat,
    /// How long the core may work without one.
    limit: Duration,
    seen: u64,
    still_for: Duration,
}

impl Watchdog {
    /// A limit of zero means that nothing counts as a hang.
    pub(crate) const fn new(heartbeat: Heartbeat, limit: Duration) -> Self {
        Self { heartbeat, limit, seen: 0, still_for: Duration::ZERO }
    }

    /// Publishes whether the core hangs, for as long as it is polled.
    pub(crate) async fn run(mut self, hangs: watch::Sender<bool>) {
        if self.limit.is_zero() {
            return std::future::pending().await;
        }
        let mut ticks = interval(self.interval());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = Instant::now();
        loop {
            ticks.tick().await;
            let now = Instant::now();
            let is_hanging = self.look(now - last);
            last = now;
            let changes =
                hangs.send_if_modified(|hangs| std::mem::replace(hangs, is_hanging) != is_hanging);
            match (changes, is_hanging) {
                (true, true) => tracing::error!(
                    limit = ?self.limit,
                    "The scheduling core hangs: it has worked on one thing for longer than it may"
                ),
                (true, false) => tracing::warn!("The scheduling core moves again"),
                (false, _) => {}
            }
        }
    }

    fn interval(&self) -> Duration {
        LOOK_EVERY.min(self.limit / 4).max(Duration::from_millis(1))
    }

    /// Whether the core hangs, after this much time has passed since the last look.
    fn look(&mut self, passed: Duration) -> bool {
        let seen = self.heartbeat.0.load(Ordering::Relaxed);
        let is_resting = seen % 2 == 1;
        if is_resting || seen != self.seen {
            self.seen = seen;
            self.still_for = Duration::ZERO;
        } else {
            // Capped: after a longer gap the whole process was stopped or the machine suspended, so the core could not work
            // either.
            self.still_for += passed.min(self.interval() * 2);
        }
        self.still_for >= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn watchdog() -> (Heartbeat, Watchdog) {
        let heartbeat = Heartbeat::default();
        heartbeat.beat();
        (heartbeat.clone(), Watchdog::new(heartbeat, 30 * SECOND))
    }

    /// How many looks, a second apart, until it counts as hanging; at most a thousand.
    fn n_looks(watchdog: &mut Watchdog) -> usize {
        (1..1_000).find(|_| watchdog.look(SECOND)).unwrap_or(1_000)
    }

    #[test]
    fn a_core_that_does_not_move_hangs_and_one_that_moves_again_does_not() {
        let (heartbeat, mut watchdog) = watchdog();
        // The first look sees a new sign of life.
        assert_eq!(n_looks(&mut watchdog), 31);
        assert!(watchdog.look(SECOND), "and goes on hanging");
        heartbeat.beat();
        assert!(!watchdog.look(SECOND));
        assert_eq!(n_looks(&mut watchdog), 30);
    }

    #[test]
    fn work_in_pieces_and_rest_are_no_hang() {
        let (heartbeat, mut watchdog) = watchdog();
        for _ in 0..1_000 {
            heartbeat.beat();
            assert!(!watchdog.look(SECOND));
        }
        let rest = heartbeat.rest();
        assert_eq!(n_looks(&mut watchdog), 1_000);
        drop(rest);
        assert_eq!(n_looks(&mut watchdog), 31);
    }

    #[test]
    fn a_rest_between_two_looks_is_seen() {
        let (heartbeat, mut watchdog) = watchdog();
        for _ in 0..1_000 {
            drop(heartbeat.rest());
            assert!(!watchdog.look(SECOND));
        }
    }

    #[test]
    fn a_process_that_was_stopped_does_not_hang() {
        let (_heartbeat, mut watchdog) = watchdog();
        watchdog.look(SECOND);
        for _ in 0..10 {
            assert!(!watchdog.look(3_600 * SECOND));
        }
    }

    #[test]
    fn the_limit_sets_the_pace() {
        let of = |limit| Watchdog::new(Heartbeat::default(), limit).interval();
        assert_eq!(of(30 * SECOND), SECOND);
        assert_eq!(of(SECOND), SECOND / 4);
        assert_eq!(of(Duration::from_nanos(1)), Duration::from_millis(1));
    }

    #[tokio::test]
    async fn without_a_limit_nothing_is_published() {
        use futures::FutureExt;
        let (hangs, hangs_out) = watch::channel(false);
        let watchdog = Watchdog::new(Heartbeat::default(), Duration::ZERO);
        assert_eq!(watchdog.run(hangs).now_or_never(), None);
        assert!(!*hangs_out.borrow());
    }
}
