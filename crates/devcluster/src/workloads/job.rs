//! Jobs: pods that are started until enough of them have succeeded.

use std::collections::BTreeSet;

use kube_scheduler_workloads::job::{self, INDEX, UID, has_ended, is_indexed, is_suspended};
use serde_json::{Value, json};

use super::owned::{Controller, remove, set_failure};
use super::pods::{self, BURST, MOST_PODS, is_active, is_ready};
use crate::clock::to_rfc3339;
use crate::hollow::RUN_SECONDS;
use crate::kinds::{JOBS, PODS};
use crate::object::{annotations_mut, at, child_mut, int_at, text_at};
use crate::status::StatusError;
use crate::store::State;

/// Creates and deletes pods, and writes the status.
pub(super) fn settle(state: &mut State, job: &Controller<'_>) -> bool {
    if has_ended(job) {
        return false;
    }
    let is_own_selector = at(job.value, &["spec", "manualSelector"]) != Some(&true.into());
    if is_own_selector && at(job.value, &["spec", "selector"]).is_none() {
        add_selector(state, job);
        return true;
    }
    let Some(selector) = job.selector() else { return false };
    let owned = job.owned(state, PODS, Some(&selector).filter(|_| !is_own_selector));
    let progress = Progress::of(job, &owned);
    let mut result = Ok(false);
    if !job.is_terminating() {
        result = step(state, job, &progress);
    }
    let owned = job.owned(state, PODS, None);
    let progress = Progress::of(job, &owned);
    put_status(state, job, &progress, result.as_ref().err());
    result.unwrap_or(false)
}

/// Where a job stands.
struct Progress {
    active: Vec<Value>,
    ready: usize,
    succeeded: i64,
    failed: i64,
    /// The indexes of pods that have succeeded or are active, if the job has indexes.
    taken: BTreeSet<i64>,
    end: Option<End>,
}

/// How a job has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Complete,
    Failed,
}

impl Progress {
    fn of(job: &Controller<'_>, owned: &[Value]) -> Self {
        let phase = |pod: &Value, phase: &str| text_at(pod, &["status", "phase"]) == phase;
        let count = |name| owned.iter().filter(|pod| phase(pod, name)).count();
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let active: Vec<Value> = owned.iter().filter(|pod| is_active(pod)).cloned().collect();
        let index =
            |pod: &Value| text_at(pod, &["metadata", "annotations", INDEX]).parse::<i64>().ok();
        let done: BTreeSet<i64> =
            owned.iter().filter(|pod| phase(pod, "Succeeded")).filter_map(index).collect();
        let succeeded =
            if is_indexed(job) { number(done.len()) } else { number(count("Succeeded")) };
        let failed = number(count("Failed"));
        let is_complete = match int_at(job.value, &["spec", "completions"]) {
            Some(wanted) => succeeded >= wanted,
            // Without `completions` the pods share a queue of work: the first success says that nothing is left.
            None => succeeded > 0 && active.is_empty(),
        };
        let end = match (is_complete, failed > job.count("backoffLimit", 6)) {
            (true, _) => Some(End::Complete),
            (false, true) => Some(End::Failed),
            (false, false) => None,
        };
        let taken = done.into_iter().chain(active.iter().filter_map(index)).collect();
        let ready = active.iter().filter(|pod| is_ready(pod)).count();
        Self { active, ready, succeeded, failed, taken, end }
    }
}

fn step(state: &mut State, job: &Controller<'_>, progress: &Progress) -> Result<bool, StatusError> {
    let completions = int_at(job.value, &["spec", "completions"]);
    let active = i64::try_from(progress.active.len()).unwrap_or(i64::MAX);
    let wanted = match progress.end {
        Some(_) => 0,
        None => job::parallelism(job, progress.succeeded, active).min(MOST_PODS),
    };
    let wanted = usize::try_from(wanted).unwrap_or(0);
    let surplus = progress.active.len().saturating_sub(wanted);
    for pod in progress.active.iter().take(surplus.min(BURST)) {
        remove(state, PODS, pod);
    }
    let missing = wanted.saturating_sub(progress.active.len());
    let mut free = (0..completions.unwrap_or(0)).filter(|index| !progress.taken.contains(index));
    for _ in 0..missing.min(BURST) {
        let index = if is_indexed(job) { free.next() } else { None };
        if is_indexed(job) && index.is_none() {
            break;
        }
        pods::create(state, job, pod_of(job, index))?;
    }
    Ok(surplus > BURST || missing > BURST)
}

fn pod_of(job: &Controller<'_>, index: Option<i64>) -> Value {
    let mut pod = job::pod(job, index);
    // A hollow node runs pods forever unless they say when they end.
    annotations_mut(&mut pod).entry(RUN_SECONDS).or_insert("1".into());
    pod
}

/// Gives a job the selector that selects its pods and no others.
fn add_selector(state: &mut State, job: &Controller<'_>) {
    let mut value = job.value.clone();
    let spec = child_mut(&mut value, "spec");
    spec.insert("selector".into(), json!({"matchLabels": {UID: job.uid}}));
    job::label(job, spec.entry("template").or_insert(Value::Null));
    // As part of its creation, so it does not count as a change.
    state.put(JOBS, value);
}

fn put_status(
    state: &mut State,
    job: &Controller<'_>,
    progress: &Progress,
    error: Option<&StatusError>,
) {
    let now = to_rfc3339(state.now);
    let (mut status, mut conditions) = (json!({}), job.conditions());
    if !is_suspended(job) {
        let started = text_at(job.value, &["status", "startTime"]);
        status["startTime"] = if started.is_empty() { now.as_str().into() } else { started.into() };
    }
    let active = i64::try_from(progress.active.len()).unwrap_or(i64::MAX);
    for (field, count) in
        [("active", active), ("succeeded", progress.succeeded), ("failed", progress.failed)]
    {
        if count > 0 {
            status[field] = count.into();
        }
    }
    status["ready"] = progress.ready.into();
    let condition = |name: &str, reason: &str, message: &str| json!({"type": name, "status": "True", "reason": reason, "message": message});
    let mut ended = Vec::new();
    match progress.end {
        Some(End::Complete) => {
            let (reason, message) =
                ("CompletionsReached", "Reached expected number of succeeded pods");
            ended.push(condition("SuccessCriteriaMet", reason, message));
            ended.push(condition("Complete", reason, message));
            status["completionTime"] = now.as_str().into();
        }
        Some(End::Failed) => {
            let (reason, message) =
                ("BackoffLimitExceeded", "Job has reached the specified backoff limit");
            ended.push(condition("FailureTarget", reason, message));
            // As in Kubernetes only once its pods are gone.
            if progress.active.is_empty() {
                ended.push(condition("Failed", reason, message));
            }
        }
        None => {}
    }
    if is_suspended(job) {
        ended.push(condition("Suspended", "JobSuspended", "Job suspended"));
    } else {
        conditions.retain(|other| text_at(other, &["type"]) != "Suspended");
    }
    for condition in ended {
        crate::object::set_condition(&mut conditions, condition, &now);
    }
    set_failure(&mut conditions, error, &now);
    if !conditions.is_empty() {
        status["conditions"] = conditions.into();
    }
    job.put_status(state, status);
}
