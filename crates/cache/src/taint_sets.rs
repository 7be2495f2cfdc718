//! Distinct lists of taints: a thousand nodes share a handful, so that a toleration is checked once per list.
//!
//! Invariants: equal lists have equal ids and different lists different ones; order matters, since messages name the
//! first taint; an id means the same list as long as a node has it, and [`TaintSets::interned_at`] tells when an id
//! got its present meaning; id 0 is always the empty list.

use std::sync::Arc;

use hashbrown::HashMap;
use kube_scheduler_api_types::Taint;
use rustc_hash::FxBuildHasher;

/// A list of taints, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaintSetId(u32);

impl TaintSetId {
    /// No taints.
    pub const EMPTY: Self = Self(0);

    /// Its number, for tables by id.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// All distinct lists of taints.
#[derive(Clone, Debug)]
pub struct TaintSets {
    sets: Vec<TaintSet>,
    by_taints: HashMap<Arc<[Taint]>, TaintSetId, FxBuildHasher>,
    free: Vec<TaintSetId>,
}

#[derive(Clone, Debug)]
struct TaintSet {
    taints: Arc<[Taint]>,
    n_nodes: usize,
    interned_at: u64,
}

impl TaintSets {
    /// The taints behind an id, in order. Empty for ids that are not in use.
    pub fn taints(&self, id: TaintSetId) -> &[Taint] {
        self.sets.get(id.index()).map_or(&[], |set| &set.taints)
    }

    /// The [`sequence`](crate::ClusterState::sequence) at which the id got its present meaning.
    pub fn interned_at(&self, id: TaintSetId) -> u64 {
        self.sets.get(id.index()).map_or(0, |set| set.interned_at)
    }

    /// One more than the highest id that was ever used: the length of a table by id.
    pub fn n_ids(&self) -> usize {
        self.sets.len()
    }

    /// All lists that nodes have, by id, with the number of nodes. The empty list is not among them.
    pub fn iter(&self) -> impl Iterator<Item = (TaintSetId, &[Taint], usize)> {
        let in_use = self.sets.iter().enumerate().filter(|(_, set)| set.n_nodes > 0);
        in_use.map(|(at, set)| (TaintSetId(at as u32), &*set.taints, set.n_nodes))
    }

    pub(crate) fn intern(&mut self, taints: &Arc<[Taint]>, sequence: u64) -> TaintSetId {
        if taints.is_empty() {
            return TaintSetId::EMPTY;
        }
        if let Some(id) = self.by_taints.get(&**taints) {
            self.sets[id.index()].n_nodes += 1;
            return *id;
        }
        let set = TaintSet { taints: taints.clone(), n_nodes: 1, interned_at: sequence };
        let id = match self.free.pop() {
            Some(id) => {
                self.sets[id.index()] = set;
                id
            }
            None => {
                self.sets.push(set);
                TaintSetId((self.sets.len() - 1) as u32)
            }
        };
        self.by_taints.insert(taints.clone(), id);
        id
    }

    pub(crate) fn release(&mut self, id: TaintSetId) {
        if id == TaintSetId::EMPTY {
            return;
        }
        let set = &mut self.sets[id.index()];
        set.n_nodes -= 1;
        if set.n_nodes == 0 {
            let taints = std::mem::replace(&mut set.taints, Arc::from([]));
            self.by_taints.remove(&*taints);
            self.free.push(id);
        }
    }
}

impl Default for TaintSets {
    fn default() -> Self {
        let empty = TaintSet { taints: Arc::from([]), n_nodes: 0, interned_at: 0 };
        Self { sets: vec![empty], by_taints: HashMap::default(), free: Vec::new() }
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
    fn an_id_is_reused_only_after_its_last_node_and_says_so() {
        let mut sets = TaintSets::default();
        let ab = sets.intern(&taints(&["a", "b"]), 1);
        let ba = sets.intern(&taints(&["b", "a"]), 2);
        assert_ne!(ab, ba);
        assert_eq!(sets.intern(&taints(&["a", "b"]), 3), ab);
        assert_eq!(sets.intern(&taints(&[]), 4), TaintSetId::EMPTY);
        sets.release(ab);
        assert_eq!(sets.intern(&taints(&["c"]), 5).index(), 3);
        sets.release(ab);
        assert_eq!(sets.taints(ab), []);
        let d = sets.intern(&taints(&["d"]), 6);
        assert_eq!(d, ab);
        assert_eq!((sets.interned_at(ba), sets.interned_at(d)), (2, 6));
        assert_eq!(sets.taints(d), &*taints(&["d"]));
        assert_eq!(sets.iter().count(), 3);
    }
}
