//! PostFilter, and what it may try out.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::NodeIdx;

use crate::context::{Commands, Context};
use crate::cycle_state::CycleState;
use crate::preemption::{EvictionTrials, PreemptionCandidate, PreemptionReport};
use crate::status::{Code, PluginName, Status};
use crate::verdicts::Verdicts;

/// What happens to the pod's nomination, the node that is reserved for it while preemption makes room there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NominatingInfo {
    /// Leave it as the pod object says.
    Keep,
    /// Replace it: by a node, or by none.
    Override(Option<Arc<str>>),
}

/// The outcome of PostFilter: which pods to evict for the pod, and where it may then fit.
#[derive(Clone, Debug)]
pub struct PostFilterOutcome {
    /// What happens to the nomination; `None` when the plugin has no opinion.
    pub nominating: Option<NominatingInfo>,
    /// Pods to evict so that the nominated node has room, most important first.
    pub victims: Vec<Arc<Pod>>,
    /// The plugin whose answer this is. Filled in by the engine.
    pub found_by: Option<PluginName>,
    /// Success when the pod can be expected to fit soon, a rejection otherwise.
    pub status: Status,
}

impl PostFilterOutcome {
    /// An answer that leaves the nomination alone and evicts no pod.
    pub fn without_nomination(status: Status) -> Self {
        Self { nominating: None, victims: Vec::new(), found_by: None, status }
    }
}

/// Runs a profile's filters on nodes as they would be after hypothetical changes.
pub trait HypotheticalFilter: Sync {
    /// For trying nodes without some of their pods. `state` is what PreFilter left behind.
    fn eviction_trials<'a>(
        &'a self,
        cx: &Context<'a>,
        state: &'a CycleState,
        pod: &'a Pod,
    ) -> Box<dyn EvictionTrials + 'a>;
}

/// What extenders leave of candidates, or the error of one.
type ExtenderPreemption<'a> =
    dyn Fn(Vec<PreemptionCandidate>) -> Result<Vec<PreemptionCandidate>, Status> + 'a;

/// What a PostFilter plugin may read and use in one call.
pub struct PostFilterContext<'a> {
    /// The usual context.
    pub cx: Context<'a>,
    /// Why each node was rejected that has an answer of its own.
    pub verdicts: &'a Verdicts,
    /// The answer of all other nodes.
    pub absent: &'a Status,
    /// The profile's filters, for hypothetical nodes.
    pub filters: &'a dyn HypotheticalFilter,
    /// Has the extenders drop candidates and change victims; `None` when there are no extenders. Candidates keep their
    /// order. The error is that of an extender that must not be ignored.
    pub extenders: Option<&'a ExtenderPreemption<'a>>,
    /// A random number that depends on the engine's seed and the attempt alone.
    pub random: u64,
    /// Requests to the engine, carried out after the call.
    pub commands: &'a mut Commands,
    /// Where a plugin that preempts records how it decided, for explanations; `None` in attempts.
    pub report: Option<&'a mut PreemptionReport>,
}

impl PostFilterContext<'_> {
    /// Why a node was rejected.
    pub fn status(&self, node: NodeIdx) -> &Status {
        self.verdicts.rejection(node).unwrap_or(self.absent)
    }

    /// The nodes of `order` whose status has `code`. Looks at each distinct status once, then at one number per node.
    pub fn nodes_with_code(&self, order: &[NodeIdx], code: Code) -> Vec<NodeIdx> {
        self.verdicts.select(order, |status| status.unwrap_or(self.absent).code() == code)
    }
}

/// Looks for a way to make the pod fit when no node does, such as preemption.
pub trait PostFilter: Send + Sync {
    /// Called once per attempt that found no node. Success means that the pod was nominated and ends the chain;
    /// `Unschedulable` hands over to the next plugin.
    fn post_filter(
        &self,
        cx: &mut PostFilterContext<'_>,
        state: &CycleState,
        pod: &Arc<Pod>,
    ) -> PostFilterOutcome;
}
