//! Explanations of decisions, put together from what the engine reports about a decision and the result of the run.

use crate::ledger::{Fate, Ledger};
use crate::pod_name::PodName;
use crate::report::{NodeVerdict, PodExplanation, Report};
use kube_scheduler_engine::{Explanation, NodeExplanation};
use kube_scheduler_framework::Status;

impl PodExplanation {
    /// The explanation of the last decision about the pod `name`. `found` is the engine's, right before that decision;
    /// `None` if the pod was never tried.
    pub(crate) fn new(
        name: &PodName,
        found: Option<&Explanation>,
        ledger: &Ledger,
        report: &Report,
    ) -> Self {
        let key = name.to_string();
        let pending = report.pending.iter().find(|pending| pending.pod == key);
        let account = ledger.named(name);
        let fate = account.map(|account| &account.fate);
        let mut message = pending.map(|pending| pending.message.clone());
        let outcome = match fate {
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
        let mut explanation = Self {
            pod: key,
            outcome,
            node: account
                .and_then(|account| account.pod.node_name.as_ref())
                .map(ToString::to_string),
            message,
            attempts: account.map_or(0, |account| account.n_attempts),
            preempts: report
                .preempted
                .iter()
                .filter(|preempted| {
                    preempted.by.as_deref().is_some_and(|by| *by == *name.to_string())
                })
                .map(|preempted| preempted.pod.clone())
                .collect(),
            pre_filter: None,
            nodes: Vec::new(),
        };
        // PreFilter's rejection says more than an error that follows from it.
        if let Some(found) = found {
            if !found.pre_filter.is_success() {
                explanation.pre_filter = Some(with_plugin(&found.pre_filter));
            }
            if let Some(error) = &found.error {
                explanation.pre_filter.get_or_insert_with(|| with_plugin(error));
            }
            explanation.nodes = found.nodes.iter().map(|node| verdict(node, found)).collect();
        }
        explanation
    }
}

fn with_plugin(status: &Status) -> String {
    match status.plugin() {
        Some(plugin) => format!("{plugin}: {}", status.message()),
        None => status.message(),
    }
}

fn verdict(node: &NodeExplanation, explanation: &Explanation) -> NodeVerdict {
    let scores = node.scores.as_ref();
    NodeVerdict {
        node: node.name.to_string(),
        feasible: node.status.is_success(),
        verdict: node.status.code().to_string(),
        plugin: node.status.plugin().map(ToString::to_string),
        reasons: node.status.reasons().map(str::to_owned).collect(),
        total: scores.map(|scores| scores.total),
        scores: scores
            .into_iter()
            .flat_map(|scores| &scores.by_plugin)
            .map(|(plugin, score)| (plugin.to_string(), *score))
            .collect(),
        best: explanation.best.contains(&node.name),
    }
}
