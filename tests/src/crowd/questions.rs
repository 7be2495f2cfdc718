//! Answers right before a decision, compared with the decision: why a pod goes where it goes, and what would happen if one came.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, ensure};
use kube_scheduler_answers::{
    Change, ExplainOptions, PodName, QuestionLimits, Subject, WhatIf, preemption, what_if,
};
use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_engine::{AttemptResult, Engine, Explanation, Turn};
use kube_scheduler_framework::Status;
use kube_scheduler_queue::Place;

/// What was answered about the pod that comes next.
#[derive(Debug)]
pub(super) struct Question {
    pod: Arc<Pod>,
    answer: Explanation,
    /// The pods that would be evicted for it, without those that are being deleted already; sorted.
    victims: Vec<String>,
}

/// Asks about a pod that is ready. Only if there is no other is it known to be the next one, and the answer worth a
/// comparison.
pub(super) fn ask(engine: &mut Engine, now: Timestamp) -> Option<Question> {
    let ready = engine.queue().pending_pods().filter(|(place, _)| *place == Place::Active);
    let ready: Vec<Arc<Pod>> = ready.map(|(_, queued)| queued.entry().0.clone()).collect();
    let pod = ready.first()?.clone();
    let random = engine.next_random();
    let answer = engine.explain(&pod, random, now)?;
    let victims = victims(engine, &pod, now)?;
    (ready.len() == 1).then_some(Question { pod, answer, victims })
}

fn victims(engine: &mut Engine, pod: &Pod, now: Timestamp) -> Option<Vec<String>> {
    let subject = Subject::Known(PodName::from(pod));
    let answer = preemption(engine, &subject, ExplainOptions::default(), now).ok()?;
    let is_there = |victim: &String| {
        let name: Option<PodName> = victim.parse().ok();
        let known = name.and_then(|name| engine.known_pod(&name.namespace, &name.name));
        known.is_some_and(|known| known.deletion_requested.is_none())
    };
    let mut victims: Vec<String> =
        answer.victims.into_iter().map(|victim| victim.pod).filter(is_there).collect();
    victims.sort();
    Some(victims)
}

impl Question {
    /// Whether the decision is the one that was explained. False if it is about another pod.
    pub(super) fn compare(&self, turn: &Turn) -> Result<bool> {
        if turn.pod.uid != self.pod.uid {
            return Ok(false);
        }
        let (pod, answer) = (self.pod.key(), &self.answer);
        match &turn.result {
            AttemptResult::Assumed(node) => {
                let chosen = answer.chosen.as_ref();
                ensure!(
                    chosen == Some(node),
                    "{pod} is placed on {node}, explained was {chosen:?} of {:?}",
                    answer.best
                );
                let passes = |node: &&kube_scheduler_engine::NodeExplanation| {
                    node.status.is_success() && node.further.is_empty()
                };
                let found = answer.nodes.iter().filter(passes).count();
                // Where the pod is nominated to, it goes without a look at other nodes.
                let is_nominated =
                    self.pod.nominated_node_name().is_some_and(|name| *name == **node);
                ensure!(
                    turn.n_feasible == if is_nominated { 1 } else { found },
                    "{pod} fits on {} nodes, explained were {found}",
                    turn.n_feasible
                );
            }
            AttemptResult::Unschedulable(text) if turn.chosen.is_none() => {
                let explained = answer.message.as_ref();
                ensure!(explained == Some(text), "{pod}: {text:?}, explained was {explained:?}");
                ensure!(
                    !answer.pre_filter.is_success() || text.starts_with(&self.of_first_reasons()),
                    "{pod}: {text:?} does not begin with {:?}",
                    self.of_first_reasons()
                );
                self.rejected_nodes_are_rejected()?;
            }
            AttemptResult::Error(text) => {
                let explained = answer.message.as_ref();
                ensure!(explained == Some(text), "{pod}: {text:?}, explained was {explained:?}");
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether the pods that were evicted are those that were named; says how many these are.
    pub(super) fn compare_evictions(&self, mut evicted: Vec<String>) -> Result<u64> {
        evicted.sort();
        let (pod, named) = (self.pod.key(), &self.victims);
        ensure!(evicted == *named, "for {pod}, {evicted:?} are evicted, named were {named:?}");
        Ok(evicted.len() as u64)
    }

    /// The text of the event, counted from each node's first reason.
    fn of_first_reasons(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for reason in self.answer.nodes.iter().flat_map(|node| node.status.reasons()) {
            *counts.entry(reason).or_default() += 1;
        }
        let mut parts: Vec<String> =
            counts.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
        parts.sort();
        let n_nodes = self.answer.nodes.len();
        if n_nodes == 0 {
            String::new()
        } else {
            format!("0/{n_nodes} nodes are available: {}.", parts.join(", "))
        }
    }

    /// A node's first reason comes from a plugin that stands before those of the others.
    fn rejected_nodes_are_rejected(&self) -> Result<()> {
        for node in &self.answer.nodes {
            let all: Vec<&Status> = std::iter::once(&node.status).chain(&node.further).collect();
            ensure!(!node.status.is_success(), "{} passes and is not chosen", node.name);
            ensure!(
                all.iter().all(|status| status.is_rejected()),
                "{} has an error: {all:?}",
                node.name
            );
            let same = |a: usize, b: usize| {
                all[a].plugin() == all[b].plugin() && all[a].plugin().is_some()
            };
            let repeated = (1..all.len()).any(|at| same(0, at) && node.is_explicit);
            ensure!(!repeated, "{} is rejected twice by one plugin: {all:?}", node.name);
        }
        Ok(())
    }
}

/// What was answered to the question what would happen if a pod came.
#[derive(Debug)]
pub(super) struct Foresight {
    pod: Arc<Pod>,
    answer: WhatIf,
}

impl Foresight {
    /// Asks about a pod that does not exist yet.
    pub(super) fn ask(engine: &Engine, pod: &Arc<Pod>, now: Timestamp) -> Result<Self> {
        let changes = [Change::AddPod(pod.clone())];
        let answer = what_if(engine, &changes, QuestionLimits::default(), now)?;
        Ok(Self { pod: pod.clone(), answer })
    }

    /// Whether the pod's first attempt ended as the answer says, and the pods that it evicted are in the answer. False if the
    /// answer says no more than what became of the pod later.
    pub(super) fn compare(&self, turn: &Turn, evicted: &[String]) -> Result<bool> {
        if turn.pod.uid != self.pod.uid {
            return Ok(false);
        }
        let (pod, answer) = (self.pod.key(), &self.answer);
        let of_pod = |eviction: &&kube_scheduler_answers::EvictionAnswer| {
            eviction.by.as_deref() == Some(pod.as_str())
        };
        let named: Vec<&str> =
            answer.evictions.iter().filter(of_pod).map(|eviction| &*eviction.pod).collect();
        ensure!(
            evicted.iter().all(|victim| named.contains(&victim.as_str())),
            "for {pod}, {evicted:?} are evicted, foreseen were {named:?}"
        );
        let placed = answer.placements.iter().find(|placed| placed.pod == pod);
        let is_evicted = answer.evictions.iter().any(|eviction| eviction.pod == pod);
        match &turn.result {
            AttemptResult::Assumed(node) if !is_evicted => match placed {
                Some(placed) => {
                    ensure!(
                        *placed.node == **node,
                        "{pod} is placed on {node}, foreseen was {placed:?}"
                    );
                    Ok(true)
                }
                // It may wait for others on Permit.
                None => {
                    let pending = answer.pending.iter().find(|pending| pending.pod == pod);
                    let code = pending.map(|pending| pending.code);
                    ensure!(
                        code == Some("NotScheduled"),
                        "{pod} is placed on {node}, foreseen was {pending:?}"
                    );
                    Ok(false)
                }
            },
            AttemptResult::Unschedulable(text) if placed.is_none() && evicted.is_empty() => {
                let pending = answer.pending.iter().find(|pending| pending.pod == pod);
                let is_pending = pending.is_some();
                ensure!(is_pending, "{pod}: {text:?}, foreseen was {pending:?}");
                Ok(true)
            }
            AttemptResult::Unschedulable(_) => Ok(!evicted.is_empty()),
            _ => Ok(false),
        }
    }
}
