//! Distinct lists of taints: a thousand nodes share a handful, so that a toleration is checked once per list.
//!
//! Invariants: those of [`Interner`]; the order of taints matters, since messages name the first one; id 0 is always the
//! empty list.

use std::sync::Arc;

use kube_scheduler_api_types::Taint;

use crate::interner::{Interner, NOTHING};

/// The number of a list of taints. It stands for the same list as long as a node has that list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaintSetId(u32);

impl TaintSetId {
    /// The number of the empty list of taints.
    pub(crate) const EMPTY: Self = Self(NOTHING);

    /// The number as an index, for tables with one entry per id. See [`TaintSets::n_ids`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// All distinct lists of taints that nodes have.
#[derive(Clone, Debug, Default)]
pub struct TaintSets(Interner<Arc<[Taint]>>);

impl TaintSets {
    /// The taints of a list, in the order in which the node gives them. Empty for ids that are not in use.
    pub fn taints(&self, id: TaintSetId) -> &[Taint] {
        self.0.get(id.0).map_or(&[], |taints| taints)
    }

    /// The length of a table with one entry per id: one more than the highest id that was ever used.
    pub fn n_ids(&self) -> usize {
        self.0.n_numbers()
    }

    /// All lists that nodes have, by id. The empty list is not among them.
    pub fn iter(&self) -> impl Iterator<Item = (TaintSetId, &[Taint])> {
        self.0.iter().map(|(number, taints, _)| (TaintSetId(number), &**taints))
    }

    /// How many nodes have a list that [`iter`](Self::iter) names.
    pub(crate) fn n_nodes(&self, id: TaintSetId) -> usize {
        self.0.iter().find(|(number, ..)| *number == id.0).map_or(0, |(.., n_nodes)| n_nodes)
    }

    pub(crate) fn acquire(&mut self, taints: &Arc<[Taint]>) -> TaintSetId {
        if taints.is_empty() { TaintSetId::EMPTY } else { TaintSetId(self.0.acquire(taints)) }
    }

    pub(crate) fn release(&mut self, id: TaintSetId) {
        self.0.release(id.0);
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_api_types::TaintEffect;

    use super::*;

    fn taints(keys: &[&str]) -> Arc<[Taint]> {
        let taint = |key: &&str| Taint {
            key: (*key).into(),
            value: "".into(),
            effect: TaintEffect::NoSchedule,
        };
        keys.iter().map(taint).collect()
    }

    #[test]
    fn order_matters_and_the_empty_list_is_not_counted() {
        let mut sets = TaintSets::default();
        let ab = sets.acquire(&taints(&["a", "b"]));
        let ba = sets.acquire(&taints(&["b", "a"]));
        assert_ne!(ab, ba);
        assert_eq!(sets.taints(ba), &*taints(&["b", "a"]));
        assert_eq!(sets.acquire(&taints(&[])), TaintSetId::EMPTY);
        sets.release(TaintSetId::EMPTY);
        assert_eq!((sets.taints(TaintSetId::EMPTY), sets.iter().count()), (&[][..], 2));
        sets.release(ab);
        assert_eq!(sets.taints(ab), []);
        assert_eq!((sets.n_nodes(ab), sets.n_nodes(ba)), (0, 1));
    }
}
