//! For the tests of plugin authors: a small cluster in a text to ask a plugin about, and a check of what a plugin promises.
//!
//! A [`fixture`] is written in a [`grammar`]; what a program computes is built with methods:
//!
//! ```
//! use kube_scheduler_framework::testing::{fixture, node, pod};
//!
//! let mut fixture = fixture("node a zone=x; pod web cpu=500m node=a");
//! for n in 0..3 {
//!     fixture = fixture.with_node(node(&format!("spare-{n} zone=y")).label("rack", &n.to_string()));
//! }
//! assert_eq!(fixture.cluster().n_nodes(), 4);
//! assert_eq!(fixture.view("a").requested_milli_cpu(), 500);
//! assert_eq!(pod("web cpu=500m").build(), pod("web").request("cpu", "500m").build());
//! ```
//!
//! Invariants: everything here is deterministic; a mistake in a fixture (an object that does not decode, a pod on a node that
//! is not there) panics with a text that names it, as tests want it.

mod changes;
mod contract;
mod fixture;
pub mod grammar;
mod json;
mod objects;
mod reading;

pub use contract::{Violation, check_contract, check_forms};
pub use fixture::{Fixture, fixture};
pub use kube_scheduler_cache::reads::{PhaseReads, Reads};
pub use objects::{NodeBuilder, ObjectBuilder, PodBuilder, node, object, pod};
pub use reading::{PointReads, reads_of};
