//! Hash tables for keys that come from objects.
//!
//! Every user who may create a pod chooses its labels and names. With a hash that is the same in every process, texts with equal
//! hashes can be computed in advance, and a table of them takes a search through all of it for each look-up. The hash
//! here is keyed with a number that the operating system draws once for each process.
//!
//! Invariant: the key determines only the place of an entry in a table. So no result may depend on the order of iteration over
//! such a table: sort, or keep an order of your own.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::OnceLock;

use foldhash::SharedSeed;
use foldhash::fast::{FoldHasher, SeedableRandomState};

/// A hash map for keys that come from objects.
pub type KeyedMap<K, V> = hashbrown::HashMap<K, V, KeyedState>;
/// A hash set for values that come from objects.
pub type KeyedSet<T> = hashbrown::HashSet<T, KeyedState>;

/// Makes hashers whose results cannot be predicted outside of the process. All of one process agree, so that a hash may be kept and
/// compared within it, but not written down.
#[derive(Clone)]
pub struct KeyedState(SeedableRandomState);

impl Default for KeyedState {
    fn default() -> Self {
        static KEY: OnceLock<SharedSeed> = OnceLock::new();
        Self(SeedableRandomState::with_seed(0, KEY.get_or_init(|| SharedSeed::from_u64(drawn()))))
    }
}

/// A number from the operating system.
#[expect(
    clippy::disallowed_types,
    reason = "the only source of a key in std; no result depends on it"
)]
fn drawn() -> u64 {
    std::hash::RandomState::new().hash_one(0_u8)
}

impl BuildHasher for KeyedState {
    type Hasher = FoldHasher<'static>;

    #[inline]
    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }
}

impl fmt::Debug for KeyedState {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyedState")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two texts that a hash without a key, the one of `rustc-hash` 2, takes for the same are easy to make: it folds 16
    /// bytes with constants that are public. What can be checked here is that another key gives other hashes.
    #[test]
    fn hashes_depend_on_the_key_and_agree_within_the_process() {
        let (one, other) = (SharedSeed::from_u64(1), SharedSeed::from_u64(2));
        let (one, other): (&'static _, &'static _) =
            (Box::leak(one.into()), Box::leak(other.into()));
        let keyed = |seed| SeedableRandomState::with_seed(0, seed).hash_one("app=web");
        assert_ne!(keyed(one), keyed(other));
        assert_eq!(KeyedState::default().hash_one("a"), KeyedState::default().hash_one("a"));
        assert_ne!(KeyedState::default().hash_one("a"), KeyedState::default().hash_one("b"));
    }
}
