//! Extenders: other programs that have a say in every attempt.
//!
//! An extender is asked about single pods while the attempt runs, so that it may know what no plugin can. What it is asked,
//! in which order, and what its answers mean is [`Extenders`]' business; how the question gets to it and back is the
//! implementation's. The core stays free of that: whoever makes the engine brings the implementations.
//!
//! Invariant: decisions follow from the answers alone, not from how long they took or in which order they came.
//!
//! Behaviour: `spec/config.md` §7, `spec/core.md` §4.5 and §4.6, `spec/preemption.md` §6.1.

mod asking;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::{Node, Pod};
use kube_scheduler_cache::NodeIdx;

use crate::points::StatusFuture;

pub use asking::{ExtenderScores, ExtenderVerdicts, Extenders};

/// The pseudo-plugin that stands for all extenders among those that turned a pod down.
pub const EXTENDER: &str = kube_scheduler_queue::EXTENDER_PLUGIN;

/// The highest score that an extender is expected to give. Nothing clamps to it; it only fixes the scale.
pub const MAX_EXTENDER_PRIORITY: i64 = 10;

/// What an extender can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtenderVerbs {
    /// Which nodes will do.
    pub filter: bool,
    /// How good nodes are.
    pub prioritize: bool,
    /// Which evictions will do.
    pub preempt: bool,
    /// To bind.
    pub bind: bool,
}

/// What an extender says about nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderFilterResult {
    /// The names of the nodes that will do. Each must be among those asked about.
    pub nodes: Vec<String>,
    /// Nodes that will not do, and why; preemption may help.
    pub failed: BTreeMap<String, String>,
    /// The same where preemption cannot help. Counts if a node is in both.
    pub failed_and_unresolvable: BTreeMap<String, String>,
}

/// One node's score by an extender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPriority {
    /// The node.
    pub host: String,
    /// The score, nominally 0 to [`MAX_EXTENDER_PRIORITY`].
    pub score: i64,
}

/// Scores that are being computed; calling it waits for them.
pub type PendingPriorities = Box<dyn FnOnce() -> Result<Vec<HostPriority>, String> + Send>;

/// A node that would fit a pod without some others.
#[derive(Clone, Debug)]
pub struct PreemptionCandidate {
    /// Which node.
    pub node: NodeIdx,
    /// Whom to evict there, most important first.
    pub victims: Vec<Arc<Pod>>,
    /// How many of them a disruption budget protects.
    pub n_pdb_violations: i64,
}

/// Whom an extender wants evicted on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderVictims {
    /// The UIDs of the pods.
    pub uids: Vec<String>,
    /// How many of them a disruption budget protects.
    pub n_pdb_violations: i64,
}

/// What became of an extender's answer, for its log.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ExtenderReport<'a> {
    /// Its filter failed and, as it may be ignored, the nodes stay as they were.
    FilterIgnored {
        /// Why.
        error: &'a str,
    },
    /// It gave no scores.
    NotScored {
        /// For which pod.
        pod: &'a Pod,
        /// Why.
        error: &'a str,
    },
    /// It gave a node this score.
    Scored {
        /// For which pod.
        pod: &'a Pod,
        /// Which node.
        node: &'a str,
        /// The score as given.
        score: i64,
    },
    /// Its answer about preemption failed and, as it may be ignored, the candidates stay as they were.
    PreemptIgnored {
        /// Why.
        error: &'a str,
    },
    /// It named no victims on a node, which therefore is no candidate any more.
    NoVictims {
        /// Which node.
        node: &'a str,
    },
    /// It failed to bind and, as it may be ignored, others are asked.
    BindIgnored {
        /// Why.
        error: &'a str,
    },
}

/// Another program that has a say.
///
/// Every method but [`bind`](Self::bind) is called on the core's thread, which waits for the answer: implementations must
/// end within a time of their own. An error text fails the attempt, unless the extender may be ignored; so does a panic.
pub trait Extender: Send + Sync + 'static {
    /// The name, as messages write it.
    fn name(&self) -> &str;

    /// What it can be asked for. The same for the life of the extender.
    fn verbs(&self) -> ExtenderVerbs;

    /// Whether its failures are passed over.
    fn is_ignorable(&self) -> bool {
        false
    }

    /// Multiplies its scores.
    fn weight(&self) -> i64 {
        1
    }

    /// Whether the pod concerns it. Must depend on the pod alone.
    fn is_interested(&self, pod: &Pod) -> bool {
        let _ = pod;
        true
    }

    /// Which of `nodes` will do. Only called with [`ExtenderVerbs::filter`], and never without nodes.
    fn filter(&self, pod: &Arc<Pod>, nodes: &[Arc<Node>]) -> Result<ExtenderFilterResult, String> {
        let _ = (pod, nodes);
        Err(format!("extender {} does not filter", self.name()))
    }

    /// Begins to score `nodes`. Only called with [`ExtenderVerbs::prioritize`]. All extenders begin before any is waited for.
    fn prioritize(&self, pod: &Arc<Pod>, nodes: &[Arc<Node>]) -> PendingPriorities {
        let _ = (pod, nodes);
        let error = format!("extender {} does not prioritize", self.name());
        Box::new(|| Err(error))
    }

    /// Which of `candidates` will do, and with which victims: by node name. Only called with [`ExtenderVerbs::preempt`], and
    /// never without candidates.
    fn preempt(
        &self,
        pod: &Arc<Pod>,
        candidates: &[(Arc<Node>, PreemptionCandidate)],
    ) -> Result<BTreeMap<String, ExtenderVictims>, String> {
        let _ = (pod, candidates);
        Err(format!("preempt verb is not defined for extender {}", self.name()))
    }

    /// Work that binds `pod` to `node`, to be awaited outside the core. Ends in success or an error. Only called with
    /// [`ExtenderVerbs::bind`].
    fn bind(&self, pod: &Arc<Pod>, node: &str) -> StatusFuture {
        let _ = (pod, node);
        Box::pin(std::future::ready(crate::Status::error("unexpected empty bindVerb in extender")))
    }

    /// Told what became of its answers.
    fn report(&self, report: ExtenderReport<'_>) {
        let _ = report;
    }
}

impl std::fmt::Debug for dyn Extender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Extender({:?})", self.name())
    }
}
