//! Carrying preemptions out: victims go, nominations that no longer hold are cleared, the preemptor waits.
//!
//! [`Preemptions`] owns every preemption as a [`Task`] of steps; the next step starts when every write of the one before has
//! been answered. In the background, the default, the attempt ends at once with its nomination, and the pod is not tried
//! again while its task runs: nominations first, then all victims but the last, then the last. In the foreground (gate
//! `SchedulerAsyncPreemption` off) the attempt itself waits for its victims, and no other pod is tried meanwhile.
//!
//! Invariants: a task ends, with or without error, once everything it sent out is answered; a victim's eviction is reported
//! only when it has succeeded; a pod is held back exactly while [`HeldPreemptors`] says so.
//!
//! Behaviour: `docs/spec/preemption.md` §7.

mod held;
mod table;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::diagnosis::FitError;
use kube_scheduler_api_types::well_known::DISRUPTION_TARGET;
use kube_scheduler_api_types::{KeyedMap, Pod};
use kube_scheduler_framework::{
    ApiError, Commands, EventKind, NominatedPods, NominatingInfo, PluginName,
};
use kube_scheduler_queue::{ProfileId, QueuedPod};

use self::table::{Errand, Step, Task, TaskTable};
use crate::binding::Bindings;
use crate::condition::{Condition, changed_condition};
use crate::core::{Core, PodEvent};
use crate::effect::{Effect, ObjectRef, PodRef, StatusPatch, Token};
use crate::failure::{Failure, send_back};
use crate::input::EvictionOutcome;
use crate::notice::{Notice, VictimEnd};
use crate::observer::Observer;
use crate::policy::Entry;

pub(crate) use self::held::HeldPreemptors;
pub(crate) use self::table::TaskId;

/// The name of the target where a pod group is the preemptor.
pub(crate) const GROUP_TARGET: &str = "cluster";

/// Where an attempt wants to make room, and which pods have to go for it.
#[derive(Debug)]
pub(crate) struct Plan {
    node: Arc<str>,
    /// Most important first, without those that are going already.
    victims: Vec<Arc<Pod>>,
    /// Those that are going already. They are reported, and not kept while the preemption goes on.
    terminating: Vec<Arc<Pod>>,
    plugin: PluginName,
}

/// A pod or a pod group for which pods have to go; a pod has no members and no object.
#[derive(Debug)]
pub(crate) struct Preemptor {
    /// The pod; for a group, one with the name, UID and priority of the group, and the scheduler of its members.
    pub(crate) identity: Arc<Pod>,
    pub(crate) members: Vec<Arc<Pod>>,
    /// The object of the group.
    pub(crate) object: Option<Arc<ObjectRef>>,
}

impl From<Arc<Pod>> for Preemptor {
    fn from(identity: Arc<Pod>) -> Self {
        Self { identity, members: Vec::new(), object: None }
    }
}

/// An attempt that waits for the end of its own preemption.
#[derive(Debug)]
pub(crate) struct HeldAttempt {
    pub(crate) queued: QueuedPod<Entry>,
    pub(crate) profile: ProfileId,
    pub(crate) error: Box<FitError>,
    pub(crate) commands: Commands,
}

/// All preemptions that are being carried out.
#[derive(Debug)]
pub(crate) struct Preemptions {
    tasks: TaskTable,
    /// Gangs that are planned as a whole and whose victims have not all gone.
    awaiting: Vec<AwaitingGroup>,
    /// By the UID of a preemptor, or of the members of one: how many preemptions in a row failed for it.
    failures: KeyedMap<Arc<str>, u32>,
    /// Whether they run beside attempts.
    pub(crate) is_in_background: bool,
}

/// Members that are tried once the last of these pods is gone.
#[derive(Clone, Debug)]
struct AwaitingGroup {
    victims: BTreeSet<Arc<str>>,
    members: Vec<Arc<Pod>>,
}

impl AwaitingGroup {
    /// Namespace and name of the group.
    fn gang(&self) -> Option<(&str, Option<&str>)> {
        let member = self.members.first()?;
        Some((&member.namespace, member.spec.pod_group.as_deref()))
    }
}

impl Preemptions {
    /// No preemptions; those to come run in the background, or hold their attempts.
    pub(crate) fn new(is_in_background: bool) -> Self {
        Self {
            tasks: TaskTable::default(),
            awaiting: Vec::new(),
            failures: KeyedMap::default(),
            is_in_background,
        }
    }

    /// The table of a copy of the engine: it has no preemption that is going on, but gangs still wait for the pods that are leaving.
    pub(crate) fn fork(&self) -> Self {
        let (awaiting, failures) = (self.awaiting.clone(), self.failures.clone());
        Self { tasks: self.tasks.fork(), awaiting, failures, ..Self::new(self.is_in_background) }
    }

    /// All pods that have to go, and the pods of attempts that wait for them.
    pub(crate) fn under_way(&self) -> (Vec<Arc<Pod>>, Vec<QueuedPod<Entry>>) {
        let victims = self.tasks.iter().flat_map(|task| &task.plan.victims).cloned().collect();
        let held = self.tasks.iter().filter_map(|task| task.held.as_ref());
        (victims, held.map(|held| held.queued.clone()).collect())
    }

    /// How many are being carried out.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// What is in which table, and how much of it.
    pub(crate) fn table_sizes(&self) -> impl Iterator<Item = (&'static str, usize)> + use<> {
        let awaiting = ("gangs that wait for victims to go", self.awaiting.len());
        let failures = ("preemptors whose last preemption failed", self.failures.len());
        self.tasks.sizes().into_iter().chain([awaiting, failures])
    }

    /// Whether an attempt waits for its preemption, and no other pod may be tried.
    pub(crate) const fn holds_an_attempt(&self) -> bool {
        self.tasks.holds_an_attempt()
    }

    /// What has to be done for an attempt that found `victims`, which the observer is shown; `None` when that is nothing: no
    /// victims, or in the background none that is not going already.
    pub(crate) fn plan(
        &self,
        observer: &mut dyn Observer,
        preemptor: &Pod,
        nominating: &NominatingInfo,
        victims: Vec<Arc<Pod>>,
        plugin: Option<PluginName>,
    ) -> Option<Plan> {
        let NominatingInfo::Override(Some(node)) = nominating else { return None };
        let shown: Vec<PodRef> = victims.iter().map(|victim| PodRef::from(&**victim)).collect();
        observer.preempting(&PodRef::from(preemptor), node, &shown);
        let n_victims = victims.len();
        let (victims, terminating): (Vec<_>, Vec<_>) =
            victims.into_iter().partition(|victim| victim.deletion_requested.is_none());
        let plugin = plugin.unwrap_or_default();
        // An attempt that is held goes on after its preemption, even if that has nothing to send.
        let n_to_do = if self.is_in_background { victims.len() } else { n_victims };
        (n_to_do > 0).then(|| Plan { node: node.clone(), victims, terminating, plugin })
    }

    /// Registers a preemption; [`advance`](Self::advance) sets it going. From here on the pod is held back, or all members of the
    /// pod group, unless the attempt is `held`.
    pub(crate) fn register(
        &mut self,
        core: &mut Core,
        preemptor: impl Into<Preemptor>,
        mut plan: Plan,
        held: Option<HeldAttempt>,
    ) -> TaskId {
        let terminating = std::mem::take(&mut plan.terminating);
        let n_victims = plan.victims.len() + terminating.len();
        core.counts.preemption_started(n_victims);
        let task = Task {
            preemptor: preemptor.into(),
            plan,
            step: None,
            steps_left: if held.is_some() { Step::FOR_HELD } else { Step::IN_BACKGROUND },
            n_out: 0,
            error: None,
            has_failed_to_evict: false,
            is_last_going: false,
            holds_preemptor: held.is_none(),
            started: core.now,
            held,
        };
        let id = self.tasks.insert(task, &mut core.held_back);
        let Some(task) = self.tasks.get(id) else { return id };
        for victim in &terminating {
            notice_victim(core, task, victim, VictimEnd::Terminating);
        }
        if task.held.is_none() {
            core.notices.add(2, || Notice::PreemptionStarted {
                preemptor: PodRef::from(&*task.preemptor.identity),
                node: task.plan.node.clone(),
                n_victims,
                n_to_delete: task.plan.victims.len(),
            });
        }
        id
    }

    /// Takes a preemption's next steps until one has to be waited for.
    pub(crate) fn advance(&mut self, core: &mut Core, bindings: &mut Bindings, id: TaskId) {
        while let Some(step) = self.tasks.next_step(id, &mut core.held_back) {
            match step {
                Some(Step::Nominations) => self.clear_nominations(core, id),
                Some(Step::Others | Step::Everybody) => {
                    for victim in self.tasks.victims(id) {
                        self.evict(core, bindings, id, &victim);
                    }
                }
                Some(Step::Last) => {
                    let Some(victim) = self.tasks.victims(id).pop() else { continue };
                    if bindings.can_stop(&victim.uid) {
                        // What the victim gives back in memory is an event at once, and nothing else would bring the
                        // preemptor back: it must not be held back any more when the event comes.
                        self.tasks.release(id, &mut core.held_back);
                    }
                    self.evict(core, bindings, id, &victim);
                }
                None => return self.end(core, bindings, id),
            }
        }
    }

    /// Notes that a pod is gone or is being deleted. It may be the last victim of a preemption.
    pub(crate) fn pod_goes(&mut self, core: &mut Core, uid: &str) {
        self.tasks.pod_goes(uid, &mut core.held_back);
    }

    /// A pod has a node, or is gone: how often preemption for it failed is of no concern any more.
    pub(crate) fn forget_failures(&mut self, uid: &str) {
        self.failures.remove(uid);
    }

    /// A pod is gone. A gang for which it had to go, and which waits for no other, is tried.
    pub(crate) fn pod_is_gone(&mut self, core: &mut Core, uid: &str) {
        self.forget_failures(uid);
        for group in self.awaiting.extract_if(.., |group| {
            group.victims.remove(uid);
            group.victims.is_empty()
        }) {
            core.activate(group.members);
        }
    }

    /// A victim's eviction was answered.
    pub(crate) fn pod_evicted(
        &mut self,
        core: &mut Core,
        bindings: &mut Bindings,
        token: Token,
        result: Result<EvictionOutcome, ApiError>,
    ) {
        let Some((id, Errand::Evict(victim))) = self.tasks.redeem(token) else { return };
        let Some(task) = self.tasks.get(id) else { return };
        match result {
            Ok(EvictionOutcome::Deleted) => {
                report_eviction(core, task, &victim, VictimEnd::Evicted);
            }
            Ok(EvictionOutcome::AlreadyGone) => {
                notice_victim(core, task, &victim, VictimEnd::AlreadyGone);
            }
            Err(error) => self.tasks.failed(id, error, true),
        }
        self.advance(core, bindings, id);
    }

    /// The withdrawal of a nomination was answered.
    pub(crate) fn nomination_cleared(
        &mut self,
        core: &mut Core,
        bindings: &mut Bindings,
        token: Token,
        result: Result<(), ApiError>,
    ) {
        let Some((id, Errand::ClearNomination)) = self.tasks.redeem(token) else { return };
        if let Err(error) = result {
            core.note(format!(
                "cannot clear the nominatedNodeName of a lower priority pod on the same node: {error}"
            ));
            self.tasks.failed(id, error, false);
        }
        self.advance(core, bindings, id);
    }

    /// Pods of lower priority that are nominated to the node may not fit there any more; without their nomination they
    /// look for another place (`docs/spec/preemption.md` §7.4).
    fn clear_nominations(&mut self, core: &mut Core, id: TaskId) {
        let Some(task) = self.tasks.get(id) else { return };
        let priority = task.preemptor.identity.priority();
        let mut nominated = core.queue().nominated_pods(&task.plan.node);
        nominated.retain(|pod| {
            pod.priority() < priority
                && pod.nominated_node_name().is_some_and(|node| !node.is_empty())
        });
        for pod in nominated {
            let token = self.tasks.send(id, Errand::ClearNomination);
            core.effects.push(Effect::ClearNomination { token, pod: PodRef::from(&*pod) });
        }
    }

    /// Evicts one victim: in memory if it is not bound yet, else through the API server.
    fn evict(&mut self, core: &mut Core, bindings: &mut Bindings, id: TaskId, victim: &Arc<Pod>) {
        let Some(task) = self.tasks.get(id) else { return };
        if let Some(end) = bindings.stop(core, &victim.uid, &task.plan.plugin) {
            return report_eviction(core, task, victim, end);
        }
        let scheduler = &task.preemptor.identity.spec.scheduler_name;
        let noun = task.noun();
        let message = format!("{scheduler}: preempting to accommodate a higher priority {noun}");
        let condition = Condition {
            kind: DISRUPTION_TARGET,
            status: "True",
            reason: "PreemptionByScheduler",
            message: &message,
        };
        let patch =
            changed_condition((&victim.status.conditions, victim.generation), condition, core.now)
                .map(|condition| StatusPatch {
                    condition: Some(condition),
                    nominated_node_name: None,
                    has_conditions: !victim.status.conditions.is_empty(),
                });
        let token = self.tasks.send(id, Errand::Evict(victim.clone()));
        core.effects.push(Effect::EvictPod { token, pod: PodRef::from(&**victim), patch });
    }

    fn end(&mut self, core: &mut Core, bindings: &mut Bindings, id: TaskId) {
        let Some(task) = self.tasks.remove(id, &mut core.held_back) else { return };
        let Task { preemptor, plan, error, has_failed_to_evict, started, held, .. } = task;
        let Preemptor { identity: preemptor, members, .. } = preemptor;
        let Plan { node, victims, .. } = plan;
        if let Some(held) = held {
            let error = error.filter(|_| has_failed_to_evict);
            return end_held(core, bindings, held, node, error);
        }
        core.notices.add(2, || Notice::PreemptionEnded {
            preemptor: PodRef::from(&*preemptor),
            node: node.clone(),
            is_error: error.is_some(),
        });
        core.counts.preemption_ended(error.is_some(), core.now.saturating_since(started));
        if let Some(error) = error {
            let key = preemptor.key();
            core.note(format!("error occurred during async preemption for pod {key}: {error}"));
            let pods = if members.is_empty() { vec![preemptor] } else { members };
            return self.try_again(core, pods);
        }
        for pod in members.iter().chain([&preemptor]) {
            self.failures.remove(&pod.uid);
        }
        // Parity: when the last victims went before it was their turn, their events found the pod held back, and the
        // reference leaves it parked until the next event. Nothing else has to be waited for, so it is tried.
        let is_group = !members.is_empty();
        let mut held_back = if is_group { members } else { vec![preemptor] };
        held_back.retain(|pod| {
            let queued = core.queue().get(&pod.namespace, &pod.name);
            queued.is_some_and(QueuedPod::is_gated)
        });
        let mut left: BTreeSet<Arc<str>> = victims.iter().map(|it| it.uid.clone()).collect();
        left.retain(|uid| core.cluster.pod(uid).is_some());
        if left.is_empty() {
            core.activate(held_back);
        } else if is_group && core.plans.groups.plans_gangs_exactly && !held_back.is_empty() {
            // No plugin is to blame for a plan that does not exist, so no plugin's event would wake the members.
            let awaiting = AwaitingGroup { victims: left, members: held_back };
            // An earlier plan of the same gang is void.
            self.awaiting.retain(|other| other.gang() != awaiting.gang());
            self.awaiting.push(awaiting);
        }
    }
}

impl Preemptions {
    /// A preemption for these pods has failed: without this they might wait for an event that never comes.
    ///
    /// Parity: the reference always tries them again at once. Some victims can never be evicted, for example because the API server
    /// refuses it each time; then one attempt follows the other, each with a search for victims. Here only the first failure is
    /// followed at once by another attempt, and each further one in a row by a longer backoff.
    fn try_again(&mut self, core: &mut Core, pods: Vec<Arc<Pod>>) {
        let mut most = 0;
        for pod in &pods {
            // Of those that are gone nothing is kept.
            let queued = core.queue().get(&pod.namespace, &pod.name);
            if queued.is_some_and(|queued| queued.entry().0.uid == pod.uid) {
                let n_failures = self.failures.entry(pod.uid.clone()).or_default();
                *n_failures = n_failures.saturating_add(1);
                most = most.max(*n_failures);
            }
        }
        match most {
            0 | 1 => core.activate(pods),
            n_failures => core.back_off(pods, n_failures - 1),
        }
    }
}

/// For the log: how the eviction of a victim ended.
fn notice_victim(core: &mut Core, task: &Task, victim: &Pod, end: VictimEnd) {
    core.notices.add(2, || Notice::VictimGone {
        preemptor_type: task.noun(),
        preemptor: PodRef::from(&*task.preemptor.identity),
        victim: PodRef::from(victim),
        node: task.plan.node.clone(),
        end,
    });
}

fn report_eviction(core: &mut Core, task: &Task, victim: &Pod, end: VictimEnd) {
    notice_victim(core, task, victim, end);
    let how = match end {
        VictimEnd::RejectedOnPermit | VictimEnd::RejectedInPreBind => {
            " (in kube-scheduler memory)."
        }
        _ => "",
    };
    let (noun, preemptor, node) = (task.noun(), &task.preemptor.identity, &task.plan.node);
    let event = PodEvent {
        kind: EventKind::Normal,
        reason: "Preempted".into(),
        action: "Preempting".into(),
        // Quirk: the reference's message has the preemptor's UID here, not its name.
        note: format!("Preempted by {noun} {} on node {node}{how}", preemptor.uid),
        reporting: preemptor.spec.scheduler_name.clone(),
        // Parity: of a pod that preempts the reference makes no reference, as its own type for it is no API type.
        related: task.preemptor.object.clone(),
    };
    core.record(victim, event);
}

/// The preemption is over that an attempt waited for, so the attempt ends too: with its nomination, or if a victim could
/// not be evicted, with what went wrong.
fn end_held(
    core: &mut Core,
    bindings: &mut Bindings,
    held: HeldAttempt,
    node: Arc<str>,
    eviction_error: Option<ApiError>,
) {
    let HeldAttempt { queued, profile, mut error, commands } = held;
    let nominating = match eviction_error {
        Some(reason) => {
            error.diagnosis.post_filter_message = format!("preemption: {reason}");
            NominatingInfo::Keep
        }
        None => NominatingInfo::Override(Some(node)),
    };
    let failure = Failure::Unfit(error, nominating);
    send_back(core, queued, profile, None, failure);
    bindings.carry_out(core, commands);
}
