//! Shows the progress of the demo: a bar on terminals, else a line every few seconds.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const LINE_EVERY: Duration = Duration::from_secs(2);

/// The demo's progress, on standard error.
pub(super) struct Screen {
    bar: ProgressBar,
    n_pods: usize,
    n_shown: usize,
    lines: Option<Instant>,
}

impl Screen {
    pub(super) fn new(n_pods: usize) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let target =
            if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(n_pods as u64), target);
        if let Ok(style) = ProgressStyle::with_template(
            "{msg:>10} [{bar:40}] {pos}/{len} pods bound, {per_sec}, {elapsed}",
        ) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar, n_pods, n_shown: 0, lines: (!is_terminal).then(Instant::now) }
    }

    /// Prints that a new part of the demo starts.
    pub(super) fn step(&self, text: &str) {
        if self.lines.is_some() {
            eprintln!("demo: {text}");
        } else {
            self.bar.println(format!("demo: {text}"));
        }
    }

    /// Shows how many pods are bound.
    pub(super) fn show(&mut self, n_bound: usize) {
        self.bar.set_message("scheduling");
        self.bar.set_position(n_bound as u64);
        if let Some(last) = &mut self.lines
            && n_bound != self.n_shown
            && (last.elapsed() >= LINE_EVERY || n_bound == self.n_pods)
        {
            self.n_shown = n_bound;
            *last = Instant::now();
            eprintln!("demo: {n_bound} of {} pods bound", self.n_pods);
        }
    }

    /// Removes the bar.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
