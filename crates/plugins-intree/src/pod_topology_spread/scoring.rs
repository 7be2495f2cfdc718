//! Soft constraints: how many pods there are already, weighed by how many domains there are to choose from
//! (`docs/spec/plugins-topology.md` §3).
//!
//! The arithmetic is the reference's: 64-bit floats, summed in the order of the constraints, rounded half away from
//! zero, and integer division when normalising.

use std::sync::Arc;

use kube_scheduler_framework::api::well_known::HOSTNAME;
use kube_scheduler_framework::api::{Pod, TopologySpreadConstraint};
use kube_scheduler_framework::columns::{
    COLUMN_CHUNK, LabelColumn, NodeSet, ValueId as LabelValueId,
};
use kube_scheduler_framework::counters::{CounterSpec, PodCounter};
use kube_scheduler_framework::{
    ClusterView, Context, CycleState, FeasibleNodes, MAX_NODE_SCORE, NodeIdx, NodeView,
    Normalization, PodCounts, PreScore, Score, Status, percent,
};
use smallvec::SmallVec;

use super::PodTopologySpread;
use super::constraints::GivenConstraints;

const NO_STATE: &str = "error reading \"PreScorePodTopologySpread\" from cycleState: not found";

/// A raw score that no node gets by itself as long as skews are positive.
const IGNORED: i64 = -1;

/// What the constraints of `pod` count, in order. Hosts are scored by the counts of their node, which any counter of
/// the same pods has.
pub(super) fn specs(
    constraints: &GivenConstraints<'_>,
    pod: &Pod,
    requires_all: bool,
    compares_numbers: bool,
) -> Vec<CounterSpec> {
    let keys = if requires_all { constraints.keys() } else { Arc::default() };
    let by_domain = |given: &TopologySpreadConstraint| {
        let mut spec = constraints.spec(given, pod, &keys, compares_numbers);
        spec.nodes.counts_unlabelled = !requires_all;
        spec
    };
    let spec = |given: &TopologySpreadConstraint| {
        if &*given.topology_key != HOSTNAME {
            return by_domain(given);
        }
        let pods = constraints.counted_pods(given, pod);
        let others = constraints.iter().filter(|other| &*other.topology_key != HOSTNAME);
        let mut others = others.filter(|other| constraints.counted_pods(other, pod) == pods);
        match others.next() {
            Some(other) => by_domain(other),
            None => CounterSpec { pods, ..CounterSpec::default() },
        }
    };
    constraints.iter().map(spec).collect()
}

/// A constraint with what it counts.
struct Wish {
    max_skew: i64,
    counter: PodCounter,
    /// The domains of hosts; `None` where `counter` has the domains.
    hosts: Option<PodCounter>,
}

/// The soft constraints of a pod.
#[derive(Clone)]
pub(super) struct Wishes {
    all: Arc<[Wish]>,
    /// Whether nodes that lack a label take no part in scoring.
    requires_all: bool,
}

impl Wishes {
    /// O(constraints), if the cluster follows what they count.
    pub(super) fn of(
        cluster: ClusterView<'_>,
        constraints: &GivenConstraints<'_>,
        specs: &[CounterSpec],
        requires_all: bool,
    ) -> Self {
        let counters = cluster.count_pods_of_each(specs);
        let wishes = constraints.iter().zip(counters).map(|(given, counter)| Wish {
            max_skew: given.max_skew.into(),
            counter,
            hosts: (&*given.topology_key == HOSTNAME).then(|| cluster.domains(&given.topology_key)),
        });
        Self { all: wishes.collect(), requires_all }
    }

    /// What to read about nodes, by constraint; `None` when the cluster no longer follows a counter.
    fn read<'a>(&'a self, cluster: ClusterView<'a>) -> Option<Readers<'a>> {
        self.all.iter().map(|wish| Reader::new(cluster, wish, self.requires_all)).collect()
    }
}

type Readers<'a> = SmallVec<[Reader<'a>; 2]>;

/// What a constraint says about nodes is read from here.
struct Reader<'a> {
    wish: &'a Wish,
    counts: PodCounts<'a>,
    /// The domains where every node is one of its own.
    hosts: Option<PodCounts<'a>>,
    /// Whether nodes without the label are in the domain of the empty value.
    counts_unlabelled: bool,
}

impl<'a> Reader<'a> {
    fn new(cluster: ClusterView<'a>, wish: &'a Wish, requires_all: bool) -> Option<Self> {
        let counts = cluster.counts(&wish.counter)?;
        let hosts = wish.hosts.as_ref().and_then(|hosts| cluster.counts(hosts));
        Some(Self { wish, counts, hosts, counts_unlabelled: !requires_all })
    }

    #[inline]
    fn has_label(&self, node: NodeIdx) -> bool {
        self.hosts.as_ref().unwrap_or(&self.counts).has_domain(node)
    }

    /// How many pods are where a node is.
    ///
    /// Quirk: for hosts these are the pods of the node, whether or not it counts and whichever other node has the same
    /// host name. Pinned by `hosts_are_scored_by_their_node_alone`.
    fn n_pods(&self, node: NodeIdx) -> i64 {
        if self.hosts.is_some() {
            return self.counts.n_pods_on(node);
        }
        let column = self.counts.column();
        column.map_or(0, |column| self.n_pods_in(column, column.id(node)))
    }

    /// How many pods are in a domain; nodes without the label are in that of the empty value.
    fn n_pods_in(&self, column: &LabelColumn, value: LabelValueId) -> i64 {
        let numbers = self.counts.numbers();
        let has_unlabelled = self.counts_unlabelled && column.id_of("") == Some(value);
        let unlabelled = has_unlabelled.then(|| numbers.n_pods_in(LabelValueId::ABSENT));
        numbers.n_pods_in(value) + unlabelled.unwrap_or(0)
    }

    /// The sum with the part of one node.
    #[inline]
    fn add_to(&self, sum: f64, node: NodeIdx, weight: f64) -> f64 {
        if self.has_label(node) { sum + self.part(self.n_pods(node), weight) } else { sum }
    }

    /// What a number of pods contributes to a raw score.
    fn part(&self, n_pods: i64, weight: f64) -> f64 {
        n_pods as f64 * weight + (self.wish.max_skew - 1) as f64
    }

    /// In how many domains the nodes are, each with the number of nodes that it stands for. No label is the same as an
    /// empty value.
    fn n_domains(&self, nodes: impl Iterator<Item = (NodeIdx, usize)>) -> usize {
        // Every host is a domain of its own, so hosts need no look at their values.
        let Some(column) = self.counts.column().filter(|_| self.hosts.is_none()) else {
            return nodes.map(|(_, n_nodes)| n_nodes).sum();
        };
        let mut is_seen = vec![false; column.n_ids()];
        let places = &mut is_seen[..];
        nodes.for_each(|(node, _)| places[column.id(node).index()] = true);
        let n_seen = is_seen.iter().filter(|is_seen| **is_seen).count();
        let seen = |value: LabelValueId| is_seen.get(value.index()).copied().unwrap_or(false);
        let is_double = seen(LabelValueId::ABSENT) && column.id_of("").is_some_and(seen);
        n_seen - usize::from(is_double)
    }
}

/// What PreScore stores for Score: soft constraints with their weights, and the candidates that take no part.
#[derive(Clone)]
struct SoftState {
    wishes: Wishes,
    weights: SmallVec<[f64; 2]>,
    ignored: Arc<NodeSet>,
}

impl SoftState {
    /// For `candidates`, each with the number of nodes that it stands for. `None` when the cluster no longer follows a
    /// counter.
    fn new(
        cluster: ClusterView<'_>,
        wishes: Wishes,
        candidates: impl Iterator<Item = (NodeIdx, usize)> + Clone,
    ) -> Option<Self> {
        let readers = wishes.read(cluster)?;
        // Found before the weights: the candidates that take no part must not add to the number of domains.
        let mut ignored = NodeSet::new();
        if wishes.requires_all {
            for (node, _) in candidates.clone() {
                if readers.iter().any(|reader| !reader.has_label(node)) {
                    ignored.insert(node);
                }
            }
        }
        let is_ignored = |node| !ignored.is_empty() && ignored.contains(node);
        let weight = |reader: &Reader<'_>| {
            let taking_part = candidates.clone().filter(|(node, _)| !is_ignored(*node));
            weight_of(reader.n_domains(taking_part))
        };
        let weights = readers.iter().map(weight).collect();
        drop(readers);
        Some(Self { wishes, weights, ignored: Arc::new(ignored) })
    }

    /// What to read about nodes, by constraint.
    fn read<'a>(&'a self, cluster: ClusterView<'a>) -> Result<Readers<'a>, Status> {
        self.wishes.read(cluster).ok_or_else(no_state)
    }

    /// Replaces the scores of nodes that take no part.
    fn replace_ignored(&self, nodes: &[NodeIdx], scores: &mut [i64], by: i64) {
        if self.ignored.is_empty() {
            return;
        }
        for (score, node) in scores.iter_mut().zip(nodes) {
            if self.ignored.contains(*node) {
                *score = by;
            }
        }
    }
}

/// What a constraint contributes to the raw scores of many nodes.
enum Parts<'a> {
    /// Each domain is worked out once.
    ByDomain(&'a LabelColumn, Vec<f64>),
    ByNode(&'a Reader<'a>, f64),
}

impl<'a> Parts<'a> {
    fn new(reader: &'a Reader<'a>, weight: f64) -> Self {
        let by_domain = reader.counts.column().filter(|_| reader.hosts.is_none());
        let Some(column) = by_domain else { return Self::ByNode(reader, weight) };
        // What no counter knows is a domain without nodes that count.
        let mut parts = vec![reader.part(0, weight); column.n_ids()];
        for (value, domain) in reader.counts.numbers().domains() {
            parts[value.index()] = reader.part(domain.n_pods, weight);
        }
        if let Some(empty) = column.id_of("") {
            parts[empty.index()] = reader.part(reader.n_pods_in(column, empty), weight);
        }
        // Without the label nothing is added, and adding 0 to a sum that began with 0 is just that.
        parts[LabelValueId::ABSENT.index()] = 0.0;
        Self::ByDomain(column, parts)
    }

    /// Adds the part of each node to its sum.
    fn add_to(&self, sums: &mut [f64], nodes: &[NodeIdx]) {
        match self {
            Self::ByDomain(column, parts) => {
                let parts = &parts[..];
                column.ids().zip_nodes(nodes, sums, |sum, id| *sum += parts[id.index()]);
            }
            Self::ByNode(reader, weight) => {
                for (sum, node) in sums.iter_mut().zip(nodes) {
                    *sum = reader.add_to(*sum, *node, *weight);
                }
            }
        }
    }
}

impl PreScore for PodTopologySpread {
    fn pre_score(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        nodes: &FeasibleNodes<'_>,
    ) -> Status {
        let cluster = cx.cluster();
        let wishes = match state.get::<Wishes>() {
            Some(wishes) => Ok(Some(wishes.clone())),
            None => self.wishes(cx, pod),
        };
        match wishes {
            Ok(None) => Status::skip(),
            _ if cluster.n_nodes() == 0 => Status::skip(),
            Err(error) => Status::error(format!("calculating preScoreState: {error}")),
            Ok(Some(wishes)) => {
                if let Some(soft) = SoftState::new(nodes.cluster(cx), wishes, nodes.groups()) {
                    state.insert(soft);
                }
                Status::SUCCESS
            }
        }
    }
}

impl Score for PodTopologySpread {
    fn score(
        &self,
        _: &Context<'_>,
        state: &CycleState,
        _: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status> {
        let soft = state.get::<SoftState>().ok_or_else(no_state)?;
        if soft.ignored.contains(node.idx()) {
            return Ok(0);
        }
        let readers = soft.read(node.cluster())?;
        let parts = readers.iter().zip(&soft.weights);
        let score =
            parts.fold(0.0, |sum, (reader, weight)| reader.add_to(sum, node.idx(), *weight));
        Ok(rounded(score))
    }

    fn score_all(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        _: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        if nodes.is_empty() {
            return Ok(());
        }
        let soft = state.get::<SoftState>().ok_or_else(no_state)?;
        let readers = soft.read(cx.cluster())?;
        let parts = readers.iter().zip(&soft.weights);
        let all: SmallVec<[Parts<'_>; 2]> =
            parts.map(|(reader, weight)| Parts::new(reader, *weight)).collect();
        let mut sums = vec![0.0; nodes.len().min(COLUMN_CHUNK)];
        for (scores, nodes) in scores.chunks_mut(COLUMN_CHUNK).zip(nodes.chunks(COLUMN_CHUNK)) {
            let sums = &mut sums[..nodes.len()];
            sums.fill(0.0);
            all.iter().for_each(|parts| parts.add_to(sums, nodes));
            scores.iter_mut().zip(sums).for_each(|(score, sum)| *score = rounded(*sum));
        }
        soft.replace_ignored(nodes, scores, 0);
        Ok(())
    }

    fn normalization(&self) -> Normalization {
        Normalization::Custom
    }

    /// Reverses raw scores: the fewer pods, the better, and the highest raw score becomes the lowest, in proportion. Nodes
    /// that take no part get 0.
    fn normalize(
        &self,
        _: &Context<'_>,
        state: &CycleState,
        _: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Status {
        let Some(soft) = state.get::<SoftState>() else { return no_state() };
        soft.replace_ignored(nodes, scores, IGNORED);
        let taking_part = || scores.iter().copied().filter(|score| *score != IGNORED);
        let least = taking_part().min().unwrap_or(i64::MAX);
        let most = taking_part().max().unwrap_or(0).max(0);
        for score in scores {
            *score = if *score == IGNORED {
                0
            } else if most == 0 {
                MAX_NODE_SCORE
            } else {
                percent(most.wrapping_add(least).wrapping_sub(*score), most)
            };
        }
        Status::SUCCESS
    }
}

fn no_state() -> Status {
    Status::error(NO_STATE)
}

/// The weight of a constraint with this many domains to choose from: more domains have fewer pods each.
fn weight_of(n_domains: usize) -> f64 {
    ((n_domains + 2) as f64).ln()
}

/// [`f64::round`] in whole numbers. That itself is a call in a binary for any x86-64 processor, and was a quarter of the instructions
/// of [`SoftState::score_all`] (`bench core --workload EveryPodDifferent`).
#[inline]
fn rounded(score: f64) -> i64 {
    let whole = score as i64;
    let rest = score - whole as f64;
    whole.saturating_add(i64::from(rest >= 0.5)).saturating_sub(i64::from(rest <= -0.5))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn weights_are_natural_logarithms() {
        let expected = [
            (1, 1.098_612_288_668_109_8),
            (2, 1.386_294_361_119_890_6),
            (3, 1.609_437_912_434_100_3),
            (4, 1.791_759_469_228_055),
            (10, 2.484_906_649_788_000_4),
            (100, 4.624_972_813_284_271),
            (1000, 6.909_753_281_644_81),
            (5000, 8.517_593_111_437_565),
        ];
        for (n_domains, weight) in expected {
            assert!((weight_of(n_domains) - weight).abs() < 1e-15 * weight, "{n_domains}");
        }
    }

    #[test]
    fn scores_are_rounded_half_away_from_zero() {
        assert_eq!([0.5, 1.4, 2.5, -0.5].map(rounded), [1, 1, 3, -1]);
        let below_half = 0.5_f64.next_down();
        assert_eq!([below_half, -below_half].map(rounded), [0, 0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn rounding_is_that_of_the_library(
            score in prop_oneof![any::<f64>(), -1e6..1e6, (-2_000_i32..2_000).prop_map(|halves| f64::from(halves) / 2.0)],
        ) {
            prop_assert_eq!(rounded(score), score.round() as i64);
        }
    }
}
