//! What every part of a scheduler needs and no Kubernetes object defines: points in time, hash tables for keys that
//! other people choose, work that is counted, and enums whose values have names.
//!
//! The crate has no I/O, no clock and no threads; the only randomness is the key of [`KeyedState`].
//!
//! ```
//! use std::time::Duration;
//!
//! use kube_scheduler_primitives::{KeyedMap, Timestamp};
//!
//! let mut deadlines: KeyedMap<&str, Timestamp> = KeyedMap::default();
//! deadlines.insert("default/web-0", Timestamp::from_millis(500) + Duration::from_secs(10));
//! assert_eq!(deadlines["default/web-0"].as_nanos(), 10_500_000_000);
//! ```

mod keyed;
mod lock;
mod named;
mod time;
mod work;

pub use keyed::{KeyedMap, KeyedSet, KeyedState};
pub use lock::lock;
pub use time::Timestamp;
pub use work::WorkMeter;
