//! The shell around the engine: everything impure about a scheduler.
//!
//! A [`Daemon`] follows the objects of a cluster, hands them to the [engine](kube_scheduler_engine), which decides on a
//! thread of its own, and carries out what was decided: bindings, conditions, deletions, events. It works with a real API
//! server over HTTP(S) as any client does; nothing here knows how decisions are made.
//!
//! ```no_run
//! use kube_scheduler_daemon::{Daemon, Endpoint};
//! use kube_scheduler_runtime::Registry;
//!
//! # async fn run(registry: Registry) -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = Endpoint::from_kubeconfig("kubeconfig".as_ref(), None).await?;
//! let daemon = Daemon::builder(endpoint, registry).start().await?;
//! daemon.run(async { drop(tokio::signal::ctrl_c().await) }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: no decision before everything has been seen; nothing is bound twice, because the API server refuses a
//! second binding and the outcome of an unanswered one is looked up; killing a daemon at any point loses nothing, because
//! all it knows comes from the cluster.
//!
//! Reading order: `daemon` ties it together; `watch` and `kinds` bring objects in through `inbox`; `driver` is the core
//! thread; `extender` asks other programs for it; `writes` carries out effects; `leader` decides whether any of that may
//! happen, through the `fence`; `watchdog` sees to it that the core thread moves; `transport` is the connection; `serve`, `metrics` and `spans` are for observers, `debugger` compares the caches with the cluster.

mod announcement;
mod backoff;
mod clock;
mod cluster_lists;
mod cycle_log;
mod daemon;
mod debugger;
mod driver;
mod engine_log;
mod extender;
mod fence;
#[doc(hidden)]
pub mod fuzzing;
mod inbox;
mod kinds;
mod leader;
mod lookup;
mod metrics;
mod newest;
mod plugin_services;
mod progress;
mod running_scheduler;
mod serve;
mod spans;
mod transport;
mod version;
mod watch;
mod watchdog;
mod writes;

pub use cluster_lists::{ClusterLists, ListError};
pub use daemon::{Daemon, DaemonBuilder, DaemonHandle, RunError, StartError};
pub use extender::{ExtenderError, ExtenderTlsError};
pub use kube_scheduler_writes::RateLimit;
pub use leader::LeaderElectionOptions;
pub use metrics::{MetricsOptions, resident_memory_bytes};
pub use progress::Progress;
pub use running_scheduler::{AskError, LeaseName, RunningScheduler, Trust};
pub use serve::{
    AuthenticationOptions, AuthorizationOptions, ConnectionPatience, Introspection,
    RequestHeaderOptions, ServeError, ServingOptions, SniCertificate, VerbosityError,
    VerbositySetter,
};
pub use spans::TracingOptions;
pub use transport::{ConnectError, Endpoint};
pub use version::{KUBERNETES_VERSION, KubernetesVersion, architecture};
pub use watch::Patience;
