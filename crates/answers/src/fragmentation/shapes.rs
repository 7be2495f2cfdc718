//! The mix of pods that a cluster runs: which shapes there are, and how many pods have each.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use kube_scheduler_api_types::{KeyedState, Labels, Pod, PodSpec};
use kube_scheduler_engine::Engine;

use crate::API_GROUP;
use crate::explanation::is_being_deleted;
use crate::what_if::is_of_node;

/// Shapes that differ in node affinity alone are compared one by one, at most this many. Pods of more are no shape that is tried.
const MAX_ALIKE: usize = 64;

/// What pods ask for and where they may go: requests, node selector and affinity, tolerations, host ports.
#[derive(Debug)]
pub(super) struct Shape {
    /// A pod of this shape that does not exist.
    pub(super) pod: Arc<Pod>,
    /// One that does, `namespace/name`.
    pub(super) example: String,
    pub(super) n_pods: usize,
}

/// The mix.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    /// The most frequent first, then by the name of the example.
    pub(super) all: Vec<Shape>,
    /// How many pods there are in the mix.
    pub(super) n_pods: usize,
    /// How many are not in it because of their resource claims.
    pub(super) n_with_claims: usize,
}

impl Shapes {
    /// Pods that run or wait, except for those that belong to their node.
    pub(super) fn of(engine: &Engine) -> Self {
        let mut shapes = Self::default();
        let mut known: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let hasher = KeyedState::default();
        let mut pods: Vec<&Arc<Pod>> = engine.known_pods().collect();
        pods.sort_by_key(|pod| (&pod.namespace, &pod.name));
        let is_left_out = |pod: &Pod| is_of_node(pod) || pod.has_ended() || is_being_deleted(pod);
        for pod in pods.into_iter().filter(|pod| !is_left_out(pod)) {
            if !pod.spec.resource_claims.is_empty() {
                shapes.n_with_claims += 1;
                continue;
            }
            shapes.n_pods += 1;
            let alike = known.entry(hash(&hasher, pod)).or_default();
            let template = template(engine, pod, shapes.all.len());
            let is_same = |at: &&usize| {
                let other = &shapes.all[**at].pod;
                (&other.spec, &other.requests) == (&template.spec, &template.requests)
            };
            if let Some(at) = alike.iter().find(is_same) {
                shapes.all[*at].n_pods += 1;
            } else if alike.len() < MAX_ALIKE {
                alike.push(shapes.all.len());
                shapes.all.push(Shape { pod: Arc::new(template), example: pod.key(), n_pods: 1 });
            }
        }
        shapes.all.sort_by_key(|shape| Reverse(shape.n_pods));
        shapes
    }
}

/// Equal for equal shapes.
fn hash(hasher: &KeyedState, pod: &Pod) -> u64 {
    let PodSpec { scheduler_name, tolerations, host_ports, required_features, .. } = &*pod.spec;
    let mut state = hasher.build_hasher();
    (scheduler_name, tolerations, host_ports, required_features).hash(&mut state);
    (&pod.requests.fit, &pod.requests.accounted).hash(&mut state);
    for (key, value) in pod.spec.node_selector.iter().flat_map(|labels| labels.iter()) {
        (key, value).hash(&mut state);
    }
    state.finish()
}

/// A pod of the shape, without what depends on other pods or on objects of its own.
fn template(engine: &Engine, pod: &Pod, n: usize) -> Pod {
    let ours = engine.profiles().iter().map(|profile| &profile.scheduler_name);
    let theirs = &pod.spec.scheduler_name;
    let scheduler = ours.clone().find(|name| *name == theirs).or_else(|| ours.clone().next());
    let spec = PodSpec {
        scheduler_name: scheduler.unwrap_or(theirs).clone(),
        never_preempts: true,
        node_selector: pod.spec.node_selector.clone(),
        node_affinity: pod.spec.node_affinity.clone(),
        tolerations: pod.spec.tolerations.clone(),
        host_ports: pod.spec.host_ports.clone(),
        host_port_numbers: pod.spec.host_port_numbers.clone(),
        device_users: pod.spec.device_users.clone(),
        required_features: pod.spec.required_features,
        ..PodSpec::default()
    };
    let name: Arc<str> = format!("shape-{n}").into();
    Pod {
        uid: format!("{API_GROUP}/{name}").into(),
        name,
        labels: Labels::default(),
        node_name: None,
        volumes: Arc::default(),
        spec: Arc::new(spec),
        status: Arc::default(),
        source: None,
        ..pod.clone()
    }
}
