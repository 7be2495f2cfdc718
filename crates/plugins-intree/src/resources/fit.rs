//! NodeResourcesFit: a node must have what the pod asks for; nodes are scored by how full they are.
//!
//! Answers to `plugins/noderesources/{fit,resource_allocation}.go` of the reference; behaviour in
//! `docs/spec/plugins-node.md` §4.8.

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{
    ClusterView, Context, CycleState, FeasibleNodes, Filter, FilterSink, Handle, NodeIdx, NodeView,
    Plugin, PluginArgs, PluginError, PreFilter, PreFilterOutcome, PreScore, Score, Sign,
    SignatureWriter, Status, VerdictId,
};
use smallvec::SmallVec;

use super::demand::{Demand, Shortages};
use super::device_classes;
use super::fit_args::FitArgs;
use super::fit_scan::Scan;
use super::scored::{Scoring, UsedBasis};
use crate::dynamic_resources::totals::ScoredDevices;
use crate::signature::write;

pub(crate) const NAME: &str = "NodeResourcesFit";

const NO_STATE: &str = "error reading \"PreFilterNodeResourcesFit\" from cycleState: not found";

pub(crate) fn new(args: &PluginArgs, handle: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    Ok(Arc::new(Fit { args: FitArgs::new(args)?, devices: ScoredDevices::new(handle) }))
}

pub(super) struct Fit {
    pub(super) args: FitArgs,
    /// Present if device classes may serve extended resources.
    pub(super) devices: Option<ScoredDevices>,
}

impl Fit {
    /// Whether an extended resource is left to dynamic resource allocation on nodes that have none of it themselves.
    pub(super) fn is_served(&self, cluster: ClusterView<'_>, name: &str) -> bool {
        self.devices.is_some() && device_classes::serves(cluster, name)
    }

    fn scoring<'a>(&'a self, pod: &'a Pod) -> Scoring<'a> {
        Scoring {
            scorer: self.args.strategy.name(),
            resources: &self.args.resources,
            request: &pod.requests.fit_score,
            basis: UsedBasis::NonZero,
            devices: self.devices.as_ref(),
        }
    }
}

plugin!(
    Fit,
    PreFilter,
    Filter,
    PreScore,
    Score,
    PlacementBound,
    PlacementScore,
    EnqueueExtensions,
    Sign
);

impl PreFilter for Fit {
    fn pre_filter(&self, _: &Context<'_>, state: &mut CycleState, pod: &Pod) -> PreFilterOutcome {
        state.insert(Demand::of(pod, &self.args.ignored));
        PreFilterOutcome::success()
    }
}

impl Filter for Fit {
    fn filter(&self, _: &Context<'_>, state: &CycleState, _: &Pod, node: &NodeView<'_>) -> Status {
        let Some(demand) = state.get::<Demand>() else { return Status::error(NO_STATE) };
        let mut shortages = Shortages::default();
        shortages.check_pods(node.n_pods(), node.allowed_pods());
        let is_served = |name: &str| self.is_served(node.cluster(), name);
        demand.add_shortages(node.allocatable(), Some(node), is_served, &mut shortages);
        demand.answer(&shortages)
    }

    fn filter_all(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        _: &Pod,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
    ) -> Result<(), Status> {
        let Some(demand) = state.get::<Demand>() else {
            return sink.reject_each(cx, nodes, |_, _| Status::error(NO_STATE));
        };
        let scan = Scan::new(cx.cluster(), demand, |name| self.is_served(cx.cluster(), name));
        // A scan meets few distinct shortages, mostly the same one again and again.
        let mut known: SmallVec<[(Shortages, VerdictId); 8]> = SmallVec::new();
        let mut shortages = Shortages::default();
        let live = cx.cluster().live_nodes();
        scan.visit_short(nodes, |idx| {
            if !sink.is_open(idx) {
                return;
            }
            scan.check(idx, &mut shortages);
            // Slots without a node object are short of everything, but they have no node to reject.
            if shortages.is_empty() && scan.nowhere().is_empty() || !live.contains(idx) {
                return;
            }
            let id = match known.iter().find(|(seen, _)| *seen == shortages) {
                Some((_, id)) => *id,
                None => {
                    let all = shortages.and_nowhere(scan.nowhere());
                    let id = sink.code_for(demand.rejection(&all));
                    known.push((shortages.clone(), id));
                    id
                }
            };
            sink.reject_with(idx, id);
        });
        Ok(())
    }
}

impl PreScore for Fit {
    fn pre_score(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        _: &Pod,
        _: &FeasibleNodes<'_>,
    ) -> Status {
        // What a pod asks for is totalled when the pod is compiled.
        Status::SUCCESS
    }
}

impl Score for Fit {
    fn score(
        &self,
        _: &Context<'_>,
        _: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status> {
        Ok(self.scoring(pod).of_node(node, &self.args.strategy))
    }

    fn score_all(
        &self,
        cx: &Context<'_>,
        _: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        self.scoring(pod).of_nodes(cx.cluster(), pod, nodes, scores, &self.args.strategy);
        Ok(())
    }

    fn promises_bounds(&self) -> bool {
        true
    }
}

impl Sign for Fit {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        write(&pod.requests.fit, signature);
        write(&pod.requests.fit_score, signature);
        true
    }
}
