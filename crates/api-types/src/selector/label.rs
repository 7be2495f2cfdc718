//! Label selectors: a conjunction of requirements.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use kube_scheduler_primitives::KeyedState;

use super::error::SelectorError;
use super::grammar;
use super::requirement::{OperatorName, Requirement, new_requirement};
use crate::labels::Labels;
use crate::validation::FieldPath;
use crate::wire;

/// A compiled label selector. Without requirements it matches everything; "matches nothing" is the absence of a
/// selector, `None` where one is optional.
///
/// It is hashed once, when it is made, however much it lists, and compared at length only with one of equal hash.
#[derive(Clone)]
pub struct LabelSelector {
    requirements: Arc<[Requirement]>,
    /// Of the requirements, by [`KeyedState`].
    hash: u64,
}

impl Default for LabelSelector {
    fn default() -> Self {
        Self::new([])
    }
}

impl fmt::Debug for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LabelSelector").field("requirements", &self.requirements).finish()
    }
}

impl PartialEq for LabelSelector {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.requirements == other.requirements
    }
}

impl Eq for LabelSelector {}

impl Hash for LabelSelector {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl LabelSelector {
    /// The selector that asks for all of `requirements`.
    pub fn new(requirements: impl Into<Arc<[Requirement]>>) -> Self {
        let requirements = requirements.into();
        let hash = KeyedState::default().hash_one(&requirements);
        Self { requirements, hash }
    }

    /// Compiles `matchLabels` and `matchExpressions`.
    ///
    /// # Errors
    /// What is wrong with the first bad requirement.
    pub fn from_wire(selector: &wire::LabelSelector) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        let mut push = |key: &Arc<str>, operator, values: Option<&[Arc<str>]>| {
            requirements.push(
                new_requirement(key, operator, values, &FieldPath::root())
                    .map_err(SelectorError::Fields)?,
            );
            Ok(())
        };
        for (key, value) in selector.match_labels.iter_shared() {
            push(&key, OperatorName::In, Some(std::slice::from_ref(&*value)))?;
        }
        for expression in selector.match_expressions.iter() {
            let operator = match &*expression.operator.0 {
                "In" => OperatorName::In,
                "NotIn" => OperatorName::NotIn,
                "Exists" => OperatorName::Exists,
                "DoesNotExist" => OperatorName::DoesNotExist,
                other => return Err(SelectorError::Operator(other.to_owned())),
            };
            // The reference copies the list, which makes an empty one absent.
            let values = expression.shared_values();
            push(
                &expression.key.0,
                operator,
                values.as_deref().filter(|values| !values.is_empty()),
            )?;
        }
        Ok(Self::new(requirements))
    }

    /// Reads the textual form: `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1,j<9`. The empty text selects everything.
    ///
    /// # Errors
    /// If the text does not follow the grammar, or a key or value is no valid label.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        grammar::parse(text).map(Self::new)
    }

    /// Whether `labels` fulfil every requirement.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// Whether there are no requirements, so that everything matches.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements in order: labels by key, then expressions as written.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// This selector with more requirements at its end.
    #[must_use]
    pub fn with(&self, more: impl IntoIterator<Item = Requirement>) -> Self {
        Self::new(self.requirements.iter().cloned().chain(more).collect::<Arc<[_]>>())
    }
}
