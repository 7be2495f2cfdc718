//! Random histories of a small cluster, run through the engine: everything that happens is a function of a seed.
//!
//! What comes back is the decision log: one line per turn and per effect, in order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use kube_scheduler_api_types::{Node, Pod, Timestamp};
use kube_scheduler_config::{FeatureGates, load};
use kube_scheduler_engine::{Effect, Engine, EngineOptions, Input, Token};
use serde_json::{Value, json};

/// A small generator of numbers (splitmix64): the same seed gives the same numbers for ever.
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// Numbers of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `n`, which must not be 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// One history under way.
#[derive(Debug)]
pub struct History {
    /// The engine it runs through.
    pub engine: Engine,
    seed: u64,
    numbers: Numbers,
    now: Timestamp,
    n_created: u64,
    revision: u64,
    pods: BTreeMap<String, Value>,
    bindings: Vec<(Token, String, String)>,
    log: Vec<String>,
}

/// How many kinds of pods a history has.
const N_SHAPES: u64 = 4;
/// How many node names there are; nodes come and go under them.
const MAX_NODES: u64 = 12;

impl History {
    /// An empty cluster. `percentage` is `percentageOfNodesToScore`.
    pub fn new(seed: u64, percentage: i32, options: EngineOptions) -> Result<Self> {
        let config = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": percentage,
        });
        let config = load(&config.to_string(), &FeatureGates::default())?;
        let missing_plugins =
            kube_scheduler_plugins_intree::NOT_YET.iter().map(|name| (*name).to_owned()).collect();
        let options = EngineOptions { missing_plugins, ..options };
        Ok(Self {
            engine: Engine::new(&config, &kube_scheduler_plugins_intree::registry(), options)?,
            seed,
            numbers: Numbers::new(seed),
            now: Timestamp::parse("2026-01-01T00:00:00Z").context("start time")?,
            n_created: 0,
            revision: 0,
            pods: BTreeMap::new(),
            bindings: Vec::new(),
            log: Vec::new(),
        })
    }

    /// Lets `n` random things happen and gives the decision log so far.
    pub fn run(&mut self, n: usize) -> Result<&[String]> {
        for _ in 0..n {
            self.step()?;
        }
        Ok(&self.log)
    }

    fn step(&mut self) -> Result<()> {
        self.now = self.now + Duration::from_millis(self.numbers.below(400));
        match self.numbers.below(16) {
            0 => self.apply_node()?,
            1 if self.numbers.one_in(4) => {
                let name = self.node_name();
                self.engine.handle(Input::NodeDeleted { name: name.into() }, self.now);
            }
            2..=5 => self.create_pod()?,
            6 => self.change_pod()?,
            7 => self.delete_pod(),
            8..=10 => self.finish_binding()?,
            11 => {
                self.now = self.now + Duration::from_secs(self.numbers.below(40));
                self.engine.handle(Input::TimePassed, self.now);
            }
            _ => {
                if let Some(turn) = self.engine.schedule_next(self.now) {
                    self.log.push(format!("{turn:?}"));
                }
            }
        }
        self.take_effects();
        Ok(())
    }

    fn node_name(&mut self) -> String {
        format!("node-{}", self.numbers.below(MAX_NODES))
    }

    fn apply_node(&mut self) -> Result<()> {
        let name = self.node_name();
        self.revision += 1;
        let zone = format!("zone-{}", self.numbers.below(3));
        let disk = if self.numbers.one_in(2) { "ssd" } else { "hdd" };
        let mut taints = Vec::new();
        if self.numbers.one_in(3) {
            let effect =
                ["NoSchedule", "PreferNoSchedule", "NoExecute"][self.numbers.below(3) as usize];
            taints.push(json!({"key": "dedicated", "value": "batch", "effect": effect}));
        }
        let mut images = Vec::new();
        if self.numbers.one_in(2) {
            let size = 50_000_000 + self.numbers.below(900_000_000);
            images.push(json!({"names": ["registry.example/app:v1"], "sizeBytes": size}));
        }
        let cpu = 1 + self.numbers.below(4);
        let resources = json!({"cpu": cpu.to_string(), "memory": "4Gi", "pods": "6", "example.com/gpu": self.numbers.below(3).to_string()});
        let node = json!({
            "metadata": {
                "name": name, "uid": format!("{name}-uid"), "resourceVersion": self.revision.to_string(),
                "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "disk": disk},
            },
            "spec": {"unschedulable": self.numbers.one_in(8), "taints": taints},
            "status": {"allocatable": resources, "images": images},
        });
        self.engine.handle(Input::NodeApplied(Arc::new(Node::from_value(&node)?)), self.now);
        Ok(())
    }

    fn create_pod(&mut self) -> Result<()> {
        self.n_created += 1;
        // Names come back, so that pods are re-created under the name of one that may still be on its way.
        let name = format!("pod-{}", self.numbers.below(40));
        if self.pods.contains_key(&name) {
            return Ok(());
        }
        // A few shapes per history: pods of one shape share evaluations, which is what histories are to try.
        let mut shape = Numbers::new(
            self.seed.wrapping_mul(N_SHAPES).wrapping_add(self.numbers.below(N_SHAPES)),
        );
        let mut spec = json!({
            "schedulerName": "default-scheduler",
            "priority": 10 * shape.below(3),
            "containers": [{
                "name": "main",
                "image": if shape.one_in(2) { "registry.example/app:v1" } else { "registry.example/other" },
                "resources": {"requests": {"cpu": format!("{}m", 250 * (1 + shape.below(4))), "memory": "256Mi"}},
            }],
        });
        if shape.one_in(4) {
            spec["containers"][0]["ports"] = json!([{"hostPort": 8000 + shape.below(2)}]);
        }
        if shape.one_in(4) {
            spec["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1".into();
        }
        if shape.one_in(3) {
            spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
        }
        if shape.one_in(4) {
            spec["nodeSelector"] = json!({"disk": "ssd"});
        }
        if shape.one_in(3) {
            let zone = format!("zone-{}", shape.below(3));
            spec["affinity"] = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 1 + shape.below(100),
                "preference": {"matchExpressions": [{
                    "key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone],
                }]},
            }]}});
        }
        if shape.one_in(8) {
            spec["schedulingGates"] = json!([{"name": "example.com/hold"}]);
        }
        let pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{}", self.n_created)},
            "spec": spec,
            "status": {"phase": "Pending"},
        });
        self.pods.insert(name.clone(), pod);
        self.send(&name)
    }

    /// Sends the pod as the API server would: with a new revision.
    fn send(&mut self, name: &str) -> Result<()> {
        self.revision += 1;
        let Some(pod) = self.pods.get_mut(name) else { return Ok(()) };
        pod["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let pod = Pod::from_value(pod)?;
        self.engine.handle(Input::PodApplied(Arc::new(pod)), self.now);
        Ok(())
    }

    fn any_pod(&mut self) -> Option<String> {
        let n = u64::try_from(self.pods.len()).ok().filter(|n| *n > 0)?;
        let at = usize::try_from(self.numbers.below(n)).ok()?;
        self.pods.keys().nth(at).cloned()
    }

    fn change_pod(&mut self) -> Result<()> {
        let Some(name) = self.any_pod() else { return Ok(()) };
        let label = self.numbers.below(3).to_string();
        let asks_deletion = self.numbers.one_in(10);
        if let Some(pod) = self.pods.get_mut(&name) {
            pod["metadata"]["labels"] = json!({"version": label});
            pod["spec"]["schedulingGates"] = json!([]);
            if asks_deletion {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
        }
        self.send(&name)
    }

    fn delete_pod(&mut self) {
        let Some(name) = self.any_pod() else { return };
        self.forget(&name);
    }

    fn forget(&mut self, name: &str) {
        if self.pods.remove(name).is_some() {
            let input = Input::PodDeleted { namespace: "default".into(), name: name.into() };
            self.engine.handle(input, self.now);
        }
    }

    /// Answers one outstanding binding, out of order at times, with success most of the time.
    fn finish_binding(&mut self) -> Result<()> {
        let Some(n) = u64::try_from(self.bindings.len()).ok().filter(|n| *n > 0) else {
            return Ok(());
        };
        let at = usize::try_from(self.numbers.below(n))?;
        let (token, uid, node) = self.bindings.swap_remove(at);
        let name = self
            .pods
            .iter()
            .find(|(_, pod)| pod["metadata"]["uid"] == *uid)
            .map(|(name, _)| name.clone());
        let Some(name) = name.filter(|_| !self.numbers.one_in(5)) else {
            let result = Err("pods \"x\" not found".to_owned());
            self.engine.handle(Input::BindingWritten { token, result }, self.now);
            return Ok(());
        };
        if let Some(pod) = self.pods.get_mut(&name) {
            pod["spec"]["nodeName"] = node.into();
        }
        // The watch may be faster than the answer.
        if self.numbers.one_in(2) {
            self.send(&name)?;
            self.engine.handle(Input::BindingWritten { token, result: Ok(()) }, self.now);
            return Ok(());
        }
        self.engine.handle(Input::BindingWritten { token, result: Ok(()) }, self.now);
        self.send(&name)
    }

    fn take_effects(&mut self) {
        let effects: Vec<Effect> = self.engine.drain_effects().collect();
        for effect in effects {
            self.log.push(effect.to_string());
            match effect {
                Effect::WriteBinding { token, pod, node } => {
                    self.bindings.push((token, pod.uid.to_string(), node.to_string()));
                }
                Effect::DeletePod { pod } => self.forget(&pod.name),
                _ => {}
            }
        }
    }
}
