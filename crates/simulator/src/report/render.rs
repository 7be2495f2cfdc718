//! A report as text.

use std::str::FromStr;

use super::{Report, table};

/// The form of a printed report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Columns for people: placements, obstacles, a summary.
    #[default]
    Table,
    /// The same with every pending pod and every node.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "table" => Ok(Self::Table),
            "wide" => Ok(Self::Wide),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            _ => Err(format!("unknown output format {text:?}: expected table, wide, json or yaml")),
        }
    }
}

/// What to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenderOptions {
    /// The form.
    pub format: Format,
    /// In tables: a line for every pending pod, not for every obstacle.
    pub shows_pending: bool,
}

/// A report that cannot be printed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// As JSON.
    #[error("the report does not go into JSON: {0}")]
    Json(serde_json::Error),
    /// As YAML.
    #[error("the report does not go into YAML: {0}")]
    Yaml(String),
}

/// Prints a report. The text ends with a line break.
///
/// # Errors
/// If the report cannot be expressed in the form; none is known that cannot.
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
