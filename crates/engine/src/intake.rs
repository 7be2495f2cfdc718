//! Changes in the cluster: pods, nodes and other objects come, change and go.
//!
//! [`Intake`] brings one change to everything that it concerns: the cluster state, the queue, the bindings' tasks that wait
//! for it, the preemptions whose victims go. It keeps nothing itself.
//!
//! Behaviour: `docs/spec/queue.md` §11.2 to §11.4.
//!
//! Invariant: a change is in the cluster state before hints are asked whether it helps, except for a deleted node, which hints
//! may still look at.

use std::sync::Arc;

use kube_scheduler_api_types::{Node, Object, Pod, PodGroup};
use kube_scheduler_framework::{ActionType, ClusterEvent, EventObject, EventResource, PluginName};

use crate::binding::Bindings;
use crate::changes::{node_changes, pod_changes};
use crate::core::Core;
use crate::group::membership::put_into_group;
use crate::group::parent::{parent_of, remark_on_parent};
use crate::group::waits::{group_changed, member_has_come, member_is_gone};
use crate::policy::Entry;
use crate::preemption::Preemptions;

/// Takes in one input about the cluster.
pub(crate) struct Intake<'e> {
    pub(crate) core: &'e mut Core,
    pub(crate) bindings: &'e mut Bindings,
    pub(crate) preemptions: &'e mut Preemptions,
}

impl Intake<'_> {
    pub(crate) fn pod_applied(&mut self, mut pod: Arc<Pod>) {
        let changes_group = self.settle_group(&mut pod);
        let old = self.core.pods.insert(pod.clone());
        if pod.deletion_requested.is_some() {
            self.preemptions.pod_goes(self.core, &pod.uid);
        }
        let Some(old) = old else {
            return self.pod_added(pod);
        };
        if old.uid != pod.uid {
            // A pod re-created under the same name, with the deletion missed in between. What the old one held or was
            // assumed to hold would never be given back.
            self.pod_gone(&old);
            return self.pod_added(pod);
        }
        if changes_group {
            self.core.cluster.group_member_gone(&old);
            member_is_gone(self.core, &old);
        }
        match (old.is_assigned(), pod.is_assigned()) {
            (false, false) if changes_group && self.is_ours(&old) => {
                self.dequeue(old);
                self.pod_added(pod);
            }
            (true, true) => self.assigned_pod_updated(&old, &pod),
            // A pod never loses its node; one that seems to is another pod.
            (true, false) => {
                self.assigned_pod_removed(&old);
                self.pod_added(pod);
            }
            (false, true) => self.pod_bound(&old, &pod),
            (false, false) if self.is_ours(&old) => self.pending_pod_updated(&old, &pod),
            (false, false) if self.is_ours(&pod) => self.pod_added(pod),
            (false, false) => {}
        }
    }

    /// Puts a pod into the group that it belongs to. Whether it is known as a member of another one: labels of pods change, and
    /// some groups are named by them.
    fn settle_group(&mut self, pod: &mut Arc<Pod>) -> bool {
        let core = &mut *self.core;
        put_into_group(core, pod);
        if !core.foreign.exist() {
            return false;
        }
        let known = core.pods.get(&pod.namespace, &pod.name).filter(|known| known.uid == pod.uid);
        let Some(known) = known.filter(|known| known.spec.pod_group != pod.spec.pod_group) else {
            return false;
        };
        if core.cluster.is_assumed(&pod.uid) && !pod.is_assigned() {
            // What is decided about it stands.
            let group = known.spec.pod_group.clone();
            core.foreign.join(pod, group);
            return false;
        }
        true
    }

    pub(crate) fn pod_deleted(&mut self, namespace: &str, name: &str) {
        if let Some(pod) = self.core.pods.remove(namespace, name) {
            self.pod_gone(&pod);
        }
    }

    fn pod_gone(&mut self, pod: &Arc<Pod>) {
        self.pod_removed(pod);
        self.preemptions.pod_is_gone(self.core, &pod.uid);
        self.bindings.pod_gone(self.core, &pod.uid);
        self.core.cluster.objects_mut().forget_unanswered(&pod.uid);
    }

    fn is_ours(&self, pod: &Pod) -> bool {
        self.core.plans.profiles.of(pod).is_some()
    }

    fn dequeue(&mut self, pod: Arc<Pod>) {
        self.core.with_queue(|queue, policy| queue.delete(&Entry(pod), policy));
    }

    fn pod_added(&mut self, pod: Arc<Pod>) {
        if pod.is_assigned() {
            self.assigned_pod_added(&pod);
        } else if self.is_ours(&pod) {
            self.core.cluster.group_member_known(&pod);
            let entry = Entry(pod.clone());
            self.core.with_queue(|queue, policy| queue.add(entry, policy.now, policy));
            member_has_come(self.core, &pod);
            self.core.measures.input_handled(ClusterEvent::UNSCHEDULABLE_POD_ADD.label());
        }
    }

    /// Reports to the queue an event that follows from the input; the cluster state has the new object already.
    fn happened(
        &mut self,
        event: &ClusterEvent,
        old: Option<&EventObject>,
        new: Option<&EventObject>,
    ) {
        self.core.move_all(event, old, new);
        self.core.measures.event_handled(event.label());
    }

    fn pod_removed(&mut self, pod: &Arc<Pod>) {
        self.preemptions.pod_goes(self.core, &pod.uid);
        if pod.is_assigned() {
            return self.assigned_pod_removed(pod);
        }
        if !self.is_ours(pod) {
            return;
        }
        self.dequeue(pod.clone());
        self.core.cluster.group_member_gone(pod);
        member_is_gone(self.core, pod);
        if self.core.cluster.is_assumed(&pod.uid) {
            self.assumed_pod_deleted(&pod.uid.clone());
        } else if pod.nominated_node_name().is_some() {
            self.core.nomination_ended(pod);
        }
        self.core.measures.input_handled(ClusterEvent::UNSCHEDULABLE_POD_DELETE.label());
    }

    /// A pending pod has a node now.
    ///
    /// Parity: the reference wakes no pod for the room that the pod held elsewhere (its issue 134859): where it was nominated
    /// and not placed, or where it was assumed when another scheduler bound it. Pods that were rejected because of that room
    /// would wait for time alone.
    fn pod_bound(&mut self, old: &Arc<Pod>, new: &Arc<Pod>) {
        let elsewhere = |node: &str| new.node_name.as_deref() != Some(node);
        let cluster = &self.core.cluster;
        let assumed = cluster.pod(&new.uid).filter(|_| cluster.is_assumed(&new.uid)).cloned();
        let assumed = assumed.filter(|pod| pod.node_name.as_deref().is_some_and(elsewhere));
        // Placing the pod has ended its nomination in the queue.
        let nominated = self.core.queue().nomination(&new.uid);
        let nominated = nominated.or(old.nominated_node_name()).filter(|node| elsewhere(node));
        let nominated = nominated.map(|node| Arc::new(old.with_node_name(&node.into())));
        self.assigned_pod_added(new);
        // It will not be tried again.
        self.core.cluster.objects_mut().forget_unanswered(&new.uid);
        self.preemptions.forget_failures(&new.uid);
        if self.is_ours(old) {
            self.dequeue(old.clone());
            self.core.measures.follow_up_handled(ClusterEvent::UNSCHEDULABLE_POD_DELETE.label());
        }
        if let Some(assumed) = assumed {
            let object = EventObject::Pod(assumed);
            self.core.move_all(&ClusterEvent::ASSIGNED_POD_DELETE, Some(&object), None);
        }
        if let Some(nominated) = nominated {
            self.core.nomination_ended(&nominated);
        }
    }

    fn assigned_pod_added(&mut self, pod: &Arc<Pod>) {
        self.core.cluster.group_member_known(pod);
        let for_others = self.core.term_limits.admit(pod);
        if let Err(error) = self.core.cluster.add_pod(for_others) {
            self.core.note(format!("pod {}: {error}", pod.key()));
        }
        let object = EventObject::Pod(pod.clone());
        self.core.measures.applied();
        self.happened(&ClusterEvent::ASSIGNED_POD_ADD, None, Some(&object));
    }

    fn assigned_pod_updated(&mut self, old: &Arc<Pod>, new: &Arc<Pod>) {
        self.core.cluster.group_member_known(new);
        let for_others = self.core.term_limits.admit(new);
        if let Err(error) = self.core.cluster.update_pod(for_others) {
            self.core.note(format!("pod {}: {error}", new.key()));
        }
        let (old_object, new_object) =
            (EventObject::Pod(old.clone()), EventObject::Pod(new.clone()));
        self.core.measures.applied();
        let mut has_generic = false;
        for event in pod_changes(new, old) {
            has_generic |= event == ClusterEvent::ASSIGNED_POD_UPDATE;
            self.happened(&event, Some(&old_object), Some(&new_object));
        }
        // The reference counts a generic update twice, once as the whole and once as one of its parts.
        if !has_generic {
            self.core.measures.input_handled(ClusterEvent::ASSIGNED_POD_UPDATE.label());
        }
    }

    fn assigned_pod_removed(&mut self, pod: &Arc<Pod>) {
        self.core.term_limits.forget(pod);
        self.core.cluster.group_member_gone(pod);
        member_is_gone(self.core, pod);
        if let Err(error) = self.core.cluster.remove_pod(&pod.uid) {
            self.core.note(format!("pod {}: {error}", pod.key()));
        }
        let object = EventObject::Pod(pod.clone());
        self.core.measures.applied();
        self.happened(&ClusterEvent::ASSIGNED_POD_DELETE, Some(&object), None);
    }

    fn pending_pod_updated(&mut self, old: &Arc<Pod>, new: &Arc<Pod>) {
        if old.resource_version == new.resource_version && !new.resource_version.is_empty() {
            return;
        }
        self.core.cluster.group_member_known(new);
        if self.core.cluster.is_assumed(&new.uid) {
            if old.deletion_requested.is_none() && new.deletion_requested.is_some() {
                self.assumed_pod_deleted(&new.uid.clone());
            }
            // The announcement of a binding takes the place of a nomination to another node.
            return self.seen_nomination_ended(old, new);
        }
        let events = pod_changes(new, old);
        self.core.with_queue(|queue, policy| {
            let (old, new) = (Entry(old.clone()), Entry(new.clone()));
            queue.update(&old, new, &events, policy.now, policy);
        });
        self.seen_nomination_ended(old, new);
        let update = ClusterEvent::UNSCHEDULABLE_POD_UPDATE.label();
        for label in events.iter().map(ClusterEvent::label).filter(|label| *label != update) {
            self.core.measures.input_handled(label);
        }
        self.core.measures.input_handled(update);
    }

    /// The pod may no longer have the nomination that its status showed, if it showed one.
    fn seen_nomination_ended(&mut self, old: &Arc<Pod>, new: &Pod) {
        let nominated = old.nominated_node_name();
        if nominated.is_some() && nominated != new.nominated_node_name() {
            self.core.nomination_ended(old);
        }
    }

    /// A pod went away while it was assumed: what it held is free again.
    fn assumed_pod_deleted(&mut self, uid: &Arc<str>) {
        let Some(assumed) = self.core.cluster.pod(uid).cloned() else { return };
        // No plugin is to blame, so no event brings the pod back.
        let no_plugin = PluginName::default();
        if !self.bindings.reject(self.core, uid, &no_plugin, "removed".into())
            && let Err(error) = self.core.cluster.forget_pod(uid)
        {
            self.core.note(format!("pod {}: {error}", assumed.key()));
        }
        let object = EventObject::Pod(assumed);
        self.core.move_all(&ClusterEvent::ASSIGNED_POD_DELETE, Some(&object), None);
    }

    fn known_node(&self, name: &str) -> Option<Arc<Node>> {
        let cluster = &self.core.cluster;
        cluster.node(cluster.node_idx(name)?).cloned()
    }

    pub(crate) fn node_applied(&mut self, node: Arc<Node>) {
        let new_object = EventObject::Node(node.clone());
        let Some(old) = self.known_node(&node.name) else {
            self.core.cluster.add_node(node);
            let event = ClusterEvent::new(EventResource::Node, ActionType::ADD);
            self.core.measures.applied();
            return self.happened(&event, None, Some(&new_object));
        };
        self.core.cluster.update_node(node.clone());
        let old_object = EventObject::Node(old.clone());
        self.core.measures.applied();
        for event in node_changes(&node, &old) {
            self.happened(&event, Some(&old_object), Some(&new_object));
        }
    }

    pub(crate) fn node_deleted(&mut self, name: &str) {
        if let Some(node) = self.known_node(name) {
            let object = EventObject::Node(node);
            let event = ClusterEvent::new(EventResource::Node, ActionType::DELETE);
            self.happened(&event, Some(&object), None);
        }
        if let Err(error) = self.core.cluster.remove_node(name) {
            self.core.note(error.to_string());
        }
    }

    pub(crate) fn object_applied(&mut self, object: Arc<Object>) {
        let object = self.core.foreign.as_pod_group(&object).unwrap_or(object);
        if self.core.cluster.objects().is_stale(&object) {
            return;
        }
        let parent = parent_of(self.core, &object);
        let old = self.core.cluster.upsert_object(object.clone());
        remark_on_parent(self.core, &object, parent.as_ref());
        self.object_upserted(old, object);
    }

    /// The API server answered a write with this revision.
    pub(crate) fn object_confirmed(&mut self, object: Arc<Object>) {
        if let Some(old) = self.core.cluster.confirm_object(object.clone()) {
            self.object_upserted(Some(old), object);
        }
    }

    fn object_upserted(&mut self, old: Option<Arc<Object>>, object: Arc<Object>) {
        self.core.readers.changed(old.as_ref(), Some(&object));
        let resource = self.resource_of(&object);
        let action = if old.is_some() { ActionType::UPDATE } else { ActionType::ADD };
        let old = old.map(EventObject::Other);
        let new = EventObject::Other(object.clone());
        let event = ClusterEvent::new(resource, action);
        self.core.measures.applied();
        self.object_changed(&event, old.as_ref(), Some(&new));
        self.bindings.object_changed(self.core, &object);
        self.group_changed(&object);
    }

    /// The resource that plugins register for to be notified of an object.
    fn resource_of(&self, object: &Object) -> EventResource {
        self.core.foreign.resource_of(object, &self.core.plans.custom_resources)
    }

    /// A group that its members wait for may have changed.
    fn group_changed(&mut self, object: &Object) {
        if self.core.plans.groups.has_gangs
            && *object.kind == *PodGroup::KIND
            && *object.group == *PodGroup::GROUP
        {
            group_changed(self.core, &object.namespace, &object.name);
        }
    }

    /// Reports to the queue an event of another kind. Kinds that no plugin registered for are watched for other reasons, and
    /// the reference does not count them.
    fn object_changed(
        &mut self,
        event: &ClusterEvent,
        old: Option<&EventObject>,
        new: Option<&EventObject>,
    ) {
        if self.core.with_queue(|queue, _| queue.is_of_interest(event)) {
            self.happened(event, old, new);
        }
    }

    pub(crate) fn object_deleted(&mut self, object: &Object) {
        let group = self.core.foreign.as_pod_group(object);
        let object = group.as_deref().unwrap_or(object);
        let Object { group, kind, namespace, name, .. } = object;
        let removed = self.core.cluster.remove_object(group, kind, namespace, name);
        let Some(old) = removed else { return };
        self.core.readers.changed(Some(&old), None);
        let resource = self.resource_of(&old);
        let old = EventObject::Other(old);
        // Parity: DynamicResources does not register for claims that go, and so the reference wakes no pod for their devices,
        // such as those of claims that it made itself for extended resources. To the queue they change to nothing.
        let action = match &resource {
            EventResource::ResourceClaim => ActionType::UPDATE,
            _ => ActionType::DELETE,
        };
        let event = ClusterEvent::new(resource, action);
        self.core.measures.applied();
        self.object_changed(&event, Some(&old), None);
        self.bindings.object_changed(self.core, object);
        self.group_changed(object);
    }
}
