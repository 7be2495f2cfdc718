//! A cluster of others, to which a tenant's objects come and from which they go.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube_scheduler_api_types::{Object, Pod, Timestamp};
use kube_scheduler_config::{Configuration, FeatureGates, Gate, decode, default};
use kube_scheduler_engine::{
    AttemptResult, Deduplicator, Engine, EngineOptions, Input, WatchedKey,
};
use kube_scheduler_framework::EventObject;
use serde_json::json;

use super::{CACHED, Heap, LEARNED};
use crate::fixtures::{applied, devices_applied};
use crate::replies::write_bindings_alone;

pub(super) const N_NODES: usize = 200;
const N_RUNNING: usize = 1_000;
/// More attempts than the pods of an input can need.
const MAX_TURNS: usize = 200;

/// What came of one input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Bytes of its objects as JSON.
    pub(super) size: usize,
    pub(super) n_objects: usize,
    /// What the attempts of one round may have cost, in units; those that were refused were not made.
    pub(super) work: u64,
    /// Bytes of live memory while the objects are there, and the most at any time.
    pub(super) held: usize,
    pub(super) peak: usize,
    /// Bytes that stay after they are gone, beside what tables that are bounded in bytes say they hold.
    pub(super) left: usize,
    /// What those tables say.
    pub(super) learned: usize,
    /// The one of them that is closest to what it may say: its name, what it says, and what it may.
    pub(super) fullest: (&'static str, usize, usize),
    /// The longest time the core was away.
    pub(super) longest: Duration,
    pub(super) n_attempts: usize,
    pub(super) n_refused: usize,
}

pub(super) struct MeasuredCluster {
    engine: Engine,
    sharing: Deduplicator,
    now: Timestamp,
}

/// What all clusters share: it is read once, and no memory of any input.
struct Others {
    config: Configuration,
    gates: FeatureGates,
    inputs: Vec<Input>,
}

fn others() -> Result<Others> {
    let gates = FeatureGates::default()
        .with(Gate::GenericWorkload, true)
        .with(Gate::GangScheduling, true)
        .with(Gate::TopologyAwareWorkloadScheduling, true)
        .with(Gate::WorkloadAwarePreemption, true);
    let mut config =
        decode("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")?;
    default(&mut config, &gates);
    let node = |at: usize| {
        let taint = match at % 40 {
            taint @ 0..5 => format!("taint:dedicated=t{taint}:NoSchedule"),
            _ => String::new(),
        };
        applied(&format!("node n{at} cpu=64 memory=64Gi label:zone=z{} {taint}", at % 3))
    };
    let pod = |at: usize| {
        let app = format!("a{}", at % 5);
        let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}});
        let term = json!({"weight": 1, "podAffinityTerm": term});
        let affinity = match at % 10 {
            0 => format!("prefer-anti-affinity={term}"),
            _ => String::new(),
        };
        let node = at % N_NODES;
        let words = format!("cpu=1 memory=1Gi node=n{node} label:app={app} {affinity}");
        applied(&format!("pod other/p{at} {words}"))
    };
    let inputs = (0..N_NODES).map(node).chain(volumes()).chain(devices());
    let inputs = inputs.chain((0..N_RUNNING).map(pod)).collect();
    Ok(Others { config, gates, inputs })
}

/// What claims for volumes find: a class that makes them where the pod goes, room for that on each node, and volumes that are there.
fn volumes() -> impl Iterator<Item = Input> {
    let driver = json!({"spec": {"storageCapacity": true}});
    let alone = [
        "storageclass local provisioner=csi.example.com".to_owned(),
        format!("csidriver csi.example.com {driver}"),
    ];
    let on_nodes = (0..N_NODES).flat_map(|at| {
        let host = format!("kubernetes.io/hostname=n{at}");
        [
            format!("capacity storage/n{at} class=local free=100Gi topology={host}"),
            format!("pv n{at} class=local node-affinity={host}"),
        ]
    });
    alone.into_iter().chain(on_nodes).map(|statement| applied(&statement))
}

/// What claims for devices find: eight devices on every tenth node.
fn devices() -> impl Iterator<Item = Input> {
    let slices = (0..N_NODES).step_by(10).map(|at| {
        let devices: Vec<_> = (0..8).map(|at| json!({"name": format!("d{at}")})).collect();
        devices_applied(&format!("n{at}"), &devices)
    });
    std::iter::once(applied("deviceclass c")).chain(slices)
}

static OTHERS: LazyLock<Result<Others>> = LazyLock::new(others);

impl MeasuredCluster {
    /// The cluster, in use for a while: what is made at the first need has been made.
    pub(super) fn new() -> Result<Self> {
        let others = OTHERS.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let options = EngineOptions { gates: others.gates.clone(), ..EngineOptions::default() };
        let registry = kube_scheduler_plugins_intree::registry();
        let engine = Engine::new(&others.config, &registry, options)?;
        let now = Timestamp::parse("2026-01-01T00:00:00Z").context("start time")?;
        let mut cluster = Self { engine, sharing: Deduplicator::default(), now };
        others.inputs.iter().for_each(|input| cluster.engine.handle(input.clone(), now));
        Ok(cluster)
    }

    /// What the objects cost; they come one after the other, are tried twice if they have to be, and go.
    pub(super) fn measure(&mut self, texts: &[String], heap: Heap<'_>) -> Result<Cost> {
        let mut cost = Cost {
            size: texts.iter().map(String::len).sum(),
            n_objects: texts.len(),
            ..Cost::default()
        };
        let learned_before = self.n_learned_bytes();
        let before = heap.current_usage();
        heap.reset_peak_usage();
        let mut came = Vec::with_capacity(texts.len());
        for text in texts {
            let mut object = read(text)?;
            self.sharing.share(&mut object);
            came.push(object.key());
            self.timed(&mut cost, |cluster| cluster.engine.handle(object.into(), cluster.now));
        }
        let keys = came.capacity() * size_of::<WatchedKey>();
        self.turns(&mut cost);
        cost.held = heap.current_usage().saturating_sub(before + keys);
        // Whatever failed is tried again.
        self.now = self.now + Duration::from_secs(400);
        self.timed(&mut cost, |cluster| cluster.engine.handle(Input::TimePassed, cluster.now));
        self.turns(&mut cost);
        cost.held = cost.held.max(heap.current_usage().saturating_sub(before + keys));
        cost.peak = heap.peak_usage().saturating_sub(before);
        for (text, key) in texts.iter().zip(came).rev() {
            let end = match read(text)? {
                EventObject::Other(object) => Input::ObjectDeleted(object),
                _ => Input::PodDeleted { namespace: key.0, name: key.1 },
            };
            self.timed(&mut cost, |cluster| cluster.engine.handle(end, cluster.now));
            write_bindings_alone(&mut self.engine, self.now);
        }
        self.turns(&mut cost);
        self.sharing.sweep();
        cost.learned = self.n_learned_bytes().saturating_sub(learned_before);
        cost.fullest = self.fullest();
        cost.left = heap.current_usage().saturating_sub(before + cost.learned);
        Ok(cost)
    }

    /// What is bound to objects, by table: entries, and bytes where they are known.
    pub(super) fn tables(&self) -> Vec<(&'static str, (usize, Option<usize>))> {
        let sizes = self.engine.table_sizes().into_iter().filter(|size| size.is_bound_to_objects);
        sizes.map(|size| (size.table, (size.n_entries, size.n_bytes))).collect()
    }

    /// What tables say that they hold which keep what was learned, by table. Columns, of which there may be as many as the cluster has
    /// labels, count as left.
    fn learned(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let sizes = self.engine.table_sizes().into_iter().filter(|size| !size.is_bound_to_objects);
        let sizes = sizes.filter(|size| size.table != "label columns");
        sizes.filter_map(|size| Some((size.table, size.n_bytes?)))
    }

    fn n_learned_bytes(&self) -> usize {
        self.learned().map(|(_, n_bytes)| n_bytes).sum()
    }

    fn fullest(&self) -> (&'static str, usize, usize) {
        let bounded = self.learned().filter_map(|(table, n_bytes)| {
            let known = LEARNED.iter().find(|(known, _)| *known == table).map(|(_, most)| *most);
            // Small ones that are not listed are of no interest: a ring is always full.
            let most = known.or_else(|| (n_bytes > CACHED).then_some(CACHED))?;
            Some((table, n_bytes, most))
        });
        bounded.max_by_key(|(_, n_bytes, most)| n_bytes * 1000 / (*most).max(1)).unwrap_or_default()
    }

    fn timed(&mut self, cost: &mut Cost, act: impl FnOnce(&mut Self)) {
        let start = Instant::now();
        act(self);
        cost.longest = cost.longest.max(start.elapsed());
    }

    /// One round: all attempts that are due.
    fn turns(&mut self, cost: &mut Cost) {
        let mut works: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for _ in 0..MAX_TURNS {
            let mut turn = None;
            self.timed(cost, |cluster| turn = cluster.engine.schedule_next(cluster.now));
            write_bindings_alone(&mut self.engine, self.now);
            let Some(turn) = turn else { break };
            cost.n_attempts += 1;
            if matches!(&turn.result, AttemptResult::Error(text) if text.contains("too expensive"))
            {
                cost.n_refused += 1;
            } else {
                // A pod whose evictions fail is tried again at once, as often as the API server answers.
                let work = works.entry(turn.pod.uid.clone()).or_default();
                *work = turn.work.max(*work);
            }
        }
        cost.work = cost.work.max(works.values().sum());
    }
}

fn read(text: &str) -> Result<EventObject> {
    Ok(match text.contains(r#""kind":"Pod","#) {
        true => EventObject::Pod(Arc::new(Pod::from_json(text)?)),
        false => EventObject::Other(Arc::new(Object::from_json(text)?)),
    })
}
