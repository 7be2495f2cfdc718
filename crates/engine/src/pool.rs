//! Splits scans of nodes over threads that the caller brought. The outcome never depends on the split.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::columns::{PooledVec, VecPool};
use kube_scheduler_framework::{CycleState, NodeIdx, Status, VerdictId, Verdicts};
use kube_scheduler_runtime::{Runner, SkipSet};

/// Scans shorter than this are not worth handing out, unless the caller says otherwise: a sleeping thread takes up to 150 µs
/// to wake on a virtual machine, and a scan takes less than 100 ns a node.
const MIN_NODES_TO_SPLIT: usize = 32_768;

/// Threads for scans; none means the calling thread does everything.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    threads: Option<Arc<rayon::ThreadPool>>,
    min_nodes: usize,
    columns: Arc<VecPool<i64>>,
    lists: Arc<VecPool<NodeIdx>>,
    verdicts: Arc<VecPool<VerdictId>>,
}

impl Pool {
    /// The calling thread does everything.
    pub fn none() -> Self {
        Self::default()
    }

    /// Scans are split over these threads and the one that asks, which takes a share itself.
    pub fn new(threads: Arc<rayon::ThreadPool>) -> Self {
        Self { threads: Some(threads), min_nodes: MIN_NODES_TO_SPLIT, ..Self::default() }
    }

    /// Splits scans of `n` nodes and more.
    #[must_use]
    pub const fn splitting_from(mut self, n: usize) -> Self {
        self.min_nodes = n;
        self
    }

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

    /// Runs all filters on `nodes` and notes each one's answer. Of several errors, that of the first node range counts.
    pub(crate) fn filter(
        &self,
        runner: &Runner<'_>,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        skip: &SkipSet,
        verdicts: &mut Verdicts,
    ) -> Result<(), Status> {
        if !self.splits(nodes.len()) {
            return runner.filter_all(state, pod, nodes, skip, verdicts);
        }
        let n_slots = verdicts.len();
        let parts = self.map_runs(nodes, |nodes| {
            let mut part = self.verdicts(n_slots);
            runner.filter_all(state, pod, nodes, skip, &mut part).map(|()| (nodes, part))
        });
        for part in parts {
            let (nodes, part) = part?;
            verdicts.take_over(nodes, &part);
        }
        Ok(())
    }

    /// Whether a scan of `n` nodes is split.
    fn splits(&self, n: usize) -> bool {
        self.threads.is_some() && n >= self.min_nodes.max(1)
    }

    /// What `work` gives for runs of `nodes`, in their order: one run for each thread, or one of all nodes if they are
    /// too few. The calling thread takes a run itself.
    pub(crate) fn map_runs<'n, T: Send>(
        &self,
        nodes: &'n [NodeIdx],
        work: impl Fn(&'n [NodeIdx]) -> T + Sync,
    ) -> Vec<T> {
        let Some(threads) = self.threads.as_ref().filter(|_| self.splits(nodes.len())) else {
            return vec![work(nodes)];
        };
        let runs = nodes.chunks(nodes.len().div_ceil(threads.current_num_threads() + 1));
        let mut results: Vec<Option<T>> = runs.clone().map(|_| None).collect();
        threads.in_place_scope(|scope| {
            let work = &work;
            let mut both = runs.zip(&mut results);
            let own = both.next();
            for (nodes, result) in both {
                scope.spawn(move |_| *result = Some(work(nodes)));
            }
            if let Some((nodes, result)) = own {
                *result = Some(work(nodes));
            }
        });
        results.into_iter().flatten().collect()
    }
}

/// A number for each of some nodes.
#[derive(Default)]
pub(crate) struct ScoreColumn {
    /// As long as it ever was, so that nothing has to be filled for the next one.
    numbers: PooledVec<i64>,
    len: usize,
}

impl From<Vec<i64>> for ScoreColumn {
    fn from(numbers: Vec<i64>) -> Self {
        Self { len: numbers.len(), numbers: numbers.into() }
    }
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
