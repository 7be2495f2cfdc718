//! What an attempt costs at most, reckoned from the pod and the size of the cluster before anything is done.
//!
//! A unit is one comparison, one table entry or one slot of a column. What caches, indexes and early ends save is not taken
//! off: the price is a limit from above, and the same whatever was done before, with any number of threads.
//!
//! Only what the pod itself asks for has a price. What others wrote, such as the anti-affinity of running pods, is theirs:
//! no tenant can make another tenant's pods too expensive.

use kube_scheduler_api_types::{
    LabelSelector, NodeSelectorTerm, Pod, PodAffinity, PodAffinityTerm, Requirement,
};
use kube_scheduler_cache::ClusterState;

/// What messages call a part of a pod, and what the part costs.
type Part = (&'static str, fn(&Pod, &ClusterState) -> Comparisons);

/// The parts of a pod that cost something.
const PARTS: [Part; 6] = [
    ("nodeSelector and node affinity", node_selection),
    ("topology spread constraints", spread_constraints),
    ("pod affinity and anti-affinity", pod_affinity),
    ("tolerations", tolerations),
    ("resources, host ports and images", requests),
    ("volumes and resource claims", volumes_and_claims),
];

/// How often something is compared, table entries and slots of columns included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Comparisons {
    once: u64,
    /// With each node.
    per_node: u64,
    /// With each pod that has a node.
    per_pod: u64,
}

/// What an attempt costs at most, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Price {
    /// What it costs to find the best node.
    pub(crate) search: u64,
    /// What it costs to look for pods to evict.
    pub(crate) preemption: u64,
    /// The part of the pod that the search costs most for.
    pub(crate) greatest: &'static str,
}

impl Price {
    /// The price of an attempt for `pod`. Linear in the number of the pod's terms and requirements.
    pub(crate) fn of(pod: &Pod, cluster: &ClusterState) -> Self {
        let (n_nodes, n_pods) = (units(cluster.capacity()), units(cluster.n_pods()));
        let (mut search, mut per_trial, mut greatest) = (0_u64, 0_u64, (0, ""));
        for (name, part) in PARTS {
            let Comparisons { once, per_node, per_pod } = part(pod, cluster);
            let price = once
                .saturating_add(per_node.saturating_mul(n_nodes))
                .saturating_add(per_pod.saturating_mul(n_pods));
            search = search.saturating_add(price);
            per_trial = per_trial.saturating_add(per_node).saturating_add(per_pod);
            if price > greatest.0 {
                greatest = (price, name);
            }
        }
        // Each node is tried without its pods, and with each of them again.
        let n_trials = if pod.spec.never_preempts { 0 } else { n_nodes.saturating_add(n_pods) };
        let preemption = n_trials.saturating_mul(per_trial);
        Self { search, preemption, greatest: greatest.1 }
    }
}

impl Comparisons {
    fn and(self, other: Self) -> Self {
        Self {
            once: self.once.saturating_add(other.once),
            per_node: self.per_node.saturating_add(other.per_node),
            per_pod: self.per_pod.saturating_add(other.per_pod),
        }
    }
}

fn units(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// What a search in a sorted list costs.
fn log(n: usize) -> u64 {
    u64::from(usize::BITS - n.leading_zeros())
}

/// What one comparison with requirements costs, and how many texts they list.
fn requirements(all: &[Requirement]) -> (u64, u64) {
    let cost = |(cost, listed), one: &Requirement| {
        (cost + 1 + log(one.values.len()), listed + 1 + units(one.values.len()))
    };
    all.iter().fold((0, 0), cost)
}

fn selector(selector: Option<&LabelSelector>) -> (u64, u64) {
    selector.map_or((0, 0), |selector| requirements(selector.requirements()))
}

fn node_selection(pod: &Pod, _: &ClusterState) -> Comparisons {
    let n_pairs = pod.spec.node_selector.as_ref().map_or(0, |pairs| units(pairs.len()));
    let mut sum = Comparisons { once: n_pairs, per_node: n_pairs, per_pod: 0 };
    let Some(affinity) = pod.spec.node_affinity.as_deref() else { return sum };
    let required = affinity.required.iter().flat_map(|selector| selector.terms()).flatten();
    let preferred = affinity.preferred.iter().flatten().flat_map(|terms| terms.iter());
    for term in required.chain(preferred.map(|preferred| &preferred.term)) {
        let NodeSelectorTerm { expressions, fields } = term;
        let (per_node, once) = requirements(expressions);
        let per_node = 1 + per_node + units(fields.len());
        sum = sum.and(Comparisons { once, per_node, per_pod: 0 });
    }
    sum
}

fn spread_constraints(pod: &Pod, cluster: &ClusterState) -> Comparisons {
    let constraints = &pod.spec.topology_spread_constraints;
    let mut sum = Comparisons::default();
    for constraint in constraints.iter() {
        let (per_pod, once) = selector(constraint.selector.as_ref());
        sum = sum.and(Comparisons { once, per_node: 1, per_pod: 1 + per_pod });
    }
    if !constraints.is_empty() {
        // Which nodes count is found out once, and for each constraint that honours taints.
        let per_constraint = tolerations(pod, cluster).once;
        let once = per_constraint.saturating_mul(units(constraints.len()));
        let per_node = node_selection(pod, cluster).per_node;
        sum = sum.and(Comparisons { once, per_node, per_pod: 0 });
    }
    sum
}

fn pod_affinity(pod: &Pod, _: &ClusterState) -> Comparisons {
    let affinities = [&pod.spec.pod_affinity, &pod.spec.pod_anti_affinity];
    let affinities = affinities.into_iter().flatten();
    let terms = affinities.flat_map(|affinity| {
        let PodAffinity { required, preferred, .. } = &**affinity;
        required.iter().chain(preferred.iter().map(|weighted| &weighted.term))
    });
    let mut sum = Comparisons::default();
    for PodAffinityTerm { selector: pods, namespaces, namespace_selector, .. } in terms {
        let of_pods = selector(pods.as_ref());
        let of_namespaces = selector(namespace_selector.as_ref());
        sum = sum.and(Comparisons {
            once: of_pods.1 + of_namespaces.1 + units(namespaces.len()),
            per_node: 1,
            per_pod: 1 + of_pods.0 + of_namespaces.0 + log(namespaces.len()),
        });
    }
    sum
}

fn tolerations(pod: &Pod, cluster: &ClusterState) -> Comparisons {
    let n_tolerations = units(pod.spec.tolerations.len());
    // Nodes have few different lists of taints, and each list is compared once.
    let once = n_tolerations.saturating_mul(units(cluster.taint_sets().n_ids()));
    Comparisons { once, per_node: 1, per_pod: 0 }
}

fn requests(pod: &Pod, _: &ClusterState) -> Comparisons {
    let n_asked =
        pod.requests.totals.len() + pod.spec.host_ports.len() + pod.spec.images.names.len();
    Comparisons { once: units(pod.labels.len()), per_node: 1 + units(n_asked), per_pod: 0 }
}

fn volumes_and_claims(pod: &Pod, cluster: &ClusterState) -> Comparisons {
    let n_volumes = units(pod.volumes.len());
    let n_claims = units(pod.spec.resource_claims.len());
    let mut sum = Comparisons { once: 0, per_node: n_volumes + n_claims, per_pod: 0 };
    if n_volumes > 0 {
        let n_known = units(cluster.objects().n_objects("", "PersistentVolume"));
        sum.once = n_volumes.saturating_mul(n_known);
    }
    if n_claims > 0 {
        let n_known = units(cluster.objects().n_objects("resource.k8s.io", "ResourceSlice"));
        sum.once = sum.once.saturating_add(n_claims.saturating_mul(n_known));
    }
    sum
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube_scheduler_api_types::Node;
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> Pod {
        Pod::from_value(&json!({"metadata": {"namespace": "a", "name": "p"}, "spec": spec}))
            .unwrap()
    }

    /// 1,000 nodes with one pod each.
    fn cluster() -> ClusterState {
        let mut cluster = ClusterState::new();
        for at in 0..1000 {
            let node = json!({"metadata": {"name": format!("n{at}")}});
            cluster.add_node(Arc::new(Node::from_value(&node).unwrap()));
            let running = json!({"metadata": {"namespace": "a", "name": at.to_string(), "uid": at.to_string()},
                "spec": {"nodeName": format!("n{at}")}});
            cluster.add_pod(Arc::new(Pod::from_value(&running).unwrap())).unwrap();
        }
        cluster
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
            (required("podAntiAffinity", json!([term])), 2, 24_000..28_000),
            (json!({"containers": [{"name": "c", "ports": ports}]}), 4, 100_000..110_000),
            (json!({"volumes": volumes}), 5, 100_000..110_000),
        ];
        for (spec, part, expected) in cases {
            let price = Price::of(&pod(spec), &cluster);
            assert_eq!(price.greatest, PARTS[part].0);
            assert!(expected.contains(&price.search), "{price:?}");
            assert!(price.preemption >= price.search / 2, "{price:?}");
        }
    }

    #[test]
    fn a_pod_that_never_preempts_pays_for_no_preemption() {
        let price = Price::of(&pod(json!({"preemptionPolicy": "Never"})), &cluster());
        assert_eq!(price.preemption, 0);
    }
}
