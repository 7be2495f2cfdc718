//! What others do to the cluster: users, controllers, kubelets, other schedulers.

use std::collections::BTreeSet;

use anyhow::Result;
use serde_json::{Value, json};

use super::Fault;
use super::server::{KINDS as KINDS_OF_SERVER, Key, N_PLAIN_KINDS};
use super::setup::{CHAOTIC, FOREIGN, LATE, PLAIN};
use super::simulation::Simulation;
use crate::history::{Numbers, shapes};
use crate::tenants::{KINDS, Share, worst_object};

/// How many node names there are; nodes come and go under them.
const MAX_NODES: u64 = 8;
/// How many kinds of pods a simulation has.
const N_SHAPES: u64 = 4;
/// How many names of pods there are in each namespace.
const MAX_PODS: u64 = 14;
/// One in how many pods is the worst that a tenant can write, and how much of it.
const EVIL_ONE_IN: u64 = 12;
const EVIL_SHARE: Share = Share(100);

impl Simulation {
    /// The cluster at the beginning: nodes and the objects around them.
    pub(super) fn populate(&mut self) -> Result<()> {
        for namespace in shapes::NAMESPACES {
            let tier = self.numbers.pick(&["gold", "iron"]);
            let labels = json!({"tier": tier});
            self.server.update(
                "Namespace",
                json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": namespace, "uid": namespace, "labels": labels}}),
            )?;
        }
        for _ in 0..2 + self.numbers.below(5) {
            self.put_node()?;
        }
        for _ in 0..12 {
            self.put_object()?;
        }
        self.populate_devices()?;
        for _ in 0..self.numbers.below(8) {
            self.create_pod()?;
        }
        Ok(())
    }

    /// One thing that users, controllers or kubelets do.
    pub(super) fn disturb(&mut self) -> Result<()> {
        match self.numbers.below(24) {
            0..=5 => self.create_pod(),
            6 => self.change_pod(),
            7 | 8 => self.delete_any_pod(),
            9 => self.finish_pod(),
            10..=12 => self.let_go(),
            13 if self.suffers(Fault::Foreign) => self.bind_elsewhere(),
            14 if self.suffers(Fault::Nodes) => self.put_node(),
            15 if self.suffers(Fault::Nodes) => self.change_node(),
            16 if self.suffers(Fault::Nodes) && self.numbers.one_in(3) => self.delete_node(),
            17 | 18 => self.put_object(),
            19 if self.numbers.one_in(3) => self.delete_object(),
            _ => self.control_volumes().map(drop),
        }
    }

    pub(super) fn put_node(&mut self) -> Result<()> {
        let name = format!("node-{}", self.numbers.below(MAX_NODES));
        let mut node = shapes::node(&name, &mut self.numbers);
        self.add_device_plugin(&mut node);
        let is_there = self.server.get("Node", &(String::new(), name.clone())).is_some();
        if is_there && self.suffers(Fault::Recreation) && self.numbers.one_in(3) {
            self.n_created += 1;
            node["metadata"]["uid"] = format!("{name}-{}", self.n_created).into();
            self.server.delete("Node", &(String::new(), name));
            return self.server.put("Node", node).map(drop);
        }
        self.server.update("Node", node).map(drop)
    }

    /// Cordons, taints, resizes or relabels a node.
    fn change_node(&mut self) -> Result<()> {
        let Some(key) = self.any("Node") else { return Ok(()) };
        let fresh = shapes::node(&key.1, &mut self.numbers);
        let what = self.numbers.below(5);
        self.server.change("Node", &key, |node| match what {
            0 => {
                let is_cordoned = node["spec"]["unschedulable"] == true;
                node["spec"]["unschedulable"] = (!is_cordoned).into();
            }
            1 => node["spec"]["taints"] = fresh["spec"]["taints"].clone(),
            2 => node["status"]["allocatable"] = fresh["status"]["allocatable"].clone(),
            3 => node["metadata"]["labels"] = fresh["metadata"]["labels"].clone(),
            _ => node["status"]["images"] = fresh["status"]["images"].clone(),
        })?;
        Ok(())
    }

    /// A node is lost. Its pods stay behind, for a while at least.
    fn delete_node(&mut self) -> Result<()> {
        let Some(key) = self.any("Node") else { return Ok(()) };
        self.server.delete("Node", &key);
        if self.numbers.one_in(2) {
            let lost: Vec<Key> = self.pods_where(|pod| pod["spec"]["nodeName"] == *key.1);
            for pod in lost {
                self.server.delete("Pod", &pod);
            }
        }
        Ok(())
    }

    fn create_pod(&mut self) -> Result<()> {
        let namespace = self.numbers.pick(&shapes::NAMESPACES).to_owned();
        let key = (namespace, format!("pod-{}", self.numbers.below(MAX_PODS)));
        if self.server.get("Pod", &key).is_some() {
            if !self.suffers(Fault::Recreation) || !self.numbers.one_in(3) {
                return Ok(());
            }
            // Another pod of the same name; the watch may merge both changes into one.
            self.server.delete("Pod", &key);
        }
        self.n_created += 1;
        let shape = self.numbers.below(N_SHAPES);
        let mut shape = Numbers::new(self.seed.wrapping_mul(N_SHAPES).wrapping_add(shape));
        let mut spec = shapes::pod_spec(&mut shape);
        let labels = shapes::pod_labels(&mut shape);
        spec["schedulerName"] = match self.numbers.below(12) {
            0..=3 => PLAIN,
            4..=6 => LATE,
            7..=10 => CHAOTIC,
            _ if self.suffers(Fault::Foreign) => FOREIGN,
            _ => PLAIN,
        }
        .into();
        if spec["schedulerName"] == FOREIGN && self.numbers.one_in(2) {
            let node = format!("node-{}", self.numbers.below(MAX_NODES));
            spec["nodeName"] = node.into();
        }
        let mut pod = json!({
            "metadata": {
                "name": key.1, "namespace": key.0, "uid": format!("uid-{}", self.n_created),
                "labels": labels, "creationTimestamp": self.now.floor_to_second().to_string(),
            },
            "spec": spec,
            "status": {"phase": "Pending"},
        });
        if self.numbers.one_in(4) && self.suffers(Fault::Foreign) {
            // Another program, such as an autoscaler, has nominated a node for it.
            let node = format!("node-{}", self.numbers.below(MAX_NODES));
            pod["status"]["nominatedNodeName"] = node.into();
        }
        if self.suffers(Fault::Tenants) {
            self.make_evil(&mut pod);
        }
        self.add_claims(&mut pod);
        self.server.put("Pod", pod).map(drop)
    }

    /// Makes some pods a small part of the worst that a tenant can write. Draws no number, so that nothing else changes when
    /// this fault is left out.
    fn make_evil(&self, pod: &mut Value) {
        let number = Numbers::nth(self.seed, self.n_created);
        if !number.is_multiple_of(EVIL_ONE_IN) {
            return;
        }
        let which = usize::try_from(number / EVIL_ONE_IN % 1000).unwrap_or(0);
        let mut evil = (KINDS[which % KINDS.len()].pod)(which % 4, EVIL_SHARE);
        if evil["spec"]["nodeName"].is_string() {
            if !self.suffers(Fault::Foreign) {
                return;
            }
            let node = format!("node-{}", number / 7 % MAX_NODES);
            evil["spec"]["nodeName"] = node.into();
            pod["spec"]["schedulerName"] = FOREIGN.into();
        }
        for kept in ["schedulerName", "containers", "priority"] {
            if evil["spec"][kept].is_null() {
                evil["spec"][kept] = pod["spec"][kept].take();
            }
        }
        pod["spec"] = evil["spec"].take();
        pod["metadata"]["labels"] = evil["metadata"]["labels"].take();
    }

    /// The same for another object. Claims keep what has become of them.
    pub(super) fn make_object_evil(&self, object: &mut Value, number: u64) {
        let number = Numbers::nth(self.seed ^ 0xe01, number);
        if !self.suffers(Fault::Tenants) || !number.is_multiple_of(EVIL_ONE_IN) {
            return;
        }
        let kind = object["kind"].as_str().unwrap_or_default();
        let which = usize::try_from(number / EVIL_ONE_IN % 4).unwrap_or(0);
        if let Some(spec) = worst_object(kind, which, EVIL_SHARE) {
            object["spec"] = spec;
        }
    }

    fn change_pod(&mut self) -> Result<()> {
        let Some(key) = self.any("Pod") else { return Ok(()) };
        let labels = shapes::pod_labels(&mut self.numbers);
        let what = self.numbers.below(4);
        self.server.change("Pod", &key, |pod| match what {
            0 => pod["metadata"]["labels"] = labels,
            1 => pod["status"]["phase"] = "Running".into(),
            2 if pod["spec"]["nodeName"].is_string() => {
                // Resized in place, down.
                pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100m".into();
            }
            _ => pod["spec"]["schedulingGates"] = json!([]),
        })?;
        Ok(())
    }

    fn delete_any_pod(&mut self) -> Result<()> {
        // Pods whose bindings wait are few, and changes to those matter most.
        let asleep: BTreeSet<_> = self.instances().flat_map(|it| it.sleepers.uids()).collect();
        let is_asleep =
            |pod: &Value| pod["metadata"]["uid"].as_str().is_some_and(|uid| asleep.contains(uid));
        let asleep = self.pods_where(is_asleep);
        let key = self.choose(&asleep).or_else(|| self.any("Pod"));
        let Some(key) = key else { return Ok(()) };
        let is_forced = !asleep.is_empty() || self.numbers.one_in(4);
        let now = self.now;
        // What lingers lingers.
        let _ = self.server.delete_pod(&key, None, is_forced, now)?;
        Ok(())
    }

    fn finish_pod(&mut self) -> Result<()> {
        let running = self.pods_where(|pod| pod["spec"]["nodeName"].is_string());
        let Some(key) = self.choose(&running) else { return Ok(()) };
        let phase = self.numbers.pick(&["Succeeded", "Failed"]).to_owned();
        self.server.change("Pod", &key, |pod| pod["status"]["phase"] = phase.into())?;
        Ok(())
    }

    /// A kubelet has stopped a pod that was to be deleted.
    pub(super) fn let_go(&mut self) -> Result<()> {
        let leaving = self.pods_where(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
        if let Some(key) = self.choose(&leaving) {
            self.server.delete("Pod", &key);
        }
        Ok(())
    }

    /// Another scheduler takes a pending pod, one of ours at times.
    fn bind_elsewhere(&mut self) -> Result<()> {
        let pending = self.pods_where(|pod| pod["spec"]["nodeName"].is_null());
        let (Some(key), Some(node)) = (self.choose(&pending), self.any("Node")) else {
            return Ok(());
        };
        let is_foreign =
            self.server.get("Pod", &key).is_some_and(|pod| pod["spec"]["schedulerName"] == FOREIGN);
        if is_foreign || self.numbers.one_in(3) {
            let uid = self.server.get("Pod", &key).map(|pod| pod["metadata"]["uid"].clone());
            let uid = uid.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
            let _ = self.server.bind(&key, &uid, &node.1)?;
        }
        Ok(())
    }

    fn put_object(&mut self) -> Result<()> {
        let mut object = shapes::object(&mut self.numbers);
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        if object["metadata"]["uid"].is_null() {
            self.n_created += 1;
            object["metadata"]["uid"] = format!("object-{}", self.n_created).into();
        }
        self.n_put += 1;
        self.make_object_evil(&mut object, self.n_put);
        let key = super::server::key_of(&object);
        if self.suffers(Fault::Recreation)
            && self.numbers.one_in(6)
            && self.server.delete(&kind, &key)
        {
            self.n_created += 1;
            object["metadata"]["uid"] = format!("object-{}", self.n_created).into();
        }
        self.server.update(&kind, object).map(drop)
    }

    fn delete_object(&mut self) -> Result<()> {
        let kind = self.numbers.pick(&KINDS_OF_SERVER[3..N_PLAIN_KINDS]).to_owned();
        if let Some(key) = self.any(&kind) {
            self.server.delete(&kind, &key);
        }
        Ok(())
    }

    /// One thing that the volume controllers do; false when there is nothing to be done.
    pub(super) fn control_volumes(&mut self) -> Result<bool> {
        let claims: Vec<Value> = self
            .server
            .all("PersistentVolumeClaim")
            .map(|(_, claim)| claim)
            .filter(|claim| claim["spec"]["volumeName"].is_null())
            .cloned()
            .collect();
        for mut claim in claims {
            let uid = claim["metadata"]["uid"].clone();
            let volume = self
                .server
                .all("PersistentVolume")
                .find(|(_, volume)| volume["spec"]["claimRef"]["uid"] == uid);
            let mut volume = match volume {
                Some((_, volume)) => volume.clone(),
                None => {
                    let annotations = &claim["metadata"]["annotations"];
                    let node = annotations["volume.kubernetes.io/selected-node"].as_str();
                    let Some(node) = node.filter(|node| !node.is_empty()) else { continue };
                    let name = format!("pv-of-{}", uid.as_str().unwrap_or_default());
                    let on_node = [(shapes::HOSTNAME.to_owned(), node.to_owned())];
                    shapes::provisioned(&name, &on_node, &claim)
                }
            };
            volume["status"]["phase"] = "Bound".into();
            claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes".into();
            claim["spec"]["volumeName"] = volume["metadata"]["name"].clone();
            claim["status"]["phase"] = "Bound".into();
            self.server.update("PersistentVolume", volume)?;
            self.server.update("PersistentVolumeClaim", claim)?;
            return Ok(true);
        }
        Ok(false)
    }

    fn pods_where(&self, holds: impl Fn(&Value) -> bool) -> Vec<Key> {
        let pods = self.server.all("Pod").filter(|(_, pod)| holds(pod));
        pods.map(|(key, _)| key.clone()).collect()
    }

    fn any(&mut self, kind: &str) -> Option<Key> {
        let keys: Vec<Key> = self.server.all(kind).map(|(key, _)| key.clone()).collect();
        self.choose(&keys)
    }

    fn choose(&mut self, keys: &[Key]) -> Option<Key> {
        let n = u64::try_from(keys.len()).ok().filter(|n| *n > 0)?;
        keys.get(usize::try_from(self.numbers.below(n)).ok()?).cloned()
    }
}
