//! How far something is, on standard error: a bar on a terminal, a line at the end elsewhere.

use std::io::IsTerminal;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// One stretch of work whose parts are counted.
#[derive(Clone, Debug)]
pub struct Progress {
    bar: ProgressBar,
    what: String,
    start: Instant,
    is_terminal: bool,
}

impl Progress {
    /// Begins with `n` parts of `what`, such as `pods created`.
    pub fn start(what: &str, n: usize) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let target =
            if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(n as u64), target);
        if let Ok(style) =
            ProgressStyle::with_template("[{bar:40}] {pos}/{len} {msg}, {per_sec}, {elapsed}")
        {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what.to_owned());
        Self { bar, what: what.to_owned(), start: Instant::now(), is_terminal }
    }

    /// One more part is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// This many parts are done.
    pub fn show(&self, n: usize) {
        self.bar.set_position(n as u64);
    }

    /// Nothing more is to come.
    pub fn finish(self) {
        let n = self.bar.position();
        self.bar.finish_and_clear();
        if !self.is_terminal {
            eprintln!("{n} {} in {:.1} s", self.what, self.start.elapsed().as_secs_f64());
        }
    }
}
