//! PostFilter and Unreserve: claims are given back (`docs/spec/plugins-dra.md` §7.4, §7.7).

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{ClusterView, Commands, ObjectWrite, PostFilterContext, Status};

use super::resolve::is_controlled_by;
use super::shared::PluginData;
use super::state::PodDevices;
use super::{group, in_flight, writes};

const DEALLOCATED: &str = "deallocation of ResourceClaim completed";
const DELETED: &str = "deletion of ResourceClaim completed";
const UNRESERVED: &str = "ResourceClaim unreserved for PodGroup";
const NOTHING: &str = "still not schedulable";

/// Takes the devices of a claim back that no node can use for the pod, so that the next attempt can give it others.
pub(super) fn deallocate(
    shared: &PluginData,
    devices: &PodDevices,
    pod: &Arc<Pod>,
    cx: &mut PostFilterContext<'_>,
) -> Status {
    let cluster = cx.cx.cluster();
    let (random, commands) = (cx.random, &mut *cx.commands);
    let unavailable: Vec<usize> = devices.found().unavailable.iter().copied().collect();
    let stale = devices.claims.iter().find(|claim| claim.is_special && !claim.is_in_memory());
    for at in shuffled(unavailable, random) {
        let Some(claim) = devices.claims.get(at) else { continue };
        if claim.is_special {
            if claim.is_in_memory() {
                continue;
            }
            break;
        }
        // What another member of the group is about to get is not written yet.
        if !claim.is_allocated() {
            continue;
        }
        let is_ours_alone = match &claim.claim.status.reserved_for[..] {
            [] => true,
            [consumer] => *consumer.uid == *pod.uid,
            _ => false,
        };
        if is_ours_alone {
            let object = writes::deallocated(&claim.object);
            commands.write_object(pod, ObjectWrite::ReplaceStatus(Arc::new(object)));
            return Status::unschedulable(DEALLOCATED);
        }
    }
    if let Some(stale) = stale {
        commands.write_object(pod, writes::delete_special(&stale.object));
        return Status::unschedulable(DELETED);
    }
    let given_back = match &devices.group {
        Some(group) => unreserve_group(shared, pod, group, cluster),
        None => Ok(None),
    };
    match given_back {
        Ok(Some(write)) => {
            commands.write_object(pod, write);
            Status::unresolvable(UNRESERVED)
        }
        Ok(None) => Status::unschedulable(NOTHING),
        Err(why) => Status::error(why),
    }
}

/// The write that takes a claim's reservation from the pod's group, if no pod of the group has a node. It is the first of the group's
/// claims that is reserved, used by this pod or not. The next attempt can give the claim other devices.
///
/// Parity: the reference goes on to the next claim when the request fails; here the answer is not waited for.
fn unreserve_group(
    shared: &PluginData,
    pod: &Pod,
    name: &str,
    cluster: ClusterView<'_>,
) -> Result<Option<ObjectWrite>, String> {
    let members = cluster.pod_group(&pod.namespace, name);
    if members.is_some_and(|members| members.n_scheduled() > 0) {
        return Ok(None);
    }
    let group = group::find(cluster, pod, name)?;
    for entry in &group.resource_claims {
        let Some((claim_name, is_generated)) = group::claim_name(group, entry)? else { continue };
        let (object, claim) = shared.claim(cluster.objects(), &group.namespace, claim_name)?;
        let is_ours = !is_generated || is_controlled_by(&claim, &group.uid);
        let consumers = &claim.status.reserved_for;
        let is_reserved = group::is_reserved_for(&claim, name)
            || consumers.iter().any(|consumer| *consumer.uid == *pod.uid);
        if is_ours && claim.status.allocation.is_some() && is_reserved {
            return Ok(Some(writes::unreserve_group(object, &claim.uid, &group.uid)));
        }
    }
    Ok(None)
}

/// Undoes what Reserve and PreBind did, as far as it went. A second time there is nothing left to undo.
pub(super) fn unreserve(devices: &mut PodDevices, pod: &Arc<Pod>, commands: &mut Commands) {
    if std::mem::replace(&mut devices.is_given_back, true) {
        return;
    }
    for claim in &mut devices.claims {
        if claim.reserved.take().is_some() {
            in_flight::remove(&claim.flight, false, commands);
        }
        if claim.is_special {
            if !claim.is_in_memory() {
                commands.write_object(pod, writes::delete_special(&claim.object));
            }
        } else if claim.is_allocated() && claim.is_reserved_for(&pod.uid) {
            commands
                .write_object(pod, writes::unreserve(&claim.object, &claim.claim.uid, &pod.uid));
        }
    }
    if std::mem::take(&mut devices.are_node_resources_written) {
        commands.write_object(pod, writes::node_resources(pod, &[]));
    }
}

/// All of `places` in an order that `random` decides.
fn shuffled(mut places: Vec<usize>, mut random: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let n = u64::try_from(places.len()).unwrap_or(u64::MAX);
        let at = random.checked_rem(n)?;
        random /= n;
        Some(places.swap_remove(usize::try_from(at).unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_is_possible() {
        let orders: std::collections::BTreeSet<Vec<usize>> =
            (0..64).map(|random| shuffled(vec![3, 5, 8], random).collect()).collect();
        assert_eq!(orders.len(), 6);
        assert_eq!(shuffled(vec![7], u64::MAX).collect::<Vec<_>>(), [7]);
        assert_eq!(shuffled(Vec::new(), 1).count(), 0);
    }
}
