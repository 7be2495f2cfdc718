//! What schedulers keep in memory of a cluster in which everything was deleted: by the allocator, not by what tables say.

use anyhow::Result;
use kube_scheduler_engine::Engine;

use super::chaos::Dial;
use super::setup::Setup;
use super::simulation::Simulation;
use super::{Counts, Options, play, quieten_panics};
use crate::cost::Heap;

/// What the schedulers of a simulation hold at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetainedMemory {
    /// What happened before, counted.
    pub counts: Counts,
    /// How many schedulers there are.
    pub n_schedulers: usize,
    /// Bytes in use that were not before the simulation, once there is nothing of it but these schedulers' engines.
    pub n_held: usize,
    /// Bytes that as many engines take which have seen nothing.
    pub n_fresh: usize,
    /// Bytes in tables that may hold something then, by what they say.
    pub n_learned: usize,
}

/// Runs a simulation as [`run`](super::run) does, once, and measures what is left of it. What is made once in a process counts, so
/// the figures mean what they say from the second time on that a seed is played. Nothing else may allocate meanwhile.
///
/// # Errors
/// What was violated.
pub fn run_and_weigh(seed: u64, options: &Options, heap: Heap<'_>) -> Result<RetainedMemory> {
    quieten_panics();
    let before = heap.current_usage();
    let mut simulation = Simulation::new(seed, options)?;
    play(&mut simulation, options.n_steps)?;
    let counts = simulation.counts;
    let engines = simulation.into_engines();
    let n_held = heap.current_usage().saturating_sub(before);
    let n_schedulers = engines.len();
    let n_learned = engines.iter().map(n_learned_bytes).sum::<usize>();
    drop(engines);
    let before = heap.current_usage();
    let fresh = fresh_engines(seed, options, n_schedulers)?;
    let n_fresh = heap.current_usage().saturating_sub(before);
    drop(fresh);
    Ok(RetainedMemory { counts, n_schedulers, n_held, n_fresh, n_learned })
}

fn n_learned_bytes(engine: &Engine) -> usize {
    let sizes = engine.table_sizes().into_iter().filter(|size| !size.is_bound_to_objects);
    sizes.filter_map(|size| size.n_bytes).sum()
}

/// Engines built as those of the simulation are.
fn fresh_engines(seed: u64, options: &Options, n: usize) -> Result<Vec<Engine>> {
    let dial = Dial::new(seed);
    let setup = Setup::new(seed, options.shares_evaluations, &dial)?;
    (0..n).map(|_| Ok(setup.engine()?.0)).collect()
}
