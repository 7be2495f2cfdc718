//! Ending the work on an answer early, when it is not wanted any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends the work on an answer before its time. Clones are the same one.
///
/// What is being computed looks at it between two attempts; an answer that was interrupted says that it is cut short. One that
/// is never set changes no answer.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// The answer is not wanted any more.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
