//! Decides when to stop an engine that runs in virtual time, because nothing will change any more.
//!
//! Invariant: a caller that does what [`Idleness::next`] returns terminates. Between two steps of progress at most
//! [`MAX_IDLE`] of virtual time passes.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{KeyedMap, Timestamp};
use kube_scheduler_engine::Engine;

/// Longer than any wait of the engine: 15 minutes on Permit, 5 minutes without an event, 10 s of backoff. Configuration can
/// make the backoff longer, but a pod that has not been placed by then will not be placed later.
pub const MAX_IDLE: Duration = Duration::from_secs(2 * 60 * 60);

/// Which pods have been tried since the last step of progress: a pod got its node, was evicted, or something happened from
/// outside.
#[derive(Clone, Debug)]
pub struct Idleness {
    n_progress: u64,
    last_progress: Timestamp,
    /// The number of steps of progress before the last attempt at a pod, by UID.
    tried_at: KeyedMap<Arc<str>, u64>,
}

/// What to do when no pod is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Let time pass until then: something is due at that time.
    WaitUntil(Timestamp),
    /// Nothing more happens by itself, however long one waits.
    Over,
    /// Pods could be tried again, but none has been placed for [`MAX_IDLE`].
    GivenUp,
}

impl Idleness {
    /// A state in which no pod has been tried yet.
    pub fn new(now: Timestamp) -> Self {
        Self { n_progress: 0, last_progress: now, tried_at: KeyedMap::default() }
    }

    /// Notes an attempt at the pod with this UID.
    pub fn tried(&mut self, uid: &Arc<str>) {
        self.tried_at.insert(uid.clone(), self.n_progress);
    }

    /// Notes a step of progress. After it, every pod is worth another attempt.
    pub fn progressed(&mut self, now: Timestamp) {
        self.n_progress += 1;
        self.last_progress = now;
    }

    /// What the caller has to do next when no pod is ready. O(pending pods).
    pub fn next(&self, engine: &Engine, now: Timestamp) -> NextStep {
        let Some(deadline) = engine.next_deadline().filter(|_| !self.is_over(engine)) else {
            return NextStep::Over;
        };
        let next = deadline.max(now);
        match next.saturating_since(self.last_progress) > MAX_IDLE {
            true => NextStep::GivenUp,
            false => NextStep::WaitUntil(next),
        }
    }

    /// Whether every pod that can be tried has been tried since the last progress, and nothing is under way.
    fn is_over(&self, engine: &Engine) -> bool {
        let mut waiting = engine.queue().pending_pods().filter(|(_, queued)| !queued.is_gated());
        engine.n_binding() == 0
            && waiting.all(|(_, queued)| {
                self.tried_at.get(&queued.entry().0.uid) == Some(&self.n_progress)
            })
    }
}
