//! Which events can make a pod fit that NodeResourcesFit rejected.
//!
//! Quirk: ignored resources are not ignored here, so a pod that asks for one that a node lacks is not requeued by that
//! node. Pinned by `hint_does_not_know_ignored_resources`.
//!
//! Behaviour in `docs/spec/plugins-node.md` §4.8.8.

use kube_scheduler_framework::api::{
    CPU, DEVICE_CLASS_PREFIX, EPHEMERAL_STORAGE, MEMORY, Node, Object, Pod, Quantity,
    is_scalar_resource,
};
use kube_scheduler_framework::{
    ActionType, ClusterView, EnqueueExtensions, EventRegistration, EventResource,
};

use super::demand::{Demand, IgnoredResources, Shortages};
use super::device_classes;
use super::fit::Fit;
use super::resource::COMPUTE;

impl EnqueueExtensions for Fit {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        let delegates = self.devices.is_some();
        let of_pods = ActionType::DELETE | ActionType::UPDATE_POD_SCALE_DOWN;
        let of_nodes = ActionType::ADD | ActionType::UPDATE_NODE_ALLOCATABLE;
        let mut events = vec![
            EventRegistration::on_pod(of_pods, |_, pod, old, new| is_freed_by_pod(pod, old, new)),
            EventRegistration::on_node(of_nodes, move |cx, pod, old, new| {
                let cluster = delegates.then_some(cx.cluster());
                new.is_none_or(|new| is_helped_by_node(pod, old, new, cluster))
            }),
        ];
        // A device class matters only by the extended resources that it serves: the one it names, and one made from its own
        // name. The latter is new to a pod only when the class is added.
        if delegates {
            events.push(EventRegistration::on_object(
                EventResource::DeviceClass,
                ActionType::ADD | ActionType::UPDATE,
                |_, pod, old, new| new.is_none_or(|new| is_helped_by_class(pod, old, new)),
            ));
        }
        events
    }
}

fn is_helped_by_class(pod: &Pod, old: Option<&Object>, new: &Object) -> bool {
    let asks_for = |name: &str| pod.requests.spec_total(name).is_some();
    let name_of = |class| device_classes::extended_resource_name(class).unwrap_or_default();
    let serves_pod = device_classes::extended_resource_name(new).is_some_and(asks_for);
    match old {
        None => serves_pod || asks_for(&format!("{DEVICE_CLASS_PREFIX}{}", new.name)),
        Some(old) => serves_pod && name_of(old) != name_of(new),
    }
}

fn is_freed_by_pod(pod: &Pod, old: Option<&Pod>, new: Option<&Pod>) -> bool {
    let Some(updated) = new else {
        return old.is_none_or(|deleted| deleted.is_assigned_or_nominated());
    };
    if updated.uid == pod.uid {
        return true;
    }
    let Some(old) = old.filter(|_| updated.is_assigned()) else { return false };
    let amount = |pod: &Pod, name: &str| {
        pod.requests.total(name).map_or(0, |quantity| in_units(name, quantity))
    };
    let is_counted =
        |name: &str| matches!(name, CPU | MEMORY | EPHEMERAL_STORAGE) || is_scalar_resource(name);
    pod.requests.totals.iter().any(|(name, wanted)| {
        is_counted(name) && in_units(name, wanted) != 0 && amount(updated, name) < amount(old, name)
    })
}

fn in_units(name: &str, quantity: &Quantity) -> i64 {
    if name == CPU { quantity.milli_value() } else { quantity.value() }
}

/// `cluster` is there when device classes may serve extended resources.
fn is_helped_by_node(
    pod: &Pod,
    old: Option<&Node>,
    new: &Node,
    cluster: Option<ClusterView<'_>>,
) -> bool {
    let demand = Demand::of(pod, &IgnoredResources::default());
    let is_delegated = |name: &str| {
        new.allocatable.scalar(name).unwrap_or(0) <= 0
            && cluster.is_some_and(|cluster| device_classes::serves(cluster, name))
    };
    let mut shortages = Shortages::default();
    shortages.check_pods(0, new.allowed_pods);
    demand.add_shortages(&new.allocatable, None, is_delegated, &mut shortages);
    if !shortages.is_empty() {
        return false;
    }
    let Some(old) = old else { return true };
    let (before, after) = (&old.allocatable, &new.allocatable);
    let grew = |name: &str| after.scalar(name).unwrap_or(0) > before.scalar(name).unwrap_or(0);
    let mut compute = COMPUTE.iter().zip(demand.compute);
    new.allowed_pods > old.allowed_pods
        || compute.any(|(it, request)| request > 0 && it.of(after) > it.of(before))
        || demand.scalars.iter().any(|scalar| grew(&scalar.name) || is_delegated(&scalar.name))
}
