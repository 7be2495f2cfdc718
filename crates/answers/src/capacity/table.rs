//! A capacity for people.

use std::fmt::Write as _;

use super::data::Capacity;
use crate::amounts::beside_overhead;
use crate::columns::Columns;
use crate::format::count;

impl Capacity {
    /// The answer in columns; wide ones have all nodes.
    pub fn table(&self, wide: bool) -> String {
        const MAX_NODES: usize = 10;

        let mut out = String::new();
        let mut by_count: Vec<(&String, &usize)> = self.by_node.iter().collect();
        by_count.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let shown = if wide { by_count.len() } else { by_count.len().min(MAX_NODES) };
        let mut columns = Columns::new(&["NODE", "MORE PODS"]);
        for (node, count) in &by_count[..shown] {
            columns.push(vec![(*node).clone(), count.to_string()]);
        }
        columns.print(&mut out);
        if shown < by_count.len() {
            let _ = writeln!(out, "and {}\n", count(by_count.len() - shown, "more node"));
        }
        self.write_largest(&mut out);
        self.write_steps(&mut out);
        if let Some(next) = &self.limited_by {
            let _ = writeln!(out, "the next one does not fit:");
            out.push_str(&next.details(wide));
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "note: {warning}");
        }
        let more = if self.is_limit { " or more" } else { "" };
        let Self { template, count: fitting, n_nodes, .. } = self;
        let _ = writeln!(out, "{template}: {fitting}{more} fit, on {}", count(*n_nodes, "node"));
        out
    }

    fn write_largest(&self, out: &mut String) {
        let mut columns = Columns::new(&["ONE POD MAY ASK FOR", "AT MOST", "ON", "ASKS FOR"]);
        for largest in &self.largest {
            columns.push(vec![
                largest.resource.clone(),
                largest.largest.clone().unwrap_or_else(|| "unlimited".to_owned()),
                largest.node.clone().unwrap_or_default(),
                largest.requested.clone() + &beside_overhead(largest.overhead.as_deref()),
            ]);
        }
        columns.print(out);
    }

    fn write_steps(&self, out: &mut String) {
        let mut columns = Columns::new(&["ADDED", "FEASIBLE", "NODES", "LIMITED BY", "REASONS"]);
        for step in &self.steps {
            let range = |from: usize, to: usize| match from == to {
                true => from.to_string(),
                false => format!("{from}-{to}"),
            };
            let feasible = range(step.feasible_from, step.feasible_to);
            let mut first = Some((range(step.from, step.to), feasible));
            if step.limits.is_empty() {
                let (added, feasible) = first.take().unwrap_or_default();
                columns.push(vec![added, feasible]);
            }
            for limit in &step.limits {
                let (added, feasible) = first.take().unwrap_or_default();
                let reasons = limit.reasons.join(", ");
                let nodes = limit.nodes.to_string();
                columns.push(vec![added, feasible, nodes, limit.plugin.clone(), reasons]);
            }
        }
        columns.print(out);
    }
}
