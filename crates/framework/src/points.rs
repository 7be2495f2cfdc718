//! The extension points, in the order in which a pod meets them.
//!
//! Points up to Permit are synchronous and must not block: they run on the thread that owns all state. PreBind and
//! Bind may take their time and answer with a future, PreBind also with a task that the engine leads step by step.

mod binding;
mod choosing;
mod filter;
mod group_source;
mod group_trial;
mod object_reader;
mod object_write;
mod placement;
mod post_filter;
mod queueing;
mod score;

pub use binding::{
    Bind, BindOutcome, Completion, Permit, PermitDecision, PostBind, PreBind, PreBindFlight,
    PreBindTask, Reserve, TaskContext, TaskEvent, TaskStep,
};
pub use choosing::{ChoiceOutcome, Chooser, MemberOnNode, PlannedMember};
pub use filter::{Filter, FilterSink, PreFilter, PreFilterExtensions, PreFilterOutcome, Shortage};
pub use group_source::GroupSource;
pub use group_trial::{GroupTrial, PodGroupPostFilter};
pub use object_reader::ObjectReader;
pub use object_write::ObjectWrite;
pub use placement::{
    GroupDemand, PlacedGroup, Placement, PlacementBound, PlacementGenerate, PlacementScore,
    ProposedPlacement,
};
pub use post_filter::{
    HypotheticalFilter, NominatingInfo, PostFilter, PostFilterContext, PostFilterOutcome,
};
pub use queueing::{
    EnqueueExtensions, EventRegistration, HintAnswer, PreEnqueue, QueueSort, QueuedPodView, Sign,
    SignatureWriter,
};
pub use score::{FeasibleNodes, PreScore, Score};
