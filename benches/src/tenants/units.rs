//! What a unit of work takes in time, for each part of a pod that has a price: pods are made as large as the limit allows, and
//! their attempts are timed.

use std::time::Duration;

use anyhow::Result;
use kube_scheduler_engine::{AttemptResult, WorkLimits};
use serde_json::{Map, Value, json};

use super::cluster::TenantCluster;
use super::millis;
use crate::table::Table;

/// Running pods for each node.
const PODS_PER_NODE: usize = 10;
const TENANT: &str = "tenant";
/// A namespace of the tenant with services that select pods by many labels.
const SELECTED: &str = "selected";
/// The n-th service there selects by so many labels.
const SERVICES: usize = 1000;

/// A part of a pod, as large as wanted.
struct Shape {
    name: &'static str,
    pod: fn(usize) -> Value,
}

const SHAPES: [Shape; 12] = [
    Shape { name: "node affinity terms of 10 requirements", pod: node_terms },
    Shape { name: "node affinity, long lists of values", pod: node_values },
    Shape { name: "preferred node affinity", pod: preferred_nodes },
    Shape { name: "spread constraints, by host", pod: |n| spread(n, "kubernetes.io/hostname") },
    Shape { name: "spread constraints, by zone", pod: |n| spread(n, "zone") },
    Shape { name: "required pod affinity terms", pod: |n| required(n, "podAffinity") },
    Shape { name: "required anti-affinity terms", pod: |n| required(n, "podAntiAffinity") },
    Shape { name: "preferred pod affinity terms", pod: preferred },
    Shape { name: "labels that services select by", pod: selected },
    Shape { name: "tolerations", pod: tolerations },
    Shape { name: "host ports", pod: ports },
    Shape { name: "priority, with anti-affinity terms", pod: preempting },
];

fn list(n: usize, one: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..n).map(one).collect()
}

fn of_spec(spec: Value) -> Value {
    json!({"metadata": {"labels": {"app": "evil"}}, "spec": spec})
}

/// All requirements of a term but the last are met by every node.
fn node_terms(n: usize) -> Value {
    let requirement = |at: usize, of: usize| match at {
        9 => json!({"key": "zone", "operator": "In", "values": [format!("none{of}")]}),
        _ => json!({"key": "zone", "operator": "NotIn", "values": [format!("other{of}-{at}")]}),
    };
    let term = |of| json!({"matchExpressions": list(10, |at| requirement(at, of))});
    of_spec(json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": list(n, term)}}}}))
}

fn node_values(n: usize) -> Value {
    let values = |of: usize| list(200, |at| format!("other{of}-{at}").into());
    let term = |of| json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": values(of)}]});
    of_spec(json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": list(n, term)}}}}))
}

fn preferred_nodes(n: usize) -> Value {
    let term = |at: usize| {
        json!({"weight": 1, "preference": {"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [format!("n{at}")]}]}})
    };
    of_spec(
        json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": list(n, term)}}}),
    )
}

/// Pods without this label there are none of.
fn selector(at: usize) -> Value {
    json!({"matchExpressions": [{"key": format!("none{at}"), "operator": "DoesNotExist"},
        {"key": "app", "operator": "NotIn", "values": [format!("x{at}")]}]})
}

fn spread(n: usize, key: &str) -> Value {
    let constraint = |at| json!({"maxSkew": 1000, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector(at)});
    of_spec(json!({"topologySpreadConstraints": list(n, constraint)}))
}

fn term(at: usize) -> Value {
    json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector(at), "namespaceSelector": {}})
}

fn required(n: usize, what: &str) -> Value {
    of_spec(
        json!({"affinity": {what: {"requiredDuringSchedulingIgnoredDuringExecution": list(n, term)}}}),
    )
}

fn preferred(n: usize) -> Value {
    let terms = list(n, |at| json!({"weight": 1, "podAffinityTerm": term(at)}));
    of_spec(
        json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}),
    )
}

fn label(at: usize) -> (String, Value) {
    (format!("label{at}"), "x".into())
}

fn selected(n: usize) -> Value {
    let labels: Map<String, Value> = (0..n).map(label).collect();
    json!({"metadata": {"namespace": SELECTED, "labels": labels}, "spec": {}})
}

fn tolerations(n: usize) -> Value {
    let one = |at| json!({"key": format!("other{at}"), "operator": "Exists"});
    of_spec(json!({"tolerations": list(n, one)}))
}

fn ports(n: usize) -> Value {
    let port = |at: usize| json!({"containerPort": 1 + at % 65_535, "hostPort": 1 + at % 65_535});
    of_spec(json!({"containers": [{"name": "c", "ports": list(n, port)}]}))
}

/// Fits nowhere; whether it would without others is tried for every node.
fn preempting(n: usize) -> Value {
    let mut pod = required(n, "podAntiAffinity");
    pod["spec"]["priority"] = 1000.into();
    pod["spec"]["containers"] = json!([{"name": "c", "resources": {"requests": {"cpu": "7900m"}}}]);
    pod
}

/// 2,000 nodes or so with ten lists of taints, and pods on them, half of which are the tenant's.
fn crowded(n_nodes: usize) -> Result<TenantCluster> {
    let node = |at: usize| {
        let name = format!("n{at}");
        let labels = json!({"kubernetes.io/hostname": name, "zone": format!("z{}", at % 3)});
        let taint = json!([{"key": format!("t{}", at % 10), "effect": "PreferNoSchedule"}]);
        json!({
            "metadata": {"name": name, "uid": name, "labels": labels},
            "spec": {"taints": taint},
            "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
        })
    };
    let mut cluster = TenantCluster::of(n_nodes, node)?;
    for at in 0..n_nodes * PODS_PER_NODE {
        let namespace = if at % 2 == 0 { TENANT } else { "other" };
        let app = format!("a{}", at % 200);
        let pod = json!({"metadata": {"labels": {"app": app}}, "spec": {"nodeName": format!("n{}", at % n_nodes),
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]}});
        cluster.add(namespace, &format!("running{at}"), pod)?;
    }
    for at in 0..20 {
        cluster.add_object(json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"namespace": "services", "name": format!("s{at}")}, "spec": {"selector": {"app": "evil"}}}))?;
    }
    for at in 0..SERVICES {
        let selector: Map<String, Value> = (0..=at).map(label).collect();
        cluster.add_object(json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"namespace": SELECTED, "name": format!("s{at}")}, "spec": {"selector": selector}}))?;
    }
    cluster.attempts();
    Ok(cluster)
}

/// What one pod cost: units, time, and whether it was tried at all.
fn cost(cluster: &mut TenantCluster, name: &str, json: Value) -> Result<(u64, Duration, bool)> {
    let namespace = json["metadata"]["namespace"].as_str().unwrap_or(TENANT).to_owned();
    cluster.add(&namespace, name, json)?;
    let attempts = cluster.attempts();
    cluster.remove(&namespace, name);
    let work = attempts.turns.iter().map(|turn| turn.work).max().unwrap_or(0);
    let is_refused = attempts.turns.iter().any(
        |turn| matches!(&turn.result, AttemptResult::Error(text) if text.contains("too expensive")),
    );
    Ok((work, attempts.longest, !is_refused))
}

/// Pods as large as the limit allows.
///
/// # Errors
/// If an engine cannot be built.
pub fn units(n_nodes: usize) -> Result<Table> {
    let WorkLimits { base, per_node, .. } = WorkLimits::default();
    let hard = base + per_node * u64::try_from(n_nodes)?;
    let mut table =
        Table::new(["part of the pod", "n", "units", "ms", "ns/unit", "ms at the hard limit"]);
    let mut cluster = crowded(n_nodes)?;
    let mut n_tried = 0;
    for Shape { name, pod } in &SHAPES {
        let mut try_with = |n: usize| {
            n_tried += 1;
            // Whatever the namespace has used up comes back.
            cluster.now = cluster.now + Duration::from_secs(3600);
            cost(&mut cluster, &format!("evil{n_tried}"), pod(n))
        };
        // Between the two lies the largest that is tried.
        let (mut low, mut high) = (1, 2);
        while high < 1 << 17 && try_with(high)?.2 {
            (low, high) = (high, high * 2);
        }
        while high - low > low / 16 + 1 {
            let middle = low.midpoint(high);
            if try_with(middle)?.2 { low = middle } else { high = middle }
        }
        // The first may have found its memory unused.
        let tries = [try_with(low)?, try_with(low)?, try_with(low)?];
        let longest = tries.iter().map(|(_, time, _)| *time).max().unwrap_or_default();
        let work = tries[0].0;
        let per_unit = longest.as_nanos() as f64 / work.max(1) as f64;
        table.push(vec![
            (*name).to_owned(),
            low.to_string(),
            work.to_string(),
            format!("{:.2}", millis(longest)),
            format!("{per_unit:.2}"),
            format!("{:.1}", per_unit * hard as f64 / 1e6),
        ]);
    }
    Ok(table)
}
