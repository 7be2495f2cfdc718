//! A hash map in copy-on-write shards.
//!
//! Invariant: there is no way to iterate, so that no result can depend on the order of hashes.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use hashbrown::hash_table::Entry;
use hashbrown::{Equivalent, HashTable};
use kube_scheduler_api_types::KeyedState;

/// A write after a fork copies 1/64 of the map: some hundred entries at 100,000.
const SHARDS: usize = 64;

type Shard<K, V> = HashTable<(K, V)>;

/// A hash map whose clone shares its content shard by shard. It cannot be iterated, on purpose.
pub(crate) struct CowMap<K, V> {
    shards: Box<[Arc<Shard<K, V>>]>,
    len: usize,
    hasher: KeyedState,
}

/// The table inside a shard takes its own bits from both ends of the hash, so the shard comes from the middle.
fn shard_of(hash: u64) -> usize {
    (hash >> 32) as usize % SHARDS
}

impl<K, V> CowMap<K, V> {
    /// An empty map.
    pub(crate) fn new() -> Self {
        let empty = Arc::new(HashTable::new());
        Self { shards: vec![empty; SHARDS].into(), len: 0, hasher: KeyedState::default() }
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The value of `key`.
    pub(crate) fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<&V> {
        let hash = self.hasher.hash_one(key);
        self.shards[shard_of(hash)].find(hash, |(k, _)| key.equivalent(k)).map(|(_, value)| value)
    }

    /// Whether `key` has a value.
    pub(crate) fn contains_key<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> bool {
        self.get(key).is_some()
    }
}

impl<K: Hash + Eq + Clone, V: Clone> CowMap<K, V> {
    /// A place to write the value of `key` to. Copies the shard if a fork shares it and it has the key.
    pub(crate) fn get_mut<Q: Hash + Equivalent<K> + ?Sized>(&mut self, key: &Q) -> Option<&mut V> {
        if !self.contains_key(key) {
            return None;
        }
        let hash = self.hasher.hash_one(key);
        let shard = Arc::make_mut(&mut self.shards[shard_of(hash)]);
        shard.find_mut(hash, |(k, _)| key.equivalent(k)).map(|(_, value)| value)
    }

    /// Puts `value` under `key` and returns what was there.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let hash = self.hasher.hash_one(&key);
        let shard = Arc::make_mut(&mut self.shards[shard_of(hash)]);
        match shard.entry(hash, |(k, _)| *k == key, |(k, _)| self.hasher.hash_one(k)) {
            Entry::Occupied(mut entry) => Some(std::mem::replace(&mut entry.get_mut().1, value)),
            Entry::Vacant(entry) => {
                entry.insert((key, value));
                self.len += 1;
                None
            }
        }
    }

    /// The value of `key`, which is made by `make` if there is none.
    pub(crate) fn get_or_insert_with(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V {
        let hash = self.hasher.hash_one(key);
        let shard = Arc::make_mut(&mut self.shards[shard_of(hash)]);
        match shard.entry(hash, |(k, _)| k == key, |(k, _)| self.hasher.hash_one(k)) {
            Entry::Occupied(entry) => &mut entry.into_mut().1,
            Entry::Vacant(entry) => {
                self.len += 1;
                &mut entry.insert((key.clone(), make())).into_mut().1
            }
        }
    }

    /// Removes `key` and returns its value.
    pub(crate) fn remove<Q: Hash + Equivalent<K> + ?Sized>(&mut self, key: &Q) -> Option<V> {
        if !self.contains_key(key) {
            return None;
        }
        let hash = self.hasher.hash_one(key);
        let shard = Arc::make_mut(&mut self.shards[shard_of(hash)]);
        let entry = shard.find_entry(hash, |(k, _)| key.equivalent(k)).ok()?;
        self.len -= 1;
        Some(entry.remove().0.1)
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
                for n in 0_u16..300 {
                    let key = n.to_string();
                    prop_assert_eq!(map.get(&*key), model.get(&*key));
                }
            }
        }
    }
}
