//! The whole shell against an API server in memory, over real HTTP on loopback: faults, restarts, crashes.

mod cluster;
mod crash;
mod endpoints;
mod faults;
mod scheduling;
