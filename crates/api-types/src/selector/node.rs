//! Node selectors: a disjunction of terms over node labels and the node's name.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::error::SelectorError;
use super::requirement::{OperatorName, Requirement, bad_list, new_requirement};
use crate::labels::Labels;
use crate::validation::{BadValue, FieldError, FieldPath};
use crate::wire;

const NODE_NAME_FIELD: &str = "metadata.name";

/// One requirement on a field of the node. Only `metadata.name` has a value; every other field reads as empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldRequirement {
    /// Path of the field.
    pub field: Arc<str>,
    /// The one value it is compared with.
    pub value: Arc<str>,
    /// Whether it must equal the value (`In`); else it must differ (`NotIn`).
    pub is_equal: bool,
}

impl FieldRequirement {
    /// Whether a node of this name fulfils the requirement.
    pub fn matches(&self, node_name: &str) -> bool {
        let actual = if &*self.field == NODE_NAME_FIELD { node_name } else { "" };
        (*self.value == *actual) == self.is_equal
    }
}

/// One term: all expressions and all fields must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeSelectorTerm {
    /// `matchExpressions`: requirements on labels, all of which must hold.
    pub expressions: Arc<[Requirement]>,
    /// `matchFields`: requirements on fields, all of which must hold.
    pub fields: Arc<[FieldRequirement]>,
}

impl NodeSelectorTerm {
    /// Compiles one term. `path` is the field it is the value of, for error texts.
    ///
    /// # Errors
    /// Everything that is wrong with the term.
    pub fn compile(term: &wire::NodeSelectorTerm, path: &FieldPath) -> Result<Self, SelectorError> {
        let mut errors = Vec::new();
        let expressions = compile_expressions(
            &term.match_expressions,
            &path.child("matchExpressions"),
            &mut errors,
        );
        let fields = compile_fields(&term.match_fields, &path.child("matchFields"), &mut errors);
        if errors.is_empty() {
            Ok(Self { expressions: expressions.into(), fields: fields.into() })
        } else {
            Err(SelectorError::Fields(errors))
        }
    }

    /// Whether a node with these labels and this name is meant. Without a name the fields count as fulfilled.
    pub fn matches(&self, labels: &Labels, node_name: &str) -> bool {
        self.expressions.iter().all(|requirement| requirement.matches(labels))
            && (node_name.is_empty()
                || self.fields.iter().all(|requirement| requirement.matches(node_name)))
    }
}

/// To which nodes the names in a selector narrow the search (`docs/spec/plugins-node.md` §4.6.1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeNames {
    /// Some term does not name nodes, so all nodes have to be looked at.
    NotNarrowed,
    /// Only these nodes can match. Empty: the terms contradict each other.
    Names(BTreeSet<Arc<str>>),
}

/// A node selector in the lazy form: terms that do not compile match nothing, and the others are not affected.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSelector {
    terms: Arc<[Result<NodeSelectorTerm, SelectorError>]>,
    names: Arc<NodeNames>,
    n_terms_given: usize,
}

impl NodeSelector {
    /// Whether both are the same allocation, and so equal. With `false` they may be equal or not.
    pub fn is_same_allocation(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.terms, &other.terms) && self.n_terms_given == other.n_terms_given
    }

    /// Compiles lazily. Terms without any requirement are dropped: they match nothing.
    pub fn from_wire(selector: &wire::NodeSelector) -> Self {
        let path = FieldPath::new("nodeSelectorTerms");
        let given = &selector.node_selector_terms;
        Self {
            terms: given
                .iter()
                .enumerate()
                .filter(|(_, term)| !is_empty_term(term))
                .map(|(at, term)| NodeSelectorTerm::compile(term, &path.index(at)))
                .collect(),
            names: Arc::new(node_names(given)),
            n_terms_given: given.len(),
        }
    }

    /// Compiles strictly. `path` is the field that the selector is the value of, [`FieldPath::root`] for none.
    ///
    /// # Errors
    /// Everything that is wrong with any term.
    pub fn compile_strict(
        selector: &wire::NodeSelector,
        path: &FieldPath,
    ) -> Result<Self, SelectorError> {
        let mut errors = Vec::new();
        let terms_path = path.child("nodeSelectorTerms");
        for (at, term) in selector.node_selector_terms.iter().enumerate() {
            if let Err(SelectorError::Fields(more)) = compile_nonempty(term, &terms_path.index(at))
            {
                errors.extend(more);
            }
        }
        if errors.is_empty() {
            Ok(Self::from_wire(selector))
        } else {
            Err(SelectorError::Fields(errors))
        }
    }

    /// The terms that have requirements, each compiled or in error.
    pub fn terms(&self) -> &[Result<NodeSelectorTerm, SelectorError>] {
        &self.terms
    }

    /// How many terms the object has, empty ones included.
    pub fn n_terms_given(&self) -> usize {
        self.n_terms_given
    }

    /// To which nodes the selector narrows the search. Counts every term, even those in error.
    pub fn node_names(&self) -> &NodeNames {
        &self.names
    }

    /// Whether some term matches; errors count as no match.
    pub fn matches(&self, labels: &Labels, node_name: &str) -> bool {
        self.terms.iter().flatten().any(|term| term.matches(labels, node_name))
    }

    /// Whether some term matches.
    ///
    /// # Errors
    /// If no term matches, the errors of the terms that could not be compiled.
    pub fn matches_or_error(
        &self,
        labels: &Labels,
        node_name: &str,
    ) -> Result<bool, SelectorError> {
        if self.matches(labels, node_name) {
            return Ok(true);
        }
        let mut all = Vec::new();
        for error in self.terms.iter().filter_map(|term| term.as_ref().err()) {
            match error {
                SelectorError::Fields(errors) => all.extend(errors.iter().cloned()),
                other => return Err(other.clone()),
            }
        }
        if all.is_empty() { Ok(false) } else { Err(SelectorError::Fields(all)) }
    }
}

/// One preferred node term. Terms of weight 0 and empty preferences are dropped when compiling.
#[derive(Clone, Debug, PartialEq)]
pub struct PreferredNodeTerm {
    /// What is added to the score of nodes that match.
    pub weight: i32,
    /// What a node has to match.
    pub term: NodeSelectorTerm,
}

/// Compiles preferred terms strictly; those of weight 0 and empty ones are dropped unread.
pub(crate) fn preferred_terms(
    terms: &[wire::PreferredSchedulingTerm],
    path: &FieldPath,
) -> Result<Arc<[PreferredNodeTerm]>, SelectorError> {
    let mut errors = Vec::new();
    let mut compiled = Vec::with_capacity(terms.len());
    for (at, preferred) in terms.iter().enumerate() {
        let weight = preferred.weight.unwrap_or(0);
        if weight == 0 {
            continue;
        }
        match compile_nonempty(&preferred.preference, &path.index(at)) {
            Ok(Some(term)) => compiled.push(PreferredNodeTerm { weight, term }),
            Ok(None) => {}
            Err(SelectorError::Fields(more)) => errors.extend(more),
            Err(other) => return Err(other),
        }
    }
    if errors.is_empty() { Ok(compiled.into()) } else { Err(SelectorError::Fields(errors)) }
}

/// Whether a term has no requirements at all.
fn is_empty_term(term: &wire::NodeSelectorTerm) -> bool {
    term.match_expressions.is_empty() && term.match_fields.is_empty()
}

fn compile_nonempty(
    term: &wire::NodeSelectorTerm,
    path: &FieldPath,
) -> Result<Option<NodeSelectorTerm>, SelectorError> {
    if is_empty_term(term) { Ok(None) } else { NodeSelectorTerm::compile(term, path).map(Some) }
}

fn compile_expressions(
    expressions: &[wire::SelectorRequirement],
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Vec<Requirement> {
    let mut compiled = Vec::with_capacity(expressions.len());
    for (at, expression) in expressions.iter().enumerate() {
        let operator = match &*expression.operator.0 {
            "In" => OperatorName::In,
            "NotIn" => OperatorName::NotIn,
            "Exists" => OperatorName::Exists,
            "DoesNotExist" => OperatorName::DoesNotExist,
            "Gt" => OperatorName::Gt,
            "Lt" => OperatorName::Lt,
            other => {
                let supported = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
                errors.push(unsupported_operator(&path.index(at), other, &supported));
                continue;
            }
        };
        match new_requirement(
            &expression.key.0,
            operator,
            expression.shared_values().as_deref(),
            &path.index(at),
        ) {
            Ok(requirement) => compiled.push(requirement),
            Err(more) => errors.extend(more),
        }
    }
    compiled
}

fn compile_fields(
    requirements: &[wire::SelectorRequirement],
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Vec<FieldRequirement> {
    let mut compiled = Vec::with_capacity(requirements.len());
    for (at, requirement) in requirements.iter().enumerate() {
        let path = path.index(at);
        let is_equal = match &*requirement.operator.0 {
            "In" => true,
            "NotIn" => false,
            other => {
                errors.push(unsupported_operator(&path, other, &["In", "NotIn"]));
                continue;
            }
        };
        let values = requirement.shared_values();
        match values.as_deref() {
            Some([value]) => {
                let field = requirement.key.0.clone();
                compiled.push(FieldRequirement { field, value: value.clone(), is_equal });
            }
            values => {
                errors.push(FieldError::invalid(
                    path.child("values"),
                    bad_list(values),
                    "must have one element",
                ));
            }
        }
    }
    compiled
}

fn unsupported_operator(path: &FieldPath, operator: &str, supported: &[&str]) -> FieldError {
    FieldError::unsupported(path.child("operator"), BadValue::json(operator), supported)
}

fn node_names(terms: &[wire::NodeSelectorTerm]) -> NodeNames {
    let mut union = BTreeSet::new();
    for term in terms {
        let mut named: Option<BTreeSet<Arc<str>>> = None;
        let narrowing = |field: &&wire::SelectorRequirement| {
            &*field.key.0 == NODE_NAME_FIELD && &*field.operator.0 == "In"
        };
        for field in term.match_fields.iter().filter(narrowing) {
            let values: BTreeSet<Arc<str>> =
                field.shared_values().unwrap_or_default().into_iter().collect();
            named = Some(match named {
                Some(before) => before.intersection(&values).cloned().collect(),
                None => values,
            });
        }
        match named {
            Some(names) => union.extend(names),
            None => return NodeNames::NotNarrowed,
        }
    }
    if terms.is_empty() { NodeNames::NotNarrowed } else { NodeNames::Names(union) }
}
