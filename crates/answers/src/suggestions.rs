//! The smallest changes that make a pod fit.
//!
//! Every suggestion has been tried: the pod with the change, or the cluster with it, was explained, and an attempt would
//! place the pod. Which changes are tried follows from what rejects the pod on each node; single ones first, then pairs that are
//! smaller than the smallest of these. Where it is up to the pod's group, the whole group is tried.

mod candidates;
mod devices;
mod group;
mod min_count;
mod repairs;
mod volumes;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_engine::{self as engine, Engine, Input};

use self::candidates::Candidate;
use self::group::{GroupOfPod, victims_of_group};
use self::repairs::{Combination, combinations};
use crate::course::Course;
use crate::explanation::group::trial::engine_for_trials;
use crate::explanation::{Explanation, Suggestion};
use crate::interrupt::Interrupt;
use crate::what_if::{Change, apply};

/// What is said where no change is suggested.
const NOTHING_HELPS: &str = "none of the changes that were tried makes it fit";
/// What is said about suggestions for a pod with its group.
const FOR_GROUP: &str = "suggestions are for the whole group: changes of the pod are made to all its waiting pods that are like this one";
/// How many single changes are tried, and how many pairs.
const MAX_SINGLES: usize = 64;
const MAX_PAIRS: usize = 100;
/// As many where the whole group of the pod is tried, beside the changes that are for groups alone.
const MAX_SINGLES_OF_GROUP: usize = 32;
const MAX_PAIRS_OF_GROUP: usize = 32;
/// How many changes of one kind are tried, such as other amounts of a resource, until one helps.
const MAX_OF_A_KIND: usize = 8;
/// How many of a pod's terms of affinity, of its hard topology spread constraints and of its host ports are looked at one by one
/// and in pairs, the first of each list. Affinity and ports can be dropped as a whole as well: with a term or all of affinity and
/// of anti-affinity that is as many pairs as are tried, so that the last of them, all of both, is.
const MAX_LISTED: usize = 9;

/// The smallest changes that make the pod of an explanation fit, together with its group where it is up to that, smallest first; none
/// if it fits, or if nothing that is tried helps.
///
/// O(nodes × plugins) for each change that is tried, of which there are at most 164, and for each amount of one that helps: with p
/// pods, log p of them. For a group it is at most 81 changes, each of which takes an attempt at the group, and so does each amount that is
/// tried of those that help: up to 63 for a request. None is tried after `interrupt`.
pub fn suggestions(
    engine: &Engine,
    pod: &Arc<Pod>,
    explanation: &Explanation,
    interrupt: &Interrupt,
    now: Timestamp,
) -> Vec<Suggestion> {
    if !explanation.is_rejected() || interrupt.is_set() {
        return Vec::new();
    }
    let course = match explanation.is_up_to_group() {
        true => Course::new(&engine_for_trials(engine, pod, interrupt, now), now, 0, interrupt),
        false => Course::new(engine, now, 0, interrupt),
    };
    let group = match explanation.is_up_to_group() {
        true => GroupOfPod::of(&course.engine, pod),
        false => None,
    };
    Trials { course, pod, group, interrupt, now }.suggestions()
}

impl Explanation {
    /// Adds what [`suggestions`] finds for the pod that it is about.
    pub fn suggest(
        &mut self,
        engine: &Engine,
        pod: &Arc<Pod>,
        interrupt: &Interrupt,
        now: Timestamp,
    ) {
        self.suggestions = suggestions(engine, pod, self, interrupt, now);
        let note = match (self.suggestions.is_empty(), self.is_up_to_group()) {
            (true, _) if self.is_rejected() && !interrupt.is_set() => NOTHING_HELPS,
            (false, true) => FOR_GROUP,
            _ => return,
        };
        self.warnings.push(note.to_owned());
    }
}

/// Where changes are tried.
struct Trials<'a> {
    course: Course,
    pod: &'a Arc<Pod>,
    /// The group of the pod, if it is up to that.
    group: Option<GroupOfPod>,
    interrupt: &'a Interrupt,
    now: Timestamp,
}

impl Trials<'_> {
    /// What helps, smallest first.
    fn suggestions(mut self) -> Vec<Suggestion> {
        let random = self.course.engine.next_random();
        let Some(found) = self.course.engine.explain(self.pod, random, self.now) else {
            return Vec::new();
        };
        let engine = &self.course.engine;
        let (mut singles, mut pairs) = combinations(engine, self.pod, &found, self.interrupt);
        let (mut max_singles, mut max_pairs) = (MAX_SINGLES, MAX_PAIRS);
        let mut suggested = Vec::new();
        if let Some(group) = &self.group {
            (max_singles, max_pairs) = (MAX_SINGLES_OF_GROUP, MAX_PAIRS_OF_GROUP);
            let of_group = group.changes(engine, self.pod);
            let kinds: BTreeSet<_> = of_group.iter().map(Combination::kind).collect();
            singles.retain(|single| !kinds.contains(&single.kind()));
            // First, so that no number of taints and the like takes their place.
            suggested = self.all(&of_group, max_singles);
        }
        suggested.extend(self.all(&singles, max_singles));
        let smallest = suggested.iter().map(|suggestion| suggestion.size).min();
        pairs.retain(|pair| smallest.is_none_or(|smallest| pair.size() < smallest));
        let pairs = self.all(&pairs, max_pairs);
        let is_smaller = |pair: &Suggestion| smallest.is_none_or(|smallest| pair.size < smallest);
        suggested.extend(pairs.into_iter().filter(is_smaller));
        suggested
            .sort_by_key(|suggestion| (suggestion.size, std::cmp::Reverse(suggestion.n_feasible)));
        // Of pairs with the same codes the smallest is enough, and of nodes to add.
        let mut known: BTreeSet<Vec<&'static str>> = BTreeSet::new();
        let may_be_several = |codes: &[&str]| codes.len() == 1 && codes != ["AddNodeLike"];
        suggested.retain(|one| may_be_several(&one.codes) || known.insert(one.codes.clone()));
        suggested
    }

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
                // Another priority may take other victims, and of other nodes fewer may do.
                let may_be_smaller = combination.may_evict() || combination.adds_nodes();
                *n_of_kind = if may_be_smaller { *n_of_kind } else { MAX_OF_A_KIND };
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
        let is_in_cluster = !of_cluster.is_empty() || changes.iter().any(Candidate::is_of_objects);
        if self.group.is_some() || is_in_cluster {
            let mut course = Course::new(&self.course.engine, self.now, 0, self.interrupt);
            apply(&mut course, &of_cluster, of_cluster.len()).ok()?;
            for change in changes.iter().rev() {
                if let Some(object) = change.object(course.engine.cluster().objects()) {
                    course.handle(Input::ObjectApplied(Arc::new(object)));
                }
            }
            if let Some(group) = &self.group {
                group.apply(changes, &pod, &mut course);
            }
            changed = Some(course);
        }
        let may_evict = changes.iter().any(Candidate::may_evict);
        let is_in_group = self.group.is_some();
        let course = changed.as_mut().unwrap_or(&mut self.course);
        let random = course.engine.next_random();
        let found = course.engine.explain(&pod, random, self.now)?;
        let victims = match is_in_group {
            true => victims_of_group(course, &pod, may_evict, self.interrupt)?,
            false => victims(&found, may_evict)?,
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

/// The pods that would be evicted for a pod, if it then gets a node: none if it fits without.
fn victims(found: &engine::AttemptExplanation, may_evict: bool) -> Option<Vec<String>> {
    if found.chosen.is_some() {
        return Some(Vec::new());
    }
    let outcome = found.post_filter.as_ref();
    let outcome = outcome.filter(|outcome| may_evict && outcome.status.is_success())?;
    Some(outcome.victims.iter().map(|victim| victim.key()).collect())
}
