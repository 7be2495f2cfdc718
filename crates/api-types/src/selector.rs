//! Selectors: which labels (or node names) are meant. Compiled once, matched often.
//!
//! Answers to `apimachinery/pkg/labels`, `meta/v1: LabelSelectorAsSelector` and
//! `component-helpers/scheduling/corev1/nodeaffinity` (`docs/spec/plugins-node.md` §2.6, §2.7; `docs/spec/plugins-topology.md`
//! §1.1).
//!
//! Invariants: matching never allocates; a compiled selector equals another iff it was written with the same
//! requirements in the same order; whatever is wrong with a selector is in its [`SelectorError`], all of it where the
//! reference reports all.

mod error;
mod field;
mod grammar;
mod label;
mod many;
mod node;
mod requirement;
#[cfg(test)]
mod tests;

pub use error::SelectorError;
pub use field::{FieldComparison, FieldSelector};
pub use label::LabelSelector;
pub use node::{FieldRequirement, NodeNames, NodeSelector, NodeSelectorTerm, PreferredNodeTerm};
pub use requirement::{Operator, Requirement};

pub(crate) use node::preferred_terms;
