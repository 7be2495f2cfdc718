//! Counters by domain against counting by name, and how many of them are kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::{LabelSelector, Labels, Node, Pod};

use super::fixtures::{labelled, node, pod};
use super::model::Model;
use crate::counters::{
    CountedNodes, CountedPods, CounterSpec, DomainCounts, PodTerm, PodTolerations,
    RequiredNodeAffinity,
};
use crate::domains::CounterTable;
use crate::{ClusterState, NodeIdx, check};

const ZONE: &str = "topology.kubernetes.io/zone";

#[test]
fn what_is_easily_derived_is_kept_when_it_is_asked_for_again() {
    let mut cluster = ClusterState::new();
    let (first, mut second) = (spec(0), spec(0));
    second.nodes.required_keys = Arc::from(["disk".into()]);
    let mut ask = |spec| {
        cluster.counted(spec);
        cluster.follow_requested();
        cluster.followed(spec).is_some()
    };
    assert!(ask(&first), "nothing to derive it from");
    assert!(!ask(&second), "asked for once");
    assert!(ask(&second));
}

/// Specifications of every kind, by number.
pub(super) const N_SPECS: usize = 10;

fn term(namespaces: &[&str], namespace_selector: Option<&str>, selector: &str) -> PodTerm {
    PodTerm {
        namespaces: namespaces.iter().map(|name| Arc::from(*name)).collect(),
        namespace_selector: namespace_selector.map(|text| LabelSelector::parse(text).unwrap()),
        selector: LabelSelector::parse(selector).unwrap(),
    }
}

fn counted(terms: &[PodTerm], counts_terminating: bool) -> CountedPods {
    CountedPods { terms: terms.into(), counts_terminating }
}

/// A pod that requires a disk and tolerates one of the taints.
fn picky_pod() -> Pod {
    Pod::from_json(
        r#"{"metadata":{"name":"p","namespace":"default","uid":"p"},
            "spec":{"nodeSelector":{"disk":"ssd"},
                "affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
                    {"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["n1"]}]}]}}},
                "tolerations":[{"key":"x","operator":"Exists"}]}}"#,
    )
    .unwrap()
}

fn tolerated() -> Option<PodTolerations> {
    Some(PodTolerations {
        tolerations: picky_pod().spec.tolerations.clone(),
        compares_numbers: false,
    })
}

pub(super) fn spec(which: usize) -> CounterSpec {
    let zone = Some(Arc::from(ZONE));
    let with_disk =
        CountedNodes { required_keys: Arc::from(["disk".into()]), ..Default::default() };
    let picky = CountedNodes {
        affinity: RequiredNodeAffinity::of(&picky_pod()),
        tolerated: tolerated(),
        ..Default::default()
    };
    let (pods, nodes, topology_key) = match which {
        0 => (counted(&[term(&["default"], None, "app=0")], false), CountedNodes::default(), zone),
        1 => (counted(&[term(&["default", "other"], None, "app in (0,1)")], true), with_disk, zone),
        2 => {
            (counted(&[term(&[], Some("team=red"), "app=1")], true), CountedNodes::default(), zone)
        }
        3 => (counted(&[term(&["default"], Some("team"), "")], false), picky, Some("disk".into())),
        4 => (
            counted(&[term(&["other"], None, "app!=0"), term(&[], Some(""), "app")], true),
            CountedNodes { tolerated: tolerated(), ..Default::default() },
            Some("kubernetes.io/hostname".into()),
        ),
        5 => (
            counted(&[term(&[], Some("!team"), "app=0"), term(&["other"], Some(""), "")], false),
            CountedNodes { counts_unlabelled: true, ..Default::default() },
            zone,
        ),
        6 => (counted(&[term(&["default"], None, "app=0")], false), with_disk, None),
        7 => (counted(&[], true), CountedNodes::default(), zone),
        8 => (counted(&[term(&[], Some(""), "")], true), picky, None),
        _ => (
            counted(&[term(&["default"], None, "app=1")], false),
            CountedNodes { counts_unlabelled: true, ..with_disk },
            Some("disk".into()),
        ),
    };
    CounterSpec { pods, nodes, topology_key }
}

/// Whether a pod counts, from the words of the specification.
fn is_counted(spec: &CounterSpec, pod: &Pod, namespaces: &BTreeMap<String, Labels>) -> bool {
    if spec.pods.terms.is_empty()
        || pod.deletion_requested.is_some() && !spec.pods.counts_terminating
    {
        return false;
    }
    spec.pods.terms.iter().all(|term| {
        let is_named = term.namespaces.contains(&pod.namespace);
        let is_selected = match &term.namespace_selector {
            None => false,
            Some(selector) if selector.requirements().is_empty() => true,
            Some(selector) => {
                namespaces.get(&*pod.namespace).is_some_and(|labels| selector.matches(labels))
            }
        };
        (is_named || is_selected) && term.selector.matches(&pod.labels)
    })
}

fn is_counted_node(spec: &CounterSpec, node: &Node) -> bool {
    let has = |key: &Arc<str>| node.labels.get(key).is_some();
    let picky = picky_pod();
    spec.nodes.required_keys.iter().all(has)
        && (spec.nodes.counts_unlabelled || spec.topology_key.iter().all(has))
        && (spec.nodes.affinity.is_none()
            || kube_scheduler_api_types::node_satisfies_required_affinity(&picky, node))
        && (spec.nodes.tolerated.is_none() || !node.taints.iter().any(|taint| &*taint.key == "y"))
}

/// The counts of a specification over the model: pods by node, and nodes and pods by domain.
type Counted = (BTreeMap<String, i64>, BTreeMap<Option<String>, (i64, u32)>);

fn counted_by_name(model: &Model, spec: &CounterSpec) -> Counted {
    let (mut on_nodes, mut domains) = (BTreeMap::new(), BTreeMap::new());
    for (name, node) in &model.nodes {
        let n = node.pods.iter().filter(|pod| is_counted(spec, pod, &model.namespaces)).count();
        let n = i64::try_from(n).unwrap();
        if n > 0 {
            on_nodes.insert(name.clone(), n);
        }
        let Some(object) = &node.object else { continue };
        if is_counted_node(spec, object) {
            let key = spec.topology_key.as_ref();
            let value = key.and_then(|key| object.labels.get(key)).map(str::to_owned);
            let domain: &mut (i64, u32) = domains.entry(value).or_default();
            domain.0 += n;
            domain.1 += 1;
        }
    }
    (on_nodes, domains)
}

fn counted_by_state(cluster: &ClusterState, counts: &DomainCounts) -> Counted {
    let name = |idx| cluster.node_name(idx).map(ToString::to_string).unwrap();
    let all = (0..cluster.capacity()).map(NodeIdx::from_index);
    let on_nodes = all.filter(|idx| counts.on_node(*idx) > 0);
    let value = |id| {
        let column = counts.column(cluster);
        column.and_then(|column| column.value(id)).map(ToString::to_string)
    };
    (
        on_nodes.map(|idx| (name(idx), counts.on_node(idx))).collect(),
        counts.domains().map(|(id, domain)| (value(id), (domain.n_pods, domain.n_nodes))).collect(),
    )
}

/// Asserts that a counter, followed or not, gives what the model gives.
pub(super) fn assert_counts(cluster: &ClusterState, model: &Model, which: usize) {
    let spec = spec(which);
    let expected = counted_by_name(model, &spec);
    let computed = DomainCounts::count(cluster, &spec);
    let followed = cluster.followed(&spec).map(|counts| &**counts);
    for counts in [Some(&computed), followed].into_iter().flatten() {
        assert_eq!(counted_by_state(cluster, counts), expected, "specification {which}");
        let domains = expected.1.values();
        assert_eq!(counts.least(), domains.clone().map(|(n_pods, _)| *n_pods).min());
        assert_eq!(counts.n_pods(), domains.clone().map(|(n_pods, _)| n_pods).sum::<i64>());
        assert_eq!(counts.n_domains(), domains.len());
        let ids: Vec<_> = counts.domains().map(|(id, _)| id).take(2).collect();
        let others = counts.domains().filter(|(id, _)| !ids.contains(id));
        assert_eq!(counts.least_without(&ids), others.map(|(_, domain)| domain.n_pods).min());
        for (n_pods, _) in domains {
            let same = expected.1.values().filter(|(other, _)| other == n_pods).count();
            assert_eq!(counts.n_domains_with(*n_pods) as usize, same);
        }
    }
}

/// Whether there is a column, and not only the empty one of keys that no node has.
pub(super) fn has_column(cluster: &ClusterState, key: &str) -> bool {
    cluster.labels.columns().any(|column| **column.key() == *key)
}

#[test]
fn a_counter_that_nobody_reads_makes_room() {
    let mut cluster = ClusterState::new();
    cluster.add_node(node(0, 1));
    cluster.add_node(labelled(1, ["only"]));
    cluster.add_pod(pod(1, 0, 0, 0)).unwrap();
    let spec = |n: usize| CounterSpec {
        pods: counted(&[term(&["default"], None, &format!("app={n}"))], true),
        topology_key: Some(if n == 1 { "only".into() } else { ZONE.into() }),
        ..CounterSpec::default()
    };
    let limit = CounterTable::limit(cluster.capacity());
    (0..limit).for_each(|n| cluster.follow(&spec(n)));
    assert_eq!(cluster.n_followed(), limit);
    cluster.follow(&spec(limit));
    assert_eq!(cluster.n_followed(), limit);
    assert!(cluster.followed(&spec(0)).is_none(), "no counter was read");
    assert!(has_column(&cluster, "only"));
    cluster.follow(&spec(limit + 1));
    assert!(cluster.followed(&spec(1)).is_none(), "not read since");
    assert!(!has_column(&cluster, "only"), "its column went with it");
    assert!(cluster.followed(&spec(2)).is_some_and(|counts| counts.n_pods() == 0));
    cluster.follow(&spec(limit + 2));
    assert!(cluster.followed(&spec(2)).is_some() && cluster.followed(&spec(3)).is_none());
    assert_eq!(cluster.n_followed(), limit);
    assert_eq!(check(&cluster), []);
}

#[test]
fn label_columns_wanted_by_themselves_are_bounded() {
    let mut cluster = ClusterState::new();
    cluster.add_node(node(0, 1));
    let limit = CounterTable::label_limit(cluster.capacity());
    let keys: Vec<String> = (0..=limit).map(|n| format!("key-{n}")).collect();
    cluster.add_node(labelled(1, keys.iter().map(String::as_str)));
    cluster.follow(&spec(0));
    for key in &keys {
        assert!(cluster.label_column(key).is_none());
        assert!(
            *key == keys[0] || cluster.label_column(&keys[0]).is_some(),
            "read again and again"
        );
        cluster.follow_requested();
    }
    assert!(has_column(&cluster, &keys[limit]) && !has_column(&cluster, &keys[1]));
    assert!(has_column(&cluster, ZONE), "a counter needs it");
    cluster.drop_label_column(ZONE);
    assert!(has_column(&cluster, ZONE));
    assert_eq!(check(&cluster), []);
}
