//! Counting from scratch, and reading a counter together with the labels of the cluster's nodes.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;

use super::sums::SumCounts;
use super::{Cell, Domain, DomainCounts, PlainCounts, PodsOnNodes};
use crate::domains::eligible::{SharedEligibility, eligible};
use crate::domains::spec::CounterSpec;
use crate::fingerprint::Fingerprint;
use crate::label_index::{LabelColumn, ValueId};
use crate::node_table::NodeIdx;
use crate::state::ClusterState;

/// # Reading by the labels of nodes
impl DomainCounts {
    /// The column with the domain of each node; `None` when there is no topology key.
    pub fn column<'a>(&'a self, cluster: &'a ClusterState) -> Option<&'a LabelColumn> {
        let key = self.spec.topology_key.as_ref()?;
        self.own_column.as_deref().or_else(|| cluster.label_column(key))
    }

    /// All domains in which pods count, some of them more than once: passes over the others where every node is a domain.
    pub fn domains_with_pods<'a>(
        &'a self,
        cluster: &'a ClusterState,
    ) -> impl Iterator<Item = (ValueId, Domain)> + 'a {
        let column = self.column(cluster);
        let nodes = with_pods(&self.on_nodes).filter(|(idx, _)| self.eligible.contains(*idx));
        nodes.filter_map(move |(idx, _)| {
            let value = column.map_or(ValueId::ABSENT, |column| column.id(idx));
            Some((value, self.domain(value)?))
        })
    }

    /// Everything by name, to compare counters that number their domains differently.
    pub(crate) fn plain(&self, cluster: &ClusterState) -> PlainCounts {
        let column = self.column(cluster);
        let value = |id| column.and_then(|column| column.value(id)).map(|value| value.to_string());
        let on_nodes = self.on_nodes.iter().enumerate().filter(|(_, n)| **n > 0);
        PlainCounts {
            on_nodes: on_nodes.map(|(at, n)| (at, *n)).collect(),
            eligible: self.eligible.iter().map(NodeIdx::index).collect(),
            domains: self
                .domains()
                .map(|(id, domain)| (value(id), (domain.n_pods, domain.n_nodes)))
                .collect(),
            n_domains: self.n_domains,
            n_pods: self.n_pods,
            by_sum: self.by_sum.clone(),
        }
    }
}

/// # Counting
impl DomainCounts {
    /// What the counter takes in memory when pods that count are on all nodes, in bytes; the hash tables of its
    /// specification are included.
    pub(in crate::domains) fn most_bytes(&self, cluster: &ClusterState) -> usize {
        /// Struct, specification and places in tables.
        const BASE: usize = 1024;
        /// A listed text in the specification, and what is filed under it.
        const LISTED: usize = 160;

        let capacity = cluster.capacity();
        let n_domains = self.column(cluster).map_or(1, LabelColumn::n_ids);
        let numbers = capacity * size_of::<u32>() + capacity / 8 + n_domains * size_of::<Cell>();
        BASE + numbers + self.spec.n_listed() * LISTED
    }

    /// Counts everything in one scan. O(nodes + pods).
    pub fn count(cluster: &ClusterState, spec: &CounterSpec) -> Self {
        let mut counts = Self::nothing(spec);
        let nodes = || {
            cluster
                .live_nodes()
                .iter()
                .filter_map(|idx| cluster.node(idx).map(|node| (idx, &**node)))
        };
        let key = spec.topology_key.as_ref();
        if let Some(key) = key.filter(|key| cluster.label_column(key).is_none()) {
            let column = LabelColumn::new(key.clone(), cluster.capacity(), nodes());
            counts.own_column = Some(Arc::new(column));
        }
        counts.count_pods(cluster, cluster.all_pods());
        for (idx, node) in nodes() {
            if spec.includes_node(node) {
                let value = counts.column(cluster).map_or(ValueId::ABSENT, |column| column.id(idx));
                counts.enter(idx, value);
            }
        }
        counts
    }

    /// As [`count`](Self::count), from what followed counters know already: pods that count are found in one with the same
    /// pods, nodes that count in one with the same nodes. O(nodes) then.
    pub(crate) fn derived(
        cluster: &ClusterState,
        spec: &CounterSpec,
        shared: &mut SharedEligibility,
    ) -> Self {
        let mut counts = Self::nothing(spec);
        match shared.on_nodes.take().filter(|(pods, _)| pods.is_same_allocation(&spec.pods)) {
            Some((_, on_nodes)) => counts.on_nodes = on_nodes,
            // No pod counts.
            None if spec.pods.terms.is_empty() => {}
            None => match cluster.counters.with_pods(&spec.pods) {
                Some(other) => counts.on_nodes = other.on_nodes.clone(),
                None => {
                    let needed = Fingerprint::needed_by(&spec.pods);
                    counts.count_pods(cluster, cluster.pods.iter_with(needed));
                }
            },
        }
        if shared.is_for_many {
            shared.on_nodes = Some((spec.pods.clone(), counts.on_nodes.clone()));
        }
        counts.own_column =
            spec.topology_key.as_ref().and_then(|key| shared.column_for(cluster, key));
        match cluster.counters.with_nodes(spec) {
            Some(other) => counts.count_nodes_of(other, cluster),
            None => {
                counts.eligible = eligible(cluster, spec, shared);
                counts.count_nodes(cluster);
            }
        }
        counts.add_up_pods(cluster);
        counts
    }

    /// The counter of a specification by which no node can count. O(nodes) at most, for the labels of its topology key.
    pub(in crate::domains) fn nowhere(
        cluster: &ClusterState,
        spec: &CounterSpec,
        shared: &mut SharedEligibility,
    ) -> Self {
        let key = spec.topology_key.as_ref();
        let own_column = key.and_then(|key| shared.column_for(cluster, key));
        Self { own_column, ..Self::nothing(spec) }
    }

    /// Makes the domains, each with its number of eligible nodes and without pods. O(nodes).
    fn count_nodes(&mut self, cluster: &ClusterState) {
        let column = self.column(cluster);
        let mut domains = vec![Cell::default(); column.map_or(1, LabelColumn::n_ids)];
        match column {
            Some(column) => {
                for idx in self.eligible.iter() {
                    domains[column.id(idx).index()].n_nodes += 1;
                }
            }
            None => domains[ValueId::ABSENT.index()].n_nodes = self.eligible.len() as u32,
        }
        self.n_domains = domains.iter().filter(|domain| domain.n_nodes > 0).count();
        self.domains = domains.into_iter().collect();
    }

    /// As [`count_nodes`](Self::count_nodes), from a counter on the same nodes by the same key. Most counters count few pods, and so
    /// are the same in most domains: both share these, except where `other` has pods. O(nodes), with next to nothing for each that has
    /// no pods.
    fn count_nodes_of(&mut self, other: &Self, cluster: &ClusterState) {
        self.eligible = other.eligible.clone();
        self.n_domains = other.n_domains;
        self.domains = other.domains.clone();
        let column = other.column(cluster);
        for (idx, _) in with_pods(&other.on_nodes).filter(|(idx, _)| other.eligible.contains(*idx))
        {
            let at = column.map_or(ValueId::ABSENT, |column| column.id(idx)).index();
            // To write to a shared chunk is to copy it.
            if self.domains.get(at).n_pods > 0 {
                self.domains.get_mut(at).n_pods = 0;
            }
        }
    }

    /// Adds the pods on nodes that count to the sums of their domains, which were 0.
    fn add_up_pods(&mut self, cluster: &ClusterState) {
        self.by_sum = SumCounts::of_empty(self.n_domains);
        let column = self.column(cluster);
        let counted = with_pods(&self.on_nodes).filter(|(idx, _)| self.eligible.contains(*idx));
        let pods: Vec<(usize, u32)> = counted
            .map(|(idx, n)| (column.map_or(ValueId::ABSENT, |column| column.id(idx)).index(), n))
            .collect();
        // A domain may have thousands of nodes: its sum is filed once.
        let mut occupied = Vec::new();
        for (at, n_pods) in pods {
            let domain = self.domains.get_mut(at);
            if domain.n_pods == 0 {
                occupied.push(at);
            }
            domain.n_pods += n_pods;
            self.n_pods += i64::from(n_pods);
        }
        for at in occupied {
            self.by_sum.remove(0);
            self.by_sum.add(self.domains.get(at).n_pods);
        }
    }

    /// Adds those of `pods` that count to the numbers per node.
    fn count_pods<'a>(
        &mut self,
        cluster: &ClusterState,
        pods: impl Iterator<Item = (&'a Arc<Pod>, NodeIdx)>,
    ) {
        let spec = self.spec.clone();
        for (pod, node) in pods {
            if spec.pods.includes(pod, cluster.objects()) {
                *self.on_node_mut(node) += 1;
            }
        }
    }
}

/// The nodes with pods, and how many. Most runs of nodes have none, and are passed over.
fn with_pods(on_nodes: &PodsOnNodes) -> impl Iterator<Item = (NodeIdx, u32)> {
    /// A few nodes, so that most runs have none with pods where few pods count, and one look passes over several nodes.
    const RUN: usize = 16;

    let runs = on_nodes.chunks().flat_map(|chunk| chunk.chunks(RUN)).enumerate();
    let occupied = runs.filter(|(_, run)| run.iter().fold(0, |any, n| any | n) != 0);
    occupied.flat_map(|(at, run)| {
        let counts = run.iter().enumerate().filter(|(_, n)| **n > 0);
        counts.map(move |(place, n)| (NodeIdx::from_index(at * RUN + place), *n))
    })
}
