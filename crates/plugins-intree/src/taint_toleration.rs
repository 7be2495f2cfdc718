//! TaintToleration: hard taints keep pods away that do not tolerate them, soft ones make a node less attractive.
//!
//! Answers to `plugins/tainttoleration/taint_toleration.go` of the reference; behaviour in `docs/spec/plugins-node.md` §2.8
//! and §4.5. Scans look at each distinct list of taints once, however many nodes carry it.

use std::sync::Arc;

use kube_scheduler_framework::api::{Pod, Taint, TaintEffect, Toleration, untolerated_taint};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, Context, CycleState, EnqueueExtensions, EventRegistration,
    EventResource, FeasibleNodes, Filter, FilterSink, Handle, NodeIdx, NodeView, Normalization,
    Plugin, PluginArgs, PluginError, PreScore, QueueingHint, Score, Sign, SignatureWriter, Status,
    extension_points,
};

use crate::event_objects;
use crate::signature::write_tolerations;

pub(crate) const NAME: &str = "TaintToleration";

const REASON: &str = "node(s) had untolerated taint(s)";
const NO_STATE: &str = "failed to read \"PreScoreTaintToleration\" from cycleState: not found";

pub(crate) fn new(_: &PluginArgs, handle: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    Ok(Arc::new(TaintToleration {
        compares_numbers: handle.is_enabled("TaintTolerationComparisonOperators"),
        rejection: Status::unresolvable(REASON).from_plugin(&NAME.into()),
    }))
}

struct TaintToleration {
    /// Whether `Lt` and `Gt` tolerations count.
    compares_numbers: bool,
    rejection: Status,
}

/// The tolerations that can matter to soft taints.
#[derive(Clone)]
struct SoftTolerations(Arc<[Toleration]>);

impl SoftTolerations {
    fn of(pod: &Pod) -> Self {
        let is_soft = |toleration: &&Toleration| {
            matches!(toleration.effect, None | Some(TaintEffect::PreferNoSchedule))
        };
        let all = &pod.spec.tolerations;
        if all.iter().all(|toleration| is_soft(&toleration)) {
            return Self(all.clone());
        }
        Self(all.iter().filter(is_soft).cloned().collect())
    }

    /// How many soft taints are not tolerated.
    fn n_untolerated(&self, taints: &[Taint], compares_numbers: bool) -> i64 {
        let untolerated = taints.iter().filter(|taint| {
            taint.effect == TaintEffect::PreferNoSchedule
                && !self.0.iter().any(|toleration| toleration.tolerates(taint, compares_numbers))
        });
        i64::try_from(untolerated.count()).unwrap_or(i64::MAX)
    }
}

impl TaintToleration {
    fn is_kept_out(&self, pod: &Pod, taints: &[Taint]) -> bool {
        untolerated_taint(taints, &pod.spec.tolerations, self.compares_numbers).is_some()
    }
}

impl Plugin for TaintToleration {
    fn name(&self) -> &str {
        NAME
    }

    extension_points!(Filter, PreScore, Score, EnqueueExtensions, Sign);
}

impl Filter for TaintToleration {
    fn filter(&self, _: &Context<'_>, _: &CycleState, pod: &Pod, node: &NodeView<'_>) -> Status {
        if self.is_kept_out(pod, node.taints()) { self.rejection.clone() } else { Status::SUCCESS }
    }

    fn filter_all(
        &self,
        cx: &Context<'_>,
        _: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
    ) -> Result<(), Status> {
        let sets = cx.cluster().taint_sets();
        let mut keeps_out = vec![false; sets.n_ids()];
        let mut is_any_closed = false;
        for (id, taints) in sets.iter() {
            if self.is_kept_out(pod, taints) {
                keeps_out[id.index()] = true;
                is_any_closed = true;
            }
        }
        if !is_any_closed {
            return Ok(());
        }
        let id = sink.code_for(self.rejection.clone());
        let keeps_out = &keeps_out[..];
        let ids = cx.cluster().taint_set_ids();
        sink.reject_by_value(nodes, id, ids, |_, taints| keeps_out[taints.index()]);
        Ok(())
    }
}

impl PreScore for TaintToleration {
    fn pre_score(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        _: &FeasibleNodes<'_>,
    ) -> Status {
        state.insert(SoftTolerations::of(pod));
        Status::SUCCESS
    }
}

impl Score for TaintToleration {
    fn score(
        &self,
        _: &Context<'_>,
        state: &CycleState,
        _: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status> {
        let tolerations = state.get::<SoftTolerations>().ok_or_else(|| Status::error(NO_STATE))?;
        Ok(tolerations.n_untolerated(node.taints(), self.compares_numbers))
    }

    fn score_all(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        _: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        if nodes.is_empty() {
            return Ok(());
        }
        let tolerations = state.get::<SoftTolerations>().ok_or_else(|| Status::error(NO_STATE))?;
        let sets = cx.cluster().taint_sets();
        let mut counts = vec![0_i64; sets.n_ids()];
        for (id, taints) in sets.iter() {
            counts[id.index()] = tolerations.n_untolerated(taints, self.compares_numbers);
        }
        if counts.iter().all(|count| *count == 0) {
            scores.fill(0);
            return Ok(());
        }
        let (id_at, counts) = (cx.cluster().taint_set_ids().lookup(), &counts[..]);
        for (&idx, score) in nodes.iter().zip(scores) {
            *score = counts[id_at(idx.index()).index()];
        }
        Ok(())
    }

    fn normalization(&self) -> Normalization {
        Normalization::ReversedProportional
    }
}

impl Sign for TaintToleration {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        write_tolerations(&pod.spec.tolerations, signature);
        true
    }
}

impl EnqueueExtensions for TaintToleration {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        let node_event =
            ClusterEvent::new(EventResource::Node, ActionType::ADD | ActionType::UPDATE_NODE_TAINT);
        let pod_event = ClusterEvent::new(EventResource::Pod, ActionType::UPDATE_POD_TOLERATION);
        let compares_numbers = self.compares_numbers;
        vec![
            EventRegistration::with_hint(node_event, move |_, pod, old, new| {
                let (old, new) = event_objects::nodes(old, new)?;
                let Some(new) = new else { return Ok(QueueingHint::Queue) };
                let is_kept_out = |taints: &[Taint]| {
                    untolerated_taint(taints, &pod.spec.tolerations, compares_numbers).is_some()
                };
                let opened =
                    old.is_none_or(|old| is_kept_out(&old.taints)) && !is_kept_out(&new.taints);
                Ok(QueueingHint::queue_if(opened))
            }),
            EventRegistration::with_hint(pod_event, |_, pod, old, new| {
                // Whether the new toleration helps is not asked.
                let (_, updated) = event_objects::pods(old, new)?;
                let is_self = updated.is_some_and(|updated| updated.uid == pod.uid);
                Ok(QueueingHint::queue_if(is_self))
            }),
        ]
    }
}
