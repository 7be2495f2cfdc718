//! How compiled parts of a pod are written into its signature.
//!
//! Invariant: every field that a plugin can see is written, each list with its length, so that different values never
//! give equal bytes, as far as a signature is kept. Order is kept as given: pods that differ in order alone get different
//! signatures, which costs only speed.

use std::hash::{Hash, Hasher};

use kube_scheduler_framework::SignatureWriter;
use kube_scheduler_framework::api::{
    LabelSelector, NodeSelector, PodAffinity, PodAffinityTerm, Requirement, Toleration,
};

/// Writes a value: all that goes into a hash of it, in words.
///
/// **Not for label selectors**, nor for what contains them: a hash of one is made from another hash, which others may have. See
/// [`requirements`].
pub(crate) fn write(value: impl Hash, signature: &mut SignatureWriter) {
    value.hash(&mut Words(signature));
}

struct Words<'a>(&'a mut SignatureWriter);

impl Hasher for Words<'_> {
    fn write(&mut self, bytes: &[u8]) {
        // What is left of the last word is filled with a byte that texts do not have. All else has a length of its own.
        for bytes in bytes.chunks(size_of::<i64>()) {
            // Texts may be very long, and what no longer counts is not gone through.
            if self.0.is_full() {
                return;
            }
            let mut word = [u8::MAX; size_of::<i64>()];
            word[..bytes.len()].copy_from_slice(bytes);
            self.0.int(i64::from_le_bytes(word));
        }
    }

    /// Without meaning: what counts is what is written.
    fn finish(&self) -> u64 {
        0
    }
}

/// What to write of tolerations: all but `tolerationSeconds`, which has no influence on scheduling.
pub(crate) fn tolerations(all: &[Toleration]) -> impl Hash {
    let written = all.iter().map(|toleration| {
        let Toleration { key, operator, value, effect, toleration_seconds: _ } = toleration;
        (key, operator, value, effect)
    });
    written.collect::<Vec<_>>()
}

/// What to write of a node selector: what its terms match, and to which names it narrows.
pub(crate) fn node_selector(selector: Option<&NodeSelector>) -> impl Hash {
    selector.map(|selector| {
        // Whatever the error is, the term matches nothing.
        let terms: Vec<_> = selector.terms().iter().map(|term| term.as_ref().ok()).collect();
        (selector.n_terms_given(), terms, selector.node_names())
    })
}

/// What to write of a label selector; none differs from an empty one.
pub(crate) fn requirements(selector: Option<&LabelSelector>) -> Option<&[Requirement]> {
    selector.map(LabelSelector::requirements)
}

/// What to write of pod affinity or anti-affinity that compiles.
pub(crate) fn pod_affinity(affinity: Option<&PodAffinity>) -> impl Hash {
    affinity.map(|affinity| {
        let PodAffinity { required, preferred, n_required_given, n_preferred_given, .. } = affinity;
        let required: Vec<_> = required.iter().map(affinity_term).collect();
        let preferred: Vec<_> =
            preferred.iter().map(|it| (it.weight, affinity_term(&it.term))).collect();
        (n_required_given, required, n_preferred_given, preferred)
    })
}

fn affinity_term(term: &PodAffinityTerm) -> impl Hash {
    let PodAffinityTerm { selector, namespaces, namespace_selector, topology_key } = term;
    let namespace_selector = requirements(namespace_selector.as_ref());
    (requirements(selector.as_ref()), namespaces, namespace_selector, topology_key)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes_of(value: impl Hash) -> Vec<u8> {
        let mut signature = SignatureWriter::new();
        write(value, &mut signature);
        signature.into_bytes()
    }

    /// Texts around the length of a word, and up to two words long.
    fn texts() -> impl Strategy<Value = Vec<(Option<String>, String)>> {
        prop::collection::vec((prop::option::of("[ab]{0,2}"), "[ab]{0,1}[a]{6,8}[ab]{0,8}"), 0..3)
    }

    proptest! {
        #[test]
        fn different_values_give_different_bytes(one in texts(), other in texts()) {
            prop_assert_eq!(one == other, bytes_of(&one) == bytes_of(&other));
        }

        #[test]
        fn where_a_text_ends_is_written(text in "[ab]{0,20}", at in 0..20_usize) {
            let (start, end) = text.split_at(at.min(text.len()));
            let parts = bytes_of((start, end));
            prop_assert_eq!(parts == bytes_of((text.as_str(), "")), end.is_empty());
        }
    }

    #[test]
    fn a_text_beyond_the_end_of_a_signature_is_not_gone_through() {
        let text = "a".repeat(10 << 20);
        let once = bytes_of(&text);
        assert_eq!(bytes_of([&text; 2]).len(), once.len());
        assert!(once.len() < text.len() / 100);
    }
}
