//! How many domains have how many pods.
//!
//! Invariant: sums in order, each once, none with no domain.

/// How often each sum of pods occurs among the domains of a counter.
///
/// A sorted list: `n` different sums need at least `n² / 2` pods, so there are some hundreds in the largest clusters, and one or
/// two in most counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SumCounts(Vec<(u32, u32)>);

impl SumCounts {
    /// The counts of this many domains without pods.
    pub(super) fn of_empty(n_domains: usize) -> Self {
        Self(if n_domains > 0 { vec![(0, n_domains as u32)] } else { Vec::new() })
    }

    /// Each sum with how often it occurs, lowest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.0.iter().copied()
    }

    /// How often a sum occurs.
    pub(super) fn of_sum(&self, sum: u32) -> u32 {
        self.find(sum).map_or(0, |at| self.0[at].1)
    }

    /// One more domain has this sum.
    pub(super) fn add(&mut self, sum: u32) {
        match self.find(sum) {
            Ok(at) => self.0[at].1 += 1,
            Err(at) => self.0.insert(at, (sum, 1)),
        }
    }

    /// One domain less has this sum.
    pub(super) fn remove(&mut self, sum: u32) {
        let Ok(at) = self.find(sum) else { return };
        self.0[at].1 -= 1;
        if self.0[at].1 == 0 {
            self.0.remove(at);
        }
    }

    fn find(&self, sum: u32) -> Result<usize, usize> {
        self.0.binary_search_by_key(&sum, |(sum, _)| *sum)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(crate::tests::cases(64))]

        /// Sums that come and go are counted as a map counts them.
        #[test]
        fn counts_like_a_map(
            n_empty in 0_usize..20,
            steps in prop::collection::vec((any::<bool>(), 0_u32..6), 0..60),
        ) {
            let mut counts = SumCounts::of_empty(n_empty);
            let mut left = vec![0; n_empty];
            for (comes, sum) in steps {
                let at = left.iter().position(|other| *other == sum);
                match (comes, at) {
                    (true, _) => {
                        counts.add(sum);
                        left.push(sum);
                    }
                    (false, at) => {
                        counts.remove(sum);
                        at.map(|at| left.remove(at));
                    }
                }
                let mut model: BTreeMap<u32, u32> = BTreeMap::new();
                left.iter().for_each(|sum| *model.entry(*sum).or_default() += 1);
                prop_assert_eq!(counts.iter().collect::<Vec<_>>(), model.clone().into_iter().collect::<Vec<_>>());
                prop_assert_eq!(counts.of_sum(sum), model.get(&sum).copied().unwrap_or(0));
            }
        }
    }
}
