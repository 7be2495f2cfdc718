//! The objects that controllers create: the pods of a Deployment, a StatefulSet, a Job and their like.
//!
//! Objects go in and come out as JSON, as an API server would receive them on creation: without defaults (see [`defaults`]), and with
//! `generateName` where the server completes the name. Fields of a wrong type count as absent. The crate has no I/O, no
//! clock and no state.
//!
//! ```
//! use kube_scheduler_workloads::Controller;
//! use serde_json::json;
//!
//! let set = json!({
//!     "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"namespace": "default", "name": "web"},
//!     "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "c"}]}}},
//! });
//! let pods: Vec<_> = Controller::new(&set).dependents(&[]).collect();
//! assert_eq!(pods.len(), 2);
//! assert_eq!(pods[0].value["metadata"]["generateName"], "web-");
//! assert_eq!(pods[0].path, ["spec", "template"]);
//! ```

mod controller;
mod cron_job;
pub mod daemon_set;
pub mod defaults;
mod dependents;
pub mod deployment;
pub mod job;
mod job_set;
pub mod json;
pub mod stateful_set;
mod workload;

pub use controller::{Controller, PodNaming, template_hash};
pub use dependents::Dependent;
pub use workload::workload_of_group;
