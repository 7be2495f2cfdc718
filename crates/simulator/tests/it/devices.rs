//! Claims of devices, from texts to reports.

use kube_scheduler_simulator::{
    ClusterInput, Format, RenderOptions, Report, Simulation, SimulationOptions, render,
};

/// Two nodes with three GPUs each, one of which has another that can be divided.
const CLUSTER: &str = "
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '8', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {allocatable: {cpu: '8', memory: 8Gi, pods: '10'}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: device.driver == 'gpu.example.com'}}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: part}
spec: {selectors: [{cel: {expression: device.driver == 'part.example.com'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: two-gpus}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, count: 2}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: part}
spec: {spec: {devices: {requests: [{name: part, exactly: {deviceClassName: part}}]}}}
";

/// A slice of the pool of a driver's devices on a node.
fn slice(name: &str, driver: &str, node: &str, pool: &str, content: &str) -> String {
    format!(
        "---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {{name: {name}}}\n\
         spec: {{driver: {driver}.example.com, nodeName: {node}, pool: {{name: {node}, {pool}}}, {content}}}\n"
    )
}

fn slices() -> String {
    let part = |name: &str, memory: &str| {
        format!(
            "{{name: {name}, consumesCounters: [{{counterSet: card, counters: {{memory: {{value: {memory}}}}}}}]}}"
        )
    };
    let parts = [part("half-0", "40Gi"), part("half-1", "40Gi"), part("whole", "80Gi")].join(", ");
    let gpus = "devices: [{name: a}, {name: b}, {name: c}]";
    let counters = "sharedCounters: [{name: card, counters: {memory: {value: 80Gi}}}]";
    [
        slice("n1-gpu", "gpu", "n1", "generation: 2, resourceSliceCount: 1", gpus),
        slice(
            "n1-old",
            "gpu",
            "n1",
            "generation: 1, resourceSliceCount: 1",
            "devices: [{name: a}, {name: gone}]",
        ),
        slice("n2-gpu", "gpu", "n2", "generation: 1, resourceSliceCount: 1", gpus),
        slice("n1-counters", "part", "n1", "generation: 1, resourceSliceCount: 2", counters),
        slice(
            "n1-parts",
            "part",
            "n1",
            "generation: 1, resourceSliceCount: 2",
            &format!("devices: [{parts}]"),
        ),
    ]
    .concat()
}

fn cluster() -> ClusterInput {
    let mut input = ClusterInput::default();
    input.add_manifests("cluster", CLUSTER).unwrap();
    input.add_manifests("slices", &slices()).unwrap();
    input
}

fn pod(name: &str, template: &str, more: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n\
         spec: {{containers: [{{name: c}}], \
         resourceClaims: [{{name: dev, resourceClaimTemplateName: {template}}}]{more}}}\n"
    )
}

fn simulate(pods: &[String]) -> Report {
    let mut input = cluster();
    for pod in pods {
        input.add_manifests("pod", pod).unwrap();
    }
    let mut simulation = Simulation::new(SimulationOptions::default()).unwrap();
    simulation.load(input.finish().unwrap());
    simulation.run().unwrap()
}

#[test]
fn claims_are_made_from_templates_and_their_devices_counted() {
    let pods = [
        pod("a", "two-gpus", ""),
        pod("b", "two-gpus", ""),
        pod("c", "two-gpus", ""),
        pod("d", "part", ""),
    ];
    let report = simulate(&pods);
    assert_eq!((report.pods.scheduled, report.pods.unschedulable), (3, 1), "{report:?}");
    assert!(report.pending[0].message.contains("cannot allocate all claims"));
    let devices = report.devices.as_ref().unwrap();
    let json = serde_json::to_value(devices).unwrap();
    let numbers = |of: &serde_json::Value| {
        ["devices", "used", "blocked", "free"].map(|number| of[number].as_u64().unwrap())
    };
    let pools: Vec<_> = json["pools"].as_array().unwrap().iter().collect();
    let text = |of: &serde_json::Value, field: &str| of[field].as_str().unwrap().to_owned();
    let named: Vec<_> = pools
        .iter()
        .map(|pool| (text(pool, "driver"), text(pool, "node"), numbers(pool)))
        .collect();
    let expected = [
        ("gpu.example.com", "n1", [3, 2, 0, 1]),
        ("gpu.example.com", "n2", [3, 2, 0, 1]),
        // The whole card is no longer there once a half of it is used.
        ("part.example.com", "n1", [3, 1, 1, 1]),
    ];
    assert_eq!(named, expected.map(|(driver, node, n)| (driver.to_owned(), node.to_owned(), n)));
    let gpu = &json["drivers"][0];
    assert_eq!((&gpu["free"], &gpu["mostFreeTogether"]), (&2.into(), &1.into()));
    // Half of the free GPUs are elsewhere.
    assert_eq!(gpu["fragmentation"], 0.5);
    let classes: Vec<_> =
        devices.classes.iter().map(|class| (class.class.as_str(), class.allocated)).collect();
    assert_eq!(classes, [("gpu", 4), ("part", 1)]);
    let claim = &devices.claims[2];
    assert_eq!(claim.claim, "default/d-dev");
    assert_eq!(claim.devices, ["part.example.com/n1/half-0"]);
    assert_eq!(claim.pods, ["d"]);

    let options = RenderOptions { format: Format::Wide, ..RenderOptions::default() };
    let table = render(&report, options).unwrap();
    assert!(
        table.contains("gpu.example.com    6         4      0         2      50.0%"),
        "{table}"
    );
    let json = render(&report, RenderOptions { format: Format::Json, ..options }).unwrap();
    assert!(json.contains("\"mostFreeTogether\": 1"), "{json}");
}

#[test]
fn a_cluster_without_devices_says_nothing_of_them() {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n\
                status: {allocatable: {cpu: '1', pods: '1'}}\n";
    let mut input = ClusterInput::default();
    input.add_manifests("cluster", node).unwrap();
    let mut simulation = Simulation::new(SimulationOptions::default()).unwrap();
    simulation.load(input.finish().unwrap());
    let report = simulation.run().unwrap();
    assert_eq!(report.devices, None);
}

#[test]
fn a_status_of_the_wrong_type_is_an_error() {
    let mut input = cluster();
    let pod = pod("a", "two-gpus", "") + "status: nonsense\n";
    input.add_manifests("pod", &pod).unwrap();
    assert!(input.finish().unwrap_err().to_string().contains("status"));
}

#[test]
fn the_devices_of_an_evicted_pod_are_free_again() {
    let claim = "
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared, finalizers: [resource.kubernetes.io/delete-protection]}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
status:
  allocation:
    devices: {results: [{request: gpu, driver: gpu.example.com, pool: n1, device: a}]}
    nodeSelector: {nodeSelectorTerms: [{matchFields: [
      {key: metadata.name, operator: In, values: [n1]}]}]}
  reservedFor: [{resource: pods, name: low, uid: low-uid}]
---
apiVersion: v1
kind: Pod
metadata: {name: low, uid: low-uid}
spec:
  nodeName: n1
  containers: [{name: c, resources: {requests: {cpu: '8'}}}]
  resourceClaims: [{name: dev, resourceClaimName: shared}]
";
    let high = pod("high", "part", ", priority: 100")
        .replace("{name: c}", "{name: c, resources: {requests: {cpu: '8'}}}");
    let before = simulate(&[claim.to_owned()]).devices.unwrap();
    assert_eq!(before.claims[0].claim, "default/shared");
    let report = simulate(&[claim.to_owned(), high]);
    assert_eq!(report.preempted.len(), 1, "{report:?}");
    let devices = report.devices.unwrap();
    let claims: Vec<&str> = devices.claims.iter().map(|claim| claim.claim.as_str()).collect();
    assert_eq!(claims, ["default/high-dev"]);
    assert_eq!(devices.drivers[0].counts.used, 0);
}
