//! What could be done about the rejections of each node.
//!
//! For each plugin that rejects a node there are some changes after which it would not, as far as can be told without asking it.
//! One for each of the node's rejections makes a combination that is worth a trial. Lower priorities and smaller workloads do not
//! belong to one node: they may end all rejections at once that depend on the pods of nodes.
//!
//! Invariant: however long the lists of a pod are, there are at most [`MAX_WAYS`] combinations for a node and [`MAX_OF_A_KIND`] of
//! each of [`MAX_KINDS`] kinds altogether.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use kube_scheduler_api_types::well_known::{HOSTNAME, UNSCHEDULABLE_TAINT};
use kube_scheduler_api_types::{Labels, Node, Pod, PodAffinity, Taint};
use kube_scheduler_cache::{ClusterState, NodeIdx};
use kube_scheduler_engine::{AttemptExplanation, Engine, NodeExplanation};
use kube_scheduler_framework::{Code, PluginName, Status};

use super::candidates::{Candidate, is_hard};
use super::devices::changes_of_devices;
use super::volumes::PodVolumes;
use super::workloads::scale_downs;
use super::{MAX_LISTED, MAX_OF_A_KIND};
use crate::amounts::{allocatable, free, overhead_of, requested};
use crate::interrupt::Interrupt;

/// How many changes may stand together.
const MAX_TOGETHER: usize = 2;
/// How many combinations are looked at for one node, the smallest ones, and how many kinds of them for all nodes.
const MAX_WAYS: usize = 256;
const MAX_KINDS: usize = 4_096;
const MAX_PRIORITIES: usize = 8;
/// How many different nodes may be models of new ones.
const MAX_MODELS: usize = 16;
/// The pseudo-resource of which each pod takes one.
pub(super) const PODS: &str = "pods";
/// The highest priority of a PriorityClass that is not the system's own.
const HIGHEST_PRIORITY: i32 = 1_000_000_000;

/// Changes that are made together, none twice. The smaller come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Combination {
    /// Of amounts that have to be tried, the least is counted.
    size: u32,
    changes: Vec<Candidate>,
}

impl Combination {
    pub(super) fn new(changes: Vec<Candidate>) -> Self {
        let least = |change: &Candidate| change.by(1).size();
        Self { size: changes.iter().map(least).fold(0, u32::saturating_add), changes }
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Candidate> {
        self.changes.iter()
    }

    /// The changes, by the greatest amounts of those that have to be tried.
    pub(super) fn changes(&self) -> &[Candidate] {
        &self.changes
    }

    pub(super) const fn size(&self) -> u32 {
        self.size
    }

    /// What it has in common with others of which the smallest that helps is enough.
    pub(super) fn kind(&self) -> Vec<Candidate> {
        self.iter().map(Candidate::kind).collect()
    }

    pub(super) fn may_evict(&self) -> bool {
        self.iter().any(Candidate::may_evict)
    }

    /// Whether nodes are added, of which it takes trials to know how many.
    pub(super) fn adds_nodes(&self) -> bool {
        self.iter().any(|change| matches!(change, Candidate::AddNodesLike { count: 2.., .. }))
    }
}

/// Several ways to do something, each by some changes, in their order.
type Ways = Vec<Vec<Candidate>>;

/// A node where fewer pods may help.
#[derive(Debug)]
pub(super) struct Crowd {
    /// What they would have to give back there, by resource.
    pub(super) missing: Vec<(Arc<str>, i64)>,
    /// Whether pods are in the way by more than what they take, also those of other nodes.
    pub(super) is_in_the_way: bool,
}

/// The smallest combinations of each kind, as many as are tried of one.
#[derive(Default)]
struct SmallestCombinations {
    by_kind: BTreeMap<Vec<Candidate>, BTreeSet<Combination>>,
}

impl SmallestCombinations {
    fn extend(&mut self, ways: impl IntoIterator<Item = Vec<Candidate>>) {
        for changes in ways.into_iter().filter(|changes| !changes.is_empty()) {
            let combination = Combination::new(changes);
            let n_kinds = self.by_kind.len();
            let of_kind = match self.by_kind.entry(combination.kind()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) if n_kinds < MAX_KINDS => new.insert(BTreeSet::new()),
                Entry::Vacant(_) => continue,
            };
            of_kind.insert(combination);
            if of_kind.len() > MAX_OF_A_KIND {
                of_kind.pop_last();
            }
        }
    }
}

/// The single changes and the pairs that may help; after `interrupt`, those of the nodes that were looked at before.
pub(super) fn combinations(
    engine: &Engine,
    pod: &Pod,
    found: &AttemptExplanation,
    interrupt: &Interrupt,
) -> (BTreeSet<Combination>, BTreeSet<Combination>) {
    let cluster = engine.cluster();
    let mut all = SmallestCombinations::default();
    let mut models: Vec<&Node> = Vec::new();
    // Nodes where fewer pods may help, and what else has to be done there.
    let (mut crowded, mut beside) = (BTreeMap::new(), BTreeSet::new());
    let used = ObjectRepairs {
        devices: ways_by(changes_of_devices(cluster.objects(), pod)),
        volumes: PodVolumes::of(cluster.objects(), pod),
    };
    // For plugins whose rejections have the same ways out on every node, these are looked for once.
    let mut rejectors: BTreeSet<Vec<&PluginName>> = BTreeSet::new();
    for explained in found.nodes.iter().take_while(|_| !interrupt.is_set()) {
        let known = cluster.node_idx(&explained.name);
        let Some((idx, node)) = known.and_then(|idx| Some((idx, cluster.node(idx)?))) else {
            continue;
        };
        let node = UnfitNode { cluster, pod, idx, node, explained, used: &used };
        let is_new = node.rejectors_apart_from_nodes().is_none_or(|same| rejectors.insert(same));
        if is_new {
            all.extend(node.repairs(Vec::new(), |status| node.ways(status)));
        }
        let rest = if node.is_crowded() { node.rest_beside_fewer_pods() } else { Vec::new() };
        if !rest.is_empty() {
            crowded.insert(idx, node.crowd());
            if rest.contains(&Vec::new()) {
                // These may be in the way once pods are gone.
                beside.extend(node.pod_affinities().into_iter().filter(|way| way.len() == 1));
            }
            beside.extend(rest);
        }
        if models.len() < MAX_MODELS && !models.iter().any(|model| is_alike(model, node.node)) {
            let of_new = node.repairs_of_one_like_it();
            if !of_new.is_empty() {
                models.push(node.node);
                all.extend(of_new);
            }
        }
    }
    let of_pods = priorities(cluster, pod).chain(scale_downs(engine, pod, &crowded));
    for change in of_pods {
        all.extend(beside.iter().map(|rest| union(rest, std::slice::from_ref(&change))));
    }
    let all = all.by_kind.into_values().flatten();
    all.partition(|combination| combination.changes.len() == 1)
}

/// All of both, each once, in their order.
fn union(some: &[Candidate], others: &[Candidate]) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = some.iter().chain(others).cloned().collect();
    all.sort();
    all.dedup();
    all
}

/// Whether both together are no more changes than may stand together.
fn are_few(some: &[Candidate], others: &[Candidate]) -> bool {
    let n_more = others.iter().filter(|other| !some.contains(other)).count();
    some.len() + n_more <= MAX_TOGETHER
}

fn both(one: &Candidate, other: &Candidate) -> Vec<Candidate> {
    union(std::slice::from_ref(one), std::slice::from_ref(other))
}

/// Whether two nodes differ in no more than their names.
fn is_alike(one: &Node, other: &Node) -> bool {
    let labels = |node: &Node| {
        let labels = node.labels.iter().filter(|(key, _)| *key != HOSTNAME);
        labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect::<Vec<_>>()
    };
    let kind = |node: &Node| (node.allocatable.clone(), node.allowed_pods, node.taints.clone());
    kind(one) == kind(other) && labels(one) == labels(other)
}

/// The names of nodes that differ in more than their names, the first of each kind.
pub(super) fn models(cluster: &ClusterState) -> Vec<Arc<str>> {
    let mut models: Vec<&Node> = Vec::new();
    for node in cluster.live_nodes().iter().filter_map(|idx| cluster.node(idx)) {
        if models.len() < MAX_MODELS && !models.iter().any(|model| is_alike(model, node)) {
            models.push(node);
        }
    }
    models.into_iter().map(|node| node.name.clone()).collect()
}

/// Priorities just above those of running pods, up to the highest that users may give; none for a pod that may not preempt.
fn priorities(cluster: &ClusterState, pod: &Pod) -> impl Iterator<Item = Candidate> + use<> {
    let from = pod.priority();
    let higher = cluster.all_pods().map(|(other, _)| other.priority().saturating_add(1));
    let may_be_given = |priority: &i32| {
        !pod.spec.never_preempts && *priority > from && *priority <= HIGHEST_PRIORITY
    };
    let higher: BTreeSet<i32> = higher.filter(may_be_given).collect();
    higher.into_iter().take(MAX_PRIORITIES).map(move |to| Candidate::RaisePriority { from, to })
}

/// A node that the pod does not fit on.
struct UnfitNode<'a> {
    cluster: &'a ClusterState,
    pod: &'a Pod,
    idx: NodeIdx,
    node: &'a Node,
    explained: &'a NodeExplanation,
    used: &'a ObjectRepairs,
}

/// What could be changed about the objects that the pod uses.
struct ObjectRepairs {
    devices: Ways,
    volumes: PodVolumes,
}

/// Each of some changes, and each two of them.
fn ways_by(changes: Vec<Candidate>) -> Ways {
    let pairs = changes
        .iter()
        .enumerate()
        .flat_map(|(at, one)| changes[at + 1..].iter().map(|other| both(one, other)));
    let pairs: Ways = pairs.collect();
    changes.into_iter().map(|one| vec![one]).chain(pairs).collect()
}

impl<'a> UnfitNode<'a> {
    /// The plugins that reject the node, if there is the same to be done about them on every node.
    fn rejectors_apart_from_nodes(&self) -> Option<Vec<&'a PluginName>> {
        const APART: [&str; 4] =
            ["DynamicResources", "InterPodAffinity", "NodePorts", "PodTopologySpread"];
        let plugins = self.statuses().map(Status::plugin);
        plugins.map(|plugin| plugin.filter(|plugin| APART.contains(&&***plugin))).collect()
    }

    fn statuses(&self) -> impl Iterator<Item = &'a Status> + use<'a> {
        let explained = self.explained;
        let all = std::iter::once(&explained.status).chain(&explained.further);
        // A plugin that leaves the node out before filtering has no status of its own there, but says the same as a filter.
        let is_said_again = |status: &Status| {
            status.plugin().is_none() && explained.further.iter().any(|it| it.plugin().is_some())
        };
        all.filter(move |status| !status.is_success() && !is_said_again(status))
    }

    /// What ends all rejections, beginning with some changes, if few enough changes do; the smallest ways.
    fn repairs(&self, first: Vec<Candidate>, ways: impl Fn(&Status) -> Ways) -> Ways {
        let mut repairs = BTreeSet::from([Combination::new(first)]);
        for status in self.statuses() {
            let mut ways = ways(status);
            ways.retain(|way| way.len() <= MAX_TOGETHER);
            let all = repairs.iter().flat_map(|some| {
                let fitting = ways.iter().filter(|more| are_few(&some.changes, more));
                fitting.map(|more| Combination::new(union(&some.changes, more)))
            });
            let few: BTreeSet<Combination> = all.collect();
            repairs = few.into_iter().take(MAX_WAYS).collect();
        }
        repairs.into_iter().map(|repair| repair.changes).collect()
    }

    /// What ends one rejection, by changes of the pod and of this node.
    fn ways(&self, status: &Status) -> Ways {
        match status.plugin().map(|plugin| &**plugin) {
            Some("NodeResourcesFit") => self.lower_requests(|resource| self.free(resource)),
            Some("TaintToleration") => self.tolerations(),
            Some("NodeUnschedulable") => vec![vec![Candidate::Uncordon(self.node.name.clone())]],
            Some("NodeAffinity") => self.selectors(),
            Some("NodePorts") => self.host_ports(),
            Some("InterPodAffinity") => self.pod_affinities(),
            Some("PodTopologySpread") => self.spread_constraints(),
            Some("DynamicResources") => self.used.devices.clone(),
            Some("VolumeBinding" | "VolumeZone") => self.used.volumes.ways(self.node),
            _ => Vec::new(),
        }
    }

    /// What ends one rejection once some of the node's pods are gone.
    fn ways_beside_fewer_pods(&self, status: &Status) -> Ways {
        match status.plugin().map(|plugin| &**plugin) {
            _ if status.code() == Code::Unschedulable => vec![Vec::new()],
            Some("NodeResourcesFit") => self.lower_to_allocatable(),
            _ => self.ways(status),
        }
    }

    /// What has to be done besides, if it leaves room for fewer pods among the changes.
    fn rest_beside_fewer_pods(&self) -> Ways {
        let mut rest = self.repairs(Vec::new(), |status| self.ways_beside_fewer_pods(status));
        rest.retain(|rest| rest.len() < MAX_TOGETHER);
        rest
    }

    fn lower_to_allocatable(&self) -> Ways {
        self.lower_requests(|resource| allocatable(self.cluster, resource, self.idx))
    }

    /// What makes the pod fit on a new node that is like this one, empty, and open for pods.
    fn repairs_of_one_like_it(&self) -> Ways {
        let new = vec![Candidate::AddNodesLike { node: self.node.name.clone(), count: 1 }];
        self.repairs(new, |status| {
            match status.plugin().map(|plugin| &**plugin) {
                Some("NodeResourcesFit") => self.lower_to_allocatable(),
                Some("NodeUnschedulable" | "NodePorts") => vec![Vec::new()],
                // It may be in the domain of others.
                Some("InterPodAffinity" | "PodTopologySpread" | "NodeVolumeLimits") => {
                    std::iter::once(Vec::new()).chain(self.ways(status)).collect()
                }
                // Which devices a new node would have is not known.
                Some("DynamicResources") => Vec::new(),
                _ => self.ways(status),
            }
        })
    }

    /// Whether a rejection depends on which pods the node has, or may hide one that does.
    fn is_crowded(&self) -> bool {
        self.statuses().any(|status| {
            let plugin = status.plugin().map(|plugin| &**plugin);
            status.code() == Code::Unschedulable
                || matches!(plugin, Some("NodeResourcesFit" | "InterPodAffinity"))
        })
    }

    fn free(&self, resource: &str) -> i64 {
        free(self.cluster, resource, self.idx)
    }

    fn crowd(&self) -> Crowd {
        let wanted = requested(self.pod).into_iter().filter(|(_, amount)| *amount > 0);
        let missing = wanted.map(|(resource, amount)| {
            // More than the node has would have to be given up in any case.
            let most = amount.min(allocatable(self.cluster, &resource, self.idx));
            let missing = most.saturating_sub(self.free(&resource));
            (resource, missing)
        });
        let has_room = self.cluster.pod_count().get(self.idx) < self.node.allowed_pods;
        let pods = (Arc::from(PODS), i64::from(!has_room));
        let is_about_room =
            |status: &Status| status.plugin().is_some_and(|it| **it == *"NodeResourcesFit");
        Crowd {
            missing: missing.chain([pods]).filter(|(_, missing)| *missing > 0).collect(),
            is_in_the_way: !self.statuses().all(is_about_room),
        }
    }

    /// Each request down to what there is, if there is anything of it; nothing if all requests are small enough.
    fn lower_requests(&self, available: impl Fn(&str) -> i64) -> Ways {
        let mut lower = Vec::new();
        for (resource, total) in requested(self.pod).into_iter().filter(|(_, total)| *total > 0) {
            // Overhead is not asked for by containers, so they cannot give it up.
            let overhead = overhead_of(self.pod, &resource);
            let from = total.saturating_sub(overhead);
            match available(&resource).saturating_sub(overhead) {
                to if to >= from => {}
                to if to >= 1 => {
                    lower.push(Candidate::LowerRequest {
                        resource,
                        less: from - to,
                        from,
                        overhead,
                        is_exact: true,
                    });
                }
                _ => return Vec::new(),
            }
        }
        vec![lower]
    }

    /// Tolerations for all taints; that of a cordoned node goes with the cordon.
    fn tolerations(&self) -> Ways {
        let tolerations = &self.pod.spec.tolerations;
        let is_tolerated =
            |taint: &Taint| tolerations.iter().any(|toleration| toleration.tolerates(taint, false));
        let taints =
            self.node.taints.iter().filter(|taint| taint.effect.is_hard() && !is_tolerated(taint));
        let changes = taints.map(|taint| match *taint.key == *UNSCHEDULABLE_TAINT {
            true => Candidate::Uncordon(self.node.name.clone()),
            false => Candidate::Tolerate(taint.clone()),
        });
        vec![union(&changes.collect::<Vec<_>>(), &[])]
    }

    /// The labels of nodeSelector that the node lacks, and the required node affinity.
    fn selectors(&self) -> Ways {
        let spec = &self.pod.spec;
        let selector: Vec<(&str, &str)> =
            spec.node_selector.iter().flat_map(Labels::iter).collect();
        let is_lacking = |(key, value): &&(&str, &str)| self.node.labels.get(key) != Some(*value);
        let lacking: Vec<_> = selector.iter().filter(is_lacking).collect();
        let of_selector = match &lacking[..] {
            [] => Vec::new(),
            [(key, _)] if selector.len() > 1 => {
                vec![Candidate::DropNodeSelectorLabel((*key).into())]
            }
            _ => vec![Candidate::DropNodeSelector],
        };
        let has_affinity =
            spec.node_affinity.as_deref().is_some_and(|affinity| affinity.required.is_some());
        let of_affinity: &[Candidate] =
            if has_affinity { &[Candidate::DropNodeAffinity] } else { &[] };
        let both = union(&of_selector, of_affinity);
        vec![of_selector, both].into_iter().filter(|way| !way.is_empty()).collect()
    }

    fn host_ports(&self) -> Ways {
        let ports = &self.pod.spec.host_ports;
        // The only one is all of them.
        let one_by_one = if ports.len() == 1 { 0 } else { MAX_LISTED };
        let ports = ports.iter().take(one_by_one).cloned().map(Candidate::DropHostPort);
        ports.chain([Candidate::DropHostPorts]).map(|change| vec![change]).collect()
    }

    /// Terms of affinity or of anti-affinity, one or all of them, or some of both.
    fn pod_affinities(&self) -> Ways {
        let spec = &self.pod.spec;
        let affinity = drops(
            spec.pod_affinity.as_deref(),
            |at, topology_key| Candidate::DropPodAffinityTerm { at, topology_key },
            Candidate::DropPodAffinity,
        );
        let anti = drops(
            spec.pod_anti_affinity.as_deref(),
            |at, topology_key| Candidate::DropPodAntiAffinityTerm { at, topology_key },
            Candidate::DropPodAntiAffinity,
        );
        let both = affinity.iter().flat_map(|one| anti.iter().map(|other| both(one, other)));
        affinity.iter().chain(&anti).map(|one| vec![one.clone()]).chain(both).collect()
    }

    /// One hard constraint, or two, of those that are looked at: let pods be distributed less evenly, or unevenly.
    fn spread_constraints(&self) -> Ways {
        let all = &self.pod.spec.topology_spread_constraints;
        // More pods than there are cannot be too many.
        let by = i64::try_from(self.cluster.n_pods()).unwrap_or(i64::MAX).saturating_add(1);
        let relaxed = all.iter().filter(|one| is_hard(one)).take(MAX_LISTED).map(|one| {
            let topology_key = one.topology_key.clone();
            let is_there_softly =
                all.iter().any(|other| !is_hard(other) && other.topology_key == one.topology_key);
            // No pod may have two soft constraints over the same key.
            let off = match is_there_softly {
                true => Candidate::DropSpreadConstraint { topology_key: topology_key.clone() },
                false => Candidate::SoftenSpreadConstraint { topology_key: topology_key.clone() },
            };
            [Candidate::RaiseMaxSkew { topology_key, from: one.max_skew, by }, off]
        });
        let relaxed: Vec<[Candidate; 2]> = relaxed.collect();
        let pairs = relaxed.iter().enumerate().flat_map(|(at, one)| {
            let others = relaxed[at + 1..].iter().flatten();
            others.flat_map(move |other| one.iter().map(move |one| both(one, other)))
        });
        let pairs: Ways = pairs.collect();
        relaxed.iter().flatten().map(|one| vec![one.clone()]).chain(pairs).collect()
    }
}

/// Each required term, if there are several, of those that are looked at one by one, and all of them.
fn drops(
    affinity: Option<&PodAffinity>,
    term: impl Fn(usize, Arc<str>) -> Candidate,
    all: Candidate,
) -> Vec<Candidate> {
    let terms = affinity.map_or(&[][..], |affinity| &affinity.required);
    let one_by_one = match terms.len() {
        0 => return Vec::new(),
        // The only one is all of them.
        1 => 0,
        _ => MAX_LISTED,
    };
    let terms = terms.iter().take(one_by_one).enumerate();
    terms.map(|(at, it)| term(at, it.topology_key.clone())).chain([all]).collect()
}

#[cfg(test)]
mod tests;
