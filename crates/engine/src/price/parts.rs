//! What each part of a pod costs at most: how often it is compared, and with what.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kube_scheduler_api_types::well_known::{RESOURCE_GROUP, STORAGE_GROUP};
use kube_scheduler_api_types::{
    Fields, Json, LabelSelector, NodeSelectorTerm, Pod, PodAffinityTerm, Requirement, VolumeSource,
};
use kube_scheduler_cache::counters::RequiredNodeAffinity;
use kube_scheduler_cache::{ClusterState, ServiceSelectors};

use super::{Comparisons, Reach, Shift, units};
use crate::spreading_owner::spreading_owner;

/// What messages call a part of a pod, and what the part costs.
type Part = (&'static str, Reach, fn(&Pod, &ClusterState, CountState) -> Comparisons);

/// Whether what a pod needs counted in the whole cluster has been counted. Only then it matters how many requirements are about one
/// label, for which they are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountState {
    Anew,
    Before,
}

/// The parts of a pod that cost something.
pub(super) const PARTS: [Part; 7] = [
    ("nodeSelector and node affinity", Reach::Scope, node_selection),
    ("topology spread constraints", Reach::Cluster, spread_constraints),
    ("spreading by services and owner", Reach::Cluster, default_spreading),
    ("pod affinity and anti-affinity", Reach::Cluster, pod_affinity),
    ("tolerations", Reach::Scope, tolerations),
    ("resources, host ports and images", Reach::Scope, requests),
    ("volumes and resource claims", Reach::Scope, volumes_and_claims),
];

/// Constraints that a pod without any gets by default. An operator who configures more decides about the work as well.
const DEFAULT_CONSTRAINTS: u64 = 2;

/// What it costs to note an affinity term where a pod is put, and to drop it again, in units. It took 0.3 µs with few terms on the
/// node, and 1.5 µs with six thousand (inputs of the cost fuzzer).
pub(super) const CARRYING_A_TERM: u64 = 80;

/// What it costs to note a host port where a pod is put, and to free it again, in units of some 10 ns. It took 0.13 to 0.16 µs
/// in groups of 60 pods with 376 to 557 ports each that were tried on 200 nodes: two thirds of 0.9 to 1.4 s (inputs of the cost
/// fuzzer).
pub(super) const CARRYING_A_PORT: u64 = 15;

/// What a search in a sorted list costs.
fn log(n: usize) -> u64 {
    u64::from(usize::BITS - n.leading_zeros())
}

/// What one comparison with requirements costs, and how many texts they list.
pub(super) fn requirements(all: &[Requirement]) -> (u64, u64) {
    let cost = |(cost, listed), one: &Requirement| {
        (cost + 1 + log(one.values.len()), listed + 1 + units(one.values.len()))
    };
    all.iter().fold((0, 0), cost)
}

/// What it costs to compare a pod with a selector.
#[derive(Clone, Copy, Default)]
struct SelectorCost {
    /// With one requirement after the other.
    one_by_one: u64,
    /// How many texts are listed.
    listed: u64,
    n_requirements: usize,
    /// One label with all requirements about it, at most, if that is known.
    about_one: Option<u64>,
}

impl SelectorCost {
    fn by(selector: Option<&LabelSelector>, counted: CountState) -> Self {
        let Some(selector) = selector else { return Self::default() };
        let all = selector.requirements();
        let (one_by_one, listed) = requirements(all);
        let about_one = (counted == CountState::Before).then(|| {
            let longest = all.iter().map(|one| 1 + log(one.values.len())).max();
            longest.unwrap_or(0).saturating_mul(units(selector.most_about_one_label()))
        });
        Self { one_by_one, listed, n_requirements: all.len(), about_one }
    }

    /// By so many labels, each with its value.
    fn by_pairs(n_requirements: usize) -> Self {
        let n = units(n_requirements).saturating_mul(2);
        Self { one_by_one: n, listed: n, n_requirements, about_one: Some(n.min(2)) }
    }

    /// By all of both.
    fn and(self, other: Self) -> Self {
        Self {
            one_by_one: self.one_by_one.saturating_add(other.one_by_one),
            listed: self.listed.saturating_add(other.listed),
            n_requirements: self.n_requirements.saturating_add(other.n_requirements),
            about_one: match (self.about_one, other.about_one) {
                (Some(one), Some(other)) => Some(one.saturating_add(other)),
                _ => None,
            },
        }
    }

    fn per_shift(self) -> Shift {
        let Self { one_by_one, n_requirements, about_one, .. } = self;
        match about_one {
            Some(about_one) if LabelSelector::looks_labels_up(n_requirements) => {
                let per_label = about_one.saturating_add(2 * log(n_requirements));
                Shift { one_by_one, looked_up: 1, per_label }
            }
            _ => Shift::of_all(one_by_one),
        }
    }
}

fn node_selection(pod: &Pod, _: &ClusterState, _: CountState) -> Comparisons {
    let n_pairs = pod.spec.node_selector.as_ref().map_or(0, |pairs| units(pairs.len()));
    let mut sum = Comparisons { once: n_pairs, per_node: n_pairs, ..Comparisons::default() };
    let Some(affinity) = pod.spec.node_affinity.as_deref() else { return sum };
    let required = affinity.required.iter().flat_map(|selector| selector.terms()).flatten();
    let preferred = affinity.preferred.iter().flatten().flat_map(|terms| terms.iter());
    for term in required.chain(preferred.map(|preferred| &preferred.term)) {
        let NodeSelectorTerm { expressions, fields } = term;
        let (per_node, once) = requirements(expressions);
        let per_node = 1 + per_node + units(fields.len());
        sum = sum.and(Comparisons { once, per_node, ..Comparisons::default() });
    }
    sum
}

fn spread_constraints(pod: &Pod, cluster: &ClusterState, counted: CountState) -> Comparisons {
    let constraints = &pod.spec.topology_spread_constraints;
    let mut sum = Comparisons::default();
    for constraint in constraints.iter() {
        let selecting = SelectorCost::by(constraint.selector.as_ref(), counted);
        let (per_neighbour, once) = (selecting.one_by_one, selecting.listed);
        // No pod is counted without a requirement.
        let per_passed = u64::from(per_neighbour > 0);
        let of_one = Comparisons { once, per_filling: 1, n_counters: 1, ..Comparisons::default() };
        let per_shift = selecting.per_shift().and(Shift::of_all(per_passed));
        sum = sum.and(Comparisons { per_passed, per_neighbour, per_shift, listed: once, ..of_one });
    }
    if !constraints.is_empty() {
        // Which nodes count is found out once, and for each constraint that honours taints.
        let per_constraint = tolerations(pod, cluster, counted).once;
        let once = per_constraint.saturating_mul(units(constraints.len()));
        let per_node = node_selection(pod, cluster, counted).per_node;
        let listed = listed_about_nodes(pod, units(constraints.len()));
        sum = sum.and(Comparisons { once, per_node, listed, ..Comparisons::default() });
    }
    sum
}

/// How many texts the counters of so many constraints list at most about nodes, and beside what is selected: each has its own key and
/// namespace.
fn listed_about_nodes(pod: &Pod, n_constraints: u64) -> u64 {
    let required = RequiredNodeAffinity::of(pod).map_or(0, |required| required.n_listed());
    units(required + pod.spec.tolerations.len()).saturating_add(3 * n_constraints)
}

/// A pod without constraints is spread by what its services and its owner select. Of its services only those labels
/// count that it has itself.
fn default_spreading(pod: &Pod, cluster: &ClusterState, counted: CountState) -> Comparisons {
    if !pod.spec.topology_spread_constraints.is_empty() {
        return Comparisons::default();
    }
    let objects = cluster.objects();
    let ServiceSelectors { n_services, n_pairs, .. } = objects.service_selectors(&pod.namespace);
    let (n_services, n_labels) = (units(n_services), units(pod.labels.len()));
    let n_compared = units(n_pairs).min(n_services.saturating_mul(n_labels));
    // Each service's pairs are looked up among the labels, and listed if the service selects the pod.
    let n_steps = n_compared.saturating_mul(2 * log(pod.labels.len()));
    let once_per_cycle = n_services.saturating_add(n_steps);
    let of_owner = selected_by_owner(pod, cluster, counted);
    let n_selecting = n_pairs.min(pod.labels.len());
    let (of_services, n_owned) = (units(n_selecting), of_owner.listed);
    // What services select is known to be about a pod with these labels. What the owner selects is listed anew only together
    // with it, or if it is pairs without operators.
    let has_pairs_only =
        pod.controller.as_ref().is_some_and(|owner| *owner.kind == *"ReplicationController");
    let is_listed = of_services > 0 || has_pairs_only;
    let once = if is_listed { n_labels + of_services + n_owned } else { 0 };
    let once_per_cycle = once_per_cycle.saturating_add(of_owner.one_by_one);
    if of_services == 0 && n_owned == 0 {
        return Comparisons { once, once_per_cycle, ..Comparisons::default() };
    }
    let selecting = of_owner.and(SelectorCost::by_pairs(n_selecting));
    let listed = listed_about_nodes(pod, DEFAULT_CONSTRAINTS);
    Comparisons {
        once,
        once_per_cycle,
        per_node: node_selection(pod, cluster, counted).per_node,
        per_filling: DEFAULT_CONSTRAINTS,
        per_pod: 0,
        per_passed: DEFAULT_CONSTRAINTS,
        per_neighbour: DEFAULT_CONSTRAINTS.saturating_mul(selecting.one_by_one),
        // All constraints count the same pods, and hosts need no counter of their own.
        per_shift: selecting.per_shift().and(Shift::of_all(1)),
        n_counters: DEFAULT_CONSTRAINTS,
        // Each pair is a key and a value.
        listed: selecting.listed.saturating_add(listed),
    }
}

/// What the controller of a pod selects. It is kept with the controller once it was read, as it is where the pod is spread.
fn selected_by_owner(pod: &Pod, cluster: &ClusterState, counted: CountState) -> SelectorCost {
    match spreading_owner(pod, cluster) {
        Some((controller, true)) => {
            let pairs = controller.json["spec"]["selector"].as_object();
            SelectorCost::by_pairs(pairs.map_or(0, Fields::len))
        }
        Some((controller, false)) => {
            let selector = controller.read_as(LabelSelector::of_controller);
            SelectorCost::by(Some(&*selector), counted)
        }
        None => SelectorCost::default(),
    }
}

/// What [`requirements`] says of a selector that was not read.
pub(super) fn written_requirements(selector: &Json) -> (u64, u64) {
    let pairs = selector["matchLabels"].as_object();
    let of_pairs = 2 * pairs.map_or(0, |pairs| units(pairs.len()));
    let expressions = selector["matchExpressions"].as_array().unwrap_or_default();
    expressions.iter().fold((of_pairs, of_pairs), |(cost, listed), expression| {
        let n_values = expression["values"].as_array().map_or(0, <[_]>::len);
        (cost + 1 + log(n_values), listed + 1 + units(n_values))
    })
}

fn pod_affinity(pod: &Pod, cluster: &ClusterState, counted: CountState) -> Comparisons {
    let mut sum = Comparisons::default();
    for term in pod.spec.affinity_terms() {
        let PodAffinityTerm { selector: pods, namespaces, namespace_selector, topology_key } = term;
        let of_pods = SelectorCost::by(pods.as_ref(), counted);
        let of_namespaces = SelectorCost::by(namespace_selector.as_ref(), CountState::Anew);
        let is_about_neighbours =
            **namespaces == [pod.namespace.clone()] && namespace_selector.is_none();
        let of_namespace = 1 + of_namespaces.one_by_one + log(namespaces.len());
        let (per_passed, per_neighbour, per_pod) = match pods {
            Some(_) if is_about_neighbours => (1, of_pods.one_by_one, 0),
            Some(_) => (0, 0, of_namespace + of_pods.one_by_one),
            // A term without a selector selects no pod, and is compared with none.
            None => (0, 0, 0),
        };
        let listed = 1 + of_pods.listed + of_namespaces.listed + units(namespaces.len());
        let once = listed.saturating_add(CARRYING_A_TERM);
        sum = sum.and(match cluster.is_on_nodes(topology_key) {
            true => {
                let per_shift = match (pods, is_about_neighbours) {
                    (None, _) => Shift::default(),
                    (Some(_), true) => of_pods.per_shift().and(Shift::of_all(1)),
                    (Some(_), false) => of_pods.per_shift().and(Shift::of_all(of_namespace)),
                };
                let of_one =
                    Comparisons { once, per_filling: 1, per_shift, ..Comparisons::default() };
                Comparisons { per_pod, per_passed, per_neighbour, n_counters: 1, listed, ..of_one }
            }
            // What has no domain is not counted.
            false => Comparisons { once, listed, ..Comparisons::default() },
        });
    }
    sum
}

fn tolerations(pod: &Pod, cluster: &ClusterState, _: CountState) -> Comparisons {
    let n_tolerations = units(pod.spec.tolerations.len());
    // Nodes have few different lists of taints, and each list is compared once.
    let once = n_tolerations.saturating_mul(units(cluster.taint_sets().n_ids()));
    Comparisons { once, per_filling: 1, ..Comparisons::default() }
}

fn requests(pod: &Pod, _: &ClusterState, _: CountState) -> Comparisons {
    let n_asked =
        pod.requests.totals.len() + pod.spec.host_ports.len() + pod.spec.images.names.len();
    let carrying = units(pod.spec.host_ports.len()).saturating_mul(CARRYING_A_PORT);
    let once = units(pod.labels.len()).saturating_add(carrying);
    Comparisons { once, per_filling: 1 + units(n_asked), ..Comparisons::default() }
}

fn volumes_and_claims(pod: &Pod, cluster: &ClusterState, _: CountState) -> Comparisons {
    let n_volumes = units(pod.volumes.len());
    let n_claims = units(pod.spec.resource_claims.len());
    let mut sum = Comparisons { per_filling: n_volumes + n_claims, ..Comparisons::default() };
    if n_volumes > 0 {
        sum = sum.and(volume_claims(pod, cluster));
    }
    if n_claims > 0 {
        let n_known = units(cluster.objects().n_objects(RESOURCE_GROUP, "ResourceSlice"));
        sum.once = sum.once.saturating_add(n_claims.saturating_mul(n_known));
    }
    sum
}

/// What it costs at most to serve one claim of very many on a node, in units, beside the one for the volume.
const SERVING_A_CLAIM: u64 = 20;

/// On a node each claim of a pod costs one part of a unit for each claim that the pod has, up to [`SERVING_A_CLAIM`] units. A unit has
/// so many of these parts that pods with few claims cost next to nothing.
const PARTS_OF_A_UNIT: u64 = 16;

/// What it costs to compile a text that a selector lists, in units.
const COMPILING_A_TEXT: u64 = 8;

/// No pod may have claims that select by more texts than this.
const MOST_TEXTS: u64 = 1 << 20;

/// What claims cost. For each there is a look at every volume; what a class has is found out once for all claims of the pod, but claims with
/// a selector choose on their own: each goes through volumes that others have taken. A claim that is not there ends the attempt before
/// any of that.
fn volume_claims(pod: &Pod, cluster: &ClusterState) -> Comparisons {
    let objects = cluster.objects();
    let n_volumes = units(objects.n_objects("", "PersistentVolume"));
    let names = pod.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Claim { claim, .. } => Some(Cow::Borrowed(&**claim)),
        VolumeSource::Ephemeral { .. } => Some(format!("{}-{}", pod.name, volume.name).into()),
        _ => None,
    });
    let names: Vec<Cow<'_, str>> = names.collect();
    let n_claims = units(names.len());
    let (mut n_found, mut n_selecting, mut n_compared, mut n_listed) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut by_name: BTreeMap<Cow<'_, str>, u64> = BTreeMap::new();
    names.into_iter().for_each(|name| *by_name.entry(name).or_default() += 1);
    for (name, n) in by_name {
        let claim = objects.get("", "PersistentVolumeClaim", &pod.namespace, &name);
        let Some(claim) = claim else { continue };
        n_found += n;
        let selector = &claim.json["spec"]["selector"];
        if !selector.is_null() {
            let (compared, listed) = written_requirements(selector);
            n_selecting += 1;
            n_compared = n_compared.saturating_add(compared);
            n_listed = n_listed.saturating_add(listed);
        }
        if n_listed > MOST_TEXTS {
            return Comparisons { once: u64::MAX, ..Comparisons::default() };
        }
    }
    let of_kind = |kind| units(objects.n_objects(STORAGE_GROUP, kind));
    let n_capacities = of_kind("CSIStorageCapacity");
    let once = n_found.min(of_kind("StorageClass")).saturating_mul(n_capacities);
    let once = once
        .saturating_add(n_found.saturating_mul(n_volumes))
        .saturating_add(n_compared.saturating_mul(n_volumes))
        .saturating_add(n_listed * COMPILING_A_TEXT);
    let of_others = n_claims.min(SERVING_A_CLAIM * PARTS_OF_A_UNIT);
    let per_node = n_claims.saturating_mul(of_others) / PARTS_OF_A_UNIT;
    let of_taken = n_selecting.saturating_mul(n_claims.min(n_volumes)).saturating_mul(2);
    Comparisons { once, per_node: per_node.saturating_add(of_taken), ..Comparisons::default() }
}
