//! Which pods are rejected, where, and in which words.

use kube_scheduler_framework::CycleState;
use kube_scheduler_framework::testing::fixture;
use serde_json::{Value, json};

use crate::support::{plugin, plugin_with, pod, pre_verdict, text, try_plugin, verdict};

const CORDONED: &str = "UnschedulableAndUnresolvable: node(s) were unschedulable";
const TAINTED: &str = "UnschedulableAndUnresolvable: node(s) had untolerated taint(s)";
const NO_MATCH: &str =
    "UnschedulableAndUnresolvable: node(s) didn't match Pod's node affinity/selector";
const NO_PORT: &str = "Unschedulable: node(s) didn't have free ports for the requested pod ports";

/// What a plugin says about a pod on a node of a fixture.
fn ask(name: &str, world: &str, pod_text: &str, node: &str) -> String {
    verdict(&fixture(world), &*plugin(name), &pod(pod_text), node)
}

#[test]
fn a_cordoned_node_takes_only_pods_that_tolerate_the_cordon() {
    let ask = |pod, node| ask("NodeUnschedulable", "node open; node shut unschedulable", pod, node);
    assert_eq!(ask("p", "open"), "ok");
    assert_eq!(ask("p", "shut"), CORDONED);
    assert_eq!(
        ask(
            r#"p tolerate={"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}"#,
            "shut"
        ),
        "ok"
    );
    let with_value = "p tolerate:node.kubernetes.io/unschedulable=x:NoSchedule";
    assert_eq!(ask(with_value, "shut"), CORDONED);
    assert_eq!(ask("p tolerate:*", "shut"), "ok");
}

#[test]
fn a_named_node_is_the_only_one() {
    let ask = |pod, node| ask("NodeName", "node a; node b", pod, node);
    assert_eq!(ask("p node=a", "a"), "ok");
    let expected = "UnschedulableAndUnresolvable: node(s) didn't match the requested node name";
    assert_eq!(ask("p node=a", "b"), expected);
    assert_eq!(ask("p", "b"), "ok");
}

#[test]
fn hard_taints_keep_out_who_does_not_tolerate_them() {
    let world = "node hard taint:k=v:NoSchedule
                 node evicting taint:k=v:NoExecute
                 node soft taint:k=v:PreferNoSchedule";
    let ask = |pod, node| ask("TaintToleration", world, pod, node);
    assert_eq!(["hard", "evicting", "soft"].map(|node| ask("p", node)), [TAINTED, TAINTED, "ok"]);
    assert_eq!(ask("p tolerate:*", "hard"), "ok");
    assert_eq!(ask(r#"p tolerate={"key": "k", "value": "v"}"#, "evicting"), "ok");
    assert_eq!(ask(r#"p tolerate={"key": "k", "value": "w"}"#, "hard"), TAINTED);
    assert_eq!(ask("p tolerate:k:PreferNoSchedule", "hard"), TAINTED);
    let brief = r#"p tolerate={"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}"#;
    assert_eq!(ask(brief, "evicting"), "ok");
}

#[test]
fn tolerations_compare_numbers_only_behind_their_gate() {
    let nodes = ["950", "high", "+5", "007", "-0", ""];
    let world = fixture(&nodes.map(|v| format!("node n{v} taint:risk={v}:NoSchedule")).join("\n"));
    let gates = [("TaintTolerationComparisonOperators", true)];
    let on = try_plugin("TaintToleration", Value::Null, &gates).unwrap();
    let off = plugin("TaintToleration");
    let above = |bound: &str| {
        let toleration = json!({"key": "risk", "operator": "Gt", "value": bound});
        pod(&format!("p tolerate={toleration}"))
    };
    assert_eq!(verdict(&world, &*on, &above("949"), "n950"), "ok");
    assert_eq!(verdict(&world, &*on, &above("950"), "n950"), TAINTED);
    assert_eq!(verdict(&world, &*off, &above("949"), "n950"), TAINTED);
    for unreadable in ["nhigh", "n+5", "n007", "n-0", "n"] {
        assert_eq!(verdict(&world, &*on, &above("-10"), unreadable), TAINTED, "{unreadable}");
    }
}

fn requiring(terms: Value) -> std::sync::Arc<kube_scheduler_framework::api::Pod> {
    let required =
        json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    pod(&format!("p {}", json!({"spec": {"affinity": {"nodeAffinity": required}}})))
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

#[test]
fn node_affinity_operators() {
    let world = fixture("node n label:zone=a label:gen=7; node bare");
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
            let found = verdict(&world, &*plugin, &pod, name);
            assert_eq!(found, expected, "{key} {operator} {values:?} on {name}");
        }
    }
}

#[test]
fn empty_terms_and_terms_in_error_match_nothing_but_spoil_nothing() {
    let world = fixture("node n label:zone=a");
    let plugin = plugin("NodeAffinity");
    let good = json!({"matchExpressions": [expression("zone", "Exists", &[])]});
    let bad = json!({"matchExpressions": [expression("-bad", "Exists", &[])]});
    let ask = |terms| verdict(&world, &*plugin, &requiring(terms), "n");
    assert_eq!(ask(json!([{}, good])), "ok");
    assert_eq!(ask(json!([bad, good])), "ok");
    assert_eq!(ask(json!([{}])), NO_MATCH);
    assert_eq!(ask(json!([])), NO_MATCH);
    assert_eq!(ask(json!([bad])), NO_MATCH);
}

#[test]
fn node_selector_and_affinity_must_both_hold() {
    let ask = |pod| ask("NodeAffinity", "node n label:zone=a label:disk=ssd", pod, "n");
    assert_eq!(ask("p selector:disk=ssd node-affinity=zone=a"), "ok");
    assert_eq!(ask("p selector:disk=hdd node-affinity=zone=a"), NO_MATCH);
    assert_eq!(ask("p selector:disk=ssd node-affinity=zone=b"), NO_MATCH);
    assert_eq!(ask(r#"p node-affinity=zone=a {"spec": {"nodeSelector": {}}}"#), "ok");
}

#[test]
fn names_in_terms_narrow_the_search() {
    let world = fixture("node a; node b");
    let plugin = plugin("NodeAffinity");
    let fields = |fields: Value| json!({"matchFields": fields});
    let named = |names: &[&str]| json!({"key": "metadata.name", "operator": "In", "values": names});
    let ask = |terms| pre_verdict(&world, &*plugin, &requiring(terms));
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
    assert_eq!(pre_verdict(&world, &*plugin, &two), "a,b");
    let filter = plugin.as_filter().unwrap();
    let status = filter.filter(&world.cx(), &CycleState::new(), &two, &world.view("a"));
    assert_eq!(text(&status), NO_MATCH);
}

#[test]
fn node_affinity_skips_pods_that_want_nothing() {
    let world = fixture("node a");
    let ask = |text| pre_verdict(&world, &*plugin("NodeAffinity"), &pod(text));
    assert_eq!(ask("p"), "skip");
    assert_eq!(ask(r#"p {"spec": {"nodeSelector": {}}}"#), "ok");
    let added = plugin_with(
        "NodeAffinity",
        json!({"addedAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}),
    );
    assert_eq!(pre_verdict(&world, &*added, &pod("p")), "ok");
}

#[test]
fn added_affinity_is_named_first() {
    let added = plugin_with(
        "NodeAffinity",
        json!({"addedAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [expression("team", "In", &["x"])]}]}}}),
    );
    let world = fixture("node ours label:team=x; node theirs");
    let picky = pod("p selector:disk=ssd");
    let enforced =
        "UnschedulableAndUnresolvable: node(s) didn't match scheduler-enforced node affinity";
    assert_eq!(verdict(&world, &*added, &picky, "theirs"), enforced);
    assert_eq!(verdict(&world, &*added, &picky, "ours"), NO_MATCH);
    assert_eq!(verdict(&world, &*added, &pod("p"), "ours"), "ok");
}

#[test]
fn host_ports_conflict_by_address_and_protocol() {
    for (held, wanted, fits) in [
        ("127.0.0.1:80/TCP", "0.0.0.0:80/TCP", false),
        ("0.0.0.0:80/TCP", "127.0.0.1:80/TCP", false),
        (":80/", "10.0.0.1:80/TCP", false),
        ("0.0.0.0:80/TCP", "0.0.0.0:80/UDP", true),
        ("10.0.0.1:80/TCP", "10.0.0.2:80/TCP", true),
        (":::80/TCP", "0.0.0.0:80/TCP", false),
        (":::80/TCP", "127.0.0.1:80/TCP", true),
    ] {
        let world = format!("node n; pod r node=n port={held}");
        let expected = if fits { "ok" } else { NO_PORT };
        let found = ask("NodePorts", &world, &format!("p port={wanted}"), "n");
        assert_eq!(found, expected, "{wanted} beside {held}");
    }
}

#[test]
fn only_ports_of_long_running_containers_count() {
    let init = |policy: Value| {
        let container = json!({"name": "i", "restartPolicy": policy, "ports": [{"hostPort": 80, "containerPort": 1}]});
        let pod = pod(&format!("p {}", json!({"spec": {"initContainers": [container]}})));
        pre_verdict(&fixture("node n"), &*plugin("NodePorts"), &pod)
    };
    assert_eq!(init(Value::Null), "skip");
    assert_eq!(init(json!("Always")), "ok");
}

#[test]
fn requests_must_fit_what_is_left() {
    let world = "node n memory=10Gi; pod r node=n cpu=3 memory=9Gi";
    let ask = |requests: &str| ask("NodeResourcesFit", world, &format!("p {requests}"), "n");
    assert_eq!(ask("cpu=1 memory=1Gi"), "ok");
    assert_eq!(ask("cpu=1001m"), "Unschedulable: Insufficient cpu");
    assert_eq!(ask("cpu=2 memory=2Gi"), "Unschedulable: Insufficient cpu, Insufficient memory");
    assert_eq!(ask("cpu=5"), "UnschedulableAndUnresolvable: Insufficient cpu");
    // One request that no change of pods can meet decides the code of all.
    let expected = "UnschedulableAndUnresolvable: Insufficient cpu, Insufficient memory, Insufficient ephemeral-storage";
    assert_eq!(ask("cpu=2 memory=2Gi ephemeral-storage=1"), expected);
    let expected = "UnschedulableAndUnresolvable: Insufficient a.com/x, Insufficient b.com/x";
    assert_eq!(ask("b.com/x=1 a.com/x=1"), expected);
    let containers =
        json!([{"name": "c", "resources": {"requests": {"a.com/x": "0", "storage": "1Ti"}}}]);
    assert_eq!(ask(&json!({"spec": {"containers": containers}}).to_string()), "ok");
}

#[test]
fn of_very_many_resources_that_a_node_is_short_of_the_first_are_named() {
    let ask = |n: usize| {
        let requests: Vec<String> = (100..100 + n).map(|at| format!("a.com/x{at}=1")).collect();
        let pod = format!("p cpu=9 {}", requests.join(" "));
        ask("NodeResourcesFit", "node n", &pod, "n")
    };
    let named = |n: usize| {
        let names: Vec<String> =
            (100..100 + n).map(|at| format!(", Insufficient a.com/x{at}")).collect();
        format!("UnschedulableAndUnresolvable: Insufficient cpu{}", names.concat())
    };
    assert_eq!(ask(50), named(50));
    assert_eq!(ask(51), format!("{}, Insufficient resources (1 more)", named(50)));
    assert_eq!(ask(800), format!("{}, Insufficient resources (750 more)", named(50)));
}

#[test]
fn nothing_asked_for_fits_even_on_an_overcommitted_node() {
    let world = "node n; pod r node=n cpu=30 memory=90Gi";
    assert_eq!(ask("NodeResourcesFit", world, "p", "n"), "ok");
}

#[test]
fn too_many_pods_is_never_unresolvable_by_itself() {
    let world = "node full pods=1; node closed pods=0; pod r node=full cpu=4";
    let ask = |pod, node| ask("NodeResourcesFit", world, pod, node);
    assert_eq!(ask("p", "full"), "Unschedulable: Too many pods");
    assert_eq!(ask("p", "closed"), "Unschedulable: Too many pods");
    assert_eq!(ask("p cpu=1", "full"), "Unschedulable: Too many pods, Insufficient cpu");
}

#[test]
fn ignoring_covers_extended_resources_alone() {
    let fit = plugin_with(
        "NodeResourcesFit",
        json!({
        "ignoredResources": ["hugepages-2Mi", "foo.io/one"], "ignoredResourceGroups": ["example.com"]}),
    );
    let world = fixture("node n");
    let ask = |name: &str| verdict(&world, &*fit, &pod(&format!("p {name}=1")), "n");
    assert_eq!([ask("example.com/a"), ask("foo.io/one")], ["ok", "ok"]);
    for name in ["hugepages-2Mi", "sub.example.com/a", "foo.io/two", "x.kubernetes.io/y"] {
        assert_eq!(ask(name), format!("UnschedulableAndUnresolvable: Insufficient {name}"));
    }
}

#[test]
fn device_classes_serve_where_nodes_have_none() {
    let world = "node none; node zero example.com/gpu=0; node one example.com/gpu=1
                 deviceclass gpus resource=example.com/gpu";
    let fit = |pod, node| ask("NodeResourcesFit", world, pod, node);
    let two = "p example.com/gpu=2";
    assert_eq!([fit(two, "none"), fit(two, "zero")], ["ok", "ok"]);
    let short = "UnschedulableAndUnresolvable: Insufficient example.com/gpu";
    assert_eq!(fit(two, "one"), short);
    assert_eq!(fit("p deviceclass.resource.kubernetes.io/gpus=1", "none"), "ok");
    let off =
        try_plugin("NodeResourcesFit", Value::Null, &[("DRAExtendedResource", false)]).unwrap();
    assert_eq!(verdict(&fixture(world), &*off, &pod(two), "none"), short);
}

#[test]
fn required_features_must_be_declared() {
    let world =
        fixture("node old; node new feature=Unknown feature=UserNamespacesHostNetworkSupport");
    let plugin = plugin("NodeDeclaredFeatures");
    let needs = pod(r#"p {"spec": {"hostNetwork": true, "hostUsers": false}}"#);
    assert_eq!(verdict(&world, &*plugin, &needs, "new"), "ok");
    let expected = "UnschedulableAndUnresolvable: node(s) didn't match Pod's required features";
    assert_eq!(verdict(&world, &*plugin, &needs, "old"), expected);
    assert_eq!(pre_verdict(&world, &*plugin, &pod("p")), "skip");
    let off = try_plugin("NodeDeclaredFeatures", Value::Null, &[("NodeDeclaredFeatures", false)])
        .unwrap();
    assert_eq!(pre_verdict(&world, &*off, &needs), "skip");
}

#[test]
fn filters_without_their_pre_filter_say_what_they_miss() {
    let world = fixture("node n");
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
        let filter = plugin.as_filter().unwrap();
        let status = filter.filter(&world.cx(), &CycleState::new(), &pod("p"), &world.view("n"));
        assert_eq!(text(&status), expected);
    }
}
