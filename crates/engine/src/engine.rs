//! The engine itself: one value that owns all state, fed with inputs and time, giving effects.
//!
//! Four kinds of methods: [`handle`](Engine::handle) takes what happened; [`schedule_next`](Engine::schedule_next) decides
//! about one pod; [`drain_effects`](Engine::drain_effects) gives what must be done; everything else only tells. `now`
//! must never go back from one call to the next.

use std::collections::VecDeque;
use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_config::Gate;
use kube_scheduler_framework::{
    ClusterEvent, ClusterState, Command, Commands, Context, EventKind, EventObject, Profile,
    Runner, Sources, Status,
};
use kube_scheduler_queue::{PendingCounts, QueuedPod};

use crate::attempt::{Choice, NO_NODES, NoChoice, Search, Unfit};
use crate::binding::{Bindings, expect_objects};
use crate::build::EngineOptions;
use crate::class_cache::{ClassCache, Signatures};
use crate::counts::{BoundPod, Counts, PreemptionCounts, ProfileCounts};
use crate::effect::{Effect, PodRef};
use crate::failure::{Failure, Nominating, truncated};
use crate::guard::guarded;
use crate::input::Input;
use crate::measures::Measures;
use crate::observer::{Observer, SearchStep, Unobserved, Watched};
use crate::pods::PodIndex;
use crate::policy::{Entry, NominatingQueue, Plans, Policy, Queue};
use crate::pool::Pool;
use crate::preemption::{HeldAttempt, Plan, Preemptions};
use crate::turn::{AttemptResult, Turn};

/// How many notes are kept when nobody fetches them.
const MAX_NOTES: usize = 256;

/// The scheduler without its shell.
#[derive(Debug)]
pub struct Engine {
    pub(crate) plans: Plans,
    pub(crate) queue: NominatingQueue,
    pub(crate) cluster: ClusterState,
    pub(crate) pods: PodIndex,
    pub(crate) bindings: Bindings,
    pub(crate) preemptions: Preemptions,
    pub(crate) effects: Vec<Effect>,
    /// What plugins asked for and nobody has done yet.
    asked: VecDeque<Command>,
    is_carrying_out: bool,
    pub(crate) counts: Counts,
    pub(crate) measures: Measures,
    pub(crate) pool: Pool,
    signatures: Signatures,
    classes: ClassCache,
    uses_class_cache: bool,
    /// Whether plugins after Score read the cycle state of every pod, by profile.
    keeps_state: Vec<bool>,
    /// Whether pods are nominated to their node early.
    pub(crate) announces: bool,
    /// Whether victims are evicted in the background.
    preempts_in_background: bool,
    percentage: Option<i32>,
    next_start: usize,
    seed: u64,
    cycle: u64,
    notes: Vec<String>,
}

impl Engine {
    pub(crate) fn assemble(
        plans: Plans,
        queue: Queue,
        cluster: ClusterState,
        counts: Counts,
        percentage: Option<i32>,
        options: EngineOptions,
    ) -> Self {
        let keeps_state = plans.profiles.iter().map(reads_state_after_score).collect();
        Self {
            plans,
            queue: NominatingQueue(queue),
            cluster,
            pods: PodIndex::default(),
            bindings: Bindings::default(),
            preemptions: Preemptions::default(),
            effects: Vec::new(),
            asked: VecDeque::new(),
            is_carrying_out: false,
            measures: Measures::new(options.timer, counts.keeps_bound),
            counts,
            pool: options.pool,
            signatures: Signatures::default(),
            classes: ClassCache::default(),
            uses_class_cache: options.uses_class_cache,
            keeps_state,
            announces: options.gates.is_enabled(Gate::NominatedNodeNameForExpectation),
            preempts_in_background: options.gates.is_enabled(Gate::SchedulerAsyncPreemption),
            percentage,
            next_start: 0,
            seed: options.seed,
            cycle: 0,
            notes: Vec::new(),
        }
    }

    /// Takes in what happened.
    pub fn handle(&mut self, input: Input, now: Timestamp) {
        self.let_time_pass(now);
        self.measures.input_begun();
        match input {
            Input::PodApplied(pod) => self.pod_applied(pod, now),
            Input::PodDeleted { namespace, name } => self.pod_deleted(&namespace, &name, now),
            Input::NodeApplied(node) => self.node_applied(node, now),
            Input::NodeDeleted { name } => self.node_deleted(&name, now),
            Input::ObjectApplied(object) => self.object_applied(object, now),
            Input::ObjectDeleted(object) => self.object_deleted(&object, now),
            Input::BindingWritten { token, result } => {
                let status = result.map_or_else(Status::error, |()| Status::SUCCESS);
                self.work_finished(token, status, now);
            }
            Input::WorkFinished { token, status } => self.work_finished(token, status, now),
            Input::ObjectWritten { token, result } => self.object_written(token, result, now),
            Input::PodEvicted { token, result } => self.pod_evicted(token, result, now),
            Input::NominationCleared { token, result } => {
                self.nomination_cleared(token, result, now)
            }
            Input::PluginAsked(commands) => self.carry_out(commands, now),
            Input::TimePassed => {}
        }
    }

    /// Decides about the next pod; `None` when none is ready, or when the last attempt still waits for its victims.
    pub fn schedule_next(&mut self, now: Timestamp) -> Option<Turn> {
        self.next_turn(None, &mut Unobserved, now)
    }

    /// As [`schedule_next`](Self::schedule_next), and tells `observer` of the steps while they happen.
    pub fn schedule_next_observed(
        &mut self,
        observer: &mut dyn Observer,
        now: Timestamp,
    ) -> Option<Turn> {
        self.next_turn(None, observer, now)
    }

    /// As [`schedule_next`](Self::schedule_next), but follows a recorded decision: a pod that fits anywhere is placed on
    /// `node`, whatever the engine itself would have chosen; [`Turn::chosen`] tells that. Whether the pod fits there is
    /// not checked. A node that does not exist is not followed.
    pub fn schedule_next_onto(&mut self, node: &str, now: Timestamp) -> Option<Turn> {
        self.next_turn(Some(node), &mut Unobserved, now)
    }

    fn next_turn(
        &mut self,
        recorded: Option<&str>,
        observer: &mut dyn Observer,
        now: Timestamp,
    ) -> Option<Turn> {
        self.let_time_pass(now);
        if self.preemptions.holds_an_attempt() {
            return None;
        }
        let queued = self.pop(now)?;
        let pod = queued.entry().0.clone();
        let mut turn = Turn {
            pod: PodRef::from(&*pod),
            profile: pod.spec.scheduler_name.clone(),
            result: AttemptResult::Skipped,
            attempts: queued.attempts(),
            first_attempt: queued.initial_attempt_timestamp(),
            n_feasible: 0,
            n_evaluated: 0,
            chosen: None,
        };
        let Some(profile) = self.profile_of(&pod) else {
            self.note(format!(
                "profile not found for scheduler name \"{}\"",
                pod.spec.scheduler_name
            ));
            self.queue.done(&pod.uid);
            return Some(turn);
        };
        if self.must_skip(&pod, profile) {
            self.queue.done(&pod.uid);
            return Some(turn);
        }
        let watched = Watched::new(&turn.pod, observer);
        self.cycle += 1;
        if let Some(meter) = self.plans.profiles[profile].meter() {
            meter.begin_cycle();
        }
        self.cluster.refresh_order();
        // A panic may leave an evaluation half done, but never the cluster: searching does not change it.
        // A kept evaluation reads nothing that would have to be followed; if it turns out to be stale, what is not followed is
        // counted by a scan, with the same result.
        let class = queued.signature().filter(|_| self.uses_class_cache);
        let is_kept = class.is_some_and(|class| self.classes.contains(class));
        if let Some(class) = class {
            self.cluster.keep_following(self.classes.counters(class));
        }
        let found = if is_kept { Ok(()) } else { self.follow_for(&pod, profile, now) };
        let found = found.and_then(|()| guarded(|| self.search(&queued, profile, &watched, now)));
        watched.reached(SearchStep::Ended);
        let found = found.unwrap_or_else(|panic| {
            self.classes.clear();
            Err(NoChoice::Broken(panic))
        });
        turn.result = match found {
            Ok(mut choice) => {
                turn.chosen = self.cluster.node_name(choice.node).cloned();
                if let Some(node) = recorded.and_then(|name| self.cluster.node_idx(name)) {
                    choice.node = node;
                }
                turn.n_feasible = choice.n_feasible;
                turn.n_evaluated = choice.n_evaluated;
                self.start_binding(queued, profile, choice, now)
            }
            Err(NoChoice::NoNodes) => {
                self.fail(queued, None, profile, Failure::Rejected(NO_NODES.to_owned()), now)
            }
            Err(NoChoice::Broken(status)) => {
                self.fail(queued, None, profile, Failure::Error(status.message()), now)
            }
            Err(NoChoice::Unfit(unfit)) => {
                turn.n_evaluated = unfit.error.n_nodes;
                self.unfit(queued, profile, *unfit, now)
            }
        };
        Some(turn)
    }

    /// The pod fits nowhere: back it goes to the queue, and its victims, if there are any, out of its way.
    fn unfit(
        &mut self,
        queued: QueuedPod<Entry>,
        profile: usize,
        unfit: Unfit,
        now: Timestamp,
    ) -> AttemptResult {
        let Unfit { error, nominating, victims, found_by, commands } = unfit;
        let pod = queued.entry().0.clone();
        let nominating = Nominating::from(nominating);
        let plan = Plan::new(&nominating, victims, found_by, self.preempts_in_background);
        match plan {
            Some(plan) if !self.preempts_in_background => {
                let result = AttemptResult::Unschedulable(error.to_string());
                let held = HeldAttempt { queued, profile, error, commands };
                let id = self.begin_preemption(pod, plan, Some(held), now);
                self.advance_preemption(id, now);
                result
            }
            plan => {
                let begun = plan.map(|plan| self.begin_preemption(pod, plan, None, now));
                let failure = Failure::Unfit(error, nominating);
                let result = self.fail(queued, None, profile, failure, now);
                self.carry_out(commands, now);
                if let Some(id) = begun {
                    self.advance_preemption(id, now);
                }
                result
            }
        }
    }

    /// Whether a pod is ready to be tried.
    pub fn has_ready(&self) -> bool {
        !self.preemptions.holds_an_attempt() && self.queue.has_ready()
    }

    /// When something will happen by itself; hand in [`Input::TimePassed`] then.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        match (self.queue.next_deadline(), self.bindings.next_deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// What must be done, in order.
    pub fn drain_effects(&mut self) -> impl Iterator<Item = Effect> + '_ {
        self.effects.drain(..)
    }

    /// Oddities worth a line in a log, oldest first.
    pub fn drain_notes(&mut self) -> impl Iterator<Item = String> + '_ {
        self.notes.drain(..)
    }

    /// The cluster as the engine knows it.
    pub fn cluster(&self) -> &ClusterState {
        &self.cluster
    }

    /// The profiles in the order of configuration.
    pub fn profiles(&self) -> &[Profile] {
        &self.plans.profiles
    }

    /// The queue, to look at.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// How many pods are where in the queue.
    pub fn pending_counts(&self) -> PendingCounts {
        self.queue.pending_counts()
    }

    /// How many pods are on their way to their node.
    pub fn n_binding(&self) -> usize {
        self.bindings.len()
    }

    /// How many preemptions are being carried out.
    pub fn n_preempting(&self) -> usize {
        self.preemptions.len()
    }

    /// How many pods the engine knows, pending and assigned.
    pub fn n_known_pods(&self) -> usize {
        self.pods.len()
    }

    /// Every pod as last seen from the API server, in no particular order: whoever shows them sorts them.
    pub fn known_pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.iter()
    }

    /// Attempts by profile and outcome.
    pub fn profile_counts(&self) -> &[ProfileCounts] {
        &self.counts.profiles
    }

    /// Pods bound since the last call, if the engine keeps them.
    pub fn drain_bound(&mut self) -> impl Iterator<Item = BoundPod> + '_ {
        self.counts.bound.drain(..)
    }

    /// Attempts at preemption so far, and the preemptions since the last call, if the engine keeps them.
    pub fn drain_preemption_counts(&mut self) -> PreemptionCounts {
        let preemptions = &mut self.counts.preemptions;
        PreemptionCounts {
            n_attempts: preemptions.n_attempts,
            victims: std::mem::take(&mut preemptions.victims),
            ended: std::mem::take(&mut preemptions.ended),
        }
    }

    /// How often an evaluation was brought up to date, and how often one was made from scratch.
    pub fn class_cache_counts(&self) -> (u64, u64) {
        (self.classes.hits, self.classes.misses)
    }

    /// How many signatures and how many evaluations are kept.
    pub(crate) fn class_table_sizes(&self) -> (usize, usize) {
        (self.signatures.len(), self.classes.len())
    }

    /// The profile that schedules a pod, by position.
    pub(crate) fn profile_of(&self, pod: &Pod) -> Option<usize> {
        self.plans
            .profiles
            .iter()
            .position(|profile| profile.scheduler_name == pod.spec.scheduler_name)
    }

    /// What plugins may look at.
    pub(crate) fn context(&self, now: Timestamp) -> Context<'_> {
        self.sources(now).unrecorded()
    }

    /// What plugins' contexts read from.
    pub(crate) fn sources(&self, now: Timestamp) -> Sources<'_> {
        Sources {
            cluster: &self.cluster,
            pods: &self.pods,
            waiting: &self.bindings,
            nominated: &self.queue,
            preemptions: &self.preemptions,
            now,
        }
    }

    /// Lends the queue together with the engine's answers to it.
    pub(crate) fn with_queue<T>(
        &mut self,
        now: Timestamp,
        work: impl FnOnce(&mut Queue, &mut Policy<'_>) -> T,
    ) -> T {
        let mut policy = Policy {
            plans: &self.plans,
            cluster: &self.cluster,
            pods: &self.pods,
            waiting: &self.bindings,
            preemptions: &self.preemptions,
            signatures: &mut self.signatures,
            measures: &mut self.measures,
            gates_begun: None,
            now,
        };
        work(&mut self.queue, &mut policy)
    }

    pub(crate) fn move_all(
        &mut self,
        event: &ClusterEvent,
        old: Option<&EventObject>,
        new: Option<&EventObject>,
        now: Timestamp,
    ) {
        self.with_queue(now, |queue, policy| queue.move_all(event, old, new, now, policy));
    }

    /// As [`move_all`](Self::move_all), for everybody but the pod that caused it.
    pub(crate) fn move_all_but(
        &mut self,
        event: &ClusterEvent,
        old: &EventObject,
        uid: &str,
        now: Timestamp,
    ) {
        self.with_queue(now, |queue, policy| {
            queue.move_all_if(event, Some(old), None, |entry| *entry.0.uid != *uid, now, policy)
        });
    }

    /// Hands a failed pod back to the queue.
    pub(crate) fn requeue(&mut self, queued: QueuedPod<Entry>, now: Timestamp) {
        let result = self.with_queue(now, |queue, policy| {
            queue.add_unschedulable_if_not_present(queued, now, policy)
        });
        if let Err(error) = result {
            self.note(error.to_string());
        }
    }

    /// Does what plugins asked for. What this makes plugins ask for in turn comes after it, not inside of it: a plugin that
    /// turns down a thousand pods because one gave up must not need a thousand frames of the stack.
    pub(crate) fn carry_out(&mut self, commands: Commands, now: Timestamp) {
        self.asked.extend(commands.into_vec());
        if self.is_carrying_out {
            return;
        }
        self.is_carrying_out = true;
        while let Some(command) = self.asked.pop_front() {
            self.carry_out_one(command, now);
        }
        self.is_carrying_out = false;
    }

    fn carry_out_one(&mut self, command: Command, now: Timestamp) {
        match command {
            Command::Allow { uid, plugin } => self.allow(&uid, &plugin, now),
            Command::Reject { uid, plugin, message } => {
                self.reject_waiting(&uid, &plugin, message.into(), now);
            }
            Command::AssumeObject(_) | Command::RestoreObject(_) => {
                let refused = expect_objects(&mut self.cluster, [command]);
                refused.into_iter().for_each(|refused| self.note(refused));
            }
            Command::Activate(pods) => {
                let entries: Vec<Entry> = pods.into_iter().map(Entry).collect();
                self.with_queue(now, |queue, policy| queue.activate(&entries, now, policy));
            }
            Command::RecordEvent { pod, kind, reason, action, note } => {
                self.effects.push(Effect::RecordEvent {
                    pod: PodRef::from(&*pod),
                    resource_version: pod.resource_version.clone(),
                    kind,
                    reason: reason.to_string().into(),
                    action: action.to_string().into(),
                    note: truncated(&note),
                    reporting: pod.spec.scheduler_name.clone(),
                });
            }
            Command::CountPreemptionAttempt => self.counts.preemptions.n_attempts += 1,
            other => self.note(format!("command not understood: {other:?}")),
        }
    }

    /// Keeps a line for the log.
    pub(crate) fn note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(note);
        }
    }

    fn let_time_pass(&mut self, now: Timestamp) {
        self.expire_waits(now);
        self.wake_due_tasks(now);
        self.with_queue(now, |queue, policy| queue.flush_due(now, policy));
    }

    fn pop(&mut self, now: Timestamp) -> Option<QueuedPod<Entry>> {
        self.with_queue(now, |queue, policy| queue.pop(policy))
    }

    /// Pods that are going away or placed already need no attempt.
    fn must_skip(&mut self, pod: &Arc<Pod>, profile: usize) -> bool {
        if pod.deletion_requested.is_some() {
            let reporting = self.plans.profiles[profile].scheduler_name.clone();
            self.effects.push(Effect::RecordEvent {
                pod: PodRef::from(&**pod),
                resource_version: pod.resource_version.clone(),
                kind: EventKind::Warning,
                reason: "FailedScheduling".into(),
                action: "Scheduling".into(),
                note: format!("skip schedule deleting pod: {}/{}", pod.namespace, pod.name),
                reporting,
            });
            return true;
        }
        self.cluster.is_assumed(&pod.uid)
    }

    /// Has the cluster keep what the plugins will read about a pod. The error is a plugin's panic.
    pub(crate) fn follow_for(
        &mut self,
        pod: &Pod,
        profile: usize,
        now: Timestamp,
    ) -> Result<(), Status> {
        let runner = Runner::new(&self.plans.profiles[profile], self.sources(now));
        let following = guarded(|| runner.following(pod))?;
        following.apply(&mut self.cluster);
        Ok(())
    }

    fn search(
        &mut self,
        queued: &QueuedPod<Entry>,
        profile: usize,
        watched: &Watched<'_>,
        now: Timestamp,
    ) -> Result<Choice, NoChoice> {
        let cx = Sources {
            cluster: &self.cluster,
            pods: &self.pods,
            waiting: &self.bindings,
            nominated: &self.queue,
            preemptions: &self.preemptions,
            now,
        };
        let plan = &self.plans.profiles[profile];
        let search = Search {
            runner: Runner::new(plan, cx),
            extenders: &self.plans.extenders,
            pool: &self.pool,
            classes: &mut self.classes,
            pod: &queued.entry().0,
            class: queued.signature().filter(|_| self.uses_class_cache),
            // A profile's 0 is not overruled by the global share.
            percentage: plan
                .percentage_of_nodes_to_score
                .or(self.percentage)
                .filter(|share| *share > 0),
            next_start: &mut self.next_start,
            keeps_state: self.keeps_state[profile] || reads_state_of(plan, &queued.entry().0),
            random: mixed(self.seed, self.cycle),
            watched,
        };
        search.run()
    }
}

/// Whether Reserve or PreBind read for this pod what was stored before.
fn reads_state_of(profile: &Profile, pod: &Pod) -> bool {
    profile.reserve().any(|(_, _, plugin)| plugin.reads_cycle_state(pod))
        || profile.pre_bind().any(|(_, _, plugin)| plugin.reads_cycle_state(pod))
}

/// Whether anything else after Score reads what was stored before, whatever the pod.
fn reads_state_after_score(profile: &Profile) -> bool {
    profile.permit().next().is_some()
        || profile.post_bind().next().is_some()
        || profile.bind().any(|(_, _, plugin)| plugin.reads_cycle_state())
}

/// A random number for one attempt: the same for the same seed and attempt (splitmix64's finaliser).
fn mixed(seed: u64, cycle: u64) -> u64 {
    let mut z = seed.wrapping_add(cycle.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
