//! Sorted maps from resource names to exact amounts: one to read, and one to collect what many containers ask for.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Deref;
use std::sync::Arc;

use smallvec::SmallVec;

use super::add_amount;
use crate::names;
use crate::quantity::Quantity;
use crate::resources::{NonZeroRequest, ResourceName, Resources};

/// Amounts by name, sorted, each name once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Totals(SmallVec<[(ResourceName, Quantity); 3]>);

impl Totals {
    pub(super) fn of(amounts: &[(ResourceName, Quantity)]) -> Self {
        Self(amounts.iter().cloned().collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&Quantity> {
        self.find(name).ok().and_then(|at| self.0.get(at)).map(|(_, amount)| amount)
    }

    pub(super) fn set(&mut self, name: &ResourceName, amount: Quantity) {
        match self.find(name) {
            Ok(at) => self.0[at].1 = amount,
            Err(at) => self.0.insert(at, (name.clone(), amount)),
        }
    }

    /// Sets `name` unless it is mentioned already.
    pub(super) fn fill(&mut self, name: &str, amount: impl FnOnce() -> Quantity) {
        if let Err(at) = self.find(name) {
            self.0.insert(at, (ResourceName::from(name), amount()));
        }
    }

    /// Adds every amount of `other`.
    pub(super) fn add(&mut self, other: &[(ResourceName, Quantity)]) {
        for (name, amount) in other {
            match self.find(name) {
                Ok(at) => self.0[at].1.add(amount),
                Err(at) => self.0.insert(at, (name.clone(), amount.clone())),
            }
        }
    }

    /// These totals, without memory for more.
    pub(super) fn shrunk(mut self) -> Self {
        self.0.shrink_to_fit();
        self
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    pub(super) fn to_resources(&self) -> Resources {
        let mut resources = Resources::default();
        for (name, amount) in &self.0 {
            add_amount(&mut resources, name, amount);
        }
        resources
    }

    pub(super) fn to_non_zero(&self) -> NonZeroRequest {
        NonZeroRequest {
            milli_cpu: self.get(names::CPU).map_or(0, Quantity::milli_value),
            memory: self.get(names::MEMORY).map_or(0, Quantity::value),
        }
    }

    pub(super) fn into_shared(self) -> Arc<[(ResourceName, Quantity)]> {
        self.0.into_iter().collect()
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name))
    }
}

impl Deref for Totals {
    type Target = [(ResourceName, Quantity)];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Amounts by name that are being collected. A pod has thousands of containers and of names if it likes, so a change takes at most the
/// logarithm of the number of names.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums(BTreeMap<ResourceName, Quantity>);

impl Sums {
    pub(super) fn get(&self, name: &str) -> Option<&Quantity> {
        self.0.get(name)
    }

    pub(super) fn set(&mut self, name: &ResourceName, amount: Quantity) {
        self.merge(name, amount, |known, amount| *known = amount);
    }

    /// Adds every amount of `other`.
    pub(super) fn add(&mut self, other: &[(ResourceName, Quantity)]) {
        for (name, amount) in other {
            self.merge(name, amount.clone(), |known, amount| known.add(&amount));
        }
    }

    /// Raises the amount of `name` to `amount` if that is larger or the name is missing.
    pub(super) fn raise(&mut self, name: &ResourceName, amount: Quantity) {
        self.merge(name, amount, |known, amount| {
            if *known < amount {
                *known = amount;
            }
        });
    }

    /// Raises every amount to that of `other` where that is larger or the name is missing.
    pub(super) fn raise_to(&mut self, other: &[(ResourceName, Quantity)]) {
        for (name, amount) in other {
            self.raise(name, amount.clone());
        }
    }

    pub(super) fn into_totals(self) -> Totals {
        Totals(self.0.into_iter().collect())
    }

    /// Sets `name`, or merges the amount with the one that is there.
    fn merge(
        &mut self,
        name: &ResourceName,
        amount: Quantity,
        merge: impl FnOnce(&mut Quantity, Quantity),
    ) {
        #[cfg(test)]
        N_CHANGES.set(N_CHANGES.get() + 1);
        match self.0.entry(name.clone()) {
            Entry::Occupied(mut known) => merge(known.get_mut(), amount),
            Entry::Vacant(place) => {
                place.insert(amount);
            }
        }
    }
}

#[cfg(test)]
thread_local! {
    /// How often an amount was changed or looked at to be changed.
    pub(super) static N_CHANGES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The sums over a pod's containers, which are given in the order in which they start.
#[derive(Clone, Debug, Default)]
pub(super) struct Containers {
    /// What all ask for that run at the same time in the end.
    total: Sums,
    /// What init containers ask for that stay.
    running: Sums,
    /// The most that is needed while the pod starts. No less than what is running.
    peak: Sums,
}

impl Containers {
    /// A container that is no init container.
    pub(super) fn add(&mut self, amounts: &[(ResourceName, Quantity)]) {
        self.total.add(amounts);
    }

    /// An init container, which stays or ends before the next one starts. Only for what it asks for can the peak become higher.
    pub(super) fn start(&mut self, amounts: &[(ResourceName, Quantity)], stays: bool) {
        if stays {
            self.total.add(amounts);
            self.running.add(amounts);
        }
        for (name, amount) in amounts {
            let needed = match self.running.get(name) {
                Some(running) if stays => running.clone(),
                Some(running) => {
                    let mut needed = amount.clone();
                    needed.add(running);
                    needed
                }
                None => amount.clone(),
            };
            self.peak.raise(name, needed);
        }
    }

    /// The larger of what is needed in the end and while the pod starts.
    pub(super) fn into_total(self) -> Sums {
        let mut total = self.total;
        total.raise_to(&self.peak.into_totals());
        total
    }
}
