//! Answers right before a decision, compared with the decision: why a pod goes where it goes, and who is evicted for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, ensure};
use kube_scheduler_answers::{ExplainOptions, PodName, Subject, preemption};
use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_engine::{AttemptExplanation, AttemptResult, Engine, Turn};
use kube_scheduler_framework::Status;
use kube_scheduler_queue::Place;

/// What was answered about the pod that comes next.
#[derive(Debug)]
pub(super) struct Question {
    pod: Arc<Pod>,
    answer: AttemptExplanation,
    /// The pods that would be evicted for it, without those that are being deleted already; sorted.
    victims: Vec<String>,
    /// The node where they are evicted, or where the pod fits.
    node: Option<String>,
}

/// Asks about a pod that is ready. Only if there is no other is it known to be the next one, and the answer worth a
/// comparison.
pub(super) fn ask(engine: &mut Engine, now: Timestamp) -> Option<Question> {
    let ready = engine.queue().pending_pods().filter(|(place, _)| *place == Place::Active);
    let ready: Vec<Arc<Pod>> = ready.map(|(_, queued)| queued.entry().0.clone()).collect();
    let pod = ready.first()?.clone();
    let random = engine.next_random();
    let answer = engine.explain(&pod, random, now)?;
    let (victims, node) = victims(engine, &pod, now)?;
    (ready.len() == 1).then_some(Question { pod, answer, victims, node })
}

fn victims(
    engine: &mut Engine,
    pod: &Pod,
    now: Timestamp,
) -> Option<(Vec<String>, Option<String>)> {
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
    Some((victims, answer.node))
}

impl Question {
    /// Whether the decision is the one that was explained. False if it is about another pod.
    pub(super) fn compare(&self, turn: &Turn) -> Result<bool> {
        // Members of a group are decided with others, which what-if questions are about.
        if turn.pod.uid != self.pod.uid || turn.group.is_some() {
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

    /// The UID of the pod.
    pub(super) fn uid(&self) -> &str {
        &self.pod.uid
    }

    /// The text that the pod's failure was explained with.
    pub(super) fn message(&self) -> Option<&str> {
        self.answer.message.as_deref()
    }

    /// Whether the pods that were evicted are those that were named, on the node that was named; says how many these are.
    /// `nominated` is the node that the pod is then nominated to.
    pub(super) fn compare_evictions(
        &self,
        mut evicted: Vec<String>,
        nominated: Option<&str>,
    ) -> Result<u64> {
        evicted.sort();
        let (pod, named, node) = (self.pod.key(), &self.victims, self.node.as_deref());
        ensure!(evicted == *named, "for {pod}, {evicted:?} are evicted, named were {named:?}");
        ensure!(
            evicted.is_empty() || (nominated.is_some() && nominated == node),
            "{pod} is nominated to {nominated:?}, named was {node:?}"
        );
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
