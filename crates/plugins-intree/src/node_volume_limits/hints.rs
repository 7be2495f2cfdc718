//! Which events can make room for a pod that NodeVolumeLimits rejected (`docs/spec/plugins-storage.md` §6.4).
//!
//! Quirks: no pod is retried for a driver that appears without a count, nor for its ephemeral volumes when an attachment
//! goes.

use std::collections::BTreeMap;

use kube_scheduler_framework::api::{InTreePlugin, Object, Pod, VolumeSource};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, EventRegistration, EventResource, QueueingHint,
};

use super::can_count;
use crate::volumes::{CsiNode, VolumeAttachment};
use crate::{event_objects, event_topics};

/// All events the plugin waits for.
pub(super) fn events() -> Vec<EventRegistration> {
    let event = ClusterEvent::new;
    vec![
        EventRegistration::always(event(EventResource::CsiNode, ActionType::ADD)),
        EventRegistration::with_hint(
            event(EventResource::CsiNode, ActionType::UPDATE),
            |_, _, old, new| {
                // Without both objects nothing can be compared: a useless retry is better than a pod that waits for ever.
                let (Some(old), Some(new)) = event_objects::others(old, new)? else {
                    return Ok(QueueingHint::Queue);
                };
                Ok(QueueingHint::queue_if(has_more_room(old, new)))
            },
        ),
        EventRegistration::with_hint(
            event(EventResource::Pod, ActionType::DELETE),
            |_, _, old, new| {
                let (Some(deleted), _) = event_objects::pods(old, new)? else {
                    return Ok(QueueingHint::Queue);
                };
                Ok(QueueingHint::queue_if(made_room(deleted)))
            },
        ),
        EventRegistration::with_hint(
            event(EventResource::PersistentVolumeClaim, ActionType::ADD),
            |_, pod, old, new| {
                let (_, Some(added)) = event_objects::others(old, new)? else {
                    return Ok(QueueingHint::Queue);
                };
                let is_own = added.namespace == pod.namespace
                    && pod.volumes.iter().any(|volume| {
                        volume.claim_in(&pod.name).is_some_and(|claim| *claim.name == *added.name)
                    });
                Ok(QueueingHint::queue_if(is_own))
            },
        )
        .by_topic(event_topics::volume_claims, event_topics::object),
        EventRegistration::with_hint(
            event(EventResource::VolumeAttachment, ActionType::DELETE),
            |_, pod, old, new| {
                let (Some(deleted), _) = event_objects::others(old, new)? else {
                    return Ok(QueueingHint::Queue);
                };
                Ok(QueueingHint::queue_if(may_use(pod, VolumeAttachment(deleted).attacher())?))
            },
        ),
    ]
}

/// Whether a node can attach more volumes of some driver than before; without a count, none. Of a name that was listed twice
/// the last entry counts, with a count or without, and not the last count, which Filter looks up.
fn has_more_room(old: &Object, new: &Object) -> bool {
    let limits = |node| CsiNode(node).drivers().map(|(driver, count)| (driver, count.unwrap_or(0)));
    let before: BTreeMap<&str, i64> = limits(old).collect();
    limits(new).any(|(driver, now)| now > before.get(driver).copied().unwrap_or(0))
}

/// Whether a deleted pod had a volume that could count, and was on or about to be on a node.
fn made_room(deleted: &Pod) -> bool {
    deleted.is_assigned_or_nominated()
        && deleted.volumes.iter().any(|volume| can_count(&volume.source))
}

/// Whether the pod may have waited for one of a driver's places; an error counts as yes.
fn may_use(pod: &Pod, attacher: &str) -> Result<bool, String> {
    for volume in pod.volumes.iter() {
        if matches!(volume.source, VolumeSource::Claim { .. }) {
            return Ok(true);
        }
        if let Some(plugin) = InTreePlugin::of_inline(&volume.source)
            && plugin.translate_inline(&volume.source)?.driver == attacher
        {
            return Ok(true);
        }
    }
    Ok(false)
}
