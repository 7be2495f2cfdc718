//! From the wire to what the scheduler keeps: everything that can be decided about an object on its own is decided
//! here, once.
//!
//! Invariants: compiling never fails; what cannot be used (a selector that does not parse) is kept as the error it is,
//! where the plugin that needs it will find it; equal wire objects compile to equal results.

mod affinity;
mod decode;
mod node;
mod pod;
#[cfg(test)]
mod tests;

pub use decode::DecodeError;
pub(crate) use decode::{decode, parse};
