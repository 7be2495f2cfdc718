//! InterPodAffinity: behaviours that have a name. The arithmetic is compared with a model elsewhere.

use kube_scheduler_cache::NodeOverlay;
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::testing::{Fixture, fixture};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, CycleState, EventObject, EventResource, NodeView,
};
use serde_json::{Value, json};

use crate::support::{
    hint, node, plugin, plugin_with, pod, pre_verdict, raw_scores, scan_with, signature, text,
    try_plugin, verdict,
};

const NAME: &str = "InterPodAffinity";

/// Three nodes, two in rack a and one in none, and what is there beside.
fn world(more: &str) -> Fixture {
    fixture("node n1 label:rack=a; node n2 label:rack=a; node n3").with(more)
}

const NO_AFFINITY: &str = "UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules";
const NO_ANTI_AFFINITY: &str = "Unschedulable: node(s) didn't match pod anti-affinity rules";
const EXISTING: &str = "Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules";

#[test]
fn a_pod_may_open_the_first_domain_of_its_kind_where_the_key_is() {
    let all = |more: &str, text: &str| {
        let (world, pod) = (world(more), pod(text));
        ["n1", "n2", "n3"].map(|node| verdict(&world, &*plugin(NAME), &pod, node))
    };
    let (own, stranger) = ("p label:app=a affinity=rack:app=a", "q affinity=rack:app=a");
    assert_eq!(all("", own), ["ok", "ok", NO_AFFINITY]);
    assert_eq!(all("", stranger), [NO_AFFINITY; 3]);
    // One that runs where the key is not does not count.
    assert_eq!(all("pod e node=n3 label:app=a", own), ["ok", "ok", NO_AFFINITY]);
    assert_eq!(all("pod e node=n1 label:app=a", stranger), ["ok", "ok", NO_AFFINITY]);
}

#[test]
fn removing_the_last_match_lets_the_pod_be_first_again() {
    let own = pod("p label:app=a affinity=host:app=a");
    let world = world("pod e node=n1 label:app=a");
    let plugin = plugin(NAME);
    let mut state = CycleState::new();
    plugin.as_pre_filter().unwrap().pre_filter(&world.cx(), &mut state, &own);
    let mut overlay = NodeOverlay::new(world.view("n1").idx());
    let gone = overlay.remove_pod(world.cluster(), "e-uid").unwrap();
    let view = NodeView::hypothetical(world.cluster(), &overlay).unwrap();
    let extensions = plugin.as_pre_filter().unwrap().extensions().unwrap();
    extensions.remove_pod(&world.cx(), &mut state, &own, &gone, &view);
    let filter = plugin.as_filter().unwrap();
    let answer = filter.filter(&world.cx(), &state, &own, &world.view("n2"));
    assert_eq!(text(&answer), "ok");
    // The whole-cluster form follows hypothetical pods too.
    assert_eq!(scan_with(&world, &*plugin, &own, &state).unwrap().n_rejected(), 0);
}

#[test]
fn reasons_come_in_order_affinity_anti_affinity_existing() {
    let both = pod("p label:app=z affinity=rack:app=a anti-affinity=host:app=a");
    let world = world("pod a node=n1 label:app=a; pod m node=n2 anti-affinity=rack:app=z");
    let plugin = plugin(NAME);
    assert_eq!(verdict(&world, &*plugin, &both, "n3"), NO_AFFINITY);
    assert_eq!(verdict(&world, &*plugin, &both, "n1"), NO_ANTI_AFFINITY);
    assert_eq!(verdict(&world, &*plugin, &both, "n2"), EXISTING);
}

#[test]
fn a_namespace_selector_that_only_excludes_means_all() {
    let world = world(
        "pod e node=n1 label:app=a
         namespace default label:team=x; namespace other label:team=y",
    );
    let avoiding = |operator: &str, values: Value| {
        let expressions = json!([{"key": "team", "operator": operator, "values": values}]);
        let term = json!({
            "topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "a"}},
            "namespaceSelector": {"matchExpressions": expressions},
        });
        verdict(&world, &*plugin(NAME), &pod(&format!("p anti-affinity={term}")), "n2")
    };
    // The pod that runs is in a namespace of team x.
    assert_eq!(avoiding("In", json!(["y"])), "ok");
    assert_eq!(avoiding("In", json!(["x"])), NO_ANTI_AFFINITY);
    assert_eq!(avoiding("NotIn", json!(["x"])), NO_ANTI_AFFINITY);
    assert_eq!(avoiding("DoesNotExist", json!([])), NO_ANTI_AFFINITY);
}

#[test]
fn terms_that_do_not_compile_say_why() {
    let bad = json!({"topologyKey": "rack", "labelSelector":
        {"matchExpressions": [{"key": "app", "operator": "Beside", "values": ["a"]}]}});
    let weighted = json!({"weight": 1, "podAffinityTerm": bad});
    let why = "\"Beside\" is not a valid label selector operator";
    let plugin = plugin(NAME);
    let empty = world("");
    let one = pod(&format!("p anti-affinity={bad}"));
    assert_eq!(
        pre_verdict(&empty, &*plugin, &one),
        format!("UnschedulableAndUnresolvable: parsing pod: requiredAntiAffinityTerms: {why}")
    );
    let two = pod(&format!("p affinity={bad} prefer-anti-affinity={weighted}"));
    let both = format!("[requiredAffinityTerms: {why}, preferredAntiAffinityTerms: {why}]");
    assert_eq!(
        pre_verdict(&empty, &*plugin, &two),
        format!("UnschedulableAndUnresolvable: parsing pod: {both}")
    );
    let status = raw_scores(&empty, &*plugin, &two).unwrap().unwrap_err();
    assert_eq!(text(&status), format!("Error: failed to parse pod: {both}"));
    // Of a pod that runs, a bad list is as good as none.
    let world = world(&format!("pod e node=n1 anti-affinity={bad}"));
    assert_eq!(pre_verdict(&world, &*plugin, &pod("p label:app=a")), "skip");
}

#[test]
fn without_state_filter_and_score_say_what_is_missing() {
    let world = world("");
    let (plugin, plain) = (plugin(NAME), pod("p"));
    let view = world.view("n1");
    let mut state = CycleState::new();
    let no_filter_state =
        "Error: error reading \"PreFilterInterPodAffinity\" from cycleState: not found";
    let filter = plugin.as_filter().unwrap();
    assert_eq!(text(&filter.filter(&world.cx(), &state, &plain, &view)), no_filter_state);
    let extensions = plugin.as_pre_filter().unwrap().extensions().unwrap();
    let status = extensions.add_pod(&world.cx(), &mut state, &plain, &plain, &view);
    assert_eq!(text(&status), no_filter_state);
    let score = plugin.as_score().unwrap().score(&world.cx(), &state, &plain, &view);
    assert_eq!(
        text(&score.unwrap_err()),
        "Error: failed to read \"PreScoreInterPodAffinity\" from cycleState: not found"
    );
}

#[test]
fn preferences_of_others_and_the_weight_of_their_needs_can_be_ignored_together() {
    let world = world(
        "pod a node=n1 affinity=rack:app=z
         pod b node=n3 prefer-affinity=5:host:app=z",
    );
    let raw = |args: Value, text: &str| {
        raw_scores(&world, &*plugin_with(NAME, args), &pod(text)).map(Result::unwrap)
    };
    let drawn = "p label:app=z";
    assert_eq!(raw(Value::Null, drawn), Some(vec![1, 1, 5]));
    assert_eq!(raw(json!({"hardPodAffinityWeight": 7}), drawn), Some(vec![7, 7, 5]));
    assert_eq!(raw(json!({"hardPodAffinityWeight": 0}), drawn), Some(vec![0, 0, 5]));
    let ignoring = json!({"ignorePreferredTermsOfExistingPods": true});
    assert_eq!(raw(ignoring.clone(), drawn), None);
    // With a preference of its own the option has no effect.
    let own = "p label:app=z prefer-anti-affinity=2:rack:app=none";
    assert_eq!(raw(ignoring, own), Some(vec![1, 1, 5]));
}

#[test]
fn preferences_that_cancel_out_are_not_the_same_as_none() {
    let world = world("pod e node=n1 label:app=a");
    let raw = |text: &str| raw_scores(&world, &*plugin(NAME), &pod(text)).map(Result::unwrap);
    assert_eq!(raw("p prefer-affinity=3:rack:app=a"), Some(vec![3, 3, 0]));
    let both = "p prefer-affinity=3:rack:app=a prefer-anti-affinity=3:rack:app=a";
    assert_eq!(raw(both), Some(vec![0, 0, 0]));
    assert_eq!(raw("p prefer-affinity=3:rack:app=other"), None);
}

#[test]
fn the_weight_has_to_be_in_range() {
    let error = try_plugin(NAME, json!({"hardPodAffinityWeight": 101}), &[]).err();
    assert_eq!(
        error.as_deref(),
        Some("hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]")
    );
}

#[test]
fn pods_are_signed_by_namespace_labels_and_everything_in_their_terms() {
    let plugin = plugin(NAME);
    let of = |words: &str| signature(&*plugin, &pod(words));
    let kinds = [
        "p",
        r#"p {"spec": {"affinity": {"podAffinity": {}}}}"#,
        r#"p {"spec": {"affinity": {"podAntiAffinity": {}}}}"#,
        "p affinity=rack:app=a",
        "p affinity=host:app=a",
        "p affinity=rack:app=b",
        r#"p affinity={"topologyKey": "rack", "namespaces": ["n"], "labelSelector": {"matchLabels": {"app": "a"}}}"#,
        r#"p affinity={"topologyKey": "rack", "namespaceSelector": {}, "labelSelector": {"matchLabels": {"app": "a"}}}"#,
        "p affinity=rack:app=a affinity=rack:app=b",
        "p anti-affinity=rack:app=a",
    ];
    for (at, kind) in kinds.iter().enumerate() {
        assert!(of(kind).is_some(), "{kind}");
        for (other_at, other) in kinds.iter().enumerate() {
            assert_eq!(of(kind) == of(other), at == other_at, "{kind} {other}");
        }
    }
    assert_eq!(of("p label:app=a"), of("p label:app=a"));
    assert_ne!(of("p label:app=a"), of("p label:app=b"));
    assert_ne!(of("p label:app=a"), of("n/p label:app=a"));
}

/// `docs/spec/podgroups.md` §7.5.
#[test]
fn once_lists_of_nodes_are_frozen_terms_that_come_elsewhere_go_unnoticed() {
    let mut world = world(
        "pod minds node=n1 anti-affinity=host:app=none
         pod likes node=n3 prefer-affinity=1:host:app=none",
    );
    world.cluster_mut().freeze_affinity_lists();
    let mut world = world.with(
        "pod late1 node=n1 anti-affinity=host:app=z prefer-affinity=7:host:app=z
         pod late2 node=n2 anti-affinity=host:app=z prefer-affinity=5:host:app=z
         pod late3 node=n3 anti-affinity=host:app=z prefer-affinity=3:host:app=z",
    );
    let plugin = plugin(NAME);
    let plain = pod("p label:app=z");
    let verdicts = ["n1", "n2", "n3"].map(|node| verdict(&world, &*plugin, &plain, node));
    assert_eq!(verdicts, [EXISTING, "ok", "ok"]);
    let raw = |pod: &Pod| raw_scores(&world, &*plugin, pod).map(Result::unwrap);
    assert_eq!(raw(&plain), Some(vec![7, 0, 3]));
    // A pod with preferences looks at all pods instead of the list.
    let choosy = pod("p label:app=z prefer-affinity=1:host:app=none");
    assert_eq!(raw(&choosy), Some(vec![7, 5, 3]));

    for uid in ["late1-uid", "late2-uid", "late3-uid"] {
        world.cluster_mut().remove_pod(uid).unwrap();
    }
    assert_eq!(world.cluster().affinity_terms().n_terms_of_all_kinds(), 2);
    assert_eq!(raw_scores(&world, &*plugin, &plain), None);
}

fn on_pod(waiting: &str, old: Option<&str>, new: Option<&str>) -> String {
    let action = match (&old, &new) {
        (None, _) => ActionType::ADD,
        (Some(_), Some(_)) => ActionType::UPDATE_POD_LABEL,
        (Some(_), None) => ActionType::DELETE,
    };
    let event = ClusterEvent::new(EventResource::AssignedPod, action);
    let object = |text| EventObject::Pod(pod(text));
    hint(&*plugin(NAME), event, &pod(waiting), old.map(object), new.map(object))
}

fn on_node(waiting: &Pod, old: Option<&str>, new: &str) -> String {
    let action = if old.is_some() { ActionType::UPDATE_NODE_LABEL } else { ActionType::ADD };
    let event = ClusterEvent::new(EventResource::Node, action);
    let object = |text| EventObject::Node(node(text));
    hint(&*plugin(NAME), event, waiting, old.map(object), Some(object(new)))
}

const NEAR: &str = "p affinity=rack:app=a";
const AWAY: &str = "p anti-affinity=rack:app=a";
const A: Option<&str> = Some("e node=n label:app=a");
const B: Option<&str> = Some("e node=n label:app=b");

#[test]
fn a_wanted_pod_that_comes_helps_and_so_does_an_unwanted_one_that_goes() {
    assert_eq!([on_pod(NEAR, None, A), on_pod(NEAR, None, B)], ["queue", "skip"]);
    assert_eq!([on_pod(NEAR, B, A), on_pod(NEAR, A, A)], ["queue", "skip"]);
    assert_eq!([on_pod(AWAY, A, None), on_pod(AWAY, B, None)], ["queue", "skip"]);
    assert_eq!([on_pod(AWAY, A, B), on_pod(AWAY, B, A)], ["queue", "skip"]);
    // Pods that are neither bound nor nominated are nowhere yet.
    assert_eq!(on_pod(NEAR, None, Some("e label:app=a")), "skip");
    assert_eq!(on_pod(NEAR, None, Some("e label:app=a nominated=n")), "queue");
    assert_eq!(on_pod(NEAR, Some("p"), Some("p label:app=z")), "queue");
    assert_eq!(on_pod(NEAR, Some("e label:app=b"), Some("e label:app=a nominated=n")), "skip");
    // A pod that repelled the pod is gone.
    let minding = Some("e node=n anti-affinity=rack:app=z");
    assert_eq!(on_pod("p label:app=z", minding, None), "queue");
    assert_eq!(on_pod("p label:app=y", minding, None), "skip");
}

#[test]
fn a_second_anti_affinity_term_hides_that_the_first_is_met_again() {
    assert_eq!(on_pod("p anti-affinity=rack:app=a anti-affinity=rack:app=b", A, None), "skip");
}

#[test]
fn a_namespace_selector_in_a_hint_sees_no_labels() {
    let near = |namespaces: Value| {
        let term = json!({"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "a"}},
            "namespaceSelector": namespaces});
        on_pod(&format!("p affinity={term}"), None, A)
    };
    assert_eq!(near(json!({"matchLabels": {"team": "x"}})), "skip");
    assert_eq!(near(json!({})), "queue");
}

#[test]
fn a_node_helps_when_a_needed_key_comes_or_a_dangerous_one_goes() {
    let (none, a, b) = ("n", "n label:rack=a", "n label:rack=b");
    let hints = |waiting: &str| {
        let pod = &pod(waiting);
        [
            on_node(pod, None, none),
            on_node(pod, None, a),
            on_node(pod, Some(none), a),
            on_node(pod, Some(a), b),
            on_node(pod, Some(a), none),
            on_node(pod, Some(a), a),
        ]
    };
    assert_eq!(hints(NEAR), ["skip", "queue", "queue", "queue", "skip", "skip"]);
    assert_eq!(hints(AWAY), ["queue", "queue", "skip", "queue", "queue", "skip"]);
    assert_eq!(hints("p"), ["skip"; 6]);
}
