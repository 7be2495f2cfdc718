//! Three custom schedulers, written as users would write them: through the public API only.
//!
//! - [`reserved_pools`]: a Filter with arguments.
//! - [`cheap_nodes`]: a Score with normalisation, first node by node, then over whole columns.
//! - [`gang`]: a Permit that lets pods wait for each other.
//!
//! Each is a plugin with its unit tests; `src/bin` makes a complete scheduler of each in a `main` of a few lines; `tests`
//! runs them against an API server. `docs/plugins.md` starts from an empty folder and leads there; its code is tested
//! here.

pub mod cheap_nodes;
pub mod gang;
pub mod reserved_pools;

/// The code of the tutorial.
#[cfg(doctest)]
#[doc = include_str!("../../docs/plugins.md")]
struct Tutorial;
