//! Distinct values as small numbers: many nodes share a few lists of taints, or a few sets of volume limits.
//!
//! Invariants: equal values in use have equal numbers, and different ones different numbers; a number keeps its value as
//! long as it has users, and is given to another value only after its last user released it; [`NOTHING`] is never given
//! out, so that callers can let it stand for "no value".

use std::hash::Hash;

use kube_scheduler_api_types::KeyedMap;

/// The number of no value.
pub(crate) const NOTHING: u32 = 0;

/// Values with numbers and counts of users. Clones of a value should be cheap: it is kept twice.
#[derive(Clone, Debug)]
pub(crate) struct Interner<V> {
    /// By number, with the count of users; `None` for [`NOTHING`] and for numbers without users.
    entries: Vec<Option<(V, usize)>>,
    by_value: KeyedMap<V, u32>,
    free: Vec<u32>,
}

impl<V: Clone + Eq + Hash> Interner<V> {
    /// The value of a number; `None` for numbers without users.
    pub(crate) fn get(&self, number: u32) -> Option<&V> {
        self.entries.get(number as usize)?.as_ref().map(|(value, _)| value)
    }

    /// The number of a value, which has one more user from now on.
    pub(crate) fn acquire(&mut self, value: &V) -> u32 {
        if let Some(number) = self.by_value.get(value) {
            if let Some((_, n_users)) = &mut self.entries[*number as usize] {
                *n_users += 1;
            }
            return *number;
        }
        let entry = Some((value.clone(), 1));
        let number = match self.free.pop() {
            Some(number) => {
                self.entries[number as usize] = entry;
                number
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.by_value.insert(value.clone(), number);
        number
    }

    /// A number has one user less. Nothing happens for numbers without users.
    pub(crate) fn release(&mut self, number: u32) {
        let Some(entry) = self.entries.get_mut(number as usize) else { return };
        let Some((value, n_users)) = entry else { return };
        *n_users -= 1;
        if *n_users == 0 {
            self.by_value.remove(value);
            *entry = None;
            self.free.push(number);
        }
    }

    /// All values in use, by number, with their counts of users.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &V, usize)> {
        let numbered = self.entries.iter().zip(0..);
        numbered.filter_map(|(entry, number)| {
            entry.as_ref().map(|(value, n_users)| (number, value, *n_users))
        })
    }

    /// How many values are in use.
    pub(crate) fn len(&self) -> usize {
        self.by_value.len()
    }

    /// One more than the highest number that was ever given out: the length of a table by number.
    pub(crate) fn n_numbers(&self) -> usize {
        self.entries.len()
    }
}

impl<V: Clone> Default for Interner<V> {
    fn default() -> Self {
        Self { entries: vec![None], by_value: KeyedMap::default(), free: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(crate::tests::cases(128))]

        /// The model is the list of users, each with its value and the number that it was given.
        #[test]
        fn numbers_stand_for_values_as_long_as_they_have_users(
            ops in prop::collection::vec((any::<bool>(), 0_u8..6, any::<prop::sample::Index>()), 0..120),
        ) {
            let mut interner: Interner<u8> = Interner::default();
            let mut users: Vec<(u8, u32)> = Vec::new();
            for (is_new, value, which) in ops {
                if is_new || users.is_empty() {
                    let number = interner.acquire(&value);
                    prop_assert_ne!(number, NOTHING);
                    users.push((value, number));
                } else {
                    interner.release(users.swap_remove(which.index(users.len())).1);
                }
                let mut expected: BTreeMap<u32, (u8, usize)> = BTreeMap::new();
                for (value, number) in &users {
                    let (known, n_users) = expected.entry(*number).or_insert((*value, 0));
                    prop_assert_eq!(*known, *value, "a number has one value");
                    *n_users += 1;
                }
                let values: BTreeSet<u8> = expected.values().map(|(value, _)| *value).collect();
                prop_assert_eq!(values.len(), expected.len(), "a value has one number");
                let found: BTreeMap<_, _> =
                    interner.iter().map(|(number, value, n_users)| (number, (*value, n_users))).collect();
                prop_assert_eq!(interner.len(), expected.len());
                for number in 0..interner.n_numbers() as u32 + 1 {
                    prop_assert_eq!(interner.get(number), expected.get(&number).map(|(value, _)| value));
                }
                prop_assert_eq!(found, expected);
            }
            prop_assert!(interner.n_numbers() <= 7, "numbers are given again: at most six values and none");
            interner.release(NOTHING);
            interner.release(99);
        }
    }
}
