//! Queue histories: after every operation every queued pod must be where it was in the recording.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use kube_scheduler_api_types::Timestamp;
use kube_scheduler_queue::{
    ActionType, ClusterEvent, EventResource, HintId, HintObject, Place, PreEnqueueVerdict,
    ProfileId, ProfileSpec, QueueEntry, QueuePolicy, QueueSettings, QueuedPod, QueueingHint,
    RejectorId, SchedulingQueue,
};
use serde_json::{Map, Value, json};

use super::{Report, name_of, text};

const START: Timestamp = Timestamp::from_millis(1_000_000_000);
const MILLISECOND: std::time::Duration = std::time::Duration::from_millis(1);

pub(super) fn judge(case: &Value, report: &mut Report) {
    let mut replay = Replay::new();
    for (at, op) in case["ops"].as_array().into_iter().flatten().enumerate() {
        let difference = match replay.apply(op) {
            Ok(difference) => difference.or_else(|| {
                let is = replay.state();
                (is != op["after"])
                    .then(|| format!("the queue is {is}, recorded is {}", op["after"]))
            }),
            Err(error) => Some(format!("{error:#}")),
        };
        report.count(|| format!("{} op {at} {}", name_of(case), text(&op["op"])), difference);
        replay.now = replay.now + MILLISECOND;
    }
}

/// A pod of the recording.
#[derive(Clone, Debug)]
struct RecordedPod(Arc<PodState>);

#[derive(Clone, Debug)]
struct PodState {
    uid: String,
    name: String,
    priority: i64,
    is_gated: bool,
}

impl QueueEntry for RecordedPod {
    fn uid(&self) -> &str {
        &self.0.uid
    }

    fn namespace(&self) -> &str {
        "ns"
    }

    fn name(&self) -> &str {
        &self.0.name
    }

    fn scheduler_name(&self) -> &str {
        "s"
    }

    fn nominated_node_name(&self) -> Option<&str> {
        None
    }

    fn is_assigned(&self) -> bool {
        false
    }
}

/// The object of a recorded event.
#[derive(Clone, Debug)]
enum RecordedObject {
    Pod(RecordedPod),
    Other { is_ok: bool },
}

impl HintObject<RecordedPod> for RecordedObject {
    fn from_entry(entry: &RecordedPod) -> Self {
        Self::Pod(entry.clone())
    }

    fn is_pod(&self, uid: &str) -> bool {
        matches!(self, Self::Pod(pod) if pod.0.uid == uid)
    }
}

/// The synthetic plugins' hints, as the data's description gives them.
#[derive(Clone, Copy)]
enum Hint {
    Ungated,
    OkNew,
    OkOld,
    Always,
    Fails,
}

const HINTS: [Hint; 5] = [Hint::Ungated, Hint::OkNew, Hint::OkOld, Hint::Always, Hint::Fails];

const fn id(hint: Hint) -> Option<HintId> {
    Some(HintId(hint as u32))
}

#[derive(Default)]
struct Policy {
    known: BTreeMap<String, RecordedPod>,
}

impl QueuePolicy<RecordedPod, RecordedObject> for Policy {
    fn precedes(&self, a: &QueuedPod<RecordedPod>, b: &QueuedPod<RecordedPod>) -> bool {
        let key = |pod: &QueuedPod<RecordedPod>| (-pod.entry().0.priority, pod.timestamp());
        key(a) < key(b)
    }

    fn pre_enqueue(
        &mut self,
        entry: &RecordedPod,
        _: ProfileId,
        _: RejectorId,
    ) -> PreEnqueueVerdict {
        if entry.0.is_gated { PreEnqueueVerdict::Gate } else { PreEnqueueVerdict::Admit }
    }

    fn hint(
        &mut self,
        hint: HintId,
        _event: &kube_scheduler_queue::EventLabel,
        _: &RecordedPod,
        old: Option<&RecordedObject>,
        new: Option<&RecordedObject>,
    ) -> QueueingHint {
        let queue_if = QueueingHint::queue_if;
        let is_ok = |object| matches!(object, Some(&RecordedObject::Other { is_ok: true }));
        match HINTS.get(hint.0 as usize) {
            Some(Hint::Ungated) => {
                queue_if(!matches!(new, Some(RecordedObject::Pod(pod)) if pod.0.is_gated))
            }
            Some(Hint::OkNew) => queue_if(is_ok(new)),
            Some(Hint::OkOld) => queue_if(is_ok(old)),
            Some(Hint::Always | Hint::Fails) | None => QueueingHint::Queue,
        }
    }

    fn latest(&self, _: &str, name: &str) -> Option<RecordedPod> {
        self.known.get(name).cloned()
    }
}

struct Replay {
    queue: SchedulingQueue<RecordedPod, RecordedObject>,
    policy: Policy,
    popped: BTreeMap<String, QueuedPod<RecordedPod>>,
    now: Timestamp,
}

impl Replay {
    fn new() -> Self {
        let node = |action| ClusterEvent::new(EventResource::Node, action);
        let node_changes = node(ActionType::ADD | ActionType::UPDATE_NODE_ALLOCATABLE);
        let profile = ProfileSpec::new("s")
            .with_pre_enqueue("Gate")
            .with_events(
                "Gate",
                [(
                    ClusterEvent::new(EventResource::Pod, ActionType::UPDATE_POD_LABEL),
                    id(Hint::Ungated),
                )],
            )
            .with_events(
                "Fit",
                [
                    (node_changes, id(Hint::OkNew)),
                    (ClusterEvent::ASSIGNED_POD_DELETE, id(Hint::OkOld)),
                ],
            )
            .with_events("Any", [(node(ActionType::ADD), id(Hint::Always))])
            .with_events("Err", [(node(ActionType::ADD), id(Hint::Fails))])
            .with_events(
                "Pend",
                [(
                    ClusterEvent::new(EventResource::PersistentVolumeClaim, ActionType::ADD),
                    id(Hint::Always),
                )],
            )
            .with_events("None", []);
        Self {
            queue: SchedulingQueue::new(QueueSettings::default(), vec![profile]),
            policy: Policy::default(),
            popped: BTreeMap::new(),
            now: START,
        }
    }

    /// Carries one operation out; says what differs at once, if anything.
    fn apply(&mut self, op: &Value) -> Result<Option<String>> {
        let name = text(&op["pod"]);
        let now = self.now;
        match text(&op["op"]) {
            "add" => {
                let pod = RecordedPod(Arc::new(PodState {
                    uid: format!("{name}-uid"),
                    name: name.to_owned(),
                    priority: op["priority"].as_i64().unwrap_or(0),
                    is_gated: text(&op["labels"]["gate"]) == "on",
                }));
                self.policy.known.insert(name.to_owned(), pod.clone());
                self.queue.add(pod, now, &mut self.policy);
            }
            "pop" => {
                let popped = self.queue.pop(&self.policy).context("nothing to pop")?;
                let is = popped.entry().0.name.clone();
                self.popped.insert(is.clone(), popped);
                if is != text(&op["popped"]) {
                    return Ok(Some(format!("popped {is}, recorded is {}", op["popped"])));
                }
            }
            "fail" => self.fail(name, op)?,
            "bound" => {
                self.popped.remove(name);
                self.queue.done(&format!("{name}-uid"));
            }
            "event" => {
                let event = ClusterEvent::new(
                    resource(text(&op["resource"]))?,
                    action(text(&op["action"]))?,
                );
                let object = RecordedObject::Other { is_ok: op["ok"].as_bool().unwrap_or(false) };
                let (old, new) = match event.action() {
                    ActionType::DELETE => (Some(&object), None),
                    _ => (None, Some(&object)),
                };
                self.queue.move_all(&event, old, new, now, &mut self.policy);
            }
            "advance" => {
                let millis = op["ms"].as_u64().context("ms")?;
                self.now = now + std::time::Duration::from_millis(millis);
            }
            "flushBackoff" => {
                self.queue.flush_backoff_completed(now, &mut self.policy);
            }
            "flushUnschedulable" => {
                self.queue.flush_unschedulable_leftover(now, &mut self.policy);
            }
            "activate" => {
                let pod = self.known(name)?;
                self.queue.activate(&[pod], now, &mut self.policy);
            }
            "ungate" => {
                let old = self.known(name)?;
                let new = RecordedPod(Arc::new(PodState { is_gated: false, ..(*old.0).clone() }));
                self.policy.known.insert(name.to_owned(), new.clone());
                let event = ClusterEvent::new(
                    EventResource::UnschedulablePod,
                    ActionType::UPDATE_POD_LABEL,
                );
                self.queue.update(&old, new, &[event], now, &mut self.policy);
            }
            "delete" => {
                let pod = self.known(name)?;
                self.queue.delete(&pod, &self.policy);
            }
            other => bail!("unknown operation {other:?}"),
        }
        Ok(None)
    }

    /// A popped pod comes back with the plugins that rejected it.
    fn fail(&mut self, name: &str, op: &Value) -> Result<()> {
        let mut pod = self.popped.remove(name).with_context(|| format!("{name} was not popped"))?;
        let pending = plugins(&op["pendingPlugins"]);
        pod.clear_rejectors();
        for plugin in plugins(&op["unschedulablePlugins"]).union(&pending) {
            pod.add_unschedulable_plugin(self.queue.intern_plugin(plugin));
        }
        for plugin in &pending {
            pod.add_pending_plugin(self.queue.intern_plugin(plugin));
        }
        self.queue.add_unschedulable_if_not_present(pod, self.now, &mut self.policy)?;
        Ok(())
    }

    fn known(&self, name: &str) -> Result<RecordedPod> {
        self.policy.known.get(name).cloned().with_context(|| format!("unknown pod {name}"))
    }

    /// The queue in the form of the recording.
    fn state(&self) -> Value {
        let mut pods = Map::new();
        for (place, pod) in self.queue.pending_pods() {
            let queue = match place {
                Place::Active => "active",
                Place::Backoff => "backoff",
                Place::ErrorBackoff => "errorBackoff",
                Place::Unschedulable => "unschedulable",
            };
            let mut state = json!({
                "queue": queue,
                "attempts": pod.attempts(),
                "unschedulableCount": pod.unschedulable_count(),
                "consecutiveErrors": pod.consecutive_errors(),
            });
            if pod.is_gated() {
                state["gated"] = true.into();
            }
            if matches!(place, Place::Backoff | Place::ErrorBackoff) {
                let end = self.queue.backoff_end(pod).unwrap_or(START);
                state["backoffUntilMs"] = ((end.as_nanos() - START.as_nanos()) / 1_000_000).into();
            }
            pods.insert(pod.entry().0.name.clone(), state);
        }
        Value::Object(pods)
    }
}

fn plugins(names: &Value) -> BTreeSet<&str> {
    names.as_array().into_iter().flatten().map(text).collect()
}

fn resource(name: &str) -> Result<EventResource> {
    Ok(match name {
        "Node" => EventResource::Node,
        "AssignedPod" => EventResource::AssignedPod,
        "PersistentVolumeClaim" => EventResource::PersistentVolumeClaim,
        other => return Err(anyhow!("unknown resource {other:?}")),
    })
}

fn action(name: &str) -> Result<ActionType> {
    Ok(match name {
        "Add" => ActionType::ADD,
        "Delete" => ActionType::DELETE,
        "UpdateNodeAllocatable" => ActionType::UPDATE_NODE_ALLOCATABLE,
        other => return Err(anyhow!("unknown action {other:?}")),
    })
}
