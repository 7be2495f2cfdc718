//! Times any scheduler from outside, as the programs of a control plane see it.
//!
//! Nodes and pods are there, and all pods are pending, before the scheduler starts. From then on only a watch is held on
//! bound pods; rate means from the first binding that the watch reports to the last. What the scheduler used is what the
//! system reports about its process. The *ceiling* is a process that binds the same pods round robin, 64 at a time,
//! without deciding anything, and writes their claims before as a scheduler does: what the API server takes on this machine.
//!
//! Invariants: the program that is timed shares no process with the watcher or with the API server; what was
//! created in a cluster that was there before is taken away again, also after a failure.

mod ceiling;
mod devices;
mod figures;
mod load;
mod process_usage;
mod progress;
mod round;
mod server;
mod shape;
mod soak;
mod watcher;

pub use ceiling::bind_all;
pub use figures::{Figures, Pair, table};
pub(crate) use load::{delete_now, end_namespace, refuse_other_nodes};
pub use process_usage::Usage;
pub use progress::Progress;
pub(crate) use round::interrupted;
pub use round::{Round, Subject};
pub use server::{Backend, Cluster, ServeDevcluster};
pub use shape::Shape;
pub use soak::{Soak, Verdict};
