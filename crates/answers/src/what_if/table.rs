//! What would happen, for people.

use std::fmt::Write as _;

use super::data::WhatIf;
use crate::columns::Columns;
use crate::format::count;

impl WhatIf {
    /// The answer in columns; wide ones list nodes, too.
    pub fn table(&self, wide: bool) -> String {
        let mut out = String::new();
        let mut placements = Columns::new(&["POD", "NODE", "INSTEAD OF"]);
        for placement in &self.placements {
            let instead = placement.instead_of.clone().unwrap_or_default();
            placements.push(vec![placement.pod.clone(), placement.node.clone(), instead]);
        }
        placements.print(&mut out);
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
}
