//! Limits that arguments do not set.

use kube_scheduler_framework::api::Object;
use kube_scheduler_framework::groups::{ExactPlanning, GroupCycleState};
use kube_scheduler_framework::testing::{Fixture, fixture};
use kube_scheduler_framework::{CycleState, Filter, FilterSink, Verdicts};
use serde_json::{Value, json};

use super::settings::StepLimits;
use super::*;

const N_NODES: usize = 20;

fn plugin(of_attempt: u64) -> DynamicResources {
    let handle = Handle::default();
    let mut settings = Settings::new(&PluginArgs::Null, &handle).unwrap();
    settings.steps = StepLimits { of_node: 1_000, of_attempt };
    let devices = Devices::new(settings.inventory);
    let shared = PluginData { settings, devices, metrics: Metrics::new(&handle) };
    DynamicResources { shared: Arc::new(shared), no_claims: Status::unschedulable(NO_CLAIMS) }
}

/// Nodes with four devices each, and a pod whose claim needs three.
fn world() -> (Fixture, Arc<Pod>) {
    world_with_config("")
}

/// The same with a text in the configuration of the claim.
fn world_with_config(text: &str) -> (Fixture, Arc<Pod>) {
    let names: Vec<String> = (0..N_NODES).map(|at| format!("n{at}")).collect();
    let nodes: Vec<String> = names.iter().map(|name| format!("node {name}")).collect();
    let mut world = fixture(&nodes.join("; "));
    let mut put = |kind: &str, name: &str, spec: Value| {
        let json = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": kind,
            "metadata": {"namespace": if kind == "ResourceClaim" { "default" } else { "" }, "name": name, "uid": name},
            "spec": spec,
        });
        world.cluster_mut().upsert_object(Arc::new(Object::from_value(json).unwrap()));
    };
    put("DeviceClass", "any", json!({}));
    let devices: Vec<Value> = (0..4).map(|at| json!({"name": at.to_string()})).collect();
    for name in &names {
        let pool = json!({"name": name, "generation": 1, "resourceSliceCount": 1});
        let slice = json!({"driver": "d", "nodeName": name, "pool": pool, "devices": devices});
        put("ResourceSlice", name, slice);
    }
    let exactly = json!({"deviceClassName": "any", "allocationMode": "ExactCount", "count": 3});
    let requests = json!([{"name": "r", "exactly": exactly}]);
    let config = json!([{"opaque": {"driver": "d", "parameters": {"text": text}}}]);
    put("ResourceClaim", "c", json!({"devices": {"requests": requests, "config": config}}));
    let claims = json!([{"name": "c", "resourceClaimName": "c"}]);
    let pod = json!({
        "metadata": {"namespace": "default", "name": "p", "uid": "p"},
        "spec": {"resourceClaims": claims},
    });
    (world, Arc::new(Pod::from_value(&pod).unwrap()))
}

/// One attempt: what the scan says, and what each node says after it.
fn attempt(plugin: &DynamicResources, world: &Fixture, pod: &Pod) -> (Status, Vec<String>) {
    let cx = world.cx();
    let mut state = CycleState::new();
    assert!(plugin.pre_filter(&cx, &mut state, pod).status.is_success());
    let cluster = world.cluster();
    let mut verdicts = Verdicts::absent(cluster.capacity());
    cluster.order().iter().for_each(|idx| verdicts.put(*idx, &Status::SUCCESS));
    let name = NAME.into();
    let mut sink = FilterSink::new(&mut verdicts, &name);
    let all = plugin.filter_all(&cx, &state, pod, cluster.order(), &mut sink);
    let each = cluster.order().iter().map(|idx| {
        let node = cx.cluster().node(*idx).unwrap();
        plugin.filter(&cx, &state, pod, &node).message()
    });
    (all.map_or_else(|status| status, |()| Status::SUCCESS), each.collect())
}

#[test]
fn an_attempt_has_a_limit_over_all_nodes() {
    let (world, pod) = world();
    let (all, each) = attempt(&plugin(1_000), &world, &pod);
    assert!(all.is_success() && each.iter().all(String::is_empty), "{each:?}");

    let short = plugin(40);
    let (all, each) = attempt(&short, &world, &pod);
    assert!(all.message().ends_with("timed out trying to allocate devices"), "{all:?}");
    // Every node fails then, so that it does not matter in which order they were searched.
    let order = world.cluster().order().iter();
    let names = order.map(|idx| world.cluster().node(*idx).unwrap().name.clone());
    let expected = names.map(|name| format!("node {name}: timed out trying to allocate devices"));
    assert_eq!(each, expected.collect::<Vec<_>>());
    // What was found is remembered: later attempts come to an end.
    let more = (0..N_NODES).map(|_| attempt(&short, &world, &pod).0);
    assert!(more.into_iter().any(|all| all.is_success()));
}

/// A claim that takes two of a node's four devices, so that the pod does not fit there.
fn taken_on(node: &str, claim: &str) -> Arc<Object> {
    let result =
        |at: usize| json!({"request": "r", "driver": "d", "pool": node, "device": at.to_string()});
    let results: Vec<Value> = (0..2).map(result).collect();
    Arc::new(
        Object::from_value(json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"namespace": "default", "name": claim, "uid": claim},
            "status": {"allocation": {"devices": {"results": results}}},
        }))
        .unwrap(),
    )
}

/// Copies of the engine go their own way between attempts of the original.
#[test]
fn copies_do_not_make_the_original_begin_anew() {
    let (mut world, pod) = world();
    let plugin = plugin(1_000);
    let rejected = |each: &[String]| -> Vec<usize> {
        (0..each.len()).filter(|at| !each[*at].is_empty()).collect()
    };
    assert_eq!(rejected(&attempt(&plugin, &world, &pod).1), [0_usize; 0]);
    let seen = |world: &Fixture| plugin.shared.devices.state(world.cluster().objects());
    let mut last = seen(&world).latest_change();
    for turn in 0..3 {
        let mut copy = world.clone();
        copy.cluster_mut().upsert_object(taken_on(&format!("n{}", 10 + turn), "of the copy"));
        copy.cluster_mut().objects_mut().becomes_copy();
        let (_, each) = attempt(&plugin, &copy, &pod);
        assert_eq!(rejected(&each), (0..turn).chain([10 + turn]).collect::<Vec<_>>());

        let node = format!("n{turn}");
        world.cluster_mut().upsert_object(taken_on(&node, &node));
        assert_eq!(rejected(&attempt(&plugin, &world, &pod).1), (0..=turn).collect::<Vec<_>>());
        let state = seen(&world);
        let changed: Option<Vec<_>> = state.nodes_changed_after(last).map(Iterator::collect);
        assert!(changed.is_some_and(|changed| changed.iter().all(|name| ***name == *node)));
        assert!(Arc::ptr_eq(state.selectors(), seen(&copy).selectors()), "shared");
        last = state.latest_change();
    }
}

#[test]
fn nothing_is_kept_of_large_claims() {
    for (n_bytes, is_kept) in [(10 << 10, true), (17 << 10, false)] {
        let (world, pod) = world_with_config(&"x".repeat(n_bytes));
        let plugin = plugin(1_000_000);
        let before = plugin.kept_bytes();
        let mut state = CycleState::new();
        assert!(plugin.pre_filter(&world.cx(), &mut state, &pod).status.is_success());
        assert_eq!(plugin.can_follow(&world.cx(), &state), is_kept, "{n_bytes}");
        assert_eq!(plugin.kept_bytes() > before + n_bytes, is_kept, "{n_bytes}");
    }
}

/// What attempts have found out is kept for later ones, also when the objects are gone: each expression and each question once.
#[test]
fn kept_bytes_grow_with_questions_and_not_with_attempts() {
    let (mut world, pod) = world();
    let plugin = plugin(1_000);
    assert_eq!(plugin.kept_bytes(), 0);
    attempt(&plugin, &world, &pod);
    let plain = plugin.kept_bytes();
    assert!(plain > 0);

    let expressions: Vec<Value> = (0..20)
        .map(|at| json!({"cel": {"expression": format!("device.driver != 'x{at}'")}}))
        .collect();
    let exactly = json!({"deviceClassName": "any", "count": 3, "selectors": expressions});
    let requests = json!([{"name": "r", "exactly": exactly}]);
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": "default", "name": "c", "uid": "another"},
        "spec": {"devices": {"requests": requests}},
    });
    let claim = Object::from_value(claim).unwrap();
    world.cluster_mut().upsert_object(Arc::new(claim.clone()));
    // The second one finds what the first one has made room for.
    (0..2).for_each(|_| drop(attempt(&plugin, &world, &pod)));
    let selecting = plugin.kept_bytes();
    assert!(selecting > plain + claim.json.n_bytes(), "{selecting}, {plain} before");
    for _ in 0..3 {
        attempt(&plugin, &world, &pod);
        assert_eq!(plugin.kept_bytes(), selecting);
    }

    // A copy keeps its own.
    let mut copy = world.clone();
    copy.cluster_mut().objects_mut().becomes_copy();
    attempt(&plugin, &copy, &pod);
    assert!(plugin.kept_bytes() > selecting);
}

/// Members that come and go later are followed, instead of looking at all of them for each further one.
#[test]
fn users_of_a_claim_are_looked_for_once_in_the_cycle_of_a_group() {
    let plugin = plugin(1_000);
    let mut world = fixture("node n");
    let member = |at: usize, claim: &str| {
        let json = json!({
            "metadata": {"namespace": "default", "name": at.to_string(), "uid": at.to_string()},
            "spec": {"nodeName": "n", "schedulingGroup": {"podGroupName": "g"},
                "resourceClaims": [{"name": "c", "resourceClaimName": claim}]},
        });
        Arc::new(Pod::from_value(&json).unwrap())
    };
    for at in 0..256 {
        let claim = if at == 0 { "other" } else { "c" };
        world.cluster_mut().group_member_known(&member(at, claim));
    }
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": "default", "name": "c", "uid": "c"}, "spec": {},
    });
    let claim = Arc::new(Object::from_value(claim).unwrap());
    let claim = decoded::claim(&claim).unwrap();
    let cycle = GroupCycleState::default();
    cycle.with(|it| it.insert(ExactPlanning));
    let mut state = CycleState::new();
    state.insert(cycle.clone());
    let cx = world.cx();
    let (shared, cluster) = (&*plugin.shared, cx.cluster());
    let is_full = |pod: &Pod| consumers::is_full(shared, cluster, &state, pod, &claim);
    let moved = |pod: &Pod, has_node| consumers::moved(&cycle, shared, cluster, pod, has_node);

    let (next, last) = (member(300, "c"), member(301, "c"));
    assert!(!is_full(&next), "255 users");
    moved(&member(302, "other"), true);
    assert!(!is_full(&next));
    moved(&next, true);
    assert!(is_full(&last));
    assert!(!is_full(&next), "one of them");
    moved(&next, false);
    assert!(!is_full(&last));
}
