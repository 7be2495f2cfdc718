//! What a node lacks for the pod's claims, for explanations.
//!
//! Counting has a limit of steps of its own, as large as that of the searches: what has been counted does not keep a node from being
//! searched. Where it is used up, nodes are rejected without counts.

use kube_scheduler_devices::{DeviceObstacle, NodeRef, RequestCount, Steps};
use kube_scheduler_framework::{NodeView, Shortage};

use super::node::Trials;

/// The shortages of a node where the claims cannot be allocated.
pub(super) fn of_node(trials: &Trials<'_>, node: &NodeView<'_>) -> Vec<Shortage> {
    let devices = trials.devices;
    let (Some(allocator), Ok(special)) = (&devices.allocator, devices.special_on(node)) else {
        return Vec::new();
    };
    let limit = devices.found().counted.left(&trials.shared.settings.steps);
    let steps = Steps::new(limit);
    let at = NodeRef { name: node.name(), labels: node.labels() };
    let claims = devices.claims_with(special.as_ref());
    let counts = allocator.count(at, &claims, &steps);
    devices.found().counted.count(limit, &steps);
    let mut counts = counts.unwrap_or_default();
    if trials.may_have_other_reasons(node, allocator) {
        // What is not short may be what can be had.
        counts.retain(|count| count.left < count.needed);
    }
    counts.into_iter().map(shortage).collect()
}

fn shortage(count: RequestCount) -> Shortage {
    let RequestCount { claim, request, needed, present, lost, .. } = count;
    Shortage {
        subject: format!("devices for claim {claim}, request {request}"),
        needed,
        present,
        lost: lost.into_iter().map(|(reason, n)| (text(reason), n)).collect(),
    }
}

const fn text(reason: DeviceObstacle) -> &'static str {
    match reason {
        DeviceObstacle::Class => "of another class",
        DeviceObstacle::Selector => "not selected",
        DeviceObstacle::Taint => "tainted",
        DeviceObstacle::Use => "in use",
        DeviceObstacle::Counters => "without shared counters left",
        DeviceObstacle::Capacity => "without capacity left",
        DeviceObstacle::Constraint => "against constraints",
        _ => "not usable on the node",
    }
}
