//! A hash map in copy-on-write shards.
//!
//! Invariants: what can be iterated has no order that a result may depend on; shards have at most [`SHARD_LEN`] entries on
//! average, give or take one entry, and at least a quarter of that where there is more than one shard.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use hashbrown::hash_table::Entry;
use hashbrown::{Equivalent, HashTable};
use kube_scheduler_api_types::KeyedState;

use crate::room::room_to_keep;

/// How many entries a shard has on average, at most: so many are copied by a write after a fork, and a fork copies one pointer
/// for so many. A map whose shards have less than a quarter of it on average has too many.
const SHARD_LEN: usize = if cfg!(test) { 4 } else { 64 };

type Shard<K, V> = HashTable<(K, V)>;

/// A hash map whose clone shares its content shard by shard. The number of shards follows the number of entries, so that small
/// maps are small.
///
/// ```
/// use kube_scheduler_cache::CowMap;
///
/// let mut map = CowMap::new();
/// map.insert("a", 1);
/// let fork = map.clone();
/// map.insert("a", 2);
/// assert_eq!((map.get("a"), fork.get("a")), (Some(&2), Some(&1)));
/// ```
pub struct CowMap<K, V> {
    /// By linear hashing: shards are split and joined one at a time, in turn.
    shards: Vec<Arc<Shard<K, V>>>,
    len: usize,
    hasher: KeyedState,
}

/// The shard, of so many, in which a hash is.
fn shard_of(hash: u64, n_shards: usize) -> usize {
    // The table inside a shard takes its own bits from both ends of the hash, so the shard comes from the middle.
    let bits = (hash >> 20) as usize;
    let mask = n_shards.next_power_of_two() - 1;
    let shard = bits & mask;
    if shard < n_shards { shard } else { shard & (mask >> 1) }
}

/// The shard in which a hash is, for a write.
fn shard_mut<K: Clone, V: Clone>(shards: &mut [Arc<Shard<K, V>>], hash: u64) -> &mut Shard<K, V> {
    let at = shard_of(hash, shards.len());
    Arc::make_mut(&mut shards[at])
}

/// The shard that the last one of so many was split off from.
fn origin_of_last(n_shards: usize) -> usize {
    (n_shards - 1) & ((n_shards.next_power_of_two() - 1) >> 1)
}

impl<K, V> CowMap<K, V> {
    /// An empty map.
    pub fn new() -> Self {
        Self { shards: vec![Arc::default()], len: 0, hasher: KeyedState::default() }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All values, in an order that differs from map to map: a result that depends on it would not be repeatable.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.shards.iter().flat_map(|shard| shard.iter()).map(|(_, value)| value)
    }

    /// The value of `key`.
    pub fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<&V> {
        self.find(self.hasher.hash_one(key), key)
    }

    fn find<Q: Equivalent<K> + ?Sized>(&self, hash: u64, key: &Q) -> Option<&V> {
        let shard = &self.shards[shard_of(hash, self.shards.len())];
        shard.find(hash, |(k, _)| key.equivalent(k)).map(|(_, value)| value)
    }

    /// Whether `key` has a value.
    pub fn contains_key<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> bool {
        self.get(key).is_some()
    }
}

impl<K: Hash + Eq + Clone, V: Clone> CowMap<K, V> {
    /// A place to write the value of `key` to. Copies the shard if a fork shares it and it has the key.
    pub fn get_mut<Q: Hash + Equivalent<K> + ?Sized>(&mut self, key: &Q) -> Option<&mut V> {
        let hash = self.hasher.hash_one(key);
        let at = shard_of(hash, self.shards.len());
        let shard = &mut self.shards[at];
        if Arc::get_mut(shard).is_none() {
            // It would have to be copied.
            shard.find(hash, |(k, _)| key.equivalent(k))?;
        }
        let shard = Arc::make_mut(shard);
        shard.find_mut(hash, |(k, _)| key.equivalent(k)).map(|(_, value)| value)
    }

    /// Puts `value` under `key` and returns what was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let hash = self.hasher.hash_one(&key);
        let shard = shard_mut(&mut self.shards, hash);
        match shard.entry(hash, |(k, _)| *k == key, |(k, _)| self.hasher.hash_one(k)) {
            Entry::Occupied(mut entry) => Some(std::mem::replace(&mut entry.get_mut().1, value)),
            Entry::Vacant(entry) => {
                entry.insert((key, value));
                self.len += 1;
                self.split_if_full();
                None
            }
        }
    }

    /// The value of `key`, which is made by `make` if there is none.
    pub fn get_or_insert_with(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V {
        // Before the entry is made, because it must not move any more.
        self.split_if_full();
        let hash = self.hasher.hash_one(key);
        let shard = shard_mut(&mut self.shards, hash);
        match shard.entry(hash, |(k, _)| k == key, |(k, _)| self.hasher.hash_one(k)) {
            Entry::Occupied(entry) => &mut entry.into_mut().1,
            Entry::Vacant(entry) => {
                self.len += 1;
                &mut entry.insert((key.clone(), make())).into_mut().1
            }
        }
    }

    /// Removes `key` and returns its value.
    pub fn remove<Q: Hash + Equivalent<K> + ?Sized>(&mut self, key: &Q) -> Option<V> {
        let hash = self.hasher.hash_one(key);
        self.find(hash, key)?;
        let shard = shard_mut(&mut self.shards, hash);
        let entry = shard.find_entry(hash, |(k, _)| key.equivalent(k)).ok()?;
        let removed = entry.remove().0.1;
        if let Some(room) = room_to_keep(shard.len(), shard.capacity()) {
            shard.shrink_to(room, |(k, _)| self.hasher.hash_one(k));
        }
        self.len -= 1;
        self.join_if_empty();
        Some(removed)
    }

    /// Splits the next shard in turn when there are too few.
    fn split_if_full(&mut self) {
        if self.len <= SHARD_LEN * self.shards.len() {
            return;
        }
        let (hasher, n_shards) = (&self.hasher, self.shards.len() + 1);
        let origin = origin_of_last(n_shards);
        let whole = Arc::make_mut(&mut self.shards[origin]);
        let mut last = Shard::with_capacity(whole.len() / 2);
        let moves = |(key, _): &mut (K, V)| shard_of(hasher.hash_one(key), n_shards) != origin;
        for (key, value) in whole.extract_if(moves) {
            let hash = hasher.hash_one(&key);
            last.insert_unique(hash, (key, value), |(k, _)| hasher.hash_one(k));
        }
        self.shards.push(Arc::new(last));
    }

    /// Joins the last shard with the one that it was split off from when there are too many.
    fn join_if_empty(&mut self) {
        let n_shards = self.shards.len();
        if n_shards == 1 || self.len >= SHARD_LEN / 4 * n_shards {
            return;
        }
        let Some(last) = self.shards.pop() else { return };
        let hasher = &self.hasher;
        let origin = Arc::make_mut(&mut self.shards[origin_of_last(n_shards)]);
        origin.reserve(last.len(), |(k, _)| hasher.hash_one(k));
        for (key, value) in Arc::unwrap_or_clone(last) {
            let hash = hasher.hash_one(&key);
            origin.insert_unique(hash, (key, value), |(k, _)| hasher.hash_one(k));
        }
    }
}

impl<K, V> Clone for CowMap<K, V> {
    fn clone(&self) -> Self {
        Self { shards: self.shards.clone(), len: self.len, hasher: self.hasher.clone() }
    }
}

impl<K, V> Default for CowMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> fmt::Debug for CowMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CowMap").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(crate::tests::cases(64))]

        #[test]
        fn behaves_like_an_ordered_map_that_is_copied(ops in prop::collection::vec((0_u8..6, 0_u16..300), 0..300)) {
            let mut map: CowMap<Arc<str>, u16> = CowMap::new();
            let mut model: BTreeMap<Arc<str>, u16> = BTreeMap::new();
            let (mut other, mut other_model) = (map.clone(), model.clone());
            for (at, (op, n)) in ops.into_iter().enumerate() {
                let key: Arc<str> = n.to_string().into();
                let value = u16::try_from(at).unwrap();
                match op {
                    0 | 1 => prop_assert_eq!(map.insert(key.clone(), value), model.insert(key, value)),
                    2 => prop_assert_eq!(map.remove(&*key), model.remove(&key)),
                    3 => {
                        let place = map.get_or_insert_with(&key, || value);
                        *place = place.wrapping_add(1);
                        let place = model.entry(key).or_insert(value);
                        *place = place.wrapping_add(1);
                    }
                    4 => {
                        if let Some(place) = map.get_mut(&*key) {
                            *place = 7;
                        }
                        model.entry(key).and_modify(|place| *place = 7);
                    }
                    _ if n % 2 == 0 => (other, other_model) = (map.clone(), model.clone()),
                    _ => {
                        std::mem::swap(&mut map, &mut other);
                        std::mem::swap(&mut model, &mut other_model);
                    }
                }
            }
            for (map, model) in [(&map, &model), (&other, &other_model)] {
                prop_assert_eq!(map.len(), model.len());
                prop_assert_eq!(map.is_empty(), model.is_empty());
                let mut values: Vec<u16> = map.values().copied().collect();
                values.sort_unstable();
                let mut expected: Vec<u16> = model.values().copied().collect();
                expected.sort_unstable();
                prop_assert_eq!(values, expected);
                prop_assert!(map.shards.len() <= 1 + map.len() / (SHARD_LEN / 4), "{} shards", map.shards.len());
                prop_assert!(map.len() <= SHARD_LEN * map.shards.len() + 1, "{} shards", map.shards.len());
                for n in 0_u16..300 {
                    let key = n.to_string();
                    prop_assert_eq!(map.get(&*key), model.get(&*key));
                }
            }
        }
    }
}
