//! Where a volume is, by its labels; its node affinity is VolumeBinding's business.

use std::collections::BTreeSet;

use kube_scheduler_framework::api::well_known::{BETA_REGION, BETA_ZONE, REGION, ZONE};
use kube_scheduler_framework::api::{Labels, Object};

use crate::volumes::ZONE_DELIMITER;

/// The labels that say where something is, in the order in which they are read, with their present names.
const KEYS: [(&str, &str); 4] =
    [(BETA_ZONE, ZONE), (BETA_REGION, REGION), (ZONE, ZONE), (REGION, REGION)];

/// One label of a volume: which values of the label a node may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    key: &'static str,
    /// The present name of `key`, where nodes without it are looked at instead.
    present_key: &'static str,
    values: BTreeSet<String>,
}

impl Place {
    /// Whether a node with these labels is there.
    pub(super) fn includes(&self, node: &Labels) -> bool {
        let value = node.get(self.key).or_else(|| node.get(self.present_key));
        value.is_some_and(|value| self.values.contains(value))
    }
}

/// Whether a node says at all where it is.
pub(super) fn is_placed(node: &Labels) -> bool {
    KEYS.iter().any(|(key, _)| node.contains_key(key))
}

/// Where a volume is. A label with an empty part is left out.
pub(super) fn places_of(volume: &Object) -> Vec<Place> {
    let place = |(key, present_key): &(&'static str, &'static str)| {
        let values: BTreeSet<String> = volume
            .labels
            .get(key)?
            .split(ZONE_DELIMITER)
            .map(|value| value.trim().to_owned())
            .collect();
        let is_usable = !values.contains("");
        is_usable.then_some(Place { key, present_key, values })
    };
    KEYS.iter().filter_map(place).collect()
}
