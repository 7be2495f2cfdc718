//! Which members of a group that is planned as a whole are alike, their claims included.
//!
//! A claim that a member has for itself is like those of others that ask for the same, as long as nothing has become of it. One that
//! several members use, or that has devices already, is only ever itself: members that use it can be alike, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_devices::api::ResourceClaim;
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::groups::PlannedMember;
use kube_scheduler_framework::{Context, ObjectStore, SignatureWriter};

use super::answers::are_large;
use super::group::{self, GroupClaims};
use super::resolve::{Resolved, claim_name, is_owned_by};
use super::shared::Shared;
use super::{extended, in_flight};

/// What looking at a pod, at one of its claims, and at some bytes of what that asks for count as, in units of work.
const WORK_OF_POD: u64 = 20;
const WORK_OF_CLAIM: u64 = 5;
const BYTES_OF_A_UNIT: usize = 4;

/// Writes what members that are alike have in common. False for a member that may be like no other.
pub(super) fn sign(
    shared: &Shared,
    cx: &Context<'_>,
    member: PlannedMember<'_>,
    signature: &mut SignatureWriter,
) -> bool {
    let pod: &Pod = member.pod;
    let n_entries = pod.spec.resource_claims.len() as u64;
    cx.count_work(n_entries.saturating_mul(WORK_OF_CLAIM).saturating_add(WORK_OF_POD));
    let cluster = cx.cluster();
    let objects = cluster.objects();
    // What devices take of their node is written down with the names of claims.
    if shared.settings.node_resources || has_special_claim(shared, objects, pod) {
        return false;
    }
    let Ok(resolved) = shared.claims_of(objects, pod) else { return false };
    if are_large(resolved.iter().map(|claim| &claim.object)) {
        return false;
    }
    let group = group::name_of(pod, shared.settings.group_claims);
    let Ok(of_group) = group.map(|name| GroupClaims::of(cluster, pod, name)).transpose() else {
        return false;
    };
    let uses = if resolved.is_empty() { Uses::default() } else { Uses::of(cx, member) };
    signature.debug(&pod.spec.device_users);
    signature.len(pod.spec.resource_claims.len());
    signature.len(resolved.len());
    let mut claims = Claims { cx, objects, pod, of_group: of_group.as_ref(), uses, signature };
    resolved.iter().all(|claim| claims.write(claim))
}

/// Whether an earlier attempt has made a claim for the pod's extended resources.
fn has_special_claim(shared: &Shared, objects: &ObjectStore, pod: &Pod) -> bool {
    shared.settings.serves_extended
        && extended::may_need_claim(pod)
        && shared.devices.special_claim(objects, pod).is_some()
}

/// The claims of one member, as they are written.
struct Claims<'a> {
    cx: &'a Context<'a>,
    objects: &'a ObjectStore,
    pod: &'a Pod,
    of_group: Option<&'a GroupClaims>,
    uses: Uses,
    signature: &'a mut SignatureWriter,
}

impl Claims<'_> {
    fn write(&mut self, resolved: &Resolved) -> bool {
        let Resolved { object, claim, entry } = resolved;
        // The pod has given back something of it, which may not be seen yet.
        if self.objects.unanswered(object, &self.pod.uid).is_some() {
            return false;
        }
        let is_own = self.is_own(claim, entry.as_deref());
        let signature = &mut *self.signature;
        signature.text(entry.as_deref().unwrap_or_default());
        signature.present(is_owned_by(claim, self.pod));
        signature.present(is_own);
        if is_own {
            let spec = object.json["spec"].to_string();
            self.cx.count_work((spec.len() / BYTES_OF_A_UNIT) as u64);
            signature.text(&spec);
        } else {
            let mut users = claim.status.reserved_for.iter();
            signature.text(&claim.name);
            signature.text(&claim.uid);
            signature.present(users.any(|user| user.uid == self.pod.uid));
        }
        true
    }

    /// Whether the pod is the only member that uses the claim, and nothing has become of it.
    fn is_own(&self, claim: &ResourceClaim, entry: Option<&str>) -> bool {
        let is_of_group =
            |entry: &str| self.of_group.is_some_and(|of_group| of_group.consumer(entry).is_some());
        claim.status.allocation.is_none()
            && claim.status.reserved_for.is_empty()
            && in_flight::get(self.objects, &claim.uid).is_none()
            && !entry.is_some_and(is_of_group)
            && self.uses.0.get(&*claim.name) == Some(&1)
    }
}

/// How often the members of a group name each claim.
#[derive(Clone, Default)]
struct Uses(Arc<BTreeMap<Box<str>, usize>>);

impl Uses {
    /// Looked for once in a group cycle.
    fn of(cx: &Context<'_>, member: PlannedMember<'_>) -> Self {
        let PlannedMember { members, shared, .. } = member;
        if let Some(known) = shared.with(|it| it.get::<Self>().cloned()) {
            return known;
        }
        let mut uses: BTreeMap<Box<str>, usize> = BTreeMap::new();
        let mut n_entries = 0;
        for pod in members {
            n_entries += pod.spec.resource_claims.len();
            for entry in pod.spec.resource_claims.iter() {
                if let Ok(Some((name, _))) = claim_name(pod, entry) {
                    *uses.entry(name.into()).or_default() += 1;
                }
            }
        }
        cx.count_work((n_entries as u64).saturating_mul(WORK_OF_CLAIM));
        let uses = Self(Arc::new(uses));
        shared.with(|it| it.insert(uses.clone()));
        uses
    }
}
