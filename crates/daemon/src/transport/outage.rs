//! Whether the API server is away, logged once for all that talk to it.
//!
//! Invariant: between two answers of the server there is one line at most, and none before its first answer: until then the code
//! that waits for the server logs that it does.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The server answered the last request. The initial value, 0, means that no request has ended yet.
const THERE: u8 = 1;
/// It did not, and that was logged.
const AWAY: u8 = 2;

/// Shared by all clients of one server.
#[derive(Debug, Default)]
pub(super) struct Outage {
    state: AtomicU8,
    n_signs: AtomicU64,
}

impl Outage {
    /// Notes an answer, whatever its status. Returns whether that ends an outage, which is to be logged.
    pub(super) fn ends(&self) -> bool {
        self.heard();
        self.state.load(Ordering::Relaxed) != THERE
            && self.state.swap(THERE, Ordering::Relaxed) == AWAY
    }

    /// Notes a sign of life: an answer, or a part of a long one.
    pub(super) fn heard(&self) {
        self.n_signs.fetch_add(1, Ordering::Relaxed);
    }

    /// How many signs of life any client has seen. If there are no more when a request has waited in vain, the server hangs.
    pub(super) fn n_signs(&self) -> u64 {
        self.n_signs.load(Ordering::Relaxed)
    }

    /// Whether the server is away, which was logged.
    pub(super) fn is_away(&self) -> bool {
        self.state.load(Ordering::Relaxed) == AWAY
    }

    /// Notes that the server cannot be reached or hangs. Returns whether an outage begins, which is to be logged.
    pub(super) fn begins(&self) -> bool {
        self.state.compare_exchange(THERE, AWAY, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_reported_once_and_so_is_its_end() {
        let outage = Outage::default();
        assert!(!outage.begins(), "before the first answer another task waits");
        assert!(!outage.ends(), "the first answer is no news");
        assert!(!outage.ends());
        assert_eq!([outage.begins(), outage.begins(), outage.begins()], [true, false, false]);
        outage.heard();
        assert!(outage.is_away(), "only an answer ends it");
        assert_eq!([outage.ends(), outage.ends()], [true, false]);
        assert!(outage.begins());
    }
}
