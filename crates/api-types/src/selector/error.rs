//! What can be wrong with a selector.

use crate::validation::{FieldError, aggregate, quoted};

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
