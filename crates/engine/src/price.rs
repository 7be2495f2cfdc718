//! What an attempt costs at most, computed from the pod and the size of the cluster before anything is done.
//!
//! A unit is one comparison, one table entry or one slot of a column. What caches, indexes and early ends save is not
//! subtracted: the price is an upper bound, and does not depend on earlier attempts or on the number of threads.
//!
//! Only what the pod asks for has a price, and what its namespace says about it (services and owner). What other tenants wrote,
//! such as the anti-affinity of running pods, is not counted, so no tenant can make another tenant's pods too expensive.
//! [`parts`] says what each part of a pod costs.

mod parts;

use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Volume, VolumeSource};
use kube_scheduler_cache::ClusterState;

use self::parts::{CountState, PARTS};

/// Which nodes a part of a pod is compared with if the pod may only go to some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Those that the pod may go to.
    Scope,
    /// All nodes: what is on those that it may not go to counts, too.
    Cluster,
}

/// How often something is compared, table entries and slots of columns included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Comparisons {
    once: u64,
    /// Once in the cycle of a group, however often the pod is tried.
    once_per_cycle: u64,
    /// With each node, whatever pods it has.
    per_node: u64,
    /// With each node and the pods that it has.
    per_filling: u64,
    /// With each pod that has a node.
    per_pod: u64,
    /// With each pod that has a node, whose namespace shows whether it has to be compared. Passing by one of another namespace costs
    /// a part of a unit.
    per_passed: u64,
    /// With each of those that are in the pod's namespace.
    per_neighbour: u64,
    /// With a pod that is put on a node or taken off it, where what was counted is kept.
    per_shift: Shift,
    /// How many counters of what is compared with the whole cluster there are.
    n_counters: u64,
    /// How many texts one of them lists at most.
    listed: u64,
}

/// What it costs to compare a pod with what selectors require: one requirement after the other, or, where they are many, by looking
/// up each of its labels among them. It is done in the way that costs less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shift {
    one_by_one: u64,
    /// However many labels the pod has.
    looked_up: u64,
    /// With each label of the pod.
    per_label: u64,
}

/// What an attempt costs at most, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Price {
    /// What it costs to find the best node.
    pub(crate) search: u64,
    /// What it costs to look for pods to evict.
    pub(crate) preemption: u64,
    /// Whether what is counted for the pod in the whole cluster can be kept for others.
    keeps_counters: bool,
}

/// What all parts of a pod are compared with and how often, however many nodes and pods there are: what pods of one template have
/// in common of their [`Price`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AllParts {
    in_scope: Comparisons,
    everywhere: Comparisons,
}

/// Those of one pod after the other, while nothing changes but where pods are.
#[derive(Debug, Default)]
pub(crate) struct PartsInTurn<'a>(Option<(&'a Pod, AllParts)>);

/// Which searches for other nodes of the same attempt share their counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptCounters {
    /// What a search may cost at most for its counters to be kept for the next one, even beyond the soft limit.
    pub(crate) up_to: u64,
    /// Whether those that a search needs are there from an earlier one, if that did not cost more.
    pub(crate) are_there: bool,
    /// How many labels the pods of the attempt have at most, which are put on nodes and taken off.
    pub(crate) most_labels: usize,
}

impl KeptCounters {
    const fn counted(self) -> CountState {
        if self.are_there && self.up_to > 0 { CountState::Before } else { CountState::Anew }
    }
}

/// The nodes that a pod may go to, by their number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScopeSize {
    pub(crate) n_nodes: usize,
    /// How many pods they have at most while the pod is tried. Only the price of preemption depends on it.
    pub(crate) n_pods: usize,
    pub(crate) counters: KeptCounters,
}

impl ScopeSize {
    /// All nodes.
    pub(crate) fn all(cluster: &ClusterState) -> Self {
        Self {
            n_nodes: cluster.n_nodes(),
            n_pods: cluster.n_pods(),
            counters: KeptCounters::default(),
        }
    }
}

/// What it costs to find a counter of an earlier search, and to bring it up to date when a pod is put on a node and taken off
/// again, beside comparing the pod both times, in units.
const KEEPING_A_COUNTER: u64 = 20;

/// How many pods of other namespaces are passed by for a unit, where the namespace shows that they are not meant: each is the test of a
/// bit in a list of 32 bytes for each pod. Any tenant may have very many pods, which must not make those of others expensive.
const PASSED_FOR_A_UNIT: u64 = 8;

/// With how many of each the parts of a pod are compared.
#[derive(Clone, Copy)]
struct Extent {
    scope: ScopeSize,
    n_nodes: u64,
    n_pods: u64,
    n_neighbours: u64,
}

impl Extent {
    fn new(pod: &Pod, cluster: &ClusterState, scope: ScopeSize) -> Self {
        Self {
            scope,
            n_nodes: units(cluster.n_nodes()),
            n_pods: units(cluster.n_pods()),
            n_neighbours: units(cluster.n_pods_in(&pod.namespace)),
        }
    }

    fn price(&self, reach: Reach, compared: Comparisons) -> u64 {
        let Comparisons { once, once_per_cycle, per_pod, per_passed, per_neighbour, .. } = compared;
        let n_strangers = self.n_pods.saturating_sub(self.n_neighbours);
        let n_nodes = if reach == Reach::Scope { units(self.scope.n_nodes) } else { self.n_nodes };
        once.saturating_add(once_per_cycle)
            .saturating_add(compared.with_node().saturating_mul(n_nodes))
            .saturating_add(per_pod.saturating_mul(self.n_pods))
            .saturating_add(per_passed.saturating_mul(n_strangers) / PASSED_FOR_A_UNIT)
            .saturating_add(
                per_passed.saturating_add(per_neighbour).saturating_mul(self.n_neighbours),
            )
    }

    /// The price of parts that are compared with the whole cluster if what they count there has been counted.
    fn price_of_counted(&self, compared: Comparisons) -> u64 {
        let Comparisons { once, n_counters, per_shift, .. } = compared;
        once.saturating_add(compared.with_node().saturating_mul(units(self.scope.n_nodes)))
            .saturating_add(n_counters.saturating_mul(KEEPING_A_COUNTER))
            .saturating_add(per_shift.of_pod(self.scope.counters.most_labels).saturating_mul(2))
    }

    /// The price of looking for pods to evict: each node that the pod may go to is tried without its pods, and with each of them
    /// again. What counts pods of one namespace is not compared with others, and what depends on no pod is compared twice with
    /// each node: with what remains there in sum, and with a copy of it.
    fn price_of_trials(&self, compared: Comparisons) -> u64 {
        let Comparisons { per_node, per_filling, per_pod, per_passed, per_neighbour, .. } =
            compared;
        let (n_nodes, n_pods) = (units(self.scope.n_nodes), units(self.scope.n_pods));
        let per_trial = per_filling.saturating_add(per_pod).saturating_add(per_passed);
        let trials = n_nodes.saturating_add(n_pods).saturating_mul(per_trial);
        trials
            .saturating_add(n_nodes.saturating_mul(2).saturating_mul(per_node))
            .saturating_add(n_pods.min(self.n_neighbours).saturating_mul(per_neighbour))
    }
}

impl Price {
    /// The price of an attempt for `pod`. Linear in the number of the pod's terms and requirements.
    pub(crate) fn of(pod: &Pod, cluster: &ClusterState) -> Self {
        Self::on(pod, cluster, ScopeSize::all(cluster))
    }

    /// The price of an attempt for `pod` if it may go to the nodes of `scope` only.
    pub(crate) fn on(pod: &Pod, cluster: &ClusterState, scope: ScopeSize) -> Self {
        AllParts::of(pod, cluster, scope.counters).price(pod, cluster, scope)
    }

    /// Whether what a search finds out is kept for later ones, if `soft` is the limit for that. An evaluation of a pod whose
    /// counters cannot be kept would hold them all.
    pub(crate) fn is_kept(&self, soft: u64) -> bool {
        self.search <= soft && self.keeps_counters
    }
}

impl AllParts {
    /// Those of `pod`. Linear in the number of its terms and requirements.
    pub(crate) fn of(pod: &Pod, cluster: &ClusterState, counters: KeptCounters) -> Self {
        let counted = counters.counted();
        let mut all = Self::default();
        for (_, reach, part) in &PARTS {
            let sum = if *reach == Reach::Scope { &mut all.in_scope } else { &mut all.everywhere };
            *sum = sum.and(part(pod, cluster, counted));
        }
        all
    }

    /// Whether two pods surely have the same as long as nothing changes but where pods are: those of one template, unless they
    /// have claims for volumes, which may be named after each of them. Of labels only the number counts.
    fn are_same(a: &Pod, b: &Pod) -> bool {
        let claims = |volume: &Volume| {
            matches!(volume.source, VolumeSource::Claim { .. } | VolumeSource::Ephemeral { .. })
        };
        Arc::ptr_eq(&a.spec, &b.spec)
            && Arc::ptr_eq(&a.requests, &b.requests)
            && a.namespace == b.namespace
            && a.controller == b.controller
            && a.labels.len() == b.labels.len()
            && a.volumes.len() == b.volumes.len()
            && !a.volumes.iter().chain(b.volumes.iter()).any(claims)
    }

    /// The price of an attempt for `pod`, whose parts these are, if it may go to the nodes of `scope` only. O(1).
    pub(crate) fn price(&self, pod: &Pod, cluster: &ClusterState, scope: ScopeSize) -> Price {
        let Self { in_scope, everywhere } = self;
        let extent = Extent::new(pod, cluster, scope);
        let here = extent.price(Reach::Scope, *in_scope);
        let mut search = here.saturating_add(extent.price(Reach::Cluster, *everywhere));
        if scope.counters.counted() == CountState::Before && search <= scope.counters.up_to {
            search = search.min(here.saturating_add(extent.price_of_counted(*everywhere)));
        }
        let preemption = match pod.spec.never_preempts {
            true => 0,
            false => extent.price_of_trials(in_scope.and(*everywhere)),
        };
        Price { search, preemption, keeps_counters: everywhere.keeps_counters() }
    }
}

impl<'a> PartsInTurn<'a> {
    /// The parts of `pod`, which are those of the pod before if both surely have the same. `counters` are always those of the
    /// first call.
    pub(crate) fn of(
        &mut self,
        pod: &'a Pod,
        cluster: &ClusterState,
        counters: KeptCounters,
    ) -> &AllParts {
        let same = self.0.take().filter(|(before, _)| AllParts::are_same(before, pod));
        let (_, parts) =
            self.0.insert(same.unwrap_or_else(|| (pod, AllParts::of(pod, cluster, counters))));
        parts
    }
}

/// How many counters a search for the pod may need at most; `None` if they are not all kept for the next one.
pub(crate) fn n_kept_counters(pod: &Pod, cluster: &ClusterState) -> Option<u64> {
    let all = AllParts::of(pod, cluster, KeptCounters::default()).everywhere;
    all.keeps_counters().then_some(all.n_counters)
}

/// The part of a pod that a search costs most for if the pod may go to the nodes of `scope`.
pub(crate) fn most_expensive_part(
    pod: &Pod,
    cluster: &ClusterState,
    scope: ScopeSize,
) -> &'static str {
    let extent = Extent::new(pod, cluster, scope);
    let prices = PARTS.iter().map(|(name, reach, part)| {
        let price = extent.price(*reach, part(pod, cluster, CountState::Anew));
        (price, *name)
    });
    // Of several, the first.
    prices.rev().max_by_key(|(price, _)| *price).map_or("", |(_, name)| name)
}

impl Comparisons {
    fn and(self, other: Self) -> Self {
        Self {
            once: self.once.saturating_add(other.once),
            once_per_cycle: self.once_per_cycle.saturating_add(other.once_per_cycle),
            per_node: self.per_node.saturating_add(other.per_node),
            per_filling: self.per_filling.saturating_add(other.per_filling),
            per_pod: self.per_pod.saturating_add(other.per_pod),
            per_passed: self.per_passed.saturating_add(other.per_passed),
            per_neighbour: self.per_neighbour.saturating_add(other.per_neighbour),
            per_shift: self.per_shift.and(other.per_shift),
            n_counters: self.n_counters.saturating_add(other.n_counters),
            listed: self.listed.saturating_add(other.listed),
        }
    }

    fn keeps_counters(self) -> bool {
        ClusterState::follows_requested(self.n_counters, self.listed)
    }

    /// With a node as it is.
    fn with_node(self) -> u64 {
        self.per_node.saturating_add(self.per_filling)
    }
}

impl Shift {
    /// As much in either way.
    const fn of_all(n: u64) -> Self {
        Self { one_by_one: n, looked_up: n, per_label: 0 }
    }

    fn and(self, other: Self) -> Self {
        Self {
            one_by_one: self.one_by_one.saturating_add(other.one_by_one),
            looked_up: self.looked_up.saturating_add(other.looked_up),
            per_label: self.per_label.saturating_add(other.per_label),
        }
    }

    /// With a pod that has so many labels at most.
    fn of_pod(self, n_labels: usize) -> u64 {
        let of_labels = self.per_label.saturating_mul(units(n_labels));
        self.one_by_one.min(self.looked_up.saturating_add(of_labels))
    }
}

fn units(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube_scheduler_api_types::{Json, LabelSelector, Node, Object, Timestamp};
    use serde_json::{Value, json};

    use super::parts::{CARRYING_A_PORT, CARRYING_A_TERM, requirements, written_requirements};
    use super::*;
    use crate::budget::{Budgets, WorkLimits};

    fn pod(spec: Value) -> Pod {
        Pod::from_value(&json!({"metadata": {"namespace": "a", "name": "p"}, "spec": spec}))
            .unwrap()
    }

    /// 1,000 nodes with one pod each.
    fn cluster() -> ClusterState {
        let mut cluster = ClusterState::new();
        for at in 0..1000 {
            let node = json!({"metadata": {"name": format!("n{at}"), "labels": {"zone": "z"}}});
            cluster.add_node(Arc::new(Node::from_value(&node).unwrap()));
            let running = json!({"metadata": {"namespace": "a", "name": at.to_string(), "uid": at.to_string()},
                "spec": {"nodeName": format!("n{at}")}});
            cluster.add_pod(Arc::new(Pod::from_value(&running).unwrap())).unwrap();
        }
        cluster
    }

    /// The price is found without reading what a claim selects.
    #[test]
    fn a_selector_has_the_same_price_before_and_after_it_is_read() {
        for n_labels in 0..4 {
            for lists in [&[][..], &[0], &[1, 3], &[2, 1000, 0]] {
                let labels: BTreeMap<String, &str> =
                    (0..n_labels).map(|at| (format!("k{at}"), "v")).collect();
                let expression = |(at, n_values): (usize, &usize)| {
                    let values: Vec<String> = (0..*n_values).map(|n| n.to_string()).collect();
                    let operator = if values.is_empty() { "Exists" } else { "In" };
                    json!({"key": format!("e{at}"), "operator": operator, "values": values})
                };
                let expressions: Vec<Value> = lists.iter().enumerate().map(expression).collect();
                let written = json!({"matchLabels": labels, "matchExpressions": expressions});
                let read = serde_json::from_value(written.clone()).unwrap();
                let read = LabelSelector::from_wire(&read).unwrap();
                let written = written_requirements(&Json::from(written));
                assert_eq!(written, requirements(read.requirements()), "{n_labels} and {lists:?}");
            }
        }
    }

    #[test]
    fn every_part_of_a_pod_has_a_price() {
        let cluster = cluster();
        let plain = Price::of(&pod(json!({})), &cluster);
        assert!((1000..10_000).contains(&plain.search), "{plain:?}");
        let texts = |n: usize| (0..n).map(|at| format!("v{at}")).collect::<Vec<_>>();
        let term = json!({"topologyKey": "zone", "namespaces": texts(1000),
            "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": texts(1000)}]}});
        let required = |what: &str, terms: Value| json!({"affinity": {what: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}});
        let node_term = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
        let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"a": "b"}}});
        let port = |at: usize| json!({"hostPort": at + 1, "containerPort": at + 1});
        let ports: Vec<_> = (0..100).map(port).collect();
        let volume = |at: usize| json!({"name": at.to_string(), "persistentVolumeClaim": {"claimName": "c"}});
        let volumes: Vec<_> = (0..100).map(volume).collect();
        // What there is, which part it is, and the least and the greatest price.
        let cases = [
            (
                required("nodeAffinity", json!({"nodeSelectorTerms": vec![node_term; 100]})),
                0,
                200_000..210_000,
            ),
            (json!({"topologySpreadConstraints": vec![constraint; 100]}), 1, 400_000..510_000),
            // Long lists are sorted: not 2,000 comparisons with each pod but 21.
            (required("podAntiAffinity", json!([term])), 3, 24_000..28_000),
            (json!({"containers": [{"name": "c", "ports": ports}]}), 5, 100_000..110_000),
            // Each of a hundred claims costs one for its volume, and a sixteenth for each of the others.
            (json!({"volumes": volumes}), 6, 725_000..735_000),
        ];
        for (spec, part, expected) in cases {
            let pod = pod(spec);
            let price = Price::of(&pod, &cluster);
            assert_eq!(
                most_expensive_part(&pod, &cluster, ScopeSize::all(&cluster)),
                PARTS[part].0
            );
            assert!(expected.contains(&price.search), "{price:?}");
            assert!(price.preemption >= price.search / 2, "{price:?}");
        }
    }

    #[test]
    fn a_host_port_is_paid_for_on_each_node_and_where_the_pod_is_put() {
        let cluster = cluster();
        let price = |n_ports: usize| {
            let port = |at: usize| json!({"hostPort": at + 1, "containerPort": at + 1});
            let ports: Vec<_> = (0..n_ports).map(port).collect();
            Price::of(&pod(json!({"containers": [{"name": "c", "ports": ports}]})), &cluster)
        };
        let (without, with) = (price(0), price(100));
        assert_eq!(with.search - without.search, 100 * (1000 + CARRYING_A_PORT));
    }

    #[test]
    fn pods_of_one_template_have_the_same_parts_but_not_those_with_something_of_their_own() {
        let cluster = cluster();
        let spec = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"a": "b"}}}]});
        let first = pod(spec.clone());
        let second = Pod { name: "q".into(), uid: "q".into(), ..first.clone() };
        assert!(AllParts::are_same(&first, &second));
        let scope = ScopeSize::all(&cluster);
        let parts = AllParts::of(&first, &cluster, scope.counters);
        assert_eq!(parts.price(&second, &cluster, scope), Price::of(&second, &cluster));
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r",
            "controller": true});
        let metadata = json!({"namespace": "a", "name": "p", "ownerReferences": [owner]});
        let owned = Pod::from_value(&json!({"metadata": metadata})).unwrap();
        let claim = json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});
        let with_volume = pod(json!({"volumes": [claim]}));
        let others = [
            pod(spec),
            Pod { labels: [("a", "b")].into_iter().collect(), ..first.clone() },
            Pod { controller: owned.controller, ..first.clone() },
            Pod { volumes: with_volume.volumes.clone(), ..first.clone() },
            Pod { namespace: "b".into(), ..first.clone() },
        ];
        for other in others {
            assert!(!AllParts::are_same(&first, &other), "{other:?}");
        }
        assert!(!AllParts::are_same(&with_volume, &with_volume), "its name may count");
    }

    fn add(cluster: &mut ClusterState, kind: &str, namespace: &str, name: &str, selector: &Value) {
        let api_version = if kind == "Service" { "v1" } else { "apps/v1" };
        let object = json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"namespace": namespace, "name": name}, "spec": {"selector": selector}});
        cluster.upsert_object(Arc::new(Object::from_value(object).unwrap()));
    }

    #[test]
    fn services_and_owners_that_a_pod_is_spread_by_have_a_price() {
        let mut cluster = cluster();
        let labels: serde_json::Map<_, _> =
            (0..100).map(|at| (format!("l{at}"), json!("v"))).collect();
        let labels = Value::Object(labels);
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r",
            "controller": true});
        let labelled = Pod::from_value(&json!({"metadata": {"namespace": "a", "name": "p",
            "labels": labels, "ownerReferences": [owner]}}))
        .unwrap();
        let before = Price::of(&labelled, &cluster).search;
        // What is in other namespaces is their own affair, and services may select nothing.
        for at in 0..2000 {
            add(&mut cluster, "Service", "b", &format!("s{at}"), &labels);
            add(&mut cluster, "Service", "a", &format!("none{at}"), &Value::Null);
        }
        assert_eq!(Price::of(&labelled, &cluster).search, before);
        add(&mut cluster, "Service", "a", "honest", &json!({"l1": "v"}));
        let honest = Price::of(&labelled, &cluster).search - before;
        assert!((1000..12_000).contains(&honest), "{honest}");
        (0..2000).for_each(|at| add(&mut cluster, "Service", "a", &format!("s{at}"), &labels));
        let price = Price::of(&labelled, &cluster);
        assert!(price.search > 2000 * 100, "{price:?}");
        let most_expensive = most_expensive_part(&labelled, &cluster, ScopeSize::all(&cluster));
        assert_eq!(most_expensive, PARTS[2].0);
        // In the next placements of a group it is known which of them select the pod.
        let counters = KeptCounters { up_to: price.search, are_there: true, most_labels: 100 };
        let next = ScopeSize { n_nodes: 1, n_pods: 0, counters };
        let next = Price::on(&labelled, &cluster, next).search;
        assert!((700..1000).contains(&next), "{next}");
        // A service that asks for anything is not compared with a pod without labels.
        let plain = Price::of(&pod(json!({})), &cluster).search;
        assert!(plain < 10_000, "{plain}");
        let requirements = vec![json!({"key": "a", "operator": "DoesNotExist"}); 5000];
        let selector = json!({"matchExpressions": requirements});
        add(&mut cluster, "ReplicaSet", "a", "r", &selector);
        // Each requirement is compared with each pod of the namespace.
        let owned = Price::of(&labelled, &cluster).search - price.search;
        assert!(owned > 5000 * 1000, "{owned}");
    }

    /// As many nodes and pods as clusters are meant to have.
    #[test]
    fn pods_with_few_terms_are_not_charged_in_the_largest_clusters() {
        let selector = json!({"matchLabels": {"app": "x"}});
        let term = json!({"topologyKey": "zone", "labelSelector": selector});
        let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector});
        let terms =
            |term: &Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        let elsewhere =
            json!({"topologyKey": "zone", "labelSelector": selector, "namespaces": ["a", "b"]});
        let pods = [
            pod(json!({"topologySpreadConstraints": vec![&constraint; 2],
                "affinity": {"podAffinity": terms(&term), "podAntiAffinity": terms(&term)}})),
            pod(json!({"affinity": {"podAffinity": terms(&elsewhere)}})),
            pod(json!({})),
        ];
        let mut cluster = cluster();
        let prices =
            |cluster: &ClusterState| pods.each_ref().map(|pod| Price::of(pod, cluster).search);
        let before = prices(&cluster);
        for at in 0..1000 {
            let other = json!({"metadata": {"namespace": "a", "name": format!("b{at}"), "uid": format!("b{at}")},
                "spec": {"nodeName": format!("n{at}")}});
            cluster.add_pod(Arc::new(Pod::from_value(&other).unwrap())).unwrap();
        }
        let after = prices(&cluster);
        let budgets = Budgets::new(WorkLimits::default());
        let limits = budgets.with_sizes("a", (5000, 150_000), Timestamp::EPOCH);
        for (after, before) in after.into_iter().zip(before) {
            // 1,000 nodes and as many pods more than that are part of the former price.
            let price = before * 5 + (after - before) / 1000 * 145_000;
            assert!(price <= limits.soft, "{before} {after}: {price} of {}", limits.soft);
        }
    }

    /// However many pods another tenant has, and whatever nodes they name.
    #[test]
    fn pods_of_other_namespaces_are_passed_by_for_next_to_nothing() {
        let mut cluster = cluster();
        add(&mut cluster, "Service", "a", "own", &json!({"app": "x"}));
        let selector = json!({"matchLabels": {"app": "x"}});
        let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector});
        let term = json!({"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": selector}});
        let of_terms = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": vec![&term; 2]}});
        let labelled = |spec: Value| {
            let json = json!({"metadata": {"namespace": "a", "name": "p", "labels": {"app": "x"}}, "spec": spec});
            Pod::from_value(&json).unwrap()
        };
        // Each has two parts that count pods of its namespace.
        let pods = [
            labelled(json!({"topologySpreadConstraints": vec![constraint; 2]})),
            labelled(json!({})),
        ];
        let with_terms = labelled(json!({"affinity": of_terms, "topologySpreadConstraints": []}));
        let prices = |cluster: &ClusterState| {
            pods.iter()
                .chain([&with_terms])
                .map(|pod| Price::of(pod, cluster).search)
                .collect::<Vec<_>>()
        };
        let before = prices(&cluster);
        for at in 0..4000 {
            let node = if at % 2 == 0 { format!("n{}", at % 1000) } else { format!("gone{at}") };
            let other = json!({"metadata": {"namespace": "b", "name": at.to_string(), "uid": format!("b{at}")},
                "spec": {"nodeName": node}});
            cluster.add_pod(Arc::new(Pod::from_value(&other).unwrap())).unwrap();
        }
        let more: Vec<u64> =
            prices(&cluster).iter().zip(&before).map(|(after, before)| after - before).collect();
        // The last is spread by its service as well.
        assert_eq!(more, [2 * 4000 / 8, 2 * 4000 / 8, 4 * 4000 / 8]);
    }

    #[test]
    fn claims_pay_for_what_their_classes_have_and_for_what_they_select() {
        let mut cluster = cluster();
        let mut upsert =
            |api_version: &str, kind: &str, namespace: &str, name: String, spec: Value| {
                let object = json!({"apiVersion": api_version, "kind": kind,
                "metadata": {"namespace": namespace, "name": name}, "spec": spec});
                cluster.upsert_object(Arc::new(Object::from_value(object).unwrap()));
            };
        for at in 0..1000 {
            upsert("v1", "PersistentVolume", "", format!("pv{at}"), json!({}));
            upsert("storage.k8s.io/v1", "CSIStorageCapacity", "b", format!("c{at}"), json!({}));
        }
        upsert("storage.k8s.io/v1", "StorageClass", "", "s".to_owned(), json!({}));
        let pairs = json!({"matchLabels": {"a": "b"}});
        let values: Vec<_> = (0..400_000).map(|at| at.to_string()).collect();
        let many = json!({"matchExpressions": [{"key": "a", "operator": "In", "values": values}]});
        for at in 0..100 {
            let selector = if at < 3 { &many } else { &pairs };
            upsert(
                "v1",
                "PersistentVolumeClaim",
                "a",
                format!("chosen{at}"),
                json!({"selector": selector}),
            );
        }
        for at in 0..1001 {
            upsert("v1", "PersistentVolumeClaim", "a", format!("plain{at}"), json!({}));
        }
        let price = |n: usize, name: &dyn Fn(usize) -> String| {
            let volume = |at: usize| json!({"name": at.to_string(), "persistentVolumeClaim": {"claimName": name(at)}});
            Price::of(&pod(json!({"volumes": (0..n).map(volume).collect::<Vec<_>>()})), &cluster)
                .search
        };
        let plain = |at: usize| format!("plain{at}");
        let before = price(0, &plain);
        // The volume, its claim and the capacities, once; then one on each node.
        assert_eq!(price(1, &plain) - before, 1000 + 1000 + 1000);
        assert_eq!(price(3, &plain) - before, 3000 + 1000 + 3000);
        // One that is not there, for its node alone.
        assert_eq!(price(1, &|_| "missing".to_owned()) - before, 1000);
        // Of very many claims each costs twenty more on each node.
        let of_one_more = price(1001, &plain) - price(1000, &plain);
        assert_eq!(of_one_more, 1000 + 21 * 1000);
        // One pair is compared with each volume, and each volume on each node with what others took.
        let chosen = |at: usize| format!("chosen{}", at + 3);
        assert_eq!(price(1, &chosen) - price(1, &plain), 2 * 1000 + 2 * 8 + 2 * 1000);
        assert!(price(97, &chosen) > 2 * 97 * 97 * 1000);
        // However often it is named, a selector is compiled once; three of the largest are too much.
        let largest = |at: usize| format!("chosen{}", at.min(1));
        assert!((400_001 * 16..8_000_000).contains(&price(2, &largest)));
        assert_eq!(price(3, &largest) - price(2, &largest), 1000 + 1000 + 4 * 1000);
        assert_eq!(price(3, &|at| format!("chosen{at}")), u64::MAX);
    }

    #[test]
    fn terms_without_a_selector_are_compared_with_no_pod() {
        let cluster = cluster();
        let of_terms = |term: Value| {
            let terms = vec![term; 100];
            let spec = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}});
            Price::of(&pod(spec), &cluster).search
        };
        let plain = Price::of(&pod(json!({})), &cluster).search;
        let with = of_terms(json!({"topologyKey": "zone", "labelSelector": {}})) - plain;
        let without = of_terms(json!({"topologyKey": "zone"})) - plain;
        let carrying = 100 * CARRYING_A_TERM;
        assert!((200_000..201_000).contains(&(with - carrying)), "{with}");
        assert!((100_000..101_000).contains(&(without - carrying)), "{without}");
    }

    #[test]
    fn terms_with_a_key_that_no_node_has_are_compared_with_nothing() {
        let cluster = cluster();
        let term = json!({"topologyKey": "rack", "labelSelector": {"matchLabels": {"a": "b"}}});
        let terms = vec![term; 100];
        let spec = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}});
        let plain = Price::of(&pod(json!({})), &cluster).search;
        let with = Price::of(&pod(spec), &cluster).search - plain;
        let carrying = 100 * CARRYING_A_TERM;
        assert!((carrying + 100..carrying + 1000).contains(&with), "{with}");
    }

    #[test]
    fn a_pod_that_may_go_to_some_nodes_pays_for_these() {
        let cluster = cluster();
        let price = |spec: Value, n_nodes, n_pods| {
            let counters = KeptCounters::default();
            Price::on(&pod(spec), &cluster, ScopeSize { n_nodes, n_pods, counters })
        };
        let plain = price(json!({}), 1000, 1000);
        assert_eq!(plain, Price::of(&pod(json!({})), &cluster));
        let few = price(json!({}), 10, 10);
        assert!(few.search < plain.search / 50, "{plain:?}");
        // Pods to evict are looked for on these alone, and each of theirs is tried.
        assert_eq!(few.preemption, plain.preemption / 100);
        assert_eq!(price(json!({}), 10, 30).preemption, 2 * few.preemption);
        // Where pods are spread, all nodes count.
        let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"a": "b"}}}]});
        assert!(price(spread, 10, 10).search > 1000);
    }

    #[test]
    fn what_was_counted_before_is_not_paid_for_again() {
        let cluster = cluster();
        let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}});
        let terms = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": vec![term; 10]}}});
        let (pod, plain) = (pod(terms), pod(json!({})));
        let price = |pod: &Pod, up_to| {
            let counters = KeptCounters { up_to, are_there: up_to > 0, most_labels: 0 };
            Price::on(pod, &cluster, ScopeSize { n_nodes: 1, n_pods: 1, counters }).search
        };
        let first = price(&pod, 0);
        assert!(first > 10 * 1000, "{first}");
        let next = price(&pod, first);
        let kept = 10 * (KEEPING_A_COUNTER + CARRYING_A_TERM);
        assert!((kept..kept + 200).contains(&next), "{next} of {first}");
        // Nothing was kept of a search that costs more.
        assert_eq!(price(&pod, first - 1), first);
        assert_eq!(price(&plain, u64::MAX), price(&plain, 0));
    }

    /// As members of a group are, again and again.
    #[test]
    fn labels_of_a_pod_that_is_put_on_a_node_are_looked_up_among_many_requirements() {
        let mut cluster = cluster();
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r",
            "controller": true});
        let owned = json!({"metadata": {"namespace": "a", "name": "p", "labels": {"app": "x"},
            "ownerReferences": [owner]}});
        let owned = Pod::from_value(&owned).unwrap();
        let price = |cluster: &ClusterState, most_labels| {
            let counters = KeptCounters { up_to: u64::MAX, are_there: true, most_labels };
            Price::on(&owned, cluster, ScopeSize { n_nodes: 1, n_pods: 1, counters }).search
        };
        let absent = |at: usize| json!({"key": format!("k{at}"), "operator": "DoesNotExist"});
        let selector = json!({"matchExpressions": (0..1923).map(absent).collect::<Vec<_>>()});
        add(&mut cluster, "ReplicaSet", "a", "r", &selector);
        let of_one = price(&cluster, 1);
        assert!(of_one < 200, "{of_one}");
        // Each label costs a search when the pod comes and one when it goes.
        assert_eq!(price(&cluster, 10) - of_one, 9 * 2 * 23);
        // With very many labels, each requirement is compared.
        let of_many = price(&cluster, 1000);
        assert!((2 * 1923..2 * 1923 + 200).contains(&of_many), "{of_many}");
        // So it is if all are about one label.
        let about_one = vec![json!({"key": "app", "operator": "NotIn", "values": ["y"]}); 1923];
        add(&mut cluster, "ReplicaSet", "a", "r", &json!({"matchExpressions": about_one}));
        let of_one = price(&cluster, 1);
        assert!(of_one > 2 * 2 * 1923, "{of_one}");
    }

    #[test]
    fn what_is_not_followed_is_not_kept() {
        let cluster = cluster();
        let n_kept = |n_terms: usize, n_listed: usize| {
            let namespaces: Vec<_> = (0..n_listed).map(|at| format!("n{at}")).collect();
            let term =
                json!({"topologyKey": "zone", "labelSelector": {}, "namespaces": namespaces});
            let terms = vec![term; n_terms];
            let spec = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}});
            let pod = pod(spec);
            let n_kept = n_kept_counters(&pod, &cluster);
            assert_eq!(Price::of(&pod, &cluster).is_kept(u64::MAX), n_kept.is_some());
            n_kept
        };
        assert_eq!([n_kept(0, 0), n_kept(10, 1), n_kept(64, 1)], [Some(0), Some(10), Some(64)]);
        assert_eq!([n_kept(65, 1), n_kept(10, 210), n_kept(1, 2100)], [None; 3]);
    }

    /// Counters of pods that are spread list which nodes count, too.
    #[test]
    fn what_is_counted_on_too_many_kinds_of_nodes_is_not_kept() {
        let mut cluster = cluster();
        add(&mut cluster, "Service", "a", "s", &json!({"app": "a"}));
        let constraints = json!([{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "a"}}}]);
        for (constraints, n_counters) in [(json!([]), 2), (constraints, 1)] {
            let n_kept = |n_values: usize| {
                let values: Vec<_> = (0..n_values).map(|at| at.to_string()).collect();
                let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": values}]}]);
                let spec = json!({"topologySpreadConstraints": constraints, "affinity": {"nodeAffinity":
                    {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
                let pod = json!({"metadata": {"namespace": "a", "name": "p", "labels": {"app": "a"}}, "spec": spec});
                n_kept_counters(&Pod::from_value(&pod).unwrap(), &cluster)
            };
            assert_eq!([n_kept(2000), n_kept(2100)], [Some(n_counters), None]);
        }
    }

    #[test]
    fn pods_of_other_namespaces_are_not_compared_with_what_is_about_neighbours() {
        let mut cluster = cluster();
        for at in 0..1000 {
            let running = json!({"metadata": {"namespace": "b", "name": at.to_string(), "uid": format!("b{at}")},
                "spec": {"nodeName": format!("n{at}")}});
            cluster.add_pod(Arc::new(Pod::from_value(&running).unwrap())).unwrap();
        }
        let of_term = |namespaces: Value| {
            let values: Vec<_> = (0..1000).map(|at| format!("v{at}")).collect();
            let selector =
                json!({"matchExpressions": [{"key": "a", "operator": "In", "values": values}]});
            let term =
                json!({"topologyKey": "zone", "labelSelector": selector, "namespaces": namespaces});
            let spec = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
            Price::of(&pod(spec), &cluster)
        };
        let (own, named) = (of_term(json!(null)), of_term(json!(["a", "b"])));
        // Twelve comparisons with each pod of the namespace, or of both.
        let saved = named.search - own.search;
        assert!((11_000..16_000).contains(&saved), "{saved}");
        assert!(own.preemption < named.preemption);
    }

    #[test]
    fn a_pod_that_never_preempts_pays_for_no_preemption() {
        let price = Price::of(&pod(json!({"preemptionPolicy": "Never"})), &cluster());
        assert_eq!(price.preemption, 0);
    }
}
