//! Ending the work on an answer early, when it is not wanted any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that ends the work on an answer early. Clones share the flag.
///
/// The computation checks it before each pod that is tried, also before each member of a pod group. An answer that was interrupted says that it is cut short; a flag that is
/// never set changes no answer.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Asks for the work to end: the answer is not wanted any more.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The flag itself, for the engine that is asked.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }

    /// Whether it was set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
