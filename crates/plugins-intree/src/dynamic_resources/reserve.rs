//! Reserve: the claims get the devices that Filter found, for now in memory (`docs/spec/plugins-dra.md` §7.6).

use std::sync::Arc;

use kube_scheduler_devices::Steps;
use kube_scheduler_framework::api::{NodeResourceClaim, Object, Pod};
use kube_scheduler_framework::groups::{Chooser, GroupCycleState};
use kube_scheduler_framework::{Commands, Context, CycleState, NodeIdx, NodeView, Reserve, Status};
use serde_json::json;

use super::extended::{self, derived_uuid};
use super::node::allocate;
use super::shared::PluginData;
use super::state::{PodClaim, PodDevices};
use super::{DynamicResources, consumers, group, in_flight, kinds, no_state, release, writes};

impl Reserve for DynamicResources {
    fn node_resource_claims(
        &self,
        state: &CycleState,
        pod: &Pod,
        node: NodeIdx,
    ) -> Option<Arc<[NodeResourceClaim]>> {
        if !self.shared.settings.node_resources {
            return None;
        }
        let devices = state.get::<PodDevices>();
        let claims = devices.map(|devices| devices.node_resources(node)).unwrap_or_default();
        // Parity: what the status says from an earlier attempt does not count.
        (!claims.is_empty() || !pod.status.node_resource_claims.is_empty()).then_some(claims)
    }

    fn planned(&self, state: &CycleState) -> Vec<Arc<Object>> {
        state.get::<PodDevices>().map(planned).unwrap_or_default()
    }

    fn reserve(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
        commands: &mut Commands,
    ) -> Status {
        if !self.may_concern(pod) {
            return Status::SUCCESS;
        }
        let group = state.get::<GroupCycleState>().cloned();
        let Some(devices) = state.get_mut::<PodDevices>() else { return no_state() };
        let cluster = cx.cluster();
        let node = cluster.node_idx(node).and_then(|idx| cluster.node(idx));
        devices.is_given_back = false;
        let found = search(devices, &self.shared, cx, pod, node.as_ref());
        if found.is_ok() {
            put_in_flight(devices, commands);
        }
        if let Some(group) = &group {
            let reserved = devices.claims.iter_mut().filter(|claim| claim.reserved.is_some());
            for claim in reserved {
                claim.may_be_shared = true;
                group::reserved_in_cycle(group, &claim.flight);
            }
            consumers::moved(group, &self.shared, cluster, pod, true);
        }
        match found {
            Ok(()) => Status::SUCCESS,
            Err(error) => Status::error(error),
        }
    }

    fn unreserve(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Arc<Pod>,
        _: &str,
        commands: &mut Commands,
    ) {
        if let Some(group) = state.get::<GroupCycleState>() {
            consumers::moved(group, &self.shared, cx.cluster(), pod, false);
        }
        if let Some(devices) = state.get_mut::<PodDevices>() {
            release::unreserve(devices, pod, commands);
        }
    }

    fn reads_cycle_state(&self, pod: &Pod) -> bool {
        self.may_concern(pod)
    }

    fn is_idle_for(&self, pod: &Pod) -> bool {
        !self.may_concern(pod) && pod.status.node_resource_claims.is_empty()
    }

    fn chooses_for(&self, cx: &Context<'_>, pod: &Pod) -> bool {
        !pod.spec.resource_claims.is_empty()
            || self.shared.settings.serves_extended && extended::is_served(cx.cluster(), pod)
    }

    fn chooser(&self, cx: &Context<'_>, pod: &Pod) -> Option<&dyn Chooser> {
        // What devices take of their node is weighed for those that are found first alone.
        let is_complete = !self.shared.settings.node_resources && self.chooses_for(cx, pod);
        is_complete.then_some(self as &dyn Chooser)
    }
}

/// Remembers what was found for the claims to allocate, and reports it to other pods.
fn put_in_flight(devices: &mut PodDevices, commands: &mut Commands) {
    let special = devices.special.as_ref();
    for claim in devices.claims.iter_mut().filter(|claim| !claim.is_allocated()) {
        let Some(allocation) = claim.found.clone().or_else(|| claim.pending.clone()) else {
            continue;
        };
        let mut object = match special {
            Some(special) if claim.is_special => extended::variant_object(&claim.object, special),
            _ => (*claim.object).clone(),
        };
        writes::add_finalizer(&mut object);
        writes::set_allocation(&mut object, &allocation);
        claim.reserved = Some(allocation);
        in_flight::add(Arc::new(object), commands);
    }
}

/// What Reserve found for the claims, or another member of the group for those that they share, as objects that are
/// [planned](in_flight::is_planned): nothing but the devices.
fn planned(devices: &PodDevices) -> Vec<Arc<Object>> {
    let found = devices.claims.iter().filter_map(|claim| {
        let allocation = claim.found.as_ref().or(claim.pending.as_ref())?;
        Some((claim, allocation))
    });
    let objects = found.filter_map(|(claim, allocation)| {
        let PodClaim { object, flight, .. } = claim;
        // A claim in memory has another UID in each attempt, and what is planned for its pod is the same.
        let pod = extended::pods_of_special(object).next().filter(|_| claim.is_in_memory());
        let uid = match pod {
            Some(pod) => in_flight::planned_uid(&format!("pod/{pod}")),
            None => in_flight::planned_uid(flight),
        };
        let mut allocation = allocation.to_json();
        let mut results = allocation["devices"]["results"].take();
        // Those that were made for shares differ from time to time, and what is planned is the same.
        for (at, result) in results.as_array_mut().into_iter().flatten().enumerate() {
            if let Some(id) = result.get_mut("shareID") {
                *id = format!("{uid}/{at}").into();
            }
        }
        let json = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": kinds::CLAIM,
            "metadata": {"namespace": *object.namespace, "name": *object.name, "uid": uid},
            "status": {"allocation": {"devices": {"results": results}}},
        });
        Object::from_value(json).ok().map(Arc::new)
    });
    objects.collect()
}

/// Finds again what Filter found for the claims to allocate. When Reserve was undone and runs again, it is still there.
fn search(
    devices: &mut PodDevices,
    shared: &PluginData,
    cx: &Context<'_>,
    pod: &Pod,
    node: Option<&NodeView<'_>>,
) -> Result<(), String> {
    let n_wanted = devices.to_allocate().count();
    if devices.allocator.is_none() || n_wanted == 0 {
        // No other choice is tried any more.
        devices.found().choices = None;
        return Ok(());
    }
    let node = node.ok_or("claim allocation not found for node")?;
    let special = devices.special_on(node).map_err(|_| "claim allocation not found for node")?;
    if special.is_none() && !devices.has_user_claims() {
        // Device plugins serve the extended resources there.
        return Ok(());
    }
    // No further node is tried: the state of the devices can change without a copy of it.
    let Some(allocator) = devices.allocator.take() else { return Ok(()) };
    let allocations = match devices.choice.take() {
        Some(chosen) => chosen,
        None => {
            let (wanted, limit) = (special.as_ref(), Steps::new(shared.settings.steps.of_node));
            let mut new_share_id = share_ids(pod, cx, node);
            let found = allocate(devices, &allocator, wanted, node, &limit, &mut new_share_id);
            // Nothing has changed since Filter.
            let found = found.map_err(|error| error.to_string())?.unwrap_or_default();
            found.into_iter().map(Arc::new).collect()
        }
    };
    if allocations.len() != n_wanted {
        return Err(format!(
            "internal error, have {} allocations, {n_wanted} claims to allocate, want {} claims",
            allocations.len(),
            devices.claims.len()
        ));
    }
    let wanted = devices.claims.iter_mut().filter(|claim| claim.allocation().is_none());
    for (claim, allocation) in wanted.zip(allocations) {
        claim.found = Some(allocation);
    }
    devices.special = special;
    devices.node_resources = devices.node_resources(node.idx());
    Ok(())
}

/// Gives every share of a device that a pod gets an id.
pub(super) fn share_ids<'a>(
    pod: &'a Pod,
    cx: &'a Context<'a>,
    node: &'a NodeView<'a>,
) -> impl FnMut() -> Arc<str> {
    let mut n_shares = 0_u32;
    move || {
        n_shares += 1;
        derived_uuid(&(&*pod.uid, cx.now(), &**node.name(), n_shares))
    }
}
