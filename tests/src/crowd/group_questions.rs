//! What explanations say about the pod group that is tried next, compared with what comes of it.

use std::sync::Arc;

use anyhow::{Result, ensure};
use kube_scheduler_answers::{ExplainOptions, GroupAttempt, PodName, Subject, explain};
use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_engine::{Engine, GroupReport, Observer, PodRef, SearchStep};
use kube_scheduler_framework::{Code, Status};
use kube_scheduler_queue::Place;

/// What was answered about a group, asked by its pods that are ready.
#[derive(Debug)]
pub(super) struct GroupQuestion {
    namespace: Arc<str>,
    name: Arc<str>,
    attempt: GroupAttempt,
}

/// Asks about a group if no other pod is ready than its own, so that it is tried next.
pub(super) fn ask(engine: &mut Engine, now: Timestamp) -> Option<GroupQuestion> {
    let ready = engine.queue().pending_pods().filter(|(place, _)| *place == Place::Active);
    let ready: Vec<Arc<Pod>> = ready.map(|(_, queued)| queued.entry().0.clone()).collect();
    let pod = ready.first()?;
    let name = pod.spec.pod_group.as_ref()?;
    let is_member = |one: &Arc<Pod>| {
        one.namespace == pod.namespace && one.spec.pod_group.as_ref() == Some(name)
    };
    if !ready.iter().all(is_member) {
        return None;
    }
    let subject = Subject::Known(PodName::from(&**pod));
    let attempt = explain(engine, &subject, ExplainOptions::default(), now).ok()?.group?.attempt?;
    Some(GroupQuestion { namespace: pod.namespace.clone(), name: name.clone(), attempt })
}

/// What came of the groups that were tried.
#[derive(Debug, Default)]
pub(super) struct GroupOutcome(Option<GroupReport>);

impl Observer for GroupOutcome {
    fn reached(&mut self, _: &PodRef, _: SearchStep) {}

    fn wants_group_attempts(&self) -> bool {
        true
    }

    fn group_decided(&mut self, report: &GroupReport) {
        self.0 = Some(report.clone());
    }
}

impl GroupQuestion {
    /// Whether what came of the group is what was explained. False if something else was tried, or other members of the group.
    pub(super) fn compare(&self, GroupOutcome(report): &GroupOutcome) -> Result<bool> {
        let Some(report) = report else { return Ok(false) };
        let is_same = (&report.namespace, &report.name) == (&self.namespace, &self.name);
        if !is_same || report.members.len() != self.attempt.n_tried {
            return Ok(false);
        }
        let verdict = match report.status.code() {
            Code::Success => "Fits",
            _ if report.waits_for_preemption => "FitsAfterPreemption",
            Code::Error => "Error",
            _ => "DoesNotFit",
        };
        let text = |status: &Status| match status.is_success() {
            true => String::new(),
            false => status.message(),
        };
        let preemption = report.preemption.as_ref().map(text).filter(|text| !text.is_empty());
        let chosen = report.chosen.as_deref().filter(|name| !name.is_empty());
        let became = (verdict, text(&report.status), chosen, preemption.as_deref());
        let GroupAttempt { verdict, message, chosen, preemption, .. } = &self.attempt;
        let explained = (*verdict, message.clone(), chosen.as_deref(), preemption.as_deref());
        let group = format!("{}/{}", self.namespace, self.name);
        ensure!(became == explained, "{group}: {became:?}, explained was {explained:?}");
        let became = report.attempts.iter().flat_map(|domain| &domain.members);
        let became = became.filter(|member| member.status.is_success()).count();
        let explained: usize =
            self.attempt.domains.iter().map(|domains| domains.count * domains.n_placed).sum();
        ensure!(
            became == explained,
            "{group}: {became} members get nodes in all domains, explained were {explained}"
        );
        Ok(true)
    }
}
