//! Lets pods made from the same template share the answers about nodes, apart from the nodes whose devices were taken or released
//! since the last of these pods.

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::following::{FollowOutcome, PreFilterFollower};
use kube_scheduler_framework::{Context, CycleState, NodeIdx, SignatureWriter};

use super::DynamicResources;
use super::answers::{Column, are_large};
use super::attempt::Preparation;
use super::state::PodDevices;
use crate::signature::write;

impl PreFilterFollower for DynamicResources {
    fn can_follow(&self, _: &Context<'_>, state: &CycleState) -> bool {
        state.get::<PodDevices>().is_some_and(|devices| devices.followed.is_some())
    }

    fn follow(&self, cx: &Context<'_>, state: &mut CycleState, pod: &Pod) -> FollowOutcome {
        let prepared = (Preparation { shared: &self.shared, cx, state, pod }).prepare();
        let Ok(mut devices) = prepared else { return FollowOutcome::Apart };
        if !devices.are_all_open() {
            return FollowOutcome::Apart;
        }
        // Otherwise it is the cluster that is different.
        let Some(now) = self.answers_of(cx, &devices) else { return FollowOutcome::Outdated };
        let former = state.get::<PodDevices>().and_then(|former| former.followed.as_ref());
        let Some(before) = former else { return FollowOutcome::Outdated };
        if !Arc::ptr_eq(&now.column, &before.column) {
            return FollowOutcome::Outdated;
        }
        let changed = devices.allocator.as_ref().and_then(|allocator| {
            let changed = allocator.state().nodes_changed_after(before.change)?;
            // The engine sees by itself which nodes are gone.
            let cluster = cx.cluster();
            Some(changed.filter_map(|name| cluster.node_idx(name)).collect::<Vec<NodeIdx>>())
        });
        let Some(changed) = changed else { return FollowOutcome::Outdated };
        devices.followed = Some(now);
        state.insert(devices);
        FollowOutcome::Except(changed)
    }

    fn rest(&self, state: &mut CycleState) {
        // A state that still holds the former devices would force the next change to copy them.
        if let Some(devices) = state.get_mut::<PodDevices>() {
            devices.allocator = None;
            devices.found().claims = Vec::new();
        }
    }
}

/// The answers that an attempt goes by.
#[derive(Clone)]
pub(super) struct FollowedAnswers {
    column: Arc<Column>,
    /// See `DeviceState::latest_change`.
    change: u64,
}

impl DynamicResources {
    /// The answers by which nodes pass for a pod, if nothing else is asked of them and they may be remembered.
    pub(super) fn answers_of(
        &self,
        cx: &Context<'_>,
        devices: &PodDevices,
    ) -> Option<FollowedAnswers> {
        // What is followed is kept, with the claims.
        if are_large(devices.claims.iter().map(|claim| &claim.object)) {
            return None;
        }
        let (allocator, special) = devices.same_everywhere(&self.shared.settings, cx)?;
        let column = devices.column(&self.shared.devices, special.as_ref());
        Some(FollowedAnswers { column, change: allocator.state().latest_change() })
    }
}

/// Writes what pods have in common that may share answers. False for those that never do: members of a group use claims that
/// their group has reserved in the same cycle. Members without claims of their own may ask for resources that no class serves;
/// they do not share answers with others, who are followed if a class does.
pub(super) fn sign(pod: &Pod, signature: &mut SignatureWriter) -> bool {
    let is_member = pod.spec.pod_group.is_some();
    if is_member && !pod.spec.resource_claims.is_empty() {
        return false;
    }
    write((is_member, &pod.namespace, &pod.spec.resource_claims), signature);
    signature.debug(&pod.spec.device_users);
    true
}
