//! How many more pods of one kind fit, how large they may be, and what limits them.

mod data;
mod filling;
mod largest;
mod steps;
mod table;
mod visibility;

use std::collections::BTreeMap;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_engine::Engine;

pub use self::data::{Capacity, CapacityStep, LargestRequest, LimitAnswer};
use self::filling::Filling;
use self::steps::Moments;
use crate::explanation::{ExplainOptions, Subject, explain};
use crate::format::{as_of, count};
use crate::interrupt::Interrupt;
use crate::{API_VERSION, Refusal};

/// The options of [`capacity`].
#[derive(Clone, Debug)]
pub struct CapacityOptions {
    /// The number of pods at which counting stops. Default 10,000.
    pub max: usize,
    /// Whether to report how the limits change as pods are added. All pods are placed a second time for it.
    pub steps: bool,
    /// How much to list of why the next one does not fit.
    pub explain: ExplainOptions,
    /// Stops counting early when it is set.
    pub interrupt: Interrupt,
}

impl Default for CapacityOptions {
    fn default() -> Self {
        let (explain, interrupt) = (ExplainOptions::default(), Interrupt::default());
        Self { max: 10_000, steps: false, explain, interrupt }
    }
}

/// Counts how many pods like `template` fit: each is placed by the scheduler on a copy of the cluster. No pod is evicted for
/// them, and pods that are pending now are ignored. The answer also has how far each of the template's requests may grow.
///
/// O(nodes + pods) for the copy, what `max` attempts take, and O(nodes × plugins) for each trial of a larger request (two for
/// each resource as a rule, at most 66) and for each of at most 64 steps. The engine is not changed.
///
/// # Errors
/// If no profile is responsible for the template.
pub fn capacity(
    engine: &Engine,
    template: &Pod,
    options: CapacityOptions,
    now: Timestamp,
) -> Result<Capacity, Refusal> {
    let interrupt = &options.interrupt;
    let mut filling = Filling::new(engine, template, interrupt, now);
    let mut capacity = Capacity {
        api_version: API_VERSION,
        kind: "Capacity",
        as_of: as_of(now),
        template: template.key(),
        count: 0,
        is_limit: false,
        by_node: BTreeMap::new(),
        n_nodes: 0,
        largest: largest::requests(&mut filling),
        steps: Vec::new(),
        limited_by: None,
        warnings: Vec::new(),
    };
    if filling.n_left_aside > 0 {
        let text = format!("{} left aside", count(filling.n_left_aside, "pending pod"));
        capacity.warnings.push(text);
    }
    if filling.leaves_group {
        capacity.warnings.push("the template's group is left aside".to_owned());
    }
    let mut moments = Moments::default();
    while capacity.count < options.max {
        let (next, node) = filling.place();
        moments.saw(capacity.count, filling.n_feasible());
        let Some(node) = node else {
            if interrupt.is_set() {
                break;
            }
            // Profile and gates are checked by the first explanation alone: all pods are alike.
            let subject = Subject::Manifest(next);
            let limited_by = explain(filling.engine(), &subject, options.explain, now)?;
            capacity.limited_by = Some(limited_by.about_another(template));
            break;
        };
        *capacity.by_node.entry(node.to_string()).or_default() += 1;
        capacity.count += 1;
    }
    capacity.n_nodes = capacity.by_node.len();
    capacity.is_limit = capacity.limited_by.is_none();
    capacity.warnings.extend(filling.warnings());
    if options.steps && !interrupt.is_set() {
        if let Some(n_changes) = moments.left_out() {
            capacity.warnings.push(format!(
                "nodes ran out {n_changes} times: only some of these moments were looked at for the steps"
            ));
        }
        // One copy at a time is enough.
        drop(filling);
        let mut again = Filling::new(engine, template, interrupt, now);
        capacity.steps = steps::steps(&mut again, &moments, capacity.count);
        if again.is_interrupted() {
            capacity.warnings.push("the steps are cut short: it took too long".to_owned());
        }
    }
    Ok(capacity)
}
