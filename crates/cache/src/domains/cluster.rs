//! The counters of a cluster: which are followed, and what changes them.

use std::sync::Arc;

use kube_scheduler_api_types::{Node, Pod};

use super::counts::DomainCounts;
use super::eligible::SharedEligibility;
use super::spec::CounterSpec;
use super::table::{CounterId, CounterTable};
use crate::change_log::ChangeKinds;
use crate::node_table::NodeIdx;
use crate::requests::{DataRequests, MAX_COUNTERS, RequestedCounter};
use crate::state::ClusterState;

/// Counters whose specifications list more keys, namespaces and values are not followed because a pod needs them.
const MAX_LISTED: usize = 2048;

/// # Counters by topology domain
impl ClusterState {
    /// Follows a counter: keeps it up to date from now on, with the label column of its topology key. O(nodes) the first
    /// time, and O(pods) if no followed counter counts the same pods; one look-up afterwards. This is not a change of the
    /// state, and is in no log. When there are too many counters, one is dropped that was not read lately.
    pub fn follow(&mut self, spec: &CounterSpec) {
        if self.followed(spec).is_some() {
            return;
        }
        if let Some(key) = &spec.topology_key {
            self.want_label_column(key);
        }
        let counts = Arc::new(DomainCounts::derived(self, spec, &mut SharedEligibility::default()));
        self.keep_counter(counts);
    }

    /// Whether [`follow_requested`](Self::follow_requested) will follow all counters of a pod, after they were requested twice at
    /// most: a pod that reads `n_counters` counters, of which none lists more than `n_listed` keys, namespaces and values.
    pub fn follows_requested(n_counters: u64, n_listed: u64) -> bool {
        n_counters <= MAX_COUNTERS as u64 && n_listed <= MAX_LISTED as u64
    }

    /// Whether there is room to follow `n_counters` counters and as many others, even if each takes as much memory as a counter
    /// can. So counters that are read again and again stay followed.
    pub fn can_follow(&self, n_counters: u64) -> bool {
        CounterTable::can_hold(self.capacity(), n_counters)
    }

    fn keep_counter(&mut self, counts: Arc<DomainCounts>) {
        let limit = CounterTable::limit(self.capacity());
        let n_bytes = counts.most_bytes(self);
        let dropped = self.counters.insert(counts, n_bytes, limit);
        dropped.iter().for_each(|key| self.drop_label_column(key));
    }

    /// [Follows](Self::follow) what was read since the last call and had to be computed from scratch: [counters](Self::counted),
    /// and [columns of labels](Self::label_column). A counter that is cheap to derive from another one is followed only
    /// when it is requested for the second time: many pods need a counter that no other pod needs, and following it
    /// costs more than deriving it.
    pub fn follow_requested(&mut self) {
        let DataRequests { counters, labels } = self.requests.take();
        labels.iter().for_each(|key| self.keep_label_column(key));
        for RequestedCounter { counts, counted_at } in counters {
            let spec = counts.spec();
            if self.followed(spec).is_some() {
                continue;
            }
            if self.counters.with_pods(&spec.pods).is_some() && !self.counters.was_asked(spec) {
                continue;
            }
            // What was counted for the reader is kept as it is if nothing has changed since, and if its domains are numbered by a
            // column of the cluster: a column of its own is not kept up to date.
            let has_column = match &spec.topology_key {
                Some(key) => !counts.has_own_column() && self.labels.column(key).is_some(),
                None => true,
            };
            if has_column && counted_at == Some(self.counted_at()) {
                self.keep_counter(counts);
            } else {
                self.follow(spec);
            }
        }
    }

    /// Forgets what was read since the last call of [`follow_requested`](Self::follow_requested): a reader that needs it
    /// again has it computed again.
    pub fn forget_requested(&mut self) {
        self.requests.take();
    }

    /// The states of everything that counters are counted from.
    fn counted_at(&self) -> [u64; 3] {
        [self.sequence(), self.objects.sequence(), self.labels.n_dropped()]
    }

    /// Keeps the column of a label key that is read without a counter, if any node has the key. Some dozens of them are
    /// kept, more in small clusters; when there are too many, one is dropped that was not read lately.
    pub(crate) fn keep_label_column(&mut self, key: &Arc<str>) {
        if !self.labels.is_on_nodes(key) {
            return;
        }
        self.ensure_label_column(key);
        let limit = CounterTable::label_limit(self.capacity());
        if let Some(dropped) = self.counters.keep_label(key, &self.labels, limit) {
            self.drop_label_column(&dropped);
        }
    }

    /// A counter that is [followed](Self::follow), `None` if it is not. A caller that keeps the `Arc` makes the next change
    /// of the counter copy it.
    pub fn followed(&self, spec: &CounterSpec) -> Option<&Arc<DomainCounts>> {
        self.counters.get(spec)
    }

    /// The number of a counter that is [followed](Self::follow).
    pub(crate) fn followed_id(&self, spec: &CounterSpec) -> Option<CounterId> {
        self.counters.id_of(spec)
    }

    /// The counter with this number, `None` when it is not followed any more, or was counted again because the labels of
    /// a namespace changed. O(1).
    #[inline]
    pub(crate) fn followed_by_id(&self, id: CounterId) -> Option<&DomainCounts> {
        self.counters.by_id(id).map(|counts| &**counts)
    }

    /// A counter as it is now: the followed one, or else one that is computed, at the cost of [`follow`](Self::follow), and
    /// that [`follow_requested`](Self::follow_requested) will follow.
    pub fn counted(&self, spec: &CounterSpec) -> Arc<DomainCounts> {
        self.counted_with(spec, &mut SharedEligibility::default())
    }

    /// [`counted`](Self::counted) for several counters, in their order: what they have in common is worked out once.
    #[cfg(test)]
    pub(crate) fn counted_all<'a>(
        &self,
        specs: impl IntoIterator<Item = &'a CounterSpec>,
    ) -> Vec<Arc<DomainCounts>> {
        let specs: Vec<&CounterSpec> = specs.into_iter().collect();
        let mut shared = SharedEligibility::for_counters(specs.len());
        specs.into_iter().map(|spec| self.counted_with(spec, &mut shared)).collect()
    }

    pub(super) fn counted_with(
        &self,
        spec: &CounterSpec,
        shared: &mut SharedEligibility,
    ) -> Arc<DomainCounts> {
        if let Some(counts) = self.followed(spec) {
            return counts.clone();
        }
        // Pods were not counted then.
        let (counts, counted_at) = if self.lacks_key_of(spec) {
            (DomainCounts::nowhere(self, spec, shared), None)
        } else {
            (DomainCounts::derived(self, spec, shared), Some(self.counted_at()))
        };
        let counts = Arc::new(counts);
        if spec.n_listed() <= MAX_LISTED {
            self.requests.counter(&counts, counted_at);
        }
        counts
    }

    /// Whether no node has a label key without which none counts: that ends the matter, before anything is compared.
    pub(super) fn lacks_key_of(&self, spec: &CounterSpec) -> bool {
        spec.needed_keys().any(|key| !self.is_on_nodes(key))
    }

    /// Whether any node has a label.
    pub fn is_on_nodes(&self, key: &str) -> bool {
        self.labels.is_on_nodes(key)
    }

    /// What all followed counters take, in bytes, each counted at its largest.
    pub fn n_bytes_of_followed(&self) -> usize {
        self.counters.n_bytes()
    }

    /// How many counters are followed.
    pub fn n_followed(&self) -> usize {
        self.counters.len()
    }

    /// A pod was put on a node.
    pub(crate) fn count_pod(&mut self, pod: &Pod, node: NodeIdx) {
        let Self { counters, labels, objects, .. } = self;
        counters.shift(pod, node, 1, labels, objects);
    }

    /// A pod was taken off a node.
    pub(crate) fn uncount_pod(&mut self, pod: &Pod, node: NodeIdx) {
        let Self { counters, labels, objects, .. } = self;
        counters.shift(pod, node, -1, labels, objects);
    }

    /// A pod is replaced by another version of itself.
    pub(crate) fn recount_pod(&mut self, old: (&Pod, NodeIdx), new: (&Pod, NodeIdx)) {
        let is_same = old.1 == new.1
            && old.0.namespace == new.0.namespace
            && old.0.labels == new.0.labels
            && old.0.deletion_requested.is_some() == new.0.deletion_requested.is_some();
        if !is_same {
            self.uncount_pod(old.0, old.1);
            self.count_pod(new.0, new.1);
        }
    }

    /// A node is about to change in `kinds`, or to be removed: its labels are still the old ones.
    pub(crate) fn uncount_node(&mut self, node: NodeIdx, kinds: ChangeKinds) {
        let Self { counters, labels, .. } = self;
        counters.hide_node(node, kinds, labels);
    }

    /// A node has changed in `kinds`, or was added: its labels are the new ones.
    pub(crate) fn count_node(&mut self, idx: NodeIdx, node: &Node, kinds: ChangeKinds) {
        let Self { counters, labels, .. } = self;
        counters.show_node(idx, node, kinds, labels);
    }
}
