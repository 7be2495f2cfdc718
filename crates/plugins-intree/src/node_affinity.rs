//! NodeAffinity: node selectors and node affinity of the pod, and those the profile adds.
//!
//! Answers to `plugins/nodeaffinity/node_affinity.go` of the reference; behaviour in `docs/spec/plugins-node.md` §2.7 and
//! §4.6. Selectors are compiled with the pod, so nothing has to be carried from one extension point to the next.

mod added;

use std::sync::Arc;

use kube_scheduler_framework::api::{
    NodeNames, NodeSelector, Pod, PreferredNodeTerm, required_node_affinity_matches,
};
use kube_scheduler_framework::columns::NodeSet;
use kube_scheduler_framework::{
    ActionType, Context, CycleState, EnqueueExtensions, EventRegistration, FeasibleNodes, Filter,
    FilterSink, Handle, NodeIdx, NodeView, Normalization, Plugin, PluginArgs, PluginError,
    PreFilter, PreFilterOutcome, PreScore, Score, Sign, SignatureWriter, Status,
};

use self::added::AddedAffinity;
use crate::signature::{node_selector, write};

pub(crate) const NAME: &str = "NodeAffinity";

const REASON: &str = "node(s) didn't match Pod's node affinity/selector";
const REASON_ADDED: &str = "node(s) didn't match scheduler-enforced node affinity";
const REASON_CONFLICT: &str = "pod affinity terms conflict";

pub(crate) fn new(args: &PluginArgs, _: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    let name = NAME.into();
    Ok(Arc::new(NodeAffinity {
        added: Arc::new(AddedAffinity::from_args(args)?),
        rejection: Status::unresolvable(REASON).from_plugin(&name),
        rejection_added: Status::unresolvable(REASON_ADDED).from_plugin(&name),
        rejection_conflict: Status::unresolvable(REASON_CONFLICT).from_plugin(&name),
    }))
}

struct NodeAffinity {
    added: Arc<AddedAffinity>,
    rejection: Status,
    rejection_added: Status,
    rejection_conflict: Status,
}

fn required(pod: &Pod) -> Option<&NodeSelector> {
    pod.spec.node_affinity.as_ref()?.required.as_ref()
}

/// The pod's preferred terms; none when the list is absent. The error is the status of PreScore and Score.
fn preferred(pod: &Pod) -> Result<Option<&[PreferredNodeTerm]>, Status> {
    let given = pod.spec.node_affinity.as_ref().and_then(|affinity| affinity.preferred.as_ref());
    let terms = given.map(|terms| terms.as_deref());
    terms.transpose().map_err(|error| Status::error(error.to_string()))
}

/// Whether the pod itself limits the nodes it fits.
fn is_choosy(pod: &Pod) -> bool {
    pod.spec.node_selector.as_ref().is_some_and(|labels| !labels.is_empty())
        || required(pod).is_some()
}

/// Below this many nodes each is asked about by itself: the set of all nodes that match costs a pass over the whole cluster, which pods
/// of a DaemonSet and gangs in small racks need not pay. Without sets an attempt takes a fifth longer
/// (`bench core --workload EveryPodDifferent`).
const FEW: usize = 64;

plugin!(NodeAffinity, PreFilter, Filter, PreScore, Score, EnqueueExtensions, Sign);

impl PreFilter for NodeAffinity {
    fn pre_filter(&self, _: &Context<'_>, _: &mut CycleState, pod: &Pod) -> PreFilterOutcome {
        let Some(required) = required(pod) else {
            let is_idle = self.added.required.is_none() && pod.spec.node_selector.is_none();
            return if is_idle { PreFilterOutcome::skip() } else { PreFilterOutcome::success() };
        };
        match required.node_names() {
            NodeNames::NotNarrowed => PreFilterOutcome::success(),
            NodeNames::Names(names) if names.is_empty() => self.rejection_conflict.clone().into(),
            NodeNames::Names(names) => PreFilterOutcome::narrowed_to(names.clone()),
        }
    }
}

impl Filter for NodeAffinity {
    fn filter(&self, _: &Context<'_>, _: &CycleState, pod: &Pod, node: &NodeView<'_>) -> Status {
        if !self.added.allows(|required| required.matches(node.labels(), node.name())) {
            self.rejection_added.clone()
        } else if is_choosy(pod) && !node.satisfies_node_affinity(pod) {
            self.rejection.clone()
        } else {
            Status::SUCCESS
        }
    }

    fn filter_all(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
    ) -> Result<(), Status> {
        if nodes.len() < FEW {
            return sink.reject_each(cx, nodes, |cx, node| self.filter(cx, state, pod, node));
        }
        let cluster = cx.cluster();
        let mut reject_others = |meant: NodeSet, rejection: &Status| {
            let mut others = cluster.live_nodes().clone();
            others.remove_all(&meant);
            let id = sink.code_for(rejection.clone());
            sink.reject_members(nodes, id, &others);
        };
        if let Some(added) = &self.added.required {
            reject_others(cluster.nodes_matching(None, Some(added)), &self.rejection_added);
        }
        if is_choosy(pod) {
            let pairs = pod.spec.node_selector.as_ref();
            reject_others(cluster.nodes_matching(pairs, required(pod)), &self.rejection);
        }
        Ok(())
    }
}

impl PreScore for NodeAffinity {
    fn pre_score(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        pod: &Pod,
        _: &FeasibleNodes<'_>,
    ) -> Status {
        match preferred(pod) {
            Err(status) => status,
            Ok(None) if self.added.preferred.is_none() => Status::skip(),
            Ok(_) => Status::SUCCESS,
        }
    }
}

impl Score for NodeAffinity {
    fn score(
        &self,
        _: &Context<'_>,
        _: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status> {
        let own = preferred(pod)?.unwrap_or_default();
        let terms = self.added.preferred_terms().iter().chain(own);
        let matching = terms.filter(|preferred| preferred.term.matches(node.labels(), node.name()));
        Ok(matching.map(|preferred| i64::from(preferred.weight)).sum())
    }

    fn score_all(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        if nodes.len() < FEW {
            for (&idx, score) in nodes.iter().zip(scores) {
                let node = cx.cluster().node(idx);
                *score = node.map_or(Ok(0), |node| self.score(cx, state, pod, &node))?;
            }
            return Ok(());
        }
        let own = preferred(pod)?.unwrap_or_default();
        let cluster = cx.cluster();
        scores.fill(0);
        for preferred in self.added.preferred_terms().iter().chain(own) {
            let meant = cluster.nodes_matching_term(&preferred.term);
            if meant.is_empty() {
                continue;
            }
            for (&idx, score) in nodes.iter().zip(&mut *scores) {
                *score += i64::from(preferred.weight) * i64::from(meant.contains(idx));
            }
        }
        Ok(())
    }

    fn normalization(&self) -> Normalization {
        Normalization::Proportional
    }
}

impl Sign for NodeAffinity {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        write((&pod.spec.node_selector, node_selector(required(pod))), signature);
        let preferred = preferred(pod).map_err(|error| error.error_text());
        let terms = preferred.map(|terms| {
            terms.map(|terms| terms.iter().map(|it| (it.weight, &it.term)).collect::<Vec<_>>())
        });
        write(terms, signature);
        true
    }
}

impl EnqueueExtensions for NodeAffinity {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        let actions = ActionType::ADD | ActionType::UPDATE_NODE_LABEL;
        let added = self.added.clone();
        vec![EventRegistration::on_node(actions, move |_, pod, old, new| {
            let Some(new) = new else { return Ok(true) };
            if !added.allows(|required| required.matches(&new.labels, &new.name)) {
                return Ok(false);
            }
            let matches = |node| {
                required_node_affinity_matches(pod, node)
                    .map_err(|error| PluginError::from(error.to_string()))
            };
            if !matches(new)? {
                return Ok(false);
            }
            // Quirk: a change that only makes the added affinity match does not count, because the old node is only
            // compared with the pod's own. Pinned by `hint_ignores_changes_to_the_added_affinity`.
            old.map_or(Ok(true), |old| matches(old).map(|matched| !matched))
        })]
    }
}
