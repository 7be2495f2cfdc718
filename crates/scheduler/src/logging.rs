//! The log: klog's text form, or JSON lines, on standard error unless the streams are split.
//!
//! Verbosity is klog's: a number, higher means more, that can change while the program runs. The verbosity of an event is
//! fixed at the place in the code that logs it, so that a disabled event costs one atomic load:
//!
//! - target `"V3"` is verbosity 3, whatever the level: `tracing::debug!(target: "V3", %pod, "Attempting to bind pod")`.
//!   `"V1f"` is verbosity 1 and says that the message is printed as it is, not in quotes, as klog's `Infof` does.
//!   Only such a message may have several lines.
//! - Else errors and warnings always show; info is 0, debug is 2 and trace is 5.
//! - Events of libraries for connections are 2 for errors and warnings, 4 for info, 8 for debug and 11 for trace.
//!
//! `tracing::enabled!(target: "V10", tracing::Level::TRACE)` says whether such an event is enabled, for events that are
//! costly to prepare. Keys are klog's: camel case, an error is `error` or `err`, and comes first in events
//! that are errors. `--vmodule` patterns are matched against the names of source files without `.rs`.
//!
//! Invariants: an event is written at once or not at all, so that lines of different threads do not mix; no value can
//! start a line at the left edge, or add a control character to the log; logging never fails the caller.

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

/// The log of this process.
static CURRENT: OnceLock<(Arc<Verbosities>, Streams)> = OnceLock::new();

/// Starts logging. Has no effect in a process that logs already.
pub(crate) fn start(logs: &Logs) {
    let loudest = i32::try_from(logs.v.0).unwrap_or(i32::MAX);
    start_at(logs, Verbosities::new(loudest, logs.vmodule.clone()));
}

/// Starts logging of errors only, or with a `verbosity` above 0 of more.
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
    // Fails only if the process has started a log otherwise, which then stays in place.
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

/// Writes out what is buffered.
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

/// The source file that logs an event, with the last `n_folders` of its folders, and the line.
fn caller(event: &Event<'_>, n_folders: usize) -> String {
    let metadata = event.metadata();
    let path = metadata.file().unwrap_or_else(|| metadata.target());
    let start = path.rmatch_indices(['/', '\\']).nth(n_folders).map_or(0, |(slash, _)| slash + 1);
    format!("{}:{}", &path[start..], metadata.line().unwrap_or(0))
}

#[cfg(test)]
mod tests;
