//! How often something occurs in each domain of a topology: small when it occurs in few of them.
//!
//! A deployment of three replicas occurs in three domains, a daemon on every one of 100,000 nodes. Both forms answer the
//! same.
//!
//! Invariants: no count is zero in the list form; `n_domains` is the number of domains with a count above zero.

use crate::fork::Column;
use crate::label_index::ValueId;

/// Below this many domains a sorted list is always the better form.
const FEW: usize = 64;

/// Counts by domain, the domains being the values of one label key, by number.
#[derive(Clone, Debug)]
pub struct CarriedCounts {
    counts: Counts,
    n_domains: usize,
}

#[derive(Clone, Debug)]
enum Counts {
    /// Sorted by domain.
    Few(Vec<(ValueId, u32)>),
    /// By number of the domain.
    Many(Column<u32, 256>),
}

impl CarriedCounts {
    pub(crate) const fn new() -> Self {
        Self { counts: Counts::Few(Vec::new()), n_domains: 0 }
    }

    /// The count in a domain.
    pub fn get(&self, domain: ValueId) -> u32 {
        match &self.counts {
            Counts::Few(list) => list
                .binary_search_by_key(&domain, |(domain, _)| *domain)
                .ok()
                .and_then(|at| list.get(at))
                .map_or(0, |(_, n)| *n),
            Counts::Many(column) => column.try_get(domain.index()).copied().unwrap_or(0),
        }
    }

    /// In how many domains there is anything.
    pub fn n_domains(&self) -> usize {
        self.n_domains
    }

    /// Whether there is nothing anywhere.
    pub fn is_empty(&self) -> bool {
        self.n_domains == 0
    }

    /// The domains with anything, in order of their numbers, and how much.
    pub fn iter(&self) -> impl Iterator<Item = (ValueId, u32)> {
        let (list, column) = match &self.counts {
            Counts::Few(list) => (Some(list.iter().copied()), None),
            Counts::Many(column) => {
                let numbered = column.iter().enumerate().filter(|(_, n)| **n > 0);
                (None, Some(numbered.map(|(at, n)| (ValueId::from_index(at), *n))))
            }
        };
        list.into_iter().flatten().chain(column.into_iter().flatten())
    }

    /// O(1), or O(domains) while they are few.
    pub(crate) fn add(&mut self, domain: ValueId, n: u32) {
        if n == 0 {
            return;
        }
        match &mut self.counts {
            Counts::Few(list) => match list.binary_search_by_key(&domain, |(domain, _)| *domain) {
                Ok(at) => list[at].1 += n,
                Err(at) => {
                    list.insert(at, (domain, n));
                    self.n_domains += 1;
                    let highest = list.last().map_or(0, |(domain, _)| domain.index());
                    // A list takes twice the memory of a column per domain, and moves half of it to insert.
                    if list.len() > FEW && list.len() * 32 > highest {
                        let mut column = Column::new();
                        column.grow(highest + 1);
                        list.iter().for_each(|(domain, n)| column.set(domain.index(), *n));
                        self.counts = Counts::Many(column);
                    }
                }
            },
            Counts::Many(column) => {
                column.grow(domain.index() + 1);
                let place = column.get_mut(domain.index());
                self.n_domains += usize::from(*place == 0);
                *place += n;
            }
        }
    }

    /// Takes away what was added.
    pub(crate) fn subtract(&mut self, domain: ValueId, n: u32) {
        if n == 0 {
            return;
        }
        match &mut self.counts {
            Counts::Few(list) => {
                if let Ok(at) = list.binary_search_by_key(&domain, |(domain, _)| *domain) {
                    list[at].1 -= n;
                    if list[at].1 == 0 {
                        list.remove(at);
                        self.n_domains -= 1;
                    }
                }
            }
            Counts::Many(column) => {
                let place = column.get_mut(domain.index());
                *place -= n;
                self.n_domains -= usize::from(*place == 0);
                // A quarter of where it became a column, so that it does not flap.
                if self.n_domains < FEW / 4 {
                    self.counts = Counts::Few(self.iter().collect());
                }
            }
        }
    }
}

impl PartialEq for CarriedCounts {
    fn eq(&self, other: &Self) -> bool {
        self.n_domains == other.n_domains && self.iter().eq(other.iter())
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
        fn behaves_like_a_map_without_zeroes(ops in prop::collection::vec((0_u8..5, 1_usize..300, 1_u32..4), 0..600)) {
            let mut counts = CarriedCounts::new();
            let mut model: BTreeMap<usize, u32> = BTreeMap::new();
            for (at, (op, domain, n)) in ops.into_iter().enumerate() {
                let id = ValueId::from_index(domain);
                // Growing in the first half and shrinking in the second visits both forms.
                if (op == 0) != (at < 300) {
                    counts.add(id, n);
                    *model.entry(domain).or_default() += n;
                } else if let Some(known) = model.get_mut(&domain) {
                    let n = n.min(*known);
                    counts.subtract(id, n);
                    *known -= n;
                    if *known == 0 {
                        model.remove(&domain);
                    }
                }
                prop_assert_eq!(counts.get(id), model.get(&domain).copied().unwrap_or(0));
                prop_assert_eq!((counts.n_domains(), counts.is_empty()), (model.len(), model.is_empty()));
            }
            prop_assert!(counts.iter().map(|(id, n)| (id.index(), n)).eq(model));
        }
    }
}
