//! A Kubernetes API server in memory, with hollow nodes and faults on demand.
//!
//! It is there so that a scheduler, or any other client, can be run, tested and shown without a cluster: over real HTTP
//! on loopback, with lists, watches, patches, bindings, evictions, events and tables as kubectl and client libraries
//! expect them. Hollow nodes run what is bound to them; volume controllers bind claims and make volumes. Faults (latency, refusals, lost connections and watches, lost
//! history, restarts) come when they are asked for, the same ones for the same seed.
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
//! Faults can be set by the program ([`DevCluster::faults`]) or over HTTP, while anything runs against the server:
//!
//! ```text
//! curl -X PUT $URL/devcluster/faults -d '{"seed": 7, "rules": [
//!   {"verbs": ["create"], "resources": ["pods/binding"], "probability": 0.1, "effect": {"type": "error", "code": 409}},
//!   {"effect": {"type": "latency", "millis": 5, "jitterMillis": 20}}]}'
//! curl -X PUT $URL/devcluster/faults -d '{"dropWatches": {"resource": "pods"}, "compactHistory": "pods"}'
//! curl -X PUT $URL/devcluster/faults -d '{"restart": {"downtimeMillis": 500}}'
//! ```
//!
//! As a rule everyone is the administrator and there is no TLS. Both are to be had, as a control plane has them
//! ([`DevClusterBuilder::tls`], [`DevClusterBuilder::rbac`]): certificates and tokens make users, roles and bindings say
//! what they may do, and what was refused can be read ([`DevCluster::denied`]).
//!
//! What it deliberately is not: it listens on loopback only; no impersonation, no service account tokens, no aggregated
//! cluster roles, no check that nobody grants more than he has; no controllers but those for disruption budgets and for volumes, so deployments make no
//! pods and owners take no dependents along; no custom resources, no admission webhooks, no conversion between API versions
//! except for events; protobuf only for lists and watches of pods and nodes where it is switched on, and in the bodies of bindings, events, namespaces and reviews; validation covers metadata, pods and nodes, not every field of every kind.
//!
//! Reading order: [`kinds`](Kind) is the table everything is driven by; `store`, `history` and `watch` hold the state;
//! `api` has the verbs; `routes` and `server` put them on HTTP; `hollow`, `controller` and `volumes` are the
//! cluster's inhabitants.

mod kinds;

mod history;
mod object;
mod selectors;
mod store;
mod watch;

mod access;
mod api;
mod defaults;
mod events;
mod patch;
mod protobuf;
mod quantity;
mod status;
mod validation;

mod body;
mod discovery;
mod faults;
mod routes;
mod server;
mod table;

mod controller;
mod hollow;
mod persist;
mod volumes;

mod clock;
mod cluster;
mod rng;

pub use access::{Authority, CertificateError, Denial, Identity, User};
pub use clock::{Clock, FixedClock, SystemClock};
pub use cluster::{ClusterError, DevCluster, DevClusterBuilder};
pub use faults::{Effect, FaultError, FaultRule, Faults};
pub use history::ChangeType;
pub use hollow::{END_PHASE, HOLLOW, Hollow, HollowOptions, NodeTemplate, RUN_SECONDS};
pub use kinds::{
    BINDINGS, CSI_NODES, DISRUPTION_BUDGETS, EVENTS, EVENTS_V1, KINDS, Kind, KindId, LEASES,
    NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, PRIORITY_CLASSES,
    STORAGE_CLASSES,
};
pub use object::Object;
pub use persist::PersistError;
pub use selectors::{FieldSelector, LabelSelector, Selection};
pub use status::{ApiError, FieldError};
pub use store::{Listing, Store};
pub use volumes::{ProvisionFault, VolumeOptions, Volumes};
pub use watch::{WatchEvent, Watcher};
