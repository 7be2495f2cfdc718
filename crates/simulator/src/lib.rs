//! Scheduling without a cluster: manifests, dumps of live clusters and traces through the real engine, in virtual time.
//!
//! [`ClusterInput`] reads texts (YAML, JSON, CSV) into [`ClusterObjects`]; a [`Simulation`] takes those, feeds them to an
//! engine, answers everything the engine asks for as a perfect API server would, and ends when no pending pod can get
//! any further. What comes out is a [`Report`]: where every pod went, and why the others did not. It can be printed as a
//! table, JSON or YAML with [`render`].
//!
//! ```
//! use kube_scheduler_simulator::{ClusterInput, Simulation, SimulationOptions};
//!
//! let mut input = ClusterInput::default();
//! input.add_manifests(
//!     "cluster.yaml",
//!     "
//! apiVersion: v1
//! kind: Node
//! metadata: {name: n1}
//! status: {allocatable: {cpu: '2', memory: 4Gi, pods: '10'}}
//! ---
//! apiVersion: v1
//! kind: Pod
//! metadata: {name: web}
//! spec: {containers: [{name: c, resources: {requests: {cpu: 500m}}}]}
//! ",
//! )?;
//! let mut simulation = Simulation::new(SimulationOptions::default())?;
//! simulation.load(input.finish()?);
//! let report = simulation.run()?;
//! assert_eq!(report.pods.scheduled, 1);
//! assert_eq!(report.placements[0].node, "n1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants: nothing here reads a file, a clock or the environment, or starts a thread; the same input with the same
//! options gives an equal report; every pod of the input is accounted for exactly once; a text with a mistake gives an
//! error that names the place, and no objects at all. HTTP serving is none of this crate's business.

mod driver;
mod explanation;
mod import;
mod ledger;
mod pod_name;
mod report;
mod simulation;
mod volumes;

pub use explanation::{NodeVerdict, PodExplanation};
pub use import::{ClusterInput, ClusterObjects, ImportError, Place};
pub use pod_name::{PodName, PodNameError};
pub use report::{
    Format, NodeCounts, NodeUsage, Pending, PendingReason, Placement, PodCounts, Preempted,
    RenderError, RenderOptions, Report, render,
};
pub use simulation::{Progress, Simulation, SimulationError, SimulationOptions};
