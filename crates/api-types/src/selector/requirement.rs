//! One requirement on one label.

use std::sync::Arc;

use crate::labels::Labels;
use crate::validation::{
    BadValue, FieldError, FieldPath, label_key_messages, label_value_messages,
};

/// How a requirement compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// The label is present and its value is listed.
    In,
    /// The label is absent or its value is not listed.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is a number above this one.
    Gt(i64),
    /// The label is a number below this one.
    Lt(i64),
}

impl Operator {
    /// The operator as the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt(_) => "Gt",
            Self::Lt(_) => "Lt",
        }
    }
}

/// One requirement on the label `key`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    /// The key of the label that is compared.
    pub key: Arc<str>,
    /// How the value of the label is compared.
    pub operator: Operator,
    /// Values listed, sorted and unique. One for `Gt` and `Lt`, none for `Exists` and `DoesNotExist`.
    pub values: Arc<[Arc<str>]>,
}

impl Requirement {
    /// `key` must be present with exactly `value`; nothing is validated.
    pub fn equals(key: Arc<str>, value: Arc<str>) -> Self {
        Self { key, operator: Operator::In, values: Arc::from([value]) }
    }

    /// Whether `labels` fulfil the requirement. O(log labels + log values).
    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_value(labels.get(&self.key))
    }

    /// Whether a label with this value (`None`: absent) fulfils the requirement.
    pub fn matches_value(&self, value: Option<&str>) -> bool {
        match (self.operator, value) {
            (Operator::In, value) => value.is_some_and(|value| self.lists(value)),
            (Operator::NotIn, value) => !value.is_some_and(|value| self.lists(value)),
            (Operator::Exists, value) => value.is_some(),
            (Operator::DoesNotExist, value) => value.is_none(),
            (Operator::Gt(bound), Some(value)) => {
                parse_integer(value).is_some_and(|value| value > bound)
            }
            (Operator::Lt(bound), Some(value)) => {
                parse_integer(value).is_some_and(|value| value < bound)
            }
            (Operator::Gt(_) | Operator::Lt(_), None) => false,
        }
    }

    fn lists(&self, value: &str) -> bool {
        match &*self.values {
            [only] => **only == *value,
            values => values.binary_search_by(|listed| (**listed).cmp(value)).is_ok(),
        }
    }
}

/// The operators a requirement may be written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperatorName {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
}

/// Validates and compiles a requirement; the error is everything that is wrong with it. `values` is `None` when the list is
/// absent, which error texts distinguish from an empty one.
pub(crate) fn new_requirement(
    key: &Arc<str>,
    operator: OperatorName,
    values: Option<&[Arc<str>]>,
    path: &FieldPath,
) -> Result<Requirement, Vec<FieldError>> {
    let mut errors = Vec::new();
    let key_messages = label_key_messages(key);
    if !key_messages.is_empty() {
        errors.push(FieldError::invalid(path.child("key"), &**key, key_messages.join("; ")));
    }
    let values_path = || path.child("values");
    let given = values.unwrap_or_default();
    let mut number = None;
    match operator {
        OperatorName::In | OperatorName::NotIn => {
            if given.is_empty() {
                let detail = "for 'in', 'notin' operators, values set can't be empty";
                errors.push(FieldError::invalid(values_path(), bad_list(values), detail));
            }
        }
        OperatorName::Exists | OperatorName::DoesNotExist => {
            if !given.is_empty() {
                let detail = "values set must be empty for exists and does not exist";
                errors.push(FieldError::invalid(values_path(), bad_list(values), detail));
            }
        }
        OperatorName::Gt | OperatorName::Lt => {
            if given.len() != 1 {
                let detail = "for 'Gt', 'Lt' operators, exactly one value is required";
                errors.push(FieldError::invalid(values_path(), bad_list(values), detail));
            }
            for (at, value) in given.iter().enumerate() {
                number = parse_integer(value);
                if number.is_none() {
                    let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                    errors.push(FieldError::invalid(values_path().index(at), &**value, detail));
                }
            }
        }
    }
    for (at, value) in given.iter().enumerate() {
        let messages = label_value_messages(value);
        if !messages.is_empty() {
            let path = values_path().index(at).key(key);
            errors.push(FieldError::invalid(path, &**value, messages.join("; ")));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let operator = match (operator, number) {
        (OperatorName::In, _) => Operator::In,
        (OperatorName::NotIn, _) => Operator::NotIn,
        (OperatorName::Exists, _) => Operator::Exists,
        (OperatorName::DoesNotExist, _) => Operator::DoesNotExist,
        // Without errors there is exactly one number.
        (OperatorName::Gt, number) => Operator::Gt(number.unwrap_or(i64::MAX)),
        (OperatorName::Lt, number) => Operator::Lt(number.unwrap_or(i64::MIN)),
    };
    Ok(Requirement { key: key.clone(), operator, values: sorted(given) })
}

/// A list of values as error texts show it: JSON, `null` when absent.
pub(crate) fn bad_list(values: Option<&[Arc<str>]>) -> BadValue {
    values.map_or_else(BadValue::null, BadValue::json)
}

fn sorted(values: &[Arc<str>]) -> Arc<[Arc<str>]> {
    if values.is_sorted_by(|a, b| a < b) {
        return values.into();
    }
    let mut values = values.to_vec();
    values.sort_unstable();
    values.dedup();
    values.into()
}

/// A 64-bit integer in base ten with an optional sign.
fn parse_integer(text: &str) -> Option<i64> {
    text.parse().ok()
}
