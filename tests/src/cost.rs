//! The cost fuzzer: looks for what a tenant may write that costs the scheduler most, for each byte of it.
//!
//! Inputs are made of parts (`genes.rs`), changed at random, and those that cost most are kept and changed again. What is
//! measured of each is units of work, bytes of memory held while its objects are there, and bytes left once they are gone, also
//! those in tables that are bounded in bytes, each against its bound.
//! The first inputs, [`Search::N_FIRST`], are a function of the seed. Those after them depend on measured bytes, which differ a
//! little from run to run: how full a hash table gets before it grows depends on keys that each process draws.

mod cluster;
mod genes;
mod known;

use anyhow::{Context, Result};
use kube_scheduler_api_types::numbers::Numbers;
use peak_alloc::PeakAlloc;

use self::cluster::{Cost, MeasuredCluster};
use self::genes::Genome;

/// The program's allocator, which counts.
pub type Heap<'a> = &'a PeakAlloc;

/// The largest input that the API server takes, in bytes.
pub const MAX_SIZE: usize = 1_500_000;
/// How many times what a plain pod costs an input may cost, for each time that it is larger.
const WORK_RATIO: u64 = 100;
/// Bytes that may be held for each byte of an input, what comes on top for each object, and what caches that are bounded as a
/// whole may take.
const HELD_RATIO: usize = 16;
const HELD_PER_OBJECT: usize = 16 << 10;
const CACHED: usize = 128 << 10;
/// What tables may say that they hold which keep what was learned after the objects are gone: what they say does not count as
/// left. Each is limited by its owner, here in a cluster with as many nodes as the fuzzer's. Tables that are not listed may hold
/// as much as [`CACHED`], such as the ring of the latest changes of nodes, which has 16,384 entries of 8 bytes.
const LEARNED: [(&str, usize); 5] = [
    // 8 MiB of JSON, counted twice because it is kept decoded, too; and 1,024 entries.
    ("changes of claims and devices", (16 << 20) + (64 << 10)),
    ("followed counters", 48 << 20),
    ("signatures", 16 << 20),
    // What 64 pods with eight terms and constraints take, 95 KB each with 200 nodes; more if pods name nodes that are not there.
    ("evaluations", 8 << 20),
    // 8 MiB of expressions with the answers about them, and one more; the claims of 16 questions, which one input has to bring.
    ("plugins", 24 << 20),
];
/// Bytes that may be in use at any time, for one input.
const MAX_PEAK: usize = 64 << 20;
/// How many of the costliest inputs are kept, by each measure.
const N_KEPT: usize = 6;

/// What to look for, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Decides about everything.
    pub seed: u64,
    /// The longest input, in bytes. What was found before is tried all the same.
    pub max_size: usize,
    /// The longest that one input or attempt may keep the core busy, in milliseconds, if that is to be looked at.
    pub max_millis: Option<u64>,
}

/// A measure of cost, as a number and the most that it may be.
type Measure = (&'static str, fn(&Cost, &Limits) -> (u64, u64));

/// What limits follow from.
#[derive(Debug)]
struct Limits {
    plain: Cost,
    max_micros: Option<u64>,
}

const MEASURES: [Measure; 6] = [
    ("units of work", |cost, limits| {
        let plain = u128::from(limits.plain.work) * u128::from(WORK_RATIO);
        let most =
            plain * cost.size.max(limits.plain.size) as u128 / limits.plain.size.max(1) as u128;
        (cost.work, u64::try_from(most).unwrap_or(u64::MAX))
    }),
    ("bytes held", |cost, _| {
        let of_objects = HELD_RATIO * cost.size + HELD_PER_OBJECT * cost.n_objects;
        (cost.held as u64, (CACHED + of_objects) as u64)
    }),
    ("bytes at the peak", |cost, _| (cost.peak as u64, MAX_PEAK as u64)),
    // Evaluations of classes and vectors that are used again, however large the input was; tables have no entry left.
    ("bytes left", |cost, _| (cost.left as u64, CACHED as u64)),
    // Of the table that is closest to its bound.
    ("bytes learned", |cost, _| {
        let (_, n_bytes, most) = cost.fullest;
        (n_bytes as u64, most as u64)
    }),
    ("microseconds", |cost, limits| {
        let micros = u64::try_from(cost.longest.as_micros()).unwrap_or(u64::MAX);
        limits.max_micros.map_or((0, 1), |max| (micros, max))
    }),
];

/// An input, and what it cost.
#[derive(Clone, Debug)]
struct Sample {
    genome: Genome,
    cost: Cost,
}

impl Sample {
    /// How much of what is allowed it costs, in thousandths.
    fn share(&self, measure: &Measure, limits: &Limits) -> u64 {
        let (cost, most) = measure.1(&self.cost, limits);
        cost.saturating_mul(1000) / most.max(1)
    }
}

/// A search under way.
#[derive(Debug)]
pub struct Search<'a> {
    heap: Heap<'a>,
    options: Options,
    numbers: Numbers,
    limits: Limits,
    /// The costliest inputs so far, by measure.
    kept: [Vec<Sample>; MEASURES.len()],
    n_tried: usize,
    /// What left table entries behind.
    leaks: Vec<String>,
}

impl<'a> Search<'a> {
    /// How many inputs come before any is chosen by its cost: what was found before, then each part twice by itself.
    pub const N_FIRST: usize = Genome::N_KNOWN + 2 * Genome::N_PARTS;

    /// A search that has tried a plain pod only.
    ///
    /// # Errors
    /// If the engine cannot be built.
    pub fn new(options: Options, heap: Heap<'a>) -> Result<Self> {
        let limits = Limits {
            plain: Cost::default(),
            max_micros: options.max_millis.map(|millis| millis * 1000),
        };
        let numbers = Numbers::new(options.seed);
        let kept = std::array::from_fn(|_| Vec::new());
        let mut search =
            Self { heap, options, numbers, limits, kept, n_tried: 0, leaks: Vec::new() };
        // What is made once in a process is made by the first: also what expressions of claims need.
        search.measure(&Genome::with_claim(), MAX_SIZE)?;
        search.measure(&Genome::plain(), MAX_SIZE)?;
        if let Some(cost) = search.measure(&Genome::plain(), MAX_SIZE)? {
            search.limits.plain = cost;
        }
        Ok(search)
    }

    /// Tries one more input.
    ///
    /// # Errors
    /// If an input cannot be read.
    pub fn step(&mut self) -> Result<()> {
        let genome = self.next_input();
        let max_size =
            if self.n_tried < Genome::N_KNOWN { MAX_SIZE } else { self.options.max_size };
        self.n_tried += 1;
        self.note(genome, max_size)
    }

    /// Measures an input, and keeps it if it is one of the costliest.
    fn note(&mut self, genome: Genome, max_size: usize) -> Result<()> {
        let Some(cost) = self.measure(&genome, max_size)? else { return Ok(()) };
        let tried = Sample { genome, cost };
        for (measure, kept) in MEASURES.iter().zip(&mut self.kept) {
            if kept.iter().any(|known| known.genome == tried.genome) {
                continue;
            }
            let share = |tried: &Sample| std::cmp::Reverse(tried.share(measure, &self.limits));
            kept.push(tried.clone());
            kept.sort_by_key(share);
            kept.truncate(N_KEPT);
        }
        Ok(())
    }

    /// How many inputs were tried.
    pub const fn n_tried(&self) -> usize {
        self.n_tried
    }

    /// What was found before comes first, then every part by itself; then what costs most is changed.
    fn next_input(&mut self) -> Genome {
        if let Some(known) = Genome::known().into_iter().nth(self.n_tried) {
            return known;
        }
        let numbers = &mut self.numbers;
        let kept: Vec<&Genome> =
            self.kept.iter().flatten().map(|tried: &Sample| &tried.genome).collect();
        if self.n_tried < Self::N_FIRST || kept.len() < 2 || numbers.one_in(12) {
            let part = if self.n_tried < Self::N_FIRST {
                self.n_tried - Genome::N_KNOWN
            } else {
                usize::try_from(numbers.below(Genome::N_PARTS as u64)).unwrap_or(0)
            };
            return Genome::of_part(part, numbers);
        }
        let (first, second) = (numbers.pick(&kept), numbers.pick(&kept));
        first.mutated(second, numbers)
    }

    /// Tries the input that a report describes.
    ///
    /// # Errors
    /// If the description is of another form.
    pub fn try_described(&mut self, text: &str) -> Result<()> {
        let genome = Genome::described(text).context("not as inputs are described in a report")?;
        self.n_tried += 1;
        self.note(genome, MAX_SIZE)
    }

    /// Nothing if it is too large.
    fn measure(&mut self, genome: &Genome, max_size: usize) -> Result<Option<Cost>> {
        let Some(texts) = genome.objects(max_size) else { return Ok(None) };
        let mut cluster = MeasuredCluster::new()?;
        // Plain pods have been here before.
        let plain = Genome::plain().objects(MAX_SIZE).unwrap_or_default();
        cluster.measure(&plain, self.heap)?;
        let before = cluster.tables();
        let cost = cluster.measure(&texts, self.heap)?;
        let after = cluster.tables();
        if after != before {
            let more: Vec<_> =
                after.iter().zip(&before).filter(|(after, before)| after != before).collect();
            self.leaks.push(format!("{}: {more:?} (after, before)", genome.describe()));
        }
        Ok(Some(cost))
    }

    /// The costliest input by each measure, a line each.
    pub fn report(&self) -> Vec<String> {
        let line = |(measure, kept): (&Measure, &Vec<Sample>)| {
            let tried = kept.first()?;
            let (cost, most) = measure.1(&tried.cost, &self.limits);
            let percent = tried.share(measure, &self.limits) as f64 / 10.0;
            let Cost { size, .. } = tried.cost;
            let what = tried.genome.describe();
            Some(format!(
                "{}: {cost}, {percent:.1} % of {most}, with {size} bytes: {what}\n    {:?}",
                measure.0, tried.cost
            ))
        };
        MEASURES.iter().zip(&self.kept).filter_map(line).collect()
    }

    /// What is above its bound.
    pub fn findings(&self) -> Vec<String> {
        let mut findings = self.leaks.clone();
        for (measure, kept) in MEASURES.iter().zip(&self.kept) {
            for tried in kept {
                let (cost, most) = measure.1(&tried.cost, &self.limits);
                if cost > most {
                    let (size, what) = (tried.cost.size, tried.genome.describe());
                    findings.push(format!(
                        "{}: {cost}, more than {most}, with {size} bytes: {what}",
                        measure.0
                    ));
                }
            }
        }
        findings
    }
}
