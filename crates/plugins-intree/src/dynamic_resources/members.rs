//! Which members of a group that is planned as a whole are alike, their claims included.
//!
//! A claim that a member has for itself is like those of others that ask for the same, as long as nothing has become of it. One that
//! several members use, or that has devices already, is only ever itself: members that use it can be alike, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::groups::{GroupCycleState, PlannedMember};
use kube_scheduler_framework::{Context, ObjectStore, SignatureWriter};

use super::answers::are_large;
use super::group::GroupClaims;
use super::in_flight;
use super::resolve::{ResolvedClaim, claim_name, is_controlled_by};
use super::shared::PluginData;
use crate::signature::write;

/// What looking at a pod, at one of its claims, and at some bytes of what that asks for count as, in units of work.
const WORK_OF_POD: u64 = 20;
const WORK_OF_CLAIM: u64 = 5;
const BYTES_OF_A_UNIT: usize = 4;

/// Writes what members that are alike have in common. False for a member that may be like no other.
pub(super) fn sign(
    shared: &PluginData,
    cx: &Context<'_>,
    member: PlannedMember<'_>,
    signature: &mut SignatureWriter,
) -> bool {
    let pod: &Pod = member.pod;
    let n_entries = pod.spec.resource_claims.len() as u64;
    cx.count_work(n_entries.saturating_mul(WORK_OF_CLAIM).saturating_add(WORK_OF_POD));
    let cluster = cx.cluster();
    let objects = cluster.objects();
    // What devices take of their node is written down with the names of claims. An earlier attempt may have made a claim for the pod's
    // extended resources.
    if shared.settings.node_resources
        || shared.may_need_special_claim(pod)
            && shared.devices.special_claim(objects, pod).is_some()
    {
        return false;
    }
    let Ok(resolved) = shared.claims_of(objects, pod) else { return false };
    if are_large(resolved.iter().map(|claim| &claim.object)) {
        return false;
    }
    let Ok(of_group) = GroupClaims::of(shared, cluster, pod) else {
        return false;
    };
    let uses = match resolved.is_empty() {
        true => Uses::default(),
        false => Uses::of(cx, member.members, member.shared),
    };
    signature.debug(&pod.spec.device_users);
    signature.len(pod.spec.resource_claims.len());
    signature.len(resolved.len());
    resolved.iter().all(|resolved| {
        let ResolvedClaim { object, claim, entry } = resolved;
        // The pod has given back something of it, which may not be seen yet.
        if objects.unanswered(object, &pod.uid).is_some() {
            return false;
        }
        let is_own = is_own(objects, resolved, of_group.as_ref(), &uses);
        write((entry, is_controlled_by(claim, &pod.uid), is_own), signature);
        if is_own {
            let spec = object.json["spec"].to_string();
            cx.count_work((spec.len() / BYTES_OF_A_UNIT) as u64);
            signature.text(&spec);
        } else {
            let mut users = claim.status.reserved_for.iter();
            let is_user = users.any(|user| user.uid == pod.uid);
            write((&claim.name, &claim.uid, is_user), signature);
        }
        true
    })
}

/// Whether one member alone uses a claim, by this entry, and nothing has become of it.
pub(super) fn is_own(
    objects: &ObjectStore,
    resolved: &ResolvedClaim,
    of_group: Option<&GroupClaims>,
    uses: &Uses,
) -> bool {
    let ResolvedClaim { claim, entry, .. } = resolved;
    let is_of_group =
        |entry: &str| of_group.is_some_and(|of_group| of_group.consumer(entry).is_some());
    claim.status.allocation.is_none()
        && claim.status.reserved_for.is_empty()
        && in_flight::get(objects, &claim.uid).is_none()
        && !entry.as_deref().is_some_and(is_of_group)
        && uses.0.get(&*claim.name) == Some(&1)
}

/// How often the members of a group name each claim.
#[derive(Clone, Default)]
pub(super) struct Uses(Arc<BTreeMap<Box<str>, usize>>);

impl Uses {
    /// Looked for once in a group cycle: `members` are all that are planned together.
    pub(super) fn of(cx: &Context<'_>, members: &[Arc<Pod>], shared: &GroupCycleState) -> Self {
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

#[cfg(test)]
mod tests {
    use kube_scheduler_framework::api::Object;
    use kube_scheduler_framework::testing::fixture;
    use kube_scheduler_framework::{Handle, PluginArgs};
    use serde_json::{Value, json};

    use super::*;

    /// What each member has in common with others, where these claims are there.
    fn signed(claims: &[Value], members: &[Arc<Pod>]) -> Vec<Option<Vec<u8>>> {
        let mut world = fixture("node n");
        for claim in claims {
            let object = Object::from_value(claim.clone()).unwrap();
            world.cluster_mut().upsert_object(Arc::new(object));
        }
        let plugin = super::super::new(&PluginArgs::Null, &Handle::default()).unwrap();
        let (sign, shared, cx) =
            (plugin.as_sign().unwrap(), GroupCycleState::default(), world.cx());
        let signature = |pod: &Arc<Pod>| {
            let mut signature = SignatureWriter::new();
            let member = PlannedMember { pod, members, shared: &shared };
            let is_signed = sign.sign_member(&cx, member, &mut signature);
            is_signed.then(|| signature.into_bytes())
        };
        members.iter().map(signature).collect()
    }

    fn claim(name: &str) -> Value {
        let exactly = json!({"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1});
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"namespace": "default", "name": name, "uid": name},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        })
    }

    /// A pod with one entry for a claim.
    fn member(name: &str, entry: &str, claim: &str) -> Arc<Pod> {
        let pod = json!({
            "metadata": {"namespace": "default", "name": name, "uid": name},
            "spec": {"resourceClaims": [{"name": entry, "resourceClaimName": claim}]},
        });
        Arc::new(Pod::from_value(&pod).unwrap())
    }

    /// Whether two members with a claim each are alike if that of one is changed.
    fn are_alike(change: fn(&mut Value)) -> bool {
        let members = [member("m0", "own", "c0"), member("m1", "own", "c1")];
        let mut other = claim("c1");
        change(&mut other);
        let found = signed(&[claim("c0"), other], &members);
        assert!(found[0].is_some());
        found[0] == found[1]
    }

    #[test]
    fn claims_that_ask_for_the_same_are_alike_until_something_becomes_of_one() {
        assert!(are_alike(|_| {}));
        assert!(are_alike(|claim| claim["metadata"]["labels"] = json!({"a": "b"})));
        let changes: [fn(&mut Value); 5] = [
            |claim| claim["spec"]["devices"]["requests"][0]["exactly"]["count"] = json!(2),
            |claim| claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            |claim| {
                let user = json!({"resource": "pods", "name": "other", "uid": "other"});
                claim["status"] = json!({"reservedFor": [user]});
            },
            |claim| claim["status"] = json!({"allocation": {"devices": {"results": []}}}),
            |claim| {
                let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "m1", "uid": "m1", "controller": true});
                claim["metadata"]["ownerReferences"] = json!([owner]);
            },
        ];
        for (at, change) in changes.into_iter().enumerate() {
            assert!(!are_alike(change), "{at}");
        }
    }

    #[test]
    fn a_claim_of_several_members_is_only_ever_itself() {
        let claims = ["c0", "c1", "c2"].map(claim);
        let of_two = [
            member("m0", "own", "c0"),
            member("m1", "own", "c1"),
            member("m2", "own", "c1"),
            member("m3", "own", "c2"),
            member("m4", "other", "c2"),
        ];
        let found = signed(&claims, &of_two);
        assert!(found.iter().all(Option::is_some));
        assert_eq!(found[1], found[2]);
        for (one, other) in [(0, 1), (0, 3), (1, 3), (3, 4)] {
            assert_ne!(found[one], found[other], "{one} and {other}");
        }
    }
}
