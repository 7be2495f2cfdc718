//! Why a pod went where it went: every node's verdict and scores, right before the decision, ready to be printed.

use std::collections::BTreeMap;

use kube_scheduler_engine::{Explanation, NodeExplanation};
use kube_scheduler_framework::Status;
use serde::Serialize;

use crate::ledger::{Fate, Ledger};
use crate::pod_name::PodName;
use crate::report::Report;

/// One pod's last decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PodExplanation {
    /// The pod, `namespace/name`.
    pub pod: String,
    /// What became of the pod: `Scheduled`, `AlreadyRunning`, `Preempted`, or why it is pending.
    pub outcome: String,
    /// The node that the pod got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What there is to say beside the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How often the pod was tried; what follows is the last attempt.
    pub attempts: u32,
    /// Pods that made room for this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preempts: Vec<String>,
    /// Why PreFilter turned the pod down before any node was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_filter: Option<String>,
    /// All nodes in the order in which the scheduler keeps them.
    pub nodes: Vec<NodeVerdict>,
}

/// One node's answer to one pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NodeVerdict {
    /// The node.
    pub node: String,
    /// Whether all filters let the pod pass.
    pub feasible: bool,
    /// `Success`, or the kind of rejection.
    pub verdict: String,
    /// The plugin that turned the pod down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// Its reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// The sum of the scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// Weighted, normalised scores by plugin. Plugins that have nothing to say of the pod are not listed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, i64>,
    /// Whether no other node has a higher total.
    pub best: bool,
}

impl PodExplanation {
    /// Puts together what the engine says of the decision and what the run made of it.
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
                    Some("the pod came with its node: there was nothing to decide".to_owned());
                "AlreadyRunning".to_owned()
            }
            Some(Fate::Placed) => "Scheduled".to_owned(),
            Some(Fate::Preempted { by, .. }) => {
                message = by.as_ref().map(|by| format!("made room for {by}"));
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
