//! Rules out by counting that a number of pods of a group fit on some nodes. What the smallest of the pods request in sum is
//! compared with what is free in sum, and the number of pods with the number of the smallest pods that each node has room for.
//!
//! Invariant: what is ruled out here does not fit in any order of pods, as [`Demand`] is checked pod by pod. What a pod asks
//! for is the less of what it is checked for and what it takes once it is placed.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_framework::Context;
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::groups::{GroupDemand, PlacementBound};

use super::demand::{Demand, IgnoredResources};
use super::fit::Fit;
use super::resource::{COMPUTE, Resource};

/// What the pods ask for of each kind, scalar resources by name and only of those that ask for them. One pass over what each
/// pod asks for.
fn amounts_by_kind(
    members: &[Arc<Pod>],
    ignored: &IgnoredResources,
) -> impl Iterator<Item = (Resource, Vec<i64>)> + use<> {
    let mut compute = COMPUTE.clone().map(|resource| (resource, Vec::new()));
    let mut scalars: BTreeMap<Arc<str>, Vec<i64>> = BTreeMap::new();
    for pod in members {
        let (demand, taken) = (Demand::of(pod, ignored), &pod.requests.accounted);
        for ((resource, amounts), checked) in compute.iter_mut().zip(demand.compute) {
            amounts.push(checked.min(resource.of(taken)).max(0));
        }
        for scalar in demand.scalars {
            let amount = scalar.amount.min(taken.scalar(&scalar.name).unwrap_or(0)).max(0);
            scalars.entry(scalar.name).or_default().push(amount);
        }
    }
    let scalars = scalars.into_iter().map(|(name, amounts)| (Resource::Scalar(name), amounts));
    compute.into_iter().chain(scalars)
}

impl PlacementBound for Fit {
    fn rules_out(&self, cx: &Context<'_>, demand: GroupDemand<'_>) -> Option<String> {
        let GroupDemand { members, needed, nodes, .. } = demand;
        if needed == 0 || needed > members.len() {
            return None;
        }
        let amounts = amounts_by_kind(members, &self.args.ignored);
        let (cluster, counter) = (cx.cluster(), cx.cluster().pod_count());
        let mut room: Vec<i64> = nodes
            .iter()
            .map(|node| cluster.allowed_pods().get(*node).saturating_sub(counter.get(*node)).max(0))
            .collect();
        for (kind, mut amounts) in amounts {
            if matches!(&kind, Resource::Scalar(name) if self.is_served(cluster, name)) {
                continue;
            }
            // Pods that do not request the resource count with zero.
            amounts.sort_unstable();
            let n_without = members.len() - amounts.len();
            let wanted = amounts.iter().take(needed.saturating_sub(n_without));
            let wanted: i128 = wanted.map(|amount| i128::from(*amount)).sum();
            if wanted == 0 {
                continue;
            }
            let least = if n_without > 0 { 0 } else { amounts.first().copied().unwrap_or(0) };
            let mut all = 0_i128;
            for (node, room) in nodes.iter().zip(&mut room) {
                let free = kind.free(cluster, *node);
                all += i128::from(free);
                if least > 0 {
                    *room = (*room).min(free / least);
                }
            }
            if wanted > all {
                return Some(format!("{}: {wanted} needed, {all} free", kind.name()));
            }
        }
        let n_fitting = room.iter().fold(0_i64, |sum, room| sum.saturating_add(*room));
        let is_short = usize::try_from(n_fitting).is_ok_and(|n_fitting| n_fitting < needed);
        is_short.then(|| format!("room for at most {n_fitting} of {needed} pods"))
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_framework::api::Node;
    use kube_scheduler_framework::groups::GroupCycleState;
    use kube_scheduler_framework::testing::Fixture;
    use kube_scheduler_framework::{Handle, PluginArgs};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn cluster_of(nodes: &[(u64, u64)]) -> Fixture {
        nodes.iter().enumerate().fold(Fixture::new(), |fixture, (at, (cpu, pods))| {
            let allocatable =
                json!({"cpu": cpu.to_string(), "memory": "8Gi", "pods": pods.to_string()});
            let node = json!({"metadata": {"name": format!("n{at}")}, "status": {"allocatable": allocatable}});
            fixture.with_node(Node::from_value(&node).unwrap())
        })
    }

    fn members(cpus: &[u64]) -> Vec<Arc<Pod>> {
        let all = cpus.iter().enumerate().map(|(at, cpu)| {
            let requests = json!({"cpu": cpu.to_string()});
            let pod = json!({
                "metadata": {"namespace": "x", "name": format!("p{at}"), "uid": format!("p{at}")},
                "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
            });
            Arc::new(Pod::from_value(&pod).unwrap())
        });
        all.collect()
    }

    fn answer(nodes: &[(u64, u64)], cpus: &[u64], needed: usize) -> Option<String> {
        let fixture = cluster_of(nodes);
        let (cx, members) = (fixture.cx(), members(cpus));
        let nodes = cx.cluster().order().to_vec();
        let (all, shared) = (&members[..], &GroupCycleState::default());
        let demand = GroupDemand { members: &members, needed, nodes: &nodes, all, shared };
        let fit = crate::resources::fit::new(&PluginArgs::Null, &Handle::default()).unwrap();
        fit.as_placement_bound().unwrap().rules_out(&cx, demand)
    }

    #[test]
    fn sums_and_numbers_are_counted() {
        let text = |text: &str| Some(text.to_owned());
        let short = text("cpu (milli): 9000 needed, 8000 free");
        assert_eq!(answer(&[(4, 9), (4, 9)], &[3, 3, 3], 3), short);
        assert_eq!(answer(&[(4, 9), (4, 9)], &[3, 3, 2], 3), None, "counting does not tell");
        assert_eq!(answer(&[(4, 9), (5, 9)], &[3, 3, 3], 3), text("room for at most 2 of 3 pods"));
        assert_eq!(answer(&[(9, 1), (9, 1)], &[1, 1, 1], 3), text("room for at most 2 of 3 pods"));
        assert_eq!(answer(&[(4, 9)], &[9, 2, 2], 2), None, "the greatest may stay out");
    }

    /// Whether `needed` of the pods fit, whatever goes where.
    fn fits(free: &mut [(u64, u64)], cpus: &[u64], needed: usize) -> bool {
        let Some((first, others)) = cpus.split_first() else { return needed == 0 };
        for at in 0..free.len() {
            let (cpu, pods) = free[at];
            if *first <= cpu && pods > 0 {
                free[at] = (cpu - first, pods - 1);
                let found = needed > 0 && fits(free, others, needed - 1);
                free[at] = (cpu, pods);
                if found {
                    return true;
                }
            }
        }
        needed == 0 || fits(free, others, needed)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_fits_is_not_ruled_out(
            nodes in prop::collection::vec((0_u64..5, 0_u64..4), 1..4),
            cpus in prop::collection::vec(0_u64..4, 1..6),
            needed in 0_usize..6,
        ) {
            let ruled_out = answer(&nodes, &cpus, needed).is_some();
            prop_assert!(!ruled_out || !fits(&mut nodes.clone(), &cpus, needed));
        }
    }
}
