//! How long plugins take and how often they are asked, for metrics.
//!
//! Nothing below the shell has a clock, so the shell brings a [`Timer`]. A profile without a [`Meter`] measures nothing and
//! reads no timer.
//!
//! Invariants: nothing measured reaches a decision; recording never waits and never fails. Whole extension points are
//! measured on every run; single plugins in a tenth of the attempts, as in the reference.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use kube_scheduler_api_types::{lock, named_enum};
use kube_scheduler_framework::Code;

use crate::profile::PluginIdx;

/// A monotonic clock for measurements. Only differences between two readings mean anything.
pub trait Timer: fmt::Debug + Send + Sync {
    /// Nanoseconds since a moment of the timer's own choice; never less than before.
    fn nanos(&self) -> u64;
}

named_enum! {
    /// What is measured, as the label `extension_point` has it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    all pub enum MeteredPoint {
        /// Whether a pod may be tried at all.
        PreEnqueue = "PreEnqueue",
        /// Looking at the pod.
        PreFilter = "PreFilter",
        /// Notifying a plugin that a pod is hypothetically added.
        PreFilterExtensionAddPod = "PreFilterExtensionAddPod",
        /// Notifying a plugin that a pod is hypothetically removed.
        PreFilterExtensionRemovePod = "PreFilterExtensionRemovePod",
        /// Looking at nodes.
        Filter = "Filter",
        /// Looking for help when no node fits.
        PostFilter = "PostFilter",
        /// Before scoring.
        PreScore = "PreScore",
        /// Scoring nodes.
        Score = "Score",
        /// Bringing scores to a common scale.
        ScoreExtensionNormalize = "ScoreExtensionNormalize",
        /// Taking what the pod needs on its node.
        Reserve = "Reserve",
        /// Giving it back.
        Unreserve = "Unreserve",
        /// Whether the pod may be bound now.
        Permit = "Permit",
        /// Whether PreBind has anything to do.
        PreBindPreFlight = "PreBindPreFlight",
        /// What must be done before binding.
        PreBind = "PreBind",
        /// Binding.
        Bind = "Bind",
        /// After binding.
        PostBind = "PostBind",
        /// Writing a pod's signature.
        Sign = "Sign",
    }
}

/// Points whose calls are counted plugin by plugin, in the order of their numbers.
const COUNTED: [MeteredPoint; 4] =
    [MeteredPoint::PreFilter, MeteredPoint::Filter, MeteredPoint::PreScore, MeteredPoint::Score];

/// Upper bounds of buckets, in nanoseconds.
pub type Bounds = &'static [u64];

/// 0.1 ms doubled up to about 0.2 s: extension points and cluster events.
pub const POINT_BOUNDS: Bounds = &[
    100_000,
    200_000,
    400_000,
    800_000,
    1_600_000,
    3_200_000,
    6_400_000,
    12_800_000,
    25_600_000,
    51_200_000,
    102_400_000,
    204_800_000,
];

/// 0.01 ms growing by half up to about 22 ms: single plugins and hints.
pub const PLUGIN_BOUNDS: Bounds = &[
    10_000, 15_000, 22_500, 33_750, 50_625, 75_937, 113_906, 170_859, 256_289, 384_433, 576_650,
    864_975, 1_297_463, 1_946_195, 2_919_292, 4_378_938, 6_568_408, 9_852_612, 14_778_918,
    22_168_378,
];

/// A histogram of durations with fixed buckets: what the core counts, in whole nanoseconds, so that adding is exact and cheap.
/// The shell adds it to a [`Metric`](kube_scheduler_framework::Metric), which is what is exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lengths {
    bounds: Bounds,
    /// Observations per bucket. There is one bucket more than bounds: the last one is for durations above all bounds.
    pub counts: Vec<u64>,
    /// The sum of all durations, in nanoseconds.
    pub sum_nanos: u64,
}

impl Lengths {
    /// An empty histogram with these upper bounds.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum_nanos: 0 }
    }

    /// Adds one duration, in nanoseconds.
    pub fn add(&mut self, nanos: u64) {
        let bucket = bucket_of(self.bounds, nanos);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.sum_nanos = self.sum_nanos.saturating_add(nanos);
    }

    /// The number of durations that were added.
    pub fn n(&self) -> u64 {
        self.counts.iter().sum()
    }
}

fn bucket_of(bounds: Bounds, nanos: u64) -> usize {
    // Nearly everything falls into the first bucket.
    bounds.iter().position(|bound| nanos <= *bound).unwrap_or(bounds.len())
}

/// Runs of a whole extension point that ended alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredPoint {
    /// The point that was run.
    pub point: MeteredPoint,
    /// How the runs ended.
    pub code: Code,
    /// How long they took.
    pub lengths: Lengths,
}

/// Runs of one plugin at one extension point that ended alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredPlugin {
    /// The plugin that was run.
    pub plugin: PluginIdx,
    /// Where it was run.
    pub point: MeteredPoint,
    /// How the runs ended.
    pub code: Code,
    /// How long they took.
    pub lengths: Lengths,
}

/// How often something happened to one plugin at one extension point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginCount {
    /// The plugin to which it happened.
    pub plugin: PluginIdx,
    /// The point at which it happened.
    pub point: MeteredPoint,
    /// How often, never 0.
    pub n: u64,
}

/// What a meter measured since it was asked last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readings {
    /// Runs of whole extension points.
    pub points: Vec<MeasuredPoint>,
    /// Runs of single plugins; a sample.
    pub plugins: Vec<MeasuredPlugin>,
    /// Calls: PreFilter and PreScore unless they had nothing to say, Filter and Score per node.
    pub calls: Vec<PluginCount>,
    /// Errors that plugins have returned.
    pub errors: Vec<PluginCount>,
}

/// [`Lengths`] of runs of an extension point, added to without a lock and without `&mut`.
#[derive(Debug, Default)]
struct SharedLengths {
    counts: [AtomicU64; POINT_BOUNDS.len() + 1],
    sum_nanos: AtomicU64,
}

impl SharedLengths {
    fn add(&self, nanos: u64) {
        self.counts[bucket_of(POINT_BOUNDS, nanos)].fetch_add(1, Relaxed);
        self.sum_nanos.fetch_add(nanos, Relaxed);
    }

    /// What was added since the last call, if anything was.
    fn take(&self) -> Option<Lengths> {
        let counts: Vec<u64> = self.counts.iter().map(|count| count.swap(0, Relaxed)).collect();
        counts.iter().any(|n| *n > 0).then(|| Lengths {
            bounds: POINT_BOUNDS,
            counts,
            sum_nanos: self.sum_nanos.swap(0, Relaxed),
        })
    }
}

/// Measures the plugins and extension points of one profile. All its numbers go to metrics only.
#[derive(Debug)]
pub struct Meter {
    timer: Arc<dyn Timer>,
    /// By point and code.
    points: [[SharedLengths; Code::ALL.len()]; MeteredPoint::ALL.len()],
    /// By plugin and counted point.
    calls: Box<[[AtomicU64; COUNTED.len()]]>,
    is_sampled: AtomicBool,
    n_cycles: AtomicU64,
    rare: Mutex<RareMeasurements>,
}

/// Measurements that are recorded so rarely that a lock costs nothing.
#[derive(Debug, Default)]
struct RareMeasurements {
    plugins: BTreeMap<(PluginIdx, MeteredPoint, Code), Lengths>,
    errors: BTreeMap<(PluginIdx, MeteredPoint), u64>,
}

impl Meter {
    /// A meter for a profile with this many plugins.
    pub(crate) fn new(timer: Arc<dyn Timer>, n_plugins: usize) -> Self {
        Self {
            timer,
            points: Default::default(),
            calls: (0..n_plugins).map(|_| Default::default()).collect(),
            is_sampled: AtomicBool::new(false),
            n_cycles: AtomicU64::new(0),
            rare: Mutex::default(),
        }
    }

    /// The current reading of the timer, in nanoseconds from a start of the timer's own.
    pub(crate) fn nanos(&self) -> u64 {
        self.timer.nanos()
    }

    /// A new attempt begins; in a tenth of them single plugins are measured.
    pub fn begin_cycle(&self) {
        let n = self.n_cycles.fetch_add(1, Relaxed);
        // Spread without a pattern, so that workloads that alternate are not seen from one side only.
        let mixed = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        self.is_sampled.store(mixed.is_multiple_of(10), Relaxed);
    }

    /// Records a run of a whole point that began at the reading `from` and ends now. Returns the reading of now.
    pub(crate) fn point_ended(&self, point: MeteredPoint, code: Code, from: u64) -> u64 {
        let now = self.timer.nanos();
        self.point_took(point, code, now.saturating_sub(from));
        now
    }

    /// Records a run of a whole point that took `nanos` nanoseconds.
    pub(crate) fn point_took(&self, point: MeteredPoint, code: Code, nanos: u64) {
        self.points[point as usize][code as usize].add(nanos);
    }

    /// The reading to measure a plugin from, if plugins are measured at the moment.
    pub(crate) fn plugin_start(&self) -> Option<u64> {
        self.is_sampled().then(|| self.timer.nanos())
    }

    /// Whether plugins are measured at the moment.
    pub(crate) fn is_sampled(&self) -> bool {
        self.is_sampled.load(Relaxed)
    }

    /// A run of a plugin that began at `from`, if it is measured, ends now.
    pub(crate) fn plugin_ended(
        &self,
        plugin: PluginIdx,
        point: MeteredPoint,
        code: Code,
        from: Option<u64>,
    ) {
        if code == Code::Error {
            *self.rare().errors.entry((plugin, point)).or_default() += 1;
        }
        let Some(from) = from else { return };
        let nanos = self.timer.nanos().saturating_sub(from);
        let mut rare = self.rare();
        let lengths = rare.plugins.entry((plugin, point, code));
        lengths.or_insert_with(|| Lengths::new(PLUGIN_BOUNDS)).add(nanos);
    }

    /// Stops measuring single plugins for the rest of this attempt.
    pub(crate) fn end_sample(&self) {
        self.is_sampled.store(false, Relaxed);
    }

    /// Counts `n` calls of a plugin.
    pub(crate) fn called(&self, plugin: PluginIdx, point: MeteredPoint, n: usize) {
        let Some(at) = COUNTED.iter().position(|counted| *counted == point) else { return };
        if let Some(counts) = self.calls.get(plugin.index()) {
            counts[at].fetch_add(n as u64, Relaxed);
        }
    }

    /// What was measured since the last call.
    pub fn take(&self) -> Readings {
        let mut readings = Readings::default();
        for (point, by_code) in MeteredPoint::ALL.into_iter().zip(&self.points) {
            for (code, lengths) in Code::ALL.into_iter().zip(by_code) {
                if let Some(lengths) = lengths.take() {
                    readings.points.push(MeasuredPoint { point, code, lengths });
                }
            }
        }
        for (at, point) in COUNTED.into_iter().enumerate() {
            for (plugin, counts) in self.calls.iter().enumerate() {
                let n = counts[at].swap(0, Relaxed);
                if n > 0 {
                    let plugin = PluginIdx::from_index(plugin);
                    readings.calls.push(PluginCount { plugin, point, n });
                }
            }
        }
        let RareMeasurements { plugins, errors } = std::mem::take(&mut *self.rare());
        let plugins = plugins.into_iter().map(|((plugin, point, code), lengths)| MeasuredPlugin {
            plugin,
            point,
            code,
            lengths,
        });
        readings.plugins.extend(plugins);
        let errors = errors.into_iter();
        let errors = errors.map(|((plugin, point), n)| PluginCount { plugin, point, n });
        readings.errors.extend(errors);
        readings
    }

    fn rare(&self) -> std::sync::MutexGuard<'_, RareMeasurements> {
        lock(&self.rare)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every reading is a microsecond later than the one before.
    #[derive(Debug, Default)]
    struct Ticks(AtomicU64);

    impl Timer for Ticks {
        fn nanos(&self) -> u64 {
            self.0.fetch_add(1_000, Relaxed)
        }
    }

    #[test]
    fn bounds_are_those_of_the_reference() {
        for (at, bound) in POINT_BOUNDS.iter().enumerate() {
            assert_eq!(*bound, 100_000 << at);
        }
        let mut bound = 0.000_01_f64;
        for known in PLUGIN_BOUNDS {
            assert_eq!(*known, (bound * 1e9 + 1e-6).floor() as u64);
            bound *= 1.5;
        }
    }

    #[test]
    fn numbers_are_those_of_the_lists() {
        for (at, point) in MeteredPoint::ALL.into_iter().enumerate() {
            assert_eq!(point as usize, at);
        }
        for (at, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(code as usize, at);
        }
    }

    #[test]
    fn what_is_taken_is_gone() {
        let meter = Meter::new(Arc::new(Ticks::default()), 2);
        let start = meter.nanos();
        let end = meter.point_ended(MeteredPoint::Filter, Code::Success, start);
        meter.point_ended(MeteredPoint::Filter, Code::Error, end);
        meter.point_took(MeteredPoint::Bind, Code::Success, 300_000_000);
        let [first, second, unknown] = [0, 1, 7].map(PluginIdx::from_index);
        meter.called(second, MeteredPoint::Score, 3);
        meter.called(first, MeteredPoint::Permit, 3);
        meter.called(unknown, MeteredPoint::Score, 3);
        meter.plugin_ended(second, MeteredPoint::Reserve, Code::Error, None);
        let readings = meter.take();
        let points: Vec<_> = readings
            .points
            .iter()
            .map(|run| (run.point, run.code, run.lengths.n(), run.lengths.sum_nanos))
            .collect();
        assert_eq!(
            points,
            [
                (MeteredPoint::Filter, Code::Success, 1, 1_000),
                (MeteredPoint::Filter, Code::Error, 1, 1_000),
                (MeteredPoint::Bind, Code::Success, 1, 300_000_000),
            ]
        );
        assert_eq!(readings.points[2].lengths.counts.last(), Some(&1), "beyond all bounds");
        let count = |point, n| PluginCount { plugin: second, point, n };
        assert_eq!(readings.calls, [count(MeteredPoint::Score, 3)]);
        assert_eq!(readings.errors, [count(MeteredPoint::Reserve, 1)]);
        assert_eq!(meter.take(), Readings::default());
    }

    #[test]
    fn about_a_tenth_of_the_attempts_is_sampled() {
        let meter = Meter::new(Arc::new(Ticks::default()), 1);
        let mut n_sampled = 0;
        for _ in 0..10_000 {
            meter.begin_cycle();
            let start = meter.plugin_start();
            n_sampled += u32::from(start.is_some());
            meter.plugin_ended(
                PluginIdx::from_index(0),
                MeteredPoint::Filter,
                Code::Success,
                start,
            );
        }
        assert!((800..1_200).contains(&n_sampled), "{n_sampled}");
        let readings = meter.take();
        assert_eq!(readings.plugins.len(), 1);
        assert_eq!(readings.plugins[0].lengths.n(), u64::from(n_sampled));
    }
}
