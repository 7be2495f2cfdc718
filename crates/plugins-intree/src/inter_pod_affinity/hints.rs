//! Which events make a pod that this plugin rejected worth a retry.
//!
//! Behaviour in `docs/spec/plugins-topology.md` §5.7 to §5.9.
//!
//! Quirks: terms are taken as the pod has them, namespaces unresolved and without labels; of several anti-affinity
//! terms all have to match here, although any of them keeps the pod out. Pinned by `a_second_anti_affinity_term_*` and
//! the recorded hints.

use std::sync::Arc;

use kube_scheduler_framework::api::{Labels, Node, Operator, Pod, PodAffinity, PodAffinityTerm};
use kube_scheduler_framework::topics::{Topics, topic};
use kube_scheduler_framework::{
    ActionType, Context, EnqueueExtensions, EventObject, EventRegistration,
};

use super::InterPodAffinity;
use super::own_terms::required;
use crate::event_topics;

impl EnqueueExtensions for InterPodAffinity {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        let of_pods = ActionType::ADD | ActionType::UPDATE_POD_LABEL | ActionType::DELETE;
        let of_nodes = ActionType::ADD | ActionType::UPDATE_NODE_LABEL;
        vec![
            EventRegistration::on_pod(of_pods, |_, pod, old, new| after_pod_change(pod, old, new))
                .by_topic(pod_topics, topics_of_event),
            EventRegistration::on_node(of_nodes, |_, pod, old, new| {
                after_node_change(pod, old, new)
            }),
        ]
    }
}

/// Whether there are terms and `other` matches every one.
fn all_match(terms: &[PodAffinityTerm], other: &Pod) -> bool {
    let nothing = Labels::default();
    !terms.is_empty() && terms.iter().all(|term| term.matches(other, &nothing))
}

/// Whether a required term does not compile.
fn has_error(affinity: &Option<Arc<PodAffinity>>) -> bool {
    affinity.as_ref().is_some_and(|affinity| affinity.required_error.is_some())
}

/// Whether a required term of the pod that waits does not compile.
fn is_broken(pod: &Pod) -> bool {
    has_error(&pod.spec.pod_affinity) || has_error(&pod.spec.pod_anti_affinity)
}

/// Whether the pod has a node or expects one, in both states that are given: otherwise it is in nobody's way, or comes and goes
/// in events of their own.
fn is_somewhere(old: Option<&Pod>, new: Option<&Pod>) -> bool {
    [old, new].into_iter().flatten().all(|pod| pod.is_assigned_or_nominated())
}

fn after_pod_change(pod: &Pod, old: Option<&Pod>, new: Option<&Pod>) -> bool {
    if let (Some(_), Some(new)) = (old, new)
        && new.uid == pod.uid
    {
        return true;
    }
    if !is_somewhere(old, new) {
        return false;
    }
    if is_broken(pod) {
        return true;
    }
    let wanted = required(&pod.spec.pod_affinity);
    let unwanted = required(&pod.spec.pod_anti_affinity);
    match (old, new) {
        (Some(old), Some(new)) => {
            !all_match(wanted, old) && all_match(wanted, new)
                || all_match(unwanted, old) && !all_match(unwanted, new)
        }
        (None, Some(new)) => all_match(wanted, new),
        (Some(old), None) => {
            all_match(unwanted, old)
                || has_error(&old.spec.pod_anti_affinity)
                || all_match(required(&old.spec.pod_anti_affinity), pod)
        }
        (None, None) => false,
    }
}

/// What an event about a pod may be about.
#[derive(Hash)]
enum Subject<'a> {
    /// The pod with this UID itself.
    Pod(&'a str),
    /// A pod that has a label, which terms of the waiting pod ask for.
    Has(Label<'a>),
    /// A pod whose terms ask for a label, which the waiting pod has.
    Asks(Label<'a>),
}

/// A label of pods in one namespace, or in any.
#[derive(Hash)]
struct Label<'a> {
    namespace: Option<&'a str>,
    key: &'a str,
    value: &'a str,
}

/// The labels of which a pod has one if all terms match it: by the first requirement of any term that lists values. `None` if no
/// term has such a requirement.
fn listed(terms: &[PodAffinityTerm]) -> Option<impl Iterator<Item = Label<'_>>> {
    let in_lists = terms.iter().find_map(|term| {
        let requirements = term.selector.as_ref()?.requirements();
        let listed = requirements.iter().find(|it| it.operator == Operator::In)?;
        let namespace = match &*term.namespaces {
            [one] if term.namespace_selector.is_none() => Some(&**one),
            _ => None,
        };
        Some((namespace, listed))
    });
    let (namespace, listed) = in_lists?;
    Some(listed.values.iter().map(move |value| Label { namespace, key: &listed.key, value }))
}

/// Each label of a pod in `namespace`, as one there and as one in any.
fn labels_in<'a>(
    namespace: &'a str,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
) -> impl Iterator<Item = Label<'a>> {
    labels.flat_map(move |(key, value)| {
        [Some(namespace), None].map(|namespace| Label { namespace, key, value })
    })
}

/// What [`after_pod_change`] may say yes to.
fn pod_topics(pod: &Pod) -> Topics {
    if is_broken(pod) {
        return Topics::All;
    }
    let mut topics = vec![topic(Subject::Pod(&pod.uid))];
    for terms in [required(&pod.spec.pod_affinity), required(&pod.spec.pod_anti_affinity)] {
        if terms.is_empty() {
            continue;
        }
        let Some(labels) = listed(terms) else { return Topics::All };
        topics.extend(labels.map(|label| topic(Subject::Has(label))));
    }
    let own = labels_in(&pod.namespace, pod.labels.iter());
    topics.extend(own.map(|label| topic(Subject::Asks(label))));
    Topics::Only(topics)
}

/// An update is about all labels of both states: that of one changes may be what terms about another one waited for.
fn topics_of_event(
    _: &Context<'_>,
    old: Option<&EventObject>,
    new: Option<&EventObject>,
) -> Topics {
    let [old, new] = event_topics::pods(old, new);
    let Some(changed) = new.or(old) else { return Topics::Only(Vec::new()) };
    let mut topics = vec![topic(Subject::Pod(&changed.uid))];
    if !is_somewhere(old, new) {
        return Topics::Only(topics);
    }
    let labels = labels_in(&changed.namespace, event_topics::labels(old, new));
    topics.extend(labels.map(|label| topic(Subject::Has(label))));
    if let (Some(gone), None) = (old, new) {
        let terms = required(&gone.spec.pod_anti_affinity);
        if has_error(&gone.spec.pod_anti_affinity) {
            return Topics::All;
        }
        if !terms.is_empty() {
            let Some(labels) = listed(terms) else { return Topics::All };
            topics.extend(labels.map(|label| topic(Subject::Asks(label))));
        }
    }
    Topics::Only(topics)
}

fn after_node_change(pod: &Pod, old: Option<&Node>, new: Option<&Node>) -> bool {
    let Some(new) = new else { return true };
    if is_broken(pod) {
        return true;
    }
    fn value<'n>(node: &'n Node, term: &PodAffinityTerm) -> Option<&'n str> {
        node.labels.get(&term.topology_key)
    }
    let helps_affinity = |term: &PodAffinityTerm| {
        let now = value(new, term);
        now.is_some() && old.is_none_or(|old| value(old, term) != now)
    };
    let helps_anti_affinity = |term: &PodAffinityTerm| {
        old.is_none_or(|old| {
            let before = value(old, term);
            before.is_some() && before != value(new, term)
        })
    };
    required(&pod.spec.pod_affinity).iter().any(helps_affinity)
        || required(&pod.spec.pod_anti_affinity).iter().any(helps_anti_affinity)
}

#[cfg(test)]
mod tests {
    use kube_scheduler_framework::testing::{fixture, pod};
    use serde_json::{Value, json};

    use super::*;

    /// A pod whose only required term is this one.
    fn asking(kind: &str, term: &Value) -> Arc<Pod> {
        let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        pod("a/p node=n label:app=web")
            .with(json!({"spec": {"affinity": {kind: affinity}}}))
            .build()
    }

    fn share_one(waiting: &Pod, old: Option<Arc<Pod>>, new: Option<Arc<Pod>>) -> bool {
        let (old, new) = (old.map(EventObject::Pod), new.map(EventObject::Pod));
        let event = topics_of_event(&fixture("").cx(), old.as_ref(), new.as_ref());
        match (pod_topics(waiting), event) {
            (Topics::Only(waiting), Topics::Only(event)) => {
                waiting.iter().any(|topic| event.contains(topic))
            }
            _ => true,
        }
    }

    /// Topics only spare questions: without them the answer is the same.
    fn answer(waiting: &Pod, old: Option<&Arc<Pod>>, new: Option<&Arc<Pod>>) -> bool {
        let answer = after_pod_change(waiting, old.map(|old| &**old), new.map(|new| &**new));
        assert!(!answer || share_one(waiting, old.cloned(), new.cloned()));
        answer
    }

    /// A term that does not compile.
    fn broken() -> Value {
        let requirement = json!({"key": "app", "operator": "In", "values": []});
        json!({"topologyKey": "zone", "labelSelector": {"matchExpressions": [requirement]}})
    }

    #[test]
    fn of_a_pod_that_goes_only_anti_affinity_matters() {
        let waiting = pod("a/q label:app=web").build();
        let [near, away] = ["podAffinity", "podAntiAffinity"].map(|kind| asking(kind, &broken()));
        assert!(!answer(&waiting, Some(&near), None) && answer(&waiting, Some(&away), None));
        assert!(!share_one(&waiting, Some(near), None) && share_one(&waiting, Some(away), None));
    }

    #[test]
    fn a_pod_that_was_nowhere_before_an_update_is_not_waited_for() {
        let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}});
        let waiting = asking("podAffinity", &term);
        let states = ["", " node=n", " nominated=n"];
        for (before, after) in states.iter().flat_map(|old| states.map(|new| (*old, new))) {
            let old = pod(&format!("a/q label:app=old{before}")).build();
            let new = pod(&format!("a/q label:app=web{after}")).build();
            let is_worth_it = !before.is_empty() && !after.is_empty();
            let hint = answer(&waiting, Some(&old), Some(&new));
            assert_eq!(hint, is_worth_it, "{before} {after}");
            let is_asked = share_one(&waiting, Some(old), Some(new));
            assert_eq!(is_asked, is_worth_it, "{before} {after}");
        }
    }

    #[test]
    fn labels_are_waited_for_where_terms_look_for_them() {
        let term = |more: Value| {
            let mut term =
                json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}});
            more.as_object().unwrap().iter().for_each(|(key, value)| term[key] = value.clone());
            term
        };
        let in_namespace =
            |namespace: &str| pod(&format!("{namespace}/q node=n label:app=web")).build();
        // What a term says about namespaces, and in which of a, b and c pods with the label are waited for.
        let cases = [
            (json!({}), [true, false, false]),
            (json!({"namespaces": ["b"]}), [false, true, false]),
            // Of several namespaces no single one can be waited for.
            (json!({"namespaces": ["a", "b"]}), [true; 3]),
            (json!({"namespaceSelector": {}}), [true; 3]),
            (
                json!({"namespaces": ["a"], "namespaceSelector": {"matchLabels": {"x": "y"}}}),
                [true; 3],
            ),
        ];
        for (more, expected) in cases {
            let waiting = asking("podAffinity", &term(more.clone()));
            let met = ["a", "b", "c"].map(|of| share_one(&waiting, None, Some(in_namespace(of))));
            assert_eq!(met, expected, "{more}");
            // The same the other way round: the pod that goes kept pods with the label away.
            let gone = asking("podAntiAffinity", &term(more.clone()));
            let met =
                ["a", "b", "c"].map(|of| share_one(&in_namespace(of), Some(gone.clone()), None));
            assert_eq!(met, expected, "{more}");
        }
    }
}
