//! What would happen if a pod came, asked before it comes, compared with what then happens.
//!
//! Nothing else happens between the question and the end of the comparison. If the first attempt at the pod ends as the answer says,
//! the comparison may end there. Otherwise the answer is about what comes later, and the schedulers go on until they cannot do any
//! more: then everything in the answer must have happened, and nothing else. So there is no answer that is not compared.

use std::ops::AddAssign;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use kube_scheduler_answers::{Change, Idleness, QuestionLimits, WhatIf, what_if};
use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_engine::{AttemptResult, Engine, Input, Turn};

use super::Crowd;
use super::reports::Reports;
use crate::history::{ApiServer, PodKey};

/// How many answers were compared, by what they were compared with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Foreseen {
    /// With the first attempt alone, which was as the answer said.
    pub at_once: u64,
    /// With all that happened until the schedulers could not do any more.
    pub at_rest: u64,
    /// Of those, how many were about pods that got their node although the first attempt failed and evicted no pod.
    pub later: u64,
    /// How many pods stayed pending, so that the answer's text was compared with what was reported.
    pub texts: u64,
    /// How many pods had volumes.
    pub with_volumes: u64,
    /// How many of those got a node.
    pub placed_with_volumes: u64,
    /// How many pods belonged to groups.
    pub in_groups: u64,
    /// How many of those got a node.
    pub placed_in_groups: u64,
    /// How many pods had others evicted in their first attempt.
    pub preemptions: u64,
    /// How many pods were evicted in all.
    pub evictions: u64,
}

impl Foreseen {
    fn count(&mut self, foresight: &Foresight) {
        let (pod, fits) = (&foresight.pod, u64::from(foresight.answer.fits));
        if !pod.volumes.is_empty() {
            self.with_volumes += 1;
            self.placed_with_volumes += fits;
        }
        if pod.spec.pod_group.is_some() {
            self.in_groups += 1;
            self.placed_in_groups += fits;
        }
    }
}

impl AddAssign for Foreseen {
    fn add_assign(&mut self, other: Self) {
        self.at_once += other.at_once;
        self.at_rest += other.at_rest;
        self.later += other.later;
        self.texts += other.texts;
        self.with_volumes += other.with_volumes;
        self.placed_with_volumes += other.placed_with_volumes;
        self.in_groups += other.in_groups;
        self.placed_in_groups += other.placed_in_groups;
        self.preemptions += other.preemptions;
        self.evictions += other.evictions;
    }
}

/// What was answered about a pod that does not exist yet.
#[derive(Debug)]
pub(super) struct Foresight {
    pod: Arc<Pod>,
    answer: WhatIf,
    /// What the first attempt leaves to compare.
    open: OpenPart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenPart {
    /// Everything: it has not been made.
    All,
    /// What comes after it.
    Rest,
    /// The same, and it failed without evictions.
    RestOfFailure,
    /// Nothing.
    Nothing,
}

impl Foresight {
    /// Asks about a pod that does not exist yet.
    fn ask(engine: &Engine, pod: &Arc<Pod>, now: Timestamp) -> Result<Self> {
        let changes = [Change::AddPod(pod.clone())];
        let answer = what_if(engine, &changes, QuestionLimits::default(), now)?;
        Ok(Self { pod: pod.clone(), answer, open: OpenPart::All })
    }

    /// Compares the pod's first attempt, the pods that it evicted, and what was reported of it, with the answer.
    pub(super) fn compare_first(
        &mut self,
        turn: &Turn,
        evicted: &[String],
        (reports, server): (&Reports, &ApiServer),
    ) -> Result<()> {
        let result = match &turn.group {
            Some(group) => {
                group.members.iter().find(|(pod, _)| pod.uid == self.pod.uid).map(|(_, it)| it)
            }
            None => (turn.pod.uid == self.pod.uid).then_some(&turn.result),
        };
        let (Some(result), OpenPart::All) = (result, self.open) else { return Ok(()) };
        let (pod, answer) = (self.pod.key(), &self.answer);
        // What happens for a group is said of the pod with which its turn came.
        let by = turn.pod.to_string();
        let by_pod = answer.evictions.iter().filter(|one| one.by.as_deref() == Some(&by));
        let named: Vec<&str> = by_pod.map(|eviction| &*eviction.pod).collect();
        ensure!(
            named.starts_with(&evicted.iter().map(String::as_str).collect::<Vec<_>>()),
            "for {pod}, {evicted:?} are evicted, foreseen were {named:?}"
        );
        let placed = answer.placements.iter().find(|placed| placed.pod == pod);
        let pending = answer.pending.iter().find(|pending| pending.pod == pod);
        self.open = match result {
            AttemptResult::Assumed(node) => match placed {
                Some(placed) => {
                    ensure!(
                        *placed.node == **node,
                        "{pod} is placed on {node}, foreseen was {placed:?}"
                    );
                    OpenPart::Nothing
                }
                // It may wait for others on Permit, or be evicted again.
                None => OpenPart::Rest,
            },
            AttemptResult::Unschedulable(text) | AttemptResult::Error(text) => {
                match pending.filter(|pending| pending.message == *text) {
                    _ if !evicted.is_empty() => OpenPart::Rest,
                    Some(pending) => {
                        let text = (pending.code, &*pending.message);
                        reports.compare(server, &self.pod.uid, text)?;
                        OpenPart::Nothing
                    }
                    None => OpenPart::RestOfFailure,
                }
            }
            _ => OpenPart::Rest,
        };
        Ok(())
    }
}

impl Crowd {
    /// Asks what would happen if the pod came, lets it come, and compares.
    pub(super) fn foresee(&mut self, input: &Input) -> Result<()> {
        let Input::PodApplied(pod) = input else { return self.feed(input) };
        self.foresight = Some(Foresight::ask(&self.shared, pod, self.now)?);
        self.evicted_since_asked.clear();
        self.reports.clear();
        self.idleness = Idleness::new(self.now);
        self.feed(input)?;
        self.idleness.progressed(self.now);
        self.decide()?;
        let Some(foresight) = self.foresight.take() else { return Ok(()) };
        let name = foresight.pod.key();
        self.foreseen.preemptions +=
            u64::from(self.evicted_since_asked.iter().any(|(_, by)| *by == name));
        self.foreseen.count(&foresight);
        let pending = foresight.answer.pending.iter().find(|pending| pending.pod == name);
        self.foreseen.texts += u64::from(pending.is_some_and(|one| is_reported(one.code)));
        let is_over = foresight.open == OpenPart::Nothing && !self.numbers.one_in(6);
        if is_over {
            self.foreseen.at_once += 1;
        } else {
            self.rest()?;
            self.compare_at_rest(&foresight)
                .with_context(|| format!("{name} came, and all has come to rest"))?;
            self.foreseen.at_rest += 1;
            self.foreseen.later +=
                u64::from(foresight.open == OpenPart::RestOfFailure && foresight.answer.fits);
        }
        self.foreseen.evictions += self.evicted_since_asked.len() as u64;
        Ok(())
    }

    fn compare_at_rest(&self, foresight: &Foresight) -> Result<u64> {
        let answer = &foresight.answer;
        for placed in &answer.placements {
            let node = self.node_of(&placed.pod);
            ensure!(
                node == Some(&placed.node),
                "{} is on {node:?}, foreseen was {}",
                placed.pod,
                placed.node
            );
        }
        let evicted: Vec<(String, Option<&str>)> = self
            .evicted_since_asked
            .iter()
            .map(|((namespace, name), by)| (format!("{namespace}/{name}"), Some(&**by)))
            .collect();
        let foreseen: Vec<(String, Option<&str>)> =
            answer.evictions.iter().map(|one| (one.pod.clone(), one.by.as_deref())).collect();
        ensure!(evicted == foreseen, "{evicted:?} are evicted, foreseen were {foreseen:?}");
        let (asked, fits) = (foresight.pod.key(), answer.fits);
        let node = self.node_of(&asked);
        ensure!(node.is_some() == fits, "{asked} is on {node:?}, foreseen was fits: {fits}");
        self.compare_pending(answer)
    }

    /// The pods that have no node are those in the answer, with the same reports to the letter, and no others. Says how many texts that
    /// were.
    pub(super) fn compare_pending(&self, answer: &WhatIf) -> Result<u64> {
        let mut n_texts = 0;
        for pending in &answer.pending {
            let node = self.node_of(&pending.pod);
            ensure!(node.is_none(), "{} is on {node:?}, foreseen was {pending:?}", pending.pod);
            let pod = self.server.pods.get(&key_of(&pending.pod));
            if pending.code == "Evicted" {
                ensure!(pod.is_none(), "{} is there, foreseen was {pending:?}", pending.pod);
                continue;
            }
            let pod = pod.with_context(|| format!("{} is gone", pending.pod))?;
            let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
            if is_reported(pending.code) {
                self.reports.compare(&self.server, uid, (pending.code, &pending.message))?;
                n_texts += 1;
            } else {
                ensure!(
                    !self.reports.has(uid),
                    "{} was tried, foreseen was {pending:?}",
                    pending.pod
                );
            }
        }
        self.no_other_is_pending(answer)?;
        Ok(n_texts)
    }

    fn no_other_is_pending(&self, answer: &WhatIf) -> Result<()> {
        let is_queued = |code: &str| !["Evicted", "NotScheduled"].contains(&code);
        let listed = answer.pending.iter().filter(|pending| is_queued(pending.code)).count();
        let others = serde_json::to_value(answer)?["otherPending"].as_u64().context("a number")?;
        // Those that are being deleted never get a node.
        let pending = self.shared.queue().pending_pods().map(|(_, queued)| &queued.entry().0);
        let pending = pending.filter(|pod| pod.deletion_requested.is_none());
        let pending: Vec<String> = pending.map(|pod| pod.key()).collect();
        ensure!(
            pending.len() as u64 == listed as u64 + others,
            "{pending:?} are pending, foreseen were {listed} and {others} others"
        );
        Ok(())
    }

    fn node_of(&self, pod: &str) -> Option<&str> {
        self.server.pods.get(&key_of(pod))?["spec"]["nodeName"].as_str()
    }
}

/// Whether a pod stays pending with this code because of attempts that failed.
fn is_reported(code: &str) -> bool {
    ["Unschedulable", "SchedulerError"].contains(&code)
}

fn key_of(pod: &str) -> PodKey {
    let (namespace, name) = pod.split_once('/').unwrap_or_default();
    (namespace.to_owned(), name.to_owned())
}
