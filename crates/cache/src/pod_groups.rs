//! Each pod group: what its object says, read once for each revision, and its pods: which are known, and which of them have a
//! node.
//!
//! Behaviour: `docs/spec/podgroups.md` §2.
//!
//! Invariants: a group is here if it has an object or members; what is read is what the object store has; the numbers are those
//! of the members. They do not follow hypothetical changes: a hypothetical cluster may take pods off their nodes, and their
//! groups still count them as placed.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

use hashbrown::Equivalent;
use kube_scheduler_api_types::{DecodeError, Object, Pod, PodGroup};

use crate::fork::CowMap;
use crate::state::ClusterState;

/// How far a member is on its way to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberPlace {
    /// It has no node.
    Unscheduled,
    /// A node was chosen for it, and the API server does not know yet.
    Assumed,
    /// The API server has reported it with its node.
    Assigned,
}

#[derive(Clone, Debug)]
struct Member {
    pod: Arc<Pod>,
    place: MemberPlace,
}

/// The pods of one group that the scheduler knows.
#[derive(Clone, Debug, Default)]
pub struct PodGroupState {
    members: BTreeMap<Arc<str>, Member>,
    n_assumed: usize,
    n_assigned: usize,
}

impl PodGroupState {
    /// How many pods of the group are known.
    pub fn n_known(&self) -> usize {
        self.members.len()
    }

    /// How many members have no node.
    pub fn n_unscheduled(&self) -> usize {
        self.members.len() - self.n_scheduled()
    }

    /// How many members are assumed on a node, which the API server has not confirmed.
    pub const fn n_assumed(&self) -> usize {
        self.n_assumed
    }

    /// How many members the API server has reported with a node.
    pub const fn n_assigned(&self) -> usize {
        self.n_assigned
    }

    /// How many have a node or are assumed on one.
    pub const fn n_scheduled(&self) -> usize {
        self.n_assumed + self.n_assigned
    }

    /// The members as the API server last reported them, by UID, and how far each is.
    pub fn members(&self) -> impl Iterator<Item = (&Arc<Pod>, MemberPlace)> {
        self.members.values().map(|member| (&member.pod, member.place))
    }

    /// The members without a node, by UID.
    pub fn unscheduled(&self) -> impl Iterator<Item = &Arc<Pod>> {
        let members = self.members();
        members.filter(|(_, place)| *place == MemberPlace::Unscheduled).map(|(pod, _)| pod)
    }

    fn count(&mut self, place: MemberPlace) -> Option<&mut usize> {
        match place {
            MemberPlace::Unscheduled => None,
            MemberPlace::Assumed => Some(&mut self.n_assumed),
            MemberPlace::Assigned => Some(&mut self.n_assigned),
        }
    }

    fn put(&mut self, pod: Arc<Pod>, place: MemberPlace) {
        self.take(&pod.uid);
        if let Some(n) = self.count(place) {
            *n += 1;
        }
        self.members.insert(pod.uid.clone(), Member { pod, place });
    }

    fn take(&mut self, uid: &str) {
        let Some(member) = self.members.remove(uid) else { return };
        if let Some(n) = self.count(member.place) {
            *n -= 1;
        }
    }
}

/// Why a pod group cannot be gone by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodGroupError {
    /// There is no PodGroup of this name.
    NotFound,
    /// The PodGroup cannot be decoded.
    Unreadable(DecodeError),
}

/// What is known of one group.
#[derive(Clone, Debug, Default)]
struct KnownGroup {
    object: Option<Arc<Result<PodGroup, DecodeError>>>,
    pods: PodGroupState,
}

impl KnownGroup {
    fn known_pods(&self) -> Option<&PodGroupState> {
        Some(&self.pods).filter(|pods| pods.n_known() > 0)
    }

    fn is_empty(&self) -> bool {
        self.object.is_none() && self.pods.n_known() == 0
    }
}

/// Namespace and name of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct GroupKey(Arc<str>, Arc<str>);

/// A borrowed [`GroupKey`]: members of a group that is tried ask several times.
#[derive(Clone, Copy, Hash)]
struct GroupName<'a>(&'a str, &'a str);

impl Equivalent<GroupKey> for GroupName<'_> {
    fn equivalent(&self, key: &GroupKey) -> bool {
        *self.1 == *key.1 && *self.0 == *key.0
    }
}

impl<'a> GroupName<'a> {
    fn of(pod: &'a Pod) -> Option<Self> {
        Some(Self(&pod.namespace, pod.spec.pod_group.as_ref()?))
    }
}

/// All groups by namespace and name.
#[derive(Clone, Default)]
pub(crate) struct PodGroups(CowMap<GroupKey, Arc<KnownGroup>>);

impl PodGroups {
    fn get(&self, namespace: &str, name: &str) -> Option<&KnownGroup> {
        self.0.get(&GroupName(namespace, name)).map(|group| &**group)
    }

    fn get_or_new(&mut self, namespace: &Arc<str>, name: &Arc<str>) -> &mut KnownGroup {
        let key = GroupKey(namespace.clone(), name.clone());
        Arc::make_mut(self.0.get_or_insert_with(&key, Arc::default))
    }

    /// Changes a group that is known, and forgets it if nothing is left of it.
    fn change(&mut self, name: GroupName<'_>, change: impl FnOnce(&mut KnownGroup)) {
        if let Some(group) = self.0.get_mut(&name) {
            let group = Arc::make_mut(group);
            change(group);
            if group.is_empty() {
                self.0.remove(&name);
            }
        }
    }

    /// The API server has reported the pod.
    fn known(&mut self, pod: Arc<Pod>) {
        let Some(name) = &pod.spec.pod_group else { return };
        let group = &mut self.get_or_new(&pod.namespace, name).pods;
        let place = match group.members.get(&pod.uid) {
            _ if pod.is_assigned() => MemberPlace::Assigned,
            Some(member) if member.place == MemberPlace::Assumed => MemberPlace::Assumed,
            _ => MemberPlace::Unscheduled,
        };
        group.put(pod, place);
    }

    /// A pod is assumed on a node, or not any more. Pods that are not known are ignored.
    pub(crate) fn assumed(&mut self, pod: &Pod, is_assumed: bool) {
        let Some(name) = GroupName::of(pod) else { return };
        let Some(group) = self.0.get_mut(&name) else { return };
        let group = &mut Arc::make_mut(group).pods;
        let Some(member) = group.members.get_mut(&pod.uid) else { return };
        let place = match is_assumed {
            _ if member.pod.is_assigned() => MemberPlace::Assigned,
            true => MemberPlace::Assumed,
            false => MemberPlace::Unscheduled,
        };
        let before = std::mem::replace(&mut member.place, place);
        if let Some(n) = group.count(before) {
            *n -= 1;
        }
        if let Some(n) = group.count(place) {
            *n += 1;
        }
    }

    /// An object has come, has changed or is gone. Objects of other kinds are ignored.
    pub(crate) fn object_changed(&mut self, old: Option<&Object>, new: Option<&Arc<Object>>) {
        if !new.map(|new| &**new).or(old).is_some_and(is_group) {
            return;
        }
        match (old, new) {
            (_, Some(new)) => {
                let group = self.get_or_new(&new.namespace, &new.name);
                group.object = Some(Arc::new(PodGroup::from_object(new)));
            }
            (Some(old), None) => {
                let name = GroupName(&old.namespace, &old.name);
                self.change(name, |group| group.object = None);
            }
            (None, None) => {}
        }
    }
}

fn is_group(object: &Object) -> bool {
    *object.kind == *PodGroup::KIND && *object.group == *PodGroup::GROUP
}

/// # Pod groups
impl ClusterState {
    /// The pods of a group that are known; `None` if there are none. O(1).
    pub fn pod_group(&self, namespace: &str, name: &str) -> Option<&PodGroupState> {
        self.groups.get(namespace, name)?.known_pods()
    }

    /// What the object of a group says. O(1): it was read when it came.
    ///
    /// # Errors
    /// If there is no such object, or it cannot be read.
    pub fn pod_group_object(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<&PodGroup, PodGroupError> {
        self.pod_group_with_pods(namespace, name).map(|(object, _)| object)
    }

    /// What the object of a group says, and [its known pods](Self::pod_group). O(1).
    ///
    /// # Errors
    /// If there is no such object, or it cannot be read.
    pub fn pod_group_with_pods(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<(&PodGroup, Option<&PodGroupState>), PodGroupError> {
        let group = self.groups.get(namespace, name).ok_or(PodGroupError::NotFound)?;
        let read = group.object.as_ref().ok_or(PodGroupError::NotFound)?;
        match &**read {
            Ok(object) => Ok((object, group.known_pods())),
            Err(error) => Err(PodGroupError::Unreadable(error.clone())),
        }
    }

    /// How many groups have known pods. O(groups).
    pub fn n_pod_groups(&self) -> usize {
        self.groups.0.values().filter(|group| group.pods.n_known() > 0).count()
    }

    /// The API server has reported a pod, with a node or without. Counts it in its group, if it belongs to one.
    pub fn group_member_known(&mut self, pod: &Arc<Pod>) {
        if pod.spec.pod_group.is_some() {
            self.groups.known(pod.clone());
        }
    }

    /// A pod is deleted. Its group, if it belongs to one, does not count it any more.
    pub fn group_member_gone(&mut self, pod: &Pod) {
        if let Some(name) = GroupName::of(pod) {
            self.groups.change(name, |group| group.pods.take(&pod.uid));
        }
    }

    /// How many groups have an object that was read.
    pub(crate) fn n_group_objects(&self) -> usize {
        self.groups.0.values().filter(|group| group.object.is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_api_types::Node;

    use super::*;

    fn pod(name: &str, node: Option<&str>) -> Arc<Pod> {
        let json = serde_json::json!({
            "metadata": {"namespace": "a", "name": name, "uid": name},
            "spec": {"schedulingGroup": {"podGroupName": "g"}, "nodeName": node},
        });
        Arc::new(Pod::from_value(&json).unwrap())
    }

    #[test]
    fn what_an_object_says_is_read_once_for_each_revision_and_goes_with_it() {
        let object = |min_count: serde_json::Value| {
            let json = serde_json::json!({
                "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
                "metadata": {"namespace": "a", "name": "g"},
                "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
            });
            Arc::new(Object::from_value(json).unwrap())
        };
        let min_count =
            |cluster: &ClusterState| cluster.pod_group_object("a", "g").map(PodGroup::min_count);
        let mut cluster = ClusterState::new();
        assert_eq!(min_count(&cluster), Err(PodGroupError::NotFound));
        cluster.group_member_known(&pod("x", None));
        assert_eq!(min_count(&cluster), Err(PodGroupError::NotFound), "pods make no object");
        cluster.upsert_object(object(3.into()));
        let fork = cluster.clone();
        cluster.upsert_object(object(4.into()));
        assert_eq!((min_count(&cluster), min_count(&fork)), (Ok(Some(4)), Ok(Some(3))));
        cluster.group_member_gone(&pod("x", None));
        assert_eq!((min_count(&cluster), cluster.n_pod_groups()), (Ok(Some(4)), 0));
        cluster.upsert_object(object("x".into()));
        assert!(matches!(min_count(&cluster), Err(PodGroupError::Unreadable(_))));
        cluster.remove_object(PodGroup::GROUP, PodGroup::KIND, "a", "g");
        assert_eq!(min_count(&cluster), Err(PodGroupError::NotFound));
        assert!(cluster.groups.0.is_empty(), "nothing stays");
        assert_eq!(min_count(&fork), Ok(Some(3)));
    }

    fn counts(cluster: &ClusterState) -> Option<[usize; 4]> {
        let group = cluster.pod_group("a", "g")?;
        Some([group.n_known(), group.n_unscheduled(), group.n_assumed(), group.n_assigned()])
    }

    #[test]
    fn members_go_from_unscheduled_to_assigned_and_away() {
        let mut cluster = ClusterState::new();
        let node = serde_json::json!({"metadata": {"name": "n"}});
        cluster.add_node(Arc::new(Node::from_value(&node).unwrap()));
        assert_eq!(counts(&cluster), None);
        cluster.group_member_known(&pod("x", None));
        cluster.group_member_known(&pod("y", Some("n")));
        assert_eq!(counts(&cluster), Some([2, 1, 0, 1]));

        let fork = cluster.clone();
        cluster.assume_pod(pod("x", Some("n"))).unwrap();
        assert_eq!(counts(&cluster), Some([2, 0, 1, 1]));
        cluster.group_member_known(&pod("x", None));
        assert_eq!(counts(&cluster), Some([2, 0, 1, 1]), "an update does not end the assumption");
        cluster.forget_pod("x").unwrap();
        assert_eq!(counts(&cluster), Some([2, 1, 0, 1]));
        cluster.assume_pod(pod("x", Some("n"))).unwrap();
        cluster.group_member_known(&pod("x", Some("n")));
        assert_eq!(counts(&cluster), Some([2, 0, 0, 2]));
        assert_eq!(counts(&fork), Some([2, 1, 0, 1]), "a fork does not see later changes");

        cluster.group_member_gone(&pod("x", None));
        cluster.group_member_gone(&pod("y", None));
        assert_eq!((counts(&cluster), cluster.n_pod_groups()), (None, 0));
        cluster.group_member_gone(&pod("y", None));
        cluster.assume_pod(pod("z", Some("n"))).unwrap();
        assert_eq!(counts(&cluster), None, "pods that are not known make no group");
    }
}
