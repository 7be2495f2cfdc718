//! The counters of a cluster: which are followed, and what changes them.

use std::sync::Arc;

use kube_scheduler_api_types::{Node, Pod};

use super::counts::DomainCounts;
use super::eligible::Shared;
use super::spec::CounterSpec;
use super::table::{CounterId, CounterTable};
use crate::change_log::ChangeKinds;
use crate::node_table::NodeIdx;
use crate::state::ClusterState;

/// So many counters are followed for one pod. If it needs more, none is followed: what is known about such a pod is not
/// kept, and each of its counters is counted when it is read. Pods as people write them have a handful.
const MAX_FOLLOWED_FOR_A_POD: usize = 64;
/// Counters whose specifications list more keys, namespaces and values are not followed for a pod either.
const MAX_LISTED: usize = 1024;

/// # Counters by topology domain
impl ClusterState {
    /// Follows a counter: keeps it up to date from now on, with the label column of its topology key. O(nodes) the first
    /// time, and O(pods) if no followed counter counts the same pods; one look-up afterwards. This is not a change of the
    /// state, and is in no log. When there are too many counters, the one unused for longest is dropped.
    pub fn follow(&mut self, spec: &CounterSpec) {
        if self.counters.touch(spec) {
            return;
        }
        if let Some(key) = &spec.topology_key {
            self.want_label_column(key);
        }
        let counts = DomainCounts::derived(self, spec, &mut Shared::default());
        let limit = CounterTable::limit(self.capacity());
        let n_bytes = counts.most_bytes(self);
        let dropped = self.counters.insert(counts, n_bytes, limit);
        dropped.iter().for_each(|key| self.drop_label_column(key));
    }

    /// [Follows](Self::follow) all counters that one pod needs, those that are cheap to derive from others when they are
    /// requested for the second time. If they are very many or very large, only the label columns of their topology keys
    /// are kept.
    pub fn follow_for_pod(&mut self, specs: &[CounterSpec]) {
        let is_large = |spec: &CounterSpec| spec.n_listed() > MAX_LISTED;
        if specs.len() <= MAX_FOLLOWED_FOR_A_POD && !specs.iter().any(is_large) {
            return specs.iter().for_each(|spec| self.follow_if_asked_again(spec));
        }
        for key in specs.iter().filter_map(|spec| spec.topology_key.as_ref()) {
            self.follow_label(key);
        }
    }

    /// As [`follow`](Self::follow), but a counter that is cheap to derive from another one is followed only when it is
    /// requested for the second time: many pods need a counter that no other pod needs, and following it costs more than
    /// deriving it.
    pub(crate) fn follow_if_asked_again(&mut self, spec: &CounterSpec) {
        if self.counters.touch(spec) {
            return;
        }
        if self.counters.with_pods(&spec.pods).is_none() || self.counters.was_asked(spec) {
            self.follow(spec);
        } else if let Some(key) = &spec.topology_key {
            self.follow_label(key);
        }
    }

    /// Keeps the column of a label key that is read without a counter, if any node has the key. Some dozens of them are
    /// kept, more in small clusters; the one unused for longest is dropped when there are too many.
    pub fn follow_label(&mut self, key: &Arc<str>) {
        if !self.labels.is_on_nodes(key) {
            return;
        }
        self.ensure_label_column(key);
        let limit = CounterTable::label_limit(self.capacity());
        if let Some(dropped) = self.counters.touch_label(key, limit) {
            self.drop_label_column(&dropped);
        }
    }

    /// A counter that is [followed](Self::follow), `None` if it is not. A caller that keeps the `Arc` makes the next change
    /// of the counter copy it.
    pub fn followed(&self, spec: &CounterSpec) -> Option<&Arc<DomainCounts>> {
        self.counters.get(spec)
    }

    /// The number of a counter that is [followed](Self::follow).
    pub fn followed_id(&self, spec: &CounterSpec) -> Option<CounterId> {
        self.counters.id_of(spec)
    }

    /// The counter with this number, `None` when it is not followed any more, or was counted again because the labels of
    /// a namespace changed. O(1).
    #[inline]
    pub fn followed_by_id(&self, id: CounterId) -> Option<&DomainCounts> {
        self.counters.by_id(id).map(|counts| &**counts)
    }

    /// Marks counters as used, so that others are dropped before them.
    pub fn keep_following(&mut self, ids: &[CounterId]) {
        ids.iter().for_each(|id| self.counters.touch_id(*id));
    }

    /// A counter as it is now: the followed one, or else one that is computed, at the cost of [`follow`](Self::follow).
    pub fn counted(&self, spec: &CounterSpec) -> Arc<DomainCounts> {
        self.counted_with(spec, &mut Shared::default())
    }

    /// [`counted`](Self::counted) for several counters, in their order: what they have in common is worked out once.
    pub fn counted_all(&self, specs: &[CounterSpec]) -> Vec<Arc<DomainCounts>> {
        let mut shared = Shared::for_counters(specs.len());
        specs.iter().map(|spec| self.counted_with(spec, &mut shared)).collect()
    }

    fn counted_with(&self, spec: &CounterSpec, shared: &mut Shared) -> Arc<DomainCounts> {
        // A key that no node has ends the matter, before anything is compared.
        if spec.needed_keys().any(|key| !self.labels.is_on_nodes(key)) {
            return Arc::new(DomainCounts::nothing(spec));
        }
        let followed = self.followed(spec).cloned();
        followed.unwrap_or_else(|| Arc::new(DomainCounts::derived(self, spec, shared)))
    }

    /// What all followed counters take, in bytes, each reckoned at its largest.
    #[cfg(test)]
    pub(crate) fn n_bytes_of_followed(&self) -> usize {
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
