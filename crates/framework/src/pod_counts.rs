//! What a counter of pods shows, with what is read noted.

use kube_scheduler_cache::NodeIdx;
use kube_scheduler_cache::affinity::TermCount;
use kube_scheduler_cache::columns::{LabelColumn, ValueId};
use kube_scheduler_cache::counters::{CounterReads, DomainNumbers, PodCounter};
use kube_scheduler_cache::reads::Reads;

use crate::cluster_view::ClusterView;

/// What a [`PodCounter`] shows at present.
///
/// The readers that take a node must only be used about the node in question, or about nodes of
/// [`FeasibleNodes`](crate::FeasibleNodes): from what they have shown the engine works out which nodes get equal answers.
#[derive(Clone, Copy, Debug)]
pub struct PodCounts<'a> {
    cluster: ClusterView<'a>,
    counter: &'a PodCounter,
    numbers: DomainNumbers<'a>,
    column: Option<&'a LabelColumn>,
}

impl<'a> PodCounts<'a> {
    #[inline]
    pub(crate) fn new(cluster: ClusterView<'a>, counter: &'a PodCounter) -> Option<Self> {
        let numbers = counter.now(cluster.state())?;
        let column = counter.column(numbers, cluster.state());
        Some(Self { cluster, counter, numbers, column })
    }

    #[inline]
    fn look(&self, looks: CounterReads) {
        self.cluster.at_node(Reads::COUNTERS);
        self.counter.note(looks);
    }

    /// The domain of the node, if it has one. To be looked at no further than what it holds.
    #[inline]
    fn domain(&self, node: NodeIdx) -> Option<ValueId> {
        self.look(CounterReads::DOMAIN);
        self.column.map(|column| column.id(node)).filter(|value| *value != ValueId::ABSENT)
    }

    /// Whether the node has the topology key.
    #[inline]
    pub fn has_domain(&self, node: NodeIdx) -> bool {
        self.look(CounterReads::DOMAIN);
        self.counter.has_domain(self.column, self.cluster.state(), node)
    }

    /// How many pods count in the domain of the node; `None` when the node lacks the topology key.
    #[inline]
    pub fn n_pods_near(&self, node: NodeIdx) -> Option<i64> {
        self.domain(node).map(|value| self.numbers.n_pods_in(value))
    }

    /// How often pods in the domain of the node carry the term that is counted, and with what weights; `None` when the node
    /// lacks the topology key.
    #[inline]
    pub fn carried_near(&self, node: NodeIdx) -> Option<TermCount> {
        self.domain(node).map(|value| self.numbers.carried_in(value))
    }

    /// The domain of the node, [`ValueId::ABSENT`] when it lacks the topology key. Answers then differ from domain to domain:
    /// use [`n_pods_near`](Self::n_pods_near) where the number is enough.
    #[inline]
    pub fn domain_of(&self, node: NodeIdx) -> ValueId {
        self.look(CounterReads::IDENTITY);
        self.column.map_or(ValueId::ABSENT, |column| column.id(node))
    }

    /// How many pods that count are on the node itself, whether or not the node counts.
    #[inline]
    pub fn n_pods_on(&self, node: NodeIdx) -> i64 {
        self.look(CounterReads::NODE);
        self.numbers.on_node(self.cluster.state(), node)
    }

    /// Whether the node counts by the counter's specification.
    pub fn is_eligible(&self, node: NodeIdx) -> bool {
        self.look(CounterReads::NODE);
        self.numbers.is_eligible(self.cluster.state(), node)
    }

    /// [`domain_of`](Self::domain_of) for scans. `None` when there is no topology key, or no column for the label yet.
    pub fn column(&self) -> Option<&'a LabelColumn> {
        self.look(CounterReads::IDENTITY);
        self.column
    }

    /// The length of a table by id of the domain; `None` when there are no domains. Only for choosing between ways to the same
    /// answer: it is not noted.
    pub fn n_ids(&self) -> Option<usize> {
        self.column.map(LabelColumn::n_ids)
    }

    /// The numbers of all domains.
    #[inline]
    pub fn numbers(&self) -> DomainNumbers<'a> {
        self.cluster.all(Reads::COUNTERS);
        self.numbers
    }

    /// The domains in which pods count, some of them more than once: passes over the others where every node is a domain.
    pub fn domains_with_pods(&self) -> impl Iterator<Item = ValueId> + 'a {
        self.numbers().domains_with_pods(self.cluster.state())
    }
}
