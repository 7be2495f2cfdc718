//! What would happen, for people.

use std::fmt::Write as _;

use super::data::{PlacementAnswer, Totals, WhatIf};
use crate::columns::Columns;
use crate::format::{a_node, a_pod, count};

impl WhatIf {
    /// The answer in columns; wide ones list nodes, too.
    pub fn table(&self, wide: bool) -> String {
        let mut out = String::new();
        self.write_placements(&mut out);
        let mut blocked = Columns::new(&["BLOCKED", "ON", "REASON", "BUDGETS", "MESSAGE"]);
        for pod in &self.blocked {
            blocked.push(vec![
                a_pod(&pod.pod).to_owned(),
                a_node(&pod.node).to_owned(),
                pod.code.to_owned(),
                pod.budgets.join(", "),
                pod.message.clone(),
            ]);
        }
        blocked.print(&mut out);
        let mut evictions = Columns::new(&["EVICTED", "FROM", "FOR"]);
        for eviction in &self.evictions {
            let by = eviction.by.clone().unwrap_or_default();
            evictions.push(vec![
                a_pod(&eviction.pod).to_owned(),
                a_node(&eviction.node).to_owned(),
                by,
            ]);
        }
        evictions.print(&mut out);
        let mut pending = Columns::new(&["PENDING", "REASON", "MESSAGE"]);
        for pod in &self.pending {
            let otherwise = pod.without_gates.as_ref();
            let otherwise = otherwise.map(|one| format!(", and otherwise {}", one.text()));
            pending.push(vec![
                a_pod(&pod.pod).to_owned(),
                pod.code.to_owned(),
                format!("{}{}", pod.message, otherwise.unwrap_or_default()),
            ]);
        }
        pending.print(&mut out);
        if wide {
            let mut nodes = Columns::new(&["NODE", "PODS ADDED", "PODS REMOVED"]);
            self.nodes.iter().for_each(|node| nodes.push(node.cells()));
            nodes.print(&mut out);
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "note: {warning}");
        }
        out.push_str(&self.verdict());
        if self.other_pending > 0 {
            let _ =
                write!(out, "; {} still pending, as now", count(self.other_pending, "other pod"));
        }
        out.push('\n');
        out
    }

    /// Whether everything fits, and how many pods that is.
    fn verdict(&self) -> String {
        let Totals { placed: asked, left, evicted, blocked } = self.totals;
        let moves = !self.placements.is_empty() || !self.pending.is_empty() || evicted > 0;
        if self.fits && asked == 0 && !moves {
            return "nothing moves: no pod is added, moved or placed".to_owned();
        }
        let verdict = match self.fits {
            true => "fits",
            // It is cut short, and what was left out could have changed that.
            false if left == 0 && blocked == 0 => "not known to fit",
            false => "does not fit",
        };
        let all = count(asked + left, "pod");
        let mut out = format!("{verdict}: {asked} of {all} placed");
        if self.rounds > 0 {
            let _ = write!(out, " in {}", count(self.rounds, "round"));
        }
        if blocked > 0 {
            let _ = write!(out, ", {} blocked", count(blocked, "pod"));
        }
        if evicted > 0 {
            let _ = write!(out, ", {} evicted", count(evicted, "pod"));
        }
        out
    }

    /// Pods in the order in which they move, and of one round by name.
    fn write_placements(&self, out: &mut String) {
        let mut head = vec!["POD", "NODE", "INSTEAD OF"];
        if self.rounds > 0 {
            head.push("ROUND");
        }
        let mut columns = Columns::new(&head);
        let mut placements: Vec<&PlacementAnswer> = self.placements.iter().collect();
        placements.sort_by_key(|placement| placement.round.unwrap_or(usize::MAX));
        for placement in placements {
            let instead = placement.instead_of.clone().unwrap_or_default();
            let round = placement.round.map(|round| round.to_string()).unwrap_or_default();
            let (pod, node) = (a_pod(&placement.pod), a_node(&placement.node));
            columns.push(vec![pod.to_owned(), node.to_owned(), instead, round]);
        }
        columns.print(out);
    }
}
