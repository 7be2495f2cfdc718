//! The demo with gangs: groups of pods that are scheduled together or not at all, some of them within one zone; and one that comes
//! last, for which others have to go.
//!
//! Invariant: every gang fits, whatever the order in which they are scheduled, but those of [`Shape::LargeGang`], one pod of
//! which asks for more than any node has.

use anyhow::Result;
use kube_scheduler_config::{Configuration, FeatureGates, Gate, load};
use serde_json::{Value, json};

use super::workload::{SHAPE, Shape};

/// Shapes of pods, with their number among a hundred.
pub(super) const SHARES: [(Shape, usize); 4] =
    [(Shape::Plain, 40), (Shape::Gang, 36), (Shape::ZoneGang, 20), (Shape::LargeGang, 4)];

/// How many pods a gang has. It wants all of them.
pub(super) const SIZE: usize = 4;

/// The gang that comes last, the shape of its pods, and its priority class.
pub(super) const URGENT: &str = "urgent-gang";

/// More than any node has.
const TOO_MANY_CPUS: &str = "1000000";

/// The gates of a scheduler that schedules gangs, and its configuration.
pub(super) fn configuration() -> Result<(FeatureGates, Configuration)> {
    let gates = FeatureGates::default()
        .with(Gate::GenericWorkload, true)
        .with(Gate::GangScheduling, true)
        .with(Gate::TopologyAwareWorkloadScheduling, true)
        .with(Gate::WorkloadAwarePreemption, true);
    let source = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
    });
    let config = load(&source.to_string(), &gates)?;
    Ok((gates, config))
}

/// Whether pods of a shape belong to gangs.
pub(super) const fn is_gang(shape: Shape) -> bool {
    matches!(shape, Shape::Gang | Shape::ZoneGang | Shape::LargeGang)
}

/// The groups of so many pods of a shape.
pub(super) fn groups(shape: Shape, n_pods: usize) -> impl Iterator<Item = Value> {
    let n_groups = if is_gang(shape) { n_pods / SIZE } else { 0 };
    (0..n_groups).map(move |number| {
        let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": SIZE}}});
        if shape == Shape::ZoneGang {
            let topology = json!([{"key": "topology.kubernetes.io/zone"}]);
            spec["schedulingConstraints"] = json!({"topology": topology});
        }
        json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"name": name(shape, number), "namespace": "default"}, "spec": spec,
        })
    })
}

/// A gang that comes last and is more important than all others: each of its pods asks for all CPUs of a node. The pods come
/// last.
pub(super) fn urgent(cpus_of_a_node: &str) -> Vec<Value> {
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": URGENT}, "value": 1_000_000, "description": "Takes the place of others.",
    });
    let group = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": URGENT, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": SIZE}}, "priorityClassName": URGENT},
    });
    let pod = |number: usize| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("{URGENT}-{number}"), "namespace": "default", "labels": {SHAPE: URGENT}},
            "spec": {
                "priorityClassName": URGENT, "schedulingGroup": {"podGroupName": URGENT},
                "containers": [{
                    "name": "main", "image": "registry.example.com/web:1",
                    "resources": {"requests": {"cpu": cpus_of_a_node}},
                }],
            },
        })
    };
    [class, group].into_iter().chain((0..SIZE).map(pod)).collect()
}

/// Makes a pod spec that of pod number `number` of its shape.
pub(super) fn complete(spec: &mut Value, shape: Shape, number: usize) {
    spec["schedulingGroup"] = json!({"podGroupName": name(shape, number / SIZE)});
    if shape == Shape::LargeGang && number % SIZE == SIZE - 1 {
        spec["containers"][0]["resources"]["requests"]["cpu"] = TOO_MANY_CPUS.into();
    }
}

fn name(shape: Shape, number: usize) -> String {
    format!("{}-{number:04}", shape.as_str())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::workload::{Theme, Workload};
    use super::*;

    #[test]
    fn every_gang_has_its_pods_and_its_group() {
        for n_pods in [10, 100, 1003] {
            let workload = Workload::new(10, n_pods, 0, Theme::Gangs);
            let mut members: BTreeMap<String, usize> = BTreeMap::new();
            let pods: Vec<Value> = workload.pods().collect();
            assert_eq!(pods.len(), n_pods);
            for pod in &pods {
                if let Some(group) = pod["spec"]["schedulingGroup"]["podGroupName"].as_str() {
                    *members.entry(group.to_owned()).or_default() += 1;
                }
            }
            assert!(members.values().all(|n| *n == SIZE), "{members:?}");
            let groups: Vec<String> = workload
                .groups()
                .map(|group| group["metadata"]["name"].as_str().unwrap().to_owned())
                .collect();
            assert_eq!(groups.len(), members.len());
            assert!(groups.iter().all(|group| members.contains_key(group)));
        }
    }

    #[test]
    fn one_pod_of_a_large_gang_fits_nowhere() {
        let workload = Workload::new(10, 200, 0, Theme::Gangs);
        let too_large = workload
            .pods()
            .filter(|pod| {
                pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == TOO_MANY_CPUS
            })
            .count();
        assert_eq!(too_large * SIZE, workload.n_too_large());
        assert!(too_large > 0);
    }
}
