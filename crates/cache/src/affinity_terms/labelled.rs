//! Terms by a label that they ask for, so that a pod is compared with those alone that may mean it.
//!
//! Invariant: a term is filed under each value of the first requirement that lists values, else under each namespace that
//! it names if it selects none by their labels, else under nothing in particular; a pod has one value of a label and one
//! namespace, so it meets a term at most once.

use std::sync::Arc;

use hashbrown::Equivalent;
use kube_scheduler_api_types::{KeyedMap, Operator, Pod, PodAffinityTerm};
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

/// Sorted by number, none twice.
#[derive(Clone, Debug, Default)]
struct Terms(SmallVec<[Found; 2]>);

impl Terms {
    fn insert(&mut self, found: Found) {
        if let Err(at) = self.0.binary_search_by_key(&found.id, |other| other.id) {
            self.0.insert(at, found);
        }
    }

    /// Returns whether none is left.
    fn remove(&mut self, id: TermId) -> bool {
        if let Ok(at) = self.0.binary_search_by_key(&id, |other| other.id) {
            self.0.remove(at);
        }
        self.0.is_empty()
    }
}

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
    by_label: KeyedMap<Pair, Terms>,
    /// Terms that list no values but name their namespaces.
    by_namespace: KeyedMap<Arc<str>, Terms>,
    /// Other terms: any pod may be meant.
    others: Terms,
    /// How many terms count by a topology key, whether or not they are filed here.
    n_by_key: KeyedMap<Arc<str>, usize>,
}

/// What a term is filed under.
enum Filing<'a> {
    Labels(&'a Arc<str>, &'a [Arc<str>]),
    Namespaces(&'a [Arc<str>]),
    Nothing,
}

impl LabelledTerms {
    /// Whether a term counts by this topology key.
    pub(super) fn counts_by(&self, key: &str) -> bool {
        self.n_by_key.contains_key(key)
    }

    /// A term with this topology key has come into being.
    pub(super) fn key_named(&mut self, key: &Arc<str>) {
        *self.n_by_key.entry(key.clone()).or_default() += 1;
    }

    /// A term with this topology key has gone.
    pub(super) fn key_dropped(&mut self, key: &str) {
        let Some(n) = self.n_by_key.get_mut(key) else { return };
        *n -= 1;
        if *n == 0 {
            self.n_by_key.remove(key);
        }
    }

    pub(super) fn insert(&mut self, kind: TermKind, term: &PodAffinityTerm, id: TermId) {
        let found = |is_whole_selector| Found { id, kind, is_whole_selector };
        match filing(term) {
            Filing::Labels(key, values) => {
                let n_asked = term.selector.as_ref().map_or(0, |s| s.requirements().len());
                for value in values {
                    let terms = self.by_label.entry(Pair(key.clone(), value.clone())).or_default();
                    terms.insert(found(n_asked == 1));
                }
            }
            Filing::Namespaces(namespaces) => {
                for namespace in namespaces {
                    self.by_namespace.entry(namespace.clone()).or_default().insert(found(false));
                }
            }
            Filing::Nothing => self.others.insert(found(false)),
        }
    }

    pub(super) fn remove(&mut self, term: &PodAffinityTerm, id: TermId) {
        match filing(term) {
            Filing::Labels(key, values) => {
                for value in values {
                    let pair = BorrowedPair(key, value);
                    if self.by_label.get_mut(&pair).is_some_and(|terms| terms.remove(id)) {
                        self.by_label.remove(&pair);
                    }
                }
            }
            Filing::Namespaces(namespaces) => {
                for namespace in namespaces {
                    if self.by_namespace.get_mut(namespace).is_some_and(|terms| terms.remove(id)) {
                        self.by_namespace.remove(namespace);
                    }
                }
            }
            Filing::Nothing => {
                self.others.remove(id);
            }
        }
    }

    /// The terms that may mean a pod.
    pub(super) fn about(&self, pod: &Pod) -> impl Iterator<Item = Found> {
        let labelled = pod.labels.iter().filter_map(|(key, value)| {
            (!self.by_label.is_empty()).then(|| self.by_label.get(&BorrowedPair(key, value)))?
        });
        let of_namespace = (!self.by_namespace.is_empty())
            .then(|| self.by_namespace.get(&pod.namespace))
            .flatten();
        labelled.chain(of_namespace).chain([&self.others]).flat_map(|terms| terms.0.iter().copied())
    }
}

fn filing(term: &PodAffinityTerm) -> Filing<'_> {
    match listed(term) {
        Some((key, values)) => Filing::Labels(key, values),
        None if term.namespace_selector.is_none() => Filing::Namespaces(&term.namespaces),
        None => Filing::Nothing,
    }
}

/// The label that every pod has that the term means, with its possible values.
fn listed(term: &PodAffinityTerm) -> Option<(&Arc<str>, &[Arc<str>])> {
    let mut requirements = term.selector.iter().flat_map(|selector| selector.requirements());
    let listed = requirements.find(|requirement| requirement.operator == Operator::In)?;
    Some((&listed.key, &listed.values))
}
