//! Waits that grow with every failure, spread at random so that many clients do not come back together.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, Instant};

use kube_scheduler_writes::Jitter;

/// The growing wait between tries of one thing that keeps failing.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    /// A pause without failures that makes the next failure count as the first.
    reset_after: Duration,
    next: Duration,
    last_failure: Option<Instant>,
    jitter: Jitter,
}

impl Backoff {
    /// The reference's reflector: 0.8 s doubled up to 30 s, each wait stretched by up to as much again.
    pub(crate) fn of_reflector() -> Self {
        Self::new(Duration::from_millis(800), Duration::from_secs(30), Duration::from_secs(120))
    }

    pub(crate) fn new(first: Duration, longest: Duration, reset_after: Duration) -> Self {
        Self {
            first,
            longest,
            reset_after,
            next: first,
            last_failure: None,
            jitter: random_jitter(),
        }
    }

    /// How long to wait after a failure at `now`.
    pub(crate) fn fail(&mut self, now: Instant) -> Duration {
        if self
            .last_failure
            .is_some_and(|last| now.saturating_duration_since(last) > self.reset_after)
        {
            self.next = self.first;
        }
        self.last_failure = Some(now);
        let wait = self.next;
        self.next = (wait * 2).min(self.longest);
        self.jitter.stretch(wait, 1.0)
    }

    /// The next failure counts as the first.
    pub(crate) fn succeed(&mut self) {
        self.next = self.first;
        self.last_failure = None;
    }
}

/// A generator that starts from [`random_bits`].
pub(crate) fn random_jitter() -> Jitter {
    Jitter::new(random_bits())
}

/// 64 bits that no other call gets, in this process or another.
pub(crate) fn random_bits() -> u64 {
    // The standard library seeds its hashers from the operating system: the only such source without a dependency.
    // All hashers of a thread share that seed except for a counter, which the hash spreads over all bits.
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_start_over_after_a_quiet_time() {
        let mut backoff = Backoff::of_reflector();
        let start = Instant::now();
        let mut floor = Duration::from_millis(800);
        for _ in 0..8 {
            let wait = backoff.fail(start);
            assert!(wait >= floor && wait <= floor * 2, "{wait:?} for {floor:?}");
            floor = (floor * 2).min(Duration::from_secs(30));
        }
        assert!(backoff.fail(start + Duration::from_secs(121)) <= Duration::from_millis(1600));
        backoff.succeed();
        assert!(backoff.fail(start) <= Duration::from_millis(1600));
    }
}
