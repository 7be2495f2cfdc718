//! A kube-apiserver with its etcd as processes on this machine, a plain client of it, and the controller of resource claims that it
//! comes without.
//!
//! The end-to-end suite and the benchmarks share it. Nothing here knows a scheduler.

mod api;
mod claims;
mod ports;
mod process;
mod server;
mod watch;

pub use api::{Api, code};
pub use claims::control_claims;
pub use ports::ReservedPort;
pub use process::Process;
pub use server::{Assets, Features, RealServer, ServerOptions};
pub use watch::{Change, Watch, WatchError, open_watch};
