//! The server seen through a real client over loopback.

mod access;
mod devices;
mod errors;
mod faults;
mod forms;
mod kubectl;
mod lists;
mod patches;
mod pods;
mod served_cluster;
mod volumes;
mod watches;
mod workloads;
