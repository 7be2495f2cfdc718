//! Answers and reports as text: columns for people, JSON and YAML for programs.

use std::str::FromStr;

use kube_scheduler_api_types::Timestamp;
use serde::Serialize;

/// The form of a printed answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// As [`Format::Table`], with more lines and columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// A text that is not the name of a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown output format {0:?}: expected table, wide, json or yaml")]
pub struct FormatError(String);

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        match text {
            "table" => Ok(Self::Table),
            "wide" => Ok(Self::Wide),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            _ => Err(FormatError(text.to_owned())),
        }
    }
}

/// The time of an answer; `None` for one that follows from objects without any timestamp.
pub(crate) fn as_of(now: Timestamp) -> Option<String> {
    (now != Timestamp::EPOCH).then(|| now.to_string())
}

/// A number of things, such as `1 pod` or `2 pods`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// The name of a node, or what stands for one that the reader may not see.
pub(crate) const fn a_node(name: &str) -> &str {
    if name.is_empty() { "a node" } else { name }
}

/// The name of a pod, or what stands for one that the reader may not see.
pub(crate) const fn a_pod(name: &str) -> &str {
    if name.is_empty() { "a pod" } else { name }
}

/// Something that cannot be printed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// The format was JSON.
    #[error("the report cannot be written as JSON: {0}")]
    Json(serde_json::Error),
    /// The format was YAML.
    #[error("the report cannot be written as YAML: {0}")]
    Yaml(String),
}

/// Prints a value; `table` makes its columns, wide ones if it is passed true. The text ends with a line break.
///
/// # Errors
/// If the value cannot be serialised in the format; no such answer or report is known.
pub fn render<T: Serialize>(
    value: &T,
    format: Format,
    table: impl FnOnce(bool) -> String,
) -> Result<String, RenderError> {
    match format {
        Format::Table => Ok(table(false)),
        Format::Wide => Ok(table(true)),
        Format::Json => {
            let mut text = serde_json::to_string_pretty(value).map_err(RenderError::Json)?;
            text.push('\n');
            Ok(text)
        }
        Format::Yaml => {
            serde_saphyr::to_string(value).map_err(|error| RenderError::Yaml(error.to_string()))
        }
    }
}
