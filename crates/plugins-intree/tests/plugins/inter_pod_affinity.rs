//! InterPodAffinity: behaviours that have a name. The arithmetic is compared with a model elsewhere.

use std::sync::Arc;

use kube_scheduler_framework::api::{Node, Pod};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, ClusterView, CycleState, EventObject, EventResource, NodeOverlay,
    NodeView,
};
use serde_json::{Value, json};

use crate::support::{World, node, plugin, plugin_with, pod, running, signature, text, try_plugin};

const NAME: &str = "InterPodAffinity";

fn term(key: &str, app: &str) -> Value {
    json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}})
}

fn required(kind: &str, terms: &[Value]) -> Value {
    json!({"spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}})
}

fn preferred(kind: &str, weight: i32, term: Value) -> Value {
    let terms = json!([{"weight": weight, "podAffinityTerm": term}]);
    json!({"spec": {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}})
}

fn app(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}})
}

fn with(mut parts: Value, key: &str, value: Value) -> Value {
    parts[key] = value;
    parts
}

/// Three nodes: two in zone a, one in none.
fn nodes() -> Vec<Arc<Node>> {
    ["n1", "n2", "n3"]
        .into_iter()
        .map(|name| {
            let labels = match name {
                "n3" => json!({"host": name}),
                _ => json!({"host": name, "zone": "a"}),
            };
            node(name, json!({"metadata": {"labels": labels}}))
        })
        .collect()
}

const NO_AFFINITY: &str = "UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules";
const NO_ANTI_AFFINITY: &str = "Unschedulable: node(s) didn't match pod anti-affinity rules";
const EXISTING: &str = "Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules";

#[test]
fn a_pod_may_open_the_first_domain_of_its_kind_where_the_key_is() {
    let own = with(
        required("podAffinity", &[term("zone", "a")]),
        "metadata",
        app("a")["metadata"].clone(),
    );
    let (own, stranger) = (pod("p", own), pod("q", required("podAffinity", &[term("zone", "a")])));
    let plugin = plugin(NAME);
    let empty = World::new(nodes(), []);
    let all = |world: &World, pod: &Pod| ["n1", "n2", "n3"].map(|n| world.filter(&*plugin, pod, n));
    assert_eq!(all(&empty, &own), ["ok", "ok", NO_AFFINITY]);
    assert_eq!(all(&empty, &stranger), [NO_AFFINITY; 3]);
    // One that runs where the key is not does not count.
    let unlabelled = World::new(nodes(), [running("e", "n3", app("a"))]);
    assert_eq!(all(&unlabelled, &own), ["ok", "ok", NO_AFFINITY]);
    let there = World::new(nodes(), [running("e", "n1", app("a"))]);
    assert_eq!(all(&there, &stranger), ["ok", "ok", NO_AFFINITY]);
}

#[test]
fn removing_the_last_match_lets_the_pod_be_first_again() {
    let own = with(
        required("podAffinity", &[term("host", "a")]),
        "metadata",
        app("a")["metadata"].clone(),
    );
    let own = pod("p", own);
    let world = World::new(nodes(), [running("e", "n1", app("a"))]);
    let plugin = plugin(NAME);
    let mut state = CycleState::new();
    plugin.as_pre_filter().unwrap().pre_filter(&world.cx(), &mut state, &own);
    let mut overlay = NodeOverlay::new(world.idx("n1"));
    let gone = overlay.remove_pod(&world.cluster, "e").unwrap();
    let view = NodeView::hypothetical(&world.cluster, &overlay).unwrap();
    let extensions = plugin.as_pre_filter().unwrap().extensions().unwrap();
    extensions.remove_pod(&world.cx(), &mut state, &own, &gone, &view);
    let other = ClusterView::unrecorded(&world.cluster).node(world.idx("n2")).unwrap();
    let answer = plugin.as_filter().unwrap().filter(&world.cx(), &state, &own, &other);
    assert_eq!(text(&answer), "ok");
    // The whole-cluster form follows hypothetical pods too.
    let mut verdicts = kube_scheduler_framework::Verdicts::absent(world.cluster.capacity());
    world.cluster.order().iter().for_each(|idx| verdicts.put(*idx, &Default::default()));
    let name = NAME.into();
    let mut sink = kube_scheduler_framework::FilterSink::new(&mut verdicts, &name);
    let order = world.cluster.order();
    plugin.as_filter().unwrap().filter_all(&world.cx(), &state, &own, order, &mut sink).unwrap();
    assert_eq!(verdicts.n_rejected(), 0);
}

#[test]
fn reasons_come_in_order_affinity_anti_affinity_existing() {
    let both = json!({"spec": {"affinity": {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term("zone", "a")]},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term("host", "a")]},
    }}, "metadata": {"labels": {"app": "z"}}});
    let both = pod("p", both);
    let minding = required("podAntiAffinity", &[term("zone", "z")]);
    let world = World::new(nodes(), [running("a", "n1", app("a")), running("m", "n2", minding)]);
    let plugin = plugin(NAME);
    assert_eq!(world.filter(&*plugin, &both, "n3"), NO_AFFINITY);
    assert_eq!(world.filter(&*plugin, &both, "n1"), NO_ANTI_AFFINITY);
    assert_eq!(world.filter(&*plugin, &both, "n2"), EXISTING);
}

#[test]
fn a_namespace_selector_that_only_excludes_means_all() {
    let team = |name: &str, team: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}});
    let world = World::new(nodes(), [running("e", "n1", with(app("a"), "x", json!(0)))])
        .with_object(team("default", "x"))
        .with_object(team("other", "y"));
    let avoiding = |operator: &str, values: Value| {
        let mut term = term("zone", "a");
        term["namespaceSelector"] =
            json!({"matchExpressions": [{"key": "team", "operator": operator, "values": values}]});
        pod("p", required("podAntiAffinity", &[term]))
    };
    let plugin = plugin(NAME);
    // The pod that runs is in a namespace of team x.
    assert_eq!(world.filter(&*plugin, &avoiding("In", json!(["y"])), "n2"), "ok");
    assert_eq!(world.filter(&*plugin, &avoiding("In", json!(["x"])), "n2"), NO_ANTI_AFFINITY);
    assert_eq!(world.filter(&*plugin, &avoiding("NotIn", json!(["x"])), "n2"), NO_ANTI_AFFINITY);
    assert_eq!(
        world.filter(&*plugin, &avoiding("DoesNotExist", json!([])), "n2"),
        NO_ANTI_AFFINITY
    );
}

#[test]
fn terms_that_do_not_compile_say_why() {
    let bad = json!({"topologyKey": "zone", "labelSelector":
        {"matchExpressions": [{"key": "app", "operator": "Beside", "values": ["a"]}]}});
    let why = "\"Beside\" is not a valid label selector operator";
    let plugin = plugin(NAME);
    let world = World::new(nodes(), []);
    let one = pod("p", required("podAntiAffinity", std::slice::from_ref(&bad)));
    assert_eq!(
        world.pre_filter(&*plugin, &one),
        format!("UnschedulableAndUnresolvable: parsing pod: requiredAntiAffinityTerms: {why}")
    );
    let mut two = required("podAffinity", std::slice::from_ref(&bad));
    two["spec"]["affinity"]["podAntiAffinity"] =
        preferred("podAntiAffinity", 1, bad.clone())["spec"]["affinity"]["podAntiAffinity"].clone();
    let two = pod("p", two);
    let both = format!("[requiredAffinityTerms: {why}, preferredAntiAffinityTerms: {why}]");
    assert_eq!(
        world.pre_filter(&*plugin, &two),
        format!("UnschedulableAndUnresolvable: parsing pod: {both}")
    );
    let status = world.raw_scores(&*plugin, &two).unwrap().unwrap_err();
    assert_eq!(text(&status), format!("Error: failed to parse pod: {both}"));
    // Of a pod that runs, a bad list is as good as none.
    let world = World::new(nodes(), [running("e", "n1", required("podAntiAffinity", &[bad]))]);
    assert_eq!(world.pre_filter(&*plugin, &pod("p", app("a"))), "skip");
}

#[test]
fn without_state_filter_and_score_say_what_is_missing() {
    let world = World::new(nodes(), []);
    let (plugin, plain) = (plugin(NAME), pod("p", json!({})));
    let view = ClusterView::unrecorded(&world.cluster).node(world.idx("n1")).unwrap();
    let mut state = CycleState::new();
    let no_filter_state =
        "Error: error reading \"PreFilterInterPodAffinity\" from cycleState: not found";
    let filter = plugin.as_filter().unwrap();
    assert_eq!(text(&filter.filter(&world.cx(), &state, &plain, &view)), no_filter_state);
    let extensions = plugin.as_pre_filter().unwrap().extensions().unwrap();
    let told = extensions.add_pod(&world.cx(), &mut state, &plain, &plain, &view);
    assert_eq!(text(&told), no_filter_state);
    let score = plugin.as_score().unwrap().score(&world.cx(), &state, &plain, &view);
    assert_eq!(
        text(&score.unwrap_err()),
        "Error: failed to read \"PreScoreInterPodAffinity\" from cycleState: not found"
    );
}

#[test]
fn preferences_of_others_and_the_weight_of_their_needs_can_be_ignored_together() {
    let drawn = pod("p", app("z"));
    let others = [
        running("a", "n1", required("podAffinity", &[term("zone", "z")])),
        running("b", "n3", preferred("podAffinity", 5, term("host", "z"))),
    ];
    let world = World::new(nodes(), others);
    let raw = |args: Value, pod: &Pod| {
        world.raw_scores(&*plugin_with(NAME, args), pod).map(Result::unwrap)
    };
    assert_eq!(raw(Value::Null, &drawn), Some(vec![1, 1, 5]));
    assert_eq!(raw(json!({"hardPodAffinityWeight": 7}), &drawn), Some(vec![7, 7, 5]));
    assert_eq!(raw(json!({"hardPodAffinityWeight": 0}), &drawn), Some(vec![0, 0, 5]));
    let ignoring = json!({"ignorePreferredTermsOfExistingPods": true});
    assert_eq!(raw(ignoring.clone(), &drawn), None);
    // With a preference of its own the option has no effect.
    let own = with(
        preferred("podAntiAffinity", 2, term("zone", "none")),
        "metadata",
        app("z")["metadata"].clone(),
    );
    assert_eq!(raw(ignoring, &pod("p", own)), Some(vec![1, 1, 5]));
}

#[test]
fn preferences_that_cancel_out_are_not_the_same_as_none() {
    let own = preferred("podAffinity", 3, term("zone", "a"));
    let mut both = own.clone();
    both["spec"]["affinity"]["podAntiAffinity"] =
        preferred("podAntiAffinity", 3, term("zone", "a"))["spec"]["affinity"]["podAntiAffinity"]
            .clone();
    let world = World::new(nodes(), [running("e", "n1", app("a"))]);
    let raw = |parts: Value| world.raw_scores(&*plugin(NAME), &pod("p", parts)).map(Result::unwrap);
    assert_eq!(raw(own), Some(vec![3, 3, 0]));
    assert_eq!(raw(both), Some(vec![0, 0, 0]));
    assert_eq!(raw(preferred("podAffinity", 3, term("zone", "other"))), None);
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
    let of = |parts: Value| signature(&*plugin, &pod("p", parts));
    let kinds = [
        json!({}),
        json!({"spec": {"affinity": {"podAffinity": {}}}}),
        json!({"spec": {"affinity": {"podAntiAffinity": {}}}}),
        required("podAffinity", &[term("zone", "a")]),
        required("podAffinity", &[term("host", "a")]),
        required("podAffinity", &[term("zone", "b")]),
        required("podAffinity", &[with(term("zone", "a"), "namespaces", json!(["n"]))]),
        required("podAffinity", &[with(term("zone", "a"), "namespaceSelector", json!({}))]),
        required("podAffinity", &[term("zone", "a"), term("zone", "b")]),
        required("podAntiAffinity", &[term("zone", "a")]),
    ];
    for (at, kind) in kinds.iter().enumerate() {
        assert!(of(kind.clone()).is_some(), "{kind}");
        for (other_at, other) in kinds.iter().enumerate() {
            assert_eq!(of(kind.clone()) == of(other.clone()), at == other_at, "{kind} {other}");
        }
    }
    assert_eq!(of(app("a")), of(app("a")));
    assert_ne!(of(app("a")), of(app("b")));
    assert_ne!(of(app("a")), of(json!({"metadata": {"labels": {"app": "a"}, "namespace": "n"}})));
}

fn on_pod(waiting: &Pod, old: Option<Arc<Pod>>, new: Option<Arc<Pod>>) -> String {
    let action = match (&old, &new) {
        (None, _) => ActionType::ADD,
        (Some(_), Some(_)) => ActionType::UPDATE_POD_LABEL,
        (Some(_), None) => ActionType::DELETE,
    };
    let event = ClusterEvent::new(EventResource::AssignedPod, action);
    let (old, new) = (old.map(EventObject::Pod), new.map(EventObject::Pod));
    World::default().hint(&*plugin(NAME), event, waiting, old, new)
}

fn on_node(waiting: &Pod, old: Option<Value>, new: Value) -> String {
    let labelled = |labels| EventObject::Node(node("n", json!({"metadata": {"labels": labels}})));
    let action = if old.is_some() { ActionType::UPDATE_NODE_LABEL } else { ActionType::ADD };
    let event = ClusterEvent::new(EventResource::Node, action);
    World::default().hint(&*plugin(NAME), event, waiting, old.map(labelled), Some(labelled(new)))
}

#[test]
fn a_wanted_pod_that_comes_helps_and_so_does_an_unwanted_one_that_goes() {
    let near = pod("p", required("podAffinity", &[term("zone", "a")]));
    let away = pod("p", required("podAntiAffinity", &[term("zone", "a")]));
    let a = || Some(running("e", "n", app("a")));
    let b = || Some(running("e", "n", app("b")));
    assert_eq!([on_pod(&near, None, a()), on_pod(&near, None, b())], ["queue", "skip"]);
    assert_eq!([on_pod(&near, b(), a()), on_pod(&near, a(), a())], ["queue", "skip"]);
    assert_eq!([on_pod(&away, a(), None), on_pod(&away, b(), None)], ["queue", "skip"]);
    assert_eq!([on_pod(&away, a(), b()), on_pod(&away, b(), a())], ["queue", "skip"]);
    // Pods that are neither bound nor nominated are nowhere yet.
    assert_eq!(on_pod(&near, None, Some(pod("e", app("a")))), "skip");
    let nominated = with(app("a"), "status", json!({"nominatedNodeName": "n"}));
    assert_eq!(on_pod(&near, None, Some(pod("e", nominated))), "queue");
    assert_eq!(on_pod(&near, Some(pod("p", json!({}))), Some(pod("p", app("z")))), "queue");
    // One that minded the pod is gone.
    let minding = running("e", "n", required("podAntiAffinity", &[term("zone", "z")]));
    assert_eq!(on_pod(&pod("p", app("z")), Some(minding.clone()), None), "queue");
    assert_eq!(on_pod(&pod("p", app("y")), Some(minding), None), "skip");
}

#[test]
fn a_second_anti_affinity_term_hides_that_the_first_is_met_again() {
    let away = pod("p", required("podAntiAffinity", &[term("zone", "a"), term("zone", "b")]));
    assert_eq!(on_pod(&away, Some(running("e", "n", app("a"))), None), "skip");
}

#[test]
fn a_namespace_selector_in_a_hint_sees_no_labels() {
    let mut selecting = term("zone", "a");
    selecting["namespaceSelector"] = json!({"matchLabels": {"team": "x"}});
    let near = |term: Value| pod("p", required("podAffinity", &[term]));
    let a = || Some(running("e", "n", app("a")));
    assert_eq!(on_pod(&near(selecting.clone()), None, a()), "skip");
    selecting["namespaceSelector"] = json!({});
    assert_eq!(on_pod(&near(selecting), None, a()), "queue");
}

#[test]
fn a_node_helps_when_a_needed_key_comes_or_a_dangerous_one_goes() {
    let near = pod("p", required("podAffinity", &[term("zone", "a")]));
    let away = pod("p", required("podAntiAffinity", &[term("zone", "a")]));
    let (none, a, b) = (json!({}), json!({"zone": "a"}), json!({"zone": "b"}));
    let hints = |pod: &Pod| {
        [
            on_node(pod, None, none.clone()),
            on_node(pod, None, a.clone()),
            on_node(pod, Some(none.clone()), a.clone()),
            on_node(pod, Some(a.clone()), b.clone()),
            on_node(pod, Some(a.clone()), none.clone()),
            on_node(pod, Some(a.clone()), a.clone()),
        ]
    };
    assert_eq!(hints(&near), ["skip", "queue", "queue", "queue", "skip", "skip"]);
    assert_eq!(hints(&away), ["queue", "queue", "skip", "queue", "queue", "skip"]);
    assert_eq!(hints(&pod("p", json!({}))), ["skip"; 6]);
}
