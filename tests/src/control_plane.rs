//! A kube-apiserver with its etcd as processes on this machine, and a plain client of it.
//!
//! The end-to-end suite and the benchmarks share it. Nothing here knows a scheduler.

mod api;
mod ports;
mod process;
mod server;

pub use api::{Api, code};
pub use ports::free as free_ports;
pub use process::Process;
pub use server::{Assets, Features, RealServer, ServerOptions};
