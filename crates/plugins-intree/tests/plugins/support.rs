//! Plugins as the registry makes them, and questions to one plugin about a fixture.

use std::sync::Arc;

use kube_scheduler_config::FeatureGates;
use kube_scheduler_framework::api::{Node, Object, Pod};
use kube_scheduler_framework::testing::{self, Fixture};
use kube_scheduler_framework::{
    ClusterEvent, Command, Commands, CycleState, EventObject, FeasibleNodes, FilterSink, Handle,
    ObjectWrite, Plugin, PluginArgs, SignatureWriter, Status, Verdicts,
};
use serde_json::{Value, json};

/// A node from a statement of the fixtures' grammar.
pub(crate) fn node(text: &str) -> Arc<Node> {
    testing::node(text).build()
}

/// A pod from a statement of the fixtures' grammar.
pub(crate) fn pod(text: &str) -> Arc<Pod> {
    testing::pod(text).build()
}

/// Two nodes in zones of their own, as the label `zone` says, and what is there beside.
pub(crate) fn two_zones(more: &str) -> Fixture {
    testing::fixture("node a label:zone=za; node b label:zone=zb").with(more)
}

/// Does what DynamicResources has asked for, as the engine would; gives the requests to the API server.
pub(crate) fn carry_out_for_devices(world: &mut Fixture, commands: Commands) -> Vec<ObjectWrite> {
    let mut writes = Vec::new();
    for command in commands.into_vec() {
        let cluster = world.cluster_mut();
        match command {
            Command::AddPendingObject(object) => cluster.objects_mut().add_pending(object),
            Command::RemovePendingObject { group, kind, uid, for_all } => {
                cluster.objects_mut().remove_pending(&group, &kind, &uid, for_all);
            }
            Command::ConfirmObject(object) => drop(cluster.confirm_object(object)),
            Command::WriteObject { write, .. } => writes.push(write),
            other => panic!("{other:?}"),
        }
    }
    writes
}

/// Adds an object of the API of devices: claims in the namespace `default`, others in none, as what they are.
pub(crate) fn put_device_object(world: &mut Fixture, kind: &str, name: &str, rest: Value) {
    let mut json = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name, "uid": name},
    });
    if kind == "ResourceClaim" {
        json["metadata"]["namespace"] = "default".into();
    }
    json.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    world.cluster_mut().upsert_object(Arc::new(Object::from_value(json).unwrap()));
}

/// A handle with the default gates, with these changes.
pub(crate) fn handle(changes: &[(&str, bool)]) -> Handle {
    let gates = FeatureGates::default();
    let is_on = |name: &str, default: bool| {
        changes.iter().find(|(changed, _)| *changed == name).map_or(default, |(_, is_on)| *is_on)
    };
    let on = gates
        .iter()
        .filter(|(name, _, default)| is_on(name, *default))
        .map(|(name, _, _)| Arc::from(name));
    Handle::default().with_features(on)
}

pub(crate) fn try_plugin(
    name: &str,
    args: Value,
    gates: &[(&str, bool)],
) -> Result<Arc<dyn Plugin>, String> {
    let registry = kube_scheduler_plugins_intree::registry();
    let args: PluginArgs = args;
    registry.get(name).unwrap()(&args, &handle(gates)).map_err(|error| error.to_string())
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

/// What PreFilter says: `skip`, `ok`, the names it narrows to, or code and message.
pub(crate) fn pre_verdict(world: &Fixture, plugin: &dyn Plugin, pod: &Pod) -> String {
    let (outcome, _) = world.pre_filter(plugin, pod);
    match outcome.node_names {
        Some(names) => names.iter().map(|name| &**name).collect::<Vec<_>>().join(","),
        None if outcome.status.is_skip() => "skip".into(),
        None => text(&outcome.status),
    }
}

/// What the plugin says about a node, PreFilter included.
pub(crate) fn verdict(world: &Fixture, plugin: &dyn Plugin, pod: &Pod, node: &str) -> String {
    text(&world.filter(plugin, pod, node))
}

/// The verdicts of the whole-cluster form; `None` when PreFilter skips or rejects the pod.
pub(crate) fn scan(
    world: &Fixture,
    plugin: &dyn Plugin,
    pod: &Pod,
) -> Option<Result<Verdicts, Status>> {
    let (outcome, state) = world.pre_filter(plugin, pod);
    if !outcome.status.is_success() {
        return None;
    }
    Some(scan_with(world, plugin, pod, &state))
}

/// The same, with the state that PreFilter left.
pub(crate) fn scan_with(
    world: &Fixture,
    plugin: &dyn Plugin,
    pod: &Pod,
    state: &CycleState,
) -> Result<Verdicts, Status> {
    let (cluster, name) = (world.cluster(), plugin.name().into());
    let mut verdicts = Verdicts::absent(cluster.capacity());
    cluster.order().iter().for_each(|idx| verdicts.put(*idx, &Status::SUCCESS));
    let mut sink = FilterSink::new(&mut verdicts, &name);
    let filter = plugin.as_filter().unwrap();
    filter.filter_all(&world.cx(), state, pod, cluster.order(), &mut sink)?;
    Ok(verdicts)
}

/// Raw scores of all nodes in order; `None` when PreScore skips.
pub(crate) fn raw_scores(
    world: &Fixture,
    plugin: &dyn Plugin,
    pod: &Pod,
) -> Option<Result<Vec<i64>, Status>> {
    let mut state = CycleState::new();
    let nodes = world.cluster().order();
    if let Some(pre_score) = plugin.as_pre_score() {
        let status =
            pre_score.pre_score(&world.cx(), &mut state, pod, &FeasibleNodes::unrecorded(nodes));
        if status.is_skip() {
            return None;
        }
        if !status.is_success() {
            return Some(Err(status));
        }
    }
    let mut scores = vec![-1; nodes.len()];
    let outcome = plugin.as_score()?.score_all(&world.cx(), &state, pod, nodes, &mut scores);
    Some(outcome.map(|()| scores))
}

/// Normalised scores of all nodes in order, empty when PreScore skips.
pub(crate) fn scores(world: &Fixture, plugin: &dyn Plugin, pod: &Pod) -> Vec<i64> {
    world.scores(plugin, pod).unwrap().into_iter().map(|(_, score)| score).collect()
}

/// What the plugin's hint says about an event, given the waiting pod: `queue`, `skip` or an error, `always` if there is no
/// hint, `not registered` if nothing is registered for it. A hint that is not asked about such a pod and event must say `skip`.
pub(crate) fn hint(
    plugin: &dyn Plugin,
    event: ClusterEvent,
    pod: &Pod,
    old: Option<EventObject>,
    new: Option<EventObject>,
) -> String {
    let registrations = plugin.as_enqueue_extensions().unwrap().events_to_register();
    let Some(registered) = registrations.iter().find(|registered| registered.event.matches(&event))
    else {
        return "not registered".into();
    };
    let Some(hint) = &registered.hint else { return "always".into() };
    let world = Fixture::new();
    let cx = world.cx();
    let answer = match hint(&cx, pod, old.as_ref(), new.as_ref()) {
        Ok(true) => "queue".into(),
        Ok(false) => "skip".into(),
        Err(error) => format!("error: {error}"),
    };
    let is_asked = registered.concerns(&cx, pod, old.as_ref(), new.as_ref());
    assert!(is_asked || answer == "skip", "{}: {answer}, but nobody asks", plugin.name());
    answer
}

pub(crate) fn signature(plugin: &dyn Plugin, pod: &Pod) -> Option<Vec<u8>> {
    signature_in(SignatureWriter::new(), plugin, pod)
}

/// The signature without the labels that number the pod.
pub(crate) fn signature_without_numbers(plugin: &dyn Plugin, pod: &Pod) -> Option<Vec<u8>> {
    signature_in(SignatureWriter::without_numbers(), plugin, pod)
}

fn signature_in(mut writer: SignatureWriter, plugin: &dyn Plugin, pod: &Pod) -> Option<Vec<u8>> {
    plugin.as_sign()?.sign(pod, &mut writer).then(|| writer.into_bytes())
}
