//! How often the status of a pod is written.

use std::time::Duration;

use kube_scheduler_framework::ApiError;

const MAX_TRIES: u32 = 4;

/// How long it takes to try again for the first time; five times as long each time after.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// How often a write was tried.
#[derive(Clone, Copy, Default)]
pub(super) struct PodTries(u32);

impl PodTries {
    /// It is tried now.
    pub(super) fn count(&mut self) {
        self.0 += 1;
    }

    /// How long to wait before it is tried again; `None` if it has failed for good.
    pub(super) fn pause_after(self, error: &ApiError) -> Option<Duration> {
        let is_passing =
            matches!(&*error.reason, "InternalError" | "ServiceUnavailable" | "Conflict");
        (is_passing && self.0 < MAX_TRIES)
            .then(|| FIRST_PAUSE * 5_u32.pow(self.0.saturating_sub(1)))
    }
}
