//! Counting work while it is done.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts work against a limit, in units of a few nanoseconds each: a comparison, or an entry of a table.
///
/// For work of which nothing says beforehand how much it will be. Several threads may count at once.
#[derive(Debug)]
pub struct WorkMeter {
    limit: u64,
    done: AtomicU64,
}

impl WorkMeter {
    /// A meter on which nothing is counted yet. It does not enforce `limit`; who works asks for [what is left](Self::left).
    pub const fn new(limit: u64) -> Self {
        Self { limit, done: AtomicU64::new(0) }
    }

    /// Counts work that was done.
    pub fn add(&self, units: u64) {
        let add = |done: u64| Some(done.saturating_add(units));
        let _ = self.done.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// How much was counted.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// How much more may be done; zero once more was counted than the limit.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.done())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_beyond_the_limit_is_counted_and_leaves_nothing() {
        let meter = WorkMeter::new(10);
        meter.add(4);
        assert_eq!((meter.done(), meter.left()), (4, 6));
        meter.add(7);
        assert_eq!((meter.done(), meter.left()), (11, 0));
        meter.add(u64::MAX);
        assert_eq!((meter.done(), meter.left()), (u64::MAX, 0));
    }
}
