//! From what the engine found to an answer.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_engine::{self as engine, NodeExplanation, PluginScore, PodPlace, PodStage};
use kube_scheduler_framework::{
    Code, NominatingInfo, PluginName, PostFilterOutcome, Shortage, Status,
};

use super::ExplainOptions;
use super::data::{
    Decision, Explanation, FeasibleNode, LostAnswer, PlaceAnswer, PreemptionAnswer, RejectedNodes,
    Rejection, ScoreAnswer, ShortageAnswer, Verdict,
};
use crate::API_VERSION;
use crate::format::as_of;

/// What is said of a pod that goes before it has a node.
pub(crate) const BEING_DELETED: &str = "it is being deleted, and is never scheduled";

/// The answer about `pod`, of which the engine `found` this.
pub(super) fn compose(
    pod: &Pod,
    place: Option<PodPlace>,
    found: engine::AttemptExplanation,
    options: ExplainOptions,
    now: Timestamp,
) -> Explanation {
    let preemption = found.post_filter.as_ref().map(preemption);
    let n_feasible = found.nodes.iter().filter(|node| node.status.is_success()).count();
    let verdict = verdict(pod, &found, n_feasible, preemption.as_ref());
    let decision = if verdict == Verdict::Fits { decision(&found) } else { None };
    let is_being_deleted = is_being_deleted(pod);
    let is_settled = verdict == Verdict::Bound || is_being_deleted;
    let (feasible, rejected) = match is_settled {
        true => (Vec::new(), Vec::new()),
        false => (feasible(&found, options.max_feasible), rejected(&found, options.max_examples)),
    };
    let is_gated = !is_settled && is_gated(pod, &found);
    let has_waited = place.as_ref().is_some_and(|place| !place.waits_for.is_empty());
    Explanation {
        api_version: API_VERSION,
        kind: "Explanation",
        pod: pod.key(),
        scheduler_name: pod.spec.scheduler_name.to_string(),
        as_of: as_of(now),
        verdict: if is_gated { Verdict::Gated } else { verdict },
        without_gates: is_gated.then_some(verdict),
        is_by_group: false,
        is_being_deleted,
        suggestions: Vec::new(),
        warnings: warnings(pod, &found),
        message: found.message.filter(|_| !is_settled),
        waits_for: if is_settled || has_waited { Vec::new() } else { found.waits_for },
        place: place.map(place_answer),
        group: None,
        gated: found.gated.as_ref().filter(|_| !is_being_deleted).map(Rejection::from),
        pod_rejections: found.of_pod.iter().map(Rejection::from).collect(),
        nodes: found.nodes.len(),
        n_feasible,
        decision,
        feasible,
        rejected,
        preemption: preemption.filter(|_| !is_settled),
        error: found.error.as_ref().filter(|_| !is_being_deleted).map(Rejection::from),
    }
}

/// Whether the pod is going away before it has a node: it waits for nothing, and an attempt passes it over.
pub(crate) fn is_being_deleted(pod: &Pod) -> bool {
    pod.deletion_requested.is_some() && !pod.is_assigned()
}

/// Whether something other than its waiting group holds the pod back. The part of the answer about the group says whether that
/// waits.
fn is_gated(pod: &Pod, found: &engine::AttemptExplanation) -> bool {
    let by_group = pod.spec.pod_group.is_some() && pod.spec.scheduling_gates.is_empty();
    found.gated.is_some() && !by_group
}

fn verdict(
    pod: &Pod,
    found: &engine::AttemptExplanation,
    n_feasible: usize,
    preemption: Option<&PreemptionAnswer>,
) -> Verdict {
    if pod.is_assigned() {
        Verdict::Bound
    } else if is_being_deleted(pod) {
        Verdict::DoesNotFit
    } else if found.error.is_some() && found.chosen.is_none() {
        Verdict::Error
    } else if n_feasible > 0 || found.chosen.is_some() {
        Verdict::Fits
    } else if preemption.is_some_and(|preemption| preemption.helps) {
        Verdict::FitsAfterPreemption
    } else {
        Verdict::DoesNotFit
    }
}

fn warnings(pod: &Pod, found: &engine::AttemptExplanation) -> Vec<String> {
    let mut warnings = Vec::new();
    if is_being_deleted(pod) {
        return vec![BEING_DELETED.to_owned()];
    }
    if pod.is_assigned() {
        warnings.push("the pod has its node already: there is nothing to decide".to_owned());
        if pod.deletion_requested.is_some() {
            warnings
                .push("it is being deleted: its node has its room until it has ended".to_owned());
        }
        return warnings;
    }
    if let Some(group) = &pod.spec.pod_group {
        warnings.push(format!(
            "rejections and scores are about the pod alone, not about its group {group}"
        ));
    }
    if found.has_extenders {
        warnings
            .push("extenders are not asked, so their filters and scores are missing".to_owned());
    }
    if let Some(enough) = found.enough {
        warnings.push(format!(
            "percentageOfNodesToScore: an attempt looks no further once it has found {enough} feasible nodes, and may \
             choose another node than this"
        ));
    }
    warnings
}

/// The name of a stage in answers.
pub(super) const fn stage_name(stage: &PodStage) -> &'static str {
    match stage {
        PodStage::NotOurs => "NotOurs",
        PodStage::BeingDeleted => "BeingDeleted",
        PodStage::Active => "Active",
        PodStage::Backoff { .. } => "Backoff",
        PodStage::Unschedulable { .. } => "Unschedulable",
        PodStage::Gated { .. } => "Gated",
        PodStage::InFlight => "InFlight",
        PodStage::WaitingOnPermit { .. } => "WaitingOnPermit",
        PodStage::Binding => "Binding",
        PodStage::Bound => "Bound",
        _ => "Unknown",
    }
}

/// Where a pod is.
pub(crate) fn place_answer(place: PodPlace) -> PlaceAnswer {
    let stage = stage_name(&place.stage);
    let names = |names: Vec<PluginName>| names.iter().map(ToString::to_string).collect();
    let (mut until, mut held_by) = (None, Vec::new());
    match place.stage {
        PodStage::Backoff { until: end } => until = end,
        PodStage::Unschedulable { until: end } => until = Some(end),
        PodStage::Gated { by } => held_by = vec![by.to_string()],
        PodStage::WaitingOnPermit { plugins } => held_by = names(plugins),
        _ => {}
    }
    PlaceAnswer {
        stage,
        until: until.map(|until| until.to_string()),
        held_by,
        node: place.node.map(|node| node.to_string()),
        nominated_node: place.nominated_node.map(|node| node.to_string()),
        attempts: place.attempts,
        rejected_by: names(place.rejected_by),
        waits_for: place.waits_for,
        is_preempting: place.is_preempting,
    }
}

impl From<&Status> for Rejection {
    fn from(status: &Status) -> Self {
        let named = || status.reasons().find_map(only_plugin_named);
        Self {
            plugin: status
                .plugin()
                .map(|plugin| &**plugin)
                .or_else(named)
                .unwrap_or_default()
                .into(),
            code: status.code().as_str(),
            reasons: status.reasons().map(str::to_owned).collect(),
        }
    }
}

/// The plugin of a reason that PreFilter gives for the nodes it leaves out, if it is of one plugin alone.
fn only_plugin_named(reason: &str) -> Option<&str> {
    const TEXT: &str = "node(s) didn't satisfy plugin";

    let rest = reason.strip_prefix(TEXT)?;
    let listed = rest.strip_prefix("(s) [").and_then(|list| list.strip_suffix(']'));
    listed.or_else(|| rest.strip_prefix(' ')).filter(|name| !name.contains(' '))
}

/// Nodes by all that is in the way.
fn rejected(found: &engine::AttemptExplanation, max_examples: usize) -> Vec<RejectedNodes> {
    let mut groups: Vec<RejectedNodes> = Vec::new();
    let mut known: BTreeMap<Vec<Rejection>, usize> = BTreeMap::new();
    for node in found.nodes.iter().filter(|node| !node.status.is_success()) {
        let NodeExplanation { name, status, further, .. } = node;
        let rejections: Vec<Rejection> =
            std::iter::once(status).chain(further).map(Rejection::from).collect();
        let at = *known.entry(rejections).or_insert_with_key(|rejections| {
            let rejections = rejections.clone();
            groups.push(RejectedNodes {
                count: 0,
                examples: Vec::new(),
                rejections,
                shortages: Vec::new(),
            });
            groups.len() - 1
        });
        let group = &mut groups[at];
        group.count += 1;
        if group.examples.len() < max_examples {
            group.examples.push(name.to_string());
        }
        for (plugin, shortage) in &node.shortages {
            add_shortage(&mut group.shortages, plugin, shortage);
        }
    }
    groups.sort_by_key(|group| Reverse(group.count));
    for shortage in groups.iter_mut().flat_map(|group| &mut group.shortages) {
        shortage.lost.sort_by_key(|lost| Reverse(lost.count));
    }
    groups
}

/// Adds what one node lacks to what the others of its group lack.
fn add_shortage(known: &mut Vec<ShortageAnswer>, plugin: &PluginName, shortage: &Shortage) {
    let Shortage { subject, needed, present, lost } = shortage;
    let same = |answer: &ShortageAnswer| *answer.plugin == **plugin && answer.subject == *subject;
    let at = known.iter().position(same).unwrap_or_else(|| {
        known.push(ShortageAnswer {
            plugin: plugin.to_string(),
            subject: subject.clone(),
            needed: 0,
            nodes: 0,
            most_left: 0,
            present: 0,
            lost: Vec::new(),
        });
        known.len() - 1
    });
    let answer = &mut known[at];
    answer.needed = answer.needed.max(*needed);
    answer.nodes += 1;
    answer.most_left = answer.most_left.max(shortage.left());
    answer.present += present;
    for (reason, count) in lost {
        match answer.lost.iter_mut().find(|lost| lost.reason == *reason) {
            Some(lost) => lost.count += count,
            None => answer.lost.push(LostAnswer { reason, count: *count }),
        }
    }
}

fn feasible(found: &engine::AttemptExplanation, max: usize) -> Vec<FeasibleNode> {
    let mut nodes: Vec<&NodeExplanation> =
        found.nodes.iter().filter(|node| node.status.is_success()).collect();
    let total = |node: &NodeExplanation| node.scores.as_ref().map(|scores| scores.total);
    // Of equally good nodes, the one that is chosen comes first.
    nodes.sort_by_key(|node| (Reverse(total(node)), Some(&node.name) != found.chosen.as_ref()));
    let best = nodes.iter().filter_map(|node| total(node)).max();
    let listed = nodes.into_iter().take(max).map(|node| FeasibleNode {
        node: node.name.to_string(),
        best: best.is_some() && total(node) == best,
        total: total(node),
        scores: node.by_plugin.iter().map(score).collect(),
    });
    listed.collect()
}

fn score(score: &PluginScore) -> ScoreAnswer {
    let PluginScore { plugin, raw, normalized, weight } = score;
    let weighted = normalized.saturating_mul(*weight);
    let (raw, normalized, weight) = (*raw, *normalized, *weight);
    ScoreAnswer { plugin: plugin.to_string(), raw, normalized, weight, weighted }
}

fn decision(found: &engine::AttemptExplanation) -> Option<Decision> {
    let node = found.chosen.as_ref()?;
    let totals = || found.nodes.iter().filter_map(|node| Some(node.scores.as_ref()?.total));
    let best = totals().max();
    let second = totals().filter(|total| Some(*total) < best).max();
    let by_nomination = !found.best.is_empty() && !found.best.contains(node);
    let margin = best.zip(second).map(|(best, second)| best.saturating_sub(second));
    Some(Decision {
        node: node.to_string(),
        margin: margin.filter(|_| !by_nomination),
        ties: totals().filter(|total| Some(*total) == best).count().max(1),
        by_nomination,
    })
}

fn preemption(outcome: &PostFilterOutcome) -> PreemptionAnswer {
    let node = match &outcome.nominating {
        Some(NominatingInfo::Override(node)) => node.as_ref().map(ToString::to_string),
        _ => None,
    };
    let message = outcome.status.message();
    PreemptionAnswer {
        helps: outcome.status.code() == Code::Success,
        node: node.filter(|node| !node.is_empty()),
        victims: outcome.victims.iter().map(|victim| victim.key()).collect(),
        message: Some(message).filter(|message| !message.is_empty()),
        is_error: outcome.status.code() == Code::Error,
    }
}
