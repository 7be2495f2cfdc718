//! Whether there are too few devices for members of a group that is planned as a whole: found out by counting, where a search would have to
//! try each number of members on each node.
//!
//! What counts are the claims that members have for themselves and that have no devices yet ([`members`](super::members)). A member takes
//! devices for them wherever it goes. That is the same throughout a group cycle, as long as it has no node; what is free is followed.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_devices::{
    AllocationError, Allocator, Classes, Extent, Lack, Needs, NodeRef, Shortfall, Sorts, Steps,
    Supply,
};
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::groups::GroupDemand;
use kube_scheduler_framework::{ClusterView, Context, NodeIdx};

use super::group::GroupClaims;
use super::members::{Uses, is_own};
use super::shared::PluginData;
use super::{decoded, kinds};

/// How many steps counting all nodes may take at a time. With more nodes than it was enough for, or once it took more than that in sum,
/// nothing is counted in the group cycle any more.
const MAX_STEPS: u64 = 1_000_000;

/// What looking at a pod, at one of its claims, and looking up what is known of a pod count as, in units of work.
const WORK_OF_POD: u64 = 20;
const WORK_OF_CLAIM: u64 = 10;
const WORK_OF_LOOKUP: u64 = 20;

/// Why there are too few devices for as many members as are needed, if counting tells.
pub(super) fn rules_out(
    shared: &PluginData,
    cx: &Context<'_>,
    demand: GroupDemand<'_>,
) -> Option<String> {
    if demand.members.iter().all(|pod| pod.spec.resource_claims.is_empty()) {
        return None;
    }
    let kept = demand.shared.with(|it| it.get_mut::<GroupCount>().map(std::mem::take));
    let mut counted = kept.unwrap_or_default();
    let found = counted.rules_out(shared, cx, demand);
    demand.shared.with(|it| it.insert(counted));
    found.map(|shortfall| text_of(&shortfall, demand.needed))
}

fn text_of(shortfall: &Shortfall, n_pods: usize) -> String {
    let classes = match &shortfall.classes[..] {
        [] => String::new(),
        [class] => format!(" of class {class}"),
        [class, ..] => format!(" of class {class} and others"),
    };
    match shortfall.lack {
        Lack::Devices { needed, free } => {
            format!("devices for requests{classes}: {needed} needed, {free} free")
        }
        Lack::Pods { fitting } => {
            format!("devices for requests{classes}: room for at most {fitting} of {n_pods} pods")
        }
    }
}

/// What was counted in a group cycle.
#[derive(Clone, Default)]
struct GroupCount {
    wanted: Option<Arc<MembersDemand>>,
    supply: Supply,
    /// The nodes that `supply` is about.
    nodes: Vec<NodeIdx>,
    /// A number of nodes that was too great.
    too_many: Option<usize>,
    /// How many steps it took to count all nodes, each time that this was necessary.
    n_steps: u64,
}

/// What the members of a group take in any case.
#[derive(Default)]
struct MembersDemand {
    sorts: Sorts,
    /// By UID.
    by_member: BTreeMap<Arc<str>, Needs>,
    classes: Classes,
}

impl GroupCount {
    fn rules_out(
        &mut self,
        shared: &PluginData,
        cx: &Context<'_>,
        demand: GroupDemand<'_>,
    ) -> Option<Shortfall> {
        let GroupDemand { members, needed, nodes, .. } = demand;
        let wanted = match &self.wanted {
            Some(known) => known.clone(),
            None => {
                let found = Arc::new(MembersDemand::of(shared, cx, demand));
                self.wanted = Some(found.clone());
                found
            }
        };
        cx.count_work((members.len() as u64).saturating_mul(WORK_OF_LOOKUP));
        let needs = members.iter().map(|pod| wanted.by_member.get(&*pod.uid));
        let needs: Vec<&Needs> = needs.collect::<Option<_>>()?;
        let n_without = needs.iter().filter(|needs| needs.is_empty()).count();
        let are_too_many = self.too_many.is_some_and(|n| nodes.len() >= n);
        if n_without >= needed || are_too_many || self.n_steps > MAX_STEPS {
            return None;
        }
        if self.nodes[..] != *nodes {
            self.supply = Supply::default();
            self.nodes = nodes.to_vec();
        }
        let cluster = cx.cluster();
        let (devices, classes) = (&shared.devices, wanted.classes.clone());
        let state = devices.state(cluster.objects());
        let allocator = Allocator::with_state(state, classes, devices.selectors.clone());
        let limit = MAX_STEPS.min(cx.work_left());
        let steps = Steps::new(limit);
        let (sorts, n_nodes) = (&wanted.sorts, nodes.len());
        let node = |number: usize| node_at(cluster, nodes, number);
        let counted = self.supply.count(&allocator, sorts, n_nodes, &node, &steps);
        if !matches!(counted, Ok(Extent::Changed)) {
            self.n_steps = self.n_steps.saturating_add(limit - steps.left());
        }
        let found =
            counted.and_then(|_| self.supply.shortfall(sorts, (&needs[..], needed), &steps));
        cx.count_work(limit - steps.left());
        if matches!(found, Err(AllocationError::TooManySteps)) && limit == MAX_STEPS {
            self.too_many = Some(n_nodes);
        }
        // What is wrong with the objects is for Filter to say.
        found.ok().flatten()
    }
}

fn node_at<'a>(cluster: ClusterView<'a>, nodes: &[NodeIdx], number: usize) -> Option<NodeRef<'a>> {
    let node = cluster.node(*nodes.get(number)?)?;
    Some(NodeRef { name: node.name(), labels: node.labels() })
}

impl MembersDemand {
    /// What all members of the group take. Of some nothing is known if there is too little work left.
    fn of(shared: &PluginData, cx: &Context<'_>, demand: GroupDemand<'_>) -> Self {
        let uses = Uses::of(cx, demand.all, demand.shared);
        let mut wanted = Self::default();
        for pod in demand.all {
            if cx.work_left() == 0 {
                break;
            }
            let n_before = wanted.sorts.n_compared();
            let needs = wanted.needs_of(shared, cx.cluster(), pod, &uses);
            let n_claims = pod.spec.resource_claims.len() as u64;
            let n_compared = wanted.sorts.n_compared().saturating_sub(n_before);
            let work = n_claims.saturating_mul(WORK_OF_CLAIM).saturating_add(n_compared);
            cx.count_work(work.saturating_add(WORK_OF_POD));
            wanted.by_member.insert(pod.uid.clone(), needs);
        }
        let objects = cx.cluster().objects();
        for name in wanted.sorts.classes() {
            // Without its class a request is served nowhere, and the count ends with an error.
            if let Some(object) = kinds::class(objects, name)
                && let Ok(class) = decoded::class(object)
            {
                wanted.classes.insert(name.clone(), class);
            }
        }
        wanted
    }

    fn needs_of(
        &mut self,
        shared: &PluginData,
        cluster: ClusterView<'_>,
        pod: &Pod,
        uses: &Uses,
    ) -> Needs {
        if pod.spec.resource_claims.is_empty() {
            return Needs::default();
        }
        let objects = cluster.objects();
        // A pod whose claims cannot be read goes nowhere, and takes nothing.
        let Ok(resolved) = shared.claims_of(objects, pod) else { return Needs::default() };
        let of_group = GroupClaims::of(shared, cluster, pod);
        let Ok(of_group) = of_group else { return Needs::default() };
        let own = resolved.iter().filter(|it| is_own(objects, it, of_group.as_ref(), uses));
        self.sorts.needs_of(own.map(|it| &*it.claim))
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_framework::api::Object;
    use kube_scheduler_framework::groups::GroupCycleState;
    use kube_scheduler_framework::testing::{Fixture, fixture};
    use kube_scheduler_framework::{Handle, Plugin, PluginArgs};
    use serde_json::{Value, json};

    use super::*;

    fn put(world: &mut Fixture, kind: &str, name: &str, rest: &Value) {
        let namespace = if kind == kinds::CLAIM { "default" } else { "" };
        let mut json = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": kind,
            "metadata": {"namespace": namespace, "name": name, "uid": name},
        });
        let rest = rest.as_object().unwrap().clone();
        json.as_object_mut().unwrap().extend(rest);
        world.cluster_mut().upsert_object(Arc::new(Object::from_value(json).unwrap()));
    }

    /// Two nodes with two devices each, and five claims for one device, `c0` to `c4`.
    fn world() -> Fixture {
        let mut world = fixture("node n0; node n1");
        put(&mut world, kinds::CLASS, "gpu", &json!({"spec": {}}));
        for node in ["n0", "n1"] {
            let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
            let devices = json!([{"name": "d0"}, {"name": "d1"}]);
            let spec = json!({"driver": "d", "nodeName": node, "pool": pool, "devices": devices});
            put(&mut world, kinds::SLICE, node, &json!({"spec": spec}));
        }
        for at in 0..5 {
            put(&mut world, kinds::CLAIM, &format!("c{at}"), &claim(json!({})));
        }
        world
    }

    /// A claim for one device.
    fn claim(status: Value) -> Value {
        let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
        let requests = json!([{"name": "r", "exactly": exactly}]);
        json!({"spec": {"devices": {"requests": requests}}, "status": status})
    }

    fn allocated(pool: &str, device: &str) -> Value {
        let result = json!({"request": "r", "driver": "d", "pool": pool, "device": device});
        json!({"allocation": {"devices": {"results": [result]}}})
    }

    /// Pods that use these claims; an empty name stands for none.
    fn members(claims: &[&str]) -> Vec<Arc<Pod>> {
        let all = claims.iter().enumerate().map(|(at, claim)| {
            let entries = match *claim {
                "" => json!([]),
                claim => json!([{"name": "own", "resourceClaimName": claim}]),
            };
            let name = format!("m{at}");
            let pod = json!({
                "metadata": {"namespace": "default", "name": name, "uid": name},
                "spec": {"resourceClaims": entries},
            });
            Arc::new(Pod::from_value(&pod).unwrap())
        });
        all.collect()
    }

    struct Gang {
        plugin: Arc<dyn Plugin>,
        members: Vec<Arc<Pod>>,
        shared: GroupCycleState,
    }

    impl Gang {
        fn new(claims: &[&str]) -> Self {
            let plugin = super::super::new(&PluginArgs::Null, &Handle::default()).unwrap();
            Self { plugin, members: members(claims), shared: GroupCycleState::default() }
        }

        fn answer(&self, world: &Fixture, needed: usize) -> Option<String> {
            let cx = world.cx();
            let nodes = cx.cluster().order().to_vec();
            let (members, nodes) = (&self.members[..], &nodes[..]);
            let demand = GroupDemand { members, needed, nodes, all: members, shared: &self.shared };
            self.plugin.as_placement_bound().unwrap().rules_out(&cx, demand)
        }
    }

    fn short(needed: u64, free: u64) -> Option<String> {
        Some(format!("devices for requests of class gpu: {needed} needed, {free} free"))
    }

    #[test]
    fn members_take_a_device_each_and_those_without_claims_take_none() {
        let world = world();
        let gang = Gang::new(&["c0", "c1", "c2", "c3", "c4", ""]);
        assert_eq!(gang.answer(&world, 6), short(5, 4));
        assert_eq!(gang.answer(&world, 5), None, "one may stay out");
        assert_eq!(Gang::new(&["c0", "c1", "c2", "c3", ""]).answer(&world, 5), None);
    }

    #[test]
    fn nothing_is_said_of_claims_where_there_are_too_few_members() {
        assert_eq!(Gang::new(&["c0", "c1"]).answer(&world(), 3), None);
    }

    #[test]
    fn what_others_take_is_followed() {
        let mut world = world();
        let gang = Gang::new(&["c0", "c1", "c2", "c3"]);
        assert_eq!(gang.answer(&world, 4), None);
        put(&mut world, kinds::CLAIM, "other", &claim(allocated("n1", "d0")));
        assert_eq!(gang.answer(&world, 4), short(4, 3));
        assert_eq!(gang.answer(&world, 3), None);
        put(&mut world, kinds::CLAIM, "other", &claim(json!({})));
        assert_eq!(gang.answer(&world, 4), None);
    }

    /// How many steps it has taken to count all nodes, after the answer.
    fn n_steps(gang: &Gang, world: &Fixture) -> u64 {
        gang.answer(world, 2);
        gang.shared.with(|it| it.get::<GroupCount>().unwrap().n_steps)
    }

    #[test]
    fn nodes_are_counted_anew_until_that_has_cost_too_much() {
        let mut world = world();
        let gang = Gang::new(&["c0", "c1"]);
        let first = n_steps(&gang, &world);
        put(&mut world, kinds::CLAIM, "other", &claim(allocated("n1", "d0")));
        assert_eq!(n_steps(&gang, &world), first, "what a node has for itself is followed");
        let pool = json!({"name": "far", "generation": 1, "resourceSliceCount": 1});
        let spec =
            json!({"driver": "d", "allNodes": true, "pool": pool, "devices": [{"name": "d0"}]});
        put(&mut world, kinds::SLICE, "far", &json!({"spec": spec}));
        let second = n_steps(&gang, &world);
        assert!(second > first);
        put(&mut world, kinds::CLAIM, "another", &claim(allocated("far", "d0")));
        assert!(n_steps(&gang, &world) > second);
        let all = Gang::new(&["c0", "c1", "c2", "c3", "c4"]);
        assert_eq!(all.answer(&world, 5), short(5, 3));
        all.shared.with(|it| it.get_mut::<GroupCount>().unwrap().n_steps = MAX_STEPS + 1);
        assert_eq!(all.answer(&world, 5), None);
    }

    #[test]
    fn claims_that_are_not_for_one_member_alone_do_not_count() {
        let all = ["c0", "c1", "c2", "c3", "c4"];
        let mut world = world();
        assert_eq!(Gang::new(&all).answer(&world, 5), short(5, 4));
        assert_eq!(Gang::new(&["c0", "c1", "c2", "c3", "c3"]).answer(&world, 5), None);
        assert_eq!(Gang::new(&["c0", "c1", "c2", "c3", "missing"]).answer(&world, 5), None);
        let user = json!({"resource": "pods", "name": "other", "uid": "other"});
        put(&mut world, kinds::CLAIM, "c4", &claim(json!({"reservedFor": [user]})));
        assert_eq!(Gang::new(&all).answer(&world, 5), None);
        // It has a device of a node that is gone.
        put(&mut world, kinds::CLAIM, "c4", &claim(allocated("n9", "d0")));
        assert_eq!(Gang::new(&all).answer(&world, 5), None);
    }
}
