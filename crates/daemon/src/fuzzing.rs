//! Entrances for fuzzers: what reads bytes from the network, without the network. No part of what this crate promises.

pub use crate::serve::fuzz::secure_port;
pub use crate::watch::fuzz::{list, watch};
