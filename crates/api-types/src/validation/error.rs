//! Which field is wrong and why.
//!
//! Invariants: [`FieldError`] prints as `<path>: <kind>[: <value>][: <detail>]`; `Required value` and `Forbidden` show no
//! value; [`aggregate`] prints one error bare and several as `[e1, e2]`, each text once, in order of first appearance.

use std::collections::BTreeSet;
use std::fmt;

use kube_scheduler_primitives::named_enum;
use serde::Serialize;

use super::quote::{json_text, quoted};

/// Where in an object a value stands: `profiles[0].plugins.score.enabled[2]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(String);

impl FieldPath {
    /// The object itself. Prints as `<nil>`; its children start the path.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// A path that starts at the named field.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The field `name` below this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}.{name}", self.0)) }
    }

    /// The element at position `index` of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The entry of this map under `key`, printed without quotes.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The path as text, empty for [`FieldPath::root`].
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

named_enum! {
    /// What sort of complaint a [`FieldError`] is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum ErrorKind {
        /// The value is missing.
        Required = "Required value",
        /// The value appears more than once where it must be unique.
        Duplicate = "Duplicate value",
        /// The value breaks a rule.
        Invalid = "Invalid value",
        /// The value is not one of a closed list.
        Unsupported = "Unsupported value",
        /// The field must not be set here.
        Forbidden = "Forbidden",
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The offending value as it is shown: strings quoted, numbers and bools plain, everything else as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BadValue(String);

impl BadValue {
    /// A value with no plain form: shown as JSON.
    #[must_use]
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Self {
        Self(json_text(value))
    }

    /// The absent value, shown as `null`.
    #[must_use]
    pub fn null() -> Self {
        Self("null".to_owned())
    }

    /// A value whose shown form the caller knows.
    #[must_use]
    pub fn verbatim(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for BadValue {
    fn from(value: &str) -> Self {
        Self(quoted(value))
    }
}

impl From<&String> for BadValue {
    fn from(value: &String) -> Self {
        Self(quoted(value))
    }
}

impl From<i32> for BadValue {
    fn from(value: i32) -> Self {
        Self(value.to_string())
    }
}

impl From<i64> for BadValue {
    fn from(value: i64) -> Self {
        Self(value.to_string())
    }
}

impl From<usize> for BadValue {
    fn from(value: usize) -> Self {
        Self(value.to_string())
    }
}

impl From<bool> for BadValue {
    fn from(value: bool) -> Self {
        Self(value.to_string())
    }
}

/// One field of a configuration or object that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldError {
    /// The path of the field that is wrong.
    pub path: FieldPath,
    /// The sort of error, such as that a value is missing.
    pub kind: ErrorKind,
    /// The value found; not shown for `Required` and `Forbidden`.
    pub value: BadValue,
    /// What is allowed, or what is wrong; may be empty.
    pub detail: String,
}

impl FieldError {
    /// The error for a value that is missing.
    #[must_use]
    pub fn required(path: FieldPath, detail: impl Into<String>) -> Self {
        Self {
            path,
            kind: ErrorKind::Required,
            value: BadValue::verbatim("\"\""),
            detail: detail.into(),
        }
    }

    /// The error for a value that appears a second time.
    #[must_use]
    pub fn duplicate(path: FieldPath, value: impl Into<BadValue>) -> Self {
        Self { path, kind: ErrorKind::Duplicate, value: value.into(), detail: String::new() }
    }

    /// The error for a value that breaks a rule.
    #[must_use]
    pub fn invalid(path: FieldPath, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self { path, kind: ErrorKind::Invalid, value: value.into(), detail: detail.into() }
    }

    /// A value is not one of `supported`, which are listed in the order given.
    #[must_use]
    pub fn unsupported(
        path: FieldPath,
        value: impl Into<BadValue>,
        supported: &[impl AsRef<str>],
    ) -> Self {
        let listed: Vec<String> = supported.iter().map(|value| quoted(value.as_ref())).collect();
        let detail = if listed.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", listed.join(", "))
        };
        Self { path, kind: ErrorKind::Unsupported, value: value.into(), detail }
    }

    /// A field is set that must not be.
    #[must_use]
    pub fn forbidden(path: FieldPath, detail: impl Into<String>) -> Self {
        Self {
            path,
            kind: ErrorKind::Forbidden,
            value: BadValue::verbatim("\"\""),
            detail: detail.into(),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.kind)?;
        if !matches!(self.kind, ErrorKind::Required | ErrorKind::Forbidden) {
            write!(f, ": {}", self.value)?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for FieldError {}

/// Several errors as one text: nothing for none, the text itself for one, `[e1, e2]` for more; each text once.
#[must_use]
pub fn aggregate<E: fmt::Display>(errors: impl IntoIterator<Item = E>) -> String {
    let mut seen = BTreeSet::new();
    let mut texts = Vec::new();
    for error in errors {
        let text = error.to_string();
        if seen.insert(text.clone()) {
            texts.push(text);
        }
    }
    match texts.len() {
        0 => String::new(),
        1 => texts.swap_remove(0),
        _ => format!("[{}]", texts.join(", ")),
    }
}

#[cfg(test)]
mod tests;
