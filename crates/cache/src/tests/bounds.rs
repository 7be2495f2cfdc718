//! What one tenant's pods may cost: the numbers of columns, entries and evaluations that stay after them.

use std::sync::Arc;

use kube_scheduler_api_types::{LabelSelector, Labels, Node, Pod, Requirement, Resources};
use serde_json::{Value, json};

use super::counters::has_column;
use super::fixtures::labelled;
use crate::affinity::TermKind;
use crate::counters::{
    CountedNodes, CountedPods, CounterSpec, DomainCounts, PodTerm, RequiredNodeAffinity,
};
use crate::domains::SharedEligibility;
use crate::matching_nodes::{in_each, sets_of_all};
use crate::{ChangeKinds, Changes, ClusterState, check};

const HOST: &str = "kubernetes.io/hostname";

fn cluster() -> ClusterState {
    let mut cluster = ClusterState::new();
    for at in 0..4 {
        cluster.add_node(labelled(at, [HOST, "zone"]));
    }
    cluster
}

fn texts(prefix: &str, n: usize) -> Vec<Arc<str>> {
    let mut texts: Vec<Arc<str>> = (0..n).map(|at| format!("{prefix}-{at}").into()).collect();
    texts.sort_unstable();
    texts
}

fn pods_of(namespaces: usize, values: usize) -> CountedPods {
    let listed = Requirement {
        key: "app".into(),
        operator: kube_scheduler_api_types::Operator::In,
        values: texts("app", values).into(),
    };
    let term = PodTerm {
        namespaces: texts("ns", namespaces).into(),
        namespace_selector: None,
        selector: LabelSelector::new([listed]),
    };
    CountedPods { terms: Arc::from([term]), counts_terminating: true }
}

fn pod(name: &str, spec: Value) -> Arc<Pod> {
    let json = json!({
        "metadata": {"namespace": "ns-0", "name": name, "uid": name, "labels": {"app": "app-0"}},
        "spec": spec,
    });
    Arc::new(Pod::from_value(&json).unwrap())
}

/// A pod on the first node with required anti-affinity by keys of its own.
fn with_own_keys(name: &str, n: usize) -> Arc<Pod> {
    let term = |at| json!({"topologyKey": format!("{name}/{at}"), "labelSelector": {}});
    let terms: Vec<Value> = (0..n).map(term).collect();
    let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
    pod(name, json!({"nodeName": "n0", "affinity": {"podAntiAffinity": affinity}}))
}

fn exists_terms(n: usize) -> RequiredNodeAffinity {
    let term = |at| json!({"matchExpressions": [{"key": format!("a-{at}"), "operator": "Exists"}]});
    let terms: Vec<Value> = (0..n).map(term).collect();
    let required =
        json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    let pod = pod("p", json!({"affinity": {"nodeAffinity": required}}));
    RequiredNodeAffinity::of(&pod).unwrap()
}

/// 300 constraints on keys that no node has, or that all have, with 1,000 node affinity terms.
#[test]
fn counters_of_one_pod_share_one_evaluation_of_its_affinity() {
    let cluster = cluster();
    let affinity = exists_terms(1000);
    let n_evaluations = |keys: &[Arc<str>]| {
        let mut shared = SharedEligibility::default();
        for key in keys {
            let nodes = CountedNodes {
                required_keys: keys.into(),
                affinity: Some(affinity.clone()),
                ..CountedNodes::default()
            };
            let topology_key = Some(key.clone());
            let spec = CounterSpec { pods: pods_of(1, 1), nodes, topology_key };
            let counts = DomainCounts::derived(&cluster, &spec, &mut shared);
            assert!(counts.eligible().is_empty(), "no node has a key of the affinity");
        }
        shared.n_evaluations
    };
    assert_eq!(n_evaluations(&texts("unknown", 300)), 0);
    assert_eq!(n_evaluations(&[HOST.into(), "zone".into()]), 1);
}

/// One term with 2,000 namespaces and 2,000 values.
#[test]
fn a_counter_is_filed_under_one_list_not_under_all_pairs() {
    let mut cluster = cluster();
    let spec = |namespaces, values| CounterSpec {
        pods: pods_of(namespaces, values),
        topology_key: Some("zone".into()),
        ..CounterSpec::default()
    };
    cluster.follow(&spec(2000, 2000));
    assert_eq!(cluster.counters.n_filings(), 2000);
    cluster.follow(&spec(3, 900));
    assert_eq!(cluster.counters.n_filings(), 2003, "the shorter list");
    cluster.follow(&spec(4, 4));
    assert_eq!(cluster.counters.n_filings(), 2019, "few pairs are the quickest to find");
    cluster.follow(&spec(61, 1));
    assert_eq!(cluster.counters.n_filings(), 2020, "the only label");
    // Whichever way it is filed, a pod is counted once.
    cluster.add_pod(with_own_keys("p", 0)).unwrap();
    for (namespaces, values) in [(2000, 2000), (3, 900), (4, 4), (61, 1)] {
        assert_eq!(
            cluster.followed(&spec(namespaces, values)).map(|counts| counts.n_pods()),
            Some(1)
        );
    }
    assert_eq!(check(&cluster), []);

    let mut cluster = self::cluster();
    let counted = cluster.counted(&spec(2000, 2000));
    assert_eq!(counted.n_domains(), DomainCounts::count(&cluster, &spec(2000, 2000)).n_domains());
    cluster.follow_requested();
    assert_eq!(cluster.n_followed(), 0, "too large to be kept for a pod");
}

/// The specifications of counters stay after their pods, up to a number of bytes.
#[test]
fn followed_counters_are_bounded_in_bytes() {
    let mut cluster = cluster();
    let spec = |n: usize| CounterSpec {
        pods: pods_of(2000 + n, 1),
        topology_key: Some("zone".into()),
        ..CounterSpec::default()
    };
    for n in 0..200 {
        cluster.follow(&spec(n));
        assert!(cluster.n_bytes_of_followed() <= 48 << 20);
    }
    assert!((100..200).contains(&cluster.n_followed()), "{}", cluster.n_followed());
    assert!(cluster.followed(&spec(199)).is_some() && cluster.followed(&spec(0)).is_none());
    assert_eq!(check(&cluster), []);
}

/// What a group's placements read again and again is there for as long as they do.
#[test]
fn counters_for_which_there_is_room_are_all_followed() {
    let mut cluster = cluster();
    let most = (1..5000).rev().find(|n| cluster.can_follow(*n)).unwrap();
    let spec = |of: &str, at: u64| {
        let mut pods = pods_of(1, 1);
        pods.terms = [PodTerm {
            namespaces: texts(&format!("{of}-{at}"), 1).into(),
            ..pods.terms[0].clone()
        }]
        .into();
        CounterSpec { pods, topology_key: Some("zone".into()), ..CounterSpec::default() }
    };
    for of in ["others", "wanted"] {
        (0..most).for_each(|at| cluster.follow(&spec(of, at)));
    }
    assert!((0..most).all(|at| cluster.followed(&spec("wanted", at)).is_some()));
    // There would be no room for two more of each, so no larger promise could be kept.
    (most..most + 2).for_each(|at| cluster.follow(&spec("others", at)));
    (most..most + 2).for_each(|at| cluster.follow(&spec("wanted", at)));
    assert!((0..most).any(|at| cluster.followed(&spec("others", at)).is_none()));
}

#[test]
fn a_pod_that_needs_very_many_counters_has_none_followed() {
    let mut cluster = cluster();
    let spec = |key: &Arc<str>| CounterSpec {
        pods: pods_of(1, 1),
        topology_key: Some(key.clone()),
        ..CounterSpec::default()
    };
    let specs: Vec<CounterSpec> = texts("unknown", 3000).iter().map(spec).collect();
    let counted = cluster.counted_all(&specs);
    assert!(counted.iter().all(|counts| counts.n_domains() == 0));
    cluster.follow_requested();
    assert_eq!((cluster.n_followed(), cluster.n_label_columns()), (0, 0));
    cluster.counted_all(&specs[..8]);
    cluster.follow_requested();
    assert_eq!((cluster.n_followed(), cluster.n_label_columns()), (1, 0), "derived from the first");
}

/// 40,000 `nodeSelector` pairs, and 20 pods with 3,000 topology keys each.
#[test]
fn keys_that_no_node_has_need_no_column() {
    let mut cluster = cluster();
    for key in texts("unknown", 40_000) {
        cluster.label_column(&key);
    }
    cluster.follow_requested();
    assert_eq!(cluster.n_label_columns(), 0);
    let pairs: Labels =
        texts("unknown", 40_000).into_iter().map(|key| (key, Arc::from("x"))).collect();
    {
        let mut n_looked_up = 0;
        let sets = sets_of_all(&cluster, Some(&pairs), None).inspect(|_| n_looked_up += 1);
        let n_nodes = in_each(sets, cluster.live_nodes()).len();
        assert_eq!((n_looked_up, n_nodes), (1, 0));
    }

    let pods: Vec<Arc<Pod>> = (0..20).map(|at| with_own_keys(&format!("p{at}"), 3000)).collect();
    for pod in &pods {
        cluster.add_pod(pod.clone()).unwrap();
    }
    assert_eq!(cluster.n_label_columns(), 0);
    assert_eq!(cluster.affinity_terms().n_terms(TermKind::RequiredAntiAffinity), 60_000);
    let unlike = with_own_keys("unlike", 0);
    let about = |cluster: &ClusterState| {
        cluster.affinity_terms().about(&unlike, &Labels::default(), |_| true).count()
    };
    assert_eq!(about(&cluster), 0, "terms without a domain concern no pod");

    // The first node with a key makes its column, if a pod needs it.
    let idx = cluster.add_node(labelled(7, ["p3/5", "p3/6", "elsewhere"]));
    assert_eq!(cluster.n_label_columns(), 2);
    assert_eq!(about(&cluster), 0, "no pod is on that node");
    let mut moved = (*pods[3]).clone();
    moved.node_name = cluster.node_name(idx).cloned();
    cluster.update_pod(moved.into()).unwrap();
    assert_eq!(about(&cluster), 2);
    assert_eq!(check(&cluster), []);

    pods.iter().for_each(|pod| drop(cluster.remove_pod(&pod.uid).unwrap()));
    assert!(cluster.affinity_terms().is_empty());
    cluster.remove_node("n7").unwrap();
    assert_eq!(about(&cluster), 0);
    assert_eq!(check(&cluster), []);
}

#[test]
fn a_counter_by_a_key_that_no_node_has_counts_once_a_node_has_it() {
    let mut cluster = cluster();
    let spec = CounterSpec {
        pods: pods_of(1, 1),
        topology_key: Some("rack".into()),
        ..CounterSpec::default()
    };
    cluster.follow(&spec);
    assert!(!has_column(&cluster, "rack") && cluster.label_column("rack").is_some());
    cluster.add_pod(with_own_keys("p", 0)).unwrap();
    assert_eq!(cluster.counted(&spec).n_pods(), 0);
    let labels = |keys: &[&'static str]| labelled(0, keys.iter().copied());
    cluster.add_node(labels(&[HOST, "rack"]));
    assert!(has_column(&cluster, "rack"));
    assert_eq!(cluster.counted(&spec).n_pods(), 1);
    assert_eq!(check(&cluster), []);
    cluster.add_node(labels(&[HOST]));
    assert_eq!(cluster.counted(&spec).n_pods(), 0);
    assert_eq!(check(&cluster), []);
    // If no pod needs it, the next node with the key makes no column.
    let mut nobody = self::cluster();
    nobody.add_node(labels(&[HOST, "rack"]));
    assert!(nobody.label_column("rack").is_none());
    let node: &Node = nobody.node(nobody.node_idx("n0").unwrap()).unwrap();
    assert!(node.labels.contains_key("rack"));
}

/// 64 pods whose names lie between each other's: nothing is kept for a name until a node offers it.
#[test]
fn invented_names_have_no_columns_and_leave_nothing() {
    let mut cluster = cluster();
    let pod = |which: usize| {
        let names = (0..200).map(|at| (format!("example.com/{at:03}-{which:02}"), json!("2")));
        let mut requests: serde_json::Map<_, _> = names.collect();
        requests.insert("example.com/gpu".into(), json!("3"));
        Pod::from_value(
            &json!({"metadata": {"namespace": "default", "name": "p", "uid": format!("p{which}")},
            "spec": {"nodeName": format!("n{}", which % 2), "priority": which % 3,
                "containers": [{"name": "c", "resources": {"requests": requests}}]}}),
        )
        .unwrap()
    };
    for which in 0..64 {
        cluster.add_pod(pod(which).into()).unwrap();
    }
    let n0 = cluster.node_idx("n0").unwrap();
    assert_eq!(cluster.requested().scalars().count(), 0);
    let levels = |cluster: &ClusterState| {
        let levels = cluster.pods.held_by(n0).unwrap().levels.all();
        levels.iter().map(|level| level.requested.scalars.len()).collect::<Vec<_>>()
    };
    assert_eq!(levels(&cluster), [0, 0, 0]);
    assert_eq!(cluster.requested_scalar("example.com/007-02", n0), Some(2));
    assert_eq!(cluster.requested_scalar("example.com/gpu", n0), Some(96));
    assert_eq!(cluster.requested_on(n0).scalars.len(), 32 * 200 + 1);
    assert_eq!(check(&cluster), []);

    let node = |allocatable: Value| {
        let json = json!({"metadata": {"name": "n3"}, "status": {"allocatable": allocatable}});
        Arc::new(Node::from_value(&json).unwrap())
    };
    // Plugins may have read sums of other nodes that come or go with it.
    let with_other_sums = |cluster: &ClusterState, since: u64| {
        let Changes::Entries(changes) = cluster.changes_since(since) else { unreachable!() };
        let changes = changes.filter(|change| change.kinds.contains(ChangeKinds::PODS));
        let mut nodes: Vec<_> = changes.map(|change| change.node).collect();
        nodes.sort_unstable();
        nodes
    };
    let mut asking = vec![n0, cluster.node_idx("n1").unwrap()];
    asking.sort_unstable();
    let since = cluster.sequence();
    cluster.add_node(node(json!({"example.com/gpu": "8", "example.com/007-02": "8"})));
    assert_eq!(with_other_sums(&cluster, since), asking);
    assert_eq!(
        cluster.requested().scalar("example.com/gpu").map(|column| column.get(n0)),
        Some(96)
    );
    assert_eq!(levels(&cluster), [1, 1, 2]);
    assert_eq!(check(&cluster), []);
    let since = cluster.sequence();
    cluster.add_node(node(json!({})));
    assert_eq!(with_other_sums(&cluster, since), asking);
    assert_eq!((cluster.requested().scalars().count(), levels(&cluster)), (0, vec![0, 0, 0]));
    assert_eq!(cluster.requested_scalar("example.com/gpu", n0), Some(96));
    assert_eq!(check(&cluster), []);

    (0..64).for_each(|which| drop(cluster.remove_pod(&format!("p{which}")).unwrap()));
    assert_eq!(cluster.requested_on(n0), Resources::default());
    assert_eq!(check(&cluster), []);
}
