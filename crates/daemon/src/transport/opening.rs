//! Sends the first request alone, so that requests which start at the same time can use its connection.
//!
//! Whether a server supports HTTP/2 is known only after the first connection. Requests that start before that would each set up
//! a connection, and a handshake with certificates on both sides costs both sides milliseconds: a scheduler lists some twenty
//! kinds at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};

/// A request waits no longer than this for the one before it: handshakes take less, servers that hang take for ever.
const PATIENCE: Duration = Duration::from_millis(300);

/// Who may go while no connection is known to work.
#[derive(Debug)]
pub(super) struct Opening {
    is_open: AtomicBool,
    turn: Mutex<()>,
    /// How long a request waits for the one before it.
    patience: Duration,
}

impl Default for Opening {
    fn default() -> Self {
        Self::new(PATIENCE)
    }
}

impl Opening {
    pub(super) fn new(patience: Duration) -> Self {
        Self { is_open: AtomicBool::default(), turn: Mutex::default(), patience }
    }

    /// Waits while another request tries whether there is a connection. What it returns is held until the answer begins.
    pub(super) async fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        if self.is_open.load(Ordering::Acquire) {
            return None;
        }
        let turn = tokio::time::timeout(self.patience, self.turn.lock()).await.ok();
        turn.filter(|_| !self.is_open.load(Ordering::Acquire))
    }

    /// A request was answered, whatever the answer, or was not.
    pub(super) fn report(&self, is_answered: bool) {
        // Usually the flag has this value already; reading it first avoids a write that other threads would see.
        if self.is_open.load(Ordering::Relaxed) != is_answered {
            self.is_open.store(is_answered, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_goes_and_the_others_follow_when_it_is_answered() {
        let opening = Opening::default();
        let first = opening.turn().now_or_never().unwrap();
        assert!(first.is_some());
        let (mut second, mut third) = (Box::pin(opening.turn()), Box::pin(opening.turn()));
        assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
        opening.report(true);
        drop(first);
        // Once the connection is open, no request waits for another one.
        let second = second.await;
        assert!(second.is_none() && third.now_or_never().unwrap().is_none());
        assert!(opening.turn().now_or_never().unwrap().is_none());
    }

    #[tokio::test]
    async fn after_a_failure_the_next_one_tries() {
        let opening = Opening::default();
        let first = opening.turn().await;
        let mut second = Box::pin(opening.turn());
        assert!((&mut second).now_or_never().is_none());
        opening.report(false);
        drop(first);
        let second = second.now_or_never().unwrap();
        assert!(second.is_some() && opening.turn().now_or_never().is_none());
        // A connection that worked and broke is tried by one again.
        opening.report(true);
        drop(second);
        opening.report(false);
        assert!(opening.turn().now_or_never().unwrap().is_some());
    }

    #[tokio::test]
    async fn a_server_that_hangs_holds_nobody_up_for_long() {
        let opening = Opening::default();
        let _first = opening.turn().await;
        let start = tokio::time::Instant::now();
        assert!(opening.turn().await.is_none());
        assert!(start.elapsed() >= PATIENCE);
    }
}
