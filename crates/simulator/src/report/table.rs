//! A report in columns, as kubectl prints them: the details first, so that the summary is the last thing on a terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::data::{NodeVerdict, PendingReason, PodExplanation, Report};
use super::devices::{DeviceCounts, DeviceReport};

/// Blanks between columns.
const GAP: usize = 3;

/// Rows of cells; the first row is the head.
struct Columns(Vec<Vec<String>>);

impl Columns {
    fn new(head: &[&str]) -> Self {
        Self(vec![head.iter().map(ToString::to_string).collect()])
    }

    fn push(&mut self, row: Vec<String>) {
        self.0.push(row);
    }

    /// Prints all rows, or nothing if there is only a head.
    fn print(&self, out: &mut String) {
        if self.0.len() < 2 {
            return;
        }
        let n_columns = self.0.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.0.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..n_columns).map(width).collect();
        for row in &self.0 {
            // Padded by hand: a width in a format string may not exceed 65,535, and texts of plugins have no limit. Blanks
            // are written only when another text follows, so that a long text in one row costs nothing in the others.
            let mut blanks = 0;
            for (cell, width) in row.iter().zip(&widths) {
                let cell = cell.trim_end();
                if !cell.is_empty() {
                    out.extend(std::iter::repeat_n(' ', blanks));
                    out.push_str(cell);
                    blanks = 0;
                }
                blanks += width + GAP - cell.chars().count().min(*width);
            }
            out.push('\n');
        }
        out.push('\n');
    }
}

/// The whole report.
pub(super) fn render(report: &Report, shows_pending: bool, shows_nodes: bool) -> String {
    let mut out = String::new();
    placements(report, &mut out);
    preempted(report, &mut out);
    if shows_pending {
        pending(report, &mut out);
    } else {
        obstacles(report, &mut out);
    }
    if shows_nodes {
        nodes(report, &mut out);
    }
    if let Some(found) = &report.devices {
        devices(found, shows_nodes, &mut out);
    }
    for explanation in &report.explanations {
        explain(explanation, &mut out);
    }
    summary(report, &mut out);
    out
}

/// `namespace/name` as two cells.
fn name_cells(key: &str) -> [String; 2] {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    [namespace.to_owned(), name.to_owned()]
}

fn placements(report: &Report, out: &mut String) {
    let mut columns = Columns::new(&["NAMESPACE", "NAME", "NODE"]);
    for placement in &report.placements {
        let [namespace, name] = name_cells(&placement.pod);
        columns.push(vec![namespace, name, placement.node.clone()]);
    }
    columns.print(out);
}

fn preempted(report: &Report, out: &mut String) {
    let mut columns = Columns::new(&["NAMESPACE", "PREEMPTED", "NODE", "BY"]);
    for preempted in &report.preempted {
        let [namespace, name] = name_cells(&preempted.pod);
        let by = preempted.by.clone().unwrap_or_default();
        columns.push(vec![namespace, name, preempted.node.clone(), by]);
    }
    columns.print(out);
}

fn pending(report: &Report, out: &mut String) {
    let mut columns = Columns::new(&["NAMESPACE", "PENDING", "REASON", "MESSAGE"]);
    for pending in &report.pending {
        let [namespace, name] = name_cells(&pending.pod);
        columns.push(vec![namespace, name, pending.reason.to_string(), pending.message.clone()]);
    }
    columns.print(out);
}

/// Pending pods by reason and message, the most frequent first.
fn obstacles(report: &Report, out: &mut String) {
    let mut counts: BTreeMap<(PendingReason, &str), usize> = BTreeMap::new();
    for pending in &report.pending {
        *counts.entry((pending.reason, &pending.message)).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let mut columns = Columns::new(&["PENDING", "REASON", "MESSAGE"]);
    for ((reason, message), n) in counts {
        columns.push(vec![n.to_string(), reason.to_string(), message.to_owned()]);
    }
    columns.print(out);
}

fn nodes(report: &Report, out: &mut String) {
    let mut head = vec!["NODE", "PODS"];
    let resources: Vec<&str> =
        report.utilisation.keys().map(String::as_str).filter(|name| *name != "pods").collect();
    head.extend(&resources);
    let upper: Vec<String> = head.iter().map(|name| name.to_uppercase()).collect();
    let mut columns = Columns(vec![upper]);
    for usage in &report.node_usage {
        let mut row = vec![usage.node.clone(), usage.pods.to_string()];
        row.extend(resources.iter().map(|name| {
            usage
                .utilisation
                .get(*name)
                .map_or_else(|| "-".to_owned(), |fraction| percent(*fraction))
        }));
        columns.push(row);
    }
    columns.print(out);
}

fn devices(report: &DeviceReport, shows_nodes: bool, out: &mut String) {
    let cells = |counts: &DeviceCounts| {
        [counts.devices, counts.used, counts.blocked, counts.free].map(|n| n.to_string())
    };
    if shows_nodes {
        let head = ["NODE", "POOL", "DRIVER", "DEVICES", "USED", "BLOCKED", "FREE"];
        let mut columns = Columns::new(&head);
        for pool in &report.pools {
            let node = pool.node.clone().unwrap_or_else(|| "-".to_owned());
            let mut row = vec![node, pool.pool.clone(), pool.driver.clone()];
            row.extend(cells(&pool.counts));
            columns.push(row);
        }
        columns.print(out);
    }
    let mut columns = Columns::new(&["CLASS", "ALLOCATED"]);
    for class in &report.classes {
        columns.push(vec![class.class.clone(), class.allocated.to_string()]);
    }
    columns.print(out);
    let head = ["DRIVER", "DEVICES", "USED", "BLOCKED", "FREE", "FRAGMENTATION"];
    let mut columns = Columns::new(&head);
    for driver in &report.drivers {
        let mut row = vec![driver.driver.clone()];
        row.extend(cells(&driver.counts));
        row.push(percent(driver.fragmentation));
        columns.push(row);
    }
    columns.print(out);
}

fn percent(fraction: f64) -> String {
    format!("{:.1}%", fraction * 100.0)
}

fn explain(explanation: &PodExplanation, out: &mut String) {
    let _ = write!(out, "{}: {}", explanation.pod, explanation.outcome);
    if let Some(node) = &explanation.node {
        let _ = write!(out, " on {node}");
    }
    if explanation.attempts > 0 {
        let n_feasible = explanation.nodes.iter().filter(|node| node.feasible).count();
        let _ = write!(
            out,
            " (attempt {}, {n_feasible} of {} nodes feasible)",
            explanation.attempts,
            explanation.nodes.len()
        );
    }
    out.push('\n');
    let lines = explanation.message.iter().chain(&explanation.pre_filter);
    for line in lines {
        let _ = writeln!(out, "  {line}");
    }
    for pod in &explanation.preempts {
        let _ = writeln!(out, "  preempts {pod}");
    }
    out.push('\n');
    feasible(explanation, out);
    rejections(explanation, out);
}

/// Feasible nodes with their scores; the best come first and are marked.
fn feasible(explanation: &PodExplanation, out: &mut String) {
    let mut nodes: Vec<&NodeVerdict> =
        explanation.nodes.iter().filter(|node| node.feasible).collect();
    nodes.sort_by_key(|node| std::cmp::Reverse(node.total));
    let plugins: BTreeSet<&str> =
        nodes.iter().flat_map(|node| node.scores.keys()).map(String::as_str).collect();
    let mut head = vec!["FEASIBLE", "BEST", "TOTAL"];
    head.extend(&plugins);
    let mut columns = Columns::new(&head);
    for node in nodes {
        let best = if node.best { "*" } else { "" };
        let mut row = vec![
            node.node.clone(),
            best.to_owned(),
            node.total.map_or_else(|| "-".to_owned(), |n| n.to_string()),
        ];
        row.extend(plugins.iter().map(|plugin| {
            node.scores.get(*plugin).map_or_else(|| "-".to_owned(), ToString::to_string)
        }));
        columns.push(row);
    }
    columns.print(out);
}

fn rejections(explanation: &PodExplanation, out: &mut String) {
    let mut columns = Columns::new(&["REJECTED", "BY", "VERDICT", "REASONS"]);
    for node in explanation.nodes.iter().filter(|node| !node.feasible) {
        columns.push(vec![
            node.node.clone(),
            node.plugin.clone().unwrap_or_default(),
            node.verdict.clone(),
            node.reasons.join(", "),
        ]);
    }
    columns.print(out);
}

fn summary(report: &Report, out: &mut String) {
    let pods = &report.pods;
    let always = [
        ("total", pods.total),
        ("scheduled", pods.scheduled),
        ("unschedulable", pods.unschedulable),
        ("gated", pods.gated),
    ];
    let rare = [
        ("already running", pods.already_running),
        ("preempted", pods.preempted),
        ("skipped", pods.skipped),
        ("finished", pods.finished),
    ];
    let shown = always.into_iter().chain(rare.into_iter().filter(|(_, n)| *n > 0));
    let counts: Vec<String> = shown.map(|(name, n)| format!("{n} {name}")).collect();
    let _ = writeln!(out, "pods:         {}", counts.join(", "));
    let _ = writeln!(out, "nodes:        {} of {} used", report.nodes.used, report.nodes.total);
    let shares: Vec<String> = report
        .utilisation
        .iter()
        .map(|(name, fraction)| format!("{name} {}", percent(*fraction)))
        .collect();
    let _ = writeln!(out, "utilisation:  {}", shares.join(", "));
    let _ = match report.decisions_per_second {
        Some(speed) => writeln!(out, "decisions:    {} ({speed:.0} per second)", report.decisions),
        None => writeln!(out, "decisions:    {}", report.decisions),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(rows: &[&[&str]]) -> String {
        let mut columns = Columns(Vec::new());
        for row in rows {
            columns.push(row.iter().map(ToString::to_string).collect());
        }
        let mut out = String::new();
        columns.print(&mut out);
        out
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows: [&[&str]; 3] = [&["A", "BB", "C"], &["aaa", "", "c"], &["ä", "b", ""]];
        assert_eq!(printed(&rows), "A     BB   C\naaa        c\nä     b\n\n");
    }

    #[test]
    fn texts_longer_than_a_format_width_are_printed() {
        let long = "x".repeat(70_000);
        let rows: [&[&str]; 3] = [&["A", "B"], &[&long, "b"], &["a", &long]];
        let text = printed(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], format!("{long}   b"));
        assert_eq!(lines[2], format!("a{}{long}", " ".repeat(70_002)));
    }
}
