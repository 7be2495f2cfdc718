//! The nodes and pods of the demo.
//!
//! Invariants: the same numbers of nodes and pods and the same seed give the same objects; all pods fit, because the size of
//! the nodes follows from the number of pods, but those that ask for more devices than a node has.

use std::collections::BTreeMap;

use kube_scheduler_api_types::named_enum;
use kube_scheduler_api_types::numbers::Numbers;
use kube_scheduler_devcluster::{DevCluster, NODES, NodeTemplate, SampleDevices, StatusError};
use serde_json::{Value, json};

use super::devices::{self, DeviceRoom};
use super::gangs;

/// The scheduling gate that is removed when half of the pods are bound.
pub(super) const GATE: &str = "demo.example.com/not-yet";
/// The label with a pod's shape.
pub(super) const SHAPE: &str = "demo.example.com/shape";

const DISK: &str = "demo.example.com/disk";
const DEDICATED: &str = "demo.example.com/dedicated";
const GPU: &str = "nvidia.com/gpu";
const LARGE_IMAGE: &str = "registry.example.com/training:1";
const PRIORITY_CLASS: &str = "demo-important";

named_enum! {
    /// A kind of pod.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) enum Shape {
        Plain = "plain",
        Important = "important",
        NodeAffinity = "node-affinity",
        PreferredZone = "preferred-zone",
        Tolerating = "tolerating",
        HostPort = "host-port",
        LargeImage = "large-image",
        Gpu = "gpu",
        Gated = "gated",
        OneGpu = "one-gpu",
        GpuPair = "gpu-pair",
        LargeGpu = "large-gpu",
        HalfGpu = "half-gpu",
        Fabric = "fabric",
        TooManyGpus = "too-many-gpus",
        Gang = "gang",
        ZoneGang = "zone-gang",
        LargeGang = "large-gang",
    }
}

/// What the demo is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Theme {
    /// Pods of many shapes.
    Usual,
    /// Pods with claims of devices.
    Devices,
    /// Pods in groups.
    Gangs,
}

impl Shape {
    /// The shapes without devices, with their number among a hundred pods.
    const SHARES: [(Self, usize); 9] = [
        (Self::Plain, 40),
        (Self::Important, 10),
        (Self::NodeAffinity, 12),
        (Self::PreferredZone, 8),
        (Self::Tolerating, 8),
        (Self::HostPort, 4),
        (Self::LargeImage, 8),
        (Self::Gpu, 5),
        (Self::Gated, 5),
    ];
}

/// The demo's pods and nodes.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    n_nodes: usize,
    /// In the order of creation.
    shapes: Vec<Shape>,
    theme: Theme,
    /// Sample devices, if pods have claims of them.
    devices: Option<DeviceRoom>,
    random: Random,
}

/// The number of nodes of each kind.
struct NodeCounts {
    plain: usize,
    ssd: usize,
    dedicated: usize,
    gpu: usize,
}

impl Workload {
    pub(super) fn new(n_nodes: usize, n_pods: usize, seed: u64, theme: Theme) -> Self {
        let mut random = Random(Numbers::new(seed));
        let mut shapes: Vec<Shape> = Vec::with_capacity(n_pods);
        let shares: &[(Shape, usize)] = match theme {
            Theme::Usual => &Shape::SHARES,
            Theme::Devices => &devices::SHARES,
            Theme::Gangs => &gangs::SHARES,
        };
        for (shape, share) in shares {
            let n = n_pods * share / 100;
            let n = if gangs::is_gang(*shape) { n - n % gangs::SIZE } else { n };
            shapes.extend(std::iter::repeat_n(*shape, n));
        }
        // For the rest that rounding leaves.
        shapes.resize(n_pods, Shape::Plain);
        let mut room = (theme == Theme::Devices).then(|| DeviceRoom::new(n_nodes, n_pods));
        for shape in &mut shapes {
            if room.as_mut().is_some_and(|room| !room.take(*shape)) {
                *shape = Shape::Plain;
            }
        }
        let random_later = Random(Numbers::new(0));
        let mut workload = Self { n_nodes, shapes, theme, devices: room, random: random_later };
        // Each node has a host port once: with few nodes and many pods, some pods get none.
        let mut n_ports_left = workload.counts().plain * PORTS.len() / 2;
        for shape in &mut workload.shapes {
            if *shape == Shape::HostPort && n_ports_left == 0 {
                *shape = Shape::Plain;
            } else if *shape == Shape::HostPort {
                n_ports_left -= 1;
            }
        }
        for i in (1..workload.shapes.len()).rev() {
            workload.shapes.swap(i, random.below(i + 1));
        }
        workload.random = random;
        workload
    }

    fn counts(&self) -> NodeCounts {
        let part = |share: usize| (self.n_nodes * share / 100).max(1);
        // At least one node of each kind, even if that makes a small cluster larger.
        let (ssd, dedicated, gpu) = (part(20), part(10), part(10));
        let plain = self.n_nodes.saturating_sub(ssd + dedicated + gpu).max(1);
        NodeCounts { plain, ssd, dedicated, gpu }
    }

    /// How many pods find no node, because they or others of their gang ask for more than any node has.
    pub(super) fn n_too_large(&self) -> usize {
        self.n_of(Shape::TooManyGpus) + self.n_of(Shape::LargeGang)
    }

    /// The groups of the pods.
    pub(super) fn groups(&self) -> impl Iterator<Item = Value> {
        gangs::SHARES.into_iter().flat_map(|(shape, _)| gangs::groups(shape, self.n_of(shape)))
    }

    /// The sample devices that the cluster needs.
    pub(super) fn devices(&self) -> Option<SampleDevices> {
        self.devices.as_ref().map(DeviceRoom::sample)
    }

    fn n_of(&self, shape: Shape) -> usize {
        self.shapes.iter().filter(|other| **other == shape).count()
    }

    /// Creates the nodes, named by kind, and the objects that pods refer to.
    pub(super) fn build_cluster(&self, cluster: &DevCluster) -> Result<(), StatusError> {
        let counts = self.counts();
        // Twice the size that an even spread of all pods needs. For kinds of nodes that only some pods can use: twice what
        // those need.
        let roomy = |n_pods: usize, n_nodes: usize| (2 * n_pods.div_ceil(n_nodes.max(1))).max(16);
        let sized = |template: NodeTemplate, pods: usize| {
            template
                .zones(3)
                .capacity("cpu", &pods.to_string())
                .capacity("memory", &format!("{pods}Gi"))
                .capacity("pods", &(pods * 2).max(110).to_string())
        };
        let n_pods = self.shapes.len();
        if let Some(room) = &self.devices {
            let template = NodeTemplate::default().name_prefix("node-");
            let template = sized(template, roomy(n_pods, self.n_nodes));
            cluster.add_hollow_nodes(self.n_nodes, &template)?;
            cluster.bulk_create(room.templates())?;
            return Ok(());
        }
        if self.theme == Theme::Gangs {
            let template = NodeTemplate::default().name_prefix("node-");
            let template = sized(template, roomy(n_pods, self.n_nodes));
            cluster.add_hollow_nodes(self.n_nodes, &template)?;
            cluster.bulk_create(self.groups())?;
            return Ok(());
        }
        let plain =
            sized(NodeTemplate::default().name_prefix("plain-"), roomy(n_pods, counts.plain));
        cluster.add_hollow_nodes(counts.plain, &plain)?;
        let ssd = sized(
            NodeTemplate::default().name_prefix("ssd-").label(DISK, "ssd"),
            roomy(n_pods, self.n_nodes).max(roomy(self.n_of(Shape::NodeAffinity), counts.ssd)),
        );
        cluster.add_hollow_nodes(counts.ssd, &ssd)?;
        let dedicated = sized(
            NodeTemplate::default()
                .name_prefix("batch-")
                .taint(DEDICATED, "batch", "NoSchedule")
                .label(DEDICATED, "batch"),
            roomy(self.n_of(Shape::Tolerating), counts.dedicated),
        );
        cluster.add_hollow_nodes(counts.dedicated, &dedicated)?;
        let n_gpu_pods = self.n_of(Shape::Gpu);
        let gpu = sized(
            NodeTemplate::default().name_prefix("gpu-").taint(GPU, "present", "NoSchedule"),
            roomy(n_gpu_pods, counts.gpu),
        )
        .capacity(GPU, &n_gpu_pods.div_ceil(counts.gpu).max(8).to_string());
        cluster.add_hollow_nodes(counts.gpu, &gpu)?;

        cluster.create(json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": PRIORITY_CLASS}, "value": 1_000_000, "description": "Goes first.",
        }))?;
        self.place_images(cluster)
    }

    /// Puts the large image on every tenth plain node.
    fn place_images(&self, cluster: &DevCluster) -> Result<(), StatusError> {
        let nodes = cluster.list(NODES, &kube_scheduler_devcluster::Selection::all()).items;
        for node in nodes.iter().filter(|node| node.name().starts_with("plain-")).step_by(10) {
            cluster.edit(NODES, "", node.name(), |node| {
                node["status"]["images"] =
                    json!([{"names": [LARGE_IMAGE], "sizeBytes": 900_000_000}]);
            })?;
        }
        Ok(())
    }

    /// The pods in the order in which they are created.
    pub(super) fn pods(&self) -> impl Iterator<Item = Value> + '_ {
        let mut random = self.random.clone();
        let mut n_ports = 0;
        let mut n_of_shape: BTreeMap<Shape, usize> = BTreeMap::new();
        self.shapes.iter().enumerate().map(move |(number, shape)| {
            let mut pod = pod(number, *shape, &mut random, &mut n_ports);
            if gangs::is_gang(*shape) {
                let n = n_of_shape.entry(*shape).or_default();
                gangs::complete(&mut pod["spec"], *shape, *n);
                *n += 1;
            }
            pod
        })
    }
}

const PORTS: [u16; 4] = [9100, 9256, 9400, 9500];

fn pod(number: usize, shape: Shape, random: &mut Random, n_ports: &mut usize) -> Value {
    let milli_cpu = 50 + 25 * random.below(15);
    let memory_mib = 64 + 32 * random.below(20);
    let name = format!("{}-{number:05}", shape.as_str());
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {SHAPE: shape.as_str()}},
        "spec": {"containers": [{
            "name": "main",
            "image": "registry.example.com/web:1",
            "resources": {"requests": {"cpu": format!("{milli_cpu}m"), "memory": format!("{memory_mib}Mi")}},
        }]},
    });
    let spec = &mut pod["spec"];
    match shape {
        Shape::Plain | Shape::Gang | Shape::ZoneGang | Shape::LargeGang => {}
        Shape::Important => spec["priorityClassName"] = PRIORITY_CLASS.into(),
        Shape::NodeAffinity => {
            spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": DISK, "operator": "In", "values": ["ssd"]}]}],
            }}});
        }
        Shape::PreferredZone => {
            let zone = format!("zone-{}", 1 + random.below(3));
            spec["affinity"] = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 50,
                "preference": {"matchExpressions": [
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
                ]},
            }]}});
        }
        Shape::Tolerating => {
            spec["nodeSelector"] = json!({DEDICATED: "batch"});
            spec["tolerations"] = json!([{"key": DEDICATED, "operator": "Equal", "value": "batch", "effect": "NoSchedule"}]);
        }
        Shape::HostPort => {
            let port = PORTS[*n_ports % PORTS.len()];
            *n_ports += 1;
            spec["containers"][0]["ports"] = json!([{"containerPort": port, "hostPort": port}]);
        }
        Shape::LargeImage => spec["containers"][0]["image"] = LARGE_IMAGE.into(),
        Shape::Gpu => {
            let resources = &mut spec["containers"][0]["resources"];
            resources["requests"][GPU] = "1".into();
            resources["limits"] = json!({GPU: "1"});
            spec["tolerations"] =
                json!([{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]);
        }
        Shape::OneGpu
        | Shape::GpuPair
        | Shape::LargeGpu
        | Shape::HalfGpu
        | Shape::Fabric
        | Shape::TooManyGpus => spec["resourceClaims"] = devices::claims(shape),
        Shape::Gated => spec["schedulingGates"] = json!([{"name": GATE}]),
    }
    pod
}

/// Numbers from the seed, the same on every machine.
#[derive(Clone, Debug)]
struct Random(Numbers);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        let scaled = (u128::from(self.0.next_u64()) * bound as u128) >> 64;
        // Below `bound`, so it fits.
        usize::try_from(scaled).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_everything() {
        let pods = |seed| Workload::new(10, 200, seed, Theme::Usual).pods().collect::<Vec<_>>();
        assert_eq!(pods(1), pods(1));
        assert_ne!(pods(1), pods(2));
        assert_eq!(pods(1).len(), 200);
    }

    #[test]
    fn every_shape_is_there() {
        let workload = Workload::new(100, 1000, 0, Theme::Usual);
        for (shape, share) in Shape::SHARES {
            assert_eq!(workload.n_of(shape), share * 10, "{shape:?}");
        }
        let few_nodes = Workload::new(1, 1000, 0, Theme::Usual);
        assert_eq!(few_nodes.n_of(Shape::HostPort), 2);
    }
}
