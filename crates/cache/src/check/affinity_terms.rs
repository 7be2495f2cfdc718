//! The terms that pods carry, pod by pod.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use kube_scheduler_api_types::{Labels, PodAffinityTerm};

use super::{PlainNode, Report};
use crate::affinity_terms::{CarriedTerm, TermCount, TermKind};
use crate::node_table::NodeIdx;
use crate::state::ClusterState;

/// How often a term is carried, by node and by domain.
#[derive(Debug, Default, PartialEq)]
struct Places {
    by_node: BTreeMap<NodeIdx, (u32, i64)>,
    by_domain: BTreeMap<Arc<str>, (u32, i64)>,
}

/// By the debug form of the term, which shows every field.
type Terms = BTreeMap<(TermKind, String), Places>;

pub(super) fn check(
    cluster: &ClusterState,
    plain: &BTreeMap<Arc<str>, PlainNode>,
    report: &mut Report,
) {
    let expected = recomputed(plain);
    let found = shown(cluster);
    report.compare(|| "affinity terms of pods".to_owned(), &expected, &found);
    for kind in [
        TermKind::RequiredAntiAffinity,
        TermKind::RequiredAffinity,
        TermKind::PreferredAffinity,
        TermKind::PreferredAntiAffinity,
    ] {
        let n = expected.keys().filter(|key| key.0 == kind).count();
        report.compare(|| format!("number of {kind:?}"), n, cluster.affinity_terms().n_terms(kind));
    }
    report.compare(
        || "whether there are affinity terms".to_owned(),
        expected.is_empty(),
        cluster.affinity_terms().is_empty(),
    );
    report.compare(
        || "whether affinity terms select by number".to_owned(),
        plain
            .values()
            .filter(|node| node.idx.is_some())
            .any(|node| node.pods.values().any(|pod| pod.has_affinity_by_number())),
        cluster.affinity_terms().select_by_number(),
    );
    let no_labels = Labels::default();
    for pod in plain.values().flat_map(|node| node.pods.values()) {
        let labels = cluster.objects().namespace_labels(&pod.namespace).unwrap_or(&no_labels);
        let terms = cluster.affinity_terms();
        let meant = terms
            .iter()
            .filter(|carried| !carried.domains().is_empty() && carried.term().matches(pod, labels));
        let about = terms.about(pod, labels, |_| true).map(|(_, carried)| carried);
        report.compare(|| format!("terms about pod {}", pod.key()), by_text(meant), by_text(about));
    }
}

fn by_text<'a>(terms: impl Iterator<Item = &'a CarriedTerm>) -> Vec<String> {
    let mut texts: Vec<String> = terms
        .map(|carried| format!("{:?} {}", carried.kind(), shown_term(carried.term())))
        .collect();
    texts.sort_unstable();
    texts
}

fn recomputed(plain: &BTreeMap<Arc<str>, PlainNode>) -> Terms {
    let mut terms = Terms::new();
    for node in plain.values() {
        let Some(idx) = node.idx else { continue };
        let mut count = |kind, weight: i32, term: &PodAffinityTerm| {
            let places = terms.entry((kind, shown_term(term))).or_default();
            let add = |sum: &mut (u32, i64)| *sum = (sum.0 + 1, sum.1 + i64::from(weight));
            add(places.by_node.entry(idx).or_default());
            let value =
                node.node.as_ref().and_then(|node| node.labels.get_shared(&term.topology_key));
            if let Some(value) = value {
                add(places.by_domain.entry(value.into_owned()).or_default());
            }
        };
        for pod in node.pods.values() {
            if let Some(affinity) = &pod.spec.pod_affinity {
                affinity.required.iter().for_each(|t| count(TermKind::RequiredAffinity, 0, t));
                for preferred in affinity.preferred.iter() {
                    count(TermKind::PreferredAffinity, preferred.weight, &preferred.term);
                }
            }
            if let Some(affinity) = &pod.spec.pod_anti_affinity {
                affinity.required.iter().for_each(|t| count(TermKind::RequiredAntiAffinity, 0, t));
                for preferred in affinity.preferred.iter() {
                    count(TermKind::PreferredAntiAffinity, preferred.weight, &preferred.term);
                }
            }
        }
    }
    terms
}

fn shown(cluster: &ClusterState) -> Terms {
    let mut terms = Terms::new();
    for carried in cluster.affinity_terms().iter() {
        let key = (carried.kind(), shown_term(carried.term()));
        let places = terms.entry(key).or_default();
        let column = cluster.label_column(&carried.term().topology_key);
        for (domain, TermCount { n, weight }) in carried.domains().iter() {
            let value = column.and_then(|column| column.value(domain)).cloned();
            let value = value.unwrap_or_else(|| format!("no value {domain:?}").into());
            let place = places.by_domain.entry(value).or_default();
            *place = (place.0 + n, place.1 + weight);
        }
    }
    for idx in (0..cluster.capacity()).map(NodeIdx::from_index) {
        for (carried, TermCount { n, weight }) in cluster.affinity_terms.on_node(idx) {
            let key = (carried.kind(), shown_term(carried.term()));
            terms.entry(key).or_default().by_node.insert(idx, (n, weight));
        }
    }
    terms
}

fn shown_term(term: &impl Debug) -> String {
    format!("{term:?}")
}
