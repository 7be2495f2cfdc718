//! The hints of PodTopologySpread against their plain form, and how many pods they are asked about.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_framework::api::{
    LabelSelector, Node, NodeInclusionPolicy, Pod, TopologySpreadConstraint, WhenUnsatisfiable,
};
use kube_scheduler_framework::testing::{self, Fixture, fixture};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, EventObject, EventRegistration, EventResource, Plugin,
};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use crate::support::plugin_with;

const NAME: &str = "PodTopologySpread";

/// Default constraints, and services that they take their selectors from.
fn hard_defaults() -> Value {
    json!({"defaultingType": "List", "defaultConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
        {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway"},
    ]})
}

fn registration(
    plugin: &dyn Plugin,
    resource: EventResource,
    action: ActionType,
) -> EventRegistration {
    let event = ClusterEvent::new(resource, action);
    let all = plugin.as_enqueue_extensions().unwrap().events_to_register();
    all.into_iter().find(|registered| registered.event.matches(&event)).unwrap()
}

/// What the hint says, and whether it is asked.
fn ask(
    world: &Fixture,
    registered: &EventRegistration,
    waiting: &Pod,
    old: Option<&EventObject>,
    new: Option<&EventObject>,
) -> (Option<bool>, bool) {
    let cx = world.cx();
    let answer = registered.hint.as_ref().unwrap()(&cx, waiting, old, new);
    (answer.ok(), registered.concerns(&cx, waiting, old, new))
}

/// A hard constraint of the waiting pod: its own, or a default one with the selector of the pod's service.
type Hard<'a> = (&'a TopologySpreadConstraint, Option<LabelSelector>);

/// The constraints, copied for each question; `None` if one of them cannot be read.
fn hard<'a>(pod: &'a Pod, defaults: &'a [TopologySpreadConstraint]) -> Option<Vec<Hard<'a>>> {
    let own = &pod.spec.topology_spread_constraints;
    let is_hard =
        |it: &&TopologySpreadConstraint| it.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
    if own.is_empty() {
        // The service selects what has this label.
        let is_selected = pod.labels.get("app") == Some("x") && &*pod.namespace == "default";
        let of_default = defaults.iter().filter(is_hard).filter(|_| is_selected);
        return Some(of_default.map(|it| (it, LabelSelector::parse("app=x").ok())).collect());
    }
    own.iter()
        .filter(is_hard)
        .map(|it| it.selector_error.is_none().then(|| (it, it.selector.clone())))
        .collect()
}

fn plain_about_pod(
    pod: &Pod,
    hard: Option<&[Hard<'_>]>,
    old: Option<&Pod>,
    new: Option<&Pod>,
) -> Option<bool> {
    let is_involved = |other: &Pod| {
        other.uid == pod.uid || other.is_assigned_or_nominated() && other.namespace == pod.namespace
    };
    if [old, new].into_iter().flatten().any(|other| !is_involved(other)) {
        return Some(false);
    }
    let hard = hard?;
    let matched = |other: &Pod| -> Vec<bool> {
        let matches = |(_, selector): &Hard<'_>| {
            selector.as_ref().is_some_and(|it| it.matches(&other.labels))
        };
        hard.iter().map(matches).collect()
    };
    Some(match (old.map(matched), new.map(matched)) {
        (Some(before), Some(after)) => {
            let honors =
                hard.iter().any(|(it, _)| it.node_taints_policy == NodeInclusionPolicy::Honor);
            let tolerations = [old, new].map(|pod| pod.map(|pod| &pod.spec.tolerations));
            let is_own = new.is_some_and(|new| new.uid == pod.uid);
            before != after || is_own && honors && tolerations[0] != tolerations[1]
        }
        (Some(only), None) | (None, Some(only)) => only.contains(&true),
        (None, None) => true,
    })
}

fn plain_about_node(hard: &[Hard<'_>], old: Option<&Node>, new: Option<&Node>) -> bool {
    let values = |node: &Node| -> Option<BTreeMap<String, String>> {
        let value = |(it, _): &Hard<'_>| {
            Some((it.topology_key.to_string(), node.labels.get(&it.topology_key)?.to_owned()))
        };
        hard.iter().map(value).collect()
    };
    match (old.map(values), new.map(values)) {
        (Some(before), Some(after)) => {
            let taints = [old, new].map(|node| node.map(|node| &node.taints));
            before != after || after.is_some() && taints[0] != taints[1]
        }
        (Some(only), None) | (None, Some(only)) => only.is_some(),
        (None, None) => true,
    }
}

fn selector() -> impl Strategy<Value = Value> {
    let many: Vec<String> = (0..200).map(|at| format!("v{at}")).collect();
    let one_of = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    select(vec![
        Value::Null,
        json!({}),
        json!({"matchLabels": {"app": "x"}}),
        json!({"matchLabels": {"app": "x", "rev": "1"}}),
        one_of("app", "In", json!(["x", "y"])),
        one_of("rev", "In", json!(many)),
        one_of("app", "NotIn", json!(["x"])),
        one_of("rev", "Exists", Value::Null),
        json!({"matchLabels": {"app": "y"}, "matchExpressions": [{"key": "rev", "operator": "DoesNotExist"}]}),
        one_of("app", "Near", Value::Null),
    ])
}

fn constraint() -> impl Strategy<Value = Value> {
    let action = prop_oneof![4 => Just("DoNotSchedule"), 1 => Just("ScheduleAnyway")];
    (selector(), action, select(vec!["zone", "host"]), select(vec!["Honor", "Ignore"])).prop_map(
        |(selector, action, key, taints)| {
            let mut constraint = json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": action, "nodeTaintsPolicy": taints});
            if !selector.is_null() {
                constraint["labelSelector"] = selector;
            }
            constraint
        },
    )
}

fn labels(keys: [&'static str; 2], values: Vec<&'static str>) -> impl Strategy<Value = Value> {
    let value = prop::option::of(select(values));
    (value.clone(), value).prop_map(move |(a, b)| {
        let pairs = keys.into_iter().zip([a, b]);
        let pairs = pairs.filter_map(|(key, value)| Some((key.to_owned(), json!(value?))));
        Value::Object(pairs.collect())
    })
}

fn pod_parts() -> impl Strategy<Value = Value> {
    let tolerations = select(vec![json!([]), json!([{"key": "t", "operator": "Exists"}])]);
    (labels(["app", "rev"], vec!["x", "y", "1", "v7"]), tolerations).prop_map(|(labels, tolerations)| {
        json!({"metadata": {"labels": labels}, "spec": {"tolerations": tolerations}})
    })
}

fn node_parts() -> impl Strategy<Value = Value> {
    let taints = select(vec![json!([]), json!([{"key": "t", "effect": "NoSchedule"}])]);
    (labels(["zone", "host"], vec!["a", "b"]), taints).prop_map(
        |(labels, taints)| json!({"metadata": {"labels": labels}, "spec": {"taints": taints}}),
    )
}

fn action_of<T>(old: Option<&T>, new: Option<&T>, update: ActionType) -> ActionType {
    match (old, new) {
        (Some(_), None) => ActionType::DELETE,
        (None, _) => ActionType::ADD,
        (Some(_), Some(_)) => update,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, rng_seed: RngSeed::Fixed(14), ..ProptestConfig::default() })]

    #[test]
    fn hints_are_those_of_the_plain_form_and_asked_about_every_pod_that_they_say_yes_to(
        waiting in pod_parts(),
        constraints in prop::collection::vec(constraint(), 0..4),
        pods in (prop::option::of(pod_parts()), prop::option::of(pod_parts())),
        nodes in (prop::option::of(node_parts()), prop::option::of(node_parts())),
        other in select(vec!["p uid=p", "q uid=q node=n", "q uid=q", "q uid=q nominated=n", "far/q uid=q node=n"]),
    ) {
        let world = fixture("service s selector:app=x");
        let plugin = plugin_with(NAME, hard_defaults());
        let mut waiting = waiting;
        waiting["spec"]["topologySpreadConstraints"] = json!(constraints);
        let waiting = testing::pod("p uid=p").with(waiting).build();
        // Read as a pod's, and so as the defaults are.
        let defaults = testing::pod("d")
            .with(json!({"spec": {"topologySpreadConstraints": hard_defaults()["defaultConstraints"]}}))
            .build();
        let hard = hard(&waiting, &defaults.spec.topology_spread_constraints);

        let build = |parts: Value| testing::pod(other).with(parts).build();
        let (old, new): (Option<Arc<Pod>>, Option<Arc<Pod>>) = (pods.0.map(build), pods.1.map(build));
        let action = action_of(old.as_ref(), new.as_ref(), ActionType::UPDATE_POD_LABEL);
        let expected = plain_about_pod(&waiting, hard.as_deref(), old.as_deref(), new.as_deref());
        let (old, new) = (old.map(EventObject::Pod), new.map(EventObject::Pod));
        let registered = registration(&*plugin, EventResource::AssignedPod, action);
        let (answer, is_asked) = ask(&world, &registered, &waiting, old.as_ref(), new.as_ref());
        prop_assert_eq!(answer, expected);
        prop_assert!(is_asked || answer == Some(false));

        let build = |parts: Value| testing::node("n").with(parts).build();
        let (old, new): (Option<Arc<Node>>, Option<Arc<Node>>) = (nodes.0.map(build), nodes.1.map(build));
        let action = action_of(old.as_ref(), new.as_ref(), ActionType::UPDATE_NODE_LABEL);
        let expected = hard.map(|hard| plain_about_node(&hard, old.as_deref(), new.as_deref()));
        let (old, new) = (old.map(EventObject::Node), new.map(EventObject::Node));
        let registered = registration(&*plugin, EventResource::Node, action);
        let (answer, _) = ask(&world, &registered, &waiting, old.as_ref(), new.as_ref());
        prop_assert_eq!(answer, expected);
    }
}

#[test]
fn pods_are_asked_about_that_list_a_label_of_the_event() {
    let world = Fixture::new();
    let plugin = plugin_with(NAME, Value::Null);
    let registered =
        registration(&*plugin, EventResource::AssignedPod, ActionType::UPDATE_POD_LABEL);
    let waiting: Vec<Arc<Pod>> = (0..100)
        .map(|at| testing::pod(&format!("w{at} spread=zone:1:app=x{at}")).build())
        .collect();
    let n_asked = |old: &str, new: &str| {
        let (old, new) = (testing::pod(old).build(), testing::pod(new).build());
        let (old, new) = (EventObject::Pod(old), EventObject::Pod(new));
        let asked =
            waiting.iter().filter(|pod| ask(&world, &registered, pod, Some(&old), Some(&new)).1);
        asked.count()
    };
    assert_eq!(n_asked("r node=n label:app=a", "r node=n label:app=b"), 0);
    assert_eq!(n_asked("r node=n label:app=x5", "r node=n label:app=x7"), 2);
    assert_eq!(n_asked("far/r node=n label:app=x5", "far/r node=n label:app=x7"), 0);
}
