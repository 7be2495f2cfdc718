//! Tests of reading, checking and writing configuration.

mod conformance;
mod properties;
mod refusals;
