//! What runs scheduler plugins: the registry that makes them, profiles that put them in order, and a [`Runner`] that asks
//! the plugins of a profile at one extension point, skips, early ends and wrapping texts included. Also the extenders, which
//! are asked after the plugins, and the measurements of both.
//!
//! Plugins are written against `kube-scheduler-framework`; the engine decides when what is run, and what of the answers is
//! cached.
//!
//! Invariants: nothing here reads a clock, a file or a socket, or starts a thread; no answer depends on the order in
//! which nodes are visited, nor on what is measured.

mod extender;
mod meter;
mod no_pods;
mod panic_message;
mod profile;
mod reads;
mod registry;
mod runner;
mod skip_set;

pub use extender::{
    Extender, ExtenderCallError, ExtenderFilterResult, ExtenderReport, ExtenderVerbs,
    ExtenderVerdicts, ExtenderVictims, Extenders, HostPriority, PendingPriorities,
};
pub use meter::{
    Bounds, Lengths, MeasuredPlugin, MeasuredPoint, Meter, MeteredPoint, PLUGIN_BOUNDS,
    POINT_BOUNDS, PluginCount, Readings, Timer,
};
pub use no_pods::cluster_alone;
pub use panic_message::panic_message;
pub use profile::{ExtensionPoint, PluginEntry, PluginIdx, Profile, ProfileError};
pub use reads::EvaluationReads;
pub use registry::{PluginFactory, Registry, RegistryError};
pub use runner::{
    HypotheticalRunner, NodeRejections, NominatedFilters, PodChange, PreFilterRun, Rejections,
    Runner, Scale, SumsFilters, are_within_bounds, bounds, check_score, is_within_bounds,
    must_leave_room,
};
pub use skip_set::SkipSet;
