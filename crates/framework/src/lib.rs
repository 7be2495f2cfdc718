//! What scheduler plugins are written against.
//!
//! A plugin is a struct that implements traits of this crate: one trait per extension point, all optional, tied together
//! by [`Plugin`]. It reads the cluster through [`Context`], [`ClusterView`] and [`NodeView`], which record what is read;
//! it answers with [`Status`], and stores what belongs to one scheduling attempt in [`CycleState`]. The engine that runs
//! plugins lives in another crate and knows none of them by name.
//!
//! Invariants: nothing here reads a clock, a file or a socket, or starts a thread; no answer depends on the order in
//! which nodes are visited.

mod args;
mod cluster_view;
mod context;
mod cycle_state;
pub mod following;
mod group_objects;
mod group_state;
pub mod groups;
mod handle;
mod known_pods;
mod metric_family;
mod normalization;
mod plugin;
mod plugin_error;
mod plugin_metrics;
mod pod_counts;
mod points;
pub mod preemption;
mod services;
mod status;
#[cfg(feature = "testing")]
pub mod testing;
pub mod topics;
mod user_event;
mod verdicts;
mod view;

pub use cluster_view::ClusterView;
pub use context::{
    Command, Commands, Context, EventObject, NominatedPods, RunningPreemptions, Sources,
    WaitingPod, WaitingPods,
};
pub use cycle_state::CycleState;
pub use group_objects::GroupObjects;
pub use handle::{Handle, PluginArgs};
pub use known_pods::KnownPods;
pub use metric_family::{Metric, MetricFamily, MetricKind, MetricSeries};
pub use normalization::{MAX_NODE_SCORE, Normalization, percent};
pub use plugin::Plugin;
pub use plugin_error::PluginError;
pub use plugin_metrics::PluginMetrics;
pub use pod_counts::PodCounts;
pub use points::{
    Bind, BindOutcome, Completion, EnqueueExtensions, EventRegistration, FeasibleNodes, Filter,
    FilterSink, HintAnswer, HypotheticalFilter, NominatingInfo, ObjectReader, ObjectWrite, Permit,
    PermitDecision, PostBind, PostFilter, PostFilterContext, PostFilterOutcome, PreBind,
    PreBindFlight, PreBindTask, PreEnqueue, PreFilter, PreFilterExtensions, PreFilterOutcome,
    PreScore, QueueSort, QueuedPodView, Reserve, Score, Shortage, Sign, SignatureWriter,
    TaskContext, TaskEvent, TaskStep,
};
pub use services::{ApiError, ApiRequest, ApiVerb, BoxFuture, Services};
pub use status::{Code, PluginName, Reason, Status};
pub use user_event::EventKind;
pub use verdicts::{VerdictId, Verdicts};
pub use view::NodeView;

// Types of lower layers that plugins need, so that one dependency is enough to write a plugin.
pub use kube_scheduler_api_types as api;
pub use kube_scheduler_cache::{
    NodeIdx, ObjectChange, ObjectKey, ObjectStore, affinity, columns, counters,
};
pub use kube_scheduler_queue::{ActionType, ClusterEvent, EventResource};
