//! The counters of a pool, and what devices take of them.

use std::sync::Arc;

use kube_scheduler_api_types::Quantity;
use smallvec::SmallVec;

use crate::api::{CounterConsumption, ResourceSlice};

/// What a device takes of the counters of its pool, by their places.
pub(crate) type Consumption = SmallVec<[(u32, Quantity); 1]>;

/// All counters of one generation of a pool.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Names of set and counter, ascending.
    names: Vec<(Arc<str>, Arc<str>)>,
    totals: Vec<Quantity>,
    /// Whether a set exists twice, or a device consumes what does not exist.
    is_invalid: bool,
}

impl Counters {
    pub(super) fn new<'a>(slices: impl Iterator<Item = &'a Arc<ResourceSlice>> + Clone) -> Self {
        let mut sets: Vec<_> = slices.clone().flat_map(|slice| &slice.shared_counters).collect();
        sets.sort_by(|a, b| a.name.cmp(&b.name));
        let has_duplicates = sets.windows(2).any(|pair| pair[0].name == pair[1].name);
        let mut counters = Self::default();
        for set in &sets {
            for (name, total) in set.counters.iter() {
                counters.names.push((set.name.clone(), name.clone()));
                counters.totals.push(total.clone());
            }
        }
        // A set without counters exists nevertheless.
        let is_known = |consumed: &CounterConsumption| {
            sets.iter().any(|set| set.name == consumed.counter_set)
                && consumed
                    .counters
                    .iter()
                    .all(|(name, _)| counters.place(&consumed.counter_set, name).is_some())
        };
        let mut consumed = slices
            .filter(|slice| slice.shared_counters.is_empty())
            .flat_map(|slice| &slice.devices)
            .flat_map(|device| &device.consumes_counters);
        let is_invalid = has_duplicates || !consumed.all(is_known);
        Self { is_invalid, ..counters }
    }

    fn place(&self, set: &str, name: &str) -> Option<usize> {
        self.names.binary_search_by(|(s, n)| (&**s, &**n).cmp(&(set, name))).ok()
    }

    pub(super) fn totals(&self) -> &[Quantity] {
        &self.totals
    }

    pub(super) fn is_invalid(&self) -> bool {
        self.is_invalid
    }

    /// What a device takes, without counters that do not exist.
    pub(super) fn consumption(&self, consumed: &[CounterConsumption]) -> Consumption {
        let of_set = |set: &CounterConsumption| {
            let known = set.counters.iter().filter_map(|(name, amount)| {
                let place = self.place(&set.counter_set, name)?;
                Some((place as u32, amount.clone()))
            });
            known.collect::<Consumption>()
        };
        consumed.iter().flat_map(of_set).collect()
    }
}
