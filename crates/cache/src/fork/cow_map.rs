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

type Shard<K, V> = HashTable<Slot<K, V>>;

/// An entry with the hash of its key: shards grow, split and join all the time, and to hash a key again would fetch its text.
#[derive(Clone)]
struct Slot<K, V> {
    hash: u64,
    key: K,
    value: V,
}

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
        self.shards.iter().flat_map(|shard| shard.iter()).map(|slot| &slot.value)
    }

    /// The value of `key`.
    pub fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<&V> {
        self.find(self.hasher.hash_one(key), key)
    }

    fn find<Q: Equivalent<K> + ?Sized>(&self, hash: u64, key: &Q) -> Option<&V> {
        let shard = &self.shards[shard_of(hash, self.shards.len())];
        shard.find(hash, |slot| key.equivalent(&slot.key)).map(|slot| &slot.value)
    }

    /// Whether `key` has a value.
    pub fn contains_key<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> bool {
        self.get(key).is_some()
    }
}

impl<K: Hash + Eq + Clone, V: Clone> CowMap<K, V> {
    /// The shard of a key, for a write to its entry; `None` if it would have to be copied although it has no such key.
    fn shard_with<Q: Equivalent<K> + ?Sized>(
        &mut self,
        hash: u64,
        key: &Q,
    ) -> Option<&mut Shard<K, V>> {
        let at = shard_of(hash, self.shards.len());
        let shard = &mut self.shards[at];
        if Arc::get_mut(shard).is_none() {
            shard.find(hash, |slot| key.equivalent(&slot.key))?;
        }
        Some(Arc::make_mut(shard))
    }

    /// A place to write the value of `key` to. Copies the shard if a fork shares it and it has the key.
    pub fn get_mut<Q: Hash + Equivalent<K> + ?Sized>(&mut self, key: &Q) -> Option<&mut V> {
        let hash = self.hasher.hash_one(key);
        let shard = self.shard_with(hash, key)?;
        shard.find_mut(hash, |slot| key.equivalent(&slot.key)).map(|slot| &mut slot.value)
    }

    /// Puts `value` under `key` and returns what was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let hash = self.hasher.hash_one(&key);
        let shard = shard_mut(&mut self.shards, hash);
        match shard.entry(hash, |slot| slot.key == key, |slot| slot.hash) {
            Entry::Occupied(mut entry) => {
                Some(std::mem::replace(&mut entry.get_mut().value, value))
            }
            Entry::Vacant(entry) => {
                entry.insert(Slot { hash, key, value });
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
        match shard.entry(hash, |slot| slot.key == *key, |slot| slot.hash) {
            Entry::Occupied(entry) => &mut entry.into_mut().value,
            Entry::Vacant(entry) => {
                self.len += 1;
                let slot = Slot { hash, key: key.clone(), value: make() };
                &mut entry.insert(slot).into_mut().value
            }
        }
    }

    /// Removes `key` and returns its value.
    pub fn remove<Q: Hash + Equivalent<K> + ?Sized>(&mut self, key: &Q) -> Option<V> {
        let hash = self.hasher.hash_one(key);
        let shard = self.shard_with(hash, key)?;
        let entry = shard.find_entry(hash, |slot| key.equivalent(&slot.key)).ok()?;
        let removed = entry.remove().0.value;
        if let Some(room) = room_to_keep(shard.len(), shard.capacity()) {
            shard.shrink_to(room, |slot| slot.hash);
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
        let n_shards = self.shards.len() + 1;
        let origin = origin_of_last(n_shards);
        let whole = Arc::make_mut(&mut self.shards[origin]);
        let mut last = Shard::with_capacity(whole.len() / 2);
        for slot in whole.extract_if(|slot| shard_of(slot.hash, n_shards) != origin) {
            last.insert_unique(slot.hash, slot, |slot| slot.hash);
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
        let origin = Arc::make_mut(&mut self.shards[origin_of_last(n_shards)]);
        origin.reserve(last.len(), |slot| slot.hash);
        for slot in Arc::unwrap_or_clone(last) {
            origin.insert_unique(slot.hash, slot, |slot| slot.hash);
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
