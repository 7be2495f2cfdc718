//! How many pods may use a claim: the API server takes no more consumers of one. The reference finds that out when it writes; for
//! groups that are planned as a whole it is part of the plan, because the others would be bound without those that it refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_devices::api::ResourceClaim;
use kube_scheduler_framework::api::{Pod, PodGroup};
use kube_scheduler_framework::groups::{
    GroupCycleState, GroupDemand, MemberPlace, PlannedAsAWhole,
};
use kube_scheduler_framework::{ClusterView, Context, CycleState};

use super::resolve::claim_name;
use super::shared::Shared;
use super::{group, kinds};

/// What `status.reservedFor` may have at most.
const MAX_CONSUMERS: usize = 256;

/// Why there is no way to place as many members as are needed, if too many of them use one claim.
pub(super) fn rules_out(
    shared: &Shared,
    cx: &Context<'_>,
    demand: GroupDemand<'_>,
) -> Option<String> {
    let cluster = cx.cluster();
    let first = demand.members.first()?;
    let users = Users::of(shared, cluster, first);
    let mut by_claim: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in demand.members {
        users.claims(pod).for_each(|name| by_claim.entry(name).or_default().push(pod));
    }
    by_claim.into_iter().find_map(|(name, pods)| {
        let object = kinds::claim(cluster.objects(), &first.namespace, name)?;
        let claim = shared.devices.claims.get(object).ok()?;
        let consumers = users.consumers(cluster, first, &claim, pods.len());
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
    shared: &Shared,
    cluster: ClusterView<'_>,
    state: &CycleState,
    pod: &Pod,
    claim: &ResourceClaim,
) -> bool {
    let is_planned =
        |group: &GroupCycleState| group.with(|it| it.get::<PlannedAsAWhole>().is_some());
    if !state.get::<GroupCycleState>().is_some_and(is_planned) {
        return false;
    }
    let consumers = Users::of(shared, cluster, pod).consumers(cluster, pod, claim, 1);
    consumers.len() >= MAX_CONSUMERS && !consumers.contains(&*pod.uid)
}

/// Which pods of a group use claims, each by itself.
struct Users<'a> {
    /// The group, if its claims are reserved for it instead of its pods.
    group: Option<&'a PodGroup>,
}

impl<'a> Users<'a> {
    fn of(shared: &Shared, cluster: ClusterView<'a>, member: &Pod) -> Self {
        let name = group::name_of(member, shared.settings.group_claims);
        let found = name.map(|name| cluster.pod_group_object(&member.namespace, name));
        Self { group: found.and_then(Result::ok) }
    }

    /// The names of the claims that a pod uses by itself, each once. Those that are generated for a pod are left out: it is their
    /// only user.
    fn claims<'p>(&self, pod: &'p Pod) -> impl Iterator<Item = &'p str> {
        let entries = pod.spec.resource_claims.iter();
        let own = entries.filter(|&entry| {
            !self.group.is_some_and(|group| group.resource_claims.contains(entry))
        });
        let names = own.filter_map(|entry| match claim_name(pod, entry) {
            Ok(Some((name, false))) => Some(name),
            _ => None,
        });
        names.collect::<BTreeSet<&str>>().into_iter()
    }

    /// The UIDs of those that use a claim, or are about to: those that it names, and members that have a node. The latter may be
    /// missing as long as there is room for so many more.
    fn consumers<'c>(
        &self,
        cluster: ClusterView<'c>,
        member: &Pod,
        claim: &'c ResourceClaim,
        n_more: usize,
    ) -> BTreeSet<&'c str> {
        let reserved = claim.status.reserved_for.iter().map(|consumer| &*consumer.uid);
        let mut consumers: BTreeSet<&str> = reserved.collect();
        let name = member.spec.pod_group.as_ref();
        let Some(group) = name.and_then(|name| cluster.pod_group(&member.namespace, name)) else {
            return consumers;
        };
        if consumers.len() + group.n_scheduled() + n_more <= MAX_CONSUMERS {
            return consumers;
        }
        let placed = group.members().filter(|(_, place)| *place != MemberPlace::Unscheduled);
        let users = placed.filter(|(pod, _)| self.claims(pod).any(|name| *name == *claim.name));
        consumers.extend(users.map(|(pod, _)| &*pod.uid));
        consumers
    }
}
