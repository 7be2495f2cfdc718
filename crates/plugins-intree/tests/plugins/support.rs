//! A small cluster from JSON, and questions to one plugin about it.

use std::sync::Arc;

use kube_scheduler_config::FeatureGates;
use kube_scheduler_framework::api::{Node, Object, Pod, Timestamp};
use kube_scheduler_framework::{
    ClusterEvent, ClusterState, ClusterView, Context, CycleState, EventObject, FeasibleNodes,
    FilterSink, Handle, NoPods, NodeIdx, Normalization, Plugin, PluginArgs, QueueingHint,
    SignatureWriter, Sources, Status, Verdicts,
};
use serde_json::{Value, json};

/// Adds `extra` to `base`, map by map.
pub(crate) fn merge(base: &mut Value, extra: Value) {
    match (base, extra) {
        (Value::Object(base), Value::Object(extra)) => {
            for (key, value) in extra {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, extra) => *base = extra,
    }
}

/// A node with 4 CPUs, 10 GiB and room for 110 pods, unless `extra` says otherwise.
pub(crate) fn node_json(name: &str, extra: Value) -> Value {
    let mut node = json!({
        "metadata": {"name": name, "uid": name},
        "status": {"allocatable": {"cpu": "4", "memory": "10Gi", "pods": "110"}},
    });
    merge(&mut node, extra);
    node
}

pub(crate) fn node(name: &str, extra: Value) -> Arc<Node> {
    Arc::new(Node::from_value(&node_json(name, extra)).unwrap())
}

/// A pod with one container that asks for nothing, unless `extra` says otherwise.
pub(crate) fn pod_json(name: &str, extra: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "c", "image": "img"}]},
    });
    merge(&mut pod, extra);
    pod
}

pub(crate) fn pod(name: &str, extra: Value) -> Arc<Pod> {
    Arc::new(Pod::from_value(&pod_json(name, extra)).unwrap())
}

/// A pod with one container that asks for these amounts.
pub(crate) fn asking(requests: Value) -> Arc<Pod> {
    pod("p", json!({"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}))
}

/// A pod that runs on `node`.
pub(crate) fn running(name: &str, node: &str, extra: Value) -> Arc<Pod> {
    let mut all = json!({"spec": {"nodeName": node}});
    merge(&mut all, extra);
    pod(name, all)
}

/// A pod that runs on `node` and asks for these amounts.
pub(crate) fn using(name: &str, node: &str, requests: Value) -> Arc<Pod> {
    running(
        name,
        node,
        json!({"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}),
    )
}

/// A handle with the default gates, changed as told.
pub(crate) fn handle(changes: &[(&str, bool)]) -> Handle {
    let gates = FeatureGates::default();
    let is_on = |name: &str, default: bool| {
        changes.iter().find(|(changed, _)| *changed == name).map_or(default, |(_, is_on)| *is_on)
    };
    let on = gates
        .iter()
        .filter(|(name, _, default)| is_on(name, *default))
        .map(|(name, _, _)| Arc::from(name));
    Handle::new("default-scheduler", on)
}

pub(crate) fn try_plugin(
    name: &str,
    args: Value,
    gates: &[(&str, bool)],
) -> Result<Arc<dyn Plugin>, String> {
    let registry = kube_scheduler_plugins_intree::registry();
    let args: PluginArgs = args;
    registry.get(name).unwrap()(&args, &handle(gates))
}

pub(crate) fn plugin_with(name: &str, args: Value) -> Arc<dyn Plugin> {
    try_plugin(name, args, &[]).unwrap()
}

pub(crate) fn plugin(name: &str) -> Arc<dyn Plugin> {
    plugin_with(name, Value::Null)
}

/// Code and message of a status.
pub(crate) fn text(status: &Status) -> String {
    if status.is_success() {
        "ok".into()
    } else {
        format!("{}: {}", status.code(), status.message())
    }
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) cluster: ClusterState,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes: Vec<_> =
            self.cluster.order().iter().filter_map(|idx| self.cluster.node(*idx)).collect();
        let pods: Vec<_> = self.cluster.all_pods().map(|(pod, _)| pod).collect();
        f.debug_struct("World").field("nodes", &nodes).field("pods", &pods).finish()
    }
}

impl World {
    pub(crate) fn new(
        nodes: impl IntoIterator<Item = Arc<Node>>,
        pods: impl IntoIterator<Item = Arc<Pod>>,
    ) -> Self {
        let mut world = Self::default();
        for node in nodes {
            world.cluster.add_node(node);
        }
        for pod in pods {
            world.cluster.add_pod(pod).unwrap();
        }
        world.cluster.refresh_order();
        world
    }

    pub(crate) fn with_object(mut self, object: Value) -> Self {
        self.cluster.upsert_object(Arc::new(Object::from_value(object).unwrap()));
        self
    }

    pub(crate) fn cx(&self) -> Context<'_> {
        self.sources().unrecorded()
    }

    pub(crate) fn sources(&self) -> Sources<'_> {
        Sources {
            cluster: &self.cluster,
            pods: &NoPods,
            waiting: &NoPods,
            nominated: &NoPods,
            preemptions: &NoPods,
            now: Timestamp::from_nanos(1),
        }
    }

    pub(crate) fn idx(&self, node: &str) -> NodeIdx {
        self.cluster.node_idx(node).unwrap()
    }

    /// What PreFilter says: `skip`, `ok`, the names it narrows to, or the rejection.
    pub(crate) fn pre_filter(&self, plugin: &dyn Plugin, pod: &Pod) -> String {
        let outcome =
            plugin.as_pre_filter().unwrap().pre_filter(&self.cx(), &mut CycleState::new(), pod);
        match outcome.node_names {
            Some(names) => names.iter().map(|name| &**name).collect::<Vec<_>>().join(","),
            None if outcome.status.is_skip() => "skip".into(),
            None => text(&outcome.status),
        }
    }

    /// What the plugin says about a node, PreFilter included: the way the framework would ask.
    pub(crate) fn filter(&self, plugin: &dyn Plugin, pod: &Pod, node: &str) -> String {
        let mut state = CycleState::new();
        if let Some(pre_filter) = plugin.as_pre_filter() {
            let outcome = pre_filter.pre_filter(&self.cx(), &mut state, pod);
            if outcome.status.is_skip() {
                return "ok".into();
            }
            if !outcome.status.is_success() {
                return text(&outcome.status);
            }
        }
        let view = ClusterView::unrecorded(&self.cluster).node(self.idx(node)).unwrap();
        text(&plugin.as_filter().unwrap().filter(&self.cx(), &state, pod, &view))
    }

    /// The verdicts of the whole-cluster form; `None` when PreFilter skips or turns the pod down.
    pub(crate) fn verdicts(
        &self,
        plugin: &dyn Plugin,
        pod: &Pod,
    ) -> Option<Result<Verdicts, Status>> {
        let mut state = CycleState::new();
        if let Some(pre_filter) = plugin.as_pre_filter()
            && !pre_filter.pre_filter(&self.cx(), &mut state, pod).status.is_success()
        {
            return None;
        }
        let mut verdicts = Verdicts::absent(self.cluster.capacity());
        for &idx in self.cluster.order() {
            verdicts.put(idx, &Status::SUCCESS);
        }
        let name = plugin.name().into();
        let mut sink = FilterSink::new(&mut verdicts, &name);
        let outcome = plugin.as_filter()?.filter_all(
            &self.cx(),
            &state,
            pod,
            self.cluster.order(),
            &mut sink,
        );
        Some(outcome.map(|()| verdicts))
    }

    /// Raw scores of all nodes in order; `None` when PreScore skips.
    pub(crate) fn raw_scores(
        &self,
        plugin: &dyn Plugin,
        pod: &Pod,
    ) -> Option<Result<Vec<i64>, Status>> {
        let mut state = CycleState::new();
        let nodes = self.cluster.order();
        if let Some(pre_score) = plugin.as_pre_score() {
            let status =
                pre_score.pre_score(&self.cx(), &mut state, pod, &FeasibleNodes::unrecorded(nodes));
            if status.is_skip() {
                return None;
            }
            if !status.is_success() {
                return Some(Err(status));
            }
        }
        let mut scores = vec![-1; nodes.len()];
        let outcome = plugin.as_score()?.score_all(&self.cx(), &state, pod, nodes, &mut scores);
        Some(outcome.map(|()| scores))
    }

    /// Normalised scores of all nodes in order, empty when PreScore skips.
    pub(crate) fn scores(&self, plugin: &dyn Plugin, pod: &Pod) -> Vec<i64> {
        let Some(scores) = self.raw_scores(plugin, pod) else { return Vec::new() };
        let scores = scores.unwrap();
        let is_reversed = match plugin.as_score().unwrap().normalization() {
            Normalization::Proportional => false,
            Normalization::ReversedProportional => true,
            Normalization::None | Normalization::MinMax | Normalization::Custom => return scores,
        };
        let highest = scores.iter().copied().fold(0, i64::max);
        let share = |score| if highest == 0 { score } else { 100 * score / highest };
        let scores = scores.into_iter();
        if is_reversed {
            return scores
                .map(|score| if highest == 0 { 100 } else { 100 - share(score) })
                .collect();
        }
        scores.map(share).collect()
    }

    /// What the plugin's hint says about an event, given the waiting pod.
    pub(crate) fn hint(
        &self,
        plugin: &dyn Plugin,
        event: ClusterEvent,
        pod: &Pod,
        old: Option<EventObject>,
        new: Option<EventObject>,
    ) -> String {
        let registrations = plugin.as_enqueue_extensions().unwrap().events_to_register();
        let Some(registered) =
            registrations.iter().find(|registered| registered.event.matches(&event))
        else {
            return "not registered".into();
        };
        match &registered.hint {
            None => "always".into(),
            Some(hint) => match hint(&self.cx(), pod, old.as_ref(), new.as_ref()) {
                Ok(QueueingHint::Queue) => "queue".into(),
                Ok(QueueingHint::Skip) => "skip".into(),
                Err(error) => format!("error: {error}"),
            },
        }
    }
}

pub(crate) fn signature(plugin: &dyn Plugin, pod: &Pod) -> Option<Vec<u8>> {
    let mut writer = SignatureWriter::new();
    plugin.as_sign()?.sign(pod, &mut writer).then(|| writer.into_bytes())
}
