//! How much of the storage that a pod would use on a node is in use then (`docs/spec/plugins-storage.md` §3.8).
//!
//! Parity: where the reference would crash, a capacity that only says its largest volume counts as 0, and the class of a
//! claim may come from its annotation.

use std::collections::BTreeMap;

use kube_scheduler_framework::api::{Object, Quantity};

use super::find::VolumeMatch;
use crate::resources::shape::Shape;
use crate::volumes::{PersistentVolume, VolumeClaim};

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    requested: i64,
    capacity: i64,
}

/// The score of a node on which the claims would be served like this.
pub(super) fn score(found: &VolumeMatch<'_>, shape: &Shape) -> i64 {
    let usages = if found.bindings.is_empty() { of_provisions(found) } else { of_bindings(found) };
    if usages.is_empty() {
        return 0;
    }
    let sum: i64 = usages.values().map(|usage| shape.score_at(usage.percentage())).sum();
    (sum as f64 / usages.len() as f64).round() as i64
}

impl Usage {
    fn percentage(self) -> i64 {
        if self.capacity == 0 || self.requested > self.capacity {
            return 100;
        }
        self.requested.wrapping_mul(100).checked_div(self.capacity).unwrap_or(100)
    }
}

fn of_bindings<'a>(found: &'a VolumeMatch<'_>) -> BTreeMap<&'a str, Usage> {
    let mut usages: BTreeMap<&str, Usage> = BTreeMap::new();
    for binding in &found.bindings {
        let volume = PersistentVolume::new(&binding.volume);
        // Quirk: the class's name is read from the field alone, whatever the annotation says.
        let class = volume.spec()["storageClassName"].as_str().unwrap_or_default();
        let usage = usages.entry(class).or_default();
        usage.requested = usage.requested.wrapping_add(requested(&binding.claim));
        let capacity = volume.capacity().as_ref().map_or(0, Quantity::value);
        usage.capacity = usage.capacity.wrapping_add(capacity);
    }
    usages
}

fn of_provisions<'a>(found: &'a VolumeMatch<'_>) -> BTreeMap<&'a str, Usage> {
    let mut usages: BTreeMap<&str, Usage> = BTreeMap::new();
    for provision in &found.provisions {
        let Some(capacity) = provision.capacity else { continue };
        let usage = usages.entry(VolumeClaim::new(provision.claim).class()).or_default();
        usage.requested = usage.requested.wrapping_add(requested(provision.claim));
        usage.capacity = capacity.total.as_ref().map_or(0, Quantity::value);
    }
    usages
}

fn requested(claim: &Object) -> i64 {
    VolumeClaim::new(claim).requested_storage().map_or(0, |quantity| quantity.value())
}
