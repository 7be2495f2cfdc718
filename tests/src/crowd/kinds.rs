//! What pods and nodes of a crowd look like.
//!
//! Kinds are drawn once per crowd. They are about each other: selectors name the few labels that all kinds use.

use kube_scheduler_examples::{cheap_nodes, gang, reserved_pools};
use serde_json::{Value, json};

use super::herd::Herd;
use super::racks::Racks;
use crate::history::Numbers;

pub(super) const NAMESPACES: [&str; 3] = ["default", "team", "other"];
pub(super) const COLORS: [&str; 3] = ["red", "green", "blue"];
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";
/// Some nodes lack it, some have it with an empty value.
pub(super) const RACK: &str = "example.com/rack";
/// A host name of our own, which some nodes share.
pub(super) const BOARD: &str = "example.com/board";
const KEYS: [&str; 6] = [ZONE, ZONE, HOSTNAME, HOSTNAME, RACK, BOARD];

/// A configuration with all default plugins, some of them with arguments, and sometimes with plugins of others.
pub(super) fn configuration(numbers: &mut Numbers) -> Value {
    let mut args = Vec::new();
    if numbers.one_in(2) {
        args.push(json!({"name": "InterPodAffinity", "args": {
            "hardPodAffinityWeight": 20 * numbers.below(3),
            "ignorePreferredTermsOfExistingPods": numbers.one_in(3),
        }}));
    }
    if numbers.one_in(3) {
        let constraint = |when: &str, key: &str, max_skew: u64| json!({"maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": when});
        args.push(json!({"name": "PodTopologySpread", "args": {
            "defaultingType": "List",
            "defaultConstraints": [
                constraint("ScheduleAnyway", numbers.pick(&KEYS), 1 + numbers.below(3)),
                constraint("DoNotSchedule", ZONE, 1 + numbers.below(3)),
            ],
        }}));
    }
    let of_others = [cheap_nodes::NAME, gang::NAME, reserved_pools::NAME, Herd::NAME, Racks::NAME];
    let mut enabled: Vec<Value> = of_others
        .into_iter()
        .filter(|_| numbers.one_in(5))
        .map(|name| json!({"name": name}))
        .collect();
    if enabled.contains(&json!({"name": reserved_pools::NAME})) {
        args.push(json!({"name": reserved_pools::NAME, "args": {
            "poolLabel": "disk", "reserved": {"ssd": [NAMESPACES[0], NAMESPACES[1]]},
        }}));
    }
    let mut queue_sort = json!({});
    if args.is_empty() && enabled.is_empty() {
        // There is one order of the queue, so it takes the place of the default one.
        let coscheduling = json!({"name": "Coscheduling"});
        queue_sort = json!({"enabled": [coscheduling], "disabled": [{"name": "*"}]});
        enabled.push(coscheduling);
    }
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{
            "schedulerName": "default-scheduler",
            "plugins": {"multiPoint": {"enabled": enabled}, "queueSort": queue_sort},
            "pluginConfig": args,
        }],
    })
}

/// The kinds of pods of a crowd.
#[derive(Debug)]
pub(super) struct Kinds(Vec<Kind>);

#[derive(Debug)]
struct Kind {
    namespace: &'static str,
    labels: Value,
    owner: Value,
    spec: Value,
}

impl Kinds {
    pub(super) fn new(numbers: &mut Numbers) -> Self {
        let n_kinds = 1 + numbers.below(6);
        Self((0..n_kinds).map(|_| Kind::new(numbers)).collect())
    }

    /// A pod of one of the kinds.
    pub(super) fn pod(&self, number: u64, numbers: &mut Numbers) -> Value {
        let kind = &self.0[numbers.below(self.0.len() as u64) as usize];
        json!({
            "metadata": {
                "name": format!("pod-{number}"), "namespace": kind.namespace, "uid": format!("uid-{number}"),
                "labels": kind.labels, "ownerReferences": kind.owner,
            },
            "spec": kind.spec,
            "status": {"phase": "Pending"},
        })
    }

    /// The labels of one of the kinds.
    pub(super) fn any_labels(&self, numbers: &mut Numbers) -> Value {
        self.0[numbers.below(self.0.len() as u64) as usize].labels.clone()
    }
}

impl Kind {
    fn new(numbers: &mut Numbers) -> Self {
        let namespace = NAMESPACES[numbers.below(3) as usize];
        let mut labels =
            json!({"color": numbers.pick(&COLORS), "rev": numbers.below(2).to_string()});
        if numbers.one_in(5) {
            labels = json!({});
        }
        let owner = if numbers.one_in(2) {
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "set", "controller": true}])
        } else {
            json!([])
        };
        Self { namespace, labels, owner, spec: spec(numbers) }
    }
}

fn spec(numbers: &mut Numbers) -> Value {
    // Of a few sizes: some fit dozens of times, some not at all in the end.
    let cpu = ["50m", "200m", "1500m"][numbers.below(3) as usize];
    let mut container = json!({
        "name": "main", "image": numbers.pick(&["registry.example/app:v1", "registry.example/other"]),
    });
    if !numbers.one_in(6) {
        container["resources"] = json!({"requests": {"cpu": cpu, "memory": "64Mi"}});
    }
    if numbers.one_in(8) {
        container["ports"] = json!([{"hostPort": 8000}]);
    }
    let mut spec = json!({"schedulerName": "default-scheduler", "containers": [container]});
    if numbers.one_in(8) {
        spec["priority"] = (10 * numbers.below(2)).into();
    }
    if numbers.one_in(3) {
        spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
    }
    if numbers.one_in(5) {
        spec["nodeSelector"] = json!({"disk": "ssd"});
    }
    let mut affinity = json!({});
    if numbers.one_in(6) {
        affinity["nodeAffinity"] = json!({"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 1 + numbers.below(100),
            "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
        }]});
    }
    for side in ["podAffinity", "podAntiAffinity"] {
        if numbers.one_in(5) {
            affinity[side]["requiredDuringSchedulingIgnoredDuringExecution"] =
                (0..=numbers.below(2)).map(|_| affinity_term(numbers)).collect();
        }
        if numbers.one_in(3) {
            let weighted = |numbers: &mut Numbers| {
                let weight = [1, 7, 100][numbers.below(3) as usize];
                json!({"weight": weight, "podAffinityTerm": affinity_term(numbers)})
            };
            affinity[side]["preferredDuringSchedulingIgnoredDuringExecution"] =
                (0..=numbers.below(2)).map(|_| weighted(numbers)).collect();
        }
    }
    spec["affinity"] = affinity;
    if numbers.one_in(2) {
        let mut constraints: Vec<Value> =
            (0..=numbers.below(3)).map(|_| spread_constraint(numbers)).collect();
        // The API server refuses two of the same kind by one key.
        constraints
            .sort_by_key(|c| (c["topologyKey"].to_string(), c["whenUnsatisfiable"].to_string()));
        constraints
            .dedup_by_key(|c| (c["topologyKey"].to_string(), c["whenUnsatisfiable"].to_string()));
        spec["topologySpreadConstraints"] = constraints.into();
    }
    spec
}

fn selector(numbers: &mut Numbers) -> Value {
    let color = numbers.pick(&COLORS);
    match numbers.below(8) {
        0 => {
            json!({"matchExpressions": [{"key": "color", "operator": "NotIn", "values": [color]}]})
        }
        1 => json!({"matchExpressions": [{"key": "color", "operator": "Exists"}]}),
        2 => json!({}),
        3 => {
            json!({"matchExpressions": [{"key": "color", "operator": "In", "values": ["red", color]}]})
        }
        _ => json!({"matchLabels": {"color": color}}),
    }
}

fn affinity_term(numbers: &mut Numbers) -> Value {
    let mut term = json!({"topologyKey": numbers.pick(&KEYS), "labelSelector": selector(numbers)});
    match numbers.below(6) {
        0 => term["namespaces"] = json!(NAMESPACES[..2]),
        1 => term["namespaceSelector"] = json!({"matchLabels": {"tier": "gold"}}),
        2 => term["namespaceSelector"] = json!({}),
        _ => {}
    }
    if numbers.one_in(6) {
        term["matchLabelKeys"] = json!(["rev"]);
    }
    term
}

fn spread_constraint(numbers: &mut Numbers) -> Value {
    let mut constraint = json!({
        "maxSkew": 1 + numbers.below(4),
        "topologyKey": numbers.pick(&KEYS),
        "whenUnsatisfiable": numbers.pick(&["DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": selector(numbers),
    });
    if numbers.one_in(4) {
        constraint["nodeTaintsPolicy"] = "Honor".into();
    }
    if numbers.one_in(4) {
        constraint["nodeAffinityPolicy"] = "Ignore".into();
    }
    if numbers.one_in(5) {
        constraint["matchLabelKeys"] = json!(["rev"]);
    }
    if numbers.one_in(4) && constraint["whenUnsatisfiable"] == "DoNotSchedule" {
        constraint["minDomains"] = (2 + numbers.below(3)).into();
    }
    constraint
}

pub(super) fn node_name(at: u64) -> String {
    format!("node-{at}")
}

/// A node as it may look at any time; most look the same each time.
pub(super) fn node(at: u64, numbers: &mut Numbers) -> Value {
    let name = node_name(at);
    let mut labels =
        json!({HOSTNAME: name, "disk": if at.is_multiple_of(2) { "ssd" } else { "hdd" }});
    if !numbers.one_in(12) {
        labels[ZONE] = format!("zone-{}", at % 3).into();
    }
    match at % 7 {
        0 => {}
        1 => labels[RACK] = "".into(),
        rack => labels[RACK] = format!("rack-{rack}").into(),
    }
    if !numbers.one_in(12) {
        labels[BOARD] = format!("board-{}", at - at % 2 * u64::from(at % 10 == 1)).into();
    }
    if !numbers.one_in(6) {
        labels["example.com/price"] = (at % 4).to_string().into();
    }
    let mut taints = Vec::new();
    if numbers.one_in(8) {
        let effect = numbers.pick(&["NoSchedule", "PreferNoSchedule"]);
        taints.push(json!({"key": "dedicated", "value": "batch", "effect": effect}));
    }
    let mut images = Vec::new();
    if numbers.one_in(8) {
        images.push(json!({"names": ["registry.example/app:v1"], "sizeBytes": 500_000_000}));
    }
    json!({
        "metadata": {"name": name, "uid": format!("{name}-uid"), "labels": labels},
        "spec": {"unschedulable": numbers.one_in(20), "taints": taints},
        "status": {
            "allocatable": {"cpu": (4 + at % 3).to_string(), "memory": "4Gi", "pods": "20"},
            "images": images,
        },
    })
}

/// An object that pods or their constraints are judged by.
pub(super) fn object(numbers: &mut Numbers) -> Value {
    let namespace = numbers.pick(&NAMESPACES);
    match numbers.below(3) {
        0 => json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {"tier": numbers.pick(&["gold", "iron"])}}}),
        1 => json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"namespace": namespace, "name": numbers.pick(&["front", "back"])},
            "spec": {"selector": {"color": numbers.pick(&COLORS)}}}),
        _ => json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"namespace": namespace, "name": "set", "uid": "set"},
            "spec": {"selector": {"matchLabels": {"color": numbers.pick(&COLORS)}}}}),
    }
}
