//! A Kubernetes API server in memory, with hollow nodes and faults on demand.
//!
//! With it a scheduler, or any other client, can be run, tested and demonstrated without a cluster. It serves HTTP on
//! loopback, with lists, watches, patches, bindings, evictions, events and tables as kubectl and client libraries expect
//! them. Hollow nodes run the pods that are bound to them; volume controllers bind claims and provision volumes. Faults
//! (latency, errors, lost connections and watches, lost history, restarts) are injected on request, and the same ones for
//! the same seed.
//!
//! ```
//! use kube_scheduler_devcluster::{DevCluster, NodeTemplate, PODS, Selection};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = DevCluster::builder().start().await?;
//! cluster.add_hollow_nodes(3, &NodeTemplate::default().zones(3))?;
//! cluster.create(json!({
//!     "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
//!     "spec": {"containers": [{"name": "main", "image": "registry/web:1"}]},
//! }))?;
//! assert_eq!(cluster.list(PODS, &Selection::all()).items.len(), 1);
//! println!("kubectl --server {} get pods", cluster.url());
//! cluster.shutdown().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Faults can be set by the program ([`DevCluster::faults`]) or over HTTP, while clients are running:
//!
//! ```text
//! curl -X PUT $URL/devcluster/faults -d '{"seed": 7, "rules": [
//!   {"verbs": ["create"], "resources": ["pods/binding"], "probability": 0.1, "effect": {"type": "error", "code": 409}},
//!   {"effect": {"type": "latency", "millis": 5, "jitterMillis": 20}}]}'
//! curl -X PUT $URL/devcluster/faults -d '{"dropWatches": {"resource": "pods"}, "compactHistory": "pods"}'
//! curl -X PUT $URL/devcluster/faults -d '{"restart": {"downtimeMillis": 500}}'
//! ```
//!
//! By default every request counts as the administrator's and there is no TLS. Both can be turned on
//! ([`DevClusterBuilder::tls`], [`DevClusterBuilder::rbac`]): then certificates and tokens identify users, roles and
//! bindings determine what they may do, and rejected requests are recorded ([`DevCluster::denied`]).
//!
//! # Limits
//!
//! - It listens on loopback only.
//! - No service account tokens, no aggregated cluster roles; users may grant more rights than they have. Users can be
//!   impersonated by name and groups, not with uids and extra fields.
//! - Deployments and other workloads get pods, and objects are deleted with their owners, only if
//!   [`DevClusterBuilder::workloads`] says so. CronJobs, HorizontalPodAutoscalers, quotas and services have no controllers.
//! - No definitions of custom resources, but the PodGroups of `scheduling.x-k8s.io` are there; no admission webhooks. Several versions are served of `resource.k8s.io` (v1, v1beta2, v1alpha3)
//!   and of events, one of all other kinds.
//! - Everything is sent as JSON; lists and watches of pods and nodes also in protobuf, if turned on. Bodies are read in
//!   protobuf for all built-in kinds.
//! - Validation covers metadata, pods and nodes, not every field of every kind.
//!
//! # Where to start reading
//!
//! [`kinds`](Kind) is the table that drives everything; `store`, `history` and `watch` contain the state; `api` has the
//! verbs; `routes`, `server` and `listener` serve them over HTTP; `hollow`, `controller`, `volumes`, `devices`, `workloads`
//! and `garbage` act on the cluster as its other programs would.

mod kinds;

mod dependents;
mod history;
mod object;
mod selectors;
mod store;
mod watch;

mod access;
mod api;
mod defaults;
mod events;
mod forms;
mod patch;
mod protobuf;
mod status;
mod validation;

mod body;
mod discovery;
mod faults;
mod listener;
mod port_forward;
mod response;
mod routes;
mod server;
mod table;

mod controller;
mod devices;
mod files;
mod garbage;
mod group_protection;
mod groups;
mod hollow;
mod persist;
mod volumes;
mod workloads;

mod clock;
mod cluster;
mod rng;
#[cfg(test)]
mod testing;

pub use access::{Authority, CertificateError, Denial, Identity, User};
pub use clock::{Clock, FixedClock};
pub use cluster::{ClusterError, DevCluster, DevClusterBuilder};
pub use devices::{ClaimController, ClaimKind, ClaimStore, SampleDevices};
pub use faults::{FaultEffect, FaultError, FaultRule, Faults};
pub use history::ChangeType;
pub use hollow::{END_PHASE, HollowOptions, NodeTemplate, RUN_SECONDS};
pub use kinds::{
    CSI_NODES, DISRUPTION_BUDGETS, EVENTS, KINDS, Kind, KindId, LEASES, NODES,
    PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES,
};
pub use object::StoredObject;
pub use persist::PersistError;
pub use selectors::Selection;
pub use status::StatusError;
pub use store::{Listing, Store};
pub use volumes::{ProvisionFault, VolumeOptions, Volumes};
pub use watch::{WatchEvent, Watcher};

/// The code of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
