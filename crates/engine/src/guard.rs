//! Keeps a plugin's panic inside the attempt it was called for.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_scheduler_framework::Status;

/// Runs a call into a plugin; a panic becomes an error status.
///
/// What the call may have left half done must be dropped by the caller, or not matter.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Status> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Status::error(panic_text(&*panic)))
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("plugin panicked: {}", text.unwrap_or_else(|| "no message".to_owned()))
}
