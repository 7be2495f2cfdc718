//! How compiled parts of a pod are written into its signature.
//!
//! Invariant: every field that a plugin can see is written, each list with its length, so that different values never
//! give equal bytes. Order is kept as given: pods that differ in order alone get different signatures, which costs only
//! speed.

use std::sync::Arc;

use kube_scheduler_framework::SignatureWriter;
use kube_scheduler_framework::api::{LabelSelector, Labels};
use kube_scheduler_framework::api::{NodeNames, NodeSelector, NodeSelectorTerm, Operator};
use kube_scheduler_framework::api::{PodAffinity, PodAffinityTerm, Requirement, Resources};
use kube_scheduler_framework::api::{TaintEffect, Toleration, TolerationOperator};

/// Tolerations, without `tolerationSeconds`, which has no influence on scheduling.
pub(crate) fn write_tolerations(tolerations: &[Toleration], signature: &mut SignatureWriter) {
    signature.len(tolerations.len());
    for toleration in tolerations {
        signature.text(&toleration.key);
        signature.text(&toleration.value);
        match &toleration.operator {
            TolerationOperator::Equal => signature.int(0),
            TolerationOperator::Exists => signature.int(1),
            TolerationOperator::Lt => signature.int(2),
            TolerationOperator::Gt => signature.int(3),
            TolerationOperator::Other(name) => {
                signature.int(4);
                signature.text(name);
            }
        }
        match &toleration.effect {
            None => signature.int(0),
            Some(TaintEffect::NoSchedule) => signature.int(1),
            Some(TaintEffect::PreferNoSchedule) => signature.int(2),
            Some(TaintEffect::NoExecute) => signature.int(3),
            Some(TaintEffect::Other(name)) => {
                signature.int(4);
                signature.text(name);
            }
        }
    }
}

/// A resource vector; a scalar of zero differs from an absent one.
pub(crate) fn write_resources(resources: &Resources, signature: &mut SignatureWriter) {
    signature.int(resources.milli_cpu);
    signature.int(resources.memory);
    signature.int(resources.ephemeral_storage);
    signature.len(resources.scalars.len());
    for (name, amount) in &resources.scalars {
        signature.text(name);
        signature.int(*amount);
    }
}

/// Labels, or what a node selector asks of them.
pub(crate) fn write_labels(labels: &Labels, signature: &mut SignatureWriter) {
    signature.len(labels.len());
    for (key, value) in labels.iter() {
        signature.text(key);
        signature.text(value);
    }
}

/// A list of texts.
pub(crate) fn write_texts(texts: &[Arc<str>], signature: &mut SignatureWriter) {
    signature.len(texts.len());
    for text in texts {
        signature.text(text);
    }
}

/// A node selector: what its terms match, and to which names it narrows.
pub(crate) fn write_node_selector(
    selector: Option<&NodeSelector>,
    signature: &mut SignatureWriter,
) {
    signature.present(selector.is_some());
    let Some(selector) = selector else { return };
    signature.len(selector.n_terms_given());
    signature.len(selector.terms().len());
    for term in selector.terms() {
        // Whatever the error is, the term matches nothing.
        signature.present(term.is_ok());
        if let Ok(term) = term {
            write_node_selector_term(term, signature);
        }
    }
    match selector.node_names() {
        NodeNames::NotNarrowed => signature.present(false),
        NodeNames::Names(names) => {
            signature.present(true);
            signature.len(names.len());
            for name in names {
                signature.text(name);
            }
        }
    }
}

/// One term of a node selector.
pub(crate) fn write_node_selector_term(term: &NodeSelectorTerm, signature: &mut SignatureWriter) {
    write_requirements(&term.expressions, signature);
    signature.len(term.fields.len());
    for requirement in term.fields.iter() {
        signature.text(&requirement.field);
        signature.text(&requirement.value);
        signature.present(requirement.is_equal);
    }
}

fn write_requirements(requirements: &[Requirement], signature: &mut SignatureWriter) {
    signature.len(requirements.len());
    for requirement in requirements {
        signature.text(&requirement.key);
        match requirement.operator {
            Operator::In => signature.int(0),
            Operator::NotIn => signature.int(1),
            Operator::Exists => signature.int(2),
            Operator::DoesNotExist => signature.int(3),
            Operator::Gt(bound) => {
                signature.int(4);
                signature.int(bound);
            }
            Operator::Lt(bound) => {
                signature.int(5);
                signature.int(bound);
            }
        }
        write_texts(&requirement.values, signature);
    }
}

/// A label selector; none differs from an empty one.
pub(crate) fn write_label_selector(
    selector: Option<&LabelSelector>,
    signature: &mut SignatureWriter,
) {
    signature.present(selector.is_some());
    if let Some(selector) = selector {
        write_requirements(selector.requirements(), signature);
    }
}

/// Pod affinity or anti-affinity that compiles.
pub(crate) fn write_pod_affinity(affinity: Option<&PodAffinity>, signature: &mut SignatureWriter) {
    signature.present(affinity.is_some());
    let Some(affinity) = affinity else { return };
    signature.len(affinity.n_required_given);
    signature.len(affinity.required.len());
    affinity.required.iter().for_each(|term| write_affinity_term(term, signature));
    signature.len(affinity.n_preferred_given);
    signature.len(affinity.preferred.len());
    for weighted in affinity.preferred.iter() {
        signature.int(weighted.weight.into());
        write_affinity_term(&weighted.term, signature);
    }
}

fn write_affinity_term(term: &PodAffinityTerm, signature: &mut SignatureWriter) {
    write_label_selector(term.selector.as_ref(), signature);
    write_texts(&term.namespaces, signature);
    write_label_selector(term.namespace_selector.as_ref(), signature);
    signature.text(&term.topology_key);
}
