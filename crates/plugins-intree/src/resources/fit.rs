//! NodeResourcesFit: a node must have what the pod asks for; nodes are scored by how full they are.
//!
//! Answers to `plugins/noderesources/{fit,resource_allocation}.go` of the reference; behaviour in
//! `docs/spec/plugins-node.md` §4.8.

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::groups::{
    GroupDemand, PlacedGroup, PlacementBound, PlacementScore, ProposedPlacement,
};
use kube_scheduler_framework::{
    ClusterView, Context, CycleState, EnqueueExtensions, EventRegistration, FeasibleNodes, Filter,
    FilterSink, Handle, NodeIdx, NodeView, Plugin, PluginArgs, PluginError, PreFilter,
    PreFilterOutcome, PreScore, Score, Sign, SignatureWriter, Status, VerdictId,
};
use smallvec::SmallVec;

use super::demand::{Demand, Shortages};
use super::device_classes;
use super::fit_args::FitArgs;
use super::fit_bound;
use super::fit_hints;
use super::fit_placement;
use super::fit_scan::Scan;
use super::listing::Listing;
use super::scored::{Plan, UsedBasis};
use crate::dynamic_resources::totals::ScoredDevices;
use crate::signature::write_resources;

pub(crate) const NAME: &str = "NodeResourcesFit";

const NO_STATE: &str = "error reading \"PreFilterNodeResourcesFit\" from cycleState: not found";

pub(crate) fn new(args: &PluginArgs, handle: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    Ok(Arc::new(Fit { args: FitArgs::new(args)?, devices: ScoredDevices::new(handle) }))
}

struct Fit {
    args: FitArgs,
    /// Present if device classes may serve extended resources.
    devices: Option<ScoredDevices>,
}

impl Fit {
    /// Whether an extended resource is left to dynamic resource allocation on nodes that have none of it themselves.
    fn is_served(&self, cluster: ClusterView<'_>, name: &str) -> bool {
        self.devices.is_some() && device_classes::serves(cluster, name)
    }

    fn shortages_on(&self, demand: &Demand, node: &NodeView<'_>) -> Shortages {
        let mut shortages = Shortages::default();
        shortages.check_pods(node.n_pods(), node.allowed_pods());
        let is_served = |name: &str| self.is_served(node.cluster(), name);
        demand.add_shortages_on(node, is_served, &mut shortages);
        shortages
    }

    fn plan(&self, pod: &Pod) -> Plan<'_> {
        Plan::new(&self.args.resources, &pod.requests.fit_score, UsedBasis::NonZero)
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

impl PlacementBound for Fit {
    fn rules_out(&self, cx: &Context<'_>, demand: GroupDemand<'_>) -> Option<String> {
        let cluster = cx.cluster();
        fit_bound::rules_out(cluster, demand, &self.args.ignored, |name| {
            self.is_served(cluster, name)
        })
    }
}

impl PlacementScore for Fit {
    fn score(
        &self,
        cx: &Context<'_>,
        _: PlacedGroup<'_>,
        ProposedPlacement { placement, assignments }: ProposedPlacement<'_>,
    ) -> Result<i64, Status> {
        let resources = &self.args.resources;
        Ok(fit_placement::score(cx.cluster(), resources, &placement.nodes, assignments))
    }

    fn goes_by_members(&self) -> bool {
        true
    }
}

impl PreFilter for Fit {
    fn pre_filter(&self, _: &Context<'_>, state: &mut CycleState, pod: &Pod) -> PreFilterOutcome {
        state.insert(Demand::of(pod, &self.args.ignored));
        PreFilterOutcome::success()
    }
}

impl Filter for Fit {
    fn filter(&self, _: &Context<'_>, state: &CycleState, _: &Pod, node: &NodeView<'_>) -> Status {
        let Some(demand) = state.get::<Demand>() else { return Status::error(NO_STATE) };
        let shortages = self.shortages_on(demand, node);
        if shortages.is_empty() { Status::SUCCESS } else { demand.rejection(&shortages) }
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
        let plan = self.plan(pod);
        let totals = plan.totals(self.devices.as_ref(), node.cluster());
        Ok(self.args.strategy.score(plan.on_view(node, totals.as_ref())))
    }

    fn score_all(
        &self,
        cx: &Context<'_>,
        _: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        let plan = self.plan(pod);
        let strategy = &self.args.strategy;
        let totals = plan.totals(self.devices.as_ref(), cx.cluster());
        let scan = plan.over(cx.cluster());
        if totals.is_some() {
            for (&idx, score) in nodes.iter().zip(scores.iter_mut()) {
                let node = cx.cluster().node(idx);
                *score =
                    node.map_or(0, |node| strategy.score(plan.on_view(&node, totals.as_ref())));
            }
        } else {
            for (&idx, score) in nodes.iter().zip(scores.iter_mut()) {
                *score = strategy.score(scan.at(idx));
            }
        }
        let (resources, request) = (&self.args.resources, &pod.requests.fit_score);
        let (scorer, basis) = (strategy.name(), UsedBasis::NonZero);
        let listing = Listing { scorer, resources, request, basis, totals: totals.as_ref() };
        listing.log(cx.cluster(), pod, nodes, scores);
        Ok(())
    }

    fn promises_bounds(&self) -> bool {
        true
    }
}

impl Sign for Fit {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        write_resources(&pod.requests.fit, signature);
        write_resources(&pod.requests.fit_score, signature);
        true
    }
}

impl EnqueueExtensions for Fit {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        fit_hints::events(self.devices.is_some())
    }
}
