//! Trying a group on a copy of the engine, and what that says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::{GroupPolicy, Pod, PodSpec, Timestamp};
use kube_scheduler_cache::PodGroupState;
use kube_scheduler_engine::{
    Engine, GroupReport, IncompleteGroup, Input, MemberAttempt, Observer, PlacementAttempt, PodRef,
    SearchStep,
};
use kube_scheduler_framework::{Code, Commands, Status};

use super::{DomainsAnswer, FailedMembers, GroupAnswer, GroupAttempt};
use crate::explanation::compose::stage_name;
use crate::explanation::{ExplainOptions, is_known};
use crate::interrupt::Interrupt;
use crate::rehearsal::{Rehearsal, RehearsalEvent};

/// How many attempts at other pods, those that are nominated to nodes, may come before that at the group.
const MAX_ATTEMPTS: usize = 1_000;
/// How many pods times domains are reported one by one.
const MAX_REPORTED: usize = 100_000;

/// The group of `pod`, which need not exist; `None` if it has none, or the scheduler does not try groups together.
pub(crate) fn group_of(
    engine: &Engine,
    pod: &Arc<Pod>,
    options: ExplainOptions,
    interrupt: &Interrupt,
    now: Timestamp,
) -> Option<GroupAnswer> {
    let name = pod.spec.pod_group.as_ref()?;
    if !engine.schedules_groups() {
        return None;
    }
    let mut trial = with_pod(engine, pod, interrupt, now);
    let group = trial.cluster().pod_group_object(&pod.namespace, name).ok().cloned();
    let min_count = match group.as_ref().map(|group| group.policy) {
        Some(GroupPolicy::Gang { min_count }) if engine.schedules_gangs_like(name) => {
            usize::try_from(min_count).ok()
        }
        _ => None,
    };
    let state = trial.cluster().pod_group(&pod.namespace, name);
    let waiting: Vec<Arc<Pod>> =
        state.map(|state| state.unscheduled().cloned().collect()).unwrap_or_default();
    let (n_pods, n_scheduled) =
        state.map_or((0, 0), |state: &PodGroupState| (state.n_known(), state.n_scheduled()));
    let mut stages = BTreeMap::new();
    for member in &waiting {
        // The pod that was asked about is without its gates in the trial.
        let known = if member.uid == pod.uid && is_known(engine, pod) { engine } else { &trial };
        if let Some(place) = known.place_of(&member.namespace, &member.name) {
            *stages.entry(stage_name(&place.stage)).or_insert(0) += 1;
        }
    }
    let missing = trial.missing_of_group(&pod.namespace, name);
    let has_domains = group.is_some_and(|group| group.topology_keys.is_some());
    let attempt = match missing {
        Some(_) => None,
        None => {
            let n_domains = if has_domains { trial.cluster().n_nodes() } else { 1 };
            let is_abridged = waiting.len().saturating_mul(n_domains) > MAX_REPORTED;
            let mut watcher = Watcher { group: (&pod.namespace, name), is_abridged, report: None };
            leave_others_aside(&mut trial, watcher.group, interrupt, now);
            try_group(&mut trial, &mut watcher, &waiting, interrupt, now);
            watcher.report.map(|report| GroupAttempt {
                victims: evicted(&mut trial, now),
                places_pod: places(&report, pod),
                ..attempt(&report, waiting.len(), is_abridged, options.max_examples)
            })
        }
    };
    let name = format!("{}/{name}", pod.namespace);
    let waits_for_code = missing.as_ref().map(IncompleteGroup::code);
    let waits_for = missing.map(|missing| missing.to_string());
    Some(GroupAnswer {
        name,
        min_count,
        n_pods,
        n_scheduled,
        stages,
        waits_for,
        waits_for_code,
        attempt,
    })
}

/// A copy of the engine for trials of the group of `pod`: the pod is there, and no other pods compete.
pub(crate) fn engine_for_trials(
    engine: &Engine,
    pod: &Arc<Pod>,
    interrupt: &Interrupt,
    now: Timestamp,
) -> Engine {
    let mut trial = with_pod(engine, pod, interrupt, now);
    if let Some(group) = group_key(pod) {
        leave_others_aside(&mut trial, group, interrupt, now);
    }
    trial
}

/// A copy of the engine that has the pod, which nothing of its own holds back.
fn with_pod(engine: &Engine, pod: &Arc<Pod>, interrupt: &Interrupt, now: Timestamp) -> Engine {
    let mut copy = engine.fork(now);
    copy.give_up_when(interrupt.flag());
    if !pod.spec.scheduling_gates.is_empty() {
        let spec = PodSpec { scheduling_gates: Arc::default(), ..(*pod.spec).clone() };
        let open = Pod { spec: Arc::new(spec), ..(**pod).clone() };
        copy.handle(Input::PodApplied(Arc::new(open)), now);
    } else if !is_known(&copy, pod) {
        copy.handle(Input::PodApplied(pod.clone()), now);
    }
    copy
}

/// Waits for the report about one group.
struct Watcher<'a> {
    group: (&'a str, &'a str),
    is_abridged: bool,
    report: Option<GroupReport>,
}

impl Observer for Watcher<'_> {
    fn reached(&mut self, _: &PodRef, _: SearchStep) {}

    fn wants_group_attempts(&self) -> bool {
        !self.is_abridged
    }

    fn group_decided(&mut self, report: &GroupReport) {
        if (&*report.namespace, &*report.name) == self.group && self.report.is_none() {
            self.report = Some(report.clone());
        }
    }
}

/// Deletes the pods that wait and are of no concern to the group: it is tried as if it were its turn.
fn leave_others_aside(
    trial: &mut Engine,
    group: (&str, &str),
    interrupt: &Interrupt,
    now: Timestamp,
) {
    // What is nominated to a node keeps its place. A gang holds room as long as enough of its pods exist.
    let pending = trial.queue().pending_pods().map(|(_, queued)| queued.entry().0.clone());
    let (nominated, others): (Vec<Arc<Pod>>, Vec<Arc<Pod>>) = pending
        .filter(|pod| group_key(pod) != Some(group))
        .partition(|pod| trial.queue().nomination(&pod.uid).is_some());
    let holding: BTreeSet<_> = nominated.iter().filter_map(|pod| group_key(pod)).collect();
    let keeps_place = |pod: &Pod| group_key(pod).is_some_and(|group| holding.contains(&group));
    let others = others.iter().filter(|pod| !keeps_place(pod));
    for pod in others.take_while(|_| !interrupt.is_set()) {
        let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
        trial.handle(Input::PodDeleted { namespace, name }, now);
    }
}

/// Has the group tried, as if all of its pods were ready that nothing else holds back.
fn try_group(
    trial: &mut Engine,
    watcher: &mut Watcher<'_>,
    waiting: &[Arc<Pod>],
    interrupt: &Interrupt,
    now: Timestamp,
) {
    // They keep their age, by which they are tried one after the other.
    let mut commands = Commands::default();
    commands.activate(waiting.to_vec());
    trial.handle(Input::PluginAsked(commands), now);
    for _ in 0..MAX_ATTEMPTS {
        if interrupt.is_set() {
            return;
        }
        let turn = trial.schedule_next_observed(watcher, now);
        if watcher.report.is_some() || turn.is_none() {
            return;
        }
        trial.drain_effects().for_each(drop);
    }
}

/// Whether the pod gets a node where the group is placed, or where room is made for it; `None` if its pods were not reported, or it
/// was not tried with them.
fn places(report: &GroupReport, pod: &Pod) -> Option<bool> {
    let is_taken = |attempt: &&PlacementAttempt| match report.waits_for_preemption {
        true => attempt.waits_for_preemption || report.preemption.is_some(),
        false => report.chosen.is_none() || attempt.placement == report.chosen,
    };
    let mut members = report.attempts.iter().filter(is_taken).flat_map(|attempt| &attempt.members);
    let member = members.find(|member| member.pod.uid == pod.uid)?;
    let makes_room = report.waits_for_preemption
        && (member.node.is_some() || report.preemption.as_ref().is_some_and(Status::is_success));
    Some(member.status.is_success() || makes_room)
}

/// The pods that the latest attempt evicts.
fn evicted(trial: &mut Engine, now: Timestamp) -> Vec<String> {
    let happened = Rehearsal::default().carry_out(trial, now).into_iter();
    let evicted = happened.filter_map(|what| match what {
        RehearsalEvent::Evicted(pod) => Some(pod.key()),
        _ => None,
    });
    evicted.collect()
}

/// Namespace and name of a pod's group.
fn group_key(pod: &Pod) -> Option<(&str, &str)> {
    pod.spec.pod_group.as_deref().map(|name| (&*pod.namespace, name))
}

fn attempt(
    report: &GroupReport,
    n_waiting: usize,
    is_abridged: bool,
    max_examples: usize,
) -> GroupAttempt {
    let mut domains: Vec<DomainsAnswer> = Vec::new();
    for placement in &report.attempts {
        let found = domain(placement, max_examples);
        match domains.iter_mut().find(|known| known.is_like(&found)) {
            Some(known) => {
                known.count += 1;
                known.nodes += found.nodes;
                if known.examples.len() < max_examples {
                    known.examples.extend(found.examples);
                }
            }
            None => domains.push(found),
        }
    }
    domains.sort_by_key(|domains| std::cmp::Reverse(domains.count));
    let text = |status: &Status| status.message();
    GroupAttempt {
        n_tried: if is_abridged { n_waiting } else { report.members.len() },
        // A group that is not kept in a domain has one without a name.
        chosen: report.chosen.as_deref().and_then(domain_name),
        preemption: report.preemption.as_ref().filter(|status| !status.is_success()).map(text),
        no_domains: report.placement_failure.as_ref().map(text),
        domains,
        is_abridged,
        ..GroupAttempt::of(&report.status, report.waits_for_preemption)
    }
}

fn domain_name(name: &str) -> Option<String> {
    (!name.is_empty()).then(|| name.to_owned())
}

/// What members have in common that failed alike: the message, whether it is an error, and the plugins that rejected them.
type FailureKey = (String, bool, Vec<String>);

/// How the group fared in one domain.
fn domain(placement: &PlacementAttempt, max_examples: usize) -> DomainsAnswer {
    let has_node = |member: &&MemberAttempt| member.status.is_success();
    let n_placed = placement.members.iter().filter(has_node).count();
    let mut failed: BTreeMap<FailureKey, (usize, Vec<String>)> = BTreeMap::new();
    for member in placement.members.iter().filter(|member| !has_node(member)) {
        let MemberAttempt { status, rejected_by, .. } = member;
        let rejected_by = rejected_by.iter().map(ToString::to_string).collect();
        let key = (status.message(), status.code() == Code::Error, rejected_by);
        let (count, examples) = failed.entry(key).or_default();
        *count += 1;
        if examples.len() < max_examples {
            examples.push(member.pod.name.to_string());
        }
    }
    let failed = failed.into_iter().map(|((message, is_error, rejected_by), (count, examples))| {
        FailedMembers { count, message, rejected_by, examples, is_error }
    });
    let mut failed: Vec<FailedMembers> = failed.collect();
    failed.sort_by_key(|failed| std::cmp::Reverse(failed.count));
    let status = &placement.status;
    DomainsAnswer {
        count: 1,
        examples: placement.placement.as_deref().and_then(domain_name).into_iter().collect(),
        nodes: placement.nodes.len(),
        message: if status.is_success() { String::new() } else { status.message() },
        n_placed,
        failed,
    }
}
