//! Waits that grow with every failure, spread at random so that many clients do not come back together.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, Instant};

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
            jitter: Jitter::seeded_at_random(),
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

/// A small random generator; nothing it decides can be seen in a scheduling decision.
#[derive(Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn seeded_at_random() -> Self {
        Self(Self::random_bits())
    }

    /// Bits that nobody else has.
    pub(crate) fn random_bits() -> u64 {
        // The standard library seeds its hashers from the operating system: the only such source without a dependency.
        // All hashers of a thread share that seed but for a counter, which the hash spreads over all bits.
        RandomState::new().build_hasher().finish()
    }

    /// `length`, stretched by up to `share` of itself.
    pub(crate) fn stretch(&mut self, length: Duration, share: f64) -> Duration {
        length.mul_f64(1.0 + share * self.next_share())
    }

    /// A number from 0 up to 1.
    pub(crate) fn next_share(&mut self) -> f64 {
        (self.next_bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A random UUID (version 4).
    pub(crate) fn uuid(&mut self) -> String {
        let (high, low) = (self.next_bits(), self.next_bits());
        let high = (high & !0xf000) | 0x4000;
        let low = (low & !(0b11 << 62)) | (0b10 << 62);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// 64 random bits.
    pub(crate) fn next_bits(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
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
