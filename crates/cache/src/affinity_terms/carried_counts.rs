//! How often something occurs in each domain of a topology: small when it occurs in few of them.
//!
//! A deployment of three replicas occurs in three domains, a daemon on every one of 100,000 nodes. Both forms answer the
//! same.
//!
//! Invariants: no count is zero in the list form; `n_domains` is the number of domains with a count above zero.

use crate::fork::{Column, WIDE_CHUNK};
use crate::label_index::ValueId;

/// Up to this many domains, a sorted list. It is for memory: a column from the first domain on takes half a percent longer, only
/// lists take as long (`bench core --workload EveryPodDifferent`).
const FEW: usize = 64;

/// How often something is carried, and the sum of the weights that it is carried with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TermCount {
    /// How many times the term is carried by pods.
    pub n: u32,
    /// The sum of the weights; 0 for what has no weight.
    pub weight: i64,
}

impl TermCount {
    /// Once, with this weight.
    pub(crate) fn once(weight: i32) -> Self {
        Self { n: 1, weight: i64::from(weight) }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { n: self.n + other.n, weight: self.weight + other.weight }
    }

    /// Takes away what was added.
    pub(crate) fn minus(self, other: Self) -> Self {
        Self { n: self.n - other.n, weight: self.weight - other.weight }
    }

    /// Whether no pod carries the term.
    pub fn is_none(self) -> bool {
        self.n == 0
    }
}

/// Counts by domain, the domains being the values of one label key, by number.
#[derive(Clone, Debug)]
pub struct TermCounts {
    counts: Counts,
    n_domains: usize,
}

#[derive(Clone, Debug)]
enum Counts {
    /// Sorted by domain.
    Few(Vec<(ValueId, TermCount)>),
    /// By number of the domain.
    Many(Column<TermCount, WIDE_CHUNK>),
}

impl TermCounts {
    pub(crate) const fn new() -> Self {
        Self { counts: Counts::Few(Vec::new()), n_domains: 0 }
    }

    /// What is counted in a domain; zero where there is nothing.
    pub fn get(&self, domain: ValueId) -> TermCount {
        match &self.counts {
            Counts::Few(list) => list
                .binary_search_by_key(&domain, |(domain, _)| *domain)
                .ok()
                .and_then(|at| list.get(at))
                .map_or(TermCount::default(), |(_, carried)| *carried),
            Counts::Many(column) => column.try_get(domain.index()).copied().unwrap_or_default(),
        }
    }

    /// In how many domains a pod carries the term.
    pub fn n_domains(&self) -> usize {
        self.n_domains
    }

    /// Whether no pod carries the term in any domain.
    pub fn is_empty(&self) -> bool {
        self.n_domains == 0
    }

    /// The domains with anything, in order of their numbers, and how much.
    pub fn iter(&self) -> impl Iterator<Item = (ValueId, TermCount)> {
        let (list, column) = match &self.counts {
            Counts::Few(list) => (Some(list.iter().copied()), None),
            Counts::Many(column) => {
                let numbered = column.iter().enumerate().filter(|(_, carried)| !carried.is_none());
                (None, Some(numbered.map(|(at, carried)| (ValueId::from_index(at), *carried))))
            }
        };
        list.into_iter().flatten().chain(column.into_iter().flatten())
    }

    /// O(1), or O(domains) while they are few.
    pub(crate) fn add(&mut self, domain: ValueId, more: TermCount) {
        if more.is_none() {
            return;
        }
        match &mut self.counts {
            Counts::Few(list) => match list.binary_search_by_key(&domain, |(domain, _)| *domain) {
                Ok(at) => list[at].1 = list[at].1.plus(more),
                Err(at) => {
                    list.insert(at, (domain, more));
                    self.n_domains += 1;
                    let highest = list.last().map_or(0, |(domain, _)| domain.index());
                    // A list takes half again as much memory per domain as a column, and moves half of it to insert.
                    if list.len() > FEW && list.len() * 32 > highest {
                        let mut column = Column::new();
                        column.grow(highest + 1);
                        list.iter()
                            .for_each(|(domain, carried)| column.set(domain.index(), *carried));
                        self.counts = Counts::Many(column);
                    }
                }
            },
            Counts::Many(column) => {
                column.grow(domain.index() + 1);
                let place = column.get_mut(domain.index());
                self.n_domains += usize::from(place.is_none());
                *place = place.plus(more);
            }
        }
    }

    /// Takes away what was added.
    pub(crate) fn subtract(&mut self, domain: ValueId, less: TermCount) {
        if less.is_none() {
            return;
        }
        match &mut self.counts {
            Counts::Few(list) => {
                if let Ok(at) = list.binary_search_by_key(&domain, |(domain, _)| *domain) {
                    list[at].1 = list[at].1.minus(less);
                    if list[at].1.is_none() {
                        list.remove(at);
                        self.n_domains -= 1;
                    }
                }
            }
            Counts::Many(column) => {
                let place = column.get_mut(domain.index());
                *place = place.minus(less);
                self.n_domains -= usize::from(place.is_none());
                // A quarter of where it became a column, so that it does not flap.
                if self.n_domains < FEW / 4 {
                    self.counts = Counts::Few(self.iter().collect());
                }
            }
        }
    }
}

impl PartialEq for TermCounts {
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
        fn behaves_like_a_map_without_zeroes(
            ops in prop::collection::vec((0_u8..5, 1_usize..300, 1_u32..4, -9_i64..9), 0..600),
        ) {
            let mut counts = TermCounts::new();
            let mut model: BTreeMap<usize, Vec<TermCount>> = BTreeMap::new();
            for (at, (op, domain, n, weight)) in ops.into_iter().enumerate() {
                let id = ValueId::from_index(domain);
                // Growing in the first half and shrinking in the second visits both forms.
                if (op == 0) != (at < 300) {
                    let more = TermCount { n, weight };
                    counts.add(id, more);
                    model.entry(domain).or_default().push(more);
                } else if let Some(known) = model.get_mut(&domain) {
                    let less = known.pop().unwrap_or_default();
                    counts.subtract(id, less);
                    if known.is_empty() {
                        model.remove(&domain);
                    }
                }
                let sum = |all: &Vec<TermCount>| all.iter().fold(TermCount::default(), |sum, one| sum.plus(*one));
                prop_assert_eq!(counts.get(id), model.get(&domain).map(sum).unwrap_or_default());
                prop_assert_eq!((counts.n_domains(), counts.is_empty()), (model.len(), model.is_empty()));
            }
            let sums = model.iter().map(|(at, all)| {
                (*at, all.iter().fold(TermCount::default(), |sum, one| sum.plus(*one)))
            });
            prop_assert!(counts.iter().map(|(id, carried)| (id.index(), carried)).eq(sums));
        }
    }
}
