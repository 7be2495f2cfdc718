//! GangScheduling: the pods of a gang wait for each other, before they are tried and before they are bound.
//!
//! Answers to `plugins/gangscheduling/gangscheduling.go` of the reference; behaviour in `docs/spec/podgroups.md` §7.1.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_framework::api::{Object, Pod, PodGroup};
use kube_scheduler_framework::groups::{MemberPlace, PlacedGroup, PodGroupError, PodGroupState};
use kube_scheduler_framework::topics::{Topics, topic};
use kube_scheduler_framework::{
    ActionType, ClusterView, Code, Commands, Context, CycleState, EnqueueExtensions, EventObject,
    EventRegistration, EventResource, Handle, Permit, PermitDecision, Plugin, PluginArgs,
    PluginError, PluginName, PreEnqueue, Status,
};

use super::text_of;

pub(crate) const NAME: &str = "GangScheduling";

const NO_QUORUM: &str = "waiting for minCount pods from a gang to appear in scheduling queue";
const NOT_SCHEDULED: &str = "waiting for minCount pods from a gang to be scheduled";
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

pub(crate) fn new(_: &PluginArgs, _: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    Ok(Arc::new(GangScheduling::of(NAME, None)))
}

pub(super) struct GangScheduling {
    name: PluginName,
    /// The API group whose gangs these are; `None` for that of PodGroups.
    api_group: Option<&'static str>,
}

impl GangScheduling {
    /// As the plugin of this name, or as part of it, for the gangs of another API group.
    pub(super) fn of(name: &str, api_group: Option<&'static str>) -> Self {
        Self { name: name.into(), api_group }
    }

    /// Whether a group is one of these; others are left to other plugins.
    pub(super) fn has(&self, group: &str) -> bool {
        PodGroup::foreign_parts(group).map(|(api_group, _)| api_group) == self.api_group
    }
}

/// Pods that come may complete a gang.
pub(super) fn member_added() -> EventRegistration {
    EventRegistration::on_pod(ActionType::ADD, |cx, pod, _, added| {
        added.is_some_and(|added| {
            added.namespace == pod.namespace
                && added.spec.pod_group == pod.spec.pod_group
                && completes_gang(cx.cluster(), added)
        })
    })
    .by_topic(own_group, |cx, _, added| {
        // Nobody waits for one that leaves its gang incomplete, so that taking in a gang is not quadratic in its size.
        let added = added.and_then(EventObject::as_pod);
        match added.filter(|added| completes_gang(cx.cluster(), added)) {
            Some(added) => own_group(added),
            None => Topics::Only(Vec::new()),
        }
    })
}

/// Whether the gang of a pod that has come has a quorum with it. As long as more members are missing, PreEnqueue would reject
/// every waiting member again, for each new one.
fn completes_gang(cluster: ClusterView<'_>, added: &Pod) -> bool {
    added.spec.pod_group.as_ref().is_some_and(|name| quorum(cluster, added, name).is_success())
}

/// A pod waits for its group and for what belongs to it.
fn own_group(pod: &Pod) -> Topics {
    let group = pod.spec.pod_group.as_ref();
    Topics::Only(group.map(|name| topic((&*pod.namespace, &**name))).into_iter().collect())
}

/// A group that comes, or that asks for something else, may let its pods be tried: its minimum may have been lowered.
pub(super) fn group_changed(resource: EventResource) -> EventRegistration {
    let actions = ActionType::ADD | ActionType::UPDATE;
    EventRegistration::on_object(resource, actions, |_, pod, before, added| {
        added.is_some_and(|added| {
            *added.kind == *PodGroup::KIND
                && added.namespace == pod.namespace
                && pod.spec.pod_group.as_ref() == Some(&added.name)
                && asks_anew(before, added)
        })
    })
    .by_topic(own_group, |_, old, new| {
        let [before, added] = [old, new]
            .map(|object| object.and_then(EventObject::as_object).map(|object| &**object));
        let anew = added.filter(|added| asks_anew(before, added));
        let topics = anew.map(|added| topic((&*added.namespace, &*added.name)));
        Topics::Only(topics.into_iter().collect())
    })
}

/// Whether a group asks for something else than before. A change of its status lets no pod fit, unless it is why the group could
/// not be read.
fn asks_anew(before: Option<&Object>, after: &Object) -> bool {
    before.is_none_or(|before| {
        before.json["spec"] != after.json["spec"] || PodGroup::from_object(before).is_err()
    })
}

/// Whether enough pods of the gang that a pod names are known for it to be tried.
fn quorum(cluster: ClusterView<'_>, pod: &Pod, name: &str) -> Status {
    let namespace = &pod.namespace;
    let (group, state) = match cluster.pod_group_with_pods(namespace, name) {
        Ok(found) => found,
        Err(PodGroupError::NotFound) => {
            return Status::unresolvable(format!(
                "waiting for pods's pod group \"{name}\" to appear in scheduling queue"
            ));
        }
        Err(PodGroupError::Unreadable(_)) => {
            return Status::error(format!("failed to get pod group {namespace}/{name}"));
        }
    };
    let Some(min_count) = group.min_count() else { return Status::SUCCESS };
    match known(state, namespace, name) {
        Ok(state) if is_fewer(state.n_known(), min_count) => Status::unresolvable(NO_QUORUM),
        Ok(_) => Status::SUCCESS,
        Err(status) => status,
    }
}

plugin!(GangScheduling, PreEnqueue, EnqueueExtensions, Permit);

/// The pods of a group that the scheduler knows, of which there are some.
fn known<'a>(
    state: Option<&'a PodGroupState>,
    namespace: &str,
    name: &str,
) -> Result<&'a PodGroupState, Status> {
    state.ok_or_else(|| {
        let text = format!("pod group state not found for pod group {namespace}/{name}");
        Status::error(text)
    })
}

fn is_fewer(n: usize, min_count: i32) -> bool {
    usize::try_from(min_count).is_ok_and(|min_count| n < min_count)
}

impl PreEnqueue for GangScheduling {
    fn pre_enqueue(&self, cx: &Context<'_>, pod: &Pod) -> Status {
        match &pod.spec.pod_group {
            Some(name) if self.has(name) => quorum(cx.cluster(), pod, name),
            _ => Status::SUCCESS,
        }
    }
}

impl Permit for GangScheduling {
    fn permit(
        &self,
        cx: &Context<'_>,
        _: &mut CycleState,
        pod: &Arc<Pod>,
        _: &str,
        commands: &mut Commands,
    ) -> PermitDecision {
        let Some(name) = pod.spec.pod_group.as_ref().filter(|name| self.has(name)) else {
            return PermitDecision::allow();
        };
        let namespace = &pod.namespace;
        let (group, state) = match cx.cluster().pod_group_with_pods(namespace, name) {
            Ok(found) => found,
            Err(error) => {
                let why = text_of(&error, name);
                let text = format!("failed to get podGroup {namespace}/{name}: {why}");
                return PermitDecision::deny(Status::error(text));
            }
        };
        let Some(min_count) = group.min_count() else { return PermitDecision::allow() };
        let state = match known(state, namespace, name) {
            Ok(state) => state,
            Err(status) => return PermitDecision::deny(status),
        };
        if is_fewer(state.n_scheduled(), min_count) {
            commands.activate_group_of(pod);
            let status = Status::new(Code::Wait, [NOT_SCHEDULED.into()]);
            return PermitDecision { status, timeout: TIMEOUT };
        }
        if cx.waiting().has_waiting_pods() {
            for (member, place) in state.members() {
                if place == MemberPlace::Assumed && cx.waiting().waiting_pod(&member.uid).is_some()
                {
                    commands.allow(&member.uid, &self.name);
                }
            }
        }
        PermitDecision::allow()
    }

    fn reads_cycle_state(&self, _: &Pod) -> bool {
        false
    }

    fn concerns_groups_alone(&self) -> bool {
        true
    }

    fn members_needed(&self, cx: &Context<'_>, group: PlacedGroup<'_>) -> Option<usize> {
        let PlacedGroup { namespace, name, .. } = group;
        if !self.has(name) {
            return Some(0);
        }
        let (object, state) = cx.cluster().pod_group_with_pods(namespace, name).ok()?;
        let Some(min_count) = object.min_count() else { return Some(0) };
        let min_count = usize::try_from(min_count).unwrap_or(0);
        Some(min_count.saturating_sub(state?.n_scheduled()))
    }
}

impl EnqueueExtensions for GangScheduling {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        vec![member_added(), group_changed(EventResource::PodGroup)]
    }
}
