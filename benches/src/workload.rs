//! One workload: the cluster that is there before, and the pods that are measured.
//!
//! Invariant: the same workload on the same number of nodes gives the same objects in the same order.

use std::sync::Arc;

use anyhow::{Context, Result};
use kube_scheduler_api_types::{Node, Object, Pod};
use serde_json::{Value, json};

use crate::devices::{self, Devices};
use crate::different;
use crate::template::{TEAM, Template, uid};

/// A benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The name, as the reference's benchmark has it.
    pub name: &'static str,
    /// The question it answers.
    pub question: &'static str,
    /// What its nodes look like.
    pub nodes: NodeShape,
    /// What is placed first, unmeasured, group by group.
    pub init: &'static [Group],
    /// What is measured.
    pub measured: Group,
    /// How many of the measured pods must be placed.
    pub outcome: Outcome,
    /// Whether PostFilter runs. It does not in the reference's figures, but where pods are evicted.
    pub preempts: bool,
    /// What changes meanwhile.
    pub churn: ChurnKind,
    /// What it must reach with 5,000 nodes, in pods per second.
    pub goal: Option<f64>,
    /// What the reference reached with 5,000 nodes, scoring a tenth of them, in pods per second.
    pub reference: Option<f64>,
}

/// What changes while pods are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChurnKind {
    /// Nothing.
    Nothing,
    /// A node, a pod that fits nowhere and a service come and go.
    Cluster,
    /// Drivers publish the devices of one node after the other again.
    Slices,
}

/// What nodes look like. All have 4 CPU, 32 GiB, room for 110 pods and a host name, unless the workload varies them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeShape {
    /// Nothing else.
    Plain,
    /// All in `zone1`.
    OneZone,
    /// In three zones in turn.
    ThreeZones,
    /// With a CSI driver that attaches up to 39 volumes.
    WithVolumes,
    /// No two alike.
    Different,
    /// In racks of a hundred.
    Racks,
    /// With these devices.
    WithDevices(Devices),
}

/// Pods of one template.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// What they look like.
    pub template: Template,
    /// Where they live.
    pub namespaces: Namespaces,
    /// How many.
    pub n: usize,
    /// Whether each has a bound claim of its own.
    pub has_volume: bool,
    /// The gangs that they form, if they do.
    pub gangs: Option<Gangs>,
}

/// How pods form gangs, each of which is placed as a whole or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gangs {
    /// How many pods one has; the last one may have fewer.
    pub size: usize,
    /// Whether each must stay within one rack.
    pub in_one_rack: bool,
    /// The priority of the groups; that of the pods is the template's.
    pub priority: i32,
    /// Whether members have the label that an indexed Job gives each of its pods.
    pub is_indexed: bool,
    /// Whether all pods of one are evicted if any is.
    pub goes_as_a_whole: bool,
}

/// The label with a node's rack.
const RACK: &str = "example.com/rack";
const NODES_PER_RACK: usize = 100;

/// The label with the number of a pod of an indexed Job.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Namespaces of a group.
#[derive(Clone, Copy, Debug)]
pub enum Namespaces {
    /// This one.
    One(&'static str),
    /// This number of namespaces with this prefix, labelled `team: devops`, in turn.
    Labelled(&'static str, usize),
}

/// How many of the measured pods must be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every one.
    All,
    /// Not one.
    None,
    /// Nine in ten at least.
    Most,
}

impl Outcome {
    /// Whether this many of that many are enough.
    pub const fn allows(self, n_bound: usize, n_measured: usize) -> bool {
        match self {
            Self::All => n_bound == n_measured,
            Self::None => n_bound == 0,
            Self::Most => n_bound * 10 >= n_measured * 9,
        }
    }
}

/// A pod and what must exist for its sake.
#[derive(Debug)]
pub struct NewPod {
    /// Its volume and claims.
    pub objects: Vec<Arc<Object>>,
    /// The pod as JSON.
    pub json: Value,
}

impl NewPod {
    /// The pod, decoded.
    pub fn pod(&self) -> Result<Arc<Pod>> {
        Pod::from_value(&self.json).map(Arc::new).context("pod")
    }
}

impl Workload {
    /// Whether its pods form gangs.
    pub(crate) fn has_gangs(&self) -> bool {
        self.init.iter().chain([&self.measured]).any(|group| group.gangs.is_some())
    }

    /// The nodes, and the objects that belong to them.
    pub fn nodes(&self, n: usize) -> impl Iterator<Item = Result<(Arc<Node>, Vec<Arc<Object>>)>> {
        let shape = self.nodes;
        (0..n).map(move |at| {
            let node = Node::from_value(&shape.node(at)).map(Arc::new).context("node")?;
            Ok((node, shape.objects(at)?))
        })
    }

    /// The namespaces of all pods, and what else belongs to no node and no pod.
    pub fn namespaces(&self) -> Result<Vec<Arc<Object>>> {
        let mut all = Vec::new();
        for group in self.init.iter().chain([&self.measured]) {
            let (names, labels) = match group.namespaces {
                Namespaces::One(name) => (vec![name.to_owned()], json!({})),
                Namespaces::Labelled(prefix, n) => {
                    ((0..n).map(|at| format!("{prefix}-{at}")).collect(), json!({TEAM.0: TEAM.1}))
                }
            };
            for name in names {
                all.push(object(json!({
                    "apiVersion": "v1", "kind": "Namespace",
                    "metadata": {"name": name, "uid": uid(&name), "resourceVersion": "1", "labels": labels},
                }))?);
            }
        }
        if matches!(self.nodes, NodeShape::WithDevices(_)) {
            all.push(devices::class()?);
        }
        Ok(all)
    }

    /// The pods that are placed first: of those that `n_nodes` nodes have room for, or `factor` times as many, which must have room.
    pub fn init_pods(&self, n_nodes: usize, factor: usize) -> impl Iterator<Item = Result<NewPod>> {
        let share = self.share(n_nodes);
        self.init.iter().enumerate().flat_map(move |(number, group)| {
            let n = share.of(group.n) * factor;
            (0..n).map(move |at| group.pod(&format!("init-{number}"), at, n))
        })
    }

    /// The pods that are measured.
    pub fn measured_pods(&self, n_nodes: usize) -> impl Iterator<Item = Result<NewPod>> {
        let n = self.n_measured(n_nodes);
        (0..n).map(move |at| self.measured.pod("measured", at, n))
    }

    /// How many pods are placed first.
    pub fn n_init(&self, n_nodes: usize) -> usize {
        let share = self.share(n_nodes);
        self.init.iter().map(|group| share.of(group.n)).sum()
    }

    /// How many pods are measured.
    pub fn n_measured(&self, n_nodes: usize) -> usize {
        self.share(n_nodes).of(self.measured.n)
    }

    /// All pods where there is room for them, else as many of each group as there is room for.
    fn share(&self, n_nodes: usize) -> Share {
        let total =
            |groups: &mut dyn Iterator<Item = &Group>| -> usize { groups.map(|g| g.n).sum() };
        let all = || self.init.iter().chain([&self.measured]);
        let exclusive = total(&mut all().filter(|group| group.template.is_exclusive()));
        let rooms = if self.measured.template == Template::High {
            // Of the pods that run, four fill a node; those that are measured evict some of them.
            [(n_nodes * 4, total(&mut self.init.iter())), (1, 1)]
        } else {
            // There are devices for four pods on each node.
            let is_claiming = matches!(self.nodes, NodeShape::WithDevices(_));
            let n_per_node = if is_claiming { 4 } else { 20 };
            [(n_nodes, exclusive), (n_nodes * n_per_node, total(&mut all()))]
        };
        let (room, wanted) = rooms
            .into_iter()
            .filter(|(room, wanted)| room < wanted)
            .min_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)))
            .unwrap_or((1, 1));
        Share { room, wanted }
    }
}

/// A part of the whole.
#[derive(Clone, Copy)]
struct Share {
    room: usize,
    wanted: usize,
}

impl Share {
    const fn of(self, n: usize) -> usize {
        let part = n * self.room / self.wanted;
        if part == 0 && n > 0 { 1 } else { part }
    }
}

impl Group {
    /// Pod number `at` of `n`.
    pub(crate) fn pod(&self, prefix: &str, at: usize, n: usize) -> Result<NewPod> {
        let namespace = match self.namespaces {
            Namespaces::One(name) => name.to_owned(),
            Namespaces::Labelled(prefix, n) => format!("{prefix}-{}", at % n),
        };
        let name = format!("{prefix}-{at}");
        let mut json = self.template.pod(&namespace, &name, at);
        let mut objects = Vec::new();
        if self.has_volume {
            let claim = format!("pvc-{name}");
            json["spec"]["volumes"] =
                json!([{"name": "vol", "persistentVolumeClaim": {"claimName": claim}}]);
            objects = bound_volume(&namespace, &claim)?;
        }
        if let Some(gangs) = self.gangs {
            let group = format!("{prefix}-gang-{}", at / gangs.size);
            json["spec"]["schedulingGroup"] = json!({"podGroupName": group});
            if gangs.is_indexed {
                json["metadata"]["labels"][INDEX] = (at % gangs.size).to_string().into();
            }
            if at.is_multiple_of(gangs.size) {
                objects.push(gangs.group(&namespace, &group, gangs.size.min(n - at))?);
            }
        }
        if let Template::Claiming(wish) = self.template {
            objects.extend(wish.add_to(&mut json)?);
        }
        Ok(NewPod { objects, json })
    }
}

impl Gangs {
    fn group(self, namespace: &str, name: &str, min_count: usize) -> Result<Arc<Object>> {
        let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": min_count}}});
        if self.priority != 0 {
            spec["priority"] = self.priority.into();
        }
        if self.in_one_rack {
            spec["schedulingConstraints"] = json!({"topology": [{"key": RACK}]});
        }
        if self.goes_as_a_whole {
            spec["disruptionMode"] = "PodGroup".into();
        }
        object(json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {
                "name": name, "namespace": namespace, "uid": uid(name), "resourceVersion": "1",
                "generation": 1,
            },
            "spec": spec,
        }))
    }
}

/// A volume of the EBS driver and the claim that it is bound to.
fn bound_volume(namespace: &str, claim: &str) -> Result<Vec<Arc<Object>>> {
    let volume = format!("{namespace}-{claim}");
    Ok(vec![
        object(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": claim, "namespace": namespace, "uid": uid(claim), "resourceVersion": "1",
                "annotations": {"pv.kubernetes.io/bind-completed": "true"},
            },
            "spec": {
                "accessModes": ["ReadOnlyMany"],
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeName": volume,
            },
            "status": {"phase": "Bound"},
        }))?,
        object(json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": volume, "uid": uid(&volume), "resourceVersion": "1"},
            "spec": {
                "accessModes": ["ReadOnlyMany"],
                "capacity": {"storage": "1Gi"},
                "csi": {"driver": EBS, "volumeHandle": volume},
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim,
                    "uid": uid(claim),
                },
            },
            "status": {"phase": "Bound"},
        }))?,
    ])
}

const EBS: &str = "ebs.csi.aws.com";

impl NodeShape {
    /// Node number `at`.
    pub(crate) fn node(self, at: usize) -> Value {
        let name = node_name(at);
        let resources = json!({"cpu": "4", "memory": "32Gi", "pods": "110"});
        let mut node = match self {
            Self::Different => different::node(at),
            _ => json!({"metadata": {"labels": {}}, "status": {"allocatable": resources}}),
        };
        let metadata = &mut node["metadata"];
        metadata["labels"]["kubernetes.io/hostname"] = name.as_str().into();
        let zone = match self {
            Self::OneZone => Some("zone1"),
            Self::ThreeZones => Some(["moon-1", "moon-2", "moon-3"][at % 3]),
            _ => None,
        };
        if let Some(zone) = zone {
            metadata["labels"]["topology.kubernetes.io/zone"] = zone.into();
        }
        if self == Self::Racks {
            metadata["labels"][RACK] = format!("rack-{}", at / NODES_PER_RACK).into();
        }
        metadata["uid"] = uid(&name).into();
        metadata["name"] = name.into();
        metadata["resourceVersion"] = "1".into();
        if self == Self::WithVolumes {
            node["status"]["allocatable"]["attachable-volumes-csi-ebs.csi.aws.com"] = "39".into();
        }
        node["status"]["capacity"] = node["status"]["allocatable"].clone();
        node["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        node
    }

    /// What belongs to node number `at`.
    fn objects(self, at: usize) -> Result<Vec<Arc<Object>>> {
        let name = node_name(at);
        match self {
            Self::WithDevices(devices) => devices.slices(at, 1),
            Self::WithVolumes => Ok(vec![object(json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
                "metadata": {"name": name, "uid": uid(&name), "resourceVersion": "1"},
                "spec": {"drivers": [{"name": EBS, "nodeID": name, "allocatable": {"count": 39}}]},
            }))?]),
            _ => Ok(Vec::new()),
        }
    }
}

/// The name of node number `at`.
pub(crate) fn node_name(at: usize) -> String {
    format!("node-{at:06}")
}

pub(crate) fn object(json: Value) -> Result<Arc<Object>> {
    Object::from_value(json).map(Arc::new).context("object")
}
