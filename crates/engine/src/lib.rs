//! The deterministic core of the scheduler: inputs in, effects out.
//!
//! [`Engine`] owns the cluster state, the queue and every pod on its way to a node. It reads no clock, opens no socket and
//! starts no thread. The same inputs at the same times with the same seed give the same effects. It
//! knows no plugin by name: profiles are built from a registry that the caller brings.
//!
//! Inside, each part owns its state and works on a shared `Core`: `cycle` finds nodes, `binding` leads pods
//! to them, `preemption` makes room, `intake` applies changes of the cluster, `failure` sends pods back. `deadlines` holds
//! every reason to wake up.

mod apart;
mod attempt;
mod backfill;
mod binding;
mod budget;
mod buffers;
mod build;
mod changes;
mod class_cache;
mod condition;
mod core;
mod counts;
mod cycle;
mod deadlines;
mod diagnosis;
mod effect;
mod engine;
mod evaluation;
mod exact;
mod explain;
mod failure;
mod fork;
mod group;
mod guard;
mod input;
mod intake;
mod known;
mod measures;
mod notice;
mod numbered;
mod observer;
mod place;
mod pods;
mod policy;
mod preemption;
mod preference;
mod price;
mod profiles;
mod ranking;
mod readers;
mod sharing;
mod sizes;
mod spreading_owner;
mod status_change;
mod term_limits;
mod trial_claims;
mod turn;

pub use budget::WorkLimits;
pub use build::{BuildError, EngineOptions};
pub use counts::{BoundPod, EndedPreemption, PreemptionCounts, ProfileCounts};
pub use cycle::ClassCacheCounts;
pub use effect::{Effect, FAILED_SCHEDULING, ObjectRef, PodRef, StatusPatch, Token};
pub use engine::Engine;
pub use evaluation::NodeScores;
pub use exact::without_domains;
pub use explain::{AttemptExplanation, NodeExplanation, PluginScore};
pub use group::report::{GroupReport, MemberAttempt, PlacementAttempt, PlacementScores};
pub use group::waits::IncompleteGroup;
pub use input::{EvictionOutcome, Input};
pub use known::{KnownObjects, WatchedKey};
// What the engine reports with.
pub use kube_scheduler_queue::{PendingCounts, ProfileId};
pub use measures::{FailedBinding, MeasuredHint, Measurements};
pub use notice::{Notice, RejectionStage, VictimEnd};
pub use observer::{Observer, SearchStep};
pub use place::{PodPlace, PodStage};
pub use policy::Entry;
pub use readers::ObjectReaders;
pub use sharing::{Deduplicator, SharedSize};
pub use sizes::TableSize;
pub use turn::{AttemptResult, GroupTurn, Turn};
