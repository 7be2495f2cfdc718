//! The in-tree plugins of kube-scheduler v1.36, one module each.
//!
//! [`registry`] is all there is to use: it makes plugins by the names that configuration uses, with the arguments and
//! defaults of `KubeSchedulerConfiguration` v1. The plugins themselves know nothing of the engine that runs them; they
//! are written against `kube-scheduler-framework` alone and read the cluster through its views and columns.
//!
//! All plugins of the default profile are here, and one that is not the reference's: Coscheduling, of scheduler-plugins.
//!
//! ```
//! use kube_scheduler_framework::{Handle, PluginArgs};
//!
//! let registry = kube_scheduler_plugins_intree::registry();
//! let factory = registry.get("NodeName").ok_or("no such plugin")?;
//! let plugin = factory(&PluginArgs::Null, &Handle::default())?;
//! assert!(plugin.as_filter().is_some());
//! # Ok::<(), kube_scheduler_framework::PluginError>(())
//! ```
//!
//! Invariants: no plugin reads a clock, does IO or starts a thread, or keeps between attempts what it could not make again; the whole-cluster form
//! of an extension point answers exactly as the node-by-node form does (property tests compare them); everything that
//! changes is read through the framework's views, which record what an answer depends on, so that engines can cache it.

#[macro_use]
mod plugin_macro;

mod default_binder;
mod dynamic_resources;
mod event_topics;
mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
mod node_unschedulable;
mod node_volume_limits;
mod plugin_args;
mod pod_groups;
mod pod_topology_spread;
mod preemption;
mod priority_sort;
mod registered;
mod resources;
mod scheduling_gates;
mod signature;
mod taint_toleration;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;
mod volumes;

pub use registered::registry;
