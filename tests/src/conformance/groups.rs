//! Histories of pod groups: objects come and go, time passes, and from time to time the scheduler runs one cycle.
//!
//! The engine gets what happened through its inputs alone, and its effects go to an API server of the test's own. After the
//! first step that differs a history proves nothing any more, so the rest of its steps count as not conforming.

mod api;
mod compare;
mod cycle;
mod record;
mod state;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube_scheduler_api_types::Timestamp;
use kube_scheduler_config::{FeatureGates, Gate};
use kube_scheduler_engine::{Effect, Engine, Input};
use serde_json::Value;

use self::api::{Api, Key};
use self::cycle::CycleOutcome;
use super::decisions::{engine_of, gates};
use super::{Options, Report, name_of, text};

const START: &str = "2026-01-02T12:00:00Z";
const MILLISECOND: Duration = Duration::from_millis(1);

/// The order in which the initial objects were loaded.
const LOADED: [(&str, &str); 6] = [
    ("namespaces", "Namespace"),
    ("nodes", "Node"),
    ("services", "Service"),
    ("podDisruptionBudgets", "PodDisruptionBudget"),
    ("podGroups", "PodGroup"),
    ("pods", "Pod"),
];

/// Sections of `docs/spec/podgroups.md` whose plain faults are not repeated: histories that depend on one are left out.
const DONE_RIGHT: [&str; 1] = ["9.6"];

pub(super) fn judge(case: &Value, options: Options<'_>, report: &mut Report) {
    let mut quirks = case["quirks"].as_array().into_iter().flatten().map(text);
    if options.only.is_none() && quirks.any(|quirk| DONE_RIGHT.contains(&quirk)) {
        return;
    }
    let steps = case["steps"].as_array().map_or(&[][..], Vec::as_slice);
    let mut history = History::new(case, options);
    let mut has_differed = false;
    for (at, step) in steps.iter().enumerate() {
        if has_differed {
            report.count_without_proof();
            continue;
        }
        let difference = match &mut history {
            Ok(history) => history
                .step(step, steps.get(at + 1))
                .unwrap_or_else(|error| Some(format!("{error:#}"))),
            Err(error) => Some(format!("{error:#}")),
        };
        has_differed = difference.is_some();
        report.count(|| format!("{} step {at} {}", name_of(case), text(&step["op"])), difference);
    }
}

/// One history under way.
struct History {
    engine: Engine,
    api: Api,
    now: Timestamp,
    start: Timestamp,
    /// Whether preemptions hang until an `evict`.
    is_async: bool,
    /// What preemptions want that are not carried out yet.
    hanging: Vec<Effect>,
    /// What the recording wrote since the last `deliver`, in its order.
    written: Vec<Key>,
    /// When pods start to run once they are bound. The recording says it, as it depends on the order of bindings, which is
    /// free.
    starts: BTreeMap<String, String>,
}

impl History {
    fn new(case: &Value, options: Options<'_>) -> Result<Self> {
        let gates: FeatureGates = gates(case)?;
        let is_async = gates.is_enabled(Gate::SchedulerAsyncPreemption);
        let start = Timestamp::parse(START).context("start time")?;
        let mut history = Self {
            engine: engine_of(case, gates, options)?,
            api: Api::new(),
            now: start,
            start,
            is_async,
            hanging: Vec::new(),
            written: Vec::new(),
            starts: BTreeMap::new(),
        };
        history.load(&case["cluster"])?;
        Ok(history)
    }

    fn load(&mut self, cluster: &Value) -> Result<()> {
        let lists = cluster.as_object().context("the cluster is not an object")?;
        if let Some(other) = lists.keys().find(|list| LOADED.iter().all(|(name, _)| name != list)) {
            bail!("unknown list of objects {other:?}");
        }
        for (list, kind) in LOADED {
            for object in cluster[list].as_array().into_iter().flatten() {
                let event = self.api.put(kind, object)?;
                self.engine.handle(event, self.now);
            }
        }
        Ok(())
    }

    /// Carries one step out; says what differs.
    fn step(&mut self, step: &Value, next: Option<&Value>) -> Result<Option<String>> {
        let mut is_comparable = true;
        let difference = match text(&step["op"]) {
            "add" | "update" => {
                let event = self.api.put(text(&step["kind"]), &step["object"])?;
                self.handle(event);
                None
            }
            "delete" => {
                let event = self.api.delete(text(&step["kind"]), text(&step["name"]))?;
                self.handle(event);
                None
            }
            "advance" => {
                let millis = step["ms"].as_u64().context("ms")?;
                self.now = self.now + Duration::from_millis(millis);
                None
            }
            // The engine carries both flushes out when their time has come, so two in a row are one.
            "flushBackoff" | "flushUnschedulable" => {
                is_comparable = !next.is_some_and(|next| text(&next["op"]).starts_with("flush"));
                if is_comparable {
                    self.handle(Input::TimePassed);
                }
                None
            }
            "deliver" => {
                self.deliver();
                None
            }
            "cycle" => self.cycle(&step["expect"])?,
            "evict" => self.evict(&step["expect"])?,
            other => bail!("unknown operation {other:?}"),
        };
        let difference = difference.or_else(|| self.unexpected_effects()).or_else(|| {
            let after = || {
                compare::difference(
                    "after",
                    &state::state(&self.engine, self.start),
                    &step["after"],
                )
            };
            is_comparable.then(after).flatten()
        });
        self.now = self.now + MILLISECOND;
        Ok(difference)
    }

    fn handle(&mut self, event: Input) {
        self.engine.handle(event, self.now);
    }

    /// The watch events of all writes arrive.
    fn deliver(&mut self) {
        for event in self.api.take_unseen(&std::mem::take(&mut self.written)) {
            self.handle(event);
            self.now = self.now + MILLISECOND;
        }
    }

    /// Outside of cycles and evictions nothing is written.
    fn unexpected_effects(&mut self) -> Option<String> {
        let effects: Vec<String> =
            self.engine.drain_effects().map(|effect| effect.to_string()).collect();
        (!effects.is_empty()).then(|| format!("effects that are not recorded: {effects:?}"))
    }

    /// The hanging preemptions are carried out.
    fn evict(&mut self, expect: &Value) -> Result<Option<String>> {
        let mut carried = CycleOutcome::default();
        for effect in std::mem::take(&mut self.hanging) {
            self.carry_out(effect, &mut carried)?;
        }
        self.carry_out_all(&mut carried, false)?;
        Ok(self.writes_differ(&carried, expect))
    }

    /// What was written and reported against what should have been.
    fn writes_differ(&mut self, carried: &CycleOutcome, expect: &Value) -> Option<String> {
        self.written.extend(cycle::keys(&expect["writes"]));
        carried.difference(expect)
    }
}
