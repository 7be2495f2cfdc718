//! Terms by a label that they ask for, so that a pod is compared with those alone that may mean it.
//!
//! Invariant: a term is filed under each value of the first requirement that lists values, else under nothing in
//! particular; a pod has one value of a label, so it meets a term at most once.

use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};
use kube_scheduler_api_types::{Labels, Operator, PodAffinityTerm};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::{TermId, TermKind};

/// A term that may mean a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) id: TermId,
    pub(super) kind: TermKind,
    /// Whether its selector asks for nothing but the label that it was found by.
    pub(super) is_whole_selector: bool,
}

type Terms = SmallVec<[Found; 2]>;

/// A label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pair(Arc<str>, Arc<str>);

/// Lets a pod look without allocating; hashes like [`Pair`].
#[derive(Hash)]
struct BorrowedPair<'a>(&'a str, &'a str);

impl Equivalent<Pair> for BorrowedPair<'_> {
    fn equivalent(&self, pair: &Pair) -> bool {
        *pair.0 == *self.0 && *pair.1 == *self.1
    }
}

/// Numbers of terms by label.
#[derive(Clone, Debug, Default)]
pub(super) struct LabelledTerms {
    by_label: HashMap<Pair, Terms, FxBuildHasher>,
    /// Terms that list no values: any pod may be meant.
    others: Vec<Found>,
}

impl LabelledTerms {
    pub(super) fn insert(&mut self, kind: TermKind, term: &PodAffinityTerm, id: TermId) {
        match listed(term) {
            Some((key, values)) => {
                let n_asked = term.selector.as_ref().map_or(0, |s| s.requirements().len());
                for value in values {
                    let found = self.by_label.entry(Pair(key.clone(), value.clone())).or_default();
                    // A list may name a value twice.
                    if found.iter().all(|other| other.id != id) {
                        found.push(Found { id, kind, is_whole_selector: n_asked == 1 });
                    }
                }
            }
            None => self.others.push(Found { id, kind, is_whole_selector: false }),
        }
    }

    pub(super) fn remove(&mut self, term: &PodAffinityTerm, id: TermId) {
        let Some((key, values)) = listed(term) else {
            self.others.retain(|other| other.id != id);
            return;
        };
        for value in values {
            let pair = BorrowedPair(key, value);
            if let Some(found) = self.by_label.get_mut(&pair) {
                found.retain(|other| other.id != id);
                if found.is_empty() {
                    self.by_label.remove(&pair);
                }
            }
        }
    }

    /// The terms that may mean a pod with these labels.
    pub(super) fn about(&self, labels: &Labels) -> impl Iterator<Item = Found> {
        let labelled = labels.iter().filter_map(|(key, value)| {
            (!self.by_label.is_empty()).then(|| self.by_label.get(&BorrowedPair(key, value)))?
        });
        labelled.flatten().copied().chain(self.others.iter().copied())
    }
}

/// The label that every pod has that the term means, with its possible values.
fn listed(term: &PodAffinityTerm) -> Option<(&Arc<str>, &[Arc<str>])> {
    let mut requirements = term.selector.iter().flat_map(|selector| selector.requirements());
    let listed = requirements.find(|requirement| requirement.operator == Operator::In)?;
    Some((&listed.key, &listed.values))
}
