//! Pods that share nothing with each other, on nodes that differ: every plugin has something to say about every pod.
//!
//! The same number gives the same pod, for ever. No two pods are of one class: each has a label of its own and asks for
//! another amount of memory.

use kube_scheduler_api_types::numbers::Numbers;
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const RACK: &str = "example.com/rack";
const DISK: &str = "example.com/disk";
const GENERATION: &str = "example.com/generation";
const DEDICATED: &str = "example.com/dedicated";
const ZONES: [&str; 3] = ["moon-1", "moon-2", "moon-3"];
const N_IMAGES: u64 = 12;

/// Node number `at`: labels, taints, capacity and images of its own choice.
pub(crate) fn node(at: usize) -> Value {
    let mut numbers = Numbers::new(at as u64 ^ 0x006E_6F64_6500);
    let cpu = [4, 8, 16][numbers.below(3) as usize];
    let taints: Vec<Value> = match numbers.below(10) {
        0 => vec![json!({"key": DEDICATED, "value": "batch", "effect": "NoSchedule"})],
        1 | 2 => vec![json!({"key": DEDICATED, "value": "web", "effect": "PreferNoSchedule"})],
        _ => Vec::new(),
    };
    let images: Vec<Value> = (0..3)
        .map(|_| numbers.below(N_IMAGES))
        .map(|image| json!({"names": [image_name(image)], "sizeBytes": 50_000_000 * (image + 1)}))
        .collect();
    json!({
        "metadata": {"labels": {
            ZONE: ZONES[at % 3],
            RACK: format!("rack-{}", at / 3 % 50),
            DISK: numbers.pick(&["ssd", "hdd"]),
            GENERATION: numbers.below(9).to_string(),
        }},
        "spec": {"taints": taints, "unschedulable": numbers.chance(1)},
        "status": {
            "allocatable": {"cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 8), "pods": "110"},
            "images": images,
        },
    })
}

/// Pod number `at`.
pub(crate) fn pod(at: usize) -> Value {
    let mut numbers = Numbers::new(at as u64 ^ 0x0070_6F64_0000);
    let app = format!("app-{}", numbers.below(50));
    let tier = numbers.pick(&["front", "back", "db"]);
    // The number makes the amount unique.
    let memory = 100_000 + numbers.below(400) * 1_000 + at as u64 % 1_000;
    let mut container = json!({
        "name": "main",
        "image": image_name(numbers.below(N_IMAGES)),
        "resources": {"requests": {
            "cpu": format!("{}m", 50 + numbers.below(200)), "memory": format!("{memory}Ki"),
        }},
    });
    if numbers.chance(5) {
        container["ports"] = json!([{"containerPort": 80, "hostPort": 8_000 + numbers.below(500)}]);
    }
    let mut spec = json!({"containers": [container]});
    if numbers.chance(50) {
        spec["tolerations"] = tolerations(&mut numbers);
    }
    if numbers.chance(10) {
        spec["nodeSelector"] = json!({DISK: numbers.pick(&["ssd", "hdd"])});
    }
    let mut affinity = json!({});
    if numbers.chance(50) {
        affinity["nodeAffinity"] = node_affinity(&mut numbers);
    }
    if numbers.chance(30) {
        affinity["podAffinity"] = pod_affinity(&mut numbers, &app, tier);
    }
    if numbers.chance(30) {
        affinity["podAntiAffinity"] = pod_anti_affinity(&mut numbers, &app, tier);
    }
    spec["affinity"] = affinity;
    if numbers.chance(40) {
        spec["topologySpreadConstraints"] = spread(&mut numbers, &app);
    }
    json!({
        "metadata": {"labels": {"app": app, "tier": tier, "release": format!("r-{at}")}},
        "spec": spec,
    })
}

fn image_name(image: u64) -> String {
    format!("registry.example.com/team/image-{image}:v1")
}

fn tolerations(numbers: &mut Numbers) -> Value {
    let value = numbers.pick(&["batch", "web"]);
    match numbers.below(3) {
        0 => json!([{"key": DEDICATED, "operator": "Exists"}]),
        1 => {
            json!([{"key": DEDICATED, "operator": "Equal", "value": value, "effect": "NoSchedule"}])
        }
        _ => json!([
            {"key": DEDICATED, "operator": "Equal", "value": value, "effect": "PreferNoSchedule"},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
        ]),
    }
}

fn node_affinity(numbers: &mut Numbers) -> Value {
    let zone = numbers.pick(&ZONES);
    let mut affinity = json!({});
    if numbers.chance(50) {
        let expression = match numbers.below(3) {
            0 => json!({"key": ZONE, "operator": "NotIn", "values": [zone]}),
            1 => {
                json!({"key": GENERATION, "operator": "Gt", "values": [numbers.below(5).to_string()]})
            }
            _ => json!({"key": DISK, "operator": "In", "values": ["ssd", "nvme"]}),
        };
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
    }
    if numbers.chance(60) {
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = json!([{
            "weight": 1 + numbers.below(100),
            "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]},
        }]);
    }
    affinity
}

fn pod_affinity(numbers: &mut Numbers, app: &str, tier: &str) -> Value {
    if numbers.chance(40) {
        // About itself: the first pod of an app may go anywhere.
        let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE});
        return json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    }
    let term = json!({"labelSelector": {"matchLabels": {"tier": tier}}, "topologyKey": numbers.pick(&[ZONE, RACK, HOSTNAME])});
    json!({"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1 + numbers.below(100), "podAffinityTerm": term},
    ]})
}

fn pod_anti_affinity(numbers: &mut Numbers, app: &str, tier: &str) -> Value {
    let selector = json!({"matchLabels": {"app": app, "tier": tier}});
    if numbers.chance(50) {
        let term = json!({"labelSelector": selector, "topologyKey": HOSTNAME});
        return json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    }
    let term = json!({
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": [app, "app-0"]}]},
        "topologyKey": numbers.pick(&[RACK, HOSTNAME]),
    });
    json!({"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1 + numbers.below(100), "podAffinityTerm": term},
    ]})
}

fn spread(numbers: &mut Numbers, app: &str) -> Value {
    let (key, action) = if numbers.chance(50) {
        (ZONE, "DoNotSchedule")
    } else {
        (numbers.pick(&[RACK, HOSTNAME, ZONE]), "ScheduleAnyway")
    };
    json!([{
        "maxSkew": 2 + numbers.below(5),
        "topologyKey": key,
        "whenUnsatisfiable": action,
        "labelSelector": {"matchLabels": {"app": app}},
    }])
}
