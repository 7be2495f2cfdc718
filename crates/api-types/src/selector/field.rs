//! Field selectors in their textual form: `spec.nodeName=,metadata.name!=a`.

use std::sync::Arc;

use super::error::SelectorError;
use crate::validation::quoted;

/// One comparison of a field selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldComparison {
    /// Path of the field, such as `spec.nodeName`.
    pub field: Arc<str>,
    /// The value that the field is compared with.
    pub value: Arc<str>,
    /// Whether the field must equal the value; else it must differ.
    pub is_equal: bool,
}

/// A conjunction of comparisons of fields with values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    comparisons: Vec<FieldComparison>,
}

impl FieldSelector {
    /// Reads `a=b,c==d,e!=f`. `\\`, `\,` and `\=` in values stand for the character itself. The empty text selects
    /// everything.
    ///
    /// # Errors
    /// [`SelectorError::Syntax`] if a part is not a comparison.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut comparisons = Vec::new();
        for part in split_unescaped(text).filter(|part| !part.is_empty()) {
            let at = part.find(['=', '!']).ok_or_else(|| invalid(part))?;
            let (field, rest) = part.split_at(at);
            let (is_equal, value) = if let Some(value) = rest.strip_prefix("!=") {
                (false, value)
            } else if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
                (true, value)
            } else {
                return Err(invalid(part));
            };
            if field.is_empty() {
                return Err(invalid(part));
            }
            comparisons.push(FieldComparison {
                field: field.into(),
                value: unescape(value)?.into(),
                is_equal,
            });
        }
        Ok(Self { comparisons })
    }

    /// Whether the fields that `value_of` yields fulfil every comparison; an absent field reads as empty.
    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.comparisons.iter().all(|comparison| {
            let value = value_of(&comparison.field).unwrap_or_default();
            (*comparison.value == *value) == comparison.is_equal
        })
    }

    /// The comparisons, in the order of the text.
    pub fn comparisons(&self) -> &[FieldComparison] {
        &self.comparisons
    }

    /// Whether there are no comparisons, so that everything matches.
    pub fn is_empty(&self) -> bool {
        self.comparisons.is_empty()
    }
}

fn invalid(part: &str) -> SelectorError {
    SelectorError::Syntax(format!(
        "invalid field selector {}, expected field=value or field!=value",
        quoted(part)
    ))
}

fn split_unescaped(text: &str) -> impl Iterator<Item = &str> {
    let mut is_escaped = false;
    text.split(move |c| {
        let splits = c == ',' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        splits
    })
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                _ => return Err(invalid(value)),
            },
            ',' | '=' => return Err(invalid(value)),
            _ => out.push(c),
        }
    }
    Ok(out)
}
