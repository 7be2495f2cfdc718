//! PostFilter and Unreserve: claims are given back (`docs/spec/plugins-dra.md` §7.4, §7.7).

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{Commands, ObjectWrite, Status};

use super::state::PodDevices;
use super::{in_flight, writes};

const DEALLOCATED: &str = "deallocation of ResourceClaim completed";
const DELETED: &str = "deletion of ResourceClaim completed";
const NOTHING: &str = "still not schedulable";

/// Takes the devices of a claim back that no node can use for the pod, so that the next attempt can give it others.
pub(super) fn deallocate(
    devices: &PodDevices,
    pod: &Arc<Pod>,
    random: u64,
    commands: &mut Commands,
) -> Status {
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
    Status::unschedulable(NOTHING)
}

/// Undoes what Reserve and PreBind did, as far as it went. A second time there is nothing left to undo.
pub(super) fn unreserve(devices: &mut PodDevices, pod: &Arc<Pod>, commands: &mut Commands) {
    for claim in std::mem::take(&mut devices.claims) {
        if claim.reserved.is_some() {
            in_flight::remove(&claim.flight, false, commands);
        }
        if claim.is_special {
            if !claim.is_in_memory() {
                commands.write_object(pod, writes::delete_special(&claim.object));
            }
        } else if claim.is_allocated() && claim.is_reserved_for(&pod.uid) {
            commands.write_object(pod, writes::unreserve(&claim.object, &claim.claim.uid, pod));
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
