//! How large a part of the cluster state is.

use std::iter::Sum;

/// How many entries a part of the state has, and the memory that they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSize {
    /// How many entries it has.
    pub n_entries: usize,
    /// What they take in memory, in bytes.
    pub n_bytes: usize,
}

impl Sum for StoreSize {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), |sum, size| Self {
            n_entries: sum.n_entries + size.n_entries,
            n_bytes: sum.n_bytes + size.n_bytes,
        })
    }
}
