//! Whether the API server is away, logged once for all that talk to it.
//!
//! Invariant: between two answers of the server there is one line at most, and none before its first answer: until then
//! somebody waits for it who says so.

use std::sync::atomic::{AtomicU8, Ordering};

/// The server answered last time. At the beginning, 0, nothing is known.
const THERE: u8 = 1;
/// It did not, and that was logged.
const AWAY: u8 = 2;

/// Shared by all clients of one server.
#[derive(Debug, Default)]
pub(super) struct Outage(AtomicU8);

impl Outage {
    /// An answer has come, whatever it says. Whether that is news worth a line.
    pub(super) fn ends(&self) -> bool {
        self.0.load(Ordering::Relaxed) != THERE && self.0.swap(THERE, Ordering::Relaxed) == AWAY
    }

    /// A request got no answer. Whether that is to be logged.
    pub(super) fn begins(&self) -> bool {
        self.0.compare_exchange(THERE, AWAY, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_reported_once_and_so_is_its_end() {
        let outage = Outage::default();
        assert!(!outage.begins(), "before the first answer somebody else waits");
        assert!(!outage.ends(), "the first answer is no news");
        assert!(!outage.ends());
        assert_eq!([outage.begins(), outage.begins(), outage.begins()], [true, false, false]);
        assert_eq!([outage.ends(), outage.ends()], [true, false]);
        assert!(outage.begins());
    }
}
