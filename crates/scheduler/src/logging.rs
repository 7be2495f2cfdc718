//! The log: klog's text form, or JSON lines, on standard error.
//!
//! Invariants: one event is one line; the text form is the one that tools for kube-scheduler logs read; what libraries
//! log appears from level 8 on, but for warnings.

use std::fmt::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use kube_scheduler_api_types::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::flags::logs::Logs;
use crate::flags::value::Verbosity;
use crate::flags::{Flags, quoted};

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// klog's text form.
    Text,
    /// JSON, an object per line.
    Json,
}

/// Starts logging. A process that logs already goes on as it does.
pub(crate) fn start(logs: &Logs) {
    let verbosity = logs.v.0;
    let level = match verbosity {
        0 | 1 => LevelFilter::INFO,
        2..=4 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let format = if logs.logging_format == "json" { Format::Json } else { Format::Text };
    start_at(format, level, verbosity >= 8);
}

/// Starts logging, but only what someone should look at, unless a `verbosity` is given.
pub(crate) fn start_quietly(verbosity: u8) {
    match verbosity {
        0 => start_at(Format::Text, LevelFilter::ERROR, false),
        louder => start(&Logs { v: Verbosity(u32::from(louder) - 1), ..Logs::default() }),
    }
}

/// Logs every flag with its value, as kube-scheduler does from verbosity 1 on.
pub(crate) fn log_flags(flags: &Flags) {
    if flags.logs.v.0 >= 1 {
        for (name, value) in flags.values() {
            tracing::info!("FLAG: --{name}={}", quoted(&value));
        }
    }
}

fn start_at(format: Format, level: LevelFilter, with_libraries: bool) {
    let others = if with_libraries { level } else { level.min(LevelFilter::WARN) };
    let targets = Targets::new().with_default(others).with_target("kube_scheduler", level);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let registry = tracing_subscriber::registry().with(targets);
    // Fails only if somebody else has started a log, which then is the right one.
    let _ = match format {
        Format::Text => registry.with(layer.event_format(Klog)).try_init(),
        Format::Json => registry.with(layer.event_format(JsonLines)).try_init(),
    };
}

/// `I0102 15:04:05.123456   12345 file.rs:12] "Message" key="value"`.
struct Klog;

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
        write!(out, "{severity}{date} {time} {:>7} {}] ", std::process::id(), caller(event))?;
        let fields = Fields::of(event);
        write!(out, "{:?}", fields.message)?;
        for (name, value) in &fields.others {
            match value {
                Value::String(text) => write!(out, " {name}={text:?}")?,
                other => write!(out, " {name}={other}")?,
            }
        }
        writeln!(out)
    }
}

/// `{"ts":…,"caller":…,"msg":…,"v":0,…}`.
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
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
        let fields = Fields::of(event);
        let mut line = Map::new();
        line.insert("ts".into(), (now().as_nanos() as f64 / 1e6).into());
        line.insert("caller".into(), caller(event).into());
        line.insert("msg".into(), fields.message.into());
        match *event.metadata().level() {
            // What upstream logs as an error has no verbosity.
            Level::ERROR => {}
            Level::WARN | Level::INFO => drop(line.insert("v".into(), 0.into())),
            Level::DEBUG => drop(line.insert("v".into(), 2.into())),
            Level::TRACE => drop(line.insert("v".into(), 5.into())),
        }
        for (name, value) in fields.others {
            line.insert(name.to_owned(), value);
        }
        writeln!(out, "{}", Value::Object(line))
    }
}

fn now() -> Timestamp {
    Timestamp::EPOCH + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// `MMDD` and `hh:mm:ss.uuuuuu`, in UTC.
fn date_and_time(at: Timestamp) -> (String, String) {
    let text = at.floor_to_second().to_string();
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    let micros = at.as_nanos().rem_euclid(1_000_000_000) / 1_000;
    (format!("{}{}", part(5..7), part(8..10)), format!("{}.{micros:06}", part(11..19)))
}

fn caller(event: &Event<'_>) -> String {
    let metadata = event.metadata();
    let file = metadata.file().unwrap_or_else(|| metadata.target());
    let file = file.rsplit('/').next().unwrap_or(file);
    format!("{file}:{}", metadata.line().unwrap_or(0))
}

/// The parts of an event; an error comes first among the keys, as klog has it.
#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, Value)>,
}

impl Fields {
    fn of(event: &Event<'_>) -> Self {
        let mut fields = Self::default();
        event.record(&mut fields);
        fields.others.sort_by_key(|(name, _)| *name != "err");
        fields
    }

    fn add(&mut self, field: &Field, value: Value) {
        match field.name() {
            "message" => {
                self.message = value.as_str().map_or_else(|| value.to_string(), str::to_owned)
            }
            "error" => self.others.push(("err", value)),
            name => self.others.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write!(text, "{value:?}");
        self.add(field, text.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(
        format: impl FormatEvent<
            tracing_subscriber::Registry,
            tracing_subscriber::fmt::format::DefaultFields,
        > + Send
        + Sync
        + 'static,
    ) -> String {
        let page = Page::default();
        let writer = page.clone();
        let layer =
            tracing_subscriber::fmt::layer().with_writer(move || writer.clone()).with_ansi(false);
        let subscriber = tracing_subscriber::registry().with(layer.event_format(format));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(pod = "x/p", n = 3, error = "no \"room\"", "Failed to bind pod");
        });
        String::from_utf8(page.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn text_is_klogs() {
        let line = logged(Klog);
        assert!(line.starts_with('W'), "{line}");
        let (head, rest) = line.split_once("] ").unwrap();
        assert_eq!(head.split_whitespace().count(), 4, "{head}");
        assert_eq!(rest, "\"Failed to bind pod\" err=\"no \\\"room\\\"\" pod=\"x/p\" n=3\n");
    }

    #[test]
    fn json_is_one_object_per_line() {
        let line: Value = serde_json::from_str(&logged(JsonLines)).unwrap();
        assert_eq!(
            (&line["msg"], &line["v"], &line["pod"]),
            (&"Failed to bind pod".into(), &0.into(), &"x/p".into())
        );
        assert!(line["ts"].as_f64().unwrap() > 1e12);
    }

    #[test]
    fn times_are_utc_with_microseconds() {
        let at = Timestamp::parse("2026-11-21T10:00:00.25Z").unwrap();
        assert_eq!(date_and_time(at), ("1121".to_owned(), "10:00:00.250000".to_owned()));
    }
}
