//! How many pods may use a claim: the API server takes no more consumers of one. The reference finds that out when it writes; for
//! groups that are planned as a whole it is part of the plan, because the others would be bound without those that it refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_devices::api::ResourceClaim;
use kube_scheduler_framework::api::{Pod, PodGroup};
use kube_scheduler_framework::groups::{
    ExactPlanning, GroupCycleState, GroupDemand, MemberPlace, PodGroupState,
};
use kube_scheduler_framework::{ClusterView, Context, CycleState};

use super::resolve::claim_name;
use super::shared::PluginData;
use super::{decoded, kinds};

/// What `status.reservedFor` may have at most.
const MAX_CONSUMERS: usize = 256;

/// Why there is no way to place as many members as are needed, if too many of them use one claim.
pub(super) fn rules_out(
    shared: &PluginData,
    cx: &Context<'_>,
    demand: GroupDemand<'_>,
) -> Option<String> {
    let cluster = cx.cluster();
    let first = demand.members.first()?;
    let reserving = reserving_group(shared, cluster, first);
    let mut by_claim: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in demand.members {
        own_claims(reserving, pod).for_each(|name| by_claim.entry(name).or_default().push(pod));
    }
    let group = group_of(cluster, first);
    let (no_users, mut counted) = (PlacedMembers::default(), None);
    by_claim.into_iter().find_map(|(name, pods)| {
        let object = kinds::claim(cluster.objects(), &first.namespace, name)?;
        let claim = decoded::claim(object).ok()?;
        let placed: &PlacedMembers = match group {
            Some(group) if !has_room(&claim, group, pods.len()) => {
                counted.get_or_insert_with(|| placed(reserving, group))
            }
            _ => &no_users,
        };
        let consumers = placed.consumers(&claim);
        let n_new = pods.iter().filter(|pod| !consumers.contains(&*pod.uid)).count();
        let n_all = consumers.len() + n_new;
        let n_too_many = n_all.saturating_sub(MAX_CONSUMERS).min(n_new);
        let is_short = demand.members.len() - n_too_many < demand.needed;
        is_short.then(|| {
            format!(
                "resource claim {}: {n_all} pods would use it, and {MAX_CONSUMERS} may; as one of the PodGroup's \
                 resourceClaims it has the group as one user",
                claim.key()
            )
        })
    })
}

/// Whether a member of a group that is planned as a whole would be one user too many of the claim.
pub(super) fn is_full(
    shared: &PluginData,
    cluster: ClusterView<'_>,
    state: &CycleState,
    pod: &Pod,
    claim: &ResourceClaim,
) -> bool {
    let is_planned =
        |cycle: &&GroupCycleState| cycle.with(|it| it.get::<ExactPlanning>().is_some());
    let Some(cycle) = state.get::<GroupCycleState>().filter(is_planned) else { return false };
    let is_full = |placed: &PlacedMembers| {
        let consumers = placed.consumers(claim);
        consumers.len() >= MAX_CONSUMERS && !consumers.contains(&*pod.uid)
    };
    let Some(group) = group_of(cluster, pod) else { return is_full(&PlacedMembers::default()) };
    if has_room(claim, group, 1) {
        return false;
    }
    cycle.with(|it| {
        if let Some(placed) = it.get::<PlacedMembers>() {
            return is_full(placed);
        }
        let placed = placed(reserving_group(shared, cluster, pod), group);
        let is_full = is_full(&placed);
        it.insert(placed);
        is_full
    })
}

/// A member of a group has a node, on trial or for good, if `has_node` says so, or has it no longer.
pub(super) fn moved(
    cycle: &GroupCycleState,
    shared: &PluginData,
    cluster: ClusterView<'_>,
    member: &Pod,
    has_node: bool,
) {
    cycle.with(|it| {
        // Most groups never need it.
        let Some(placed) = it.get_mut::<PlacedMembers>() else { return };
        for name in own_claims(reserving_group(shared, cluster, member), member) {
            placed.note(name, &member.uid, has_node);
        }
    });
}

fn group_of<'a>(cluster: ClusterView<'a>, member: &Pod) -> Option<&'a PodGroupState> {
    cluster.pod_group(&member.namespace, member.spec.pod_group.as_ref()?)
}

/// Whether a claim has room for so many more users even if all members that have a node use it.
fn has_room(claim: &ResourceClaim, group: &PodGroupState, n_more: usize) -> bool {
    claim.status.reserved_for.len() + group.n_scheduled() + n_more <= MAX_CONSUMERS
}

/// The members of a group that have a node, by the names of the claims that they use by themselves. In a group cycle they are found
/// once, when a claim may be full, and followed from then on.
#[derive(Clone, Default)]
struct PlacedMembers(BTreeMap<Box<str>, BTreeSet<Arc<str>>>);

impl PlacedMembers {
    fn note(&mut self, claim: &str, uid: &Arc<str>, has_node: bool) {
        match self.0.get_mut(claim) {
            Some(users) if has_node => {
                users.insert(uid.clone());
            }
            Some(users) => {
                users.remove(uid);
            }
            None if has_node => {
                self.0.insert(claim.into(), BTreeSet::from([uid.clone()]));
            }
            None => {}
        }
    }

    /// The UIDs of those that use a claim, or are about to: those that it names, and members that have a node.
    fn consumers<'c>(&'c self, claim: &'c ResourceClaim) -> BTreeSet<&'c str> {
        let reserved = claim.status.reserved_for.iter().map(|consumer| &*consumer.uid);
        let users = self.0.get(&*claim.name).into_iter().flatten();
        reserved.chain(users.map(|uid| &**uid)).collect()
    }
}

/// The group of a member, if its claims are reserved for it instead of its pods.
fn reserving_group<'a>(
    shared: &PluginData,
    cluster: ClusterView<'a>,
    member: &Pod,
) -> Option<&'a PodGroup> {
    cluster.pod_group_object(&member.namespace, shared.group_of(member)?).ok()
}

/// The names of the claims that a pod uses by itself, each once. Those that are generated for a pod are left out: it is their only
/// user.
fn own_claims<'p>(reserving: Option<&PodGroup>, pod: &'p Pod) -> impl Iterator<Item = &'p str> {
    let entries = pod.spec.resource_claims.iter();
    let own = entries
        .filter(|&entry| !reserving.is_some_and(|group| group.resource_claims.contains(entry)));
    let names = own.filter_map(|entry| match claim_name(pod, entry) {
        Ok(Some((name, false))) => Some(name),
        _ => None,
    });
    names.collect::<BTreeSet<&str>>().into_iter()
}

/// The members that have a node.
fn placed(reserving: Option<&PodGroup>, group: &PodGroupState) -> PlacedMembers {
    let mut placed = PlacedMembers::default();
    let members = group.members().filter(|(_, place)| *place != MemberPlace::Unscheduled);
    for (pod, _) in members {
        own_claims(reserving, pod).for_each(|name| placed.note(name, &pod.uid, true));
    }
    placed
}
