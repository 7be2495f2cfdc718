//! The scheduling queue of a Kubernetes scheduler: which pending pod is tried next, and when the others are tried again.
//!
//! [`SchedulingQueue`] holds every pod that waits to be scheduled: ready ones in the order of the policy's sort, those that
//! wait for a time after a failed attempt, and those that wait for an event that may make them schedulable, gated ones
//! included. It remembers what happened while a pod was being tried, and which pods are nominated to which nodes.
//!
//! It is a state machine and nothing else: one owner, no locks, no clock (time is an argument), no blocking
//! ([`pop`](SchedulingQueue::pop) has a pod or has none), no I/O. It is generic over pods ([`QueueEntry`]) and the objects
//! of events ([`HintObject`]). It knows plugins by name and number only; order, gates and hints are decided by a
//! [`QueuePolicy`] that is passed into each operation.
//!
//! # Life of a pod
//!
//! - [`add`](SchedulingQueue::add), [`update`](SchedulingQueue::update) and [`delete`](SchedulingQueue::delete) follow the
//!   pod object.
//! - [`pop`](SchedulingQueue::pop) puts the pod in flight. It ends with [`done`](SchedulingQueue::done), or with
//!   [`add_unschedulable_if_not_present`](SchedulingQueue::add_unschedulable_if_not_present) if the attempt failed.
//! - [`move_all`](SchedulingQueue::move_all) reports an event. Plugins registered for events ([`ProfileSpec`]); an event
//!   visits only pods that such a plugin rejected.
//! - [`next_deadline`](SchedulingQueue::next_deadline) and [`flush_due`](SchedulingQueue::flush_due) let time pass.
//!
//! # Invariants
//!
//! - A pod (by namespace and name) is in at most one queue, and while it is in flight normally in none.
//! - The same operations give the same states and pops: equals leave first in, first out, one event moves pods
//!   in the order in which they were parked, and nothing depends on the order of a hash map.
//! - Counts are what a recount would find: [`pending_counts`](SchedulingQueue::pending_counts) of the queued pods and
//!   [`rejected_counts`](SchedulingQueue::rejected_counts) of their rejectors.
//! - `add` and `pop` are O(log n), an event is O(pods it may help).
//!
//! # Example
//!
//! ```
//! use kube_scheduler_queue::{
//!     ActionType, ClusterEvent, EventLabel, HintObject, EventResource, HintId, RejectorId, PreEnqueueVerdict, ProfileId,
//!     ProfileSpec,
//!     QueueName, QueueEntry, QueuePolicy, QueueSettings, QueuedPod, QueueingHint, SchedulingQueue, Timestamp,
//! };
//!
//! #[derive(Clone)]
//! struct Job(&'static str);
//!
//! impl QueueEntry for Job {
//!     fn uid(&self) -> &str { self.0 }
//!     fn namespace(&self) -> &str { "" }
//!     fn name(&self) -> &str { self.0 }
//!     fn scheduler_name(&self) -> &str { "default" }
//!     fn nominated_node_name(&self) -> Option<&str> { None }
//!     fn is_assigned(&self) -> bool { false }
//! }
//!
//! /// The objects of events: here, nodes with a number of free slots.
//! #[derive(Clone)]
//! struct Slots(u32);
//!
//! impl HintObject<Job> for Slots {
//!     fn from_entry(_: &Job) -> Self { Self(0) }
//!     fn is_pod(&self, _: &str) -> bool { false }
//! }
//!
//! struct FirstComeFirstServed;
//!
//! impl QueuePolicy<Job, Slots> for FirstComeFirstServed {
//!     fn precedes(&self, a: &QueuedPod<Job>, b: &QueuedPod<Job>) -> bool { a.timestamp() < b.timestamp() }
//!
//!     fn pre_enqueue(&mut self, _: &Job, _: ProfileId, _: RejectorId) -> PreEnqueueVerdict { PreEnqueueVerdict::Admit }
//!
//!     fn hint(
//!         &mut self,
//!         _: HintId,
//!         _: &EventLabel,
//!         _: &Job,
//!         _: Option<&Slots>,
//!         new: Option<&Slots>,
//!     ) -> QueueingHint {
//!         if new.is_some_and(|node| node.0 > 0) { QueueingHint::Queue } else { QueueingHint::Skip }
//!     }
//!
//!     fn latest(&self, _: &str, _: &str) -> Option<Job> { None }
//! }
//!
//! let node_added = ClusterEvent::new(EventResource::Node, ActionType::ADD);
//! let profile = ProfileSpec::new("default").with_events("Fit", [(node_added.clone(), Some(HintId(0)))]);
//! let mut queue = SchedulingQueue::new(QueueSettings::default(), vec![profile]);
//! let fit = queue.intern_plugin("Fit");
//! let mut policy = FirstComeFirstServed;
//!
//! let start = Timestamp::from_millis(0);
//! queue.add(Job("a"), start, &mut policy);
//! let mut pod = queue.pop(&policy).unwrap();
//! assert_eq!(pod.entry().0, "a");
//!
//! // There is no place for it: it waits for a node.
//! pod.clear_rejectors();
//! pod.add_unschedulable_plugin(fit);
//! assert_eq!(queue.add_unschedulable_if_not_present(pod, start, &mut policy), Ok(QueueName::Unschedulable));
//!
//! // A full node does not help; a free one does, once the backoff is over.
//! queue.move_all(&node_added, None, Some(&Slots(0)), start, &mut policy);
//! assert_eq!(queue.summary(), "activeQ:0; backoffQ:0; unschedulablePods:1");
//! queue.move_all(&node_added, None, Some(&Slots(4)), start, &mut policy);
//! assert_eq!(queue.summary(), "activeQ:0; backoffQ:1; unschedulablePods:0");
//!
//! let deadline = queue.next_deadline().unwrap();
//! queue.flush_due(deadline, &mut policy);
//! assert_eq!(queue.pop(&policy).unwrap().attempts(), 2);
//! queue.done("a");
//! ```

mod action;
mod event;
mod profile;
mod rejectors;

mod entry;
mod policy;

mod heap;
mod records;

mod active;
mod backoff;
mod unschedulable;

mod gates;
mod hints;
mod in_flight;
mod nominator;
mod report;

mod counters;

mod queue;

pub use self::action::ActionType;
pub use self::counters::PendingCounts;
pub use self::entry::{HintObject, QueueEntry, QueuedPod};
pub use self::event::{ClusterEvent, EventLabel, EventResource};
pub use self::policy::{
    Nomination, PreEnqueueVerdict, QueuePolicy, QueueingHint, Signature, Topics,
};
pub use self::profile::{EXTENDER_PLUGIN, HintId, ProfileId, ProfileSpec, QueueSettings};
pub use self::queue::{NominatedPod, RequeueError, SchedulingQueue};
pub use self::records::{Place, QueueName};
pub use self::rejectors::{RejectorId, RejectorSet};
pub use self::report::{Move, QueueReport};
pub use kube_scheduler_primitives::Timestamp;
