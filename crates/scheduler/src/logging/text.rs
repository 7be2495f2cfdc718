//! klog's text form: `I0102 15:04:05.123456   12345 source:12] "Message" key="value"`.
//!
//! Invariants: the header is klog's, with times in UTC; messages and one-line texts are in quotes as Go writes them; a
//! text of several lines stands between `<` and ` >` with a tab before each line.

use std::fmt;

use kube_scheduler_api_types::Timestamp;
use serde_json::Value;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::fields::Fields;
use super::{caller, now, verbosity};
use crate::flags::quoted;

/// The format.
pub(super) struct Klog;

impl<S, N> FormatEvent<S, N> for Klog
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let severity = match *event.metadata().level() {
            Level::ERROR => 'E',
            Level::WARN => 'W',
            _ => 'I',
        };
        let (date, time) = date_and_time(now());
        write!(out, "{severity}{date} {time} {:>7} {}] ", std::process::id(), caller(event, 0))?;
        let fields = Fields::of(event);
        if verbosity::is_plain(event.metadata()) {
            let lines = fields.message.lines().map(without_controls);
            out.write_str(&lines.collect::<Vec<_>>().join("\n"))?;
        } else {
            out.write_str(&quoted(&fields.message))?;
        }
        for (name, value) in &fields.others {
            write!(out, " {name}=")?;
            match value {
                Value::String(text) if text.contains('\n') => {
                    out.write_str("<\n")?;
                    for line in text.lines() {
                        writeln!(out, "\t{}", without_controls(line))?;
                    }
                    out.write_str(" >")?;
                }
                Value::String(text) => out.write_str(&quoted(text))?,
                other => write!(out, "{other}")?,
            }
        }
        writeln!(out)
    }
}

fn without_controls(line: &str) -> String {
    line.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// `MMDD` and `hh:mm:ss.uuuuuu`, in UTC.
pub(super) fn date_and_time(at: Timestamp) -> (String, String) {
    let text = at.floor_to_second().to_string();
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    let micros = at.as_nanos().rem_euclid(1_000_000_000) / 1_000;
    (format!("{}{}", part(5..7), part(8..10)), format!("{}.{micros:06}", part(11..19)))
}
