//! Limits that arguments do not set.

use kube_scheduler_framework::api::Object;
use kube_scheduler_framework::testing::{Fixture, fixture};
use kube_scheduler_framework::{CycleState, Verdicts};
use serde_json::{Value, json};

use super::settings::StepLimits;
use super::*;

const N_NODES: usize = 20;

fn plugin(of_attempt: u64) -> DynamicResources {
    let handle = Handle::default();
    let mut settings = Settings::new(&PluginArgs::Null, &handle).unwrap();
    settings.steps = StepLimits { of_node: 1_000, of_attempt };
    let devices = Devices::new(settings.inventory);
    let shared = Shared { settings, devices, metrics: Metrics::new(&handle) };
    DynamicResources { shared: Arc::new(shared), no_claims: Status::unschedulable(NO_CLAIMS) }
}

/// Nodes with four devices each, and a pod whose claim needs three.
fn world() -> (Fixture, Arc<Pod>) {
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
    put("ResourceClaim", "c", json!({"devices": {"requests": requests}}));
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
