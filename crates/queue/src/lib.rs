//! Which pod next, and who wakes up when.
//!
//! To be written.

mod action;
mod active;
mod backoff;
mod counters;
mod entry;
mod event;
mod gates;
mod heap;
mod hints;
mod in_flight;
mod nominator;
mod notice;
mod plugins;
mod policy;
mod profile;
mod queue;
mod records;
mod unschedulable;

pub use self::action::ActionType;
pub use self::counters::PendingCounts;
pub use self::entry::{EventObject, QueueEntry, QueuedPod};
pub use self::event::{ClusterEvent, EventLabel, EventResource};
pub use self::notice::{Move, Notice};
pub use self::plugins::{PluginId, PluginSet};
pub use self::policy::{Nomination, PreEnqueueVerdict, QueuePolicy, QueueingHint, Requeue};
pub use self::profile::{EXTENDER_PLUGIN, HintId, ProfileId, ProfileSpec, QueueSettings};
pub use self::queue::{AlreadyQueued, Moved, NominatedPod, SchedulingQueue};
pub use self::records::{Place, Queue};
