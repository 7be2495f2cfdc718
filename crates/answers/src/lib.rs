//! Questions to a scheduler about itself, answered by its own engine: why a pod is where it is and not elsewhere
//! ([`explain`]), which pods would be evicted for it ([`preemption`]), what would happen if the cluster were changed ([`what_if`]), how many more pods fit ([`capacity`]),
//! what waits in which order and for what ([`queue`]), how much of what is free no pod could use ([`fragmentation`]), and the smallest changes that make a pod fit ([`suggestions`]).
//!
//! An answer is a value with a versioned JSON form ([`API_VERSION`]); [`render`] prints it. Verdicts and stages in it are
//! codes that programs can rely on; the texts beside them are those of events and conditions.
//!
//! ```
//! use std::sync::Arc;
//!
//! use kube_scheduler_answers::{ExplainOptions, Subject, Verdict, explain};
//! use kube_scheduler_api_types::{Node, Pod, Timestamp};
//! use kube_scheduler_engine::{Engine, EngineOptions, Input};
//! # fn engine() -> Result<Engine, Box<dyn std::error::Error>> {
//! #     let mut config = kube_scheduler_config::Configuration::default();
//! #     kube_scheduler_config::default(&mut config, &Default::default());
//! #     Ok(Engine::new(&config, &kube_scheduler_plugins_intree::registry(), EngineOptions::default())?)
//! # }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let now = Timestamp::EPOCH;
//! let mut engine = engine()?;
//! let node = r#"{"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "1", "pods": "110"}}}"#;
//! engine.handle(Input::NodeApplied(Arc::new(Node::from_json(node)?)), now);
//!
//! let pod = r#"{"metadata": {"name": "web"}, "spec": {"schedulerName": "default-scheduler",
//!     "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}"#;
//! let web = Subject::Manifest(Arc::new(Pod::from_json(pod)?));
//! let answer = explain(&mut engine, &web, ExplainOptions::default(), now)?;
//! assert_eq!(answer.verdict, Verdict::DoesNotFit);
//! assert_eq!(answer.rejected[0].rejections[0].plugin, "NodeResourcesFit");
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: nothing here reads a file, a clock or a socket; asking changes nothing that is scheduled; what an answer
//! takes is bounded by the size of the cluster, and its lists by the options.

mod amounts;
mod capacity;
mod claims;
mod columns;
mod course;
mod explanation;
mod format;
mod fragmentation;
mod idleness;
mod inquiry;
mod interrupt;
mod manifests;
mod pod_name;
mod preemption;
mod queue;
mod readiness;
mod rehearsal;
mod request;
mod schema;
mod suggestions;
mod typed;
mod what_if;

pub use capacity::{
    Capacity, CapacityOptions, CapacityStep, LargestRequest, LimitAnswer, capacity,
};
pub use columns::Columns;
pub use explanation::{
    Decision, DomainsAnswer, ExplainOptions, Explanation, FailedMembers, FeasibleNode, GroupAnswer,
    GroupAttempt, LostAnswer, PlaceAnswer, PreemptionAnswer, RejectedNodes, Rejection, ScoreAnswer,
    ShortageAnswer, Subject, Suggestion, Verdict, Visibility, explain,
};
pub use format::{Format, FormatError, RenderError, render};
pub use fragmentation::{
    FragmentCause, Fragmentation, FragmentationOptions, FragmentedResource, NodePool, ShapeAnswer,
    fragmentation,
};
pub use idleness::{Idleness, MAX_IDLE, NextStep};
pub use inquiry::{Answer, Inquiry};
pub use interrupt::Interrupt;
pub use pod_name::{PodName, PodNameError, generated_name};
pub use preemption::{
    CandidateAnswer, NodesInVain, Preemption, PreemptionChoice, VictimAnswer, preemption,
};
pub use queue::{Queue, QueueOptions, QueuedPodAnswer, WaitingGroup, queue};
pub use rehearsal::{Rehearsal, RehearsalEvent};
pub use request::{LabelError, Notes, Question, QuestionKind, RequestError, check_key, check_pair};
pub use schema::{arguments_schema, schema};
pub use suggestions::suggestions;
pub use what_if::{
    BlockedAnswer, Change, EvictionAnswer, MAX_RETURNS, NodeDifference, PendingAnswer,
    PlacementAnswer, QuestionLimits, UngatedAnswer, WhatIf, Workload, what_if, what_if_under,
};

/// The API group of questions and answers.
pub const API_GROUP: &str = "answers.kube-scheduler.rs";

/// The version of the JSON form of questions and answers.
pub const API_VERSION: &str = "answers.kube-scheduler.rs/v1alpha1";

/// Why a question is not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The pod that is asked about does not exist.
    #[error("there is no pod {0}")]
    NoSuchPod(PodName),
    /// A pod to add exists.
    #[error("pod {0} exists already")]
    PodExists(PodName),
    /// A pod group to add exists.
    #[error("pod group {0} exists already")]
    PodGroupExists(String),
    /// The node that is asked about does not exist.
    #[error("there is no node {0:?}")]
    NoSuchNode(String),
    /// A node to add exists.
    #[error("node {0:?} exists already")]
    NodeExists(String),
    /// What the controller of a workload would create cannot be.
    #[error("{workload}: {problem}")]
    Workload {
        /// Its kind, namespace and name.
        workload: String,
        /// What is wrong.
        problem: String,
    },
    /// The question asks for more than is allowed.
    #[error("{asked} changes in one question are too many: at most {max} are allowed")]
    TooMuch {
        /// How many changes; each node that is added counts.
        asked: usize,
        /// The limit.
        max: usize,
    },
    /// Another scheduler is responsible for the pod.
    #[error(
        "pod {pod} is for scheduler {scheduler:?}, which has no profile here; there are: {profiles}"
    )]
    NotOurs {
        /// The pod.
        pod: PodName,
        /// The scheduler that it names.
        scheduler: String,
        /// The names of the profiles.
        profiles: String,
    },
}
