//! A report as text.

use std::str::FromStr;

use super::data::Report;
use super::table;

/// The form of a printed report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Columns for people: placements, pending pods by reason, a summary.
    #[default]
    Table,
    /// As [`Format::Table`], with a line per pending pod and per node.
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

/// How to print a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenderOptions {
    /// The form.
    pub format: Format,
    /// In tables: a line per pending pod instead of a line per reason.
    pub shows_pending: bool,
}

/// A report that cannot be printed.
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

/// Prints a report. The text ends with a line break.
///
/// # Errors
/// If the report cannot be serialised in the format; no such report is known.
pub fn render(report: &Report, options: RenderOptions) -> Result<String, RenderError> {
    match options.format {
        Format::Table => Ok(table::render(report, options.shows_pending, false)),
        Format::Wide => Ok(table::render(report, true, true)),
        Format::Json => {
            let mut text = serde_json::to_string_pretty(report).map_err(RenderError::Json)?;
            text.push('\n');
            Ok(text)
        }
        Format::Yaml => {
            serde_saphyr::to_string(report).map_err(|error| RenderError::Yaml(error.to_string()))
        }
    }
}
