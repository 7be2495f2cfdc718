//! Coscheduling: gangs as scheduler-plugins has them, by a label on pods and PodGroups of `scheduling.x-k8s.io`.
//!
//! Parity: not a plugin of kube-scheduler, and off unless a profile enables it. The gangs are decided about as those of
//! GangScheduling are, in one cycle; `docs/groups.md` says what that changes for those who come from scheduler-plugins.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_framework::api::{Object, Pod, PodGroup, Quantity};
use kube_scheduler_framework::groups::{GroupSource, MemberPlace, PlacedGroup};
use kube_scheduler_framework::{
    ActionType, ClusterEvent, ClusterView, Code, Commands, Context, CycleState, EnqueueExtensions,
    EventRegistration, EventResource, Handle, Permit, PermitDecision, Plugin, PluginArgs,
    PluginError, PreEnqueue, QueueSort, QueuedPodView, Status,
};
use serde_json::{Value, json};

use super::gang_scheduling::{GangScheduling, group_changed, member_added};
use crate::plugin_args::checked_args;
use crate::priority_sort::PrioritySort;
use crate::resources::resource::Resource;

pub(crate) const NAME: &str = "Coscheduling";

/// The API group of its PodGroups.
const GROUP: &str = "scheduling.x-k8s.io";
const RESOURCE: &str = "podgroups.v1alpha1.scheduling.x-k8s.io";
/// The label that names a pod's group.
const LABEL: &str = "scheduling.x-k8s.io/pod-group";
/// The most resources that are asked for in sum.
const MAX_RESOURCES: usize = 64;

/// The longest name of a resource: a prefix of 253 bytes, a slash, and 63 more.
const MAX_RESOURCE_NAME: usize = 317;
const NOT_FOUND: &str = "PodGroup not found";

pub(crate) fn new(args: &PluginArgs, _: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    let args = checked_args!(Coscheduling, args)?;
    let patience = args.permit_waiting_time_seconds.and_then(positive);
    Ok(Arc::new(Coscheduling {
        gangs: GangScheduling::of(NAME, Some(GROUP)),
        patience: patience.unwrap_or(Duration::from_secs(60)),
    }))
}

/// A length of time, if there is one.
fn positive(seconds: i64) -> Option<Duration> {
    u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

struct Coscheduling {
    gangs: GangScheduling,
    /// How long pods whose group says nothing wait on Permit.
    patience: Duration,
}

plugin!(Coscheduling, GroupSource, PreEnqueue, QueueSort, Permit, EnqueueExtensions);

impl GroupSource for Coscheduling {
    fn api_group(&self) -> &'static str {
        GROUP
    }

    fn kind(&self) -> &'static str {
        PodGroup::KIND
    }

    fn resource(&self) -> EventResource {
        EventResource::Custom(RESOURCE.into())
    }

    fn group_of<'p>(&self, pod: &'p Pod) -> Option<&'p str> {
        pod.labels.get(LABEL).filter(|name| !name.is_empty())
    }

    fn spec(&self, object: &Object) -> Value {
        // Nothing else: a tenant must not get the priority or the claims of PodGroups this way.
        let field = |name: &str| Value::from(&object.json["spec"][name]);
        let min_member = Some(field("minMember")).filter(|it| !it.is_null()).unwrap_or(json!(0));
        json!({
            "schedulingPolicy": {"gang": {"minCount": min_member}},
            "minResources": field("minResources"), "scheduleTimeoutSeconds": field("scheduleTimeoutSeconds"),
        })
    }
}

/// The group of a pod, if it is one of this plugin's.
fn group_of(pod: &Pod) -> Option<&Arc<str>> {
    let is_ours = |name: &&Arc<str>| PodGroup::foreign_parts(name).is_some_and(|it| it.0 == GROUP);
    pod.spec.pod_group.as_ref().filter(is_ours)
}

/// The PodGroup of this name, with what only this plugin reads.
fn object<'a>(cluster: ClusterView<'a>, namespace: &str, name: &str) -> Option<&'a Arc<Object>> {
    cluster.objects_of(PodGroup::GROUP).get(PodGroup::KIND, namespace, name)
}

impl PreEnqueue for Coscheduling {
    fn pre_enqueue(&self, cx: &Context<'_>, pod: &Pod) -> Status {
        self.gangs.pre_enqueue(cx, pod)
    }
}

impl QueueSort for Coscheduling {
    fn compare(&self, a: QueuedPodView<'_>, b: QueuedPodView<'_>) -> Ordering {
        PrioritySort.compare(a, b)
    }

    fn is_by_priority_then_age(&self) -> bool {
        true
    }
}

impl Permit for Coscheduling {
    fn permit(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
        commands: &mut Commands,
    ) -> PermitDecision {
        let Some(name) = group_of(pod) else { return PermitDecision::allow() };
        let Some(group) = object(cx.cluster(), &pod.namespace, name) else {
            return PermitDecision::deny(Status::unschedulable(NOT_FOUND));
        };
        if let Err(status) = check_least(cx.cluster(), pod, name, group) {
            return PermitDecision::deny(status);
        }
        let mut decision = self.gangs.permit(cx, state, pod, node, commands);
        if decision.status.code() == Code::Wait {
            let own = group.json["spec"]["scheduleTimeoutSeconds"].as_i64().and_then(positive);
            decision.timeout = own.unwrap_or(self.patience);
        }
        decision
    }

    fn reads_cycle_state(&self, _: &Pod) -> bool {
        false
    }

    fn concerns_groups_alone(&self) -> bool {
        true
    }

    fn members_needed(&self, cx: &Context<'_>, group: PlacedGroup<'_>) -> Option<usize> {
        if !self.gangs.has(group.name) {
            return Some(0);
        }
        let object = object(cx.cluster(), group.namespace, group.name)?;
        if n_least(object) > 0 { None } else { self.gangs.members_needed(cx, group) }
    }
}

impl EnqueueExtensions for Coscheduling {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        let changed = ActionType::ADD | ActionType::UPDATE;
        let room = [
            ClusterEvent::new(EventResource::Node, changed),
            ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE),
        ];
        let mut registrations = vec![member_added(), group_changed(self.resource())];
        registrations.extend(room.map(|event| {
            EventRegistration::with_hint(event, |cx, pod, _, _| {
                let found =
                    group_of(pod).and_then(|name| object(cx.cluster(), &pod.namespace, name));
                found.is_some_and(|group| n_least(group) > 0)
            })
        }));
        registrations
    }
}

/// For how many resources a group asks in sum.
fn n_least(group: &Object) -> usize {
    group.json["spec"]["minResources"].as_object().map_or(0, |least| least.iter().len())
}

/// Checks that the cluster has the `minResources` of a group, apart from what other pods have: what its own pods have counts.
///
/// The pods have been looked at one by one already. A group that asks for more than they do wants room for pods that come later.
fn check_least(
    cluster: ClusterView<'_>,
    pod: &Pod,
    name: &str,
    group: &Object,
) -> Result<(), Status> {
    let least = &group.json["spec"]["minResources"];
    let n_resources = n_least(group);
    let Some(least) = least.as_object().filter(|_| n_resources > 0) else { return Ok(()) };
    if n_resources > MAX_RESOURCES {
        let text =
            format!("pod group {name}: spec.minResources: must have at most {MAX_RESOURCES} items");
        return Err(Status::error(text));
    }
    if least.iter().any(|(resource, _)| resource.len() > MAX_RESOURCE_NAME) {
        let text = format!(
            "pod group {name}: spec.minResources: names must have at most {MAX_RESOURCE_NAME} bytes"
        );
        return Err(Status::error(text));
    }
    let state = cluster.pod_group(&pod.namespace, name);
    let mut gaps = Vec::new();
    for (resource, amount) in least.iter() {
        let amount = Quantity::from_json(&Value::from(amount)).map_err(|error| {
            Status::error(format!("pod group {name}: spec.minResources[{resource}]: {error}"))
        })?;
        // The reference puts the number of members in the place of this one, which are looked at one by one here.
        if resource == "pods" {
            continue;
        }
        let kind = Resource::named(resource);
        let needed = kind.amount(&amount);
        let free = cluster.live_nodes().iter().map(|node| kind.free(cluster, node));
        let members = state.into_iter().flat_map(|state| state.members());
        let placed = members.filter(|(_, place)| *place != MemberPlace::Unscheduled);
        let own = placed.map(|(member, _)| kind.of(&member.requests.accounted));
        // Every member asks: where there is enough, a part of the nodes is looked at.
        let mut amounts = free.chain(own);
        let mut has = 0_i64;
        while has < needed
            && let Some(amount) = amounts.next()
        {
            has = has.saturating_add(amount);
        }
        if has < needed {
            let unit = if kind == Resource::Cpu { "m" } else { "" };
            gaps.push(format!("{resource}: {}{unit}", needed.saturating_sub(has)));
        }
    }
    if gaps.is_empty() {
        return Ok(());
    }
    Err(Status::unschedulable(format!("resource gap: {}", gaps.join(", "))))
}

#[cfg(test)]
mod tests {
    use kube_scheduler_cache::ClusterState;
    use kube_scheduler_framework::api::{Node, Timestamp};
    use kube_scheduler_runtime::cluster_alone;

    use super::*;

    fn plugin(args: &PluginArgs) -> Arc<dyn Plugin> {
        new(args, &Handle::default()).unwrap()
    }

    /// The first of two pods of a group, which was given a node.
    fn cluster(spec: &Value) -> (ClusterState, Arc<Pod>) {
        let source = plugin(&Value::Null);
        let object = json!({
            "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
            "metadata": {"namespace": "x", "name": "train"}, "spec": spec,
        });
        let object = Object::from_value(object).unwrap();
        let spec = source.as_group_source().unwrap().spec(&object);
        let name = PodGroup::foreign_name(GROUP, "train");
        let mut group = object.with_json(json!({"spec": spec}));
        (group.group, group.kind) = (PodGroup::GROUP.into(), PodGroup::KIND.into());
        group.name = name.clone();
        let mut cluster = ClusterState::new();
        cluster.upsert_object(Arc::new(group));
        let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4"}}});
        cluster.add_node(Arc::new(Node::from_value(&node).unwrap()));
        let pod = json!({
            "metadata": {"namespace": "x", "name": "a", "uid": "a", "labels": {LABEL: "train"}},
            "spec": {"schedulingGroup": {"podGroupName": *name}},
        });
        let pod = Arc::new(Pod::from_value(&pod).unwrap());
        cluster.group_member_known(&pod);
        cluster.assume_pod(Arc::new(pod.with_node_name(&"n".into()))).unwrap();
        (cluster, pod)
    }

    fn decision(args: &PluginArgs, spec: &Value) -> PermitDecision {
        let (cluster, pod) = cluster(spec);
        let now = Timestamp::from_millis(0);
        let cx = cluster_alone(&cluster, now).unrecorded();
        let (mut state, mut commands) = (CycleState::new(), Commands::default());
        let plugin = plugin(args);
        plugin.as_permit().unwrap().permit(&cx, &mut state, &pod, "n", &mut commands)
    }

    #[test]
    fn a_pod_waits_as_long_as_its_group_says_or_the_arguments_do() {
        let seconds = |args: Value, spec: Value| {
            let decision = decision(&args, &spec);
            assert_eq!(decision.status.code(), Code::Wait);
            decision.timeout.as_secs()
        };
        let ten = json!({"permitWaitingTimeSeconds": 10});
        let own = json!({"minMember": 2, "scheduleTimeoutSeconds": 7});
        let other = json!({"minMember": 2, "scheduleTimeoutSeconds": 0});
        assert_eq!(seconds(ten.clone(), own), 7);
        assert_eq!(seconds(ten, other.clone()), 10);
        assert_eq!(seconds(json!({"permitWaitingTimeSeconds": 0}), other.clone()), 60);
        assert_eq!(seconds(Value::Null, other), 60);
    }

    #[test]
    fn a_pod_does_not_wait_once_there_are_enough() {
        let decision = |spec: Value| decision(&Value::Null, &spec).status;
        assert!(decision(json!({"minMember": 1})).is_success());
        assert!(decision(json!({})).is_success(), "no minimum");
        let least = decision(json!({"minMember": 1, "minResources": {"cpu": "5"}}));
        assert_eq!(least.message(), "resource gap: cpu: 1000m");
        assert!(decision(json!({"minMember": 1, "minResources": {"cpu": "4"}})).is_success());
        let nonsense = decision(json!({"minMember": 1, "minResources": {"cpu": "much"}}));
        assert_eq!(nonsense.code(), Code::Error);
        let named = |name: String| decision(json!({"minMember": 1, "minResources": {name: "0"}}));
        assert!(named("x".repeat(317)).is_success());
        let long = named("x".repeat(318));
        assert_eq!(long.code(), Code::Error);
        assert!(
            long.message().ends_with("names must have at most 317 bytes"),
            "{}",
            long.message()
        );
        let numbered = |n: usize| -> Value {
            (0..n).map(|at| (format!("example.com/{at}"), json!("0"))).collect()
        };
        let asks = |n| decision(json!({"minMember": 1, "minResources": numbered(n)}));
        assert!(asks(64).is_success());
        assert!(asks(65).message().ends_with("must have at most 64 items"));
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let made = new(&json!({"permitWaitingTimeSeconds": -1}), &Handle::default());
        let error = made.unwrap_err().to_string();
        assert!(error.contains("permitWaitingTimeSeconds: Invalid value: -1"), "{error}");
    }
}
