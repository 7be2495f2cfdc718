//! What the engine measures beside its profiles: cluster events, hints, waits; all for metrics, none for decisions.
//!
//! Invariant: without a timer nothing is measured; without a shell that drains it nothing is kept, so that nothing grows.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_framework::{Code, PluginError, PluginName};
use kube_scheduler_queue::{EventLabel, ProfileId};
use kube_scheduler_runtime::{Lengths, PLUGIN_BOUNDS, POINT_BOUNDS, Readings, Timer};
use rustc_hash::FxHashMap;

use crate::policy::Plans;

/// One hint in this many is measured: hints are asked by the thousand, and each takes about as long as reading a clock.
const HINTS_PER_SAMPLE: u64 = 10;

/// A pod that did not get bound although a node was found for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedBinding {
    /// The profile that scheduled it.
    pub profile: ProfileId,
    /// Whether it was rejected, rather than something failed.
    pub is_rejected: bool,
    /// From the start of the attempt to its failure.
    pub length: Duration,
}

/// How long a plugin's hints took about one event.
#[derive(Clone, Debug)]
pub struct MeasuredHint {
    /// The plugin whose hint was asked.
    pub plugin: PluginName,
    /// The event that it was asked about.
    pub event: EventLabel,
    /// What the hints answered: `Queue`, `QueueSkip` or `Error`.
    pub answer: &'static str,
    /// How long they took.
    pub lengths: Lengths,
}

/// Everything measured since the last time, for metrics.
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    /// Cluster events by label, from their arrival until the pods that they help were requeued.
    pub events: Vec<(EventLabel, Lengths)>,
    /// Hints by plugin, event and answer; a sample.
    pub hints: Vec<MeasuredHint>,
    /// Waits on Permit by how they ended.
    pub permit_waits: Vec<(Code, Duration)>,
    /// Failures after a node was found.
    pub failed_bindings: Vec<FailedBinding>,
    /// What the profiles' meters read, in the order of configuration.
    pub profiles: Vec<Readings>,
}

/// The measuring itself.
#[derive(Debug, Default)]
pub(crate) struct Measures {
    timer: Option<Arc<dyn Timer>>,
    keeps: bool,
    /// When the current input came, and when the work on its next event started.
    start: u64,
    event_start: u64,
    /// How long bringing the state up to date took, in nanoseconds; added to each event that follows from the input.
    applying: u64,
    events: FxHashMap<EventLabel, Lengths>,
    n_hints: u64,
    hints: FxHashMap<(u32, EventLabel, &'static str), Lengths>,
    /// What is ready to be drained.
    ready: Measurements,
}

impl Measures {
    pub(crate) fn new(timer: Option<Arc<dyn Timer>>, keeps: bool) -> Self {
        Self { timer, keeps, ..Self::default() }
    }

    /// An input has come.
    pub(crate) fn input_started(&mut self) {
        if let Some(timer) = &self.timer {
            self.start = timer.nanos();
            self.event_start = self.start;
            self.applying = 0;
        }
    }

    /// The state is up to date; the events that follow are handled one by one.
    pub(crate) fn applied(&mut self) {
        if let Some(timer) = &self.timer {
            let now = timer.nanos();
            self.applying = now.saturating_sub(self.start);
            self.event_start = now;
        }
    }

    /// One of the events of the input was handled.
    pub(crate) fn event_handled(&mut self, label: EventLabel) {
        self.handled_since_last(label, self.applying);
    }

    /// The whole input was handled.
    pub(crate) fn input_handled(&mut self, label: EventLabel) {
        let Some(timer) = &self.timer else { return };
        let nanos = timer.nanos().saturating_sub(self.start);
        self.add_event(label, nanos);
    }

    /// Something was handled that follows from the events of the input, and has a label of its own.
    pub(crate) fn follow_up_handled(&mut self, label: EventLabel) {
        self.handled_since_last(label, 0);
    }

    fn handled_since_last(&mut self, label: EventLabel, applying: u64) {
        let Some(timer) = &self.timer else { return };
        let now = timer.nanos();
        let nanos = applying + now.saturating_sub(self.event_start);
        self.event_start = now;
        self.add_event(label, nanos);
    }

    fn add_event(&mut self, label: EventLabel, nanos: u64) {
        self.events.entry(label).or_insert_with(|| Lengths::new(POINT_BOUNDS)).add(nanos);
    }

    /// The reading to measure a hint from, if this one is measured.
    pub(crate) fn hint_start(&mut self) -> Option<u64> {
        let timer = self.timer.as_ref()?;
        self.n_hints += 1;
        self.n_hints.is_multiple_of(HINTS_PER_SAMPLE).then(|| timer.nanos())
    }

    /// A hint has answered.
    pub(crate) fn hint_ended(
        &mut self,
        hint: u32,
        event: &EventLabel,
        answer: &Result<bool, PluginError>,
        start: Option<u64>,
    ) {
        let (Some(timer), Some(start)) = (&self.timer, start) else { return };
        let nanos = timer.nanos().saturating_sub(start);
        let answer = match answer {
            Ok(true) => "Queue",
            Ok(false) => "QueueSkip",
            Err(_) => "Error",
        };
        let lengths = self.hints.entry((hint, event.clone(), answer));
        lengths.or_insert_with(|| Lengths::new(PLUGIN_BOUNDS)).add(nanos);
    }

    /// A wait on Permit has ended.
    pub(crate) fn waited(&mut self, code: Code, length: Duration) {
        if self.keeps {
            self.ready.permit_waits.push((code, length));
        }
    }

    /// An attempt failed after a node was found.
    pub(crate) fn binding_failed(&mut self, failed: FailedBinding) {
        if self.keeps {
            self.ready.failed_bindings.push(failed);
        }
    }

    /// What was measured since the last call, in a fixed order.
    pub(crate) fn drain(&mut self, plans: &Plans) -> Measurements {
        let mut events: Vec<_> = self.events.drain().collect();
        events.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let hints = self.hints.drain().filter_map(|((hint, event, answer), lengths)| {
            let plugin = plans.hints.0.get(hint as usize)?.0.clone();
            Some(MeasuredHint { plugin, event, answer, lengths })
        });
        let mut hints: Vec<_> = hints.collect();
        hints.sort_unstable_by(|a, b| {
            (&a.plugin, &a.event, a.answer).cmp(&(&b.plugin, &b.event, b.answer))
        });
        let readings = plans.profiles.0.iter();
        Measurements {
            events,
            hints,
            profiles: readings
                .map(|profile| profile.meter().map(|meter| meter.take()).unwrap_or_default())
                .collect(),
            ..std::mem::take(&mut self.ready)
        }
    }
}
