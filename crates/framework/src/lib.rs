//! What scheduler plugins are written against.
//!
//! A plugin is a struct that implements traits of this crate: one trait per extension point, all optional, tied together
//! by [`Plugin`]. It reads the cluster through [`Context`], [`ClusterView`] and [`NodeView`], which record what is read;
//! it answers with [`Status`], and stores what belongs to one scheduling attempt in [`CycleState`]. The engine that runs
//! plugins lives in another crate and knows none of them by name.
//!
//! Invariants: nothing here reads a clock, a file or a socket, or starts a thread; no answer depends on the order in
//! which nodes are visited.

mod api_client;
mod args;
mod cluster_view;
mod context;
mod cycle_state;
mod diagnosis;
mod extender;
mod handle;
mod known_pods;
mod meter;
mod parallel;
mod plugin;
mod plugin_metrics;
mod points;
mod profile;
mod reads;
mod registry;
mod runner;
mod spare;
mod status;
#[cfg(feature = "testing")]
pub mod testing;
mod user_event;
mod verdicts;
mod view;

pub use api_client::{ApiClient, ApiError, ApiFuture, ApiRequest, ApiVerb, NoApiServer};
pub use args::{ArgsError, decode_args};
pub use cluster_view::{ClusterView, MatchingNodes};
pub use context::{
    Command, Commands, Context, EventObject, MAX_PERMIT_WAIT, NoPods, NodeNominations,
    NominatedPods, RunningPreemptions, Sources, WaitingPod, WaitingPods,
};
pub use cycle_state::{CycleState, StateValue};
pub use diagnosis::{Diagnosis, FitError};
pub use extender::{
    EXTENDER, Extender, ExtenderFilterResult, ExtenderReport, ExtenderScores, ExtenderVerbs,
    ExtenderVerdicts, ExtenderVictims, Extenders, HostPriority, MAX_EXTENDER_PRIORITY,
    PendingPriorities, PreemptionCandidate,
};
pub use handle::{CommandSink, Handle, NoCommandSink, Services};
pub use known_pods::KnownPods;
pub use meter::{
    Bounds, Lengths, Meter, MeteredPoint, PLUGIN_BOUNDS, POINT_BOUNDS, Readings, Timer,
};
pub use parallel::{OneThread, Parallel};
pub use plugin::Plugin;
pub use plugin_metrics::{
    FamilySample, Metric, MetricError, MetricFamily, MetricKind, PluginMetrics, Sample,
};
pub use points::{
    Bind, BindOutcome, Candidates, Completion, DomainAnswers, DomainScoped, EnqueueExtensions,
    EventRegistration, FeasibleNodes, Filter, FilterScan, FilterSink, GroupKey, HintFn,
    HypotheticalFilter, MAX_NODE_SCORE, MIN_NODE_SCORE, NodeStatuses, NominatingInfo,
    Normalization, Permit, PermitDecision, PostBind, PostFilter, PostFilterContext,
    PostFilterOutcome, PreBind, PreBindFlight, PreBindTask, PreEnqueue, PreFilter,
    PreFilterExtensions, PreFilterOutcome, PreScore, PreparedFilter, QueueSort, QueuedPodView,
    Reserve, Score, Sign, SignatureWriter, StatusFuture, TaskContext, TaskEvent, TaskStep,
    WriteError,
};
pub use profile::{
    ExtensionPoint, PluginEntry, PluginIdx, PluginSet, Profile, ProfileConfig, ProfileError,
};
pub use reads::{EvaluationReads, PhaseReads, Reads};
pub use registry::{PluginArgs, PluginFactory, Registry, RegistryError};
pub use runner::{
    HypotheticalRunner, PreFilterRun, Runner, Scale, SkipSet, SumsFilters, SumsTrial, bounds,
    check_score, is_within_bounds, must_leave_room, percent,
};
pub use spare::{PooledVec, VecPool};
pub use status::{Code, PluginName, Reason, Status};
pub use user_event::EventKind;
pub use verdicts::{MarkedVerdicts, VerdictId, Verdicts};
pub use view::NodeView;

// The vocabulary plugins share with the lower layers, so that one dependency is enough to write one.
pub use kube_scheduler_api_types as api;
pub use kube_scheduler_cache::{
    AffinityTerms, AffinityTermsVersion, AssumeObjectError, Attachment, COLUMN_CHUNK, CarriedTerm,
    ChangeKinds, ClusterState, Column, CountedNodes, CountedPods, CounterId, CounterSpec,
    CsiLimits, CsiLimitsId, Domain, DomainCounts, Headroom, LabelColumn, NodeGroup, NodeIdx,
    NodeOverlay, NodeSet, ObjectKey, ObjectStore, PodTerm, PodTolerations, RequiredHeadroom,
    RequiredNodeAffinity, TermCount, TermCounts, TermId, TermKind, ValueId as LabelValueId,
    runs_by_chunk, storage_class_of,
};
pub use kube_scheduler_queue::{ActionType, ClusterEvent, EventResource, QueueingHint};
