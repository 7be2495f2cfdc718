//! Memory for passes over all nodes, which is used again: the system has to clear fresh memory, which takes as long as a filter does.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use kube_scheduler_cache::columns::{PooledVec, VecPool};
use kube_scheduler_framework::{NodeIdx, VerdictId, Verdicts};

/// Vectors as long as the list of nodes. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffers {
    columns: Arc<VecPool<i64>>,
    lists: Arc<VecPool<NodeIdx>>,
    verdicts: Arc<VecPool<VerdictId>>,
}

impl Buffers {
    /// A column of `len` numbers with unspecified values.
    pub(crate) fn column(&self, len: usize) -> ScoreColumn {
        let mut numbers = self.columns.lend(len);
        if numbers.len() < len {
            numbers.resize(len, 0);
        }
        ScoreColumn { numbers, len }
    }

    /// A list with room for `len` nodes. What is in it is unspecified.
    pub(crate) fn list(&self, len: usize) -> PooledVec<NodeIdx> {
        self.lists.lend(len)
    }

    /// Verdicts on `n_slots` node slots, all absent.
    pub(crate) fn verdicts(&self, n_slots: usize) -> Verdicts {
        Verdicts::absent_in(&self.verdicts, n_slots)
    }
}

/// A number for each of some nodes.
pub(crate) struct ScoreColumn {
    /// As long as it ever was, so that nothing has to be filled for the next one.
    numbers: PooledVec<i64>,
    len: usize,
}

impl Deref for ScoreColumn {
    type Target = [i64];

    fn deref(&self) -> &[i64] {
        &self.numbers[..self.len]
    }
}

impl DerefMut for ScoreColumn {
    fn deref_mut(&mut self) -> &mut [i64] {
        &mut self.numbers[..self.len]
    }
}
