//! Volumes of a crowd: classes, volumes and claims that are made with pods and go with them, and how many a node can take.
//!
//! The controllers of volumes do at once what follows from what a scheduler writes, as answers take them to.

use anyhow::Result;
use kube_scheduler_engine::Input;
use serde_json::{Value, json};

use super::kinds::{self, HOSTNAME, NAMESPACES, ZONE};
use crate::history::{ApiServer, Numbers};

const STORAGE: &str = "storage.k8s.io/v1";
const CLAIM: &str = "PersistentVolumeClaim";
const VOLUME: &str = "PersistentVolume";
const DRIVER: &str = "csi.example.com";
const SHARED: &str = "shared";

/// The volumes of a crowd and who draws them.
#[derive(Debug)]
pub(super) struct Volumes {
    numbers: Numbers,
    are_there: bool,
}

impl Volumes {
    pub(super) fn new(seed: u64) -> Self {
        let mut numbers = Numbers::new(seed ^ 0x70_1e5e);
        let are_there = numbers.one_in(3);
        Self { numbers, are_there }
    }

    /// What happens to volumes by itself: classes come back, drivers register on nodes, local volumes appear, and what was made for
    /// pods that are gone goes.
    pub(super) fn step(&mut self, server: &mut ApiServer, n_nodes: u64) -> Result<Vec<Input>> {
        if !self.are_there {
            return Ok(Vec::new());
        }
        let mut inputs = remove_orphans(server)?;
        for class in ["local", "grown", "at-once"] {
            if server.object("StorageClass", "", class).is_none() {
                inputs.push(server.put_object(self.class(class))?);
            }
        }
        for namespace in NAMESPACES {
            if server.object(CLAIM, namespace, SHARED).is_none() && self.numbers.one_in(4) {
                let (volume, claim) = self.bound(namespace, SHARED);
                inputs.push(server.put_object(volume)?);
                inputs.push(server.put_object(claim)?);
            }
        }
        match self.numbers.below(6) {
            0 => inputs.push(server.put_object(self.csi_node(n_nodes))?),
            1 | 2 => {
                let volume = self.local_volume(n_nodes);
                let name = volume["metadata"]["name"].as_str().unwrap_or_default();
                if server.object(VOLUME, "", name).is_none() {
                    inputs.push(server.put_object(volume)?);
                }
            }
            _ => {}
        }
        Ok(inputs)
    }

    fn class(&mut self, name: &str) -> Value {
        let (provisioner, mode) = match name {
            "local" => ("kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
            "grown" => (DRIVER, "WaitForFirstConsumer"),
            _ => (DRIVER, "Immediate"),
        };
        let mut class = json!({"apiVersion": STORAGE, "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": provisioner, "volumeBindingMode": mode});
        if name == "grown" && self.numbers.one_in(2) {
            class["allowedTopologies"] = json!([{"matchLabelExpressions": [
                {"key": ZONE, "values": ["zone-0", "zone-1"]},
            ]}]);
        }
        class
    }

    fn csi_node(&mut self, n_nodes: u64) -> Value {
        let name = kinds::node_name(self.numbers.below(n_nodes));
        let keys = match self.numbers.below(3) {
            0 => json!([]),
            1 => json!([ZONE]),
            _ => json!([ZONE, HOSTNAME]),
        };
        json!({"apiVersion": STORAGE, "kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": [{
            "name": DRIVER, "nodeID": name, "topologyKeys": keys, "allocatable": {"count": 1 + self.numbers.below(4)},
        }]}})
    }

    /// A volume on one node or in one zone, for whichever claim it suits.
    fn local_volume(&mut self, n_nodes: u64) -> Value {
        let name = format!("local-{}", self.numbers.below(12));
        let (key, value) = match self.numbers.one_in(3) {
            true => (HOSTNAME, kinds::node_name(self.numbers.below(n_nodes))),
            false => (ZONE, format!("zone-{}", self.numbers.below(3))),
        };
        let mut volume = volume(&name, "local", (key, &value));
        volume["spec"]["capacity"]["storage"] = format!("{}Gi", 1 + self.numbers.below(4)).into();
        volume["status"] = json!({"phase": "Available"});
        volume
    }

    /// A claim and the volume that it is bound to.
    fn bound(&mut self, namespace: &str, name: &str) -> (Value, Value) {
        let zone = format!("zone-{}", self.numbers.below(3));
        let class = self.numbers.pick(&["local", "at-once"]);
        let volume_name = format!("of-{namespace}-{name}");
        let mut volume = volume(&volume_name, class, (ZONE, &zone));
        let mut claim = claim(namespace, name, class);
        volume["spec"]["claimRef"] = json!({
            "kind": CLAIM, "namespace": namespace, "name": name, "uid": claim["metadata"]["uid"],
        });
        volume["status"] = json!({"phase": "Bound"});
        if self.numbers.one_in(2) {
            volume["metadata"]["labels"] = json!({ZONE: zone});
        }
        if self.numbers.one_in(4) {
            claim["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
        }
        claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
        claim["spec"]["volumeName"] = volume_name.into();
        claim["status"]["phase"] = "Bound".into();
        (volume, claim)
    }

    /// Has some pods want volumes: what is made for this one.
    pub(super) fn give_wish(&mut self, pod: &mut Value) -> Vec<Value> {
        if !self.are_there || self.numbers.one_in(3) {
            return Vec::new();
        }
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, mut name) = (text("namespace"), text("name"));
        let made = match self.numbers.below(10) {
            0..=2 => {
                let (volume, claim) = self.bound(&namespace, &name);
                vec![volume, claim]
            }
            3..=5 => vec![claim(&namespace, &name, "local")],
            6 | 7 => vec![claim(&namespace, &name, "grown")],
            // Its controller has not done anything yet.
            8 if self.numbers.one_in(2) => vec![claim(&namespace, &name, "at-once")],
            // It may be missing.
            _ => {
                name = SHARED.to_owned();
                Vec::new()
            }
        };
        pod["spec"]["volumes"] =
            json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
        made
    }
}

/// Whether controllers of volumes react to a write of an object of this kind.
pub(super) fn are_controlled(kind: &str) -> bool {
    [CLAIM, VOLUME].contains(&kind)
}

/// What controllers do then, all at once.
pub(super) fn control(server: &mut ApiServer) -> Result<Vec<Input>> {
    let mut inputs = Vec::new();
    loop {
        let done = server.control_volumes(topology)?;
        if done.is_empty() {
            return Ok(inputs);
        }
        inputs.extend(done);
    }
}

/// The labels of a node that its CSINode says the driver's topology is about.
fn topology(server: &ApiServer, node: &str) -> Vec<(String, String)> {
    let csi_node = server.object("CSINode", "", node);
    let drivers = csi_node.and_then(|csi_node| csi_node["spec"]["drivers"].as_array());
    let driver = drivers.into_iter().flatten().find(|driver| driver["name"] == DRIVER);
    let keys = driver.and_then(|driver| driver["topologyKeys"].as_array()).into_iter().flatten();
    let labels = server.node(node).map(|node| &node["metadata"]["labels"]);
    let label = |key: &Value| {
        let key = key.as_str()?;
        Some((key.to_owned(), labels?[key].as_str()?.to_owned()))
    };
    keys.filter_map(label).collect()
}

/// Claims go with the pods that they are named after, and volumes with the claims that they were bound to.
fn remove_orphans(server: &mut ApiServer) -> Result<Vec<Input>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let key = |of: &Value| (text(&of["namespace"]), text(&of["name"]));
    let claims = server.objects_of(CLAIM).filter(|claim| {
        let key = key(&claim["metadata"]);
        key.1 != SHARED && !server.pods.contains_key(&key)
    });
    let mut orphans: Vec<Value> = claims.cloned().collect();
    let gone: Vec<_> = orphans.iter().map(|claim| key(&claim["metadata"])).collect();
    let volumes = server.objects_of(VOLUME).filter(|volume| {
        let of = &volume["spec"]["claimRef"];
        let (namespace, name) = key(of);
        !of.is_null()
            && (server.object(CLAIM, &namespace, &name).is_none()
                || gone.contains(&(namespace, name)))
    });
    orphans.extend(volumes.cloned().collect::<Vec<_>>());
    let gone = orphans.iter().map(|orphan| server.delete_object(orphan));
    Ok(gone.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

fn claim(namespace: &str, name: &str, class: &str) -> Value {
    json!({"apiVersion": "v1", "kind": CLAIM,
        "metadata": {"namespace": namespace, "name": name, "uid": format!("{namespace}-{name}")},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "2Gi"}},
        },
        "status": {"phase": "Pending"}})
}

fn volume(name: &str, class: &str, (key, value): (&str, &str)) -> Value {
    json!({"apiVersion": "v1", "kind": VOLUME, "metadata": {"name": name, "uid": name},
    "spec": {
        "capacity": {"storage": "3Gi"},
        "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
        "storageClassName": class,
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{
            "matchExpressions": [{"key": key, "operator": "In", "values": [value]}],
        }]}},
    }})
}
