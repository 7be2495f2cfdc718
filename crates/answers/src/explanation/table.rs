//! An explanation for people.

use std::fmt::Write as _;

use super::data::{Explanation, PlaceAnswer, Rejection, Verdict};
use crate::columns::Columns;
use crate::format::{a_node, a_pod, count};

/// In narrow tables: how many feasible nodes, and how many nodes with the same rejections are named.
const MAX_FEASIBLE: usize = 10;
const MAX_EXAMPLES: usize = 3;

impl Explanation {
    /// The explanation in columns; wide ones say how scores come about.
    pub fn table(&self, wide: bool) -> String {
        let mut out = format!("{}: {}\n", self.pod, self.headline());
        if let Some(place) = &self.place {
            place.write(&mut out);
        }
        if !self.waits_for.is_empty() {
            let _ = writeln!(out, "  would come back with: {}", self.waits_for.join(", "));
        }
        out.push_str(&self.details(wide));
        if let Some(group) = &self.group {
            group.write(&mut out);
        }
        out
    }

    fn headline(&self) -> String {
        let fits = self.judgement();
        match &self.gated {
            Some(gate) if self.verdict == Verdict::Gated => format!("{} {fits}", gated_by(gate)),
            _ => fits,
        }
    }

    /// Whether it fits, if nothing holds it back.
    pub(crate) fn judgement(&self) -> String {
        let Self { nodes, n_feasible, decision, .. } = self;
        let verdict = self.judged();
        if self.is_being_deleted {
            return "does not fit: it is being deleted".to_owned();
        }
        let share = match self.is_by_group {
            true => {
                format!("because of its group; {n_feasible} of {nodes} nodes feasible for it alone")
            }
            false => format!("{n_feasible} of {nodes} nodes feasible"),
        };
        match (verdict, decision) {
            (Verdict::Fits, Some(decision)) => {
                format!("fits, on {} ({share})", a_node(&decision.node))
            }
            (Verdict::Fits, None) => format!("fits ({share})"),
            (Verdict::FitsAfterPreemption, _) => {
                format!("fits once pods are evicted for it ({share})")
            }
            (Verdict::DoesNotFit, _) => format!("does not fit ({share})"),
            (Verdict::Error, _) => "cannot be scheduled because of an error".to_owned(),
            (Verdict::Bound, _) => "has its node".to_owned(),
            (Verdict::Gated, _) => "is held back".to_owned(),
        }
    }

    /// The text of the answer without its headline and without where the pod is. `wide` adds lines and columns.
    pub fn details(&self, wide: bool) -> String {
        let mut out = String::new();
        for warning in &self.warnings {
            let _ = writeln!(out, "  note: {warning}");
        }
        if let Some(gate) = &self.gated {
            let _ = writeln!(out, "  held back by {}", with_plugin(gate));
        }
        if let Some(message) = &self.message {
            let _ = writeln!(out, "  {message}");
        }
        for rejection in self.pod_rejections.iter().chain(&self.error) {
            let _ = writeln!(out, "  {}", with_plugin(rejection));
        }
        if let Some(preemption) = self.preemption.as_ref().filter(|preemption| preemption.helps) {
            let node = a_node(preemption.node.as_deref().unwrap_or_default());
            let victims = names(&preemption.victims);
            let _ = writeln!(out, "  preemption on {node} would evict: {victims}");
        }
        if let Some(decision) = &self.decision {
            let why = match (decision.by_nomination, decision.margin, decision.ties) {
                (true, ..) => "the pod is nominated to it".to_owned(),
                (false, _, 2..) => format!("one of {} equally good nodes", decision.ties),
                (false, Some(margin), _) => format!("{margin} ahead of the next"),
                (false, None, _) => "the only one".to_owned(),
            };
            let _ = writeln!(out, "  chosen: {}, {why}", a_node(&decision.node));
        }
        out.push('\n');
        self.write_feasible(wide, &mut out);
        self.write_rejected(wide, &mut out);
        self.write_shortages(&mut out);
        self.write_suggestions(&mut out);
        out
    }

    /// Feasible nodes with their scores; the best are marked.
    fn write_feasible(&self, wide: bool, out: &mut String) {
        let mut plugins: Vec<&str> =
            self.feasible.iter().flat_map(|node| &node.scores).map(|s| &*s.plugin).collect();
        plugins.sort_unstable();
        plugins.dedup();
        let mut head = vec!["FEASIBLE", "BEST", "TOTAL"];
        head.extend(&plugins);
        let mut columns = Columns::new(&head);
        let none = || "-".to_owned();
        let max = if wide { usize::MAX } else { MAX_FEASIBLE };
        for node in self.feasible.iter().take(max) {
            let best = if node.best { "*" } else { "" };
            let total = node.total.map_or_else(none, |total| total.to_string());
            let mut row = vec![node.node.clone(), best.to_owned(), total];
            row.extend(plugins.iter().map(|plugin| {
                let score = node.scores.iter().find(|score| score.plugin == *plugin);
                score.map_or_else(none, |score| match wide {
                    true => format!(
                        "{} ({} of {} × {})",
                        score.weighted, score.normalized, score.raw, score.weight
                    ),
                    false => score.weighted.to_string(),
                })
            }));
            columns.push(row);
        }
        columns.print(out);
        let more = self.n_feasible.saturating_sub(self.feasible.len().min(max));
        if more > 0 && !self.feasible.is_empty() {
            let _ = writeln!(out, "and {}\n", count(more, "more feasible node"));
        }
    }

    /// What would make the pod fit, smallest change first.
    fn write_suggestions(&self, out: &mut String) {
        let mut columns = Columns::new(&["IT FITS WITH", "NODES", "EVICTS"]);
        for suggestion in &self.suggestions {
            columns.push(vec![
                suggestion.changes.join(", and "),
                suggestion.n_feasible.to_string(),
                names(&suggestion.victims),
            ]);
        }
        columns.print(out);
    }

    /// Rejected nodes by reasons, one line per plugin.
    fn write_rejected(&self, wide: bool, out: &mut String) {
        let mut columns = Columns::new(&["REJECTED", "NODES", "BY", "VERDICT", "REASONS"]);
        for group in &self.rejected {
            let nodes = examples_cell(&group.examples, group.count, wide);
            let mut first = Some((group.count.to_string(), nodes));
            for rejection in &group.rejections {
                let (count, nodes) = first.take().unwrap_or_default();
                columns.push(vec![
                    count,
                    nodes,
                    rejection.plugin.clone(),
                    rejection.code.to_owned(),
                    rejection.reasons.join(", "),
                ]);
            }
        }
        columns.print(out);
    }

    /// What rejected nodes lack, counted.
    fn write_shortages(&self, out: &mut String) {
        let head = ["MISSING", "NODES", "NEEDED", "MOST LEFT", "ALL", "OF THESE"];
        let mut columns = Columns::new(&head);
        for shortage in self.rejected.iter().flat_map(|group| &group.shortages) {
            let lost = shortage.lost.iter().map(|lost| format!("{} {}", lost.count, lost.reason));
            columns.push(vec![
                shortage.subject.clone(),
                shortage.nodes.to_string(),
                shortage.needed.to_string(),
                shortage.most_left.to_string(),
                shortage.present.to_string(),
                lost.collect::<Vec<String>>().join(", "),
            ]);
        }
        columns.print(out);
    }
}

impl PlaceAnswer {
    fn write(&self, out: &mut String) {
        let mut line = format!("  stage: {}", self.stage);
        if !self.held_by.is_empty() {
            let _ = write!(line, " by {}", self.held_by.join(", "));
        }
        if let Some(until) = &self.until {
            let _ = write!(line, " until {until}");
        }
        if let Some(node) = &self.node {
            let _ = write!(line, " on {node}");
        }
        if self.attempts > 0 {
            let _ = write!(line, ", {}", count(self.attempts as usize, "attempt"));
        }
        if let Some(node) = &self.nominated_node {
            let _ = write!(line, ", nominated to {node}");
        }
        if self.is_preempting {
            line.push_str(", pods are being evicted for it");
        }
        let _ = writeln!(out, "{line}");
        if !self.rejected_by.is_empty() {
            let _ = writeln!(out, "  last rejected by: {}", self.rejected_by.join(", "));
        }
        if !self.waits_for.is_empty() {
            let _ = writeln!(out, "  may come back with: {}", self.waits_for.join(", "));
        }
    }
}

/// Some of `count` nodes by name, and how many more there are.
pub(crate) fn examples_cell(examples: &[String], count: usize, wide: bool) -> String {
    let max = if wide { usize::MAX } else { MAX_EXAMPLES };
    let shown = &examples[..examples.len().min(max)];
    let mut nodes = shown.join(", ");
    let more = count.saturating_sub(shown.len());
    if more > 0 {
        let _ = write!(nodes, "{}{more} more", if shown.is_empty() { "" } else { ", … " });
    }
    nodes
}

/// Pods by name, as far as their names may be seen.
pub(super) fn names(pods: &[String]) -> String {
    pods.iter().map(|pod| a_pod(pod)).collect::<Vec<&str>>().join(", ")
}

/// What holds a pod back, before it is said what would happen otherwise.
pub(crate) fn gated_by(gate: &Rejection) -> String {
    format!("gated by {}, and otherwise", gate.plugin)
}

fn with_plugin(rejection: &Rejection) -> String {
    match &*rejection.plugin {
        "" => rejection.reasons.join(", "),
        plugin => format!("{plugin}: {}", rejection.reasons.join(", ")),
    }
}
