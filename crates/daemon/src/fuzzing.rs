//! Entry points for fuzzers: the code that reads bytes from the network, without the network. Not part of this crate's stable
//! interface.

pub use crate::serve::fuzz::secure_port;
pub use crate::watch::fuzz::{list, watch};
