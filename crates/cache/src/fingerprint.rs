//! Fingerprints of pods: one word with a bit for the namespace and for each label.
//!
//! A selector that asks for a label needs its bit; of thousands of pods those without it need not be looked at, which
//! saves following half a dozen pointers for each.
//!
//! Invariant: the fingerprint of a pod has all bits that [`Fingerprint::needed_by`] finds for anything that
//! [includes](CountedPods::includes) it.

use std::hash::{BuildHasher, Hash};

use kube_scheduler_api_types::{KeyedState, Operator, Pod};

use crate::domains::CountedPods;

/// Pods with more labels than this get a fingerprint with all bits set: their labels would leave hardly one unset anyway.
const MANY: usize = 256;

/// A set of hashes, one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of a pod. O(labels), of which at most [`MANY`] are looked at.
    pub(crate) fn of(pod: &Pod) -> Self {
        if pod.labels.len() > MANY {
            return Self(u64::MAX);
        }
        let labels = pod.labels.iter().map(|(key, value)| bit((key, value)));
        Self(labels.fold(bit(&*pod.namespace), |bits, bit| bits | bit))
    }

    /// What every pod has that counts.
    pub(crate) fn needed_by(pods: &CountedPods) -> Self {
        let namespace = match pods.only_namespaces() {
            Some([namespace]) => bit(&**namespace),
            _ => 0,
        };
        let requirements = pods.terms.iter().flat_map(|term| term.selector.requirements());
        let labels = requirements.map(|requirement| match &*requirement.values {
            [value] if requirement.operator == Operator::In => bit((&*requirement.key, &**value)),
            _ => 0,
        });
        Self(labels.fold(namespace, |bits, bit| bits | bit))
    }

    /// Whether it has everything that is `needed`.
    #[inline]
    pub(crate) fn has(self, needed: Self) -> bool {
        self.0 & needed.0 == needed.0
    }
}

fn bit(text: impl Hash) -> u64 {
    1 << (KeyedState::default().hash_one(text) >> (u64::BITS - 6))
}
