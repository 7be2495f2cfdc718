//! A report as text.

use kube_scheduler_answers::{Format, RenderError};

use super::data::Report;
use super::table;

/// How to print a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenderOptions {
    /// The form. A wide table has a line per pending pod and per node.
    pub format: Format,
    /// In tables: a line per pending pod instead of a line per reason.
    pub shows_pending: bool,
}

/// Prints a report. The text ends with a line break.
///
/// # Errors
/// If the report cannot be serialised in the format; no such report is known.
pub fn render(report: &Report, options: RenderOptions) -> Result<String, RenderError> {
    kube_scheduler_answers::render(report, options.format, |wide| {
        table::render(report, wide || options.shows_pending, wide)
    })
}
