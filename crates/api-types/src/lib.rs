//! What a Kubernetes scheduler reads of the API, compiled once.

pub mod time;
pub mod validation;

pub use time::Timestamp;
