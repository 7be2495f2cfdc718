//! Extenders: other programs that are consulted in every scheduling attempt.
//!
//! An extender is called for each pod while the attempt runs. [`Extenders`] decides what is asked in which order and what
//! the answers mean; an implementation of [`Extender`] only carries the request to the program and back. The engine does
//! no IO itself: the program that creates it supplies the implementations.
//!
//! Invariant: decisions follow from the answers alone, not from how long they took or in which order they came.
//!
//! Behaviour: `docs/spec/config.md` §7, `docs/spec/core.md` §4.5 and §4.6, `docs/spec/preemption.md` §6.1.

mod asking;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::{Node, Pod};
use kube_scheduler_framework::preemption::PreemptionCandidate;
use kube_scheduler_framework::{BoxFuture, Status};

pub use asking::{ExtenderVerdicts, Extenders};

/// The highest score that an extender is expected to give. Nothing clamps to it; it only fixes the scale.
const MAX_EXTENDER_PRIORITY: i64 = 10;

/// What an extender can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtenderVerbs {
    /// Whether it narrows the nodes.
    pub filter: bool,
    /// Whether it scores nodes.
    pub prioritize: bool,
    /// Whether it accepts, rejects or changes the candidates of preemption.
    pub preempt: bool,
    /// Whether it binds pods.
    pub bind: bool,
}

/// An extender's answer to a filter request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderFilterResult {
    /// The names of the nodes that pass. Each must be among those asked about.
    pub nodes: Vec<String>,
    /// Rejected nodes where preemption may help, with the reason.
    pub failed: BTreeMap<String, String>,
    /// Rejected nodes where preemption cannot help, with the reason. Takes precedence if a node is in both maps.
    pub failed_and_unresolvable: BTreeMap<String, String>,
}

/// One node's score by an extender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPriority {
    /// The name of the node.
    pub host: String,
    /// The score, nominally 0 to 10.
    pub score: i64,
}

/// Scores that are being computed; calling it waits for them.
pub type PendingPriorities =
    Box<dyn FnOnce() -> Result<Vec<HostPriority>, ExtenderCallError> + Send>;

/// Why a request to an extender has no answer that can be used: in the extender's words, or in those of who sent the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ExtenderCallError(String);

impl From<String> for ExtenderCallError {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

/// The pods that an extender wants evicted on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderVictims {
    /// The UIDs of the pods.
    pub uids: Vec<String>,
    /// How many of them a disruption budget protects.
    pub n_pdb_violations: i64,
}

/// How the scheduler used an extender's answer, for the log.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ExtenderReport<'a> {
    /// Its filter failed and, as it may be ignored, the nodes stay as they were.
    FilterIgnored {
        /// Why.
        error: &'a str,
    },
    /// Scoring failed; the extender adds nothing to the scores.
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

/// Another program that is consulted in every scheduling attempt.
///
/// Every method but [`bind`](Self::bind) is called on the engine's thread, which waits for the answer: implementations
/// need a timeout of their own. An error or a panic fails the attempt, unless the extender is
/// [ignorable](Self::is_ignorable).
pub trait Extender: Send + Sync + 'static {
    /// The name, as messages write it.
    fn name(&self) -> &str;

    /// The requests that it supports. Constant for the life of the extender.
    fn verbs(&self) -> ExtenderVerbs;

    /// Whether the attempt goes on without the extender when a request to it fails.
    fn is_ignorable(&self) -> bool {
        false
    }

    /// The factor that its scores are multiplied by.
    fn weight(&self) -> i64 {
        1
    }

    /// Whether the extender is to be consulted about the pod. Must depend on the pod alone.
    fn is_interested(&self, pod: &Pod) -> bool {
        let _ = pod;
        true
    }

    /// Decides which of `nodes` pass. Only called with [`ExtenderVerbs::filter`], and never with an empty list.
    ///
    /// # Errors
    /// If there is no answer.
    fn filter(
        &self,
        pod: &Arc<Pod>,
        nodes: &[Arc<Node>],
    ) -> Result<ExtenderFilterResult, ExtenderCallError> {
        let _ = (pod, nodes);
        Err(format!("extender {} does not filter", self.name()).into())
    }

    /// Starts to score `nodes`. Only called with [`ExtenderVerbs::prioritize`]. All extenders are started before the engine
    /// waits for the first.
    fn prioritize(&self, pod: &Arc<Pod>, nodes: &[Arc<Node>]) -> PendingPriorities {
        let _ = (pod, nodes);
        let error = format!("extender {} does not prioritize", self.name());
        Box::new(|| Err(error.into()))
    }

    /// Decides which of `candidates` are acceptable, and with which victims, by node name. Only called with
    /// [`ExtenderVerbs::preempt`], and never with an empty list.
    ///
    /// # Errors
    /// If there is no answer.
    fn preempt(
        &self,
        pod: &Arc<Pod>,
        candidates: &[(Arc<Node>, PreemptionCandidate)],
    ) -> Result<BTreeMap<String, ExtenderVictims>, ExtenderCallError> {
        let _ = (pod, candidates);
        Err(format!("preempt verb is not defined for extender {}", self.name()).into())
    }

    /// Work that binds `pod` to `node`, to be awaited outside the core. Ends in success or an error. Only called with
    /// [`ExtenderVerbs::bind`].
    fn bind(&self, pod: &Arc<Pod>, node: &str) -> BoxFuture<Status> {
        let _ = (pod, node);
        Box::pin(std::future::ready(Status::error("unexpected empty bindVerb in extender")))
    }

    /// Notified of how its answers were used.
    fn report(&self, report: ExtenderReport<'_>) {
        let _ = report;
    }
}

impl std::fmt::Debug for dyn Extender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Extender({:?})", self.name())
    }
}
