//! The outcome of a simulation for a pod, and the explanation of its last decision.

use std::fmt::Write as _;

use kube_scheduler_answers::{Explanation, PodName};
use serde::Serialize;

use super::data::Report;
use crate::ledger::{Fate, Ledger};

/// What became of one pod, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PodExplanation {
    /// The pod, `namespace/name`.
    pub(crate) pod: String,
    /// `Scheduled`, `AlreadyRunning`, `Preempted`, or the [`PendingReason`](super::PendingReason).
    pub(crate) outcome: String,
    /// The node of the pod, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    /// The message of the outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// How many times it was tried.
    pub attempts: u32,
    /// Pods that were evicted for this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preempts: Vec<String>,
    /// The last decision, as the scheduler would have explained it right before; for a pod that was never tried, at the end
    /// of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Explanation>,
}

impl PodExplanation {
    /// What became of the pod `name`. `decision` explains its last decision.
    pub(crate) fn new(
        name: &PodName,
        decision: Option<Explanation>,
        ledger: &Ledger,
        report: &Report,
    ) -> Self {
        let key = name.to_string();
        let pending = report.pending.iter().find(|pending| pending.pod == key);
        let account = ledger.named(name);
        let mut message = pending.map(|pending| pending.message.clone());
        let outcome = match account.map(|account| &account.fate) {
            Some(Fate::AlreadyRunning) => {
                message =
                    Some("the pod had its node already: there was nothing to decide".to_owned());
                "AlreadyRunning".to_owned()
            }
            Some(Fate::Placed | Fate::Ended) => "Scheduled".to_owned(),
            Some(Fate::Preempted { by, .. }) => {
                message = by.as_ref().map(|by| format!("evicted for {by}"));
                "Preempted".to_owned()
            }
            _ => pending.map(|pending| pending.reason.to_string()).unwrap_or_default(),
        };
        let node = account.and_then(|account| account.pod.node_name.as_ref());
        let preempts = report
            .preempted
            .iter()
            .filter(|preempted| preempted.by.as_ref() == Some(&key))
            .map(|preempted| preempted.pod.clone())
            .collect();
        Self {
            pod: key,
            outcome,
            node: node.map(ToString::to_string),
            message,
            attempts: account.map_or(0, |account| account.n_attempts),
            preempts,
            decision,
        }
    }

    /// In columns, with an empty line at the end.
    pub(super) fn write(&self, wide: bool, out: &mut String) {
        let _ = write!(out, "{}: {}", self.pod, self.outcome);
        if let Some(node) = &self.node {
            let _ = write!(out, " on {node}");
        }
        if let Some(decision) = self.decision.as_ref().filter(|_| self.attempts > 0) {
            let (n_feasible, n_nodes) = (decision.n_feasible, decision.nodes);
            let attempts = self.attempts;
            let _ = write!(out, " (attempt {attempts}, {n_feasible} of {n_nodes} nodes feasible)");
        }
        out.push('\n');
        let in_decision = self.decision.as_ref().and_then(|decision| decision.message.as_ref());
        // Printed only once if the attempt failed with the same text as the outcome.
        if let Some(message) = self.message.as_ref().filter(|text| Some(*text) != in_decision) {
            let _ = writeln!(out, "  {message}");
        }
        for pod in &self.preempts {
            let _ = writeln!(out, "  preempts {pod}");
        }
        match &self.decision {
            Some(decision) => out.push_str(&decision.details(wide)),
            None => out.push('\n'),
        }
    }
}
