//! Where time comes from.
//!
//! Invariant: nothing in this crate reads the wall clock except [`SystemClock`], so a test that passes a
//! [`FixedClock`] gets the same timestamps on every run. Timers (latencies, bookmarks) run on tokio's clock.

use std::sync::Mutex;

use jiff::Timestamp;
use kube_scheduler_api_types::lock;

/// The source of the times that are written into objects, such as creation timestamps.
pub trait Clock: Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// The clock of the machine.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock for tests: it stands still until it is moved.
#[derive(Debug)]
pub struct FixedClock {
    now: Mutex<Timestamp>,
}

impl FixedClock {
    /// A clock that shows `now`.
    pub fn new(now: Timestamp) -> Self {
        Self { now: Mutex::new(now) }
    }

    /// Moves the clock by `seconds`, which may be negative; does nothing if the result is out of range.
    pub fn advance(&self, seconds: i64) {
        let mut now = lock(&self.now);
        *now = add_seconds(*now, seconds);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        *lock(&self.now)
    }
}

/// `at` plus `seconds`, or `at` itself when the sum cannot be represented.
pub(crate) fn add_seconds(at: Timestamp, seconds: i64) -> Timestamp {
    Timestamp::from_second(at.as_second().saturating_add(seconds)).unwrap_or(at)
}

/// Whole seconds in RFC 3339, the form of `metav1.Time`.
pub(crate) fn to_rfc3339(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}
