//! What becomes of the members of a group once it is decided: they are bound, or sent back to the queue.
//!
//! Behaviour: `docs/spec/podgroups.md` §8.

use std::sync::Arc;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_framework::{Command, CycleState, NominatingInfo, Status};
use kube_scheduler_queue::{ProfileId, QueuedPod};

use crate::attempt::Choice;
use crate::binding::{Placement, Trial};
use crate::budget::OverBudget;
use crate::core::Core;
use crate::effect::PodRef;
use crate::failure::{Failure, send_back};
use crate::group::condition::write_condition;
use crate::group::{Fit, Group, GroupWork, Outcome, PlacementOutcome, UNSCHEDULABLE};
use crate::policy::Entry;
use crate::turn::{AttemptResult, GroupTurn};

impl GroupWork<'_> {
    /// Binds the members, or sends them back; says how it ended for each.
    pub(crate) fn submit(
        mut self,
        group: Group,
        tried: PlacementOutcome,
    ) -> Vec<(PodRef, AttemptResult)> {
        let Group { namespace, name, profile, members, pods, .. } = group;
        let PlacementOutcome { mut outcomes, status, waits, order, not_before } = tried;
        if !self.later.as_slice().iter().all(is_about_queue) {
            let fits = outcomes.iter_mut().rev().filter_map(Outcome::fit_mut);
            fits.for_each(|fit| fit.leave(self.core));
        }
        let commands = std::mem::take(&mut self.later);
        self.bindings.carry_out(self.core, commands);
        let mut results = self.bind_together(&mut outcomes, &order);
        if results.is_empty() {
            let mut outcomes = outcomes.into_iter();
            let members = members.into_iter().map(|queued| (queued, outcomes.next()));
            for (queued, outcome) in in_order(members.collect(), &order) {
                let pod = PodRef::from(&*queued.entry().0);
                let result = match what_next(outcome, &status, waits) {
                    Ok(fit) => self.bind(queued, profile, fit),
                    Err(failure) => {
                        let failure = held_back(failure, not_before);
                        send_back(self.core, queued, profile, None, failure)
                    }
                };
                results.push((pod, result));
            }
        }
        if let Some(pod) = pods.first() {
            write_condition(self.core, PodRef::from(&**pod), (&namespace, &name), &status);
        }
        for id in self.started {
            self.preemptions.advance(self.core, self.bindings, id);
        }
        results
    }

    /// Binds the members if they have stayed on their nodes, which all do or none. If they cannot be bound together, they leave
    /// their nodes, and are to be bound one by one; nothing is said of them then.
    fn bind_together(
        &mut self,
        outcomes: &mut [Outcome],
        order: &[usize],
    ) -> Vec<(PodRef, AttemptResult)> {
        let kept = outcomes.iter_mut().filter_map(|it| it.fit_mut()?.on_node.as_mut());
        let mut kept: Vec<&mut Trial> = in_order(kept.collect(), order);
        if kept.is_empty() {
            return Vec::new();
        }
        let Some(commands) = self.bindings.ask_together(self.core, &mut kept) else {
            let outcomes = in_order(outcomes.iter_mut().collect(), order).into_iter();
            let fits = outcomes.rev().filter_map(Outcome::fit_mut);
            fits.for_each(|fit| fit.leave(self.core));
            return Vec::new();
        };
        let kept = in_order(outcomes.iter_mut().collect(), order).into_iter();
        let kept = kept.filter_map(|it| it.fit_mut()?.on_node.take());
        self.bindings.start_together(self.core, kept, commands)
    }

    fn bind(&mut self, queued: QueuedPod<Entry>, profile: ProfileId, fit: Fit) -> AttemptResult {
        let Fit { node, left, n_evaluated, n_feasible, .. } = fit;
        let state = left.map_or_else(CycleState::new, |state| *state);
        let choice = Choice { node, state, n_evaluated, n_feasible };
        self.bindings.start(self.core, Placement { queued, profile, choice })
    }
}

/// Sends all members back, because they cannot be tried together.
///
/// Parity: the reference writes no condition of the group then, so recorded histories are followed without it, as without what
/// [`group::waits`](crate::group::waits) says.
pub(crate) fn refuse_all(
    core: &mut Core,
    group: (&Arc<str>, &Arc<str>),
    members: Vec<QueuedPod<Entry>>,
    message: &str,
    turn: &mut GroupTurn,
) {
    let first = members.first().map(|queued| PodRef::from(&*queued.entry().0));
    for queued in members {
        let pod = PodRef::from(&*queued.entry().0);
        let Some(profile) = core.plans.profiles.of(&queued.entry().0) else {
            core.done(&pod.uid);
            continue;
        };
        let failure = Failure::Error(message.to_owned());
        turn.members.push((pod, send_back(core, queued, profile, None, failure)));
    }
    if let Some(first) = first.filter(|_| core.incomplete.are_reported()) {
        write_condition(core, first, group, &Status::error(message));
    }
}

/// Whether carrying it out runs no plugin that looks at nodes.
const fn is_about_queue(command: &Command) -> bool {
    matches!(
        command,
        Command::Activate(_) | Command::ActivateGroup { .. } | Command::CountPreemptionAttempts(_)
    )
}

/// Those that `order` names first, in its order.
fn in_order<T>(all: Vec<T>, order: &[usize]) -> Vec<T> {
    if order.is_empty() {
        return all;
    }
    let mut places: Vec<usize> = vec![order.len(); all.len()];
    for (place, at) in order.iter().enumerate() {
        if let Some(known) = places.get_mut(*at) {
            *known = place;
        }
    }
    let mut placed: Vec<(usize, T)> = places.into_iter().zip(all).collect();
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, it)| it).collect()
}

/// Has a member of a group that was too expensive wait as long as the group has to.
fn held_back(failure: Failure, not_before: Option<Timestamp>) -> Failure {
    match (failure, not_before) {
        (Failure::Error(message), Some(not_before)) => {
            Failure::OverBudget(OverBudget { message, not_before })
        }
        (Failure::OverBudget(over), Some(not_before)) => {
            let not_before = over.not_before.max(not_before);
            Failure::OverBudget(OverBudget { not_before, ..over })
        }
        (failure, _) => failure,
    }
}

/// Where a member is bound, or what it fails with.
fn what_next(outcome: Option<Outcome>, status: &Status, waits: bool) -> Result<Fit, Failure> {
    let is_error = !status.is_success() && !status.is_rejected();
    let verdict = |fit: &Fit| {
        let permit = fit.permit.reasons().map(str::to_owned);
        let reasons: Vec<String> = [UNSCHEDULABLE.to_owned()].into_iter().chain(permit).collect();
        Failure::Rejected(reasons.join(", "), NominatingInfo::Override(None))
    };
    Err(match outcome {
        Some(Outcome::Failed(failure)) if is_error && !failure.is_rejection() => failure,
        _ if is_error => Failure::Error(status.message()),
        Some(Outcome::Fits(fit)) if status.is_success() => return Ok(fit),
        Some(Outcome::Fits(fit)) if waits => {
            Failure::Rejected(status.message(), NominatingInfo::Override(Some(fit.node_name)))
        }
        Some(Outcome::Fits(fit)) => verdict(&fit),
        Some(Outcome::Preempts(fit, _)) if !waits && status.is_rejected() => verdict(&fit),
        Some(Outcome::Preempts(_, failure)) => *failure,
        Some(Outcome::Failed(failure)) => failure,
        None => Failure::Rejected(status.message(), NominatingInfo::Keep),
    })
}
