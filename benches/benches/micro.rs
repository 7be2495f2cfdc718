//! The building blocks that everything else is made of, one question each.
//!
//! `cargo xtask bench micro` runs them all, `cargo xtask bench micro selector` those with that word in their name.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use kube_scheduler_api_types::{LabelSelector, Labels, Node, Pod, Quantity, Timestamp};
use kube_scheduler_benches::catalogue::WORKLOADS;
use kube_scheduler_cache::ClusterState;
use kube_scheduler_queue::{
    ActionType, ClusterEvent, EventLabel, EventResource, HintId, HintObject, PreEnqueueVerdict,
    ProfileId, ProfileSpec, QueueEntry, QueuePolicy, QueueSettings, QueuedPod, QueueingHint,
    RejectorId, SchedulingQueue,
};
use serde_json::json;

const N_NODES: usize = 5_000;

/// How long does it take to read an amount, and to add two?
fn quantity(c: &mut Criterion) {
    for text in ["100m", "500Mi", "1.5Gi", "123456789012345678901234567890"] {
        c.bench_function(&format!("quantity/parse {text}"), |b| {
            b.iter(|| Quantity::parse(black_box(text)));
        });
    }
}

/// How long does it take to find out whether a selector means a pod?
fn selector(c: &mut Criterion) {
    let labels: Labels =
        [("app", "web"), ("pod-template-hash", "5d4f8"), ("release", "stable"), ("tier", "front")]
            .into_iter()
            .collect();
    for text in ["app=web", "app=db", "app in (web,db),tier notin (back),!canary", "release"] {
        let Ok(selector) = LabelSelector::parse(text) else { continue };
        c.bench_function(&format!("selector/match {text}"), |b| {
            b.iter(|| selector.matches(black_box(&labels)));
        });
    }
}

/// How long does it take to read a running pod, and a node, from JSON?
fn decode(c: &mut Criterion) {
    let conditions: Vec<_> = ["Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .iter()
        .map(|kind| {
            json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"})
        })
        .collect();
    let pod = json!({
        "metadata": {
            "name": "web-5d4f8-x7k2p", "namespace": "default", "uid": "5b4bcf7d-3bb6-4b4a-8f0c-3b8b3f5a9f51",
            "resourceVersion": "123456", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "5d4f8"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4f8", "uid": "u", "controller": true,
            }],
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {}}}],
        },
        "spec": {
            "nodeName": "node-000001", "schedulerName": "default-scheduler", "priority": 0,
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
            "containers": [{
                "name": "web", "image": "registry.example.com/team/web:v1", "env": [{"name": "A", "value": "b"}],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "500Mi"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
            }],
        },
        "status": {"phase": "Running", "conditions": conditions, "podIP": "10.0.0.1"},
    })
    .to_string();
    let mut group = c.benchmark_group("decode");
    group.throughput(Throughput::Bytes(pod.len() as u64));
    group.bench_function("pod from JSON", |b| b.iter(|| Pod::from_json(black_box(&pod))));
    let node = json!({
        "metadata": {"name": "node-000001", "uid": "u", "labels": {
            "kubernetes.io/hostname": "node-000001", "topology.kubernetes.io/zone": "zone1",
        }},
        "status": {
            "allocatable": {"cpu": "4", "memory": "32Gi", "pods": "110"},
            "images": (0..30).map(|image| json!({
                "names": [format!("registry.example.com/team/image-{image}:v1")], "sizeBytes": 50_000_000,
            })).collect::<Vec<_>>(),
        },
    })
    .to_string();
    group.throughput(Throughput::Bytes(node.len() as u64));
    group.bench_function("node from JSON", |b| b.iter(|| Node::from_json(black_box(&node))));
    group.finish();
}

/// How long does it take to ask every node's columns, and to change one?
fn columns(c: &mut Criterion) {
    let mut cluster = ClusterState::new();
    for (node, _) in WORKLOADS[0].nodes(N_NODES).flatten() {
        cluster.add_node(node);
    }
    let mut group = c.benchmark_group("columns");
    group.throughput(Throughput::Elements(N_NODES as u64));
    group.bench_function("scan: free CPU on 5,000 nodes", |b| {
        b.iter(|| {
            let allocatable = cluster.allocatable().milli_cpu().chunks();
            let requested = cluster.requested().milli_cpu().chunks();
            let fits = |(all, taken): (&[i64], &[i64])| {
                all.iter().zip(taken).filter(|(all, taken)| *all - *taken >= 100).count()
            };
            allocatable.zip(requested).map(fits).sum::<usize>()
        });
    });
    group.throughput(Throughput::Elements(1));
    let mut pods = WORKLOADS[0].measured_pods(N_NODES).flatten().flat_map(|new| new.pod());
    let Some(pod) = pods.next() else { return };
    let name: Arc<str> = "node-000100".into();
    let pod = Arc::new(pod.with_node_name(&name));
    group.bench_function("add a pod to a node and remove it", |b| {
        b.iter(|| {
            let added = cluster.add_pod(pod.clone());
            (added.is_ok(), cluster.remove_pod(&pod.uid).is_ok())
        });
    });
    group.bench_function("fork, and change the copy", |b| {
        b.iter(|| {
            let mut fork = cluster.clone();
            fork.add_pod(pod.clone()).is_ok()
        });
    });
    group.finish();
}

/// A pod in the queue: its name.
#[derive(Clone)]
struct Waiting(Arc<str>);

impl QueueEntry for Waiting {
    fn uid(&self) -> &str {
        &self.0
    }

    fn namespace(&self) -> &str {
        "default"
    }

    fn name(&self) -> &str {
        &self.0
    }

    fn scheduler_name(&self) -> &str {
        "default-scheduler"
    }

    fn nominated_node_name(&self) -> Option<&str> {
        None
    }

    fn is_assigned(&self) -> bool {
        false
    }
}

#[derive(Clone)]
struct Happening;

impl HintObject<Waiting> for Happening {
    fn from_entry(_: &Waiting) -> Self {
        Self
    }

    fn is_pod(&self, _: &str) -> bool {
        false
    }
}

struct FirstComeFirstServed;

impl QueuePolicy<Waiting, Happening> for FirstComeFirstServed {
    fn precedes(&self, a: &QueuedPod<Waiting>, b: &QueuedPod<Waiting>) -> bool {
        a.timestamp() < b.timestamp()
    }

    fn pre_enqueue(&mut self, _: &Waiting, _: ProfileId, _: RejectorId) -> PreEnqueueVerdict {
        PreEnqueueVerdict::Admit
    }

    fn hint(
        &mut self,
        _: HintId,
        _: &EventLabel,
        _: &Waiting,
        _: Option<&Happening>,
        _: Option<&Happening>,
    ) -> QueueingHint {
        QueueingHint::Queue
    }

    fn latest(&self, _: &str, _: &str) -> Option<Waiting> {
        None
    }
}

/// How long do 1,000 pods take through the queue?
fn queue(c: &mut Criterion) {
    const N_PODS: i64 = 1_000;
    let empty = || {
        let profiles = vec![ProfileSpec::new("default-scheduler")];
        SchedulingQueue::<Waiting, Happening>::new(QueueSettings::default(), profiles)
    };
    let pods: Vec<Waiting> = (0..N_PODS).map(|at| Waiting(format!("pod-{at}").into())).collect();
    let full = || {
        let mut queue = empty();
        for (at, pod) in pods.iter().enumerate() {
            let now = Timestamp::from_millis(at as i64);
            queue.add(pod.clone(), now, &mut FirstComeFirstServed);
        }
        queue
    };
    let mut group = c.benchmark_group("queue");
    group.throughput(Throughput::Elements(N_PODS as u64));
    group.bench_function("add 1,000 pods", |b| b.iter_with_large_drop(full));
    group.bench_function("pop 1,000 pods", |b| {
        b.iter_batched(
            full,
            |mut queue| {
                while let Some(pod) = queue.pop(&FirstComeFirstServed) {
                    queue.done(pod.entry().uid());
                }
                queue
            },
            BatchSize::LargeInput,
        );
    });
    let event = ClusterEvent::new(EventResource::Node, ActionType::ADD);
    group.throughput(Throughput::Elements(1));
    group.bench_function("an event that helps nobody of 1,000", |b| {
        let mut queue = full();
        b.iter(|| {
            let now = Timestamp::from_millis(N_PODS);
            queue.move_all(
                black_box(&event),
                None,
                Some(&Happening),
                now,
                &mut FirstComeFirstServed,
            )
        });
    });
    group.finish();
}

criterion_group!(benches, quantity, selector, decode, columns, queue);
criterion_main!(benches);
