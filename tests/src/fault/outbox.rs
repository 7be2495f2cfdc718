//! What a scheduler's shell still has to write: one pod's writes in order, at most one of them under way.
//!
//! The promise is that of the daemon's lanes, but not the order: lanes start the most urgent write that came first, while
//! here the simulation picks any that may start, so that what holds does not hang on the order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use kube_scheduler_api_types::Object;
use kube_scheduler_engine::{PodRef, StatusPatch, Token};

/// A write for a pod.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Bind { token: Token, pod: PodRef, node: Arc<str>, is_work: bool },
    Evict { token: Token, pod: PodRef, patch: Option<StatusPatch> },
    ClearNomination { token: Token, pod: PodRef },
    Patch { pod: PodRef, patch: StatusPatch },
    Object { token: Token, pod: PodRef, object: Arc<Object> },
}

impl Write {
    pub(super) const fn pod(&self) -> &PodRef {
        match self {
            Self::Bind { pod, .. }
            | Self::Evict { pod, .. }
            | Self::ClearNomination { pod, .. }
            | Self::Patch { pod, .. }
            | Self::Object { pod, .. } => pod,
        }
    }

    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Bind { .. } => "binding",
            Self::Evict { .. } => "eviction",
            Self::ClearNomination { .. } => "clearing",
            Self::Patch { .. } => "patch",
            Self::Object { .. } => "object",
        }
    }
}

#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Write>,
    is_busy: bool,
}

/// All pods' writes.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    lanes: BTreeMap<Arc<str>, Lane>,
}

impl Outbox {
    pub(super) fn push(&mut self, write: Write) {
        let lane = self.lanes.entry(write.pod().uid.clone()).or_default();
        if let (Write::Patch { patch: newer, .. }, Some(Write::Patch { patch: waiting, .. })) =
            (&write, lane.waiting.back_mut())
            && waiting.absorb(newer)
        {
            return;
        }
        lane.waiting.push_back(write);
    }

    /// The pods whose next write could start.
    pub(super) fn startable(&self) -> Vec<Arc<str>> {
        let may_start = |lane: &Lane| !lane.is_busy && !lane.waiting.is_empty();
        let lanes = self.lanes.iter().filter(|(_, lane)| may_start(lane));
        lanes.map(|(uid, _)| uid.clone()).collect()
    }

    /// Starts a pod's next write. [`finish`](Self::finish) must follow.
    pub(super) fn start(&mut self, uid: &str) -> Option<Write> {
        let lane = self.lanes.get_mut(uid)?;
        let write = lane.waiting.pop_front()?;
        lane.is_busy = true;
        Some(write)
    }

    /// A pod's write has ended.
    pub(super) fn finish(&mut self, uid: &str) {
        let Some(lane) = self.lanes.get_mut(uid) else { return };
        lane.is_busy = false;
        if lane.waiting.is_empty() {
            self.lanes.remove(uid);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }
}
