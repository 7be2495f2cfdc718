//! How many more pods of one kind fit.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use kube_scheduler_api_types::{Pod, PodSpec, Timestamp};
use kube_scheduler_engine::{Engine, Input};
use serde::Serialize;

use crate::columns::Columns;
use crate::course::Course;
use crate::explanation::{ExplainOptions, Explanation, Subject, explain};
use crate::format::count;
use crate::pod_name::PodName;
use crate::{API_VERSION, Refusal};

/// How many more pods like a template fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    api_version: &'static str,
    kind: &'static str,
    as_of: String,
    /// The template, `namespace/name`.
    template: String,
    /// How many fit.
    pub count: usize,
    /// Whether counting ended because more were not asked for.
    pub is_limit: bool,
    /// How many of them by node.
    pub by_node: BTreeMap<String, usize>,
    /// Why the next one does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Explanation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// Counts how many pods like `template` fit, at most `max`: each is placed by the scheduler on a copy of the cluster. No pod
/// is evicted for them, and pods that are pending now are left aside.
///
/// O(nodes + pods) for the copy, and what `max` attempts take; the engine is not changed.
///
/// # Errors
/// If no profile is responsible for the template.
pub fn capacity(
    engine: &Engine,
    template: &Pod,
    max: usize,
    options: ExplainOptions,
    now: Timestamp,
) -> Result<Capacity, Refusal> {
    let mut course = Course::new(engine, now, u64::MAX);
    let queued = course.engine.queue().pending_pods();
    let pending: Vec<Arc<Pod>> = queued.map(|(_, queued)| queued.entry().0.clone()).collect();
    for pod in &pending {
        course.delete(pod);
    }
    let mut capacity = Capacity {
        api_version: API_VERSION,
        kind: "Capacity",
        as_of: now.to_string(),
        template: template.key(),
        count: 0,
        is_limit: false,
        by_node: BTreeMap::new(),
        limited_by: None,
        warnings: Vec::new(),
    };
    if !pending.is_empty() {
        let text = format!("{} left aside", count(pending.len(), "pending pod"));
        capacity.warnings.push(text);
    }
    if template.spec.pod_group.is_some() {
        capacity.warnings.push("the template's group is left aside".to_owned());
    }
    let spec = PodSpec {
        pod_group: None,
        never_preempts: true,
        scheduling_gates: Arc::default(),
        ..(*template.spec).clone()
    };
    let spec = Arc::new(spec);
    loop {
        if capacity.count == max {
            capacity.is_limit = true;
            return Ok(capacity);
        }
        let next = Arc::new(nth(template, &spec, capacity.count + 1));
        let name = PodName::from(&*next);
        // Profile and gates are checked by the first explanation alone: all pods are alike.
        course.handle(Input::PodApplied(next.clone()));
        course.attempt();
        match course.placements.get(&name) {
            Some(node) => *capacity.by_node.entry(node.to_string()).or_default() += 1,
            None => {
                let subject = Subject::Manifest(next);
                let limited_by = explain(&mut course.engine, &subject, options, now)?;
                capacity.limited_by = Some(limited_by);
                return Ok(capacity);
            }
        }
        capacity.count += 1;
    }
}

/// The template as the `n`th pod.
fn nth(template: &Pod, spec: &Arc<PodSpec>, n: usize) -> Pod {
    let name: Arc<str> = format!("{}-capacity-{n}", template.name).into();
    Pod {
        uid: format!("{}/{name}", template.namespace).into(),
        name,
        node_name: None,
        spec: spec.clone(),
        ..template.clone()
    }
}

impl Capacity {
    /// The answer in columns; wide ones have all nodes.
    pub fn table(&self, wide: bool) -> String {
        const MAX_NODES: usize = 10;

        let mut out = String::new();
        let mut by_count: Vec<(&String, &usize)> = self.by_node.iter().collect();
        by_count.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let shown = if wide { by_count.len() } else { by_count.len().min(MAX_NODES) };
        let mut columns = Columns::new(&["NODE", "MORE PODS"]);
        for (node, count) in &by_count[..shown] {
            columns.push(vec![(*node).clone(), count.to_string()]);
        }
        columns.print(&mut out);
        if shown < by_count.len() {
            let _ = writeln!(out, "and {}\n", count(by_count.len() - shown, "more node"));
        }
        if let Some(next) = &self.limited_by {
            let _ = writeln!(out, "the next one does not fit:");
            out.push_str(&next.details(wide));
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "note: {warning}");
        }
        let more = if self.is_limit { " or more" } else { "" };
        let Self { template, count: fitting, by_node, .. } = self;
        let _ =
            writeln!(out, "{template}: {fitting}{more} fit, on {}", count(by_node.len(), "node"));
        out
    }
}
