//! How long lists and watches are waited for.

use std::time::Duration;

/// How patient a scheduler is with lists and watches.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For the answer to a list, and for a watch to begin. A minute by default.
    pub answer: Duration,
    /// Between two initial events of a streaming list, before a paged list is tried instead. Servers before 1.27 know no
    /// such lists and send nothing more without an error. A quarter of a minute by default.
    pub initial_events: Duration,
    /// A watch that is silent for so long is taken for dead. Servers send a bookmark about every minute. Three minutes by
    /// default.
    pub silence: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(60),
            initial_events: Duration::from_secs(15),
            silence: Duration::from_secs(180),
        }
    }
}
