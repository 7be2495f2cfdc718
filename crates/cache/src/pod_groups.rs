//! The pods of each pod group: which are known, and which of them have a node.
//!
//! Behaviour: `docs/spec/podgroups.md` §2.
//!
//! Invariants: no group is without members; the numbers are those of the members. They do not follow hypothetical changes: a
//! hypothetical cluster may take pods off their nodes, and their groups still count them as placed.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::Pod;

use crate::fork::CowMap;
use crate::state::ClusterState;

/// How far a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberPlace {
    /// It has no node.
    Unscheduled,
    /// A node was chosen for it, and the API server does not know yet.
    Assumed,
    /// It has a node.
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
    /// How many pods are known.
    pub fn n_known(&self) -> usize {
        self.members.len()
    }

    /// How many have no node.
    pub fn n_unscheduled(&self) -> usize {
        self.members.len() - self.n_scheduled()
    }

    /// How many are assumed on a node.
    pub const fn n_assumed(&self) -> usize {
        self.n_assumed
    }

    /// How many have a node.
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

/// All groups by namespace and name.
#[derive(Clone, Default)]
pub(crate) struct PodGroups(CowMap<Arc<str>, Arc<PodGroupState>>);

impl PodGroups {
    fn change(&mut self, pod: &Pod, change: impl FnOnce(&mut PodGroupState)) {
        let Some(key) = key_of(pod) else { return };
        if let Some(group) = self.0.get_mut(&*key) {
            change(Arc::make_mut(group));
            if group.n_known() == 0 {
                self.0.remove(&*key);
            }
        }
    }

    /// The API server has reported the pod.
    fn known(&mut self, pod: Arc<Pod>) {
        let Some(key) = key_of(&pod) else { return };
        let group = Arc::make_mut(self.0.get_or_insert_with(&key.into(), Arc::default));
        let place = match group.members.get(&pod.uid) {
            _ if pod.is_assigned() => MemberPlace::Assigned,
            Some(member) if member.place == MemberPlace::Assumed => MemberPlace::Assumed,
            _ => MemberPlace::Unscheduled,
        };
        group.put(pod, place);
    }

    /// A pod is assumed on a node, or not any more. Pods that are not known are ignored.
    pub(crate) fn assumed(&mut self, pod: &Pod, is_assumed: bool) {
        self.change(pod, |group| {
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
        });
    }
}

fn key_of(pod: &Pod) -> Option<String> {
    Some(key(&pod.namespace, pod.spec.pod_group.as_ref()?))
}

fn key(namespace: &str, name: &str) -> String {
    // Not formatted: each member of a group that is tried asks several times.
    [namespace, "/", name].concat()
}

/// # Pod groups
impl ClusterState {
    /// The pods of a group that are known; `None` if there are none. O(1).
    pub fn pod_group(&self, namespace: &str, name: &str) -> Option<&PodGroupState> {
        self.groups.0.get(&*key(namespace, name)).map(|group| &**group)
    }

    /// How many groups have known pods.
    pub fn n_pod_groups(&self) -> usize {
        self.groups.0.len()
    }

    /// The API server has reported a pod, with a node or without. Counts it in its group, if it belongs to one.
    pub fn group_member_known(&mut self, pod: &Arc<Pod>) {
        if pod.spec.pod_group.is_some() {
            self.groups.known(pod.clone());
        }
    }

    /// A pod that is assumed on a node counts as such in its group, or not for now. [`assume_pod`](Self::assume_pod) and
    /// [`forget_pod`](Self::forget_pod) see to that themselves.
    pub fn group_member_assumed(&mut self, pod: &Pod, is_assumed: bool) {
        self.groups.assumed(pod, is_assumed);
    }

    /// A pod is deleted. Its group, if it belongs to one, does not count it any more.
    pub fn group_member_gone(&mut self, pod: &Pod) {
        self.groups.change(pod, |group| group.take(&pod.uid));
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
