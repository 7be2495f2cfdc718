//! Counters of pods per node and per topology domain, kept up to date by every change of the state.
//!
//! A [`CounterSpec`] says which pods count, on which nodes, and by which topology key. Whoever wants its
//! [`DomainCounts`] has the state [follow](ClusterState::follow) it; pods of one deployment ask for equal
//! specifications and share one counter. What is not followed is computed in one scan with [`DomainCounts::count`].
//!
//! Invariants: a followed counter equals the one computed from scratch after every change (`check` compares them);
//! ghosts count nowhere, and their pods count again as soon as the node is back; the number of followed counters is
//! bounded, the one unused for longest makes room.

mod counts;
mod eligible;
mod spec;
mod table;

use kube_scheduler_api_types::{Node, Object, Pod};

pub use counts::{Domain, DomainCounts};
pub use spec::{CountedNodes, CountedPods, CounterSpec, PodTerm, RequiredNodeAffinity, Tolerated};
pub use table::CounterId;
pub(crate) use table::CounterTable;

use std::sync::Arc;

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

    /// Adds or replaces an object that is neither pod nor node, and returns the one that was there.
    pub fn upsert_object(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let is_namespace = is_namespace(&object.group, &object.kind);
        let name = object.name.clone();
        let old = self.objects.upsert(object.clone());
        self.storage_changed(old.as_deref(), Some(&object));
        if is_namespace {
            self.namespace_changed(&name, old.as_deref());
        }
        old
    }

    /// Removes an object that is neither pod nor node, and returns it.
    pub fn remove_object(
        &mut self,
        group: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Object>> {
        let old = self.objects.remove(group, kind, namespace, name)?;
        self.storage_changed(Some(&old), None);
        if is_namespace(group, kind) {
            self.namespace_changed(name, Some(&old));
        }
        Some(old)
    }

    /// Counts again wherever a namespace begins or ceases to be meant. O(pods) for each such counter.
    fn namespace_changed(&mut self, name: &str, old: Option<&Object>) {
        let old = old.map(|object| &object.labels);
        let new = self.objects.namespace_labels(name);
        if old == new {
            return;
        }
        let specs: Vec<CounterSpec> = self
            .counters
            .all()
            .map(|counts| counts.spec())
            .filter(|spec| spec.pods.tells_apart(old, new))
            .cloned()
            .collect();
        for spec in specs {
            let counts = DomainCounts::count(self, &spec);
            self.counters.replace(counts);
        }
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

fn is_namespace(group: &str, kind: &str) -> bool {
    group.is_empty() && kind == "Namespace"
}
