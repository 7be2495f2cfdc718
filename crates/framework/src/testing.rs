//! For the tests of plugin authors: objects in a line, a small cluster to ask a plugin about, and a check of what a plugin
//! promises.
//!
//! ```
//! use kube_scheduler_framework::testing::{Fixture, node, pod};
//!
//! let fixture = Fixture::new()
//!     .with_node(node("a").label("zone", "x"))
//!     .with_node(node("b").label("zone", "y"))
//!     .with_pod(pod("web").request("cpu", "500m").on("a"));
//! assert_eq!(fixture.cluster().n_nodes(), 2);
//! assert_eq!(fixture.view("a").requested_milli_cpu(), 500);
//! ```
//!
//! Invariants: everything here is deterministic; a mistake in a fixture (an object that does not decode, a pod on a node that
//! is not there) panics with a text that names it, as tests want it.

mod contract;
mod fixture;
mod objects;
mod reading;

pub use contract::{Violation, check_contract, check_forms};
pub use fixture::Fixture;
pub use objects::{NodeBuilder, PodBuilder, node, pod};
pub use reading::{PointReads, reads_of};
