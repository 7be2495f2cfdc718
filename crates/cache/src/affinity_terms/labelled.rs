//! An index of terms by namespace and by a label that they require, so that a pod is compared only with terms that may select it.
//!
//! Invariant: a term is filed under each namespace that it names with each value of the first requirement that lists values; if
//! these are many pairs, under the shorter of both lists; under values alone if it selects namespaces by their labels, under
//! namespaces alone if it lists no values, and else under nothing in particular. A pod has one value of a label and one
//! namespace, so it meets a term at most once. Most terms name one namespace, their pods' own: what a tenant asks for
//! there is no work for pods elsewhere.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

use hashbrown::Equivalent;
use kube_scheduler_api_types::{KeyedMap, Labels, Operator, Pod, PodAffinityTerm};
use smallvec::SmallVec;

use super::{TermId, TermKind};
use crate::room::room_to_keep;

/// A term that may mean a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct TermMatch {
    pub(super) id: TermId,
    pub(super) kind: TermKind,
    /// Whether the label by which the term was found is all that its selector requires.
    pub(super) is_whole_selector: bool,
}

/// Up to this number of terms are kept in a list, which takes less memory than a tree. In a longer list, each term that a tenant
/// adds or removes would move many others
/// (`bench tenants`, RunningTermsForOthers); `bench core --workload FiftyAntiAffinities` is as fast with either alone.
const FEW: usize = 64;

/// Terms in the order of their numbers, none twice. A malicious tenant can have many terms filed under one label and add and
/// remove them at will; so beyond [`FEW`] terms, inserting or removing one moves no others.
#[derive(Clone, Debug)]
enum Terms {
    Few(SmallVec<[TermMatch; 2]>),
    Many(BTreeMap<TermId, TermMatch>),
}

impl Default for Terms {
    fn default() -> Self {
        Self::Few(SmallVec::new())
    }
}

impl Terms {
    fn insert(&mut self, found: TermMatch) {
        match self {
            Self::Few(list) => {
                if let Err(at) = list.binary_search_by_key(&found.id, |other| other.id) {
                    list.insert(at, found);
                }
                if list.len() > FEW {
                    *self = Self::Many(list.iter().map(|found| (found.id, *found)).collect());
                }
            }
            Self::Many(tree) => {
                tree.insert(found.id, found);
            }
        }
    }

    /// Returns whether none is left.
    fn remove(&mut self, id: TermId) -> bool {
        match self {
            Self::Few(list) => {
                if let Ok(at) = list.binary_search_by_key(&id, |other| other.id) {
                    list.remove(at);
                }
                list.is_empty()
            }
            Self::Many(tree) => {
                tree.remove(&id);
                // A quarter of where it became a tree, so that it does not change its form all the time.
                if tree.len() <= FEW / 4 {
                    *self = Self::Few(tree.values().copied().collect());
                }
                false
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = TermMatch> {
        let (list, tree) = match self {
            Self::Few(list) => (Some(list.iter()), None),
            Self::Many(tree) => (None, Some(tree.values())),
        };
        list.into_iter().flatten().chain(tree.into_iter().flatten()).copied()
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

/// A label in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Spot(Arc<str>, Arc<str>, Arc<str>);

/// Lets a pod look without allocating; hashes like [`Spot`].
#[derive(Hash)]
struct BorrowedSpot<'a>(&'a str, &'a str, &'a str);

impl Equivalent<Spot> for BorrowedSpot<'_> {
    fn equivalent(&self, spot: &Spot) -> bool {
        *spot.2 == *self.2 && *spot.1 == *self.1 && *spot.0 == *self.0
    }
}

/// The most pairs of a namespace and a value that one term is filed under. Each takes some 145 bytes, where the name of a
/// namespace may take a few in the pod.
const MAX_SPOTS: usize = 4;

/// Numbers of terms by namespace and label.
#[derive(Clone, Debug, Default)]
pub(super) struct LabelledTerms {
    by_spot: KeyedMap<Spot, Terms>,
    /// Terms that mean pods of any namespace, or of too many.
    by_label: KeyedMap<Pair, Terms>,
    /// Terms that list no values, or too many, but name their namespaces.
    by_namespace: KeyedMap<Arc<str>, Terms>,
    /// Other terms: any pod may be meant.
    others: Terms,
    /// How many terms count by a topology key, whether or not they are filed here.
    n_by_key: KeyedMap<Arc<str>, usize>,
}

/// What a term is filed under.
enum Filing<'a> {
    Spots(&'a [Arc<str>], &'a Arc<str>, &'a [Arc<str>]),
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
            give_back_room(&mut self.n_by_key);
        }
    }

    pub(super) fn insert(&mut self, kind: TermKind, term: &PodAffinityTerm, id: TermId) {
        let found = |is_whole_selector| TermMatch { id, kind, is_whole_selector };
        // If the selector requires one label only, a pod that is found by it is selected, and its labels are not compared again.
        let n_asked = term.selector.as_ref().map_or(0, |s| s.requirements().len());
        match filing(term) {
            Filing::Spots(namespaces, key, values) => {
                for (namespace, value) in pairs(namespaces, values) {
                    let spot = Spot(namespace.clone(), key.clone(), value.clone());
                    self.by_spot.entry(spot).or_default().insert(found(n_asked == 1));
                }
            }
            Filing::Labels(key, values) => {
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
            Filing::Spots(namespaces, key, values) => {
                for (namespace, value) in pairs(namespaces, values) {
                    let spot = BorrowedSpot(namespace, key, value);
                    if self.by_spot.get_mut(&spot).is_some_and(|terms| terms.remove(id)) {
                        self.by_spot.remove(&spot);
                    }
                }
            }
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
        give_back_room(&mut self.by_spot);
        give_back_room(&mut self.by_label);
        give_back_room(&mut self.by_namespace);
    }

    /// The terms that may mean a pod.
    pub(super) fn about<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = TermMatch> {
        let here: &'a str = &pod.namespace;
        let in_namespace = with_labels(
            &self.by_spot,
            &pod.labels,
            move |key, value| self.by_spot.get(&BorrowedSpot(here, key, value)),
            |Spot(namespace, key, value)| (**namespace == *here).then_some((key, value)),
        );
        let anywhere = with_labels(
            &self.by_label,
            &pod.labels,
            |key, value| self.by_label.get(&BorrowedPair(key, value)),
            |Pair(key, value)| Some((key, value)),
        );
        let of_namespace = (!self.by_namespace.is_empty())
            .then(|| self.by_namespace.get(&pod.namespace))
            .flatten();
        let labelled = in_namespace.chain(anywhere);
        labelled.chain(of_namespace).chain([&self.others]).flat_map(Terms::iter)
    }
}

/// The entries of a table that are under a label of these, in the order of the labels. Each label is looked up in the table, or, if
/// that has fewer entries, each entry among the labels.
fn with_labels<'a, K>(
    table: &'a KeyedMap<K, Terms>,
    labels: &'a Labels,
    get: impl Fn(&str, &str) -> Option<&'a Terms> + 'a,
    label_of: impl Fn(&'a K) -> Option<(&'a Arc<str>, &'a Arc<str>)>,
) -> impl Iterator<Item = &'a Terms> {
    let goes_by_label = labels.len() <= table.len();
    let found =
        goes_by_label.then(|| labels.iter().filter_map(move |(key, value)| get(key, value)));
    let mut met = Vec::new();
    if !goes_by_label {
        met.extend(table.iter().filter_map(|(filed, terms)| {
            let (key, value) = label_of(filed)?;
            (labels.get(key) == Some(&**value)).then_some((key, terms))
        }));
        met.sort_unstable_by_key(|(key, _)| *key);
    }
    found.into_iter().flatten().chain(met.into_iter().map(|(_, terms)| terms))
}

fn give_back_room<K: Eq + Hash, V>(table: &mut KeyedMap<K, V>) {
    if let Some(room) = room_to_keep(table.len(), table.capacity()) {
        table.shrink_to(room);
    }
}

fn pairs<'a>(
    namespaces: &'a [Arc<str>],
    values: &'a [Arc<str>],
) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<str>)> {
    namespaces.iter().flat_map(move |namespace| values.iter().map(move |value| (namespace, value)))
}

fn filing(term: &PodAffinityTerm) -> Filing<'_> {
    let namespaces = term.namespace_selector.is_none().then_some(&*term.namespaces);
    match (listed(term), namespaces) {
        (Some((key, values)), Some(namespaces)) => {
            if values.len().saturating_mul(namespaces.len()) <= MAX_SPOTS {
                Filing::Spots(namespaces, key, values)
            } else if namespaces.len() < values.len() {
                Filing::Namespaces(namespaces)
            } else {
                Filing::Labels(key, values)
            }
        }
        (Some((key, values)), None) => Filing::Labels(key, values),
        (None, Some(namespaces)) => Filing::Namespaces(namespaces),
        (None, None) => Filing::Nothing,
    }
}

/// The label that every pod has that the term means, with its possible values.
fn listed(term: &PodAffinityTerm) -> Option<(&Arc<str>, &[Arc<str>])> {
    let mut requirements = term.selector.iter().flat_map(|selector| selector.requirements());
    let listed = requirements.find(|requirement| requirement.operator == Operator::In)?;
    Some((&listed.key, &listed.values))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn found(id: u32) -> TermMatch {
        TermMatch { id: TermId(id), kind: TermKind::RequiredAffinity, is_whole_selector: false }
    }

    proptest! {
        #![proptest_config(crate::tests::cases(64))]

        #[test]
        fn few_and_many_terms_behave_like_a_set(ids in prop::collection::vec((0_u8..5, 0_u32..200), 0..800)) {
            let (mut terms, mut model) = (Terms::default(), BTreeSet::new());
            for (at, (op, id)) in ids.into_iter().enumerate() {
                // Growing in the first half and shrinking in the second visits both forms.
                if (op == 0) != (at < 400) {
                    terms.insert(found(id));
                    model.insert(id);
                } else {
                    model.remove(&id);
                    prop_assert_eq!(terms.remove(TermId(id)), model.is_empty());
                }
                prop_assert!(terms.iter().map(|found| found.id.0).eq(model.iter().copied()));
                let is_few = matches!(terms, Terms::Few(_));
                let fits = if is_few { model.len() <= FEW } else { model.len() > FEW / 4 };
                prop_assert!(fits, "{} in the wrong form", model.len());
            }
        }
    }

    /// Texts of one or many of a letter.
    fn texts(letter: char, n: usize) -> Vec<String> {
        (0..n).map(|at| format!("{letter}{at}")).collect()
    }

    fn term(selector: &serde_json::Value, namespaces: &[String], selects: bool) -> PodAffinityTerm {
        let mut term =
            json!({"topologyKey": "zone", "labelSelector": selector, "namespaces": namespaces});
        if selects {
            term["namespaceSelector"] = json!({});
        }
        let pod = json!({"metadata": {"namespace": "n0", "name": "p"}, "spec": {"affinity": {"podAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}});
        let pod = Pod::from_value(&pod).unwrap();
        pod.spec.pod_affinity.as_ref().unwrap().required[0].clone()
    }

    proptest! {
        #![proptest_config(crate::tests::cases(64))]

        /// Every term that means a pod is found, once; and nothing is left of terms that are gone.
        #[test]
        fn whatever_means_a_pod_is_found(
            shapes in prop::collection::vec((0_usize..5, 0_usize..12, 0_usize..12, any::<bool>(), 0_usize..3), 0..24),
            labels in prop::collection::btree_map("[a-h]", "v[0-9]", 0..9),
            namespace in "n[0-9]",
        ) {
            let pod = json!({"metadata": {"namespace": namespace, "name": "p", "labels": labels}, "spec": {}});
            let pod = Pod::from_value(&pod).unwrap();
            let terms: Vec<_> = shapes.iter().map(|(key, n_values, n_namespaces, selects, more)| {
                let key = ["a", "b", "c", "d", "e"][*key];
                let mut requirements = Vec::new();
                if *n_values > 0 {
                    requirements.push(json!({"key": key, "operator": "In", "values": texts('v', *n_values)}));
                }
                if *more > 0 {
                    let operator = ["", "Exists", "DoesNotExist"][*more];
                    requirements.push(json!({"key": "b", "operator": operator}));
                }
                term(&json!({"matchExpressions": requirements}), &texts('n', *n_namespaces), *selects)
            }).collect();
            let mut index = LabelledTerms::default();
            for (at, term) in terms.iter().enumerate() {
                index.insert(TermKind::RequiredAffinity, term, TermId(at as u32));
            }
            let mut found: Vec<u32> = index.about(&pod).map(|found| found.id.0).collect();
            let n_found = found.len();
            if pod.labels.len() > index.by_label.len() {
                // Found by the entries of the table in the order in which each label is looked up otherwise.
                let table = &index.by_label;
                let each = pod.labels.iter().filter_map(|(key, value)| table.get(&BorrowedPair(key, value)));
                let found = with_labels(table, &pod.labels, |_, _| None, |Pair(key, value)| Some((key, value)));
                let ids = |terms: &Terms| terms.iter().map(|found| found.id.0).collect::<Vec<_>>();
                prop_assert!(found.map(ids).eq(each.map(ids)));
            }
            found.sort_unstable();
            found.dedup();
            prop_assert_eq!(found.len(), n_found);
            for (at, term) in terms.iter().enumerate() {
                let means = term.matches(&pod, &Labels::default());
                let place = found.binary_search(&(at as u32));
                prop_assert!(!means || place.is_ok(), "{:?}", term);
                // Where it is known to be about another namespace, it is not looked at.
                let is_near = term.namespace_selector.is_some() || term.includes_namespace(&pod.namespace, &Labels::default());
                let n_pairs = shapes[at].1 * shapes[at].2.max(1);
                prop_assert!(is_near || n_pairs > MAX_SPOTS || place.is_err(), "{:?}", term);
            }
            for (at, term) in terms.iter().enumerate() {
                index.remove(term, TermId(at as u32));
            }
            prop_assert!(index.by_spot.is_empty() && index.by_label.is_empty() && index.by_namespace.is_empty());
            prop_assert_eq!(index.about(&pod).count(), 0);
        }
    }

    /// Seen as the form alone: how long it takes is not for a test.
    #[test]
    fn thousands_of_terms_under_one_label_are_not_moved_for_each_other() {
        let mut terms = Terms::default();
        (0..5000).for_each(|id| terms.insert(found(id)));
        assert!(matches!(&terms, Terms::Many(tree) if tree.len() == 5000));
        (0..4999).for_each(|id| assert!(!terms.remove(TermId(id))));
        assert!(matches!(&terms, Terms::Few(list) if list.len() == 1));
        assert!(terms.remove(TermId(4999)));
    }
}
