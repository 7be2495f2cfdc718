//! Waiting for a state.

use std::time::Duration;

use tokio::time::Instant;

/// Nothing takes as long, unless it is broken.
const DEADLINE: Duration = Duration::from_secs(180);

/// Waits for something to become true.
///
/// # Panics
/// If it has not after three minutes.
pub(crate) async fn until(what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_true().await {
        assert!(Instant::now() < deadline, "{what}: not within {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}
