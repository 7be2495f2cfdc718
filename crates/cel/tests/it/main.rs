//! Tests of the public API: single functions, and laws for any expression.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod functions;
mod properties;
mod reference;
