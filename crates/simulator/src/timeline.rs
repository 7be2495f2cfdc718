//! Pods that come and go by a trace: when, and how well the cluster served them.
//!
//! Invariant: events come in the order of their times. At one time, pods go before others come, so that what they leave can
//! be used at once; only a pod that goes as soon as it comes goes last.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::{
    CPU, EPHEMERAL_STORAGE, MEMORY, Pod, ResourceName, Resources, Timestamp,
};

use crate::import::ClusterObjects;
use crate::report::{ResourceUse, TimelineReport, WaitTimes};

/// What happens to a pod without the scheduler.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// It is created.
    Comes(Arc<Pod>),
    /// It is deleted.
    Goes(Arc<Pod>),
}

/// What is still to come, and what has been measured.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// The next event last.
    events: Vec<(Timestamp, Event)>,
    meter: Meter,
}

impl Timeline {
    /// All pods without a node come when they were created, or with the last ones if no time is known.
    pub(crate) fn new(input: &ClusterObjects) -> Self {
        let (running, pending): (Vec<_>, Vec<_>) =
            input.pods.iter().partition(|pod| pod.is_assigned());
        let created = pending.iter().filter_map(|pod| pod.created);
        let last = created.max().unwrap_or(Timestamp::EPOCH);
        let mut events = Vec::with_capacity(2 * pending.len());
        for pod in pending {
            let comes = pod.created.unwrap_or(last);
            events.push((comes, 1, Event::Comes(pod.clone())));
            if let Some(&goes) = input.ends.get(&pod.uid) {
                let order = if goes > comes { 0 } else { 2 };
                events.push((goes.max(comes), order, Event::Goes(pod.clone())));
            }
        }
        // Stable: otherwise in the order of the input.
        events.sort_by_key(|(at, order, _)| (*at, *order));
        let mut events: Vec<_> = events.into_iter().map(|(at, _, event)| (at, event)).collect();
        events.reverse();
        let start = events.last().map_or(Timestamp::EPOCH, |(at, _)| *at);
        let mut meter = Meter::new(start, input);
        running.iter().for_each(|pod| meter.add(pod));
        Self { events, meter }
    }

    /// When the first pod comes.
    pub(crate) fn start(&self) -> Timestamp {
        self.meter.start
    }

    /// The time of the next event.
    pub(crate) fn next_time(&self) -> Option<Timestamp> {
        self.events.last().map(|(at, _)| *at)
    }

    /// Takes the next event if its time has come.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<Event> {
        self.next_time().filter(|at| *at <= now)?;
        self.events.pop().map(|(_, event)| event)
    }

    /// A pod got a node.
    pub(crate) fn record_placement(&mut self, pod: &Pod, now: Timestamp) {
        self.meter.advance(now);
        self.meter.add(pod);
        self.meter.waits.push(pod.created.map_or(Duration::ZERO, |at| now.saturating_since(at)));
    }

    /// A pod left its node.
    pub(crate) fn record_departure(&mut self, pod: &Pod, now: Timestamp) {
        self.meter.advance(now);
        self.meter.used.subtract(&pod.requests.accounted);
    }

    /// What was measured until `now`.
    pub(crate) fn report(mut self, now: Timestamp) -> TimelineReport {
        self.meter.advance(now);
        self.meter.report()
    }
}

/// Sums up what pods use, over time.
#[derive(Debug)]
struct Meter {
    start: Timestamp,
    now: Timestamp,
    allocatable: Resources,
    used: Resources,
    /// Used, times nanoseconds.
    integral: BTreeMap<ResourceName, i128>,
    peak: BTreeMap<ResourceName, i64>,
    /// From creation to placement, of every pod that was placed.
    waits: Vec<Duration>,
}

impl Meter {
    fn new(start: Timestamp, input: &ClusterObjects) -> Self {
        let mut allocatable = Resources::default();
        input.nodes.iter().for_each(|node| allocatable.add(&node.allocatable));
        Self {
            start,
            now: start,
            allocatable,
            used: Resources::default(),
            integral: BTreeMap::new(),
            peak: BTreeMap::new(),
            waits: Vec::new(),
        }
    }

    fn add(&mut self, pod: &Pod) {
        self.used.add(&pod.requests.accounted);
        for (name, amount) in amounts(&self.used) {
            let peak = self.peak.entry(name).or_default();
            *peak = amount.max(*peak);
        }
    }

    fn advance(&mut self, now: Timestamp) {
        let nanos = now.saturating_since(self.now).as_nanos();
        let nanos = i128::try_from(nanos).unwrap_or(i128::MAX);
        if nanos == 0 {
            return;
        }
        self.now = now;
        for (name, amount) in amounts(&self.used) {
            let sum = self.integral.entry(name).or_default();
            *sum = sum.saturating_add(i128::from(amount).saturating_mul(nanos));
        }
    }

    fn report(mut self) -> TimelineReport {
        let length = self.now.saturating_since(self.start);
        let nanos = length.as_nanos() as f64;
        let used = |(name, there): (ResourceName, i64)| {
            let integral = self.integral.get(&name).copied().unwrap_or_default();
            let peak = self.peak.get(&name).copied().unwrap_or_default();
            let mean = if nanos > 0.0 { integral as f64 / nanos / there as f64 } else { 0.0 };
            let used =
                ResourceUse { mean: rounded(mean), peak: rounded(peak as f64 / there as f64) };
            (name.to_string(), used)
        };
        let there = amounts(&self.allocatable).filter(|(_, there)| *there > 0);
        let resources = there.map(used).collect();
        self.waits.sort_unstable();
        TimelineReport {
            seconds: length.as_secs_f64(),
            wait_seconds: wait_times(&self.waits),
            resources,
        }
    }
}

/// All amounts with the names of their resources.
fn amounts(of: &Resources) -> impl Iterator<Item = (ResourceName, i64)> {
    let fixed =
        [(CPU, of.milli_cpu), (MEMORY, of.memory), (EPHEMERAL_STORAGE, of.ephemeral_storage)];
    let fixed = fixed.into_iter().map(|(name, amount)| (ResourceName::from(name), amount));
    fixed.chain(of.scalars.iter().map(|(name, amount)| (name.clone(), *amount)))
}

/// Percentiles by the nearest rank.
fn wait_times(sorted: &[Duration]) -> WaitTimes {
    let at_rank = |percent: usize| {
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).map_or(0.0, Duration::as_secs_f64)
    };
    let sum: f64 = sorted.iter().map(Duration::as_secs_f64).sum();
    WaitTimes {
        mean: rounded(sum / sorted.len().max(1) as f64),
        p50: at_rank(50),
        p99: at_rank(99),
        max: at_rank(100),
    }
}

/// Rounded to six decimal places, so that reports are short.
fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}
