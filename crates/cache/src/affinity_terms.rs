//! The distinct affinity terms that pods on nodes carry, and how many of each are where.
//!
//! Deployments stamp out equal pods, so a hundred thousand pods carry a handful of distinct terms. To find
//! out which running pods attract or repel a new one, each distinct term is matched once, instead of each pod.
//!
//! Only terms that matter to the placement of other pods are here: required anti-affinity, required affinity (which
//! scores with `hardPodAffinityWeight`), preferred affinity and anti-affinity (`docs/spec/plugins-topology.md` §5.2, §5.5).
//! A list that does not compile contributes nothing.
//!
//! Invariants: a term is here exactly while a pod that has a node carries it, ghosts included; domains are counted by
//! nodes that have an object, since a ghost has no labels; the column of a term's topology key exists as long as the
//! term; the version changes whenever a term comes or goes. `check` recomputes all of it.

mod carried_counts;
mod labelled;

use std::sync::Arc;

use std::hash::{Hash, Hasher};

use hashbrown::Equivalent;
use kube_scheduler_api_types::{
    Labels, Pod, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm,
};
use smallvec::SmallVec;

pub use self::carried_counts::{TermCount, TermCounts};
use self::labelled::LabelledTerms;
use crate::fork::{Column, CowMap, SPARSE_CHUNK, WIDE_CHUNK};
use crate::label_index::{LabelIndex, ValueId};
use crate::node_table::NodeIdx;
use crate::room::room_to_keep;

/// What a pod affinity term does to pods that it selects: attract or repel, strictly or by its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TermKind {
    /// Keeps pods that it selects out of the domain of the pod that carries it.
    RequiredAntiAffinity,
    /// Was required by the pod that carries it; attracts pods that it selects, with `hardPodAffinityWeight`.
    RequiredAffinity,
    /// Attracts pods that it selects, with its weight.
    PreferredAffinity,
    /// Repels pods that it selects, with its weight.
    PreferredAntiAffinity,
}

const N_KINDS: usize = 4;

/// What it takes to file a term under a label of its own and a namespace, about, in bytes.
const BYTES_IN_INDEX: usize = 128;

impl TermKind {
    /// All kinds, in the order of the variants.
    pub const ALL: [Self; N_KINDS] = [
        Self::RequiredAntiAffinity,
        Self::RequiredAffinity,
        Self::PreferredAffinity,
        Self::PreferredAntiAffinity,
    ];
}

/// A distinct term, and where the pods are that carry it. Preferred terms that differ by their weights alone are one.
#[derive(Clone, Debug)]
pub struct CarriedTerm {
    key: TermKey,
    /// How many times pods carry it, on ghosts too.
    n_carried: u32,
    domains: TermCounts,
}

impl CarriedTerm {
    /// Whether the term attracts or repels, and whether it must be met.
    pub fn kind(&self) -> TermKind {
        self.key.kind
    }

    /// Whether nodes that were [listed](crate::ClusterState::freeze_affinity_lists) carry it, as nodes are unless the lists are frozen.
    pub fn is_listed(&self) -> bool {
        self.key.is_listed
    }

    /// The term itself: which pods it selects, and its topology key.
    pub fn term(&self) -> &PodAffinityTerm {
        &self.key.term
    }

    /// How often pods carry it, and with what weights in sum, by value of the topology key's
    /// [`LabelColumn`](crate::columns::LabelColumn), which exists. Pods on nodes without the label are in no domain.
    pub fn domains(&self) -> &TermCounts {
        &self.domains
    }
}

/// Which distinct terms there are, and which pods they mean; for comparing only. Where they are carried is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AffinityTermsVersion {
    n_turnovers: u64,
    namespaces: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TermKey {
    kind: TermKind,
    is_listed: bool,
    term: PodAffinityTerm,
}

/// A term as its pod holds it; hashes like [`TermKey`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TermOfPod<'a> {
    kind: TermKind,
    is_listed: bool,
    weight: i32,
    pub(crate) term: &'a PodAffinityTerm,
}

impl Hash for TermOfPod<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
        self.is_listed.hash(state);
        self.term.hash(state);
    }
}

impl Equivalent<TermKey> for TermOfPod<'_> {
    fn equivalent(&self, key: &TermKey) -> bool {
        self.kind == key.kind && self.is_listed == key.is_listed && *self.term == key.term
    }
}

/// The terms of a pod that matter to others, one for each time it carries them.
pub(crate) fn terms_of(pod: &Pod) -> impl Iterator<Item = TermOfPod<'_>> {
    let affinity = pod.spec.pod_affinity.as_deref();
    let anti_affinity = pod.spec.pod_anti_affinity.as_deref();
    required(anti_affinity, TermKind::RequiredAntiAffinity)
        .chain(required(affinity, TermKind::RequiredAffinity))
        .chain(preferred(affinity, TermKind::PreferredAffinity))
        .chain(preferred(anti_affinity, TermKind::PreferredAntiAffinity))
}

fn required(affinity: Option<&PodAffinity>, kind: TermKind) -> impl Iterator<Item = TermOfPod<'_>> {
    let terms = affinity.into_iter().flat_map(|affinity| affinity.required.iter());
    terms.map(move |term| TermOfPod { kind, is_listed: true, weight: 0, term })
}

fn preferred(
    affinity: Option<&PodAffinity>,
    kind: TermKind,
) -> impl Iterator<Item = TermOfPod<'_>> {
    let terms = affinity.into_iter().flat_map(|affinity| affinity.preferred.iter());
    terms.map(move |weighted| {
        let WeightedPodAffinityTerm { weight, term } = weighted;
        TermOfPod { kind, is_listed: true, weight: *weight, term }
    })
}

/// Whether two versions of a pod carry the same terms in the same order.
pub(crate) fn has_same_terms(old: &Pod, new: &Pod) -> bool {
    Arc::ptr_eq(&old.spec, &new.spec) || terms_of(old).eq(terms_of(new))
}

/// A term, by number, as long as it is carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TermId(u32);

/// The terms that the pods of one node carry, sorted, with how often.
type NodeTerms = SmallVec<[(TermId, TermCount); 1]>;

/// All distinct terms that pods on nodes carry.
#[derive(Clone, Debug, Default)]
pub struct AffinityTerms {
    terms: Column<Option<Arc<CarriedTerm>>, SPARSE_CHUNK>,
    by_term: CowMap<TermKey, TermId>,
    /// All numbers below that of the last term that no term has, and perhaps others.
    free: Column<TermId, SPARSE_CHUNK>,
    nodes: Column<NodeTerms, WIDE_CHUNK>,
    /// How many distinct terms there are, by kind.
    n_terms: [usize; N_KINDS],
    n_with_namespace_selector: usize,
    /// How many distinct terms select pods by their numbers.
    n_by_number: usize,
    /// How often a term came or went.
    n_turnovers: u64,
    index: Arc<LabelledTerms>,
    /// As it was when the lists of nodes were frozen.
    frozen: Option<Arc<Self>>,
}

impl AffinityTerms {
    /// From now on, terms that come to a node which carries none now, or required anti-affinity to one which carries none of
    /// that, are not [listed](CarriedTerm::is_listed). Frozen lists stay as they are; false then. O(size / 64).
    pub(crate) fn freeze_lists(&mut self) -> bool {
        let was_free = self.frozen.is_none();
        if was_free {
            self.frozen = Some(Arc::new(self.clone()));
        }
        was_free
    }

    /// Terms are listed again. All that came since the lists were frozen must be gone.
    pub(crate) fn thaw_lists(&mut self) {
        self.frozen = None;
    }

    /// Whether a term of this kind is listed when it comes to `node`.
    fn lists(&self, kind: TermKind, node: NodeIdx) -> bool {
        self.frozen.as_ref().is_none_or(|frozen| {
            let mut carried = frozen.on_node(node);
            match kind {
                TermKind::RequiredAntiAffinity => {
                    carried.any(|(carried, _)| carried.kind() == kind)
                }
                _ => carried.next().is_some(),
            }
        })
    }

    /// How many distinct terms of all kinds there are. O(1).
    pub fn n_terms_of_all_kinds(&self) -> usize {
        self.n_terms.iter().sum()
    }

    /// What they take in memory, about, in bytes: each is in the list of terms, found by itself, and filed under a label. What
    /// they select is there as the pods have it, and which nodes carry them is not counted. O(1).
    pub fn n_bytes(&self) -> usize {
        let of_list = size_of::<Option<Arc<CarriedTerm>>>() + size_of::<CarriedTerm>();
        let of_index = size_of::<(TermKey, TermId)>() + BYTES_IN_INDEX;
        self.n_terms_of_all_kinds() * (of_list + of_index)
    }

    /// All distinct terms in an order that depends on the history of the state alone.
    pub fn iter(&self) -> impl Iterator<Item = &CarriedTerm> {
        self.terms.iter().flatten().map(|term| &**term)
    }

    /// The distinct terms of `wanted` kinds that mean `pod`, whose namespace has these labels, and that have a domain, whether
    /// they are [listed](CarriedTerm::is_listed) or not: found by one label that they ask for or else by the namespace, few among
    /// many. O(labels + terms found). A term is named once; the order depends on the history of the state alone.
    pub fn about<'a>(
        &'a self,
        pod: &'a Pod,
        namespace_labels: &'a Labels,
        wanted: impl Fn(TermKind) -> bool,
    ) -> impl Iterator<Item = (TermId, &'a CarriedTerm)> {
        let found = self.index.about(pod).filter(move |found| wanted(found.kind));
        found.filter_map(move |found| {
            let carried = self.get(found.id)?;
            let term = carried.term();
            let means = if found.is_whole_selector {
                term.includes_namespace(&pod.namespace, namespace_labels)
            } else {
                term.matches(pod, namespace_labels)
            };
            means.then_some((found.id, carried))
        })
    }

    /// The term with this number, as long as pods carry it: until a distinct term comes into
    /// being or goes, or gets its first domain or loses its last.
    #[inline]
    pub fn get(&self, id: TermId) -> Option<&CarriedTerm> {
        self.carried(id)
    }

    /// How many distinct terms of a kind there are.
    pub fn n_terms(&self, kind: TermKind) -> usize {
        self.n_terms[kind as usize]
    }

    /// Whether no pod carries any term.
    pub fn is_empty(&self) -> bool {
        self.n_terms == [0; N_KINDS]
    }

    /// Whether a term selects pods by one of the [labels that number
    /// them](kube_scheduler_api_types::well_known::NUMBERING_LABELS). O(1).
    pub fn select_by_number(&self) -> bool {
        self.n_by_number > 0
    }

    pub(crate) fn version(&self, namespaces: u64) -> AffinityTermsVersion {
        let depends_on_namespaces = self.n_with_namespace_selector > 0;
        AffinityTermsVersion {
            n_turnovers: self.n_turnovers,
            namespaces: if depends_on_namespaces { namespaces } else { 0 },
        }
    }

    /// Whether a term has this topology key.
    pub(crate) fn counts_by(&self, key: &str) -> bool {
        self.index.counts_by(key)
    }

    /// How often the pods of a node carry each term.
    pub(crate) fn on_node(&self, node: NodeIdx) -> impl Iterator<Item = (&CarriedTerm, TermCount)> {
        let terms = self.nodes.try_get(node).into_iter().flatten();
        terms.filter_map(|(id, n)| Some((self.carried(*id)?, *n)))
    }

    pub(crate) fn resize(&mut self, capacity: usize) {
        self.nodes.resize(capacity);
    }

    /// A pod has come to `node`. The columns of its topology keys have to exist, as far as nodes have them. O(its terms × log its
    /// terms + terms on the node).
    pub(crate) fn add(&mut self, pod: &Pod, node: NodeIdx, labels: &LabelIndex) {
        let mut come = NodeTerms::new();
        for mut term in terms_of(pod) {
            term.is_listed = self.lists(term.kind, node);
            let id = self.by_term.get(&term).copied().unwrap_or_else(|| self.intern(term));
            let (domain, once) = (domain_of(term.term, node, labels), TermCount::once(term.weight));
            self.change(id, |carried| {
                carried.n_carried += 1;
                if let Some(domain) = domain {
                    carried.domains.add(domain, once);
                }
            });
            come.push((id, once));
        }
        if come.is_empty() {
            return;
        }
        sum_up(&mut come);
        let on_node = self.nodes.get_mut(node);
        on_node.append(&mut come);
        // Two sorted lists become one in linear time.
        sum_up(on_node);
    }

    /// A pod has left `node`. As [`add`](Self::add).
    pub(crate) fn remove(&mut self, pod: &Pod, node: NodeIdx, labels: &LabelIndex) {
        let mut gone = NodeTerms::new();
        for mut term in terms_of(pod) {
            term.is_listed = self.lists(term.kind, node);
            let Some(id) = self.by_term.get(&term).copied() else { continue };
            let once = TermCount::once(term.weight);
            gone.push((id, once));
            let domain = domain_of(term.term, node, labels);
            let mut is_last = false;
            self.change(id, |carried| {
                carried.n_carried -= 1;
                is_last = carried.n_carried == 0;
                if let Some(domain) = domain {
                    carried.domains.subtract(domain, once);
                }
            });
            // Only now that no domain counts it: the number may go to another term.
            if is_last {
                self.release(id);
            }
        }
        if gone.is_empty() {
            return;
        }
        sum_up(&mut gone);
        let on_node = self.nodes.get_mut(node);
        // Both are sorted.
        let mut gone = gone.iter().peekable();
        on_node.retain(|(id, n)| {
            while gone.next_if(|(gone, _)| gone < id).is_some() {}
            if let Some((_, less)) = gone.next_if(|(gone, _)| gone == id) {
                *n = n.minus(*less);
            }
            !n.is_none()
        });
        if room_to_keep(on_node.len(), on_node.capacity()).is_some() {
            on_node.shrink_to_fit();
        }
    }

    /// The labels of `node` are about to change.
    pub(crate) fn leave_domains(&mut self, node: NodeIdx, labels: &LabelIndex) {
        self.move_domains(node, labels, TermCounts::subtract);
    }

    /// The labels of `node` have changed.
    pub(crate) fn enter_domains(&mut self, node: NodeIdx, labels: &LabelIndex) {
        self.move_domains(node, labels, TermCounts::add);
    }

    /// Applies `change` to the domain of `node` for every term carried there.
    fn move_domains(
        &mut self,
        node: NodeIdx,
        labels: &LabelIndex,
        change: fn(&mut TermCounts, ValueId, TermCount),
    ) {
        let Some(on_node) = self.nodes.try_get(node).filter(|terms| !terms.is_empty()).cloned()
        else {
            return;
        };
        for (id, n) in on_node {
            let domain =
                self.carried(id).and_then(|carried| domain_of(carried.term(), node, labels));
            if let Some(domain) = domain {
                self.change(id, |carried| change(&mut carried.domains, domain, n));
            }
        }
    }

    /// Changes a term, and keeps it in the index exactly as long as it has a domain: no pod is compared with a term whose key no
    /// node has.
    fn change(&mut self, id: TermId, change: impl FnOnce(&mut CarriedTerm)) {
        let Some(carried) = self.terms.get_mut(id.0 as usize).as_mut().map(Arc::make_mut) else {
            return;
        };
        let had_any = !carried.domains.is_empty();
        change(carried);
        let has_any = !carried.domains.is_empty();
        if had_any == has_any {
            return;
        }
        let index = Arc::make_mut(&mut self.index);
        if has_any {
            index.insert(carried.kind(), carried.term(), id);
        } else {
            index.remove(carried.term(), id);
        }
        self.n_turnovers += 1;
    }

    fn carried(&self, id: TermId) -> Option<&CarriedTerm> {
        self.terms.try_get(id.0 as usize)?.as_deref()
    }

    fn intern(&mut self, term: TermOfPod<'_>) -> TermId {
        let TermOfPod { kind, is_listed, term, .. } = term;
        let key = TermKey { kind, is_listed, term: term.clone() };
        let id = self.free_id();
        self.by_term.insert(key.clone(), id);
        self.n_turnovers += 1;
        Arc::make_mut(&mut self.index).key_named(&term.topology_key);
        self.n_terms[kind as usize] += 1;
        self.n_with_namespace_selector += usize::from(term.namespace_selector.is_some());
        self.n_by_number += usize::from(term.selects_by_number());
        let carried = CarriedTerm { key, n_carried: 0, domains: TermCounts::new() };
        self.terms.set(id.0 as usize, Some(Arc::new(carried)));
        id
    }

    /// A number that no term has.
    fn free_id(&mut self) -> TermId {
        while let Some(id) = self.free.pop() {
            if self.terms.try_get(id.0 as usize).is_some_and(Option::is_none) {
                return id;
            }
        }
        self.terms.push(None);
        TermId((self.terms.len() - 1) as u32)
    }

    /// Keeps a number that no term has any more for the next one, or gives back its room and that of the free ones before it if
    /// none comes after them.
    fn give_back(&mut self, id: TermId) {
        if id.0 as usize + 1 < self.terms.len() {
            self.free.push(id);
            return;
        }
        let last_is_free = |terms: &Column<Option<_>, SPARSE_CHUNK>| {
            terms.len().checked_sub(1).is_some_and(|last| terms[last].is_none())
        };
        while last_is_free(&self.terms) {
            self.terms.pop();
        }
        // Most of the free numbers are past the end now.
        if room_to_keep(self.terms.len(), self.free.len()).is_some() {
            self.free = Column::new();
            for at in (0..self.terms.len()).rev().filter(|at| self.terms[*at].is_none()) {
                self.free.push(TermId(at as u32));
            }
        }
    }

    fn release(&mut self, id: TermId) {
        let Some(gone) = self.terms.take(id.0 as usize) else { return };
        self.by_term.remove(&gone.key);
        self.n_turnovers += 1;
        Arc::make_mut(&mut self.index).key_dropped(&gone.term().topology_key);
        self.n_terms[gone.kind() as usize] -= 1;
        self.n_with_namespace_selector -= usize::from(gone.term().namespace_selector.is_some());
        self.n_by_number -= usize::from(gone.term().selects_by_number());
        self.give_back(id);
    }
}

/// Sorts terms and adds up what is there more than once.
fn sum_up(terms: &mut NodeTerms) {
    terms.sort_by_key(|(id, _)| *id);
    terms.dedup_by(|(id, n), (kept, sum)| {
        let is_same = id == kept;
        if is_same {
            *sum = sum.plus(*n);
        }
        is_same
    });
}

/// The domain that `node` is in; `None` when it lacks the label.
fn domain_of(term: &PodAffinityTerm, node: NodeIdx, labels: &LabelIndex) -> Option<ValueId> {
    let id = labels.column(&term.topology_key)?.id(node);
    (id != ValueId::ABSENT).then_some(id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// A pod with terms of its own.
    fn pod(which: usize) -> Pod {
        let term = |at| json!({"topologyKey": format!("k{which}-{at}"), "labelSelector": {}});
        let terms: Vec<_> = (0..1 + which % 7).map(term).collect();
        Pod::from_value(&json!({
            "metadata": {"name": which.to_string(), "uid": which.to_string()},
            "spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}},
        }))
        .unwrap()
    }

    proptest! {
        #![proptest_config(crate::tests::cases(64))]

        #[test]
        fn numbers_are_given_once_and_leave_little_room(changes in prop::collection::vec(0_usize..80, 0..300)) {
            let (mut labels, node) = (LabelIndex::default(), NodeIdx::from_index(0));
            labels.resize(1);
            let mut terms = AffinityTerms::default();
            terms.resize(1);
            let mut on_node = BTreeSet::new();
            for which in changes {
                if on_node.insert(which) {
                    terms.add(&pod(which), node, &labels);
                } else {
                    on_node.remove(&which);
                    terms.remove(&pod(which), node, &labels);
                }
                let n_expected: usize = on_node.iter().map(|which| 1 + which % 7).sum();
                prop_assert_eq!(terms.iter().count(), n_expected);
                prop_assert_eq!(terms.n_terms_of_all_kinds(), n_expected);
                let numbers: BTreeSet<TermId> = terms.by_term.values().copied().collect();
                prop_assert_eq!(numbers.len(), n_expected);
                prop_assert!(numbers.iter().all(|id| terms.get(*id).is_some()));
                let last = numbers.last().map_or(0, |id| id.0 as usize + 1);
                prop_assert_eq!(terms.terms.len(), last);
                prop_assert!(terms.free.len() <= 4 * last + 8);
            }
        }
    }
}
