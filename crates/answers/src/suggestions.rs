//! The smallest changes that make a pod fit.
//!
//! Every suggestion has been tried: the pod with the change, or the cluster with it, was explained, and an attempt would
//! place the pod. Which changes are tried follows from what rejects the pod on each node; single ones first, then pairs that are
//! smaller than the smallest of these.

mod candidates;
mod devices;
mod repairs;
mod volumes;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_engine::{Engine, Input};

use self::candidates::Candidate;
use self::repairs::{Combination, combinations};
use crate::course::Course;
use crate::explanation::{Explanation, Suggestion, Verdict};
use crate::interrupt::Interrupt;
use crate::what_if::{Change, apply};

/// What is said of a pod that no change of its own would help.
const NOTHING_SUGGESTED: &str = "no changes are suggested while it is up to the pod's group: they would be tried for the pod alone";
/// How many single changes are tried, and how many pairs.
const MAX_SINGLES: usize = 64;
const MAX_PAIRS: usize = 100;
/// How many changes of one kind are tried, such as other amounts of a resource, until one helps.
const MAX_OF_A_KIND: usize = 8;
/// How many of a pod's terms of affinity, of its hard topology spread constraints and of its host ports are looked at one by one
/// and in pairs, the first of each list. Affinity and ports can be dropped as a whole as well: with a term or all of affinity and
/// of anti-affinity that is as many pairs as are tried, so that the last of them, all of both, is.
const MAX_LISTED: usize = 9;

/// The smallest changes that make the pod of an explanation fit, smallest first; none if it fits, if it is up to its group, or if
/// nothing that is tried helps.
///
/// O(nodes × plugins) for each change that is tried, of which there are at most 164, and for each amount of one that helps: with p
/// pods, log p of them. None is tried after `interrupt`.
pub fn suggestions(
    engine: &Engine,
    pod: &Arc<Pod>,
    explanation: &Explanation,
    interrupt: &Interrupt,
    now: Timestamp,
) -> Vec<Suggestion> {
    let is_rejected =
        matches!(explanation.judged(), Verdict::DoesNotFit | Verdict::FitsAfterPreemption);
    if !is_rejected || explanation.is_up_to_group() || interrupt.is_set() {
        return Vec::new();
    }
    let mut course = Course::new(engine, now, 0, interrupt);
    let random = course.engine.next_random();
    let Some(found) = course.engine.explain(pod, random, now) else { return Vec::new() };
    let (singles, mut pairs) = combinations(&course.engine, pod, &found, interrupt);
    let mut trials = Trials { course, pod, interrupt, now };
    let mut suggested = trials.all(&singles, MAX_SINGLES);
    let smallest = suggested.iter().map(|suggestion| suggestion.size).min();
    pairs.retain(|pair| smallest.is_none_or(|smallest| pair.size() < smallest));
    let pairs = trials.all(&pairs, MAX_PAIRS);
    let is_smaller = |pair: &Suggestion| smallest.is_none_or(|smallest| pair.size < smallest);
    suggested.extend(pairs.into_iter().filter(is_smaller));
    suggested.sort_by_key(|suggestion| (suggestion.size, std::cmp::Reverse(suggestion.n_feasible)));
    // Of pairs with the same codes the smallest is enough.
    let mut known: BTreeSet<Vec<&'static str>> = BTreeSet::new();
    suggested.retain(|one| one.codes.len() == 1 || known.insert(one.codes.clone()));
    suggested
}

impl Explanation {
    /// Adds what [`suggestions`] finds for the pod that it is about, and why it finds nothing where it is up to the pod's group.
    pub fn suggest(
        &mut self,
        engine: &Engine,
        pod: &Arc<Pod>,
        interrupt: &Interrupt,
        now: Timestamp,
    ) {
        self.suggestions = suggestions(engine, pod, self, interrupt, now);
        if self.is_up_to_group() {
            self.warnings.push(NOTHING_SUGGESTED.to_owned());
        }
    }
}

/// Where changes are tried.
struct Trials<'a> {
    course: Course,
    pod: &'a Arc<Pod>,
    interrupt: &'a Interrupt,
    now: Timestamp,
}

impl Trials<'_> {
    /// Tries combinations, the smallest first, and of each kind until one helps.
    fn all(&mut self, combinations: &BTreeSet<Combination>, max: usize) -> Vec<Suggestion> {
        let mut suggested = Vec::new();
        let mut of_kinds: BTreeMap<Vec<Candidate>, usize> = BTreeMap::new();
        let mut n_tried = 0;
        for combination in combinations {
            let n_of_kind = of_kinds.entry(combination.kind()).or_default();
            if *n_of_kind >= MAX_OF_A_KIND || n_tried == max || self.interrupt.is_set() {
                continue;
            }
            n_tried += 1;
            *n_of_kind += 1;
            if let Some(suggestion) = self.smallest(combination) {
                // Another priority may take other victims, and other nodes other pods.
                *n_of_kind = if combination.may_evict() { *n_of_kind } else { MAX_OF_A_KIND };
                suggested.push(suggestion);
            }
        }
        suggested
    }

    /// The changes with the least amounts that help, if they do.
    fn smallest(&mut self, combination: &Combination) -> Option<Suggestion> {
        let mut changes = combination.changes().to_vec();
        let mut suggestion = self.tried(&changes)?;
        for at in 0..changes.len() {
            let Some(most) = changes[at].most() else { continue };
            let (mut too_little, mut enough) = (0, most);
            while enough - too_little > 1 && !self.interrupt.is_set() {
                let middle = too_little + (enough - too_little) / 2;
                changes[at] = changes[at].by(middle);
                match self.tried(&changes) {
                    Some(found) => (suggestion, enough) = (found, middle),
                    None => too_little = middle,
                }
            }
            changes[at] = changes[at].by(enough);
        }
        // Cut short, it is none of the least.
        (!self.interrupt.is_set()).then_some(suggestion)
    }

    /// What the changes together amount to, if the pod then gets a node.
    fn tried(&mut self, changes: &[Candidate]) -> Option<Suggestion> {
        let mut pod = (**self.pod).clone();
        // From the last one on, so that the places of terms stay what they are.
        changes.iter().rev().for_each(|change| change.apply_to(&mut pod));
        let pod = Arc::new(pod);
        let of_cluster: Vec<Change> = changes.iter().flat_map(Candidate::of_cluster).collect();
        let mut changed = None;
        if !of_cluster.is_empty() || changes.iter().any(Candidate::is_of_objects) {
            let mut course = Course::new(&self.course.engine, self.now, 0, self.interrupt);
            apply(&mut course, &of_cluster, of_cluster.len()).ok()?;
            for change in changes.iter().rev() {
                if let Some(object) = change.object(course.engine.cluster().objects()) {
                    course.handle(Input::ObjectApplied(Arc::new(object)));
                }
            }
            changed = Some(course);
        }
        let course = changed.as_mut().unwrap_or(&mut self.course);
        let random = course.engine.next_random();
        let found = course.engine.explain(&pod, random, self.now)?;
        let outcome = found.post_filter.as_ref().filter(|outcome| outcome.status.is_success());
        if found.chosen.is_none()
            && !(changes.iter().any(Candidate::may_evict) && outcome.is_some())
        {
            return None;
        }
        let victims: Vec<String> = match (&found.chosen, outcome) {
            (None, Some(outcome)) => outcome.victims.iter().map(|victim| victim.key()).collect(),
            _ => Vec::new(),
        };
        let n_victims = u32::try_from(victims.len()).unwrap_or(u32::MAX);
        let size = changes.iter().map(Candidate::size).fold(n_victims, u32::saturating_add);
        Some(Suggestion {
            codes: changes.iter().map(Candidate::code).collect(),
            changes: changes.iter().map(ToString::to_string).collect(),
            size,
            n_feasible: found.nodes.iter().filter(|node| node.status.is_success()).count(),
            victims,
        })
    }
}
