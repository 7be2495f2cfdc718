//! Other devices than those that are found first, for members of groups that are planned as a whole.
//!
//! Which devices are as good as others is up to the claims of all members. What tells devices apart for them is gathered once in a
//! group cycle.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use kube_scheduler_devices::{Allocator, Criteria, ExtendedClaim, NodeRef, Steps};
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::groups::{ChoiceOutcome, Chooser, GroupCycleState, MemberOnNode};
use kube_scheduler_framework::{Context, CycleState, NodeView};

use super::extended::Demand;
use super::reserve::share_ids;
use super::shared::PluginData;
use super::state::PodDevices;
use super::{DynamicResources, decoded, kinds};

/// How many ways to allocate a pod's claims on one node are tried.
const MAX_CHOICES: usize = 1024;

/// What gathering the claims of one pod counts as, in units of work: for the pod, and for each claim, request, selector and
/// constraint.
const WORK_OF_POD: u64 = 20;
const WORK_OF_PART: u64 = 5;

impl Chooser for DynamicResources {
    fn choose(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        member: MemberOnNode<'_>,
        number: usize,
    ) -> ChoiceOutcome {
        let cluster = cx.cluster();
        let Some(node) = cluster.node(member.node) else { return the_only(number) };
        let criteria = criteria(&self.shared, cx, state, member.members);
        let Some(devices) = state.get_mut::<PodDevices>() else { return the_only(number) };
        devices.choice = None;
        let Some((allocator, special)) = wanted(devices, &node) else { return the_only(number) };
        let search = |devices: &PodDevices, most: usize| {
            let limit = self.shared.settings.steps.of_node.min(cx.work_left());
            let steps = Steps::new(limit);
            let claims = devices.claims_with(special.as_ref());
            let at = NodeRef { name: node.name(), labels: node.labels() };
            let mut new_share_id = share_ids(member.pod, cx, &node);
            let found =
                allocator.choices(at, &claims, (&criteria, most), &steps, &mut new_share_id);
            cx.count_work(limit - steps.left());
            found
        };
        if number == 0 {
            let found = search(devices, 1).ok();
            let first = found.and_then(|found| found.list.into_iter().next());
            // That nothing is found, or why, is for Reserve to say.
            let Some(first) = first else { return ChoiceOutcome::Made(None) };
            devices.choice = Some(first.allocations);
            return ChoiceOutcome::Made(Some(mark_of(devices, &first.mark)));
        }
        let known = devices.found().choices.clone().filter(|(of, _)| *of == node.idx());
        let all = match known {
            Some((_, all)) => all,
            None => match search(devices, MAX_CHOICES) {
                Ok(found) => Arc::new(found),
                Err(_) => return ChoiceOutcome::Unknown,
            },
        };
        let Some(choice) = all.list.get(number) else {
            devices.found().choices = None;
            return if all.are_all { ChoiceOutcome::NoMore } else { ChoiceOutcome::Unknown };
        };
        devices.choice = Some(choice.allocations.clone());
        devices.found().choices = Some((node.idx(), all.clone()));
        ChoiceOutcome::Made(Some(mark_of(devices, &choice.mark)))
    }
}

/// Where something has to be found: the devices, and what the special claim asks for.
fn wanted(
    devices: &PodDevices,
    node: &NodeView<'_>,
) -> Option<(Arc<Allocator>, Option<Arc<ExtendedClaim>>)> {
    let allocator = devices.allocator.clone()?;
    devices.to_allocate().next()?;
    let special = devices.special_on(node).ok()?;
    (special.is_some() || devices.has_user_claims()).then_some((allocator, special))
}

/// Where there is nothing to choose.
fn the_only(number: usize) -> ChoiceOutcome {
    if number == 0 { ChoiceOutcome::Made(Some(Arc::default())) } else { ChoiceOutcome::NoMore }
}

/// The mark of what is chosen, with the places of the claims that get it: which are left to allocate depends on who came before. Not
/// with their names, which would tell members apart that are [alike](super::members).
fn mark_of(devices: &PodDevices, chosen: &str) -> Arc<str> {
    let mut mark = String::new();
    for (place, claim) in devices.claims.iter().enumerate() {
        if claim.allocation().is_none() {
            write!(mark, "{place},").ok();
        }
    }
    mark.push_str(chosen);
    mark.into()
}

/// What tells devices apart for the members of a group.
#[derive(Clone)]
struct GroupCriteria(Arc<Criteria>);

fn criteria(
    shared: &PluginData,
    cx: &Context<'_>,
    state: &CycleState,
    members: &[Arc<Pod>],
) -> Arc<Criteria> {
    let group = state.get::<GroupCycleState>();
    let known = group.and_then(|group| group.with(|it| it.get::<GroupCriteria>().cloned()));
    if let Some(GroupCriteria(known)) = known {
        return known;
    }
    let found = Arc::new(criteria_of(shared, cx, members));
    if let Some(group) = group {
        group.with(|it| it.insert(GroupCriteria(found.clone())));
    }
    found
}

fn criteria_of(shared: &PluginData, cx: &Context<'_>, members: &[Arc<Pod>]) -> Criteria {
    let cluster = cx.cluster();
    let objects = cluster.objects();
    let mut criteria = Criteria::default();
    let mut class = |name: &str| decoded::class(kinds::class(objects, name)?).ok();
    let mut known: BTreeSet<[Arc<str>; 2]> = BTreeSet::new();
    for pod in members {
        let n_before = criteria.n_added();
        // A pod whose claims cannot be read goes nowhere, and takes nothing.
        for resolved in shared.claims_of(objects, pod).unwrap_or_default() {
            let claim = resolved.claim;
            // One that several pods share is looked at once.
            if known.insert([claim.namespace.clone(), claim.name.clone()]) {
                criteria.add_claim(&claim, &mut class);
            }
        }
        if shared.may_need_special_claim(pod) {
            let demand = Demand::new(pod, shared.devices.resources(objects));
            let classes = demand.iter().flat_map(|demand| demand.classes());
            classes.for_each(|class| criteria.add_class(class));
        }
        let n_claims = pod.spec.resource_claims.len() as u64;
        let n_parts = n_claims.saturating_add(criteria.n_added().saturating_sub(n_before));
        cx.count_work(n_parts.saturating_mul(WORK_OF_PART).saturating_add(WORK_OF_POD));
    }
    criteria
}
