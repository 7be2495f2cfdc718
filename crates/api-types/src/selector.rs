//! Selectors: which labels (or node names) are meant. Compiled once, matched often.
//!
//! Answers to `apimachinery/pkg/labels`, `meta/v1: LabelSelectorAsSelector` and
//! `component-helpers/scheduling/corev1/nodeaffinity` (`spec/plugins-node.md` §2.6, §2.7; `spec/plugins-topology.md`
//! §1.1).
//!
//! Invariants: matching never allocates; a compiled selector equals another iff it was written with the same
//! requirements in the same order; whatever is wrong with a selector is in its [`SelectorError`], all of it where the
//! reference reports all.

mod field;
mod grammar;
mod label;
mod node;
mod requirement;
#[cfg(test)]
mod tests;

use crate::validation::{FieldError, aggregate, quoted};

pub use field::{FieldComparison, FieldSelector};
pub use label::LabelSelector;
pub use node::{
    FieldRequirement, NodeNames, NodeSelector, NodeSelectorTerm, node_satisfies_required_affinity,
    required_node_affinity_matches,
};
pub use requirement::{Operator, Requirement};

pub(crate) use node::preferred_terms;

/// Why a selector cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// Fields are wrong; prints as the reference prints them, one bare and several in brackets.
    #[error("{}", aggregate(.0))]
    Fields(Vec<FieldError>),
    /// A label selector has an operator that label selectors do not know.
    #[error("{} is not a valid label selector operator", quoted(.0))]
    Operator(String),
    /// A selector written as text does not parse.
    #[error("unable to parse requirement: {0}")]
    Syntax(String),
}
