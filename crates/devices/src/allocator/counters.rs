//! Counters that devices of a pool share (`docs/spec/plugins-dra.md` §8.8).
//!
//! Counted per driver and pool, and returned whenever a device is given back: issues 140436 and 140434 of the
//! reference are done right here (§19).

use kube_scheduler_api_types::Quantity;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::inventory::{Consumption, Inventory, Pool, PoolGeneration};
use crate::usage::Occupancy;

/// What devices take that claims hold, or that are kept for pods that wait, by pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommittedCounters(FxHashMap<PoolGeneration, PoolCounters>);

#[derive(Clone, Debug)]
struct PoolCounters {
    taken: Vec<Quantity>,
    /// Whether claims take more than there is. Then nothing that needs any counter of the pool can be had. What is only planned
    /// may well be too much together with what claims took since, and does not keep pods from the other counters.
    is_overdrawn: bool,
}

impl PoolCounters {
    /// Whether as much as each of these amounts is left. Many pools of which nothing is left are passed over in one search.
    fn fits(&self, consumption: &Consumption, totals: &[Quantity]) -> bool {
        consumption.iter().all(|(place, amount)| {
            let mut taken = self.taken[*place as usize].clone();
            taken.add(amount);
            taken <= totals[*place as usize]
        })
    }
}

impl CommittedCounters {
    pub(crate) fn new(occupancy: &Occupancy, inventory: &Inventory) -> Self {
        let mut counters = Self::default();
        inventory.pools().for_each(|pool| counters.count(pool, occupancy));
        counters
    }

    /// Counts a pool again after claims have taken or released devices of it.
    pub(crate) fn count(&mut self, pool: &Pool, occupancy: &Occupancy) {
        if !pool.has_counters() {
            return;
        }
        self.forget(pool);
        // First what claims hold, so that nothing else counts when these are compared with what there is.
        self.add(pool, occupancy, false);
        self.add(pool, occupancy, true);
    }

    /// Adds what the devices take that claims hold, or those that are only planned.
    fn add(&mut self, pool: &Pool, occupancy: &Occupancy, are_planned: bool) {
        for device in pool.devices() {
            let key = device.key();
            if device.consumption().is_empty()
                || !occupancy.is_held(key)
                || occupancy.is_only_planned(key) != are_planned
            {
                continue;
            }
            let totals = device.counter_totals();
            let pool = self.0.entry(device.pool()).or_insert_with(|| PoolCounters {
                taken: vec![Quantity::ZERO; totals.len()],
                is_overdrawn: false,
            });
            for (place, amount) in device.consumption() {
                let (taken, total) = (&mut pool.taken[*place as usize], &totals[*place as usize]);
                taken.add(amount);
                pool.is_overdrawn |= !are_planned && *taken > *total;
            }
        }
    }

    /// Forgets a pool that is gone.
    pub(crate) fn forget(&mut self, pool: &Pool) {
        for generation in pool.generations() {
            self.0.remove(&generation);
        }
    }

    /// By pool and generation, in order, and how many there are in all.
    #[cfg(test)]
    pub(crate) fn shown(&self, inventory: &Inventory) -> String {
        let pools = inventory.pools();
        let generations = pools.flat_map(|pool| pool.generations());
        let counted: Vec<_> = generations.map(|generation| self.0.get(&generation)).collect();
        format!("{counted:?} of {}", self.0.len())
    }
}

/// What devices chosen in one attempt take besides, by pool.
#[derive(Default)]
pub(super) struct ChosenCounters(FxHashMap<PoolGeneration, Vec<Quantity>>);

/// What to put back when a device is given back.
pub(super) type CounterRefund = SmallVec<[(u32, Quantity); 1]>;

impl ChosenCounters {
    /// Takes what a device consumes, if that much is left, and says how to undo it.
    pub(super) fn take(
        &mut self,
        pool: PoolGeneration,
        consumption: &Consumption,
        committed: &CommittedCounters,
        totals: &[Quantity],
    ) -> Option<CounterRefund> {
        let committed = committed.0.get(&pool);
        if committed.is_some_and(|pool| pool.is_overdrawn) {
            return None;
        }
        if let Some(committed) = committed
            && !self.0.contains_key(&pool)
            && !committed.fits(consumption, totals)
        {
            return None;
        }
        // Amounts chosen include those committed.
        let chosen = self.0.entry(pool).or_insert_with(|| match committed {
            Some(pool) => pool.taken.clone(),
            None => vec![Quantity::ZERO; totals.len()],
        });
        let mut before = CounterRefund::new();
        for (place, amount) in consumption {
            let taken = &mut chosen[*place as usize];
            before.push((*place, taken.clone()));
            taken.add(amount);
        }
        // The other counters were sufficient before and have not changed.
        let fits =
            |(place, _): &(u32, Quantity)| chosen[*place as usize] <= totals[*place as usize];
        if consumption.iter().all(fits) {
            return Some(before);
        }
        self.put_back(pool, before);
        None
    }

    pub(super) fn put_back(&mut self, pool: PoolGeneration, before: CounterRefund) {
        let Some(chosen) = self.0.get_mut(&pool) else { return };
        for (place, amount) in before.into_iter().rev() {
            chosen[place as usize] = amount;
        }
    }
}
