//! How far each request of a pod may grow.

use super::data::LargestRequest;
use super::filling::Filling;
use crate::amounts::{free, overhead_of, quantity, requested, with_request, written_overhead};

/// For each resource: the largest request with which the pod fits on some node, all others as they are. Empty if it does not fit
/// as it is.
pub(super) fn requests(filling: &mut Filling<'_>) -> Vec<LargestRequest> {
    let pod = filling.next_pod();
    let Some(found) = filling.explain(pod.clone()) else { return Vec::new() };
    let feasible = found.nodes.iter().filter(|node| node.status.is_success());
    let feasible: Vec<_> = feasible.map(|node| node.name.clone()).collect();
    if feasible.is_empty() {
        return Vec::new();
    }
    let mut largest = Vec::new();
    for (resource, from) in requested(&pod) {
        // The search takes dozens of trials for each resource, so check for an interrupt between resources.
        if filling.is_interrupted() {
            break;
        }
        let cluster = filling.engine().cluster();
        let nodes = feasible.iter().filter_map(|name| cluster.node_idx(name));
        // Where it fits with more, it fits as it is.
        let Some(most) = nodes.map(|idx| free(cluster, &resource, idx)).max() else { continue };
        let most = most.max(from);
        if most == 0 {
            continue;
        }
        let mut fits = |amount| fits(filling, &resource, amount);
        let limit = if most < i64::MAX && fits(most + 1).is_some() {
            // Nothing counts this resource.
            None
        } else {
            Some(boundary(from, most, |amount| fits(amount).is_some()))
        };
        let node = limit.and_then(&mut fits);
        if filling.is_interrupted() {
            // What did not fit was not tried.
            break;
        }
        let overhead = overhead_of(&pod, &resource);
        let of_containers = |total: i64| quantity(&resource, total.saturating_sub(overhead));
        largest.push(LargestRequest {
            requested: of_containers(from),
            largest: limit.map(of_containers),
            overhead: written_overhead(&resource, overhead),
            node,
            resource: resource.to_string(),
        });
    }
    largest
}

/// The node that the next pod would go to with this request.
fn fits(filling: &mut Filling<'_>, resource: &str, amount: i64) -> Option<String> {
    if filling.is_interrupted() {
        return None;
    }
    let pod = with_request(&filling.next_pod(), resource, amount);
    Some(filling.explain(pod)?.chosen?.to_string())
}

/// The largest amount for which `holds` is true, by bisection. It must be true for `from`.
fn boundary(from: i64, most: i64, mut holds: impl FnMut(i64) -> bool) -> i64 {
    if most == from || holds(most) {
        return most;
    }
    let (mut yes, mut no) = (from, most);
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if holds(middle) { yes = middle } else { no = middle }
    }
    yes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boundary_is_found_wherever_it_is() {
        for limit in [0, 1, 5, 999, 1_000] {
            let mut n_tried = 0;
            let found = boundary(0, 1_000, |amount| {
                n_tried += 1;
                amount <= limit
            });
            assert_eq!(found, limit);
            assert!(n_tried <= 11, "{n_tried}");
        }
        assert_eq!(boundary(3, 3, |_| false), 3, "it holds already");
    }
}
