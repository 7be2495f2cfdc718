//! Which events can make room for a pod that NodeVolumeLimits rejected (`docs/spec/plugins-storage.md` §6.4).
//!
//! Quirks: no pod is retried for a driver that appears without a count, nor for its ephemeral volumes when an attachment
//! goes.

use std::collections::BTreeMap;

use kube_scheduler_framework::api::{InTreePlugin, Object, Pod, VolumeSource};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, EnqueueExtensions, EventRegistration, EventResource, PluginError,
};

use super::{NodeVolumeLimits, has_countable};
use crate::event_topics;
use crate::volumes::{CsiNode, uses_claim};

impl EnqueueExtensions for NodeVolumeLimits {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        vec![
            EventRegistration::always(ClusterEvent::new(EventResource::CsiNode, ActionType::ADD)),
            EventRegistration::on_object(
                EventResource::CsiNode,
                ActionType::UPDATE,
                // Without both objects nothing can be compared: a useless retry is better than a pod that waits for ever.
                |_, _, old, new| old.zip(new).is_none_or(|(old, new)| has_more_room(old, new)),
            ),
            // One that had a volume that could count, and was on or about to be on a node.
            EventRegistration::on_pod(ActionType::DELETE, |_, _, deleted, _| {
                deleted.is_none_or(|pod| pod.is_assigned_or_nominated() && has_countable(pod))
            }),
            event_topics::on_volume_claim(ActionType::ADD, uses_claim),
            EventRegistration::on_object(
                EventResource::VolumeAttachment,
                ActionType::DELETE,
                |_, pod, deleted, _| {
                    let Some(deleted) = deleted else { return Ok(true) };
                    may_use(pod, deleted.json["spec"]["attacher"].as_str().unwrap_or_default())
                },
            ),
        ]
    }
}

/// Whether a node can attach more volumes of some driver than before; without a count, none. Of a name that was listed twice
/// the last entry counts, with a count or without, and not the last count, which Filter looks up.
fn has_more_room(old: &Object, new: &Object) -> bool {
    let limits = |node| CsiNode(node).drivers().map(|(driver, count)| (driver, count.unwrap_or(0)));
    let before: BTreeMap<&str, i64> = limits(old).collect();
    limits(new).any(|(driver, now)| now > before.get(driver).copied().unwrap_or(0))
}

/// Whether the pod may have waited for one of a driver's places; an error counts as yes.
fn may_use(pod: &Pod, attacher: &str) -> Result<bool, PluginError> {
    for volume in pod.volumes.iter() {
        if matches!(volume.source, VolumeSource::Claim { .. }) {
            return Ok(true);
        }
        if let Some(plugin) = InTreePlugin::of_inline(&volume.source) {
            let translated = plugin.translate_inline(&volume.source);
            if translated.map_err(|error| error.to_string())?.driver == attacher {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
