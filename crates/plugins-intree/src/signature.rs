//! How compiled parts of a pod are written into its signature.
//!
//! Invariant: every field that a plugin can see is written, each list with its length, so that different values never
//! give equal bytes. Order is kept as given: two pods that differ in order alone are merely told apart.

use std::sync::Arc;

use kube_scheduler_framework::SignatureWriter;
use kube_scheduler_framework::api::Resources;
use kube_scheduler_framework::api::{NodeNames, NodeSelector, NodeSelectorTerm, Operator};
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

/// A list of texts.
pub(crate) fn write_texts(texts: &[Arc<str>], signature: &mut SignatureWriter) {
    signature.len(texts.len());
    for text in texts {
        signature.text(text);
    }
}

/// A node selector: what its terms match, and to which names it narrows.
pub(crate) fn write_node_selector(selector: &NodeSelector, signature: &mut SignatureWriter) {
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
    signature.len(term.expressions.len());
    for requirement in term.expressions.iter() {
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
    signature.len(term.fields.len());
    for requirement in term.fields.iter() {
        signature.text(&requirement.field);
        signature.text(&requirement.value);
        signature.present(requirement.is_equal);
    }
}
