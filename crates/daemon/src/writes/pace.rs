//! How fast and how many at once: a fixed rate where one was asked for, else as much as the server takes.
//!
//! Invariant: at least [`FEWEST`] requests may be under way, whatever the server says, so that nothing stops for good.

use std::time::Duration;

use tokio::time::Instant;

const FEWEST: usize = 4;

/// A limit on requests per second, as `clientConnection.qps` and `burst` give it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests per second in the long run.
    pub qps: f64,
    /// Requests that may go out at once after a pause.
    pub burst: u32,
}

/// A bucket of permissions that fills at a fixed rate; without a limit it never runs dry.
#[derive(Debug)]
pub(crate) struct Bucket {
    limit: Option<RateLimit>,
    level: f64,
    filled: Instant,
}

impl Bucket {
    pub(crate) fn new(limit: Option<RateLimit>, now: Instant) -> Self {
        let limit = limit.filter(|limit| limit.qps > 0.0);
        Self { limit, level: limit.map_or(0.0, |limit| f64::from(limit.burst.max(1))), filled: now }
    }

    /// Takes a permission, or says when the next one will be there.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let Some(limit) = self.limit else { return Ok(()) };
        let since = now.saturating_duration_since(self.filled).as_secs_f64();
        self.level = (self.level + since * limit.qps).min(f64::from(limit.burst.max(1)));
        self.filled = now;
        if self.level >= 1.0 {
            self.level -= 1.0;
            return Ok(());
        }
        Err(now + Duration::from_secs_f64((1.0 - self.level) / limit.qps))
    }
}

/// How many requests may be under way: fewer when the server pushes back, more again while it does not.
#[derive(Debug)]
pub(crate) struct Width {
    most: usize,
    now: f64,
    narrowed: Option<Instant>,
}

impl Width {
    pub(crate) fn new(most: usize) -> Self {
        let most = most.max(FEWEST);
        Self { most, now: most as f64, narrowed: None }
    }

    pub(crate) fn get(&self) -> usize {
        self.now as usize
    }

    /// A request went through: one more per full round of them.
    pub(crate) fn widen(&mut self) {
        self.now = (self.now + 1.0 / self.now).min(self.most as f64);
    }

    /// The server said it is too much. Answers to requests of the same moment count once.
    pub(crate) fn narrow(&mut self, now: Instant) {
        if self
            .narrowed
            .is_some_and(|last| now.saturating_duration_since(last) < Duration::from_secs(1))
        {
            return;
        }
        self.narrowed = Some(now);
        self.now = (self.now / 2.0).max(FEWEST as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(Some(RateLimit { qps: 10.0, burst: 3 }), start);
        for _ in 0..3 {
            assert_eq!(bucket.take(start), Ok(()));
        }
        let next = bucket.take(start).unwrap_err();
        assert!((next - start).as_millis().abs_diff(100) <= 1);
        assert_eq!(bucket.take(start + Duration::from_millis(101)), Ok(()));
        assert!(bucket.take(start + Duration::from_millis(102)).is_err());
        let mut unlimited = Bucket::new(None, start);
        assert!((0..1000).all(|_| unlimited.take(start).is_ok()));
    }

    #[test]
    fn width_halves_on_push_back_and_recovers() {
        let start = Instant::now();
        let mut width = Width::new(64);
        width.narrow(start);
        width.narrow(start);
        assert_eq!(width.get(), 32);
        for second in 1..20 {
            width.narrow(start + Duration::from_secs(second));
        }
        assert_eq!(width.get(), FEWEST);
        for _ in 0..10_000 {
            width.widen();
        }
        assert_eq!(width.get(), 64);
    }
}
