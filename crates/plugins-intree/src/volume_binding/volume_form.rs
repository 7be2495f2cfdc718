//! What a search for volumes reads of a volume, compiled once and kept with the object.

use std::sync::Arc;

use kube_scheduler_framework::api::Quantity;

use super::affinity::VolumeAffinity;
use crate::volumes::{PersistentVolume, StorageObject};

/// A volume as the search sees it.
#[derive(Clone, Debug)]
pub(super) struct VolumeForm {
    pub(super) capacity: Quantity,
    pub(super) affinity: VolumeAffinity,
    /// Any claim may have it.
    pub(super) is_free: bool,
    pub(super) kind: VolumeKind,
    pub(super) access_modes: Box<[Box<str>]>,
}

/// What is the same in a claim and its volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct VolumeKind {
    volume_mode: Box<str>,
    attributes_class: Box<str>,
}

impl VolumeKind {
    pub(super) fn of(object: StorageObject<'_>) -> Self {
        Self {
            volume_mode: object.volume_mode().into(),
            attributes_class: object.attributes_class().into(),
        }
    }
}

impl VolumeForm {
    pub(super) fn of(volume: PersistentVolume<'_>) -> Arc<Self> {
        volume.object().read_as(|_| Self {
            capacity: volume.capacity().unwrap_or_default(),
            affinity: VolumeAffinity::new(volume),
            is_free: volume.claim_ref().is_none()
                && volume.phase() == "Available"
                && !volume.is_being_deleted(),
            kind: VolumeKind::of(*volume),
            access_modes: volume.access_modes().map(Into::into).collect(),
        })
    }
}
