//! Scheduling without a cluster: the real engine schedules the pods of manifests, cluster dumps or traces in virtual time.
//!
//! [`ClusterInput`] parses texts (YAML, JSON, CSV) into [`ClusterObjects`]; a [`Simulation`] gives them to an engine,
//! carries out its effects as an API server without faults would, and ends when no pending pod can make progress. The
//! result is a [`Report`]: the node of every pod, and why the others have none. [`render`] prints it as a table, JSON or
//! YAML.
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
//! options gives an equal report; every pod of the input is counted exactly once; a mistake in a text gives an error with
//! its location, and no objects at all.

mod devices;
mod driver;
mod import;
mod ledger;
mod report;
mod simulation;
mod timeline;

pub use kube_scheduler_answers::{Format, PodName};

pub use import::{ClusterInput, ClusterObjects, ImportError, SourceLocation};
pub use report::{
    ClaimAllocation, ClassUse, DeviceCounts, DeviceReport, DriverUse, NodeCounts, NodeUsage,
    OutcomeCounts, PendingPod, PendingReason, PlacedPod, PodExplanation, PoolUse, PreemptedPod,
    RenderOptions, Report, ResourceUse, TimelineReport, render,
};
pub use simulation::{Simulation, SimulationError, SimulationOptions, SimulationProgress};

/// The code of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
