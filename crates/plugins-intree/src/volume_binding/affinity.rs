//! Where a volume can be reached from: its node affinity, checked against labels alone (`docs/spec/plugins-storage.md` §2.2).
//!
//! Quirk: terms on fields match every node, as the reference checks a node without a name. Pinned by
//! `terms_on_fields_match_every_node`.

use std::sync::Arc;

use kube_scheduler_framework::api::wire;
use kube_scheduler_framework::api::{
    CsiTranslationError, InTreePlugin, Labels, NodeSelector, Requirement,
};
use serde::Deserialize;

use super::volume_form::VolumeForm;
use crate::volumes::{CsiNode, PersistentVolume, translated_node_affinity};

/// What the reference says when no term matches.
const NO_MATCH: &str = "no matching NodeSelectorTerms";

/// The compiled node affinity of a volume.
#[derive(Clone, Debug)]
pub(super) struct VolumeAffinity(Option<NodeSelector>);

impl VolumeAffinity {
    /// Of the volume as it is written.
    pub(super) fn new(volume: PersistentVolume<'_>) -> Self {
        let required = volume.required_node_affinity();
        let required = required.map(wire::NodeSelector::deserialize);
        Self(required.map(|required| NodeSelector::from_wire(&required.unwrap_or_default())))
    }

    /// Whether nodes with these labels can reach the volume.
    pub(super) fn matches(&self, labels: &Labels) -> bool {
        self.0.as_ref().is_none_or(|selector| selector.matches(labels, ""))
    }

    /// Says why nodes with these labels cannot reach the volume, if they cannot.
    pub(super) fn check(&self, labels: &Labels) -> Result<(), String> {
        let Some(selector) = &self.0 else { return Ok(()) };
        match selector.matches_or_error(labels, "") {
            Ok(true) => Ok(()),
            Ok(false) => Err(NO_MATCH.to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// What a node must fulfil to match, as far as that is a list of requirements. Volumes can be indexed by it.
    pub(super) fn requirements(&self) -> &[Requirement] {
        match self.0.as_ref().map(NodeSelector::terms) {
            Some([Ok(term)]) => &term.expressions,
            _ => &[],
        }
    }
}

/// The node affinity of a bound volume, which depends on whether the node has its plugin migrated to CSI.
#[derive(Clone, Debug)]
pub(super) struct BoundAffinity {
    /// The volume's name.
    pub(super) volume: Arc<str>,
    plain: Arc<VolumeForm>,
    migrated: Option<(InTreePlugin, Result<VolumeAffinity, CsiTranslationError>)>,
}

impl BoundAffinity {
    pub(super) fn new(volume: PersistentVolume<'_>) -> Self {
        let plugin =
            InTreePlugin::of_volume(volume.object()).filter(|plugin| plugin.is_migration_on());
        let migrated = plugin.map(|plugin| {
            let translated = plugin.translate_volume(volume.object()).map(|_| {
                let affinity = translated_node_affinity(plugin, volume);
                VolumeAffinity(affinity.map(|affinity| NodeSelector::from_wire(&affinity)))
            });
            (plugin, translated)
        });
        let plain = VolumeForm::of(volume);
        Self { volume: volume.object().name.clone(), plain, migrated }
    }

    /// Whether there is none, on whatever node.
    pub(super) fn is_none(&self) -> bool {
        self.plain.affinity.0.is_none() && self.migrated.is_none()
    }

    /// The affinity that counts on a node; `csi_node` is only asked for if it matters. The error is that of a volume that
    /// cannot be translated.
    pub(super) fn on<'a>(
        &self,
        csi_node: impl FnOnce() -> Option<CsiNode<'a>>,
    ) -> Result<&VolumeAffinity, String> {
        match &self.migrated {
            Some((plugin, translated))
                if csi_node().is_some_and(|node| node.has_migrated(*plugin)) =>
            {
                translated.as_ref().map_err(|error| format!("could not translate pv: {error}"))
            }
            _ => Ok(&self.plain.affinity),
        }
    }
}
