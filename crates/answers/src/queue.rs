//! What waits to be scheduled, in which order, and for what.

mod data;
mod table;
mod visibility;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::well_known::POD_SCHEDULED;
use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_engine::{Engine, PodStage};
use kube_scheduler_framework::Code;

pub use self::data::{Queue, QueuedPodAnswer, WaitingGroup};
use crate::API_VERSION;
use crate::course::Course;
use crate::explanation::{PlaceAnswer, is_being_deleted, is_ours, place_answer};
use crate::format::{as_of, count};
use crate::interrupt::Interrupt;
use crate::pod_name::PodName;
use crate::what_if::QuestionLimits;

/// The options of [`queue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// How many pods are listed, and how many groups of pods that wait for the same.
    pub max_listed: usize,
    /// How many pods of a group are named.
    pub max_examples: usize,
    /// Whether the engine was given the objects of a cluster and has tried none of its pods: then the scheduler runs on a
    /// copy until no pod can make progress, and what pods wait for is what they wait for after that.
    pub from_objects: bool,
    /// Attempts at scheduling on the copy until the answer is cut short.
    pub max_attempts: u64,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            max_listed: 100,
            max_examples: 3,
            from_objects: false,
            max_attempts: QuestionLimits::default().max_attempts,
        }
    }
}

/// Says which pods wait to be scheduled, in the order in which they come to their turn, and for what.
///
/// O(n log n) in the number of pods; with [`QueueOptions::from_objects`] besides what a copy, O(nodes + pods), and the
/// attempts on it take. The engine is not changed.
pub fn queue(engine: &Engine, options: QueueOptions, now: Timestamp) -> Queue {
    queue_until(engine, options, &Interrupt::default(), now)
}

/// As [`queue`]; after an `interrupt` no more attempts are made on the copy.
pub(crate) fn queue_until(
    engine: &Engine,
    options: QueueOptions,
    interrupt: &Interrupt,
    now: Timestamp,
) -> Queue {
    let queued = engine.pending_in_order().into_iter();
    let waiting = queued.filter(|pod| !is_being_deleted(pod));
    let mut outside = under_way(engine);
    let mut course = None;
    if options.from_objects {
        let mut tried = Course::new(engine, now, options.max_attempts, interrupt);
        tried.run();
        course = Some(tried);
    }
    let all = outside.pods.drain(..).chain(waiting);
    let mut pods: Vec<QueuedPodAnswer> =
        all.filter_map(|pod| waiting_pod(engine, course.as_ref(), &pod)).collect();
    // A pod that was ready before the copy ran need not be ready after it.
    pods.sort_by_key(|pod| rank(pod.place.stage));
    pods.iter_mut().zip(1..).for_each(|(pod, order)| pod.order = order);
    let mut by_stage: BTreeMap<&'static str, usize> = BTreeMap::new();
    for pod in &pods {
        *by_stage.entry(pod.place.stage).or_default() += 1;
    }
    let groups = groups(&pods, options.max_examples);
    let mut warnings = warnings(course.as_ref());
    if outside.n_foreign > 0 {
        let foreign = count(outside.n_foreign, "pending pod");
        warnings.push(format!("{foreign} of other schedulers left aside"));
    }
    let (n_pods, n_groups) = (pods.len(), groups.len());
    let queue = Queue {
        api_version: API_VERSION,
        kind: "Queue",
        as_of: as_of(now),
        n_pods,
        by_stage,
        n_being_deleted: outside.n_being_deleted,
        pods,
        n_groups,
        groups,
        max_examples: options.max_examples,
        warnings,
    };
    queue.limited(options.max_listed)
}

/// Pods without a node on the API server that are not queued, or do not wait there.
struct UnqueuedPods {
    /// Those whose attempt or binding is under way, by name.
    pods: Vec<Arc<Pod>>,
    n_foreign: usize,
    /// Those that go before they get one; some are still queued, until they come to their turn and are passed over.
    n_being_deleted: usize,
}

fn under_way(engine: &Engine) -> UnqueuedPods {
    let mut outside = UnqueuedPods { pods: Vec::new(), n_foreign: 0, n_being_deleted: 0 };
    for pod in engine.known_pods().filter(|pod| !pod.is_assigned()) {
        let Some(place) = engine.place_of(&pod.namespace, &pod.name) else { continue };
        match place.stage {
            PodStage::InFlight | PodStage::WaitingOnPermit { .. } | PodStage::Binding => {
                outside.pods.push(pod.clone());
            }
            PodStage::NotOurs if !pod.has_ended() => outside.n_foreign += 1,
            PodStage::BeingDeleted if !pod.has_ended() && is_ours(engine, pod) => {
                outside.n_being_deleted += 1;
            }
            _ => {}
        }
    }
    outside.pods.sort_by_key(|pod| PodName::from(&**pod));
    outside
}

/// The position of a stage in the order in which pods are tried or finish; lower comes first.
fn rank(stage: &str) -> usize {
    let order = ["Binding", "WaitingOnPermit", "InFlight", "Active", "Backoff", "Unschedulable"];
    order.iter().position(|one| *one == stage).unwrap_or(order.len())
}

/// The entry of one pod in the answer; `None` if the engine does not know it.
fn waiting_pod(engine: &Engine, course: Option<&Course>, pod: &Pod) -> Option<QueuedPodAnswer> {
    let before = engine.place_of(&pod.namespace, &pod.name)?;
    let mut answer = QueuedPodAnswer {
        order: 0,
        pod: pod.key(),
        priority: pod.priority(),
        group: pod.spec.pod_group.as_ref().map(ToString::to_string),
        goes_to: None,
        message: None,
        is_error: false,
        place: place_answer(before),
    };
    let failure = match course {
        None => gate(engine, pod).or_else(|| last_failure(pod)),
        Some(course) => {
            gate(&course.engine, pod).or_else(|| course.failures.get(&pod.uid).cloned())
        }
    };
    if let Some((is_error, message)) = failure {
        (answer.is_error, answer.message) = (is_error, Some(message));
    }
    let Some(course) = course else { return Some(answer) };
    if let Some(node) = course.placements.get(&PodName::from(pod)) {
        answer.goes_to = Some(node.to_string());
        return Some(answer);
    }
    // It may have been evicted on the copy, or be left there by the limit of attempts.
    if let Some(after) = course.engine.place_of(&pod.namespace, &pod.name) {
        answer.place = of_objects(&answer.place, place_answer(after));
    }
    Some(answer)
}

/// Where a pod is after the copy has run, without what only happened there: when its attempts were, and how many. Whether it
/// has waited long enough by now to be tried again makes no difference to what it waits for.
fn of_objects(before: &PlaceAnswer, after: PlaceAnswer) -> PlaceAnswer {
    let is_rejected = !after.rejected_by.is_empty();
    let stage = match after.stage {
        "Active" | "Backoff" if is_rejected => "Unschedulable",
        stage => stage,
    };
    PlaceAnswer { stage, until: None, attempts: before.attempts, ..after }
}

/// What holds a gated pod back, in the words of the plugin, and whether that is an error.
fn gate(engine: &Engine, pod: &Pod) -> Option<(bool, String)> {
    let queued = engine.queue().get(&pod.namespace, &pod.name)?;
    let status = queued.is_gated().then(|| engine.gate_of(&queued.entry().0))??;
    Some((status.code() == Code::Error, status.message()))
}

/// Why the last attempt failed, as the pod's condition has it, and whether by an error.
fn last_failure(pod: &Pod) -> Option<(bool, String)> {
    let condition = pod.status.conditions.iter().find(|one| *one.kind == *POD_SCHEDULED)?;
    let message = Some(condition.message.to_string()).filter(|message| !message.is_empty());
    Some((&*condition.reason == "SchedulerError", message?))
}

/// Stage, who holds a pod there, who rejected it, and why.
type Reason<'a> = (&'a str, &'a [String], &'a [String], Option<&'a str>);

/// Pods that wait for the same, the largest group first.
fn groups(pods: &[QueuedPodAnswer], max_examples: usize) -> Vec<WaitingGroup> {
    let mut groups: Vec<WaitingGroup> = Vec::new();
    let mut known: BTreeMap<Reason<'_>, usize> = BTreeMap::new();
    for pod in pods {
        let place = &pod.place;
        let message = pod.message.as_deref();
        let key = (place.stage, &*place.held_by, &*place.rejected_by, message);
        let at = *known.entry(key).or_insert_with(|| {
            groups.push(WaitingGroup {
                stage: place.stage,
                held_by: place.held_by.clone(),
                rejected_by: place.rejected_by.clone(),
                waits_for: place.waits_for.clone(),
                message: pod.message.clone(),
                count: 0,
                examples: Vec::new(),
            });
            groups.len() - 1
        });
        let group = &mut groups[at];
        group.count += 1;
        if group.examples.len() < max_examples {
            group.examples.push(pod.pod.clone());
        }
    }
    groups.sort_by_key(|group| (rank(group.stage), Reverse(group.count)));
    groups
}

fn warnings(course: Option<&Course>) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(course) = course else { return warnings };
    let text = "read from objects: attempts so far and backoff are not known, and every pod counts as ready to be tried";
    warnings.push(text.to_owned());
    warnings.extend(course.warning_if_cut_short());
    let n_evicted = course.evictions.len();
    if n_evicted > 0 {
        warnings.push(format!("{} evicted for these on the way", count(n_evicted, "running pod")));
    }
    warnings
}
