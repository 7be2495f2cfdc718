//! Which members of a gang are interchangeable in an [exact search](super::search), and what is chosen for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::well_known::is_numbering_label;
use kube_scheduler_api_types::{KeyedMap, Labels, Pod};
use kube_scheduler_framework::SignatureWriter;
use kube_scheduler_framework::groups::{Chooser, PlannedMember};
use kube_scheduler_queue::ProfileId;

use crate::core::Core;
use crate::group::Group;
use crate::guard::guarded;
use crate::numbered::{class_of, ignores_numbers};

/// Members that nothing tells apart.
#[derive(Debug)]
pub(super) struct Class {
    /// By their numbers in the group, in order.
    pub(super) members: Vec<usize>,
    pub(super) n_placed: usize,
    /// Whether nothing is known of what plugins read of them.
    pub(super) is_unknown: bool,
    /// What is chosen for them.
    pub(super) choosing: PluginChoices,
}

/// What plugins choose for a member on its node, such as volumes and devices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PluginChoices {
    /// Whether there are choices that are tried.
    pub(super) has_choices: bool,
    /// Whether there may be choices of which only the first is tried. What is left for others depends on the order in which
    /// they come then.
    pub(super) leaves_some: bool,
}

/// What members of a class have in common, with what others look at in any case: labels by their number in the group, but for
/// those that no selector is about, and the priority, which decides which nominated pods a node keeps room for. Neither has to be part
/// of a signature.
type ClassTraits = (Likeness, usize, i32);

/// In what the answers of plugins are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Likeness {
    /// The class of pods that share evaluations, by its number.
    OfPods(u64),
    /// What plugins wrote for [members](kube_scheduler_framework::Sign::sign_member), by its number in the group.
    OfMembers(usize),
}

/// The classes of a gang's members, in the order of their first ones. What it costs is counted on the work of the core.
pub(super) fn classes(core: &Core, group: &Group) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    let mut known: KeyedMap<ClassTraits, usize> = KeyedMap::default();
    let mut by_labels: KeyedMap<Labels, usize> = KeyedMap::default();
    let mut by_class: BTreeMap<u64, PluginChoices> = BTreeMap::new();
    let mut written: KeyedMap<Box<[u8]>, usize> = KeyedMap::default();
    let numbers_count = do_numbers_count(core, group);
    for (member, queued) in group.members.iter().enumerate() {
        let pod = &queued.entry().0;
        let shared = class_of(core, queued);
        let ask = || choosing(core, group.profile, pod).0;
        let choosing = match shared {
            Some(number) => *by_class.entry(number).or_insert_with(ask),
            None => ask(),
        };
        let likeness = match shared {
            Some(number) if !choosing.has_choices => Some(Likeness::OfPods(number)),
            // What there is to choose from may depend on objects that are the member's own.
            _ => signed(core, group, member, numbers_count).map(|bytes| {
                let next = written.len();
                Likeness::OfMembers(*written.entry(bytes).or_insert(next))
            }),
        };
        let (n_known, next) = (by_labels.len(), classes.len());
        core.context().count_work(pod.labels.len() as u64);
        let labels = match numbers_count || !pod.is_numbered() {
            true => pod.labels.clone(),
            false => without_numbers(&pod.labels),
        };
        let labels = *by_labels.entry(labels).or_insert(n_known);
        let in_common = likeness.map(|likeness| (likeness, labels, pod.priority()));
        let class = in_common.map_or(next, |it| *known.entry(it).or_insert(next));
        match classes.get_mut(class) {
            Some(class) => class.members.push(member),
            None => {
                let (alike, is_unknown) = (vec![member], shared.is_none());
                classes.push(Class { members: alike, n_placed: 0, is_unknown, choosing });
            }
        }
    }
    classes
}

/// Whether labels that number members tell these apart: they do for all of them if a selector that matters to one is about such a
/// label.
fn do_numbers_count(core: &Core, group: &Group) -> bool {
    let ignores_numbers = |pod: &Arc<Pod>| {
        core.context().count_work(1 + pod.spec.topology_spread_constraints.len() as u64);
        ignores_numbers(core, pod)
    };
    let are_numbered = group.pods.iter().any(|pod| pod.is_numbered());
    !are_numbered || !group.pods.iter().all(ignores_numbers)
}

/// These labels without those that number the pod.
fn without_numbers(labels: &Labels) -> Labels {
    let others = labels.iter_shared().filter(|(key, _)| !is_numbering_label(key));
    others.map(|(key, value)| (key.into_owned(), value.into_owned())).collect()
}

/// What plugins write for a member; nothing for one that is like no other, or if no work is left, with which a search ends at once.
fn signed(core: &Core, group: &Group, member: usize, numbers_count: bool) -> Option<Box<[u8]>> {
    if core.work.left() == 0 {
        return None;
    }
    let Group { pods, planning, .. } = group;
    let plan = core.plans.sign.get(group.profile.index())?;
    let member = PlannedMember { pod: &pods[member], members: pods, shared: planning };
    let signature = match numbers_count {
        true => SignatureWriter::new(),
        false => SignatureWriter::without_numbers(),
    };
    guarded(|| plan.sign_member(&core.context(), member, signature)).ok()?
}

/// What is chosen for a member, and the plugin whose choices are tried.
pub(super) fn choosing<'c>(
    core: &'c Core,
    profile: ProfileId,
    pod: &Pod,
) -> (PluginChoices, Option<&'c dyn Chooser>) {
    let (mut choosing, mut chooser) = (PluginChoices::default(), None);
    let cx = core.context();
    for (_, _, plugin) in core.plans.profiles[profile].reserve() {
        let asked = guarded(|| plugin.chooses_for(&cx, pod).then(|| plugin.chooser(&cx, pod)));
        match asked {
            Ok(None) => {}
            Ok(Some(Some(found))) if chooser.is_none() => {
                choosing.has_choices = true;
                chooser = Some(found);
            }
            Ok(Some(_)) | Err(_) => choosing.leaves_some = true,
        }
    }
    (choosing, chooser)
}
