//! What the cluster tells: pods, nodes and other objects come, change and go.
//!
//! Behaviour: `spec/queue.md` §11.2 to §11.4.
//!
//! Invariant: a change is in the cluster state before anybody in the queue is asked whether it helps, but for a deleted
//! node, which hints still may look at.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::{Node, Object, Pod, Timestamp};
use kube_scheduler_framework::{ActionType, ClusterEvent, EventObject, EventResource, PluginName};

use crate::changes::{node_changes, pod_changes};
use crate::engine::Engine;
use crate::policy::Entry;

impl Engine {
    pub(crate) fn pod_applied(&mut self, pod: Arc<Pod>, now: Timestamp) {
        let old = self.pods.insert(pod.clone());
        if pod.deletion_requested.is_some() {
            self.preemptions.pod_goes(&pod.uid);
        }
        let Some(old) = old else {
            return self.pod_added(pod, now);
        };
        if old.uid != pod.uid {
            // A pod re-created under the same name, with the deletion missed in between. What the old one held or was
            // assumed to hold would never be given back.
            self.pod_removed(&old, now);
            self.wake_tasks_of(&old.uid, now);
            return self.pod_added(pod, now);
        }
        match (old.is_assigned(), pod.is_assigned()) {
            (true, true) => self.assigned_pod_updated(&old, &pod, now),
            // A pod never loses its node; one that seems to is another pod.
            (true, false) => {
                self.assigned_pod_removed(&old, now);
                self.pod_added(pod, now);
            }
            (false, true) => {
                self.assigned_pod_added(&pod, now);
                if self.is_ours(&old) {
                    self.with_queue(now, |queue, policy| queue.delete(&Entry(old.clone()), policy));
                }
            }
            (false, false) if self.is_ours(&old) => self.pending_pod_updated(&old, &pod, now),
            (false, false) if self.is_ours(&pod) => self.pod_added(pod, now),
            (false, false) => {}
        }
    }

    pub(crate) fn pod_deleted(&mut self, namespace: &str, name: &str, now: Timestamp) {
        if let Some(pod) = self.pods.remove(namespace, name) {
            self.pod_removed(&pod, now);
            self.wake_tasks_of(&pod.uid, now);
        }
    }

    fn is_ours(&self, pod: &Pod) -> bool {
        self.profile_of(pod).is_some()
    }

    fn pod_added(&mut self, pod: Arc<Pod>, now: Timestamp) {
        if pod.is_assigned() {
            self.assigned_pod_added(&pod, now);
        } else if self.is_ours(&pod) {
            self.with_queue(now, |queue, policy| queue.add(Entry(pod.clone()), now, policy));
            self.measures.input_handled(ClusterEvent::UNSCHEDULABLE_POD_ADD.label());
        }
    }

    /// Tells the queue of an event of the input at hand, whose object is up to date by now.
    fn happened(
        &mut self,
        event: &ClusterEvent,
        old: Option<&EventObject>,
        new: Option<&EventObject>,
        now: Timestamp,
    ) {
        self.move_all(event, old, new, now);
        self.measures.event_handled(event.label());
    }

    fn pod_removed(&mut self, pod: &Arc<Pod>, now: Timestamp) {
        self.preemptions.pod_goes(&pod.uid);
        if pod.is_assigned() {
            return self.assigned_pod_removed(pod, now);
        }
        if !self.is_ours(pod) {
            return;
        }
        self.with_queue(now, |queue, policy| queue.delete(&Entry(pod.clone()), policy));
        if self.cluster.is_assumed(&pod.uid) {
            self.assumed_pod_deleted(&pod.uid.clone(), now);
        } else if pod.nominated_node_name().is_some() {
            self.lower_pods_may_move(pod, now);
        }
        self.measures.input_handled(ClusterEvent::UNSCHEDULABLE_POD_DELETE.label());
    }

    fn assigned_pod_added(&mut self, pod: &Arc<Pod>, now: Timestamp) {
        if let Err(error) = self.cluster.add_pod(pod.clone()) {
            self.note(format!("pod {}: {error}", pod.key()));
        }
        let object = EventObject::Pod(pod.clone());
        self.measures.applied();
        self.happened(&ClusterEvent::ASSIGNED_POD_ADD, None, Some(&object), now);
    }

    fn assigned_pod_updated(&mut self, old: &Arc<Pod>, new: &Arc<Pod>, now: Timestamp) {
        if let Err(error) = self.cluster.update_pod(new.clone()) {
            self.note(format!("pod {}: {error}", new.key()));
        }
        let (old_object, new_object) =
            (EventObject::Pod(old.clone()), EventObject::Pod(new.clone()));
        self.measures.applied();
        let mut has_generic = false;
        for event in pod_changes(new, old) {
            has_generic |= event == ClusterEvent::ASSIGNED_POD_UPDATE;
            self.happened(&event, Some(&old_object), Some(&new_object), now);
        }
        // The reference counts a generic update twice, once as the whole and once as one of its parts.
        if !has_generic {
            self.measures.input_handled(ClusterEvent::ASSIGNED_POD_UPDATE.label());
        }
    }

    fn assigned_pod_removed(&mut self, pod: &Arc<Pod>, now: Timestamp) {
        if let Err(error) = self.cluster.remove_pod(&pod.uid) {
            self.note(format!("pod {}: {error}", pod.key()));
        }
        let object = EventObject::Pod(pod.clone());
        self.measures.applied();
        self.happened(&ClusterEvent::ASSIGNED_POD_DELETE, Some(&object), None, now);
    }

    fn pending_pod_updated(&mut self, old: &Arc<Pod>, new: &Arc<Pod>, now: Timestamp) {
        if old.resource_version == new.resource_version && !new.resource_version.is_empty() {
            return;
        }
        if self.cluster.is_assumed(&new.uid) {
            if old.deletion_requested.is_none() && new.deletion_requested.is_some() {
                self.assumed_pod_deleted(&new.uid.clone(), now);
            }
            return;
        }
        let events = pod_changes(new, old);
        self.with_queue(now, |queue, policy| {
            queue.update(&Entry(old.clone()), Entry(new.clone()), &events, now, policy);
        });
        if old.nominated_node_name().is_some()
            && old.nominated_node_name() != new.nominated_node_name()
        {
            self.lower_pods_may_move(old, now);
        }
        let update = ClusterEvent::UNSCHEDULABLE_POD_UPDATE.label();
        for label in events.iter().map(ClusterEvent::label).filter(|label| *label != update) {
            self.measures.input_handled(label);
        }
        self.measures.input_handled(update);
    }

    /// A nomination is gone: what it kept free is there for pods of the same priority or less.
    fn lower_pods_may_move(&mut self, pod: &Arc<Pod>, now: Timestamp) {
        let object = EventObject::Pod(pod.clone());
        let limit = pod.priority();
        self.with_queue(now, |queue, policy| {
            let event = &ClusterEvent::ASSIGNED_POD_DELETE;
            queue.move_all_if(
                event,
                Some(&object),
                None,
                |entry| entry.0.priority() <= limit,
                now,
                policy,
            )
        });
    }

    /// A pod went away while it was assumed: what it held is free again.
    fn assumed_pod_deleted(&mut self, uid: &Arc<str>, now: Timestamp) {
        let Some(assumed) = self.cluster.pod(uid).cloned() else { return };
        let nobody: PluginName = "".into();
        if !self.reject_waiting(uid, &nobody, "removed".into(), now)
            && let Err(error) = self.cluster.forget_pod(uid)
        {
            self.note(format!("pod {}: {error}", assumed.key()));
        }
        let object = EventObject::Pod(assumed);
        self.move_all(&ClusterEvent::ASSIGNED_POD_DELETE, Some(&object), None, now);
    }

    pub(crate) fn node_applied(&mut self, node: Arc<Node>, now: Timestamp) {
        let old = self.cluster.node_idx(&node.name).and_then(|idx| self.cluster.node(idx)).cloned();
        let new_object = EventObject::Node(node.clone());
        match old {
            None => {
                self.cluster.add_node(node);
                let event = ClusterEvent::new(EventResource::Node, ActionType::ADD);
                self.measures.applied();
                self.happened(&event, None, Some(&new_object), now);
            }
            Some(old) => {
                self.cluster.update_node(node.clone());
                let old_object = EventObject::Node(old.clone());
                self.measures.applied();
                for event in node_changes(&node, &old) {
                    self.happened(&event, Some(&old_object), Some(&new_object), now);
                }
            }
        }
    }

    pub(crate) fn node_deleted(&mut self, name: &str, now: Timestamp) {
        let node = self.cluster.node_idx(name).and_then(|idx| self.cluster.node(idx)).cloned();
        if let Some(node) = node {
            let object = EventObject::Node(node);
            let event = ClusterEvent::new(EventResource::Node, ActionType::DELETE);
            self.happened(&event, Some(&object), None, now);
        }
        if let Err(error) = self.cluster.remove_node(name) {
            self.note(error.to_string());
        }
    }

    pub(crate) fn object_applied(&mut self, object: Arc<Object>, now: Timestamp) {
        let resource = resource_of(&object, &self.plans.custom_resources);
        let old = self.cluster.upsert_object(object.clone());
        let action = if old.is_some() { ActionType::UPDATE } else { ActionType::ADD };
        let old = old.map(EventObject::Other);
        let new = EventObject::Other(object.clone());
        let event = ClusterEvent::new(resource, action);
        self.measures.applied();
        self.object_changed(&event, old.as_ref(), Some(&new), now);
        self.wake_tasks_for(&object, now);
    }

    /// Tells the queue of another kind's event. Kinds that nobody registered for are followed for other reasons, and the
    /// reference does not count them.
    fn object_changed(
        &mut self,
        event: &ClusterEvent,
        old: Option<&EventObject>,
        new: Option<&EventObject>,
        now: Timestamp,
    ) {
        if self.queue.is_of_interest(event) {
            self.happened(event, old, new, now);
        }
    }

    pub(crate) fn object_deleted(&mut self, object: &Object, now: Timestamp) {
        let removed = self.cluster.remove_object(
            &object.group,
            &object.kind,
            &object.namespace,
            &object.name,
        );
        let Some(old) = removed else { return };
        let resource = resource_of(&old, &self.plans.custom_resources);
        let old = EventObject::Other(old);
        let event = ClusterEvent::new(resource, ActionType::DELETE);
        self.measures.applied();
        self.object_changed(&event, Some(&old), None, now);
        self.wake_tasks_for(object, now);
    }
}

/// The resource that plugins register for to hear of this object. An object does not tell its plural: of the usual ones,
/// the one that somebody registered for is meant.
fn resource_of(object: &Object, custom: &BTreeSet<Arc<str>>) -> EventResource {
    match (&*object.group, &*object.kind) {
        ("", "PersistentVolume") => EventResource::PersistentVolume,
        ("", "PersistentVolumeClaim") => EventResource::PersistentVolumeClaim,
        ("storage.k8s.io", "CSINode") => EventResource::CsiNode,
        ("storage.k8s.io", "CSIDriver") => EventResource::CsiDriver,
        ("storage.k8s.io", "VolumeAttachment") => EventResource::VolumeAttachment,
        ("storage.k8s.io", "CSIStorageCapacity") => EventResource::CsiStorageCapacity,
        ("storage.k8s.io", "StorageClass") => EventResource::StorageClass,
        ("resource.k8s.io", "ResourceClaim") => EventResource::ResourceClaim,
        ("resource.k8s.io", "ResourceSlice") => EventResource::ResourceSlice,
        ("resource.k8s.io", "DeviceClass") => EventResource::DeviceClass,
        ("scheduling.k8s.io", "PodGroup") => EventResource::PodGroup,
        (group, kind) => {
            let kind = kind.to_lowercase();
            let name = |plural: String| format!("{plural}.{}.{group}", object.version);
            let stem = kind.strip_suffix('y').map(|stem| format!("{stem}ies"));
            let others = [Some(format!("{kind}es")), stem, Some(kind.clone())];
            let registered =
                others.into_iter().flatten().map(name).find(|name| custom.contains(name.as_str()));
            EventResource::Custom(registered.unwrap_or_else(|| name(format!("{kind}s"))).into())
        }
    }
}
