//! A small sorted map from resource names to exact amounts.

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

    /// Raises every amount to that of `other` where that is larger or the name is missing.
    pub(super) fn raise_to(&mut self, other: &[(ResourceName, Quantity)]) {
        for (name, amount) in other {
            match self.find(name) {
                Ok(at) if self.0[at].1 < *amount => self.0[at].1 = amount.clone(),
                Ok(_) => {}
                Err(at) => self.0.insert(at, (name.clone(), amount.clone())),
            }
        }
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
