//! Evaluations kept per class of pods, and brought up to date from the change log.
//!
//! Pods with equal signatures under the same profile share a class. An entry says up to which change it is good; the next
//! pod of the class looks only at nodes that changed since, usually one.
//!
//! Invariant: an entry is used only if everything that its answers were read from, beside single nodes, is unchanged.

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::{AffinityTermsVersion, Changes, CounterId};
use kube_scheduler_framework::{
    ChangeKinds, ClusterState, NodeIdx, Reads, Runner, SignatureWriter,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::evaluation::Evaluation;
use crate::grouped::{Grouped, STARTS_OVER};
use crate::pool::Pool;

/// How many signatures are remembered before the table starts over.
const MAX_SIGNATURES: usize = 1 << 16;
/// How many evaluations are kept; the one unused for longest goes first.
const MAX_EVALUATIONS: usize = 64;
/// How many classes are remembered that came up once.
const MAX_SEEN: usize = 1 << 14;
/// After how many attempts a class is looked at again that could not be kept by groups.
const ATTEMPTS_WITHOUT_GROUPS: u32 = 32;
/// How many nodes may have changed before starting over is cheaper than catching up, as a share of all.
const CATCH_UP_SHARE: usize = 4;

/// Numbers for signatures. A number is never used for two signatures; one signature may get several over time.
#[derive(Debug, Default)]
pub(crate) struct Signatures {
    ids: FxHashMap<Box<[u8]>, u64>,
    next: u64,
}

impl Signatures {
    /// The number for a pod under a profile; `None` when it must be evaluated on its own.
    pub(crate) fn number(&mut self, profile: usize, runner: &SignPlan, pod: &Pod) -> Option<u64> {
        let bytes = runner.sign(profile, pod)?;
        if let Some(id) = self.ids.get(&*bytes) {
            return Some(*id);
        }
        if self.ids.len() >= MAX_SIGNATURES {
            self.ids.clear();
        }
        self.next += 1;
        self.ids.insert(bytes.into(), self.next);
        Some(self.next)
    }

    /// How many are remembered.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }
}

/// Which plugins of a profile contribute to signatures.
#[derive(Clone, Debug)]
pub(crate) struct SignPlan {
    plugins: Option<Vec<std::sync::Arc<dyn kube_scheduler_framework::Plugin>>>,
}

impl SignPlan {
    /// A plan for `profile`; pods can be signed only if every plugin that judges nodes can sign.
    pub(crate) fn new(profile: &kube_scheduler_framework::Profile) -> Self {
        use kube_scheduler_framework::ExtensionPoint::{Filter, PreFilter, PreScore, Score};
        let mut used: Vec<usize> = [PreFilter, Filter, PreScore, Score]
            .iter()
            .flat_map(|point| profile.at(*point).to_vec())
            .collect();
        used.sort_unstable();
        used.dedup();
        let plugins: Vec<_> = used.iter().filter_map(|idx| profile.plugins().get(*idx)).collect();
        let can_sign = plugins.iter().all(|entry| entry.plugin.as_sign().is_some());
        Self {
            plugins: can_sign
                .then(|| plugins.into_iter().map(|entry| entry.plugin.clone()).collect()),
        }
    }

    fn sign(&self, profile: usize, pod: &Pod) -> Option<Vec<u8>> {
        let mut signature = SignatureWriter::new();
        signature.len(profile);
        for plugin in self.plugins.as_ref()? {
            if !plugin.as_sign()?.sign(pod, &mut signature) {
                return None;
            }
        }
        Some(signature.into_bytes())
    }
}

#[derive(Debug)]
struct Entry<T> {
    kept: T,
    seen_to: u64,
    versions: Versions,
    last_used: u64,
}

/// What is kept by class, the one unused for longest making room.
#[derive(Debug)]
struct Kept<T>(FxHashMap<u64, Entry<T>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<T> Kept<T> {
    fn insert(&mut self, class: u64, entry: Entry<T>) {
        if self.0.len() >= MAX_EVALUATIONS && !self.0.contains_key(&class) {
            let oldest = self.0.iter().map(|(class, entry)| (entry.last_used, *class)).min();
            if let Some((_, oldest)) = oldest {
                self.0.remove(&oldest);
            }
        }
        self.0.insert(class, entry);
    }
}

/// Where those parts of the cluster stood that are not single nodes.
#[derive(Clone, Copy, Debug)]
struct Versions {
    membership: u64,
    images: u64,
    objects: u64,
    affinity_terms: AffinityTermsVersion,
}

impl Versions {
    fn of(cluster: &ClusterState) -> Self {
        Self {
            membership: cluster.membership_sequence(),
            images: cluster.image_sequence(),
            objects: cluster.objects().sequence(),
            affinity_terms: cluster.affinity_terms_version(),
        }
    }

    /// Whether nothing that matters to an answer differs.
    fn agree(&self, now: &Self, reads: Reads) -> bool {
        (!reads.intersects(Reads::MEMBERSHIP) || self.membership == now.membership)
            && (!reads.intersects(Reads::IMAGE_STATES) || self.images == now.images)
            && (!reads.intersects(Reads::OBJECTS) || self.objects == now.objects)
            && (!reads.intersects(Reads::AFFINITY_TERMS)
                || self.affinity_terms == now.affinity_terms)
    }
}

/// Evaluations by signature number.
#[derive(Debug, Default)]
pub(crate) struct ClassCache {
    evaluations: Kept<Evaluation>,
    /// Those whose answers follow other pods.
    grouped: Kept<Grouped>,
    /// Classes that came up before and could not be kept as evaluations: worth more work the next time.
    seen: FxHashSet<u64>,
    /// Classes that cannot be kept by groups either, with the attempts left until that is tried again.
    without_groups: FxHashMap<u64, u32>,
    clock: u64,
    changed: Vec<NodeIdx>,
    with_pods: Vec<NodeIdx>,
    /// How often an evaluation was brought up to date, and how often one was made.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl ClassCache {
    /// Takes the evaluation of a class, brought up to date; `None` when there is none or it is no longer good.
    /// Give it back with [`put`](Self::put).
    pub(crate) fn take(
        &mut self,
        class: u64,
        runner: &Runner<'_>,
        pod: &Pod,
    ) -> Option<Evaluation> {
        let entry = self.evaluations.0.remove(&class)?;
        let cluster = runner.cx.cluster;
        let mut evaluation = entry.kept;
        let reads = evaluation.reads();
        if !entry.versions.agree(&Versions::of(cluster), reads.union()) {
            self.note_seen(class);
            return None;
        }
        if entry.seen_to != cluster.sequence() {
            self.changed.clear();
            let kinds = reads.per_node.node_kinds() | ChangeKinds::ADDED | ChangeKinds::REMOVED;
            match cluster.changes_since(entry.seen_to) {
                Changes::Entries(changes) => {
                    let limit = cluster.capacity() / CATCH_UP_SHARE + 16;
                    for change in changes {
                        if change.kinds.intersects(kinds) {
                            self.changed.push(change.node);
                        }
                    }
                    self.changed.sort_unstable();
                    self.changed.dedup();
                    if self.changed.len() > limit {
                        return None;
                    }
                }
                Changes::Lost => return None,
            }
            // A failed refresh leaves the evaluation half changed: it is dropped, and starting over shows the error.
            evaluation.refresh(runner, pod, &self.changed).ok()?;
        }
        self.hits += 1;
        Some(evaluation)
    }

    /// Keeps an evaluation that is up to date with `runner`'s cluster, if it can be kept at all.
    pub(crate) fn put(&mut self, class: u64, runner: &Runner<'_>, evaluation: Evaluation) {
        let is_whole = !evaluation.is_for_once || evaluation.n_feasible() == 0;
        let can_be_cached =
            is_whole && evaluation.is_incremental() && evaluation.reads().can_be_cached();
        if !can_be_cached {
            self.note_seen(class);
            return;
        }
        let entry = self.entry(evaluation, runner.cx.cluster);
        self.evaluations.insert(class, entry);
    }

    /// The answers of a class by groups, brought up to date; `None` when there are none or they cannot be followed.
    /// They are made when a class comes up for the second time.
    pub(crate) fn grouped(
        &mut self,
        class: u64,
        runner: &Runner<'_>,
        pod: &Pod,
        pool: &Pool,
    ) -> Option<&Grouped> {
        if self.grouped.0.contains_key(&class) {
            if self.bring_up_to_date(class, runner, pod).is_some() {
                self.hits += 1;
                return self.grouped.0.get(&class).map(|entry| &entry.kept);
            }
            self.grouped.0.remove(&class);
        } else if !self.is_worth_grouping(class) {
            return None;
        }
        self.misses += 1;
        let Some(grouped) = Grouped::new(runner, pod, pool) else {
            if self.without_groups.len() >= MAX_SEEN {
                self.without_groups.clear();
            }
            self.without_groups.insert(class, ATTEMPTS_WITHOUT_GROUPS);
            return None;
        };
        let entry = self.entry(grouped, runner.cx.cluster);
        self.grouped.insert(class, entry);
        self.grouped.0.get(&class).map(|entry| &entry.kept)
    }

    fn bring_up_to_date(&mut self, class: u64, runner: &Runner<'_>, pod: &Pod) -> Option<()> {
        let cluster = runner.cx.cluster;
        let entry = self.grouped.0.get_mut(&class)?;
        self.clock += 1;
        entry.last_used = self.clock;
        let now = Versions::of(cluster);
        let reads = entry.kept.reads();
        if !entry.versions.agree(&now, reads.union().union(Reads::MEMBERSHIP)) {
            return None;
        }
        let Changes::Entries(changes) = cluster.changes_since(entry.seen_to) else { return None };
        self.changed.clear();
        self.with_pods.clear();
        let own_kinds = reads.per_node.node_kinds();
        for change in changes {
            if change.kinds.intersects(STARTS_OVER) {
                return None;
            }
            if change.kinds.intersects(own_kinds) {
                self.changed.push(change.node);
            }
            if change.kinds.intersects(ChangeKinds::PODS) {
                self.with_pods.push(change.node);
            }
        }
        for nodes in [&mut self.changed, &mut self.with_pods] {
            nodes.sort_unstable();
            nodes.dedup();
            if nodes.len() > cluster.capacity() / CATCH_UP_SHARE + 16 {
                return None;
            }
        }
        entry.seen_to = cluster.sequence();
        entry.versions = now;
        entry.kept.catch_up(runner, pod, &self.changed, &self.with_pods)
    }

    fn entry<T>(&mut self, kept: T, cluster: &ClusterState) -> Entry<T> {
        self.clock += 1;
        Entry {
            kept,
            seen_to: cluster.sequence(),
            versions: Versions::of(cluster),
            last_used: self.clock,
        }
    }

    /// Whether a class came up before.
    pub(crate) fn has_seen(&self, class: u64) -> bool {
        self.seen.contains(&class)
    }

    fn note_seen(&mut self, class: u64) {
        if self.seen.len() >= MAX_SEEN {
            self.seen.clear();
        }
        self.seen.insert(class);
    }

    fn is_worth_grouping(&mut self, class: u64) -> bool {
        if let Some(left) = self.without_groups.get_mut(&class) {
            *left -= 1;
            if *left > 0 {
                return false;
            }
            self.without_groups.remove(&class);
        }
        self.seen.contains(&class)
    }

    /// Whether anything is kept of a class, up to date or not.
    pub(crate) fn contains(&self, class: u64) -> bool {
        self.evaluations.0.contains_key(&class) || self.grouped.0.contains_key(&class)
    }

    /// The counters of the cluster that answers of a class are read from.
    pub(crate) fn counters(&self, class: u64) -> &[CounterId] {
        self.grouped.0.get(&class).map_or(&[], |entry| entry.kept.counters())
    }

    /// Of how many classes answers are kept.
    pub(crate) fn len(&self) -> usize {
        self.evaluations.0.len() + self.grouped.0.len()
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.evaluations.0.clear();
        self.grouped.0.clear();
        self.seen.clear();
        self.without_groups.clear();
    }
}
