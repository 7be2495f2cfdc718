//! The plugins through their public face: made by the registry, asked through the framework's traits.

#![expect(clippy::unwrap_used, reason = "a fixture that does not compile is a failed test")]

mod affinity_model;
mod agreement;
mod device_answers;
mod device_claims;
mod device_groups;
mod device_oddities;
mod device_orders;
mod filters;
mod gangs;
mod hints;
mod inter_pod_affinity;
mod large_scans;
mod preemption;
mod promises;
mod queueing;
mod scores;
mod spread;
mod spread_hints;
mod storage;
mod strategies;
mod support;
mod volume_binding;
mod volume_writes;
