//! What happens when an attempt fails: back to the queue, an event, a condition.
//!
//! Behaviour: `docs/spec/core.md` §8.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_framework::{NominatingInfo, PluginName, Status};
use kube_scheduler_queue::{Nomination, ProfileId, QueuedPod};

use crate::budget::OverBudget;
use crate::core::{Core, PodEvent};
use crate::diagnosis::FitError;
use crate::effect::{Effect, PodRef};
use crate::group::membership::regroup;
use crate::group::waits::member_has_come;
use crate::policy::Entry;
use crate::status_change::status_patch;
use crate::turn::AttemptResult;

/// Why an attempt ended without success.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The pod fits nowhere: plugins are to blame, and their events will bring it back.
    Unfit(Box<FitError>, NominatingInfo),
    /// The pod was rejected, and no plugin is to blame; it comes back after its backoff.
    Rejected(String, NominatingInfo),
    /// Something broke; it comes back after its backoff.
    Error(String),
    /// The attempt would cost too much; the pod comes back at the time given.
    OverBudget(OverBudget),
}

impl Failure {
    /// Whether the pod was rejected, as opposed to something that broke.
    pub(crate) const fn is_rejection(&self) -> bool {
        matches!(self, Self::Unfit(..) | Self::Rejected(..))
    }

    /// Why the attempt failed.
    fn message(&self) -> String {
        match self {
            Self::Unfit(error, _) => error.to_string(),
            Self::Rejected(message, _)
            | Self::Error(message)
            | Self::OverBudget(OverBudget { message, .. }) => message.clone(),
        }
    }

    /// The same as a status.
    pub(crate) fn status(&self) -> Status {
        match self.is_rejection() {
            true => Status::unschedulable(self.message()),
            false => Status::error(self.message()),
        }
    }

    /// The plugins to blame, by name; none if nothing brings the pod back but time.
    pub(crate) fn rejectors(&self) -> Vec<PluginName> {
        match self {
            Self::Unfit(error, _) => {
                error.diagnosis.unschedulable_plugins.iter().cloned().collect()
            }
            _ => Vec::new(),
        }
    }

    /// A failure after the node was chosen: a rejection is that node's alone.
    pub(crate) fn on_chosen_node(status: Status) -> Self {
        if status.is_rejected() {
            Self::Unfit(Box::new(FitError::on_chosen_node(&status)), NominatingInfo::Override(None))
        } else {
            Self::from(status)
        }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        if status.is_rejected() {
            Self::Rejected(status.message(), NominatingInfo::Override(None))
        } else {
            Self::Error(status.message())
        }
    }
}

/// Sends the pod of an attempt that ended without success back to the queue, and reports why (`docs/spec/core.md` §8). `assumed` is
/// the pod with its node filled in, if it got that far.
pub(crate) fn send_back(
    core: &mut Core,
    mut queued: QueuedPod<Entry>,
    profile: ProfileId,
    assumed: Option<Arc<Pod>>,
    failure: Failure,
) -> AttemptResult {
    let attempted = assumed.unwrap_or_else(|| queued.entry().0.clone());
    let (message, is_rejected) = (failure.message(), failure.is_rejection());
    let nominating = match &failure {
        Failure::Unfit(_, nominating) | Failure::Rejected(_, nominating) => nominating.clone(),
        Failure::Error(_) | Failure::OverBudget(_) => NominatingInfo::Override(None),
    };
    queued.clear_rejectors();
    let not_before = match &failure {
        Failure::OverBudget(over) => Some(over.not_before),
        Failure::Unfit(error, _) => error.not_before,
        _ => None,
    };
    if let Some(not_before) = not_before {
        queued.wait_until(not_before);
    }
    if let Failure::Unfit(error, _) = &failure {
        core.with_queue(|queue, _| {
            for name in &error.diagnosis.unschedulable_plugins {
                queued.add_unschedulable_plugin(queue.intern_plugin(name));
            }
            for name in &error.diagnosis.pending_plugins {
                queued.add_pending_plugin(queue.intern_plugin(name));
            }
        });
    }
    core.counts.failed(profile, is_rejected);
    let result = if is_rejected {
        AttemptResult::Unschedulable(message.clone())
    } else {
        AttemptResult::Error(message.clone())
    };
    let known = core.pods.get(&attempted.namespace, &attempted.name).cloned();
    let about = match known {
        // Another pod has taken the name, and nothing of this attempt concerns it.
        Some(pod) if pod.uid != attempted.uid => {
            core.done(&attempted.uid);
            return result;
        }
        // The queue gets the newest state, as the pod may have changed during its attempt.
        Some(known) if !known.is_assigned() => {
            let pod = regroup(core, known.clone());
            // What is replaced is signed again. Most pods are as they were, and their signatures known.
            let signature = queued.signature();
            let is_signed = signature.is_some_and(|signature| core.signatures.is_recent(signature));
            if !(is_signed && Arc::ptr_eq(&pod, &queued.entry().0)) {
                queued.replace_entry(Entry(pod.clone()));
            }
            core.requeue(queued);
            if !Arc::ptr_eq(&pod, &known) {
                member_has_come(core, &pod);
            }
            pod
        }
        // Gone, or placed by another scheduler: there is nothing to retry, but what happened is still reported.
        _ => {
            core.done(&attempted.uid);
            attempted
        }
    };
    // The nomination comes after the pod is in the queue again, which has a say in what its nomination is.
    nominate(core, &about, &nominating);
    let reporting = &core.plans.profiles[profile].scheduler_name;
    core.record(&about, PodEvent::failed_scheduling(&message, reporting));
    let reason = if is_rejected { "Unschedulable" } else { "SchedulerError" };
    if let Some(patch) = status_patch(&about, reason, &message, &nominating, core.now) {
        let pod = PodRef::from(&*about);
        core.effects.push(Effect::PatchStatus { pod, patch, is_announcement: false });
    }
    result
}

fn nominate(core: &mut Core, pod: &Arc<Pod>, nominating: &NominatingInfo) {
    let nomination = match nominating {
        NominatingInfo::Keep => Nomination::Noop,
        NominatingInfo::Override(node) => Nomination::Override(node.as_deref().unwrap_or_default()),
    };
    core.with_queue(|queue, policy| queue.nominate(&Entry(pod.clone()), nomination, policy));
}
