//! The changes to volumes and claims that are assumed for a pod once its node is chosen (`docs/spec/plugins-storage.md` §3.9).

use std::sync::Arc;

use kube_scheduler_framework::api::Object;
use kube_scheduler_framework::{Commands, ObjectStore};

use super::find::{StaticBinding, VolumeMatch};
use super::matching::{bound_to_claim, with_selected_node};

/// The objects that are to be written, as they are expected to become.
#[derive(Clone, Debug, Default)]
pub(super) struct Reservation {
    /// Claims with the volumes that will be theirs.
    pub(super) bindings: Vec<StaticBinding>,
    /// Claims with the node for which their volume is to be made.
    pub(super) provisions: Vec<Arc<Object>>,
}

impl Reservation {
    /// Assumes the changes that were found for a node. After an error nothing is assumed any more.
    pub(super) fn new(
        objects: &ObjectStore,
        found: &VolumeMatch<'_>,
        node: &str,
        commands: &mut Commands,
    ) -> Result<Self, String> {
        let mut reservation = Self::default();
        let filled = reservation.fill(objects, found, node, commands);
        if filled.is_err() {
            reservation.give_back(0, commands);
        }
        filled.map(|()| reservation)
    }

    fn fill(
        &mut self,
        objects: &ObjectStore,
        found: &VolumeMatch<'_>,
        node: &str,
        commands: &mut Commands,
    ) -> Result<(), String> {
        for StaticBinding { claim, volume } in &found.bindings {
            let volume = match bound_to_claim(volume, claim) {
                // One that is the claim's already is written nevertheless, but nothing changes until then.
                None => volume.clone(),
                Some(changed) => {
                    objects.check_assumable(&changed).map_err(|error| error.to_string())?;
                    commands.assume_object(changed.clone());
                    changed
                }
            };
            self.bindings.push(StaticBinding { claim: claim.clone(), volume });
        }
        for provision in &found.provisions {
            let changed = with_selected_node(provision.claim, node);
            objects.check_assumable(&changed).map_err(|error| error.to_string())?;
            commands.assume_object(changed.clone());
            self.provisions.push(changed);
        }
        Ok(())
    }

    /// Undoes what is assumed of the objects whose revision is still the one that was changed, but for the first `n_written`:
    /// bindings are written first, then provisions.
    pub(super) fn give_back(&self, n_written: usize, commands: &mut Commands) {
        let volumes = self.bindings.iter().map(|binding| &binding.volume);
        let left = volumes.chain(&self.provisions).skip(n_written);
        left.for_each(|object| commands.restore_object(object.clone()));
    }
}
