//! The log: klog's text form, or JSON lines, on standard error unless the streams are split.
//!
//! Verbosity is klog's: a number, higher is louder, that can change while the program runs. Of an event it is known from
//! what is fixed where the event is written, so that a line that is off costs one atomic load:
//!
//! - target `"V3"` is verbosity 3, whatever the level: `tracing::debug!(target: "V3", %pod, "Attempting to bind pod")`.
//!   `"V1f"` is verbosity 1 and says that the message is printed as it is, not in quotes, as klog's `Infof` does.
//!   Only such a message may have several lines.
//! - Else errors and warnings always show; info is 0, debug is 2 and trace is 5.
//! - What libraries for connections log is 2 for errors and warnings, 4 for info, 8 for debug and 11 for trace.
//!
//! `tracing::enabled!(target: "V10", tracing::Level::TRACE)` tells whether it is worth to prepare such a line. Keys are
//! klog's: camel case, an error is `error` or `err` and comes first. Text matches `--vmodule` patterns against the names
//! of source files without `.rs`.
//!
//! Invariants: an event is written at once or not at all, so that lines of different threads do not mix; no value can
//! begin a line of its own at the left edge, or bring a control character into the log; what is logged never fails the
//! one who logs it.

mod fields;
mod json;
mod streams;
mod text;
mod verbosity;

use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_daemon::VerbosityError;
use tracing::Event;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use self::json::JsonLines;
use self::streams::{Routing, Streams};
use self::text::Klog;
use self::verbosity::{Filter, Verbosities};
use crate::flags::logs::Logs;
use crate::flags::value::Verbosity;
use crate::flags::{Flags, quoted};

/// What this process logs with.
static CURRENT: OnceLock<(Arc<Verbosities>, Streams)> = OnceLock::new();

/// Starts logging. A process that logs already goes on as it does.
pub(crate) fn start(logs: &Logs) {
    let loudest = i32::try_from(logs.v.0).unwrap_or(i32::MAX);
    start_at(logs, Verbosities::new(loudest, logs.vmodule.clone()));
}

/// Starts logging, but only what someone should look at, unless a `verbosity` is given.
pub(crate) fn start_quietly(verbosity: u8) {
    match verbosity {
        0 => start_at(&Logs::default(), Verbosities::only_errors()),
        louder => {
            start(&Logs { v: Verbosity(u32::from(louder) - 1), ..Logs::default() });
        }
    }
}

fn start_at(logs: &Logs, verbosities: Verbosities) {
    let is_json = logs.logging_format == "json";
    let (is_split, buffer) = if is_json {
        (logs.log_json_split_stream, &logs.log_json_info_buffer_size)
    } else {
        (logs.log_text_split_stream, &logs.log_text_info_buffer_size)
    };
    let verbosities = Arc::new(verbosities);
    let streams = if is_split {
        let routing = if is_json { Routing::ErrorsApart } else { Routing::WarningsApart };
        Streams::split(routing, buffer.value())
    } else {
        Streams::single()
    };
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(streams.clone())
        .with_ansi(false)
        .log_internal_errors(false);
    let registry = tracing_subscriber::registry().with(Filter::new(verbosities.clone()));
    let started = if is_json {
        registry.with(layer.event_format(JsonLines)).try_init()
    } else {
        registry.with(layer.event_format(Klog)).try_init()
    };
    // Fails only if somebody else has started a log, which then is the right one.
    if started.is_ok() {
        if is_split && let Some(every) = logs.log_flush_frequency.to_std() {
            streams.flush_every(every);
        }
        let _ = CURRENT.set((verbosities, streams));
    }
}

/// Changes how much is logged from now on, for the whole process.
///
/// # Errors
/// If this process does not log, or the verbosity is beyond what klog knows.
pub(crate) fn set_verbosity(verbosity: u32) -> Result<(), VerbosityError> {
    let Some((verbosities, _)) = CURRENT.get() else {
        return Err(VerbosityError("this process does not log".to_owned()));
    };
    let verbosity = i32::try_from(verbosity)
        .map_err(|_| VerbosityError(format!("verbosity {verbosity} is beyond {}", i32::MAX)))?;
    verbosities.set(verbosity);
    Ok(())
}

/// Writes out what waits in buffers.
pub(crate) fn flush() {
    if let Some((_, streams)) = CURRENT.get() {
        streams.flush();
    }
}

/// Logs every flag with its value.
pub(crate) fn log_flags(flags: &Flags) {
    if tracing::enabled!(target: "V1f", tracing::Level::DEBUG) {
        for (name, value) in flags.values() {
            tracing::debug!(target: "V1f", "FLAG: --{name}={}", quoted(&value));
        }
    }
}

fn now() -> Timestamp {
    Timestamp::EPOCH + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The file that an event is written in, with so many of its folders, and the line.
fn caller(event: &Event<'_>, n_folders: usize) -> String {
    let metadata = event.metadata();
    let path = metadata.file().unwrap_or_else(|| metadata.target());
    let start = path.rmatch_indices(['/', '\\']).nth(n_folders).map_or(0, |(slash, _)| slash + 1);
    format!("{}:{}", &path[start..], metadata.line().unwrap_or(0))
}

#[cfg(test)]
mod tests;
