//! Label selectors: a conjunction of requirements.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::num::NonZeroU64;
use std::sync::Arc;

use kube_scheduler_primitives::KeyedState;
use serde::Deserialize;

use super::error::SelectorError;
use super::grammar;
use super::many::{FEW, ManyRequirements};
use super::requirement::{OperatorName, Requirement, new_requirement};
use crate::labels::Labels;
use crate::validation::FieldPath;
use crate::well_known::is_numbering_label;
use crate::{Json, wire};

/// The bit of a selector's hash that says whether it selects by number.
const BY_NUMBER: u64 = 1;
/// In the place of a hash that is zero; without that bit.
const NO_HASH: NonZeroU64 = NonZeroU64::MIN.saturating_add(1);

/// A compiled label selector. Without requirements it matches everything; "matches nothing" is the absence of a
/// selector, `None` where one is optional.
///
/// It is hashed once, when it is made, however much it lists, and compared at length only with one of equal hash.
#[derive(Clone)]
pub struct LabelSelector {
    listed: RequirementList,
    /// Of the requirements, by [`KeyedState`], but for the last bit: that says whether it [selects by
    /// number](LabelSelector::selects_by_number). Never zero, so that an optional selector is no larger.
    hash: NonZeroU64,
}

/// Which of them it is follows from the number of requirements. No larger than the first of them.
#[derive(Clone)]
enum RequirementList {
    Few(Arc<[Requirement]>),
    Many(Arc<ManyRequirements>),
}

impl RequirementList {
    fn all(&self) -> &Arc<[Requirement]> {
        match self {
            Self::Few(requirements) => requirements,
            Self::Many(many) => many.requirements(),
        }
    }
}

impl Default for LabelSelector {
    fn default() -> Self {
        Self::new([])
    }
}

impl fmt::Debug for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LabelSelector").field("requirements", self.listed.all()).finish()
    }
}

impl PartialEq for LabelSelector {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.listed.all() == other.listed.all()
    }
}

impl Eq for LabelSelector {}

impl Hash for LabelSelector {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash.get());
    }
}

impl LabelSelector {
    /// The selector that asks for all of `requirements`.
    pub fn new(requirements: impl Into<Arc<[Requirement]>>) -> Self {
        let requirements = requirements.into();
        let hash = KeyedState::default().hash_one(&requirements);
        let is_by_number = requirements.iter().any(|it| is_numbering_label(&it.key));
        let hash = if is_by_number { hash | BY_NUMBER } else { hash & !BY_NUMBER };
        let hash = NonZeroU64::new(hash).unwrap_or(NO_HASH);
        let listed = match Self::looks_labels_up(requirements.len()) {
            true => RequirementList::Many(Arc::new(ManyRequirements::new(requirements))),
            false => RequirementList::Few(requirements),
        };
        Self { listed, hash }
    }

    /// What a controller selects by its `spec.selector`; without requirements when that is absent or cannot be read.
    pub fn of_controller(controller: &Json) -> Self {
        let written = wire::LabelSelector::deserialize(&controller["spec"]["selector"]).ok();
        written.and_then(|written| Self::from_wire(&written).ok()).unwrap_or_default()
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

    /// Whether `labels` fulfil every requirement. With [many](Self::looks_labels_up) requirements O(labels × log requirements), and
    /// those about one of the labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        match &self.listed {
            RequirementList::Few(requirements) => {
                requirements.iter().all(|requirement| requirement.matches(labels))
            }
            RequirementList::Many(many) => many.matches(labels),
        }
    }

    /// Whether a selector with so many requirements looks up each label among them. With fewer each of them is looked up among the
    /// labels.
    pub const fn looks_labels_up(n_requirements: usize) -> bool {
        n_requirements > FEW
    }

    /// How many requirements a label is compared with at most: those about one key, or all of a few.
    pub fn most_about_one_label(&self) -> usize {
        match &self.listed {
            RequirementList::Few(requirements) => requirements.len(),
            RequirementList::Many(many) => many.most_about_one(),
        }
    }

    /// Whether a requirement is about one of the [labels that number pods](crate::well_known::NUMBERING_LABELS), so that the
    /// answer may differ for pods that differ in nothing else. O(1).
    pub const fn selects_by_number(&self) -> bool {
        self.hash.get() & BY_NUMBER != 0
    }

    /// Whether there are no requirements, so that everything matches.
    pub fn is_empty(&self) -> bool {
        self.requirements().is_empty()
    }

    /// The requirements in order: labels by key, then expressions as written.
    pub fn requirements(&self) -> &[Requirement] {
        self.listed.all()
    }

    /// This selector with more requirements at its end.
    #[must_use]
    pub fn with(&self, more: impl IntoIterator<Item = Requirement>) -> Self {
        Self::new(self.requirements().iter().cloned().chain(more).collect::<Arc<[_]>>())
    }

    /// How many single requirements were compared, if they are many.
    #[cfg(test)]
    pub(super) fn n_compared(&self) -> u32 {
        match &self.listed {
            RequirementList::Few(_) => 0,
            RequirementList::Many(many) => {
                many.n_compared.load(std::sync::atomic::Ordering::Relaxed)
            }
        }
    }
}
