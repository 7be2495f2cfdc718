//! A preemption for people.

use std::fmt::Write as _;

use kube_scheduler_api_types::Timestamp;

use super::data::{CandidateAnswer, Preemption, PreemptionChoice};
use crate::columns::Columns;
use crate::explanation::{Verdict, examples_cell, gated_by};
use crate::format::{a_node, a_pod, count};

/// How many candidates narrow tables have.
const MAX_CANDIDATES: usize = 10;

impl Preemption {
    /// The answer in columns; wide ones have all candidates and their victims.
    pub fn table(&self, wide: bool) -> String {
        let mut out = format!("{}: {}\n", self.pod, self.headline());
        for warning in &self.warnings {
            let _ = writeln!(out, "  note: {warning}");
        }
        if let Some(gate) = &self.gated {
            let _ = writeln!(out, "  held back by {}: {}", gate.plugin, gate.reasons.join(", "));
        }
        if let Some(message) = &self.message {
            let _ = writeln!(out, "  {message}");
        }
        if let (Some(choice), [chosen, others @ ..]) = (&self.choice, &self.candidates[..]) {
            let _ = writeln!(out, "  {}", why(choice, chosen, others.first()));
        }
        out.push('\n');
        self.write_victims(wide, &mut out);
        self.write_candidates(wide, &mut out);
        self.write_in_vain(wide, &mut out);
        if let Some(group) = &self.group {
            group.write(&mut out);
        }
        out
    }

    fn headline(&self) -> String {
        let Some(judged) = self.without_gates else { return self.judgement(self.verdict) };
        let gate = self.gated.as_ref().map(gated_by).unwrap_or_default();
        format!("{gate} {}", self.judgement(judged))
    }

    fn judgement(&self, verdict: Verdict) -> String {
        if let Some(in_words) = &self.in_words {
            return in_words.clone();
        }
        let node = a_node(self.node.as_deref().unwrap_or_default());
        match verdict {
            Verdict::Fits => format!("fits on {node}, without any eviction"),
            Verdict::Bound => format!("has its node, {node}"),
            Verdict::FitsAfterPreemption if self.victims.is_empty() => {
                let by = self.by.as_deref().unwrap_or("a plugin");
                format!("fits once {by} has made room, without any eviction")
            }
            Verdict::FitsAfterPreemption => {
                let victims = count(self.victims.len(), "pod");
                let are = if self.victims.len() == 1 { "is" } else { "are" };
                format!("fits on {node} once {victims} {are} evicted")
            }
            Verdict::DoesNotFit => {
                "does not fit, and evicting pods would not change that".to_owned()
            }
            Verdict::Error => "cannot be scheduled because of an error".to_owned(),
            Verdict::Gated => "is held back".to_owned(),
        }
    }

    fn write_victims(&self, wide: bool, out: &mut String) {
        let head = ["EVICTED", "FROM", "PRIORITY", "STARTED", "VIOLATES", "BUDGETS"];
        let n_columns = if wide { head.len() } else { head.len() - 1 };
        let mut columns = Columns::new(&head[..n_columns]);
        let shown = if wide { self.candidates.len() } else { usize::from(self.choice.is_some()) };
        for candidate in self.candidates.iter().take(shown) {
            for victim in &candidate.victims {
                let row = [
                    a_pod(&victim.pod).to_owned(),
                    a_node(&candidate.node).to_owned(),
                    victim.priority.to_string(),
                    victim.started.clone().unwrap_or_else(|| "-".to_owned()),
                    victim.violates.join(", "),
                    victim.budgets.join(", "),
                ];
                columns.push(row.into_iter().take(n_columns).collect());
            }
        }
        columns.print(out);
    }

    fn write_candidates(&self, wide: bool, out: &mut String) {
        let mut columns = Columns::new(&[
            "CANDIDATE",
            "CHOSEN",
            "BUDGETS VIOLATED",
            "HIGHEST PRIORITY",
            "SUM OF PRIORITIES",
            "VICTIMS",
            "EARLIEST START",
        ]);
        let max = if wide { usize::MAX } else { MAX_CANDIDATES };
        let as_of = self.as_of.clone().unwrap_or_else(|| Timestamp::EPOCH.to_string());
        for candidate in self.candidates.iter().take(max) {
            columns.push(vec![
                a_node(&candidate.node).to_owned(),
                if candidate.chosen { "*".to_owned() } else { String::new() },
                candidate.pdb_violations.to_string(),
                candidate.highest_priority.to_string(),
                candidate.priority_sum.to_string(),
                candidate.victims.len().to_string(),
                match &candidate.earliest_start {
                    now if *now == as_of => "-".to_owned(),
                    earliest => earliest.clone(),
                },
            ]);
        }
        columns.print(out);
        let more = self.candidates.len().saturating_sub(max);
        if more > 0 {
            let _ = writeln!(out, "and {}\n", count(more, "more candidate"));
        }
    }

    fn write_in_vain(&self, wide: bool, out: &mut String) {
        let mut columns = Columns::new(&["NO ROOM", "NODES", "WHY", "BY", "REASONS"]);
        for group in &self.in_vain {
            columns.push(vec![
                group.count.to_string(),
                examples_cell(&group.examples, group.count, wide),
                group.code.to_owned(),
                group.rejection.plugin.clone(),
                group.rejection.reasons.join(", "),
            ]);
        }
        columns.print(out);
    }
}

/// Why the chosen candidate, in words.
fn why(
    choice: &PreemptionChoice,
    chosen: &CandidateAnswer,
    second: Option<&CandidateAnswer>,
) -> String {
    let node = a_node(&chosen.node);
    let Some(second) = second else {
        return format!("why {node}: no other node would have room after evictions");
    };
    let differs = match choice.decided_by {
        "PdbViolations" => format!(
            "{} instead of {}",
            count_of(chosen.pdb_violations, "victim that a disruption budget protects"),
            second.pdb_violations
        ),
        "HighestPriority" => format!(
            "its most important victim has priority {} instead of {}",
            chosen.highest_priority, second.highest_priority
        ),
        "PrioritySum" => {
            let (ours, theirs) = (chosen.victims.len(), second.victims.len());
            if ours == theirs {
                format!(
                    "its victims' priorities add up to {} instead of {}",
                    chosen.priority_sum, second.priority_sum
                )
            } else {
                format!("{} instead of {theirs}, by the sum of priorities", count(ours, "victim"))
            }
        }
        "Victims" => {
            format!("{} instead of {}", count(chosen.victims.len(), "victim"), second.victims.len())
        }
        "EarliestStart" => format!(
            "its most important victims have run since {} instead of {}",
            chosen.earliest_start, second.earliest_start
        ),
        _ => "equal in everything that is compared, and found first".to_owned(),
    };
    let other = if second.node.is_empty() { "another one" } else { &second.node };
    format!("why {node} and not {other}: {differs}")
}

fn count_of(n: i64, noun: &str) -> String {
    count(usize::try_from(n).unwrap_or_default(), noun)
}
