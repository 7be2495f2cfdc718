//! Evaluations kept per class of pods, and brought up to date from the change log.
//!
//! Pods with equal signatures under the same profile share a class. An entry says up to which change it is good; the next
//! pod of the class looks only at nodes that changed since, usually one.
//!
//! Invariant: an entry is used only if everything that its answers depend on, beside single nodes, is unchanged.

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::{AffinityTermsVersion, Changes};
use kube_scheduler_framework::{
    ChangeKinds, ClusterState, Dependencies, NodeIdx, RunDependencies, Runner, SignatureWriter,
};
use rustc_hash::FxHashMap;

use crate::evaluation::Evaluation;

/// How many signatures are remembered before the table starts over.
const MAX_SIGNATURES: usize = 1 << 16;
/// How many evaluations are kept; the one unused for longest goes first.
const MAX_EVALUATIONS: usize = 64;
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
struct Entry {
    evaluation: Evaluation,
    seen_to: u64,
    versions: Versions,
    last_used: u64,
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
    fn agree(&self, now: &Self, depends: Dependencies) -> bool {
        (!depends.membership || self.membership == now.membership)
            && (!depends.images || self.images == now.images)
            && (!depends.objects || self.objects == now.objects)
            && (!depends.affinity_terms || self.affinity_terms == now.affinity_terms)
    }
}

/// Whether what was computed once stays good as long as the versions agree, and the rest can be looked at node by node.
fn can_be_kept(dependencies: RunDependencies) -> bool {
    let RunDependencies { once, per_node } = dependencies;
    once.node == ChangeKinds::NONE && !once.anything && !per_node.anything
}

/// Evaluations by signature number.
#[derive(Debug, Default)]
pub(crate) struct ClassCache {
    entries: FxHashMap<u64, Entry>,
    clock: u64,
    changed: Vec<NodeIdx>,
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
        let entry = self.entries.remove(&class)?;
        let cluster = runner.cx.cluster;
        let RunDependencies { once, per_node } = entry.evaluation.dependencies;
        if !entry.versions.agree(&Versions::of(cluster), once.union(per_node)) {
            return None;
        }
        let mut evaluation = entry.evaluation;
        if entry.seen_to != cluster.sequence() {
            self.changed.clear();
            match cluster.changes_since(entry.seen_to) {
                Changes::Entries(changes) => {
                    let limit = cluster.capacity() / CATCH_UP_SHARE + 16;
                    for change in changes {
                        if change
                            .kinds
                            .intersects(per_node.node | ChangeKinds::ADDED | ChangeKinds::REMOVED)
                        {
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
        if !can_be_kept(evaluation.dependencies) || !evaluation.is_incremental() {
            return;
        }
        let cluster: &ClusterState = runner.cx.cluster;
        self.clock += 1;
        if self.entries.len() >= MAX_EVALUATIONS && !self.entries.contains_key(&class) {
            let oldest = self.entries.iter().map(|(class, entry)| (entry.last_used, *class)).min();
            if let Some((_, oldest)) = oldest {
                self.entries.remove(&oldest);
            }
        }
        let entry = Entry {
            evaluation,
            seen_to: cluster.sequence(),
            versions: Versions::of(cluster),
            last_used: self.clock,
        };
        self.entries.insert(class, entry);
    }

    /// Whether there is an evaluation of a class, up to date or not.
    pub(crate) fn contains(&self, class: u64) -> bool {
        self.entries.contains_key(&class)
    }

    /// How many evaluations are kept.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}
