//! The smallest changes that make a pod fit.
//!
//! Every suggestion has been tried: the pod with the change, or the cluster with it, was explained, and an attempt would
//! place the pod. Which changes are tried follows from what rejects the pod; single ones first, pairs where none does.

mod candidates;

use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_engine::Engine;

use self::candidates::{Candidate, candidates};
use crate::course::Course;
use crate::explanation::{Explanation, Suggestion, Verdict};
use crate::interrupt::Interrupt;
use crate::what_if::{Change, apply};

/// Changes of one pod that are tried at most, and pairs of them.
const MAX_CANDIDATES: usize = 48;
const MAX_PAIRS: usize = 150;

/// The smallest changes that make the pod of an explanation fit, smallest first; none if it fits, or if nothing that is tried
/// helps.
///
/// O(nodes × plugins) for each change that is tried, of which there are at most 200; none is tried after `interrupt`.
pub fn suggestions(
    engine: &Engine,
    pod: &Arc<Pod>,
    explanation: &Explanation,
    interrupt: &Interrupt,
    now: Timestamp,
) -> Vec<Suggestion> {
    let is_rejected =
        matches!(explanation.verdict, Verdict::DoesNotFit | Verdict::FitsAfterPreemption);
    // One that would fit alone is not helped by changes of its own.
    if !is_rejected || explanation.n_feasible > 0 {
        return Vec::new();
    }
    let course = Course::new(engine, now, 0, interrupt);
    let mut trials = Trials { course, pod, interrupt, now };
    let mut all = candidates(&trials.course.engine, pod, explanation);
    all.truncate(MAX_CANDIDATES);
    let mut found: Vec<Suggestion> =
        all.iter().filter_map(|candidate| trials.tried(&[candidate])).collect();
    if found.is_empty() {
        let mut pairs: Vec<[&Candidate; 2]> = Vec::new();
        for (at, first) in all.iter().enumerate() {
            let others = all[at + 1..].iter().filter(|other| first.combines_with(other));
            pairs.extend(others.map(|second| [first, second]));
        }
        pairs.sort_by_key(|[first, second]| first.size() + second.size());
        found = pairs.iter().take(MAX_PAIRS).filter_map(|pair| trials.tried(pair)).collect();
    }
    found.sort_by_key(|suggestion| (suggestion.size, std::cmp::Reverse(suggestion.n_feasible)));
    // Where several amounts or nodes make the pod fit, the smallest change of a kind is enough.
    let mut known: Vec<Vec<&'static str>> = Vec::new();
    found.retain(|suggestion| {
        let is_new = !known.contains(&suggestion.codes) || suggestion.codes == ["Tolerate"];
        known.push(suggestion.codes.clone());
        is_new
    });
    found
}

/// Where changes are tried.
struct Trials<'a> {
    course: Course,
    pod: &'a Arc<Pod>,
    interrupt: &'a Interrupt,
    now: Timestamp,
}

impl Trials<'_> {
    /// What the changes together amount to, if the pod then gets a node.
    fn tried(&mut self, changes: &[&Candidate]) -> Option<Suggestion> {
        if self.interrupt.is_set() {
            return None;
        }
        let mut pod = (**self.pod).clone();
        changes.iter().for_each(|change| change.apply_to(&mut pod));
        let pod = Arc::new(pod);
        let of_cluster: Vec<Change> =
            changes.iter().filter_map(|change| change.of_cluster()).collect();
        let found = if of_cluster.is_empty() {
            let engine = &mut self.course.engine;
            let random = engine.next_random();
            engine.explain(&pod, random, self.now)?
        } else {
            let mut course = Course::new(&self.course.engine, self.now, 0, self.interrupt);
            apply(&mut course, &of_cluster).ok()?;
            let random = course.engine.next_random();
            course.engine.explain(&pod, random, self.now)?
        };
        let outcome = found.post_filter.as_ref().filter(|outcome| outcome.status.is_success());
        let wants_victims = changes.iter().any(|change| change.may_evict());
        if found.chosen.is_none() && !(wants_victims && outcome.is_some()) {
            return None;
        }
        let victims: Vec<String> = match (&found.chosen, outcome) {
            (None, Some(outcome)) => outcome.victims.iter().map(|victim| victim.key()).collect(),
            _ => Vec::new(),
        };
        let n_victims = u32::try_from(victims.len()).unwrap_or(u32::MAX);
        let size: u32 = changes.iter().map(|change| change.size()).sum();
        Some(Suggestion {
            codes: changes.iter().map(|change| change.code()).collect(),
            changes: changes.iter().map(|change| change.to_string()).collect(),
            size: size.saturating_add(n_victims),
            n_feasible: found.nodes.iter().filter(|node| node.status.is_success()).count(),
            victims,
        })
    }
}
