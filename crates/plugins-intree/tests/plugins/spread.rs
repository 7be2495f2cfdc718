//! PodTopologySpread: against a slow version of itself, with counters followed or not, and with hypothetical pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_cache::NodeOverlay;
use kube_scheduler_framework::api::{
    Labels, Node, NodeInclusionPolicy, Pod, TopologySpreadConstraint, WhenUnsatisfiable,
    node_satisfies_required_affinity, untolerated_taint,
};
use kube_scheduler_framework::testing::{self, Fixture, Reads, fixture, reads_of};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, ClusterView, CycleState, EventObject, EventResource, FeasibleNodes,
    NodeView, Plugin,
};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use crate::support::{
    node, plugin, plugin_with, pod, pre_verdict, scan, signature, text, try_plugin, verdict,
};

const NAME: &str = "PodTopologySpread";
const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const REASON: &str = "node(s) didn't match pod topology spread constraints";

fn maybe(value: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
    prop_oneof![1 => Just(Value::Null), 2 => value].boxed()
}

fn labels(pairs: Vec<(&'static str, Option<&'static str>)>) -> Value {
    let pairs = pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), json!(value?))));
    Value::Object(pairs.collect())
}

fn any_node(_: usize) -> impl Strategy<Value = Value> {
    (
        select(vec![None, Some("a"), Some("b"), Some("c"), Some("")]),
        select(vec![None, Some("n0"), Some("n1"), Some("n2"), Some("n3")]),
        select(vec![None, Some("ssd"), Some("hdd")]),
        select(vec![
            json!([]),
            json!([{"key": "t", "effect": "NoSchedule"}]),
            json!([{"key": "t", "effect": "PreferNoSchedule"}]),
        ]),
    )
        .prop_map(|(zone, host, disk, taints)| {
            json!({
                "metadata": {"labels": labels(vec![(ZONE, zone), (HOST, host), ("disk", disk)])},
                "spec": {"taints": taints},
            })
        })
}

fn pod_labels() -> impl Strategy<Value = Value> {
    (select(vec![None, Some("x"), Some("y")]), select(vec![None, Some("1"), Some("2")]))
        .prop_map(|(app, rev)| labels(vec![("app", app), ("rev", rev)]))
}

fn any_running() -> impl Strategy<Value = (usize, Value)> {
    (0_usize..6, pod_labels(), select(vec!["default", "default", "other"]), any::<(bool, bool)>())
        .prop_map(|(at, labels, namespace, (a, b))| {
            let deleted = (a && b).then_some("2026-01-01T00:00:00Z");
            let metadata =
                json!({"labels": labels, "namespace": namespace, "deletionTimestamp": deleted});
            (at, json!({"metadata": metadata}))
        })
}

fn selector() -> impl Strategy<Value = Value> {
    select(vec![
        Value::Null,
        json!({}),
        json!({"matchLabels": {"app": "x"}}),
        json!({"matchLabels": {"app": "x", "rev": "1"}}),
        json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["y"]}]}),
        json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]}),
    ])
}

fn constraint() -> impl Strategy<Value = Value> {
    let policy = || select(vec![Value::Null, json!("Honor"), json!("Ignore")]);
    (
        1_i32..4,
        select(vec![ZONE, HOST, "disk"]),
        any::<bool>(),
        selector(),
        maybe((1_i32..5).prop_map(|n| json!(n))),
        policy(),
        policy(),
        select(vec![json!([]), json!(["rev"]), json!(["gone", "app"])]),
    )
        .prop_map(|(skew, key, is_hard, selector, min_domains, affinity, taints, keys)| {
            json!({
                "maxSkew": skew,
                "topologyKey": key,
                "whenUnsatisfiable": if is_hard { "DoNotSchedule" } else { "ScheduleAnyway" },
                "labelSelector": selector,
                "minDomains": min_domains,
                "nodeAffinityPolicy": affinity,
                "nodeTaintsPolicy": taints,
                "matchLabelKeys": keys,
            })
        })
}

fn any_pod() -> impl Strategy<Value = Arc<Pod>> {
    (
        pod_labels(),
        prop::collection::vec(constraint(), 0..4),
        maybe(Just(json!({"disk": "ssd"}))),
        any::<bool>(),
    )
        .prop_map(|(labels, constraints, node_selector, tolerates)| {
            let tolerations =
                if tolerates { json!([{"key": "t", "operator": "Exists"}]) } else { json!([]) };
            let fields = json!({
                "metadata": {"labels": labels},
                "spec": {"topologySpreadConstraints": constraints, "nodeSelector": node_selector,
                    "tolerations": tolerations},
            });
            testing::pod("p").with(fields).build()
        })
}

fn any_world() -> impl Strategy<Value = Fixture> {
    let nodes = (1_usize..6).prop_flat_map(|n| (0..n).map(any_node).collect::<Vec<_>>());
    let service =
        select(vec!["", "service s selector:app=x", r#"service s {"spec": {"selector": {}}}"#]);
    (nodes, prop::collection::vec(any_running(), 0..10), service).prop_map(
        |(nodes, pods, service)| {
            let (n, mut world) = (nodes.len(), fixture(service));
            for (at, fields) in nodes.into_iter().enumerate() {
                world = world.with_node(testing::node(&format!("n{at} host=-")).with(fields));
            }
            for (at, (on, fields)) in pods.into_iter().enumerate() {
                world =
                    world.with_pod(running(&format!("run{at}"), &format!("n{}", on % n), fields));
            }
            world
        },
    )
}

fn running(name: &str, node: &str, fields: Value) -> Arc<Pod> {
    testing::pod(name).on(node).with(fields).build()
}

/// The world with everything followed that the plugin reads.
fn following(world: &Fixture, plugin: &dyn Plugin, pod: &Pod) -> Fixture {
    let mut world = world.clone();
    world.pre_filter(plugin, pod);
    // An error of PreScore does not matter: the plugin has read by then what it reads.
    world.scores(plugin, pod).ok();
    world.cluster_mut().follow_requested();
    world
}

fn counts_node(pod: &Pod, node: &Node, constraint: &TopologySpreadConstraint) -> bool {
    (constraint.node_affinity_policy == NodeInclusionPolicy::Ignore
        || node_satisfies_required_affinity(pod, node))
        && (constraint.node_taints_policy == NodeInclusionPolicy::Ignore
            || untolerated_taint(&node.taints, &pod.spec.tolerations, false).is_none())
}

fn n_matching(
    world: &Fixture,
    pod: &Pod,
    node: &Node,
    constraint: &TopologySpreadConstraint,
) -> i64 {
    let Some(selector) = constraint.selector.as_ref().filter(|s| !s.requirements().is_empty())
    else {
        return 0;
    };
    let pods = world.cluster().pods_on(world.view(&node.name).idx());
    let counted = pods.filter(|other| {
        other.namespace == pod.namespace
            && other.deletion_requested.is_none()
            && selector.matches(&other.labels)
    });
    i64::try_from(counted.count()).unwrap()
}

fn has_all(labels: &Labels, constraints: &[&TopologySpreadConstraint]) -> bool {
    constraints.iter().all(|constraint| labels.contains_key(&constraint.topology_key))
}

fn nodes(world: &Fixture) -> Vec<Arc<Node>> {
    world.cluster().order().iter().filter_map(|idx| world.cluster().node(*idx).cloned()).collect()
}

fn of_action(pod: &Pod, action: WhenUnsatisfiable) -> Vec<&TopologySpreadConstraint> {
    let all = pod.spec.topology_spread_constraints.iter();
    all.filter(|constraint| constraint.when_unsatisfiable == action).collect()
}

/// Pods by domain, as the words of the behaviour have it.
fn by_domain(
    world: &Fixture,
    pod: &Pod,
    constraints: &[&TopologySpreadConstraint],
) -> Vec<BTreeMap<String, i64>> {
    let count = |constraint: &&TopologySpreadConstraint| {
        let mut sums: BTreeMap<String, i64> = BTreeMap::new();
        for node in nodes(world) {
            if has_all(&node.labels, constraints) && counts_node(pod, &node, constraint) {
                let value = node.labels.get(&constraint.topology_key).unwrap().to_owned();
                *sums.entry(value).or_default() += n_matching(world, pod, &node, constraint);
            }
        }
        sums
    };
    constraints.iter().map(count).collect()
}

/// Verdicts on all nodes in order, the slow way.
fn slow_verdicts(world: &Fixture, pod: &Pod) -> Vec<String> {
    let constraints = of_action(pod, WhenUnsatisfiable::DoNotSchedule);
    let sums = by_domain(world, pod, &constraints);
    let judge = |node: Arc<Node>| {
        for (constraint, sums) in constraints.iter().zip(&sums) {
            let Some(value) = node.labels.get(&constraint.topology_key) else {
                return format!("UnschedulableAndUnresolvable: {REASON} (missing required label)");
            };
            let is_short = sums.len() < constraint.min_domains.unwrap_or(1) as usize;
            let least = if is_short { 0 } else { *sums.values().min().unwrap() };
            let own = constraint.selector.as_ref().is_some_and(|s| s.matches(&pod.labels));
            let here = sums.get(value).copied().unwrap_or(0);
            if here + i64::from(own) - least > i64::from(constraint.max_skew) {
                return format!("Unschedulable: {REASON}");
            }
        }
        "ok".to_owned()
    };
    nodes(world).into_iter().map(judge).collect()
}

/// Normalised scores of all nodes in order, all of them being candidates; empty when the plugin has nothing to say.
fn slow_scores(world: &Fixture, pod: &Pod) -> Vec<i64> {
    let constraints = of_action(pod, WhenUnsatisfiable::ScheduleAnyway);
    if constraints.is_empty() {
        return Vec::new();
    }
    let sums = by_domain(world, pod, &constraints);
    let nodes = nodes(world);
    let taking_part: Vec<&Arc<Node>> =
        nodes.iter().filter(|node| has_all(&node.labels, &constraints)).collect();
    let raw = |node: &Arc<Node>| -> Option<i64> {
        if !has_all(&node.labels, &constraints) {
            return None;
        }
        let mut score = 0.0_f64;
        for (constraint, sums) in constraints.iter().zip(&sums) {
            let key = &*constraint.topology_key;
            let values: BTreeSet<_> =
                taking_part.iter().map(|node| node.labels.get(key).unwrap()).collect();
            let (n, size) = if key == HOST {
                (n_matching(world, pod, node, constraint), taking_part.len())
            } else {
                (sums.get(node.labels.get(key).unwrap()).copied().unwrap_or(0), values.len())
            };
            score += n as f64 * ((size + 2) as f64).ln() + f64::from(constraint.max_skew - 1);
        }
        Some(score.round() as i64)
    };
    let raw: Vec<Option<i64>> = nodes.iter().map(raw).collect();
    let most = raw.iter().flatten().copied().max().unwrap_or(0);
    let least = raw.iter().flatten().copied().min().unwrap_or(0);
    let normalized = |score: &Option<i64>| match score {
        None => 0,
        Some(_) if most == 0 => 100,
        Some(score) => 100 * (most + least - score) / most,
    };
    raw.iter().map(normalized).collect()
}

/// Verdicts on all nodes in order, node by node.
fn verdicts(world: &Fixture, plugin: &dyn Plugin, pod: &Pod) -> Vec<String> {
    nodes(world).iter().map(|node| verdict(world, plugin, pod, &node.name)).collect()
}

/// The same by the whole-cluster form; all `ok` when the plugin has nothing to say.
fn verdicts_at_once(world: &Fixture, plugin: &dyn Plugin, pod: &Pod) -> Vec<String> {
    match scan(world, plugin, pod) {
        None => vec!["ok".to_owned(); world.cluster().order().len()],
        Some(verdicts) => {
            let verdicts = verdicts.unwrap();
            let verdict = |idx| verdicts.rejection(idx).map_or("ok".to_owned(), text);
            world.cluster().order().iter().copied().map(verdict).collect()
        }
    }
}

fn scores(world: &Fixture, plugin: &dyn Plugin, pod: &Pod, at_once: bool) -> Vec<i64> {
    let (cx, mut state, order) = (world.cx(), CycleState::new(), world.cluster().order());
    let status = plugin.as_pre_score().unwrap().pre_score(
        &cx,
        &mut state,
        pod,
        &FeasibleNodes::unrecorded(order),
    );
    if status.is_skip() {
        return Vec::new();
    }
    assert!(status.is_success(), "{}", text(&status));
    let score = plugin.as_score().unwrap();
    let mut scores = vec![0; order.len()];
    if at_once {
        score.score_all(&cx, &state, pod, order, &mut scores).unwrap();
    } else {
        for (idx, place) in order.iter().zip(&mut scores) {
            let view = ClusterView::unrecorded(world.cluster()).node(*idx).unwrap();
            *place = score.score(&cx, &state, pod, &view).unwrap();
        }
    }
    assert!(score.normalize(&cx, &state, pod, order, &mut scores).is_success());
    scores
}

/// Filter's verdict on every node after hypothetical changes to `on`.
fn judged(world: &Fixture, plugin: &dyn Plugin, pod: &Pod, state: &CycleState) -> Vec<String> {
    let filter = plugin.as_filter().unwrap();
    let view = |idx| ClusterView::unrecorded(world.cluster()).node(idx).unwrap();
    let order = world.cluster().order().iter();
    order.map(|idx| text(&filter.filter(&world.cx(), state, pod, &view(*idx)))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        rng_seed: RngSeed::Fixed(37),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn verdicts_and_scores_are_those_of_the_slow_version(world in any_world(), pod in any_pod()) {
        let plugin = plugin_with(NAME, json!({"defaultingType": "List"}));
        let expected = slow_verdicts(&world, &pod);
        let expected_scores = slow_scores(&world, &pod);
        for world in [&world, &following(&world, &*plugin, &pod)] {
            prop_assert_eq!(&verdicts(world, &*plugin, &pod), &expected);
            prop_assert_eq!(&verdicts_at_once(world, &*plugin, &pod), &expected);
            prop_assert_eq!(&scores(world, &*plugin, &pod, false), &expected_scores);
            prop_assert_eq!(&scores(world, &*plugin, &pod, true), &expected_scores);
        }
    }

    #[test]
    fn default_constraints_agree_in_all_forms(world in any_world(), pod in any_pod()) {
        let mut plain = Pod::clone(&pod);
        let spec = Arc::make_mut(&mut plain.spec);
        spec.topology_spread_constraints = Arc::from([]);
        for plugin in [plugin(NAME), plugin_with(NAME, json!({"defaultingType": "List", "defaultConstraints": [
            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2},
            {"maxSkew": 2, "topologyKey": "disk", "whenUnsatisfiable": "ScheduleAnyway"}]}))]
        {
            let expected = verdicts(&world, &*plugin, &plain);
            let expected_scores = scores(&world, &*plugin, &plain, false);
            for world in [&world, &following(&world, &*plugin, &plain)] {
                prop_assert_eq!(&verdicts(world, &*plugin, &plain), &expected);
                prop_assert_eq!(&verdicts_at_once(world, &*plugin, &plain), &expected);
                prop_assert_eq!(&scores(world, &*plugin, &plain, false), &expected_scores);
                prop_assert_eq!(&scores(world, &*plugin, &plain, true), &expected_scores);
            }
        }
    }

    #[test]
    fn hypothetical_pods_on_one_node_are_like_real_ones(
        world in any_world(),
        pod in any_pod(),
        extra in prop::collection::vec(any_running(), 0..4),
        removes in any::<u16>(),
    ) {
        let plugin = plugin_with(NAME, json!({"defaultingType": "List"}));
        let (cx, mut state) = (world.cx(), CycleState::new());
        let pre_filter = plugin.as_pre_filter().unwrap();
        if !pre_filter.pre_filter(&cx, &mut state, &pod).status.is_success() {
            return Ok(());
        }
        // Where bulk counting and single pods differ on purpose, there is nothing to compare.
        let is_quirky = pod.spec.topology_spread_constraints.iter().any(|constraint| {
            constraint.selector.as_ref().is_some_and(|selector| selector.requirements().is_empty())
        });
        let before = judged(&world, &*plugin, &pod, &state);
        let node = world.cluster().order()[0];
        let name = world.cluster().node_name(node).unwrap().clone();
        let mut real = world.clone();
        let mut overlay = NodeOverlay::new(node);
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        for other in world.cluster().pods_on(node).enumerate().filter(|(at, _)| removes >> at & 1 == 1) {
            removed.push(other.1.clone());
        }
        for (at, (_, more)) in extra.into_iter().enumerate() {
            added.push(running(&format!("new{at}"), &name, more));
        }
        let is_terminating = added.iter().chain(&removed).any(|other| other.deletion_requested.is_some());
        let extensions = pre_filter.extensions().unwrap();
        let original = state.clone();
        for other in &removed {
            overlay.remove_pod(world.cluster(), &other.uid).unwrap();
            real.cluster_mut().remove_pod(&other.uid).unwrap();
            let view = NodeView::hypothetical(world.cluster(), &overlay).unwrap();
            prop_assert!(extensions.remove_pod(&cx, &mut state, &pod, other, &view).is_success());
        }
        for other in &added {
            overlay.add_pod(world.cluster(), other);
            real.cluster_mut().add_pod(other.clone()).unwrap();
            let view = NodeView::hypothetical(world.cluster(), &overlay).unwrap();
            prop_assert!(extensions.add_pod(&cx, &mut state, &pod, other, &view).is_success());
        }
        if !is_quirky && !is_terminating {
            prop_assert_eq!(judged(&world, &*plugin, &pod, &state), verdicts(&real, &*plugin, &pod));
        }
        prop_assert_eq!(&judged(&world, &*plugin, &pod, &original), &before, "a clone is its own");
        let view = ClusterView::unrecorded(world.cluster()).node(node).unwrap();
        for other in &added {
            prop_assert!(extensions.remove_pod(&cx, &mut state, &pod, other, &view).is_success());
        }
        for other in &removed {
            prop_assert!(extensions.add_pod(&cx, &mut state, &pod, other, &view).is_success());
        }
        prop_assert_eq!(judged(&world, &*plugin, &pod, &state), before);
    }
}

#[test]
fn an_empty_selector_counts_nothing_but_matches() {
    let world =
        fixture("node a1 zone=a; node b1 zone=b; pod r0 node=a1; pod r1 node=a1; pod r2 node=a1");
    let plugin = plugin(NAME);
    let waiting = pod("p spread=zone:1:");
    assert_eq!(verdicts(&world, &*plugin, &waiting), ["ok", "ok"]);
    let mut state = CycleState::new();
    let (cx, point) = (world.cx(), plugin.as_pre_filter().unwrap());
    point.pre_filter(&cx, &mut state, &waiting);
    let other = pod("x node=a1");
    let extensions = point.extensions().unwrap();
    extensions.add_pod(&cx, &mut state, &waiting, &other, &world.view("a1"));
    let skewed = format!("Unschedulable: {REASON}");
    assert_eq!(judged(&world, &*plugin, &waiting, &state), [skewed.as_str(), "ok"]);
}

#[test]
fn removing_a_terminating_pod_lowers_the_count() {
    let world = fixture(
        "node a1 zone=a; node b1 zone=b
         pod going node=a1 label:app=x deleted=2026-01-01T00:00:00Z; pod staying node=b1 label:app=x",
    );
    let plugin = plugin(NAME);
    let pod = pod("p label:app=x spread=zone:1:app=x");
    let skewed = format!("Unschedulable: {REASON}");
    assert_eq!(verdicts(&world, &*plugin, &pod), ["ok", skewed.as_str()]);
    let mut state = CycleState::new();
    let (cx, point) = (world.cx(), plugin.as_pre_filter().unwrap());
    point.pre_filter(&cx, &mut state, &pod);
    let view = world.view("a1");
    let going = world.cluster().pod("going-uid").unwrap();
    point.extensions().unwrap().remove_pod(&cx, &mut state, &pod, going, &view);
    // a has -1, b has 1: one more in a gives a skew of 1, one more in b of 3.
    assert_eq!(judged(&world, &*plugin, &pod, &state), ["ok", skewed.as_str()]);
    point.extensions().unwrap().remove_pod(&cx, &mut state, &pod, going, &view);
    assert_eq!(judged(&world, &*plugin, &pod, &state), ["ok", skewed.as_str()]);
}

#[test]
fn hosts_are_scored_by_their_node_alone() {
    let world = fixture("node n0 host=same; node n1 host=same; pod r node=n0 label:app=x");
    let pod = pod("p label:app=x selector:disk=gone prefer-spread=host:1:app=x");
    assert_eq!(scores(&world, &*plugin(NAME), &pod, true), [0, 100]);
}

#[test]
fn scores_are_the_recorded_ones() {
    let check = |counts: &[usize], skew: i32, expected: &[i64]| {
        let mut world = Fixture::new();
        for (at, n) in counts.iter().enumerate() {
            world = world.with(&format!("node n{at} zone=z"));
            for i in 0..*n {
                world = world.with(&format!("pod r{at}-{i} node=n{at} label:app=x"));
            }
        }
        let pod = pod(&format!("p prefer-spread=host:{skew}:app=x"));
        assert_eq!(scores(&world, &*plugin(NAME), &pod, true), expected, "{counts:?} {skew}");
    };
    check(&[2, 1, 0, 3], 1, &[20, 60, 100, 0]);
    check(&[2, 1, 0, 3], 2, &[33, 66, 100, 16]);
    check(&[4, 3, 2, 1], 3, &[44, 66, 77, 100]);
    check(&[4, 2, 1], 1, &[33, 83, 100]);
}

#[test]
fn no_zone_is_a_domain_under_system_defaulting() {
    let world = fixture(
        "node a1 zone=a; node e1 zone=; node u; service s selector:app=x
         pod r0 node=u label:app=x; pod r1 node=a1 label:app=x",
    );
    let pod = pod("p label:app=x");
    // Two domains for zones, three hosts: a1 = ln 5 + 2 + ln 4 + 4, e1 = 2 + ln 4 + 4 for the pod without zone,
    // u = ln 5 + 2.
    let (hosts, zones) = (5_f64.ln(), 4_f64.ln());
    let raw = [hosts + 2.0 + zones + 4.0, 2.0 + zones + 4.0, hosts + 2.0].map(|s| s.round() as i64);
    assert_eq!(raw, [9, 7, 4]);
    let expected = raw.map(|score| 100 * (9 + 4 - score) / 9);
    for at_once in [false, true] {
        assert_eq!(scores(&world, &*plugin(NAME), &pod, at_once), expected);
    }
}

#[test]
fn what_selects_and_owns_a_pod_chooses_who_belongs_together() {
    let owned = |api_version: &str, kind: &str| {
        let owner = json!({"apiVersion": api_version, "kind": kind, "name": "o", "uid": "o", "controller": true});
        format!("p label:app=x label:hash=1 owner={owner}")
    };
    let owner = |api_version: &str, kind: &str, selector: Value| {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "o", "namespace": "default"},
            "spec": {"selector": selector}});
        format!("object {object}")
    };
    let plugin = plugin(NAME);
    let spreads = |objects: &[&str], text: &str| {
        let world = fixture(
            "node a1 zone=a; node b1 zone=b
             pod r0 node=a1 label:app=x label:hash=0; pod r1 node=a1 label:app=y label:hash=1",
        );
        scores(&world.with(&objects.join("\n")), &*plugin, &pod(text), true)
    };
    let matching = json!({"matchLabels": {"hash": "1"}});
    assert_eq!(spreads(&[], &owned("apps/v1", "ReplicaSet")), Vec::<i64>::new());
    for (api_version, kind) in [("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")] {
        let object = owner(api_version, kind, matching.clone());
        assert_ne!(spreads(&[&object], &owned(api_version, kind)), Vec::<i64>::new());
        for nothing in [Value::Null, json!({})] {
            let object = owner(api_version, kind, nothing);
            assert_eq!(spreads(&[&object], &owned(api_version, kind)), Vec::<i64>::new());
        }
    }
    let controller = owner("v1", "ReplicationController", json!({"hash": "1"}));
    let by_owner = spreads(&[&controller], &owned("v1", "ReplicationController"));
    assert!(by_owner[0] < by_owner[1]);
    let job = owner("batch/v1", "Job", matching.clone());
    assert_eq!(spreads(&[&job], &owned("batch/v1", "Job")), Vec::<i64>::new());
    let set = owner("apps/v1", "ReplicaSet", matching);
    assert_eq!(spreads(&[&set], &owned("apps/v1beta1", "ReplicaSet")), Vec::<i64>::new());
    // Both together select no pod that is there, so that all nodes are equal; the service alone selects one.
    let service = "service s selector:app=x";
    let both = spreads(&[&set, service], &owned("apps/v1", "ReplicaSet"));
    assert_eq!(both[0], both[1]);
    let alone = spreads(&[service], "p label:app=x");
    assert!(alone[0] < alone[1]);
    assert_eq!(spreads(&[service], "p label:app=z"), Vec::<i64>::new());
    let for_all = r#"service s {"spec": {"selector": {}}}"#;
    assert_eq!(spreads(&[for_all], "p label:app=x"), Vec::<i64>::new());
}

#[test]
fn texts_are_the_references() {
    let world = fixture("node a1 zone=a");
    let plugin = plugin(NAME);
    let bad = |action: &str| {
        let constraint = json!({"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": action,
            "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}});
        pod(&format!("p spread={constraint}"))
    };
    assert_eq!(
        pre_verdict(&world, &*plugin, &bad("DoNotSchedule")),
        "Error: get constraints from pod: obtaining pod's hard topology spread constraints: \"Near\" is not a valid \
         label selector operator"
    );
    assert_eq!(pre_verdict(&world, &*plugin, &bad("ScheduleAnyway")), "skip");
    let mut state = CycleState::new();
    let nodes = FeasibleNodes::unrecorded(world.cluster().order());
    let pre_score = plugin.as_pre_score().unwrap();
    let status = pre_score.pre_score(&world.cx(), &mut state, &bad("ScheduleAnyway"), &nodes);
    assert_eq!(
        text(&status),
        "Error: calculating preScoreState: obtaining pod's soft topology spread constraints: \"Near\" is not a valid \
         label selector operator"
    );
    let (pod, view) = (pod("p spread=zone:1:"), world.view("a1"));
    let status = plugin.as_filter().unwrap().filter(&world.cx(), &CycleState::new(), &pod, &view);
    assert_eq!(
        text(&status),
        "Error: reading \"PreFilterPodTopologySpread\" from cycleState: not found"
    );
    let score = plugin.as_score().unwrap().score(&world.cx(), &CycleState::new(), &pod, &view);
    assert_eq!(
        text(&score.unwrap_err()),
        "Error: error reading \"PreScorePodTopologySpread\" from cycleState: not found"
    );
    let refused = try_plugin(
        NAME,
        json!({"defaultingType": "List", "defaultConstraints": [{"maxSkew": 0, "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule"}]}),
        &[],
    );
    assert_eq!(
        refused.err().unwrap(),
        "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)"
    );
}

const WAITING: &str = "p label:app=x spread=zone:1:app=x";

fn hint(
    resource: EventResource,
    action: ActionType,
    waiting: &str,
    old: Option<EventObject>,
    new: Option<EventObject>,
) -> String {
    let event = ClusterEvent::new(resource, action);
    crate::support::hint(&*plugin(NAME), event, &pod(waiting), old, new)
}

#[test]
fn hints_look_at_pods_that_count() {
    let object = |text: &str| EventObject::Pod(pod(text));
    let pods = |action, old: Option<&str>, new: Option<&str>| {
        hint(EventResource::Pod, action, WAITING, old.map(object), new.map(object))
    };
    let (x, y) = (Some("o node=n label:app=x"), Some("o node=n label:app=y"));
    assert_eq!(pods(ActionType::ADD, None, x), "queue");
    assert_eq!(pods(ActionType::ADD, None, Some("o nominated=n label:app=x")), "queue");
    assert_eq!(pods(ActionType::ADD, None, Some("o label:app=x")), "skip");
    assert_eq!(pods(ActionType::ADD, None, Some("other/o node=n label:app=x")), "skip");
    assert_eq!(pods(ActionType::DELETE, y, None), "skip");
    let relabel = ActionType::UPDATE_POD_LABEL;
    assert_eq!(pods(relabel, x, y), "queue");
    assert_eq!(pods(relabel, y, Some("o node=n label:app=z")), "skip");
}

#[test]
fn a_toleration_helps_where_taints_are_honored() {
    let constraint = json!({"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}}, "nodeTaintsPolicy": "Honor"});
    let honoring = format!("p label:app=x spread={constraint}");
    for (waiting, expected) in [(WAITING, "skip"), (&honoring, "queue")] {
        let tolerating = pod(&format!("{waiting} tolerate:t"));
        let (old, new) = (EventObject::Pod(pod(waiting)), EventObject::Pod(tolerating));
        let action = ActionType::UPDATE_POD_TOLERATION;
        assert_eq!(hint(EventResource::Pod, action, waiting, Some(old), Some(new)), expected);
    }
}

#[test]
fn hints_look_at_keys_of_nodes() {
    let object = |text: &str| EventObject::Node(node(text));
    let nodes = |action, old: Option<&str>, new: Option<&str>| {
        hint(EventResource::Node, action, WAITING, old.map(object), new.map(object))
    };
    let (none, a, b) = (Some("n"), Some("n zone=a"), Some("n zone=b"));
    let update = ActionType::UPDATE_NODE_LABEL;
    assert_eq!(nodes(ActionType::ADD, None, a), "queue");
    assert_eq!(nodes(ActionType::ADD, None, none), "skip");
    assert_eq!(nodes(ActionType::DELETE, a, None), "queue");
    assert_eq!(nodes(update, none, a), "queue");
    assert_eq!(nodes(update, a, b), "queue");
    assert_eq!(nodes(update, a, Some("n zone=a label:more=1")), "skip");
    let tainted = Some("n zone=a taint:t:NoSchedule");
    assert_eq!(nodes(ActionType::UPDATE_NODE_TAINT, a, tainted), "queue");
    // The same taint, but added at another time.
    let [early, late] = [5, 6].map(|second| {
        let time = format!("2026-01-02T03:04:0{second}Z");
        let taint = json!({"key": "t", "effect": "NoSchedule", "timeAdded": time});
        format!("n zone=a {}", json!({"spec": {"taints": [taint]}}))
    });
    let again = |new: &str| nodes(ActionType::UPDATE_NODE_TAINT, Some(&early), Some(new));
    assert_eq!([again(&late), again(&early)], ["queue", "skip"]);
}

#[test]
fn only_pods_with_constraints_depend_on_other_pods() {
    let world = fixture("node a1 zone=a; service s selector:app=x");
    let (system, none) = (plugin(NAME), plugin_with(NAME, json!({"defaultingType": "List"})));
    let reads =
        |plugin: &dyn Plugin, pod: &Pod| reads_of(plugin, world.sources(), pod).phases().union();
    let (plain, selected) = (pod("p"), pod("p label:app=x"));
    assert_eq!(reads(&*system, &plain), Reads::of_kind("", "Service"));
    assert!(!reads(&*system, &selected).can_be_followed());
    assert_eq!(reads(&*none, &selected), Reads::NOTHING);
    assert!(!reads(&*none, &pod(WAITING)).can_be_followed());
    assert_ne!(signature(&*system, &plain), signature(&*system, &selected));
    assert_eq!(signature(&*none, &plain), signature(&*none, &selected));
    assert!(none.reads_objects().is_empty());
    assert_eq!(system.reads_objects().len(), 4);
}

/// Answers about most pods are cached node by node, which takes that no counter was asked for.
#[test]
fn a_pod_without_constraints_reads_no_counter() {
    let world = fixture("node a zone=x; node b zone=y; pod old node=a");
    let plugin = plugin_with(NAME, json!({"defaultingType": "List"}));
    for (spread, is_plain) in [("", true), ("spread=zone:1:", false)] {
        let pod = pod(&format!("p {spread}"));
        let reads = reads_of(&*plugin, world.sources(), &pod).phases();
        assert_eq!(reads.can_be_cached(), is_plain, "{reads:?}");
        assert!(reads.can_be_grouped(), "{reads:?}");
    }
}
