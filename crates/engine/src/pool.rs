//! Splits a filter scan over threads that the caller brought. The outcome never depends on the split.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_framework::{CycleState, NodeIdx, Parallel, Runner, SkipSet, Status, Verdicts};
use rayon::prelude::*;

/// Scans shorter than this are not worth handing out, unless the caller says otherwise.
const MIN_NODES_TO_SPLIT: usize = 2_048;

/// Threads for scans; none means the calling thread does everything.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    threads: Option<Arc<rayon::ThreadPool>>,
    min_nodes: usize,
}

impl Pool {
    /// The calling thread does everything.
    pub const fn none() -> Self {
        Self { threads: None, min_nodes: 0 }
    }

    /// Scans are split over these threads.
    pub const fn new(threads: Arc<rayon::ThreadPool>) -> Self {
        Self { threads: Some(threads), min_nodes: MIN_NODES_TO_SPLIT }
    }

    /// Splits scans of `n` nodes and more.
    #[must_use]
    pub const fn splitting_from(mut self, n: usize) -> Self {
        self.min_nodes = n;
        self
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
        let Some(threads) = self.threads.as_ref().filter(|_| nodes.len() >= self.min_nodes.max(1))
        else {
            return runner.filter_all(state, pod, nodes, skip, verdicts);
        };
        let n_slots = verdicts.len();
        let chunk_len = nodes.len().div_ceil(threads.current_num_threads().max(1));
        let parts: Vec<Result<Verdicts, Status>> = threads.install(|| {
            nodes
                .par_chunks(chunk_len)
                .map(|chunk| {
                    let mut part = Verdicts::absent(n_slots);
                    runner.filter_all(state, pod, chunk, skip, &mut part)?;
                    Ok(part)
                })
                .collect()
        });
        for (chunk, part) in nodes.chunks(chunk_len).zip(parts) {
            let part = part?;
            for &idx in chunk {
                verdicts.put(idx, part.rejection(idx).unwrap_or(&Status::SUCCESS));
            }
        }
        Ok(())
    }
}

impl Parallel for Pool {
    fn width(&self) -> usize {
        self.threads.as_ref().map_or(1, |threads| threads.current_num_threads().max(1))
    }

    fn for_each(&self, n: usize, work: &(dyn Fn(usize) + Sync)) {
        match &self.threads {
            Some(threads) => threads.install(|| (0..n).into_par_iter().for_each(work)),
            None => (0..n).for_each(work),
        }
    }
}
