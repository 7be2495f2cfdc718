//! The whole shell against an API server in memory, over real HTTP on loopback: faults, restarts, crashes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod answering;
mod cluster;
mod crash;
mod extender_server;
mod extenders;
mod faults;
mod governor;
mod groups;
mod https;
mod intake;
mod leader;
mod leading;
mod lists;
mod preemption;
mod scheduling;
mod serving_auth;
mod serving_pages;
mod serving_tls;
mod sources;
mod tracing;
mod volumes;
mod watchdog;
