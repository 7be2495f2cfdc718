//! Fault simulation: schedulers against a simulated API server in virtual time, with everything going wrong that can.
//!
//! One to three schedulers share a lease. They see the cluster through watches that break off, lag behind, repeat
//! themselves and have to be listed again; their writes are refused, lost, delayed, done without an answer; they crash,
//! pause and take over from each other; users, kubelets, controllers and other schedulers change the cluster under them;
//! a plugin fails and panics at every extension point, and in some simulations an extender does. Every effect and every
//! decision is checked on the way, and in the end, with all faults gone, everything must settle: see [`run`].
//!
//! Invariants: everything is a function of the seed and the [`Options`]; a trace is the same on every machine.

mod asking;
mod audit;
mod chaos;
mod claims;
mod devices;
mod environment;
mod extended;
mod extender;
mod follower;
mod instance;
mod kept;
mod pools;
mod requests;
mod server;
mod setup;
mod simulation;
mod trace;
mod verdict;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use anyhow::Result;
use kube_scheduler_engine::AttemptResult;
use kube_scheduler_runtime::panic_message;

pub use self::kept::{RetainedMemory, run_and_weigh};
pub(crate) use self::server::apply_patch;
use self::simulation::Simulation;

/// Something that can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Watches break off and are resumed.
    Watches,
    /// The server forgets its history, so that everything is listed again.
    Relists,
    /// Events come twice.
    Duplicates,
    /// Writes are refused, lost, or done without an answer.
    Writes,
    /// Writes arrive long after they were given up.
    LateWrites,
    /// Schedulers end without notice and come back.
    Crashes,
    /// The lease is lost, given back and taken over; the new leader may lag behind.
    Leader,
    /// Schedulers get no time to run.
    Pauses,
    /// Time makes jumps.
    Clocks,
    /// Nodes come, change and go.
    Nodes,
    /// Other schedulers bind pods.
    Foreign,
    /// Objects come back under the same name.
    Recreation,
    /// A plugin fails, waits and panics; so does an extender.
    Plugins,
    /// Some pods are the worst that a tenant can write.
    Tenants,
    /// Devices come and go, and pods claim them.
    Devices,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Watches,
        Self::Relists,
        Self::Duplicates,
        Self::Writes,
        Self::LateWrites,
        Self::Crashes,
        Self::Leader,
        Self::Pauses,
        Self::Clocks,
        Self::Nodes,
        Self::Foreign,
        Self::Recreation,
        Self::Plugins,
        Self::Tenants,
        Self::Devices,
    ];

    /// The name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Watches => "watches",
            Self::Relists => "relists",
            Self::Duplicates => "duplicates",
            Self::Writes => "writes",
            Self::LateWrites => "late-writes",
            Self::Crashes => "crashes",
            Self::Leader => "leader",
            Self::Pauses => "pauses",
            Self::Clocks => "clocks",
            Self::Nodes => "nodes",
            Self::Foreign => "foreign",
            Self::Recreation => "recreation",
            Self::Plugins => "plugins",
            Self::Tenants => "tenants",
            Self::Devices => "devices",
        }
    }

    /// The fault of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn parse(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|fault| fault.as_str() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            format!("unknown fault {name:?}: allowed are {known}")
        })
    }
}

/// How a simulation is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many steps with faults there are.
    pub n_steps: u64,
    /// Faults left out.
    pub without: BTreeSet<Fault>,
    /// Whether the trace is kept, and not only its hash.
    pub keeps_trace: bool,
    /// Whether pods share evaluations; no decision may depend on it.
    pub shares_evaluations: bool,
    /// Whether the schedulers are asked questions all the time; no decision and no effect may depend on it.
    pub asks_questions: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            n_steps: 100,
            without: BTreeSet::new(),
            keeps_trace: false,
            shares_evaluations: true,
            asks_questions: false,
        }
    }
}

/// What happened, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps.
    pub n_steps: u64,
    /// Decisions for a node.
    pub n_placed: u64,
    /// Attempts that found none.
    pub n_turned_down: u64,
    /// Attempts that broke.
    pub n_broken: u64,
    /// Decisions that another engine judged.
    pub n_judged: u64,
    /// Writes sent.
    pub n_writes: u64,
    /// Schedulers that ended.
    pub n_ends: u64,
    /// How often an instance started to lead.
    pub n_leaders: u64,
    /// Claims that got devices.
    pub n_allocated: u64,
    /// Claims that schedulers made for extended resources.
    pub n_made: u64,
    /// Questions that were answered.
    pub n_answers: u64,
}

impl Counts {
    fn count(&mut self, result: &AttemptResult) {
        match result {
            AttemptResult::Assumed(_) => self.n_placed += 1,
            AttemptResult::Unschedulable(_) => self.n_turned_down += 1,
            AttemptResult::Error(_) => self.n_broken += 1,
            AttemptResult::Skipped => {}
        }
    }

    /// The sums.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            n_steps: self.n_steps + other.n_steps,
            n_placed: self.n_placed + other.n_placed,
            n_turned_down: self.n_turned_down + other.n_turned_down,
            n_broken: self.n_broken + other.n_broken,
            n_judged: self.n_judged + other.n_judged,
            n_writes: self.n_writes + other.n_writes,
            n_ends: self.n_ends + other.n_ends,
            n_leaders: self.n_leaders + other.n_leaders,
            n_allocated: self.n_allocated + other.n_allocated,
            n_made: self.n_made + other.n_made,
            n_answers: self.n_answers + other.n_answers,
        }
    }
}

/// How a simulation went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// What happened, counted.
    pub counts: Counts,
    /// One number for the whole trace.
    pub hash: u64,
    /// What was violated, if anything.
    pub violation: Option<String>,
    /// What happened, if it was to be kept.
    pub trace: Vec<String>,
}

/// Runs one simulation: steps with faults, then an end without, in which
///
/// - every pending pod that fits anywhere is bound by events and backoffs alone,
/// - every other is parked, and its condition says what the scheduler found,
/// - nothing is assumed, awaited or under way, and
/// - once everything is deleted, every table is empty.
///
/// With questions, the same is run without, too: everything must then happen as it does with them.
pub fn run(seed: u64, options: &Options) -> Outcome {
    let outcome = simulate(seed, options);
    if !options.asks_questions || outcome.violation.is_some() {
        return outcome;
    }
    let silent = Options { asks_questions: false, ..options.clone() };
    if simulate(seed, &silent).hash == outcome.hash {
        return outcome;
    }
    let trace = |options: Options| simulate(seed, &Options { keeps_trace: true, ..options }).trace;
    let [asked, silent] = [options.clone(), silent].map(trace);
    let at = (0..asked.len().max(silent.len())).find(|at| asked.get(*at) != silent.get(*at));
    let [asked, silent] = [asked, silent].map(|mut trace| match at {
        Some(at) if at < trace.len() => trace.swap_remove(at),
        _ => "nothing".to_owned(),
    });
    let violation = format!("with questions: {asked:?}, without: {silent:?}");
    Outcome { violation: Some(violation), ..outcome }
}

fn simulate(seed: u64, options: &Options) -> Outcome {
    quieten_panics();
    let mut simulation = match Simulation::new(seed, options) {
        Ok(simulation) => simulation,
        Err(error) => {
            let violation = Some(format!("the simulation does not begin: {error:#}"));
            let counts = Counts::default();
            return Outcome { seed, counts, hash: 0, violation, trace: Vec::new() };
        }
    };
    let result = catch_unwind(AssertUnwindSafe(|| play(&mut simulation, options.n_steps)));
    let violation = match result {
        Ok(result) => result.err().map(|error| format!("{error:#}")),
        Err(panic) => Some(format!("panic: {}", panic_text(&*panic))),
    };
    if let Some(violation) = &violation {
        simulation.trace.add(format!("VIOLATION {violation}"));
    }
    let n_answers = simulation.asking.n_answered();
    let (counts, hash) = (Counts { n_answers, ..simulation.counts }, simulation.trace.hash());
    Outcome { seed, counts, hash, violation, trace: simulation.trace.into_lines() }
}

/// Steps with faults, and then the end without.
fn play(simulation: &mut Simulation, n_steps: u64) -> Result<()> {
    for _ in 0..n_steps {
        simulation.step()?;
    }
    simulation.conclude()
}

/// The shortest and calmest way found to a violation: fewer steps, then fewer kinds of faults.
pub fn shrink(seed: u64, options: &Options) -> Options {
    let mut best = Options { keeps_trace: false, ..options.clone() };
    let fails = |options: &Options| run(seed, options).violation.is_some();
    if !fails(&best) {
        return best;
    }
    for fault in Fault::ALL {
        let mut calmer = best.clone();
        if calmer.without.insert(fault) && fails(&calmer) {
            best = calmer;
        }
    }
    // A violation on the way is there with all later steps cut off; one at the end moves around, so halving is a guess.
    let n_taken = run(seed, &best).counts.n_steps;
    let mut candidates: Vec<u64> = vec![n_taken];
    candidates.extend((1..=8).map(|eighths| n_taken * eighths / 8));
    candidates.sort_unstable();
    for n_steps in candidates {
        let shorter = Options { n_steps, ..best.clone() };
        if n_steps < best.n_steps && fails(&shorter) {
            return shorter;
        }
    }
    best
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic_message(panic).unwrap_or("without a message").to_owned()
}

/// Panics of the failing plugin are not worth a line.
fn quieten_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !panic_text(info.payload()).starts_with(chaos::PANIC) {
                usual(info);
            }
        }));
    });
}
