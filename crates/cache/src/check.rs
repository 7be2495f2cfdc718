//! Everything maintained, recomputed from the plain lists of nodes and pods and compared.
//!
//! For tests and for the debugger: O(cluster), and written the obvious way on purpose.
//!
//! What depends on history is compared as far as it can be derived from the present: host ports in use are a subset of
//! those that pods name (see [`HostPorts`](crate::HostPorts)), scalar resources in use a superset.

mod affinity_terms;
mod storage;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use kube_scheduler_api_types::{HostPort, Node, NonZeroRequest, Pod, PodGroup, Resources};

use crate::domains::DomainCounts;
use crate::node_table::NodeIdx;
use crate::objects::storage_class_of;
use crate::pod_groups::PodGroupError;
use crate::state::ClusterState;
use crate::store_size::StoreSize;
use crate::volume_counts::VolumeCounts;

/// Something that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What, and of which node, pod or name.
    pub what: String,
    /// The value that computing it from scratch gives.
    pub expected: String,
    /// The value that the state holds.
    pub found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, found {}", self.what, self.expected, self.found)
    }
}

/// Collects what differs.
struct Report(Vec<Difference>);

impl Report {
    fn compare<T: PartialEq + fmt::Debug>(
        &mut self,
        what: impl FnOnce() -> String,
        expected: T,
        found: T,
    ) {
        if expected != found {
            let (expected, found) = (format!("{expected:?}"), format!("{found:?}"));
            self.0.push(Difference { what: what(), expected, found });
        }
    }

    fn require(&mut self, what: impl FnOnce() -> String, holds: bool) {
        self.compare(what, true, holds);
    }
}

/// A name as the plain lists have it.
#[derive(Default)]
struct PlainNode {
    idx: Option<NodeIdx>,
    node: Option<Arc<Node>>,
    pods: BTreeMap<Arc<str>, Arc<Pod>>,
}

/// Recomputes all aggregates of `cluster` from its nodes and pods and reports what differs; nothing if all is well.
pub fn check(cluster: &ClusterState) -> Vec<Difference> {
    let mut report = Report(Vec::new());
    let plain = plain_nodes(cluster, &mut report);
    for (name, node) in &plain {
        check_node(cluster, name, node, &mut report);
    }
    check_free_slots(cluster, &plain, &mut report);
    check_counts(cluster, &plain, &mut report);
    check_order(cluster, &plain, &mut report);
    check_taints(cluster, &mut report);
    check_labels(cluster, &mut report);
    check_images(cluster, &plain, &mut report);
    volumes::check(cluster, &plain, &mut report);
    check_objects(cluster, &mut report);
    check_counters(cluster, &mut report);
    storage::check_limits(cluster, &mut report);
    affinity_terms::check(cluster, &plain, &mut report);
    report.0
}

fn plain_nodes(cluster: &ClusterState, report: &mut Report) -> BTreeMap<Arc<str>, PlainNode> {
    let mut plain: BTreeMap<Arc<str>, PlainNode> = BTreeMap::new();
    for idx in (0..cluster.capacity()).map(NodeIdx::from_index) {
        let Some(name) = cluster.node_name(idx) else { continue };
        let node = cluster.node(idx).cloned();
        report.compare(|| format!("slot of node {name}"), Some(idx), cluster.nodes.slot_of(name));
        report.require(
            || format!("object in the slot of {name}"),
            node.as_ref().is_none_or(|node| node.name == *name),
        );
        plain.insert(name.clone(), PlainNode { idx: Some(idx), node, pods: BTreeMap::new() });
    }
    for (pod, node) in cluster.all_pods() {
        let name = pod.node_name.clone().unwrap_or_default();
        report.compare(
            || format!("name of the node of pod {}", pod.uid),
            Some(&name),
            cluster.node_name(node),
        );
        let same = cluster.pod(&pod.uid).is_some_and(|found| Arc::ptr_eq(found, pod));
        report.require(|| format!("pod {} is found by its UID", pod.uid), same);
        plain.entry(name).or_default().pods.insert(pod.uid.clone(), pod.clone());
    }
    plain
}

fn check_node(cluster: &ClusterState, name: &str, plain: &PlainNode, report: &mut Report) {
    let Some(idx) = plain.idx else { return };
    let nothing = Node::default();
    let node = plain.node.as_deref().unwrap_or(&nothing);
    let of = |what: &str| format!("{what} of node {name}");

    let is_live = plain.node.is_some();
    report.compare(|| of("slot by name"), is_live.then_some(idx), cluster.node_idx(name));
    report.compare(|| of("liveness"), is_live, cluster.live_nodes().contains(idx));
    report.require(|| of("reason to exist"), is_live || !plain.pods.is_empty());
    report.compare(
        || of("allocatable"),
        node.allocatable.clone(),
        cluster.allocatable().resources_of(idx),
    );
    report.compare(|| of("allowed pods"), node.allowed_pods, cluster.allowed_pods().get(idx));
    let headroom = cluster.columns.headroom_of(idx);
    report.compare(|| of("headroom"), headroom, cluster.headroom().get(idx));
    report.compare(|| of("cordon"), node.unschedulable, cluster.unschedulable().contains(idx));
    report.compare(
        || of("taints"),
        &*node.taints,
        cluster.taint_sets().taints(cluster.taint_set(idx)),
    );
    for column in cluster.labels.columns() {
        let found = column.value(column.id(idx)).map(|value| &**value);
        report.compare(
            || of(&format!("label {}", column.key())),
            node.labels.get(column.key()),
            found,
        );
    }
    check_pods(cluster, idx, plain, &of, report);
    storage::check_node(cluster, name, idx, plain, report);
}

fn check_pods(
    cluster: &ClusterState,
    idx: NodeIdx,
    plain: &PlainNode,
    of: &dyn Fn(&str) -> String,
    report: &mut Report,
) {
    let (requested, non_zero) = totals(plain);
    let found = cluster.requested_on(idx);
    report.compare(|| of("requested scalars"), &requested.scalars, &found.scalars);
    let base = |amounts: &Resources| (amounts.milli_cpu, amounts.memory, amounts.ephemeral_storage);
    report.compare(|| of("requested"), base(&requested), base(&found));
    report.compare(|| of("non-zero requested"), non_zero, cluster.non_zero_requested_on(idx));
    report.compare(
        || of("pod count"),
        Ok(plain.pods.len()),
        usize::try_from(cluster.pod_count().get(idx)),
    );

    check_levels(cluster, idx, plain, of, report);

    let uids = |pods: &mut dyn Iterator<Item = &Arc<Pod>>| -> Vec<Arc<str>> {
        let mut uids: Vec<_> = pods.map(|pod| pod.uid.clone()).collect();
        uids.sort();
        uids
    };
    let expected = uids(&mut plain.pods.values());
    report.compare(|| of("pods"), expected, uids(&mut cluster.pods_on(idx)));
    let named: BTreeSet<&HostPort> =
        plain.pods.values().flat_map(|pod| pod.spec.host_ports.iter()).collect();
    let is_subset = cluster.used_ports(idx).iter().all(|port| named.contains(port));
    report.require(|| of("host ports named by pods"), is_subset);
    let is_known = cluster.used_ports(idx).is_empty() || cluster.nodes_with_ports().contains(idx);
    report.require(|| of("nodes with host ports"), is_known);
}

/// What could be freed by priority: for the lowest pods, for all but the highest, and so on.
fn check_levels(
    cluster: &ClusterState,
    idx: NodeIdx,
    plain: &PlainNode,
    of: &dyn Fn(&str) -> String,
    report: &mut Report,
) {
    let mut levels: BTreeMap<i32, PlainNode> = BTreeMap::new();
    for pod in plain.pods.values() {
        let level = levels.entry(pod.priority()).or_default();
        level.pods.insert(pod.uid.clone(), pod.clone());
    }
    report.compare(
        || of("lowest priority"),
        levels.first_key_value().map(|(priority, _)| *priority),
        cluster.lowest_priority_on(idx),
    );
    // Which resources are there with amount zero depends on pods that are gone.
    let without_zeros = |mut requested: Resources| {
        requested.scalars.retain(|(_, amount)| *amount != 0);
        requested
    };
    let offered = |requested: &Resources| cluster.allocatable().known_of(requested).into_owned();
    let expected: Vec<_> = levels
        .iter()
        .map(|(priority, level)| {
            let (requested, non_zero) = totals(level);
            let n_pods = i64::try_from(level.pods.len()).unwrap_or(i64::MAX);
            (*priority, n_pods, without_zeros(offered(&requested)), non_zero)
        })
        .collect();
    let found: Vec<_> = cluster
        .pods
        .held_by(idx)
        .into_iter()
        .flat_map(|held| held.levels.all())
        .map(|level| {
            (level.priority, level.n_pods, without_zeros(level.requested.clone()), level.non_zero)
        })
        .collect();
    report.compare(|| of("sums by priority"), expected, found);
}

fn totals(plain: &PlainNode) -> (Resources, NonZeroRequest) {
    let mut requested = Resources::default();
    let mut non_zero = NonZeroRequest::default();
    for pod in plain.pods.values() {
        requested.add(&pod.requests.accounted);
        non_zero.milli_cpu = non_zero.milli_cpu.wrapping_add(pod.requests.non_zero.milli_cpu);
        non_zero.memory = non_zero.memory.wrapping_add(pod.requests.non_zero.memory);
    }
    (requested, non_zero)
}

fn check_free_slots(
    cluster: &ClusterState,
    plain: &BTreeMap<Arc<str>, PlainNode>,
    report: &mut Report,
) {
    let used: BTreeSet<NodeIdx> = plain.values().filter_map(|node| node.idx).collect();
    for idx in (0..cluster.capacity()).map(NodeIdx::from_index).filter(|idx| !used.contains(idx)) {
        let of = |what: &str| format!("{what} of free slot {}", idx.index());
        let nothing = Resources::default();
        report.require(
            || of("emptiness"),
            !cluster.live_nodes().contains(idx) && cluster.n_pods_on(idx) == 0,
        );
        report.compare(
            || of("allocatable"),
            nothing.clone(),
            cluster.allocatable().resources_of(idx),
        );
        report.compare(|| of("requested"), nothing, cluster.requested_on(idx));
        report.compare(
            || of("non-zero"),
            NonZeroRequest::default(),
            cluster.non_zero_requested_on(idx),
        );
        report.compare(
            || of("limits"),
            (0, 0),
            (cluster.allowed_pods().get(idx), cluster.pod_count().get(idx)),
        );
        report.compare(|| of("attachments"), 0, cluster.n_attachments().get(idx));
        report.compare(|| of("volumes"), VolumeCounts::default(), cluster.volume_counts().get(idx));
        report.compare(|| of("taints"), 0, cluster.taint_set(idx).index());
        report.require(|| of("cordon"), !cluster.unschedulable().contains(idx));
        report.require(|| of("ports"), cluster.used_ports(idx).is_empty());
    }
}

fn check_counts(
    cluster: &ClusterState,
    plain: &BTreeMap<Arc<str>, PlainNode>,
    report: &mut Report,
) {
    let n_live = plain.values().filter(|node| node.node.is_some()).count();
    report.compare(|| "number of nodes".to_owned(), n_live, cluster.n_nodes());
    report.compare(|| "number of ghosts".to_owned(), plain.len() - n_live, cluster.n_ghosts());
    let n_bytes: usize =
        plain.values().filter_map(|node| node.node.as_ref()).map(|node| node.own_bytes()).sum();
    report.compare(|| "bytes of nodes".to_owned(), n_bytes, cluster.n_bytes_of_nodes());
    let n_pods = plain.values().map(|node| node.pods.len()).sum();
    report.compare(|| "number of pods".to_owned(), n_pods, cluster.n_pods());
    let mut by_namespace: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in plain.values().flat_map(|node| node.pods.values()) {
        *by_namespace.entry(&pod.namespace).or_default() += 1;
    }
    let n_namespaces = cluster.pods.n_namespaces();
    report.compare(|| "namespaces with pods".to_owned(), by_namespace.len(), n_namespaces);
    for (namespace, n_pods) in by_namespace {
        let found = cluster.n_pods_in(namespace);
        report.compare(|| format!("number of pods in {namespace}"), n_pods, found);
    }
    let assumed = cluster.assumed_pods().map(|pod| pod.uid.clone()).collect::<BTreeSet<_>>();
    report.compare(|| "number of assumed pods".to_owned(), assumed.len(), cluster.n_assumed());
    let flagged = plain
        .values()
        .flat_map(|node| node.pods.keys())
        .filter(|uid| cluster.is_assumed(uid))
        .cloned();
    report.compare(|| "assumed pods".to_owned(), flagged.collect(), assumed);
}

fn check_order(cluster: &ClusterState, plain: &BTreeMap<Arc<str>, PlainNode>, report: &mut Report) {
    let live: BTreeSet<NodeIdx> =
        plain.values().filter(|node| node.node.is_some()).filter_map(|node| node.idx).collect();
    let in_tree: Vec<NodeIdx> = cluster.nodes.tree().list();
    report.compare(
        || "number of nodes in the tree".to_owned(),
        live.len(),
        cluster.nodes.tree().n_nodes(),
    );
    report.compare(|| "nodes in the tree".to_owned(), live.clone(), in_tree.into_iter().collect());
    for idx in &live {
        let expected = cluster.node(*idx).map(|node| node.zone_key());
        let found = cluster.nodes.tree().zone_key(*idx).map(str::to_owned);
        report.compare(|| format!("zone of slot {}", idx.index()), expected, found);
    }
    if cluster.order_is_stale() {
        return;
    }
    let order = cluster.order();
    report.compare(|| "length of the order".to_owned(), live.len(), order.len());
    report.compare(|| "nodes in the order".to_owned(), live, order.iter().copied().collect());
    for (rank, idx) in order.iter().enumerate() {
        report.compare(
            || format!("rank of slot {}", idx.index()),
            Some(rank),
            cluster.position(*idx),
        );
    }
}

fn check_taints(cluster: &ClusterState, report: &mut Report) {
    let mut by_id: BTreeMap<_, usize> = BTreeMap::new();
    for idx in cluster.live_nodes().iter() {
        let id = cluster.taint_set(idx);
        if id.index() > 0 {
            *by_id.entry(id).or_default() += 1;
        }
    }
    let found: BTreeMap<_, usize> =
        cluster.taint_sets().iter().map(|(id, _)| (id, cluster.taint_sets().n_nodes(id))).collect();
    report.compare(|| "nodes by list of taints".to_owned(), by_id, found);
    let lists: BTreeSet<_> = cluster.taint_sets().iter().map(|(_, taints)| taints).collect();
    report.compare(
        || "distinct lists of taints".to_owned(),
        lists.len(),
        cluster.taint_sets().iter().count(),
    );
}

fn check_labels(cluster: &ClusterState, report: &mut Report) {
    let mut n_by_key: BTreeMap<&str, usize> = BTreeMap::new();
    for node in cluster.live_nodes().iter().filter_map(|idx| cluster.node(idx)) {
        node.labels.iter().for_each(|(key, _)| *n_by_key.entry(key).or_default() += 1);
    }
    let found = cluster.labels.n_by_key().map(|(key, n)| (&**key, n));
    let found: BTreeMap<_, _> = found.collect();
    report.compare(|| "nodes by label key".to_owned(), n_by_key, found);
    for column in cluster.labels.columns() {
        let key = column.key();
        let mut by_value: BTreeMap<Arc<str>, BTreeSet<NodeIdx>> = BTreeMap::new();
        for idx in cluster.live_nodes().iter() {
            if let Some(value) = cluster.node(idx).and_then(|node| node.labels.get_shared(key)) {
                by_value.entry(value.into_owned()).or_default().insert(idx);
            }
        }
        let found = column
            .values()
            .map(|(_, value, nodes)| (value.clone(), nodes.iter().collect()))
            .collect();
        report.compare(|| format!("nodes by value of label {key}"), by_value, found);
        report.compare(
            || format!("number of values of label {key}"),
            column.values().count(),
            column.n_values(),
        );
        let is_found = column.values().all(|(id, value, _)| column.id_of(value) == Some(id));
        report.require(|| format!("values of label {key} are found"), is_found);
    }
}

fn check_images(
    cluster: &ClusterState,
    plain: &BTreeMap<Arc<str>, PlainNode>,
    report: &mut Report,
) {
    let mut by_name: BTreeMap<Arc<str>, BTreeSet<NodeIdx>> = BTreeMap::new();
    for plain in plain.values() {
        let (Some(idx), Some(node)) = (plain.idx, &plain.node) else { continue };
        for name in node.images.iter().flat_map(|image| image.names.iter()) {
            by_name.entry(name.clone()).or_default().insert(idx);
        }
    }
    report.compare(|| "number of images".to_owned(), by_name.len(), cluster.images.len());
    for (name, nodes) in by_name {
        let found =
            cluster.nodes_with_image(&name).into_iter().flat_map(|nodes| nodes.iter()).collect();
        report.compare(|| format!("nodes with image {name}"), nodes, found);
    }
}

fn check_objects(cluster: &ClusterState, report: &mut Report) {
    let objects = cluster.objects();
    for copy in objects.assumed() {
        let reported = objects.get(&copy.group, &copy.kind, &copy.namespace, &copy.name);
        report.compare(
            || format!("revision of {} {} that is assumed", copy.kind, copy.key()),
            reported.map(|reported| &reported.resource_version),
            Some(&copy.resource_version),
        );
    }
    let mut by_class: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
    for volume in objects.list("", "PersistentVolume") {
        by_class.entry(storage_class_of(volume).into()).or_default().insert(volume.name.clone());
    }
    report.compare(|| "volumes by class".to_owned(), by_class, objects.volumes_by_class());
    let all = objects.kinds();
    let all =
        all.flat_map(|(group, kind)| objects.list(&group, &kind).cloned().collect::<Vec<_>>());
    let recounted: StoreSize =
        all.map(|object| StoreSize { n_entries: 1, n_bytes: object.n_bytes() }).sum();
    report.compare(|| "objects and their bytes".to_owned(), recounted, objects.size());
    let groups = objects.list(PodGroup::GROUP, PodGroup::KIND);
    let mut n_groups = 0;
    for group in groups {
        n_groups += 1;
        report.compare(
            || format!("what pod group {} says", group.key()),
            PodGroup::from_object(group).map_err(PodGroupError::Unreadable).as_ref(),
            cluster.pod_group_object(&group.namespace, &group.name).as_ref().copied(),
        );
    }
    report.compare(|| "pod groups with objects".to_owned(), n_groups, cluster.n_group_objects());
    let [expected, found] = objects.service_selectors_again();
    report.compare(|| "services that select pods".to_owned(), expected, found);
}

fn check_counters(cluster: &ClusterState, report: &mut Report) {
    let mut n_counters = 0;
    for counts in cluster.counters.all() {
        n_counters += 1;
        let spec = counts.spec();
        let expected = DomainCounts::count(cluster, spec).plain(cluster);
        report.compare(|| format!("counter of {spec:?}"), expected, counts.plain(cluster));
        let is_found = cluster.followed(spec).is_some_and(|found| Arc::ptr_eq(found, counts));
        report.require(|| format!("the counter of {spec:?} is found"), is_found);
        let has_column =
            spec.topology_key.as_ref().is_none_or(|key| cluster.label_column(key).is_some());
        report.require(|| format!("the counter of {spec:?} has its column"), has_column);
    }
    report.compare(|| "number of counters".to_owned(), n_counters, cluster.n_followed());
}
