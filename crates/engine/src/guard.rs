//! Keeps a plugin's panic inside the attempt it was called for.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_scheduler_framework::Status;
use kube_scheduler_runtime::panic_message;

/// Runs a call into a plugin; a panic becomes an error status.
///
/// What the call may have left half done must be dropped by the caller, or not matter.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Status> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic_message(&*panic).unwrap_or("no message");
        Status::error(format!("plugin panicked: {text}"))
    })
}
