//! The plugins that compare what pods ask for with what nodes have: NodeResourcesFit and
//! NodeResourcesBalancedAllocation.
//!
//! Invariants: all arithmetic is that of 64-bit integers that wrap, divisions truncate toward zero, and nothing here
//! divides by zero; floating point appears only where the reference uses it and in the same order of operations.
//! Behaviour in `docs/spec/plugins-node.md` §4.8 and §4.9.

pub(crate) mod balanced;
mod demand;
pub(crate) mod device_classes;
pub(crate) mod fit;
mod fit_args;
mod fit_bound;
mod fit_hints;
mod fit_placement;
mod fit_scan;
mod listing;
pub(crate) mod resource;
mod scored;
pub(crate) mod shape;
mod strategy;

pub(crate) use demand::check_node_resources;
