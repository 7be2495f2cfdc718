//! The streams of a log: standard error, or by severity two streams, of which the one for info may be buffered.
//!
//! Invariants: a line is written as a whole, with one call; a line on standard error is written after all earlier info
//! lines; lines that cannot be written are dropped.

use std::io::{self, BufWriter, Stderr, Stdout, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_scheduler_api_types::lock;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// The largest buffer in bytes, as in the reference.
const MAX_BUFFER: i64 = 2 * 1024 * 1024 * 1024;

/// What goes to standard error when streams are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Routing {
    /// Errors and warnings.
    WarningsApart,
    /// Errors only.
    ErrorsApart,
}

/// The streams of a log.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    /// The stream for info, if it is not standard error.
    info: Option<(Routing, Arc<Mutex<InfoStream>>)>,
}

/// Standard output, with or without a buffer.
#[derive(Debug)]
pub(super) enum InfoStream {
    Direct(Stdout),
    Buffered(BufWriter<Stdout>),
}

impl Streams {
    /// Everything to standard error.
    pub(super) fn single() -> Self {
        Self { info: None }
    }

    /// Info to standard output, through a buffer of `buffer_size` bytes.
    pub(super) fn split(routing: Routing, buffer_size: i64) -> Self {
        let size = usize::try_from(buffer_size.clamp(0, MAX_BUFFER)).unwrap_or_default();
        let info = match size {
            0 => InfoStream::Direct(io::stdout()),
            size => InfoStream::Buffered(BufWriter::with_capacity(size, io::stdout())),
        };
        Self { info: Some((routing, Arc::new(Mutex::new(info)))) }
    }

    /// Writes out what is buffered.
    pub(super) fn flush(&self) {
        if let Some((_, info)) = &self.info {
            // An error means that the stream is closed, and then no one reads the lines.
            let _ = flushed(info);
        }
    }

    /// Writes out what is buffered at an interval, until the process ends.
    pub(super) fn flush_every(&self, every: Duration) {
        let streams = self.clone();
        let flusher = std::thread::Builder::new().name("log-flush".to_owned());
        let spawned = flusher.spawn(move || {
            loop {
                std::thread::sleep(every);
                streams.flush();
            }
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "Cannot flush the log regularly");
        }
    }
}

fn flushed(info: &Mutex<InfoStream>) -> io::Result<()> {
    match &mut *lock(info) {
        InfoStream::Direct(stdout) => stdout.flush(),
        InfoStream::Buffered(buffer) => buffer.flush(),
    }
}

/// The destination of one line.
pub(super) enum LineWriter {
    /// Standard error; what is buffered for standard output is written out before.
    Error(Stderr, Option<Arc<Mutex<InfoStream>>>),
    /// Standard output, or its buffer.
    Info(Arc<Mutex<InfoStream>>),
}

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.write_all(line).map(|()| line.len())
    }

    fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Self::Error(stderr, info) => {
                if let Some(info) = info {
                    let _ = flushed(info);
                }
                stderr.write_all(line)
            }
            Self::Info(info) => match &mut *lock(info) {
                InfoStream::Direct(stdout) => {
                    let mut stdout = stdout.lock();
                    stdout.write_all(line)?;
                    stdout.flush()
                }
                InfoStream::Buffered(buffer) => buffer.write_all(line),
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Streams {
    type Writer = LineWriter;

    fn make_writer(&'a self) -> LineWriter {
        LineWriter::Error(io::stderr(), self.info.as_ref().map(|(_, info)| info.clone()))
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> LineWriter {
        let is_apart = |routing: &Routing| match *metadata.level() {
            Level::ERROR => true,
            Level::WARN => *routing == Routing::WarningsApart,
            _ => false,
        };
        match &self.info {
            Some((routing, info)) if !is_apart(routing) => LineWriter::Info(info.clone()),
            _ => self.make_writer(),
        }
    }
}
