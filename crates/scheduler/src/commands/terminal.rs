//! What the commands look like on a terminal: they say that they are at work until the first output, and in tables headings and
//! verdicts stand out.
//!
//! Invariant: what goes to a file or another program is the same as without any of this; `NO_COLOR` takes the colours away.

use std::io::IsTerminal;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kube_scheduler_answers::Format;

use super::print;

const BOLD: &str = "\u{1b}[1m";
const RED: &str = "\u{1b}[31m";
const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[33m";
const PLAIN: &str = "\u{1b}[0m";
/// How often it is shown that there is work.
const TICK: Duration = Duration::from_millis(120);

/// On standard error, of which there is one.
static AT_WORK: LazyLock<ProgressBar> = LazyLock::new(|| {
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(None, target);
    bar.set_style(ProgressStyle::default_spinner());
    bar.set_message("waiting for the answer");
    bar
});

/// Shows from now on that the command is at work, if somebody is there to see it.
pub(crate) fn begin_work() {
    if !AT_WORK.is_hidden() {
        AT_WORK.enable_steady_tick(TICK);
    }
}

/// Makes room for output.
pub(crate) fn end_work() {
    AT_WORK.finish_and_clear();
}

/// Prints an answer in its format.
pub(super) fn print_answer(text: &str, format: Format) -> Result<()> {
    end_work();
    let is_table = matches!(format, Format::Table | Format::Wide);
    let wants_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    match is_table && wants_colours && std::io::stdout().is_terminal() {
        true => print(&highlighted(text)),
        false => print(text),
    }
}

/// A table whose headings, verdicts and notes stand out.
fn highlighted(table: &str) -> String {
    let lines = table.split_inclusive('\n').map(|line| {
        let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
        let is_heading = text.starts_with(|first: char| first.is_ascii_uppercase())
            && !text.contains(|c: char| c.is_ascii_lowercase());
        if is_heading {
            return format!("{BOLD}{text}{PLAIN}{end}");
        }
        if text.starts_with("note: ") || text.starts_with("warning: ") {
            return format!("{YELLOW}{text}{PLAIN}{end}");
        }
        match verdict(text) {
            Some((before, verdict, after)) => {
                let colour = match verdict {
                    "fits" if after.contains(" evicted") && before.ends_with(": ") => YELLOW,
                    "fits" => GREEN,
                    "gated" => YELLOW,
                    _ => RED,
                };
                format!("{before}{colour}{verdict}{PLAIN}{after}{end}")
            }
            None => line.to_owned(),
        }
    });
    lines.collect()
}

/// What stands before the verdict of a line, the verdict, and what comes after it.
fn verdict(line: &str) -> Option<(&str, &str, &str)> {
    let at = match line.split_once(": ") {
        // About a pod.
        Some((pod, _)) if pod.contains('/') && !pod.contains(' ') => pod.len() + 2,
        _ => 0,
    };
    let (before, rest) = line.split_at_checked(at)?;
    let verdicts = ["does not fit", "fits", "gated"].into_iter();
    let verdict =
        verdicts.filter(|one| at > 0 || *one != "gated").find(|one| rest.starts_with(one))?;
    let after = rest.get(verdict.len()..)?;
    // `fits` alone would stand in the names of columns and pods, too.
    after.starts_with([' ', ':', ',']).then_some((before, verdict, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_verdicts_and_notes_stand_out_and_nothing_else() {
        for (line, expected) in [
            (
                "default/p: does not fit (0 of 4 nodes)\n",
                "default/p: \u{1b}[31mdoes not fit\u{1b}[0m (0 of 4 nodes)\n",
            ),
            (
                "default/p: fits, on a (1 of 4)\n",
                "default/p: \u{1b}[32mfits\u{1b}[0m, on a (1 of 4)\n",
            ),
            (
                "d/p: fits on a once 1 pod is evicted",
                "d/p: \u{1b}[33mfits\u{1b}[0m on a once 1 pod is evicted",
            ),
            (
                "fits: 1 of 1 pod placed, 1 pod evicted\n",
                "\u{1b}[32mfits\u{1b}[0m: 1 of 1 pod placed, 1 pod evicted\n",
            ),
            (
                "d/p: gated by X, and otherwise fits, on a\n",
                "d/p: \u{1b}[33mgated\u{1b}[0m by X, and otherwise fits, on a\n",
            ),
            ("does not fit: 0 of 1\n", "\u{1b}[31mdoes not fit\u{1b}[0m: 0 of 1\n"),
            ("REJECTED   NODES   BY\n", "\u{1b}[1mREJECTED   NODES   BY\u{1b}[0m\n"),
            ("note: x\n", "\u{1b}[33mnote: x\u{1b}[0m\n"),
        ] {
            assert_eq!(highlighted(line), expected);
        }
        let plain = "\n  stage: Active\nfits-1   2\ndefault/fits   a\n2   worker-1   X   Y\n  0/4 nodes: fits\n";
        assert_eq!(highlighted(plain), plain);
    }
}
