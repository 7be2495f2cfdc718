//! The demo with devices: pods with claims from templates, on nodes with the embedded cluster's sample GPUs.
//!
//! Invariant: every pod fits, whatever the order in which they are scheduled, but those of [`Shape::TooManyGpus`].

use std::collections::BTreeMap;

use kube_scheduler_devcluster::{
    DevCluster, RESOURCE_CLAIMS, RESOURCE_SLICES, SampleDevices, Selection,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::workload::Shape;

/// Shapes of pods, with their number among a hundred.
pub(super) const SHARES: [(Shape, usize); 7] = [
    (Shape::Plain, 50),
    (Shape::OneGpu, 25),
    (Shape::GpuPair, 5),
    (Shape::LargeGpu, 5),
    (Shape::HalfGpu, 8),
    (Shape::Fabric, 5),
    (Shape::TooManyGpus, 2),
];

/// As many devices as the sample has at most in one slice.
const MOST: usize = 32;
const ZONES: usize = 3;

/// How many devices there are, and how many of them can still be asked for.
#[derive(Clone, Debug)]
pub(super) struct DeviceRoom {
    gpus_per_node: usize,
    gpus: usize,
    halves: usize,
    fabric: usize,
}

impl DeviceRoom {
    pub(super) fn new(n_nodes: usize, n_pods: usize) -> Self {
        // Every second node has large GPUs, and any pod may get one: all requests together must fit there.
        // One more than a node has must still be a valid claim.
        let gpus_per_node = (n_pods * 6).div_ceil(n_nodes.max(1) * 5).clamp(4, MOST - 1);
        Self {
            gpus_per_node,
            gpus: n_nodes / 2 * gpus_per_node,
            halves: 2 * n_nodes,
            fabric: ZONES * MOST,
        }
    }

    /// Takes what a pod of a shape asks for; returns false if that is not left.
    pub(super) fn take(&mut self, shape: Shape) -> bool {
        let (left, wanted) = match shape {
            Shape::OneGpu | Shape::LargeGpu => (&mut self.gpus, 1),
            // A hole beside another pod's GPU may be left.
            Shape::GpuPair => (&mut self.gpus, 3),
            Shape::HalfGpu => (&mut self.halves, 1),
            Shape::Fabric => (&mut self.fabric, 1),
            _ => return true,
        };
        let is_left = *left >= wanted;
        *left -= if is_left { wanted } else { 0 };
        is_left
    }

    /// The devices of the cluster.
    pub(super) fn sample(&self) -> SampleDevices {
        SampleDevices::default().gpus_per_node(self.gpus_per_node).fabric_per_zone(MOST)
    }

    /// The templates that pods name, one for each shape with a claim.
    pub(super) fn templates(&self) -> Vec<Value> {
        let request = |class: &str, count: usize, selector: &str| {
            let mut exactly = json!({"deviceClassName": class, "count": count});
            if !selector.is_empty() {
                exactly["selectors"] = json!([{"cel": {"expression": selector}}]);
            }
            json!({"requests": [{"name": "devices", "exactly": exactly}]})
        };
        let gpus = |count, selector| request("gpu.example.com", count, selector);
        let mut pair = gpus(2, "");
        pair["constraints"] = json!([{"matchAttribute": "gpu.example.com/numa"}]);
        let large = gpus(1, "device.attributes['gpu.example.com'].model == 'G200'");
        let half = request(
            "partition.example.com",
            1,
            "device.attributes['partition.example.com'].profile == 'half'",
        );
        [
            (Shape::OneGpu, gpus(1, "")),
            (Shape::GpuPair, pair),
            (Shape::LargeGpu, large),
            (Shape::HalfGpu, half),
            (Shape::Fabric, request("fabric.example.com", 1, "")),
            (Shape::TooManyGpus, gpus(self.gpus_per_node + 1, "")),
        ]
        .into_iter()
        .map(|(shape, devices)| {
            json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
                "metadata": {"name": shape.as_str()}, "spec": {"spec": {"devices": devices}},
            })
        })
        .collect()
    }
}

/// The claim of a pod, from the template of its shape.
pub(super) fn claims(shape: Shape) -> Value {
    json!([{"name": "devices", "resourceClaimTemplateName": shape.as_str()}])
}

/// How many devices of a driver there are, and how many of them belong to claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct DeviceCounts {
    pub(super) devices: usize,
    pub(super) allocated: usize,
}

/// The devices of a cluster, by driver.
pub(super) fn count(cluster: &DevCluster) -> BTreeMap<String, DeviceCounts> {
    let mut counts: BTreeMap<String, DeviceCounts> = BTreeMap::new();
    let all = |kind| cluster.list(kind, &Selection::all()).items;
    for slice in all(RESOURCE_SLICES) {
        let slice = slice.value();
        let n_devices = slice["spec"]["devices"].as_array().map_or(0, Vec::len);
        let driver = slice["spec"]["driver"].as_str().unwrap_or_default();
        counts.entry(driver.to_owned()).or_default().devices += n_devices;
    }
    for claim in all(RESOURCE_CLAIMS) {
        let claim = claim.value();
        let results = claim["status"]["allocation"]["devices"]["results"].as_array();
        for result in results.into_iter().flatten() {
            let driver = result["driver"].as_str().unwrap_or_default();
            counts.entry(driver.to_owned()).or_default().allocated += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_promised_more_than_there_is() {
        for (n_nodes, n_pods) in [(4, 1000), (4, 10), (100, 1000), (5000, 100)] {
            let mut room = DeviceRoom::new(n_nodes, n_pods);
            let large = n_nodes / 2 * room.gpus_per_node;
            let n_granted = (0..n_pods * 10).filter(|_| room.take(Shape::LargeGpu)).count();
            assert_eq!(n_granted, large.min(n_pods * 10));
            assert!(room.gpus_per_node <= MOST);
        }
    }

    #[test]
    fn every_shape_with_a_claim_has_its_template() {
        let templates = DeviceRoom::new(10, 100).templates();
        let mut names: Vec<&str> =
            templates.iter().filter_map(|one| one["metadata"]["name"].as_str()).collect();
        let shapes = SHARES.iter().map(|(shape, _)| shape.as_str());
        let mut wanted: Vec<&str> = shapes.filter(|name| *name != "plain").collect();
        names.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(names, wanted);
    }
}
