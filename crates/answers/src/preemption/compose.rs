//! From what the engine found to an answer.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_cache::{ClusterState, NodeIdx};
use kube_scheduler_engine::{self as engine, Engine};
use kube_scheduler_framework::preemption::{ComparedCandidate, Criterion};
use kube_scheduler_framework::{Code, Status};

use super::data::{CandidateAnswer, NodesInVain, Preemption, PreemptionChoice, VictimAnswer};
use crate::API_VERSION;
use crate::explanation::{ExplainOptions, ExplainedPod, Rejection, Verdict, explanation_in_group};
use crate::format::as_of;
use crate::interrupt::Interrupt;
use crate::what_if::Coverage;

/// The answer about a pod of which this was found.
pub(super) fn compose(
    engine: &Engine,
    found: ExplainedPod,
    options: ExplainOptions,
    interrupt: &Interrupt,
    now: Timestamp,
) -> Preemption {
    let cluster = engine.cluster();
    let pod = found.pod.clone();
    let nodes = found.explanation.nodes.len();
    let in_vain = in_vain(cluster, &found.explanation, options.max_examples);
    let outcome = found.explanation.post_filter.as_ref();
    let by = outcome.and_then(|outcome| outcome.found_by.as_ref()).map(ToString::to_string);
    let mut compared = found.explanation.preemption.candidates.clone();
    // Stable: of equally good ones the first is chosen.
    compared.sort_by_key(|candidate| candidate.harm);
    let explanation = explanation_in_group(engine, found, options, interrupt, now);
    let is_settled = explanation.is_being_deleted;
    let in_words = (explanation.is_by_group || is_settled).then(|| explanation.judgement());
    if is_settled {
        compared.clear();
    }
    let fits_alone = explanation.n_feasible > 0;
    let verdict = explanation.judged();
    let makes_room = verdict == Verdict::FitsAfterPreemption;
    let asked = explanation.preemption.filter(|_| makes_room || verdict == Verdict::DoesNotFit);
    let is_error = verdict == Verdict::Error || asked.as_ref().is_some_and(|asked| asked.is_error);
    let nominated = asked.as_ref().and_then(|preemption| preemption.node.clone());
    let node = match verdict {
        Verdict::Bound => pod.node_name.as_ref().map(ToString::to_string),
        Verdict::Fits => explanation.decision.map(|decision| decision.node),
        Verdict::FitsAfterPreemption => nominated,
        _ => None,
    };
    let coverage = Coverage::of(cluster.objects());
    let candidates: Vec<CandidateAnswer> = compared
        .iter()
        .map(|candidate| {
            let chosen = node.as_deref().filter(|_| makes_room);
            candidate_answer(cluster, &coverage, candidate, chosen)
        })
        .collect();
    let chosen = candidates.first().filter(|candidate| candidate.chosen);
    Preemption {
        api_version: API_VERSION,
        kind: "Preemption",
        pod: pod.key(),
        scheduler_name: explanation.scheduler_name,
        priority: pod.priority(),
        as_of: as_of(now),
        verdict: explanation.verdict,
        without_gates: explanation.without_gates,
        in_words,
        group: explanation.group,
        node,
        victims: chosen.map(|chosen| chosen.victims.clone()).unwrap_or_default(),
        choice: chosen.map(|_| choice(cluster, &compared)),
        by: by.filter(|_| makes_room),
        is_error,
        message: match asked {
            Some(preemption) => preemption.message,
            None if matches!(verdict, Verdict::Fits | Verdict::Bound) => None,
            // No plugin was asked to make room: the whole text says why.
            None => explanation.message,
        },
        gated: explanation.gated,
        nodes,
        candidates,
        in_vain: if is_settled || fits_alone || matches!(verdict, Verdict::Fits | Verdict::Bound) {
            Vec::new()
        } else {
            in_vain
        },
        warnings: explanation.warnings,
    }
}

fn name_of(cluster: &ClusterState, node: NodeIdx) -> String {
    cluster.node_name(node).map(ToString::to_string).unwrap_or_default()
}

fn candidate_answer(
    cluster: &ClusterState,
    coverage: &Coverage,
    compared: &ComparedCandidate,
    chosen: Option<&str>,
) -> CandidateAnswer {
    let ComparedCandidate { candidate, harm, violated_budgets } = compared;
    let node = name_of(cluster, candidate.node);
    let victims = candidate.victims.iter().zip(violated_budgets);
    CandidateAnswer {
        chosen: chosen == Some(&*node),
        node,
        pdb_violations: harm.n_pdb_violations,
        highest_priority: harm.highest_priority,
        priority_sum: candidate.victims.iter().map(|victim| i64::from(victim.priority())).sum(),
        earliest_start: harm.earliest_start.0.to_string(),
        victims: victims
            .map(|(victim, violates)| VictimAnswer {
                pod: victim.key(),
                priority: victim.priority(),
                started: victim.status.started.map(|started| started.to_string()),
                violates: violates.iter().map(ToString::to_string).collect(),
                budgets: coverage.names(victim),
            })
            .collect(),
    }
}

/// What decided for the first of the candidates, which are ordered.
fn choice(cluster: &ClusterState, compared: &[ComparedCandidate]) -> PreemptionChoice {
    let [chosen, second, ..] = compared else {
        return PreemptionChoice { runner_up: None, decided_by: "OnlyCandidate" };
    };
    let decided_by = match chosen.harm.decided_by(&second.harm) {
        None => "Order",
        Some(Criterion::PdbViolations) => "PdbViolations",
        Some(Criterion::HighestPriority) => "HighestPriority",
        Some(Criterion::PrioritySum) => "PrioritySum",
        Some(Criterion::Victims) => "Victims",
        Some(Criterion::EarliestStart) => "EarliestStart",
    };
    PreemptionChoice { runner_up: Some(name_of(cluster, second.candidate.node)), decided_by }
}

/// The nodes that are no candidates, by reasons.
fn in_vain(
    cluster: &ClusterState,
    found: &engine::AttemptExplanation,
    max_examples: usize,
) -> Vec<NodesInVain> {
    let report = &found.preemption;
    let candidates = report.candidates.iter().map(|compared| (compared.candidate.node, None));
    let rejected = report.rejected.iter().map(|(node, status)| (*node, Some(status)));
    let tried: BTreeMap<&str, Option<&Status>> = candidates
        .chain(rejected)
        .filter_map(|(node, status)| Some((&**cluster.node_name(node)?, status)))
        .collect();
    let mut groups: Vec<NodesInVain> = Vec::new();
    let mut known: BTreeMap<(&'static str, Rejection), usize> = BTreeMap::new();
    for node in found.nodes.iter().filter(|node| !node.status.is_success()) {
        let (code, status) = match tried.get(&*node.name) {
            Some(None) => continue,
            Some(Some(status)) => (code_of(status), *status),
            None if node.status.code() == Code::Unschedulable => ("NotTried", &node.status),
            None => ("NotHelpful", &node.status),
        };
        let at =
            *known.entry((code, Rejection::from(status))).or_insert_with_key(|(_, rejection)| {
                let (examples, rejection) = (Vec::new(), rejection.clone());
                groups.push(NodesInVain { count: 0, examples, code, rejection });
                groups.len() - 1
            });
        let group = &mut groups[at];
        group.count += 1;
        if group.examples.len() < max_examples {
            group.examples.push(node.name.to_string());
        }
    }
    groups.sort_by_key(|group| Reverse(group.count));
    groups
}

/// How the trial of a node ended. A status with a plugin's name comes from a filter; preemption's own statuses have none.
fn code_of(status: &Status) -> &'static str {
    match status.code() {
        Code::Error => "Error",
        Code::UnschedulableAndUnresolvable if status.plugin().is_none() => "NoVictims",
        _ => "StillRejected",
    }
}
