//! Which events can make a pod fit that PodTopologySpread rejected (`docs/spec/plugins-topology.md` §4.1 to §4.3).
//!
//! Quirk: the services and owners that default constraints come from are not among them.

use std::sync::Arc;

use kube_scheduler_framework::api::{Node, Pod, WhenUnsatisfiable};
use kube_scheduler_framework::topics::{Topics, topic};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, Context, EventObject, EventRegistration, EventResource, QueueingHint,
};

use super::args::Defaults;
use super::constraints::Constraint;
use crate::event_objects;

/// All events the plugin waits for.
pub(super) fn events(defaults: &Arc<Defaults>) -> Vec<EventRegistration> {
    let pod_event = ClusterEvent::new(
        EventResource::Pod,
        ActionType::ADD
            | ActionType::UPDATE_POD_LABEL
            | ActionType::UPDATE_POD_TOLERATION
            | ActionType::DELETE,
    );
    let node_event = ClusterEvent::new(
        EventResource::Node,
        ActionType::ADD
            | ActionType::DELETE
            | ActionType::UPDATE_NODE_LABEL
            | ActionType::UPDATE_NODE_TAINT,
    );
    let for_pods = defaults.clone();
    let for_nodes = defaults.clone();
    vec![
        EventRegistration::with_hint(pod_event, move |cx, pod, old, new| {
            let (old, new) = event_objects::pods(old, new)?;
            if [old, new].into_iter().flatten().any(|other| !is_involved(pod, other)) {
                return Ok(QueueingHint::Skip);
            }
            let constraints = hard(&for_pods, cx, pod)?;
            Ok(QueueingHint::queue_if(is_helped_by_pod(pod, &constraints, old, new)))
        })
        .by_topic(pod_topics, event_topics),
        EventRegistration::with_hint(node_event, move |cx, pod, old, new| {
            let (old, new) = event_objects::nodes(old, new)?;
            let constraints = hard(&for_nodes, cx, pod)?;
            Ok(QueueingHint::queue_if(is_helped_by_node(&constraints, old, new)))
        }),
    ]
}

/// A pod waits for itself and for those of its namespace.
fn pod_topics(pod: &Pod) -> Topics {
    Topics::Only(vec![topic(&pod.uid), topic(&pod.namespace)])
}

/// See [`is_involved`], which holds for both states of the object or for none.
fn event_topics(_: &Context<'_>, old: Option<&EventObject>, new: Option<&EventObject>) -> Topics {
    match new.or(old).and_then(EventObject::as_pod) {
        Some(changed) => pod_topics(changed),
        None => Topics::All,
    }
}

fn hard(defaults: &Defaults, cx: &Context<'_>, pod: &Pod) -> Result<Vec<Constraint>, String> {
    defaults.constraints_of(cx, pod, WhenUnsatisfiable::DoNotSchedule)
}

/// Whether another pod can matter: the waiting pod itself, or one of its namespace that has a node or expects one.
fn is_involved(pod: &Pod, other: &Pod) -> bool {
    other.uid == pod.uid || other.is_assigned_or_nominated() && other.namespace == pod.namespace
}

fn is_helped_by_pod(
    pod: &Pod,
    constraints: &[Constraint],
    old: Option<&Arc<Pod>>,
    new: Option<&Arc<Pod>>,
) -> bool {
    let matches_any =
        |other: &Pod| constraints.iter().any(|constraint| constraint.matches(&other.labels));
    match (old, new) {
        (Some(old), Some(new)) => {
            if new.uid == pod.uid
                && old.spec.tolerations != new.spec.tolerations
                && constraints.iter().any(|constraint| constraint.honors_taints)
            {
                return true;
            }
            constraints.iter().any(|constraint| {
                constraint.matches(&old.labels) != constraint.matches(&new.labels)
            })
        }
        (Some(only), None) | (None, Some(only)) => matches_any(only),
        (None, None) => true,
    }
}

fn is_helped_by_node(
    constraints: &[Constraint],
    old: Option<&Arc<Node>>,
    new: Option<&Arc<Node>>,
) -> bool {
    let has_keys = |node: &Node| {
        constraints.iter().all(|constraint| node.labels.contains_key(&constraint.key))
    };
    match (old, new) {
        (Some(old), Some(new)) => {
            let value_differs = |constraint: &Constraint| {
                old.labels.get(&constraint.key) != new.labels.get(&constraint.key)
            };
            if has_keys(old) != has_keys(new) {
                return true;
            }
            let taints_differ = old.taints != new.taints || old.taint_times != new.taint_times;
            has_keys(new) && (constraints.iter().any(value_differs) || taints_differ)
        }
        (Some(only), None) | (None, Some(only)) => has_keys(only),
        (None, None) => true,
    }
}
