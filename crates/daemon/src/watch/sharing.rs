//! Parts that many objects have in common, kept once.
//!
//! Pods of one template agree in everything but their names, and nodes of one pool in nearly everything. Each part is
//! compared with the last few of its sort and replaced by the one it equals, so that memory follows the number of
//! templates rather than that of objects. Invariants: objects stay equal to what they were; nothing is held but the last
//! few parts of each sort, so that there is nothing to forget.

use std::collections::VecDeque;
use std::sync::Arc;

use kube_scheduler_api_types::{
    ControllerRef, Labels, Node, NodeImage, Pod, PodRequests, PodSpec, PodStatus, Quantity,
    ResourceName, Taint,
};
use kube_scheduler_engine::Followed;

/// Parts of a sort that are remembered: enough for the templates that take turns in a list sorted by name, few enough that
/// comparing costs little where all objects differ.
const REMEMBERED: usize = 8;

/// The last few different values.
#[derive(Debug)]
struct Recent<T>(VecDeque<T>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: PartialEq + Clone> Recent<T> {
    /// Replaces `value` by an equal one that was seen before.
    fn share(&mut self, value: &mut T) {
        match self.0.iter().position(|known| known == value) {
            Some(at) => {
                value.clone_from(&self.0[at]);
                self.0.swap(0, at);
            }
            None => {
                self.0.truncate(REMEMBERED - 1);
                self.0.push_front(value.clone());
            }
        }
    }
}

/// Types and statuses.
type Conditions = Arc<[(Arc<str>, Arc<str>)]>;

/// What the objects of a kind have had in common lately.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    namespaces: Recent<Arc<str>>,
    node_names: Recent<Arc<str>>,
    labels: Recent<Labels>,
    controllers: Recent<Arc<ControllerRef>>,
    specs: Recent<Arc<PodSpec>>,
    requests: Recent<Arc<PodRequests>>,
    statuses: Recent<Arc<PodStatus>>,
    quantities: Recent<Arc<[(ResourceName, Quantity)]>>,
    taints: Recent<Arc<[Taint]>>,
    images: Recent<Arc<[NodeImage]>>,
    conditions: Recent<Conditions>,
    features: Recent<Arc<[Arc<str>]>>,
}

impl Sharing {
    /// Lets a fresh object share what it can.
    pub(super) fn share(&mut self, object: &mut Followed) {
        match object {
            Followed::Pod(pod) => {
                if let Some(pod) = Arc::get_mut(pod) {
                    self.share_pod(pod);
                }
            }
            Followed::Node(node) => {
                if let Some(node) = Arc::get_mut(node) {
                    self.share_node(node);
                }
            }
            Followed::Other(_) => {}
        }
    }

    fn share_pod(&mut self, pod: &mut Pod) {
        self.namespaces.share(&mut pod.namespace);
        self.labels.share(&mut pod.labels);
        self.specs.share(&mut pod.spec);
        self.requests.share(&mut pod.requests);
        self.statuses.share(&mut pod.status);
        if let Some(controller) = &mut pod.controller {
            self.controllers.share(controller);
        }
        if let Some(node_name) = &mut pod.node_name {
            self.node_names.share(node_name);
        }
    }

    fn share_node(&mut self, node: &mut Node) {
        self.labels.share(&mut node.annotations);
        self.quantities.share(&mut node.allocatable_quantities);
        self.taints.share(&mut node.taints);
        self.images.share(&mut node.images);
        self.conditions.share(&mut node.conditions);
        self.features.share(&mut node.declared_features);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, cpu: &str, label: &str) -> Arc<Pod> {
        let json = format!(
            r#"{{"metadata":{{"namespace":"x","name":"{name}","labels":{{"app":"{label}"}}}},
                "spec":{{"containers":[{{"resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]}}}}"#
        );
        Arc::new(Pod::from_json(json).unwrap())
    }

    #[test]
    fn equal_parts_are_kept_once_and_different_ones_stay() {
        let mut sharing = Sharing::default();
        let mut shared = |name: &str, cpu: &str, label: &str| {
            let mut object = Followed::Pod(pod(name, cpu, label));
            sharing.share(&mut object);
            let Followed::Pod(shared) = object else { panic!() };
            assert_eq!(shared, pod(name, cpu, label), "nothing changes");
            shared
        };
        let (one, two) = (shared("a", "1", "web"), shared("b", "1", "web"));
        let other = shared("c", "2", "web");
        let again = shared("d", "1", "db");
        assert!(Arc::ptr_eq(&one.spec, &two.spec) && Arc::ptr_eq(&one.requests, &two.requests));
        assert!(one.labels.is_same_allocation(&two.labels));
        assert!(!Arc::ptr_eq(&one.requests, &other.requests));
        assert!(Arc::ptr_eq(&one.requests, &again.requests), "what is in between does not matter");
        assert!(!one.labels.is_same_allocation(&again.labels));
    }

    #[test]
    fn only_the_last_few_are_remembered() {
        let mut recent = Recent::default();
        for i in 0..100 {
            recent.share(&mut Arc::new(i));
            assert!(recent.0.len() <= REMEMBERED);
        }
        let mut last = Arc::new(99);
        recent.share(&mut last);
        assert!(Arc::strong_count(&last) == 2);
    }
}
