//! Which events can make a pod fit that PodTopologySpread rejected (`docs/spec/plugins-topology.md` §4.1 to §4.3).
//!
//! Quirk: the services and owners that default constraints come from are not among them.

use kube_scheduler_framework::api::{
    Node, NodeInclusionPolicy, Operator, Pod, TopologySpreadConstraint, WhenUnsatisfiable,
};
use kube_scheduler_framework::topics::{Topics, topic};
use kube_scheduler_framework::{
    ActionType, Context, EnqueueExtensions, EventObject, EventRegistration, PluginError,
};

use super::PodTopologySpread;
use super::args::Defaults;
use super::constraints::{GivenConstraints, selects};
use crate::event_topics;

const HARD: WhenUnsatisfiable = WhenUnsatisfiable::DoNotSchedule;
/// A pod whose selectors list more values waits for all changes of pods in its namespace.
const MAX_LISTED: usize = 128;

impl EnqueueExtensions for PodTopologySpread {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        let of_pods = ActionType::ADD
            | ActionType::UPDATE_POD_LABEL
            | ActionType::UPDATE_POD_TOLERATION
            | ActionType::DELETE;
        let of_nodes = ActionType::ADD
            | ActionType::DELETE
            | ActionType::UPDATE_NODE_LABEL
            | ActionType::UPDATE_NODE_TAINT;
        let [for_pods, for_nodes, for_topics] = std::array::from_fn(|_| self.defaults.clone());
        vec![
            EventRegistration::on_pod(of_pods, move |cx, pod, old, new| {
                if [old, new].into_iter().flatten().any(|other| !is_involved(pod, other)) {
                    return Ok(false);
                }
                let constraints = for_pods.given_to(cx, pod, HARD)?;
                Ok(is_helped_by_pod(pod, &constraints, old, new))
            })
            .by_topic(move |pod| pod_topics(&for_topics, pod), topics_of_event),
            EventRegistration::on_node(of_nodes, move |cx, pod, old, new| {
                let constraints = for_nodes.given_to(cx, pod, HARD)?;
                Ok::<_, PluginError>(is_helped_by_node(&constraints, old, new))
            }),
        ]
    }
}

/// What an event about a pod may be about.
#[derive(Hash)]
enum Subject<'a> {
    /// The pod with this UID itself.
    Pod(&'a str),
    /// A pod in this namespace.
    Namespace(&'a str),
    /// A pod in this namespace that has this label.
    Has(&'a str, &'a str, &'a str),
}

/// A pod waits for itself and for those of its namespace that have a label which one of its selectors lists, before or after the
/// change: the selector meets no other pod. A selector that lists none may meet any pod of the namespace.
fn pod_topics(defaults: &Defaults, pod: &Pod) -> Topics {
    let mut topics = vec![topic(Subject::Pod(&pod.uid))];
    match listed(defaults, pod) {
        Some(labels) => topics.extend(
            labels.into_iter().map(|(key, value)| topic(Subject::Has(&pod.namespace, key, value))),
        ),
        None => topics.push(topic(Subject::Namespace(&pod.namespace))),
    }
    Topics::Only(topics)
}

/// The labels of which a pod has one if any selector of the pod's hard constraints matches it; `None` if a pod without them may help.
fn listed<'a>(defaults: &Defaults, pod: &'a Pod) -> Option<Vec<(&'a str, &'a str)>> {
    let own = &pod.spec.topology_spread_constraints;
    if own.is_empty() {
        // What the selector is then depends on services and owners.
        return (!defaults.have(HARD)).then(Vec::new);
    }
    let mut labels = Vec::new();
    for given in own.iter().filter(|given| given.when_unsatisfiable == HARD) {
        // Then the hint fails, which moves the pod.
        if given.selector_error.is_some() {
            return None;
        }
        // Nothing matches then.
        let Some(selector) = &given.selector else { continue };
        let lists = selector.requirements().iter().filter(|it| it.operator == Operator::In);
        let shortest = lists.min_by_key(|it| it.values.len())?;
        labels.extend(shortest.values.iter().map(|value| (&*shortest.key, &**value)));
        if labels.len() > MAX_LISTED {
            return None;
        }
    }
    Some(labels)
}

/// See [`is_involved`], which holds for both states of the object or for none.
fn topics_of_event(
    _: &Context<'_>,
    old: Option<&EventObject>,
    new: Option<&EventObject>,
) -> Topics {
    let [old, new] = event_topics::pods(old, new);
    let Some(changed) = new.or(old) else { return Topics::All };
    let mut topics = vec![topic(Subject::Pod(&changed.uid))];
    if changed.is_assigned_or_nominated() {
        let namespace = &changed.namespace;
        topics.push(topic(Subject::Namespace(namespace)));
        let labels = event_topics::labels(old, new);
        topics.extend(labels.map(|(key, value)| topic(Subject::Has(namespace, key, value))));
    }
    Topics::Only(topics)
}

/// Whether another pod can matter: the waiting pod itself, or one of its namespace that has a node or expects one.
fn is_involved(pod: &Pod, other: &Pod) -> bool {
    other.uid == pod.uid || other.is_assigned_or_nominated() && other.namespace == pod.namespace
}

fn is_helped_by_pod(
    pod: &Pod,
    constraints: &GivenConstraints<'_>,
    old: Option<&Pod>,
    new: Option<&Pod>,
) -> bool {
    let matches = |constraint: &TopologySpreadConstraint, other: &Pod| {
        selects(constraints.selector_of(constraint), &other.labels)
    };
    match (old, new) {
        (Some(old), Some(new)) => {
            let honors_taints = |constraint: &TopologySpreadConstraint| {
                constraint.node_taints_policy == NodeInclusionPolicy::Honor
            };
            let is_tolerant = new.uid == pod.uid
                && old.spec.tolerations != new.spec.tolerations
                && constraints.iter().any(honors_taints);
            let differs = |constraint: &TopologySpreadConstraint| {
                matches(constraint, old) != matches(constraint, new)
            };
            is_tolerant || constraints.iter().any(differs)
        }
        (Some(only), None) | (None, Some(only)) => {
            constraints.iter().any(|constraint| matches(constraint, only))
        }
        (None, None) => true,
    }
}

fn is_helped_by_node(
    constraints: &GivenConstraints<'_>,
    old: Option<&Node>,
    new: Option<&Node>,
) -> bool {
    let has_keys = |node: &Node| {
        constraints.iter().all(|constraint| node.labels.contains_key(&constraint.topology_key))
    };
    match (old, new) {
        (Some(old), Some(new)) => {
            let value_differs = |constraint: &TopologySpreadConstraint| {
                let key = &constraint.topology_key;
                old.labels.get(key) != new.labels.get(key)
            };
            if has_keys(old) != has_keys(new) {
                return true;
            }
            let taints_differ = old.taints != new.taints || old.taint_times != new.taint_times;
            has_keys(new) && (taints_differ || constraints.iter().any(value_differs))
        }
        (Some(only), None) | (None, Some(only)) => has_keys(only),
        (None, None) => true,
    }
}
