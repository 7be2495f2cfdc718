//! Handles on numbers of pods by topology domain. A handle remembers what of it was read about nodes: from this follows
//! which nodes look alike to the reader.
//!
//! Invariant: if two nodes [stand](PodCounter::stand) alike, then so does everything about them that the looks noted so far
//! have shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::counts::{Domain, DomainCounts};
use super::eligible::SharedEligibility;
use super::spec::CounterSpec;
use super::table::CounterId;
use crate::affinity_terms::{TermCount, TermCounts, TermId};
use crate::label_index::{LabelColumn, ValueId};
use crate::node_table::NodeIdx;
use crate::state::ClusterState;

/// A topology key with more values than this tells nodes apart by what their domains hold, not by the value. Going by what
/// domains hold takes five times as long with three zones (`bench core --workload TopologySpreading`).
const FEW_VALUES: usize = 64;
/// Stands for the domain of a node that lacks the label: no domain has so many pods.
const NO_DOMAIN: u32 = u32::MAX;

/// Which facts about nodes were read from a counter: a set of [`DOMAIN`](Self::DOMAIN), [`IDENTITY`](Self::IDENTITY) and
/// [`NODE`](Self::NODE).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterReads(u8);

impl CounterReads {
    /// The empty set: nothing was read.
    pub const NOTHING: Self = Self(0);
    /// Whether the node has a domain, and what is counted there.
    pub const DOMAIN: Self = Self(1);
    /// Which of the domains the node is in.
    pub const IDENTITY: Self = Self(1 << 1);
    /// How many pods that count are on the node itself, and whether the node counts.
    pub const NODE: Self = Self(1 << 2);

    const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Counts pods by topology domain, now and later. Of meaning for the state that gave it; clones are the same counter.
#[derive(Clone, Debug)]
pub struct PodCounter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    source: Source,
    looks: AtomicU8,
}

#[derive(Debug)]
enum Source {
    /// Kept up to date by the cluster. By number, since a shared reference would make the next change copy it.
    Followed(CounterId),
    /// Counted once, when it was asked for, and not kept up to date.
    Counted(Arc<DomainCounts>),
    /// The pods that carry an affinity term with this topology key.
    Term(TermId, Arc<str>),
    /// No pods; only the domains of a label key.
    Label(Arc<str>),
}

/// The numbers that a [`PodCounter`] shows at one moment, by topology domain.
#[derive(Clone, Copy, Debug)]
pub struct DomainNumbers<'a>(Numbers<'a>);

#[derive(Clone, Copy, Debug)]
enum Numbers<'a> {
    Pods(&'a DomainCounts),
    Carriers(&'a TermCounts),
    Nothing,
}

impl<'a> DomainNumbers<'a> {
    fn pods(self) -> Option<&'a DomainCounts> {
        match self.0 {
            Numbers::Pods(counts) => Some(counts),
            _ => None,
        }
    }

    /// How many pods count in a domain; 0 when there is no such domain.
    #[inline]
    pub fn n_pods_in(self, value: ValueId) -> i64 {
        match self.0 {
            Numbers::Pods(counts) => counts.n_pods_in(value),
            Numbers::Carriers(carried) => i64::from(carried.get(value).n),
            Numbers::Nothing => 0,
        }
    }

    /// How often pods in a domain carry the term that is counted, and with what weights.
    #[inline]
    pub fn carried_in(self, value: ValueId) -> TermCount {
        match self.0 {
            Numbers::Carriers(carried) => carried.get(value),
            _ => TermCount::default(),
        }
    }

    /// How many pods are counted in all domains together.
    pub fn n_pods(self) -> i64 {
        self.pods().map_or(0, DomainCounts::n_pods)
    }

    /// How many domains have nodes that count, or pods that carry the term.
    pub fn n_domains(self) -> usize {
        match self.0 {
            Numbers::Pods(counts) => counts.n_domains(),
            Numbers::Carriers(carried) => carried.n_domains(),
            Numbers::Nothing => 0,
        }
    }

    /// The domains that have nodes that count, by id of the value in [`PodCounter::column`].
    pub fn domains(self) -> impl Iterator<Item = (ValueId, Domain)> + 'a {
        self.pods().into_iter().flat_map(DomainCounts::domains)
    }

    /// The domains in which pods carry the term that is counted.
    pub fn carried(self) -> impl Iterator<Item = (ValueId, TermCount)> + 'a {
        let carried = match self.0 {
            Numbers::Carriers(carried) => Some(carried),
            _ => None,
        };
        carried.into_iter().flat_map(TermCounts::iter)
    }

    /// The domains in which pods count, some of them more than once: passes over the others where every node is a domain.
    pub fn domains_with_pods(
        self,
        cluster: &'a ClusterState,
    ) -> impl Iterator<Item = ValueId> + 'a {
        let counts = self.pods().into_iter();
        counts.flat_map(|counts| counts.domains_with_pods(cluster)).map(|(value, _)| value)
    }

    /// The number of pods in the emptiest domain; `None` when there is no domain. O(log distinct numbers).
    pub fn least(self) -> Option<i64> {
        self.pods()?.least()
    }

    /// The number of pods in the emptiest domain that is not one of `values`, which are distinct.
    pub fn least_without(self, values: &[ValueId]) -> Option<i64> {
        self.pods()?.least_without(values)
    }

    /// How many domains have exactly this many pods.
    pub fn n_domains_with(self, n_pods: i64) -> u32 {
        self.pods().map_or(0, |counts| counts.n_domains_with(n_pods))
    }

    /// How many pods that count are on a node, whether or not the node counts. Asks for the state, which plugins do not have:
    /// theirs is a view that notes what is read.
    #[inline]
    pub fn on_node(self, _: &ClusterState, node: NodeIdx) -> i64 {
        self.pods().map_or(0, |counts| counts.on_node(node))
    }

    /// Whether a node counts. Asks for the state as [`on_node`](Self::on_node) does.
    #[inline]
    pub fn is_eligible(self, _: &ClusterState, node: NodeIdx) -> bool {
        self.pods().is_some_and(|counts| counts.is_eligible(node))
    }
}

impl PodCounter {
    fn new(source: Source) -> Self {
        Self(Arc::new(Inner { source, looks: AtomicU8::new(0) }))
    }

    /// The counters of `specs`, in their order. O(1) for each that the cluster follows; the others are counted as they are
    /// now, in one scan for what they have in common, and will be followed.
    pub fn of_each<'s>(
        cluster: &ClusterState,
        specs: impl IntoIterator<Item = &'s CounterSpec>,
    ) -> Vec<Self> {
        let mut shared = None;
        let specs: Vec<&CounterSpec> = specs.into_iter().collect();
        let counter = |spec: &&CounterSpec| match cluster.followed_id(spec) {
            Some(id) => Self::new(Source::Followed(id)),
            None => {
                let shared =
                    shared.get_or_insert_with(|| SharedEligibility::for_counters(specs.len()));
                Self::new(Source::Counted(cluster.counted_with(spec, shared)))
            }
        };
        specs.iter().map(counter).collect()
    }

    /// A counter of the pods that carry an affinity term, by the domains of its topology key.
    pub fn of_carriers(id: TermId, topology_key: &Arc<str>) -> Self {
        Self::new(Source::Term(id, topology_key.clone()))
    }

    /// A counter of no pods, which shows only the domains of a label key.
    pub fn of_label(key: &Arc<str>) -> Self {
        Self::new(Source::Label(key.clone()))
    }

    /// What it shows; `None` when the cluster no longer follows it.
    #[inline]
    pub fn now<'a>(&'a self, cluster: &'a ClusterState) -> Option<DomainNumbers<'a>> {
        Some(DomainNumbers(match &self.0.source {
            Source::Followed(id) => Numbers::Pods(cluster.followed_by_id(*id)?),
            Source::Counted(counts) => Numbers::Pods(counts),
            Source::Term(id, _) => Numbers::Carriers(cluster.affinity_terms().get(*id)?.domains()),
            Source::Label(_) => Numbers::Nothing,
        }))
    }

    /// The domain of each node; `None` when there is no topology key, or no column for the label yet. `now` is what it
    /// shows.
    #[inline]
    pub fn column<'a>(
        &'a self,
        now: DomainNumbers<'a>,
        cluster: &'a ClusterState,
    ) -> Option<&'a LabelColumn> {
        match (&self.0.source, now.0) {
            (_, Numbers::Pods(counts)) => counts.column(cluster),
            (Source::Term(_, key) | Source::Label(key), _) => cluster.label_column(key),
            _ => None,
        }
    }

    /// Whether a node has the topology key; `column` is [the column](Self::column).
    #[inline]
    pub fn has_domain(
        &self,
        column: Option<&LabelColumn>,
        cluster: &ClusterState,
        node: NodeIdx,
    ) -> bool {
        match (column, &self.0.source) {
            (Some(column), _) => column.id(node) != ValueId::ABSENT,
            (None, Source::Label(key)) => {
                cluster.node(node).is_some_and(|node| node.labels.contains_key(key))
            }
            _ => false,
        }
    }

    /// Notes which facts about nodes were read from this counter.
    #[inline]
    pub fn note(&self, looks: CounterReads) {
        if self.0.looks.load(Ordering::Relaxed) & looks.0 != looks.0 {
            self.0.looks.fetch_or(looks.0, Ordering::Relaxed);
        }
    }

    /// Which facts about nodes were read from this counter so far.
    pub fn looks(&self) -> CounterReads {
        CounterReads(self.0.looks.load(Ordering::Relaxed))
    }

    /// Whether it shows the present state, as long as nodes, their labels and their taints, and the list of affinity terms
    /// stay what they are.
    pub fn is_followed(&self, cluster: &ClusterState) -> bool {
        match &self.0.source {
            Source::Followed(id) => cluster.followed_by_id(*id).is_some(),
            // A key that no node has leaves nothing to count.
            Source::Counted(counts) => cluster.lacks_key_of(counts.spec()),
            Source::Term(id, _) => cluster.affinity_terms().get(*id).is_some(),
            // A column that is made again may number values differently.
            Source::Label(key) => {
                !self.looks().contains(CounterReads::IDENTITY)
                    && cluster.label_column(key).is_some()
            }
        }
    }

    /// Whether both give the same numbers in every state of the cluster. For counters of [carriers](Self::is_of_carriers) this
    /// holds only as long as the list of affinity terms does not change.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.0.source, &other.0.source) {
            (Source::Followed(one), Source::Followed(other)) => one == other,
            (Source::Counted(one), Source::Counted(other)) => one.spec() == other.spec(),
            (Source::Term(one, _), Source::Term(other, _)) => one == other,
            (Source::Label(one), Source::Label(other)) => one == other,
            _ => false,
        }
    }

    /// Whether this counts the pods that carry an affinity term. It knows the term by its number, and that number may be given to
    /// another term when no pod carries this one any more.
    pub fn is_of_carriers(&self) -> bool {
        matches!(self.0.source, Source::Term(..))
    }

    /// Appends to `standing` numbers that are the same for two nodes only if all facts in `looks` are the same for both. For every node
    /// they are equally many.
    pub fn stand(
        &self,
        cluster: &ClusterState,
        looks: CounterReads,
        node: NodeIdx,
        standing: &mut impl Extend<u32>,
    ) {
        let Some(now) = self.now(cluster) else { return };
        if looks.contains(CounterReads::DOMAIN) || looks.contains(CounterReads::IDENTITY) {
            let column = self.column(now, cluster);
            let value = column.map_or(ValueId::ABSENT, |column| column.id(node));
            let is_by_value = looks.contains(CounterReads::IDENTITY)
                || column.is_none_or(|column| column.n_values() <= FEW_VALUES);
            match now.0 {
                Numbers::Nothing if !looks.contains(CounterReads::IDENTITY) => {
                    standing.extend([u32::from(self.has_domain(column, cluster, node))]);
                }
                _ if is_by_value => standing.extend([value.index() as u32]),
                // As many numbers as for a node with a domain.
                Numbers::Carriers(_) if value == ValueId::ABSENT => {
                    standing.extend([NO_DOMAIN; 3]);
                }
                Numbers::Carriers(carried) => {
                    let count = carried.get(value);
                    let weight = count.weight.cast_unsigned();
                    standing.extend([count.n, weight as u32, (weight >> 32) as u32]);
                }
                _ if value == ValueId::ABSENT => standing.extend([NO_DOMAIN]),
                _ => standing.extend([now.n_pods_in(value) as u32]),
            }
        }
        if looks.contains(CounterReads::NODE) {
            let is_eligible = u32::from(now.is_eligible(cluster, node));
            standing.extend([now.on_node(cluster, node) as u32, is_eligible]);
        }
    }

    /// Adds to `moved` the nodes that share a domain with one of `changed`, if they stand by what the domain holds.
    pub fn add_neighbours(
        &self,
        cluster: &ClusterState,
        looks: CounterReads,
        changed: &[NodeIdx],
        moved: &mut Vec<NodeIdx>,
    ) {
        let column = self.now(cluster).and_then(|now| self.column(now, cluster));
        let Some(column) = column.filter(|column| column.n_values() > FEW_VALUES) else { return };
        if looks.contains(CounterReads::DOMAIN) && !looks.contains(CounterReads::IDENTITY) {
            // Slots of nodes that are gone may be gone as well.
            for node in changed.iter().filter(|node| cluster.live_nodes().contains(**node)) {
                let neighbours = column.nodes(column.id(*node)).filter(|nodes| nodes.len() > 1);
                moved.extend(neighbours.into_iter().flat_map(|nodes| nodes.iter()));
            }
        }
    }
}
