//! VolumeZone: volumes whose labels say where they are, and nodes elsewhere.
//!
//! Answers to `plugins/volumezone/volume_zone.go` of the reference; behaviour in `docs/spec/plugins-storage.md` §5.

mod places;

use std::sync::Arc;

use kube_scheduler_framework::api::{Labels, Pod};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, Context, CycleState, EnqueueExtensions, EventRegistration,
    EventResource, Filter, Handle, NodeView, Plugin, PluginArgs, PluginError, PreFilter,
    PreFilterOutcome, Sign, SignatureWriter, Status,
};

use self::places::{Place, is_placed, places_of};
use crate::event_topics;
use crate::volumes::{
    StorageClass, claim, names_claim, plain_claims, storage_class, volume, write_volumes,
};

pub(crate) const NAME: &str = "VolumeZone";

const REASON: &str = "node(s) had no available volume zone";

pub(crate) fn new(_: &PluginArgs, _: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    let rejection = Status::unresolvable(REASON).from_plugin(&NAME.into());
    Ok(Arc::new(VolumeZone { rejection }))
}

struct VolumeZone {
    rejection: Status,
}

/// Where all volumes of the pod are.
#[derive(Clone)]
struct Places(Arc<[Place]>);

impl Places {
    fn allow(&self, node: &Labels) -> bool {
        !is_placed(node) || self.0.iter().all(|place| place.includes(node))
    }
}

/// Where the volumes of the pod's claims are, or why the pod fits nowhere.
fn places_of_pod(cx: &Context<'_>, pod: &Pod) -> Result<Vec<Place>, Status> {
    let mut places = Vec::new();
    for name in plain_claims(pod) {
        if name.is_empty() {
            return Err(Status::unresolvable("PersistentVolumeClaim had no name"));
        }
        let claim = claim(cx.cluster(), &pod.namespace, name).map_err(Status::unresolvable)?;
        if !claim.volume_name().is_empty() {
            let volume = volume(cx.cluster(), claim.volume_name());
            places.extend(places_of(volume.map_err(Status::unresolvable)?.object()));
            continue;
        }
        let class = claim.class();
        if class.is_empty() {
            return Err(Status::unresolvable(
                "PersistentVolumeClaim had no pv name and storageClass name",
            ));
        }
        let class = storage_class(cx.cluster(), class);
        if !class.and_then(StorageClass::binds_late).map_err(Status::unresolvable)? {
            return Err(Status::unresolvable("PersistentVolume had no name"));
        }
    }
    Ok(places)
}

plugin!(VolumeZone, PreFilter, Filter, EnqueueExtensions, Sign);

impl PreFilter for VolumeZone {
    fn pre_filter(&self, cx: &Context<'_>, state: &mut CycleState, pod: &Pod) -> PreFilterOutcome {
        match places_of_pod(cx, pod) {
            Err(status) => status.into(),
            Ok(places) if places.is_empty() => PreFilterOutcome::skip(),
            Ok(places) => {
                state.insert(Places(places.into()));
                PreFilterOutcome::success()
            }
        }
    }
}

impl Filter for VolumeZone {
    fn filter(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        let is_allowed = match state.get::<Places>() {
            Some(places) => places.allow(node.labels()),
            None => match places_of_pod(cx, pod) {
                Err(status) => return status,
                Ok(places) => Places(places.into()).allow(node.labels()),
            },
        };
        if is_allowed { Status::SUCCESS } else { self.rejection.clone() }
    }
}

impl Sign for VolumeZone {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        write_volumes(pod, signature)
    }
}

impl EnqueueExtensions for VolumeZone {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        let added_or_updated = ActionType::ADD | ActionType::UPDATE;
        let node_actions = ActionType::ADD | ActionType::UPDATE_NODE_LABEL;
        vec![
            EventRegistration::on_object(
                EventResource::StorageClass,
                ActionType::ADD,
                |_, _, _, added| {
                    added.is_none_or(|class| StorageClass(class).binds_late() == Ok(true))
                },
            ),
            EventRegistration::always(ClusterEvent::new(EventResource::Node, node_actions)),
            event_topics::on_volume_claim(added_or_updated, names_claim),
            // Quirk: whether the pod uses the volume does not matter.
            EventRegistration::on_object(
                EventResource::PersistentVolume,
                added_or_updated,
                |_, _, before, after| {
                    before.zip(after).is_none_or(|(before, after)| {
                        before.name != after.name || places_of(before) != places_of(after)
                    })
                },
            ),
        ]
    }
}
