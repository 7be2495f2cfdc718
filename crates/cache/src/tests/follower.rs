//! A client that keeps a copy of every column and catches up from the change log, aspect by aspect.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::{NonZeroRequest, Resources, Taint};

use super::fixtures::LABEL_KEYS;
use crate::{ChangeKinds, Changes, ClusterState, NodeIdx};

/// All that columns say about a slot.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    is_live: bool,
    labels: Vec<Option<Arc<str>>>,
    taints: Vec<Taint>,
    allocatable: Resources,
    allowed_pods: i64,
    is_cordoned: bool,
    feature_bits: u64,
    annotations: Vec<(String, String)>,
    conditions: Vec<(Arc<str>, Arc<str>)>,
    uid: Option<Arc<str>>,
    images: Vec<bool>,
    requested: Resources,
    non_zero: NonZeroRequest,
    n_pods: i64,
    ports: Vec<String>,
    pod_labels: Vec<Option<String>>,
}

impl Row {
    /// Reads the aspects in `kinds` and leaves the others.
    fn read(&mut self, cluster: &ClusterState, idx: NodeIdx, kinds: ChangeKinds) {
        // Slots at the end are given back once they are free.
        if idx.index() >= cluster.capacity() {
            *self = Self::default();
            return;
        }
        let node = cluster.node(idx);
        if kinds.intersects(ChangeKinds::MEMBERSHIP) {
            self.is_live = cluster.live_nodes().contains(idx);
        }
        if kinds.intersects(ChangeKinds::LABELS) {
            let column = |key: &&str| cluster.label_column(key);
            self.labels =
                LABEL_KEYS.iter().filter_map(column).map(|c| c.value(c.id(idx)).cloned()).collect();
        }
        if kinds.intersects(ChangeKinds::TAINTS) {
            self.taints = cluster.taint_sets().taints(cluster.taint_set(idx)).to_vec();
        }
        if kinds.intersects(ChangeKinds::ALLOCATABLE) {
            self.allocatable = cluster.allocatable().resources_of(idx);
            self.allowed_pods = cluster.allowed_pods().get(idx);
        }
        if kinds.intersects(ChangeKinds::UNSCHEDULABLE) {
            self.is_cordoned = cluster.unschedulable().contains(idx);
        }
        if kinds.intersects(ChangeKinds::FEATURES) {
            self.feature_bits = node.map_or(0, |node| node.feature_bits);
        }
        if kinds.intersects(ChangeKinds::ANNOTATIONS) {
            let pairs = node.into_iter().flat_map(|node| node.annotations.iter());
            self.annotations =
                pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        }
        if kinds.intersects(ChangeKinds::CONDITIONS) {
            self.conditions = node.map(|node| node.conditions.to_vec()).unwrap_or_default();
        }
        if kinds.intersects(ChangeKinds::IDENTITY) {
            self.uid = node.map(|node| node.uid.clone());
        }
        if kinds.intersects(ChangeKinds::IMAGES) {
            self.images = ["img-a", "img-a:1", "img-b"]
                .map(|name| cluster.nodes_with_image(name).is_some_and(|nodes| nodes.contains(idx)))
                .to_vec();
        }
        if kinds.intersects(ChangeKinds::PODS) {
            self.requested = cluster.requested_on(idx);
            self.non_zero = cluster.non_zero_requested_on(idx);
            self.n_pods = cluster.pod_count().get(idx);
            self.ports = cluster.used_ports(idx).iter().map(|port| format!("{port:?}")).collect();
            self.pod_labels =
                cluster.pods_on(idx).map(|pod| pod.labels.get("app").map(str::to_owned)).collect();
            self.pod_labels.sort();
        }
    }
}

#[derive(Clone, Default)]
pub(super) struct Follower {
    rows: BTreeMap<NodeIdx, Row>,
    seen_to: u64,
    /// New label columns are in no log.
    columns: Vec<bool>,
}

impl Follower {
    pub(super) fn catch_up(&mut self, cluster: &ClusterState) {
        match cluster.changes_since(self.seen_to) {
            Changes::Entries(changes) => {
                for change in changes {
                    self.rows.entry(change.node).or_default().read(
                        cluster,
                        change.node,
                        change.kinds,
                    );
                }
            }
            Changes::Lost => {
                for idx in (0..cluster.capacity()).map(NodeIdx::from_index) {
                    self.rows.entry(idx).or_default().read(cluster, idx, ChangeKinds::ALL);
                }
            }
        }
        self.seen_to = cluster.sequence();
        let columns: Vec<bool> =
            LABEL_KEYS.iter().map(|key| cluster.label_column(key).is_some()).collect();
        if columns != self.columns {
            self.columns = columns;
            for (idx, row) in &mut self.rows {
                row.read(cluster, *idx, ChangeKinds::LABELS);
            }
        }
    }

    /// Asserts that reading every slot from scratch gives the same.
    pub(super) fn assert_up_to_date(&self, cluster: &ClusterState) {
        for idx in (0..cluster.capacity()).map(NodeIdx::from_index) {
            let mut row = Row::default();
            row.read(cluster, idx, ChangeKinds::ALL);
            let mut followed = self.rows.get(&idx).cloned().unwrap_or_default();
            // A slot that only pods have changed has rows of other lengths.
            followed.labels.resize(row.labels.len(), None);
            followed.images.resize(row.images.len(), false);
            assert_eq!(followed, row, "slot {}", idx.index());
        }
    }
}
