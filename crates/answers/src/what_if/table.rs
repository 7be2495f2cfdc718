//! What would happen, for people.

use std::fmt::Write as _;

use super::data::{PlacementAnswer, WhatIf};
use crate::columns::Columns;
use crate::format::count;

impl WhatIf {
    /// The answer in columns; wide ones list nodes, too.
    pub fn table(&self, wide: bool) -> String {
        let mut out = String::new();
        self.write_placements(&mut out);
        let mut blocked = Columns::new(&["BLOCKED", "ON", "REASON", "BUDGETS", "MESSAGE"]);
        for pod in &self.blocked {
            blocked.push(vec![
                pod.pod.clone(),
                pod.node.clone(),
                pod.code.to_owned(),
                pod.budgets.join(", "),
                pod.message.clone(),
            ]);
        }
        blocked.print(&mut out);
        let mut evictions = Columns::new(&["EVICTED", "FROM", "FOR"]);
        for eviction in &self.evictions {
            let by = eviction.by.clone().unwrap_or_default();
            evictions.push(vec![eviction.pod.clone(), eviction.node.clone(), by]);
        }
        evictions.print(&mut out);
        let mut pending = Columns::new(&["PENDING", "REASON", "MESSAGE"]);
        for pod in &self.pending {
            pending.push(vec![pod.pod.clone(), pod.code.to_owned(), pod.message.clone()]);
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
        let asked = self.placements.iter().filter(|placement| placement.asked).count();
        let left = self.pending.iter().filter(|pod| pod.asked).count();
        let verdict = if self.fits { "fits" } else { "does not fit" };
        let all = count(asked + left, "pod");
        let _ = write!(out, "{verdict}: {asked} of {all} placed");
        if self.rounds > 0 {
            let _ = write!(out, " in {}", count(self.rounds, "round"));
        }
        if !self.blocked.is_empty() {
            let _ = write!(out, ", {} blocked", count(self.blocked.len(), "pod"));
        }
        if !self.evictions.is_empty() {
            let _ = write!(out, ", {} evicted", count(self.evictions.len(), "pod"));
        }
        if self.other_pending > 0 {
            let _ =
                write!(out, "; {} still pending, as now", count(self.other_pending, "other pod"));
        }
        out.push('\n');
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
            columns.push(vec![placement.pod.clone(), placement.node.clone(), instead, round]);
        }
        columns.print(out);
    }
}
