//! The counters of a cluster: who has them followed, and what changes them.

use std::sync::Arc;

use kube_scheduler_api_types::{Node, Pod};

use super::counts::DomainCounts;
use super::spec::CounterSpec;
use super::table::{CounterId, CounterTable};
use crate::change_log::ChangeKinds;
use crate::node_table::NodeIdx;
use crate::state::ClusterState;

/// # Counters by topology domain
impl ClusterState {
    /// Keeps a counter up to date from now on, with the label column of its topology key. The first time O(nodes), and
    /// O(pods) if no counter has the same pods; one look-up afterwards. Not a change: it is in no log. The counter unused for longest is dropped when there
    /// are too many.
    pub fn follow(&mut self, spec: &CounterSpec) {
        if self.counters.touch(spec) {
            return;
        }
        if let Some(key) = &spec.topology_key {
            self.ensure_label_column(key);
        }
        let counts = DomainCounts::derived(self, spec);
        let limit = CounterTable::limit(self.capacity());
        let dropped = self.counters.insert(counts, limit);
        dropped.iter().for_each(|key| self.drop_label_column(key));
    }

    /// As [`follow`](Self::follow), but a counter that is easily derived from another one is kept only if it was asked for
    /// before: many a pod asks for one that nobody will ask for again, and keeping it costs more than deriving it.
    pub fn follow_if_asked_again(&mut self, spec: &CounterSpec) {
        if self.counters.touch(spec) {
            return;
        }
        if self.counters.with_pods(&spec.pods).is_none() || self.counters.was_asked(spec) {
            self.follow(spec);
        } else if let Some(key) = &spec.topology_key {
            self.follow_label(key);
        }
    }

    /// Keeps the column of a label key that is wanted without a counter. A few dozen of them are kept; the one unused
    /// for longest is dropped when there are too many.
    pub fn follow_label(&mut self, key: &Arc<str>) {
        self.ensure_label_column(key);
        if let Some(dropped) = self.counters.touch_label(key) {
            self.drop_label_column(&dropped);
        }
    }

    /// A counter that is [followed](Self::follow). Holding on to it costs a copy with the next change to it.
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

    /// Takes note that counters are in use, so that others make room first.
    pub fn keep_following(&mut self, ids: &[CounterId]) {
        ids.iter().for_each(|id| self.counters.touch_id(*id));
    }

    /// A counter as it is now: the followed one, or one that is computed.
    pub fn counted(&self, spec: &CounterSpec) -> Arc<DomainCounts> {
        self.followed(spec).cloned().unwrap_or_else(|| Arc::new(DomainCounts::derived(self, spec)))
    }

    /// How many counters are followed.
    pub fn n_followed(&self) -> usize {
        self.counters.len()
    }

    /// A pod is on a node now.
    pub(crate) fn count_pod(&mut self, pod: &Pod, node: NodeIdx) {
        let Self { counters, labels, objects, .. } = self;
        counters.shift(pod, node, 1, labels, objects);
    }

    /// A pod is no longer on a node.
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

    /// A node is about to differ in `kinds`, or to go: its labels are still the old ones.
    pub(crate) fn uncount_node(&mut self, node: NodeIdx, kinds: ChangeKinds) {
        let Self { counters, labels, .. } = self;
        counters.hide_node(node, kinds, labels);
    }

    /// A node differs in `kinds`, or has come: its labels are the new ones.
    pub(crate) fn count_node(&mut self, idx: NodeIdx, node: &Node, kinds: ChangeKinds) {
        let Self { counters, labels, .. } = self;
        counters.show_node(idx, node, kinds, labels);
    }
}
