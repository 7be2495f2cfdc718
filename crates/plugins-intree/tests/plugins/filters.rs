//! Who is turned down, where, and in which words.

use kube_scheduler_framework::{ClusterView, CycleState};
use serde_json::{Value, json};

use crate::support::{
    World, asking, node, plugin, plugin_with, pod, running, text, try_plugin, using,
};

const CORDONED: &str = "UnschedulableAndUnresolvable: node(s) were unschedulable";
const TAINTED: &str = "UnschedulableAndUnresolvable: node(s) had untolerated taint(s)";
const NO_MATCH: &str =
    "UnschedulableAndUnresolvable: node(s) didn't match Pod's node affinity/selector";
const NO_PORT: &str = "Unschedulable: node(s) didn't have free ports for the requested pod ports";

fn tolerating(toleration: Value) -> std::sync::Arc<kube_scheduler_framework::api::Pod> {
    pod("p", json!({"spec": {"tolerations": [toleration]}}))
}

#[test]
fn a_cordoned_node_takes_only_pods_that_tolerate_the_cordon() {
    let world = World::new(
        [node("open", json!({})), node("shut", json!({"spec": {"unschedulable": true}}))],
        [],
    );
    let plugin = plugin("NodeUnschedulable");
    let ask = |pod: &_, node| world.filter(&*plugin, pod, node);
    assert_eq!(ask(&pod("p", json!({})), "open"), "ok");
    assert_eq!(ask(&pod("p", json!({})), "shut"), CORDONED);
    let key = "node.kubernetes.io/unschedulable";
    assert_eq!(ask(&tolerating(json!({"key": key, "effect": "NoSchedule"})), "shut"), "ok");
    assert_eq!(
        ask(&tolerating(json!({"key": key, "value": "x", "effect": "NoSchedule"})), "shut"),
        CORDONED
    );
    assert_eq!(ask(&tolerating(json!({"operator": "Exists"})), "shut"), "ok");
}

#[test]
fn a_named_node_is_the_only_one() {
    let world = World::new([node("a", json!({})), node("b", json!({}))], []);
    let plugin = plugin("NodeName");
    let named = running("p", "a", json!({}));
    assert_eq!(world.filter(&*plugin, &named, "a"), "ok");
    let expected = "UnschedulableAndUnresolvable: node(s) didn't match the requested node name";
    assert_eq!(world.filter(&*plugin, &named, "b"), expected);
    assert_eq!(world.filter(&*plugin, &pod("p", json!({})), "b"), "ok");
}

#[test]
fn hard_taints_keep_out_who_does_not_tolerate_them() {
    let taint =
        |effect: &str| json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": effect}]}});
    let world = World::new(
        [
            node("hard", taint("NoSchedule")),
            node("evicting", taint("NoExecute")),
            node("soft", taint("PreferNoSchedule")),
        ],
        [],
    );
    let plugin = plugin("TaintToleration");
    let ask = |pod: &_, node| world.filter(&*plugin, pod, node);
    let plain = pod("p", json!({}));
    assert_eq!(
        [ask(&plain, "hard"), ask(&plain, "evicting"), ask(&plain, "soft")],
        [TAINTED, TAINTED, "ok"]
    );
    assert_eq!(ask(&tolerating(json!({"operator": "Exists"})), "hard"), "ok");
    assert_eq!(ask(&tolerating(json!({"key": "k", "value": "v"})), "evicting"), "ok");
    assert_eq!(ask(&tolerating(json!({"key": "k", "value": "w"})), "hard"), TAINTED);
    assert_eq!(
        ask(
            &tolerating(json!({"key": "k", "operator": "Exists", "effect": "PreferNoSchedule"})),
            "hard"
        ),
        TAINTED
    );
    let brief =
        json!({"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0});
    assert_eq!(ask(&tolerating(brief), "evicting"), "ok");
}

#[test]
fn tolerations_compare_numbers_only_behind_their_gate() {
    let taint = |value: &str| json!({"spec": {"taints": [{"key": "risk", "value": value, "effect": "NoSchedule"}]}});
    let world = World::new(
        ["950", "high", "+5", "007", "-0", ""]
            .map(|value| node(&format!("n{value}"), taint(value))),
        [],
    );
    let on =
        try_plugin("TaintToleration", Value::Null, &[("TaintTolerationComparisonOperators", true)])
            .unwrap();
    let off = plugin("TaintToleration");
    let above = |bound: &str| tolerating(json!({"key": "risk", "operator": "Gt", "value": bound}));
    assert_eq!(world.filter(&*on, &above("949"), "n950"), "ok");
    assert_eq!(world.filter(&*on, &above("950"), "n950"), TAINTED);
    assert_eq!(world.filter(&*off, &above("949"), "n950"), TAINTED);
    for unreadable in ["nhigh", "n+5", "n007", "n-0", "n"] {
        assert_eq!(world.filter(&*on, &above("-10"), unreadable), TAINTED, "{unreadable}");
    }
}

fn requiring(terms: Value) -> std::sync::Arc<kube_scheduler_framework::api::Pod> {
    let required =
        json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    pod("p", json!({"spec": {"affinity": {"nodeAffinity": required}}}))
}

fn labelled(name: &str, labels: Value) -> std::sync::Arc<kube_scheduler_framework::api::Node> {
    node(name, json!({"metadata": {"labels": labels}}))
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

#[test]
fn node_affinity_operators() {
    let world = World::new(
        [labelled("n", json!({"zone": "a", "gen": "7"})), labelled("bare", json!({}))],
        [],
    );
    let plugin = plugin("NodeAffinity");
    for (key, operator, values, on_n, on_bare) in [
        ("zone", "In", &["a", "b"][..], true, false),
        ("zone", "NotIn", &["a"], false, true),
        ("zone", "NotIn", &["b"], true, true),
        ("zone", "Exists", &[], true, false),
        ("zone", "DoesNotExist", &[], false, true),
        ("gen", "Gt", &["6"], true, false),
        ("gen", "Gt", &["7"], false, false),
        ("gen", "Lt", &["8"], true, false),
        ("zone", "Gt", &["1"], false, false),
        // Not valid label values, so the term is in error and matches nothing.
        ("gen", "Gt", &["-1"], false, false),
        ("zone", "NotIn", &["not valid!"], false, false),
    ] {
        let pod = requiring(json!([{"matchExpressions": [expression(key, operator, values)]}]));
        for (name, expected) in [("n", on_n), ("bare", on_bare)] {
            let expected = if expected { "ok" } else { NO_MATCH };
            assert_eq!(
                world.filter(&*plugin, &pod, name),
                expected,
                "{key} {operator} {values:?} on {name}"
            );
        }
    }
}

#[test]
fn empty_terms_and_terms_in_error_match_nothing_but_spoil_nothing() {
    let world = World::new([labelled("n", json!({"zone": "a"}))], []);
    let plugin = plugin("NodeAffinity");
    let good = json!({"matchExpressions": [expression("zone", "Exists", &[])]});
    let bad = json!({"matchExpressions": [expression("-bad", "Exists", &[])]});
    let ask = |terms| world.filter(&*plugin, &requiring(terms), "n");
    assert_eq!(ask(json!([{}, good])), "ok");
    assert_eq!(ask(json!([bad, good])), "ok");
    assert_eq!(ask(json!([{}])), NO_MATCH);
    assert_eq!(ask(json!([])), NO_MATCH);
    assert_eq!(ask(json!([bad])), NO_MATCH);
}

#[test]
fn node_selector_and_affinity_must_both_hold() {
    let world = World::new([labelled("n", json!({"zone": "a", "disk": "ssd"}))], []);
    let plugin = plugin("NodeAffinity");
    let with = |selector: Value, zone: &str| {
        let required = json!({"nodeSelectorTerms": [{"matchExpressions": [expression("zone", "In", &[zone])]}]});
        pod(
            "p",
            json!({"spec": {"nodeSelector": selector,
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}}),
        )
    };
    assert_eq!(world.filter(&*plugin, &with(json!({"disk": "ssd"}), "a"), "n"), "ok");
    assert_eq!(world.filter(&*plugin, &with(json!({"disk": "hdd"}), "a"), "n"), NO_MATCH);
    assert_eq!(world.filter(&*plugin, &with(json!({"disk": "ssd"}), "b"), "n"), NO_MATCH);
    assert_eq!(world.filter(&*plugin, &with(json!({}), "a"), "n"), "ok");
}

#[test]
fn names_in_terms_narrow_the_search() {
    let world = World::new([node("a", json!({})), node("b", json!({}))], []);
    let plugin = plugin("NodeAffinity");
    let fields = |fields: Value| json!({"matchFields": fields});
    let named = |names: &[&str]| json!({"key": "metadata.name", "operator": "In", "values": names});
    let ask = |terms| world.pre_filter(&*plugin, &requiring(terms));
    let conflict = fields(json!([named(&["a"]), named(&["b"])]));
    assert_eq!(ask(json!([conflict])), "UnschedulableAndUnresolvable: pod affinity terms conflict");
    let label_only = json!({"matchExpressions": [expression("zone", "Exists", &[])]});
    assert_eq!(ask(json!([conflict, label_only])), "ok");
    assert_eq!(
        ask(json!([fields(json!([named(&["a"])])), fields(json!([named(&["gone"])]))])),
        "a,gone"
    );
    assert_eq!(ask(json!([])), "ok");
    // Both names count for narrowing, yet two values make the term an error for Filter.
    let two = requiring(json!([fields(json!([named(&["a", "b"])]))]));
    assert_eq!(world.pre_filter(&*plugin, &two), "a,b");
    let view = ClusterView::unrecorded(&world.cluster).node(world.idx("a")).unwrap();
    assert_eq!(
        text(&plugin.as_filter().unwrap().filter(&world.cx(), &CycleState::new(), &two, &view)),
        NO_MATCH
    );
}

#[test]
fn node_affinity_skips_pods_that_want_nothing() {
    let world = World::new([node("a", json!({}))], []);
    let ask = |pod: &_| world.pre_filter(&*plugin("NodeAffinity"), pod);
    assert_eq!(ask(&pod("p", json!({}))), "skip");
    assert_eq!(ask(&pod("p", json!({"spec": {"nodeSelector": {}}}))), "ok");
    let added = plugin_with(
        "NodeAffinity",
        json!({"addedAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}),
    );
    assert_eq!(world.pre_filter(&*added, &pod("p", json!({}))), "ok");
}

#[test]
fn added_affinity_is_named_first() {
    let added = plugin_with(
        "NodeAffinity",
        json!({"addedAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [expression("team", "In", &["x"])]}]}}}),
    );
    let world =
        World::new([labelled("ours", json!({"team": "x"})), labelled("theirs", json!({}))], []);
    let picky = pod("p", json!({"spec": {"nodeSelector": {"disk": "ssd"}}}));
    let enforced =
        "UnschedulableAndUnresolvable: node(s) didn't match scheduler-enforced node affinity";
    assert_eq!(world.filter(&*added, &picky, "theirs"), enforced);
    assert_eq!(world.filter(&*added, &picky, "ours"), NO_MATCH);
    assert_eq!(world.filter(&*added, &pod("p", json!({})), "ours"), "ok");
}

fn port(ip: &str, protocol: &str, port: i32) -> Value {
    json!({"spec": {"containers": [{"name": "c", "ports": [
        {"hostIP": ip, "protocol": protocol, "hostPort": port, "containerPort": 1}]}]}})
}

#[test]
fn host_ports_conflict_by_address_and_protocol() {
    for (held, wanted, fits) in [
        (("127.0.0.1", "TCP"), ("0.0.0.0", "TCP"), false),
        (("0.0.0.0", "TCP"), ("127.0.0.1", "TCP"), false),
        (("", ""), ("10.0.0.1", "TCP"), false),
        (("0.0.0.0", "TCP"), ("0.0.0.0", "UDP"), true),
        (("10.0.0.1", "TCP"), ("10.0.0.2", "TCP"), true),
        (("::", "TCP"), ("0.0.0.0", "TCP"), false),
        (("::", "TCP"), ("127.0.0.1", "TCP"), true),
    ] {
        let world =
            World::new([node("n", json!({}))], [running("r", "n", port(held.0, held.1, 80))]);
        let pod = pod("p", port(wanted.0, wanted.1, 80));
        let expected = if fits { "ok" } else { NO_PORT };
        assert_eq!(
            world.filter(&*plugin("NodePorts"), &pod, "n"),
            expected,
            "{wanted:?} beside {held:?}"
        );
    }
}

#[test]
fn only_ports_of_long_running_containers_count() {
    let world = World::new([node("n", json!({}))], []);
    let init = |policy: Value| {
        pod(
            "p",
            json!({"spec": {"initContainers": [
            {"name": "i", "restartPolicy": policy, "ports": [{"hostPort": 80, "containerPort": 1}]}]}}),
        )
    };
    assert_eq!(world.pre_filter(&*plugin("NodePorts"), &init(Value::Null)), "skip");
    assert_eq!(world.pre_filter(&*plugin("NodePorts"), &init(json!("Always"))), "ok");
}

#[test]
fn requests_must_fit_what_is_left() {
    let world =
        World::new([node("n", json!({}))], [using("r", "n", json!({"cpu": "3", "memory": "9Gi"}))]);
    let ask = |requests| world.filter(&*plugin("NodeResourcesFit"), &asking(requests), "n");
    assert_eq!(ask(json!({"cpu": "1", "memory": "1Gi"})), "ok");
    assert_eq!(ask(json!({"cpu": "1001m"})), "Unschedulable: Insufficient cpu");
    assert_eq!(
        ask(json!({"cpu": "2", "memory": "2Gi"})),
        "Unschedulable: Insufficient cpu, Insufficient memory"
    );
    assert_eq!(ask(json!({"cpu": "5"})), "UnschedulableAndUnresolvable: Insufficient cpu");
    // One request that no change of pods can meet decides the code of all.
    let expected = "UnschedulableAndUnresolvable: Insufficient cpu, Insufficient memory, Insufficient ephemeral-storage";
    assert_eq!(ask(json!({"cpu": "2", "memory": "2Gi", "ephemeral-storage": "1"})), expected);
    let expected = "UnschedulableAndUnresolvable: Insufficient a.com/x, Insufficient b.com/x";
    assert_eq!(ask(json!({"b.com/x": "1", "a.com/x": "1"})), expected);
    assert_eq!(ask(json!({"a.com/x": "0", "storage": "1Ti"})), "ok");
}

#[test]
fn nothing_asked_for_fits_even_on_an_overcommitted_node() {
    let world = World::new(
        [node("n", json!({}))],
        [using("r", "n", json!({"cpu": "30", "memory": "90Gi"}))],
    );
    assert_eq!(world.filter(&*plugin("NodeResourcesFit"), &asking(json!({})), "n"), "ok");
}

#[test]
fn too_many_pods_is_never_unresolvable_by_itself() {
    let full = node("full", json!({"status": {"allocatable": {"pods": "1"}}}));
    let closed = node("closed", json!({"status": {"allocatable": {"pods": "0"}}}));
    let world = World::new([full, closed], [using("r", "full", json!({"cpu": "4"}))]);
    let fit = plugin("NodeResourcesFit");
    assert_eq!(world.filter(&*fit, &asking(json!({})), "full"), "Unschedulable: Too many pods");
    assert_eq!(world.filter(&*fit, &asking(json!({})), "closed"), "Unschedulable: Too many pods");
    let expected = "Unschedulable: Too many pods, Insufficient cpu";
    assert_eq!(world.filter(&*fit, &asking(json!({"cpu": "1"})), "full"), expected);
}

#[test]
fn ignoring_covers_extended_resources_alone() {
    let fit = plugin_with(
        "NodeResourcesFit",
        json!({
        "ignoredResources": ["hugepages-2Mi", "foo.io/one"], "ignoredResourceGroups": ["example.com"]}),
    );
    let world = World::new([node("n", json!({}))], []);
    let ask = |name: &str| world.filter(&*fit, &asking(json!({name: "1"})), "n");
    assert_eq!([ask("example.com/a"), ask("foo.io/one")], ["ok", "ok"]);
    for name in ["hugepages-2Mi", "sub.example.com/a", "foo.io/two", "x.kubernetes.io/y"] {
        assert_eq!(ask(name), format!("UnschedulableAndUnresolvable: Insufficient {name}"));
    }
}

fn device_class(world: World) -> World {
    world.with_object(json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
        "metadata": {"name": "gpus"}, "spec": {"extendedResourceName": "example.com/gpu"}}))
}

#[test]
fn device_classes_serve_where_nodes_have_none() {
    let has = |n: &str| json!({"status": {"allocatable": {"example.com/gpu": n}}});
    let world =
        World::new([node("none", json!({})), node("zero", has("0")), node("one", has("1"))], []);
    let world = device_class(world);
    let fit = plugin("NodeResourcesFit");
    let two = asking(json!({"example.com/gpu": "2"}));
    assert_eq!(
        [world.filter(&*fit, &two, "none"), world.filter(&*fit, &two, "zero")],
        ["ok", "ok"]
    );
    let short = "UnschedulableAndUnresolvable: Insufficient example.com/gpu";
    assert_eq!(world.filter(&*fit, &two, "one"), short);
    let implicit = asking(json!({"deviceclass.resource.kubernetes.io/gpus": "1"}));
    assert_eq!(world.filter(&*fit, &implicit, "none"), "ok");
    let off =
        try_plugin("NodeResourcesFit", Value::Null, &[("DRAExtendedResource", false)]).unwrap();
    assert_eq!(world.filter(&*off, &two, "none"), short);
}

#[test]
fn pods_that_need_dynamic_allocation_are_refused_in_so_many_words() {
    let has = json!({"status": {"allocatable": {"example.com/gpu": "1"}}});
    let world = device_class(World::new([node("none", json!({})), node("one", has)], []));
    let dra = plugin("DynamicResources");
    let claiming =
        pod("p", json!({"spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "x"}]}}));
    let refused = world.pre_filter(&*dra, &claiming);
    assert!(
        refused.starts_with("UnschedulableAndUnresolvable: pod has resource claims"),
        "{refused}"
    );
    assert_eq!(world.pre_filter(&*dra, &pod("p", json!({}))), "skip");
    let gpu = asking(json!({"example.com/gpu": "1"}));
    assert_eq!(world.filter(&*dra, &gpu, "one"), "ok");
    let refused = world.filter(&*dra, &gpu, "none");
    assert!(
        refused.starts_with("UnschedulableAndUnresolvable: example.com/gpu is provided by"),
        "{refused}"
    );
}

#[test]
fn required_features_must_be_declared() {
    let declares = |features: &[&str]| json!({"status": {"declaredFeatures": features}});
    let world = World::new(
        [
            node("old", json!({})),
            node("new", declares(&["Unknown", "UserNamespacesHostNetworkSupport"])),
        ],
        [],
    );
    let plugin = plugin("NodeDeclaredFeatures");
    let needs = pod("p", json!({"spec": {"hostNetwork": true, "hostUsers": false}}));
    assert_eq!(world.filter(&*plugin, &needs, "new"), "ok");
    let expected = "UnschedulableAndUnresolvable: node(s) didn't match Pod's required features";
    assert_eq!(world.filter(&*plugin, &needs, "old"), expected);
    assert_eq!(world.pre_filter(&*plugin, &pod("p", json!({}))), "skip");
    let off = try_plugin("NodeDeclaredFeatures", Value::Null, &[("NodeDeclaredFeatures", false)])
        .unwrap();
    assert_eq!(world.pre_filter(&*off, &needs), "skip");
}

#[test]
fn filters_without_their_pre_filter_say_what_they_miss() {
    let world = World::new([node("n", json!({}))], []);
    let view = ClusterView::unrecorded(&world.cluster).node(world.idx("n")).unwrap();
    for (name, expected) in [
        ("NodePorts", "Error: reading \"PreFilterNodePorts\" from cycleState: not found"),
        (
            "NodeResourcesFit",
            "Error: error reading \"PreFilterNodeResourcesFit\" from cycleState: not found",
        ),
        (
            "NodeDeclaredFeatures",
            "Error: error reading \"PreFilterNodeDeclaredFeatures\" from cycle-state: not found",
        ),
    ] {
        let plugin = plugin(name);
        let status = plugin.as_filter().unwrap().filter(
            &world.cx(),
            &CycleState::new(),
            &pod("p", json!({})),
            &view,
        );
        assert_eq!(text(&status), expected);
    }
}
