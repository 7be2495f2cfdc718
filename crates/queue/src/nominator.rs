//! Which pods are nominated to which nodes: preempting pods that wait for their victims to go.
//!
//! Invariants: a UID is nominated at most once; the pods of a node are in the order of nomination; no node has an empty
//! list. An override with an empty node name is remembered for the pod, so that a stale update cannot bring an older
//! nomination back, and is in no list.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_primitives::KeyedMap;

use crate::entry::QueueEntry;
use crate::policy::Nomination;

#[derive(Clone, Debug)]
pub(crate) struct Nominee {
    pub(crate) uid: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Nominator {
    /// The pods of each node by the number of their nomination. A list would be searched whenever one of its pods goes, and any
    /// number of pods can be nominated to a node.
    by_node: BTreeMap<Arc<str>, BTreeMap<u64, Nominee>>,
    /// By UID, the node and the number of the nomination.
    node_of: KeyedMap<Arc<str>, (Arc<str>, u64)>,
    n_nominations: u64,
}

impl Nominator {
    /// Nominates the pod, or withdraws its nomination. `latest` looks the pod up in the informer.
    pub(crate) fn add<E: QueueEntry>(
        &mut self,
        entry: &E,
        nomination: Nomination<'_>,
        latest: impl FnOnce(&str, &str) -> Option<E>,
    ) {
        self.remove(entry.uid());
        let node = match nomination {
            Nomination::Override(node) => node,
            Nomination::Noop => match status_node(entry) {
                Some(node) => node,
                None => return,
            },
        };
        // The pod may have gone or got its node while its attempt was under way. Then no later event would end a nomination.
        if latest(entry.namespace(), entry.name()).is_none_or(|latest| latest.is_assigned()) {
            return;
        }
        let uid: Arc<str> = entry.uid().into();
        let node: Arc<str> = node.into();
        self.n_nominations += 1;
        let number = self.n_nominations;
        if !node.is_empty() {
            let nominee = Nominee {
                uid: uid.clone(),
                namespace: entry.namespace().into(),
                name: entry.name().into(),
            };
            self.by_node.entry(node.clone()).or_default().insert(number, nominee);
        }
        self.node_of.insert(uid, (node, number));
    }

    /// Follows an update of the pod. An update without any node name is older than a nomination made since, and keeps it.
    pub(crate) fn update<E: QueueEntry>(
        &mut self,
        old: &E,
        new: &E,
        latest: impl FnOnce(&str, &str) -> Option<E>,
    ) {
        let remembered = match (status_node(old), status_node(new)) {
            (None, None) => self.node_of.get(old.uid()).map(|(node, _)| node.clone()),
            _ => None,
        };
        self.remove(old.uid());
        self.add(new, remembered.as_deref().map_or(Nomination::Noop, Nomination::Override), latest);
    }

    /// Withdraws the nomination of the pod, if it has one.
    pub(crate) fn remove(&mut self, uid: &str) {
        if self.node_of.is_empty() {
            return;
        }
        let Some((node, number)) = self.node_of.remove(uid) else { return };
        if let Some(nominees) = self.by_node.get_mut(&node) {
            nominees.remove(&number);
            if nominees.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }

    pub(crate) fn node_of(&self, uid: &str) -> Option<&str> {
        self.node_of.get(uid).map(|(node, _)| &**node)
    }

    pub(crate) fn nominees(&self, node: &str) -> impl Iterator<Item = &Nominee> {
        self.by_node.get(node).into_iter().flat_map(BTreeMap::values)
    }

    /// The nodes with nominated pods, in order of their names.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &str> {
        self.by_node.keys().map(|node| &**node)
    }

    /// The nodes with nominated pods, each with these pods.
    pub(crate) fn by_node(
        &self,
    ) -> impl Iterator<Item = (&Arc<str>, impl Iterator<Item = &Nominee>)> {
        self.by_node.iter().map(|(node, nominees)| (node, nominees.values()))
    }
}

fn status_node<E: QueueEntry>(entry: &E) -> Option<&str> {
    entry.nominated_node_name().filter(|node| !node.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct Pod(String);

    impl QueueEntry for Pod {
        fn uid(&self) -> &str {
            &self.0
        }

        fn namespace(&self) -> &str {
            "ns"
        }

        fn name(&self) -> &str {
            &self.0
        }

        fn scheduler_name(&self) -> &str {
            ""
        }

        fn nominated_node_name(&self) -> Option<&str> {
            None
        }

        fn is_assigned(&self) -> bool {
            false
        }
    }

    fn nominate(nominator: &mut Nominator, pod: &Pod, node: &str) {
        nominator.add(pod, Nomination::Override(node), |_, _| Some(pod.clone()));
    }

    /// How many nodes have lists, and what is in them.
    fn listed(nominator: &Nominator) -> (usize, usize) {
        (nominator.by_node.len(), nominator.by_node.values().map(BTreeMap::len).sum())
    }

    #[test]
    fn withdrawn_nominations_are_in_no_list_and_those_of_a_node_keep_their_order() {
        let mut nominator = Nominator::default();
        let pods: Vec<Pod> = (0..1000).map(|at| Pod(format!("p{at}"))).collect();
        for pod in &pods {
            nominate(&mut nominator, pod, "");
            assert_eq!((nominator.node_of(pod.uid()), listed(&nominator)), (Some(""), (0, 0)));
        }
        for (at, pod) in pods.iter().enumerate() {
            nominate(&mut nominator, pod, "n");
            assert_eq!(listed(&nominator), (1, at + 1));
        }
        for pod in pods.iter().step_by(2) {
            nominate(&mut nominator, pod, "");
            assert_eq!(nominator.node_of(pod.uid()), Some(""));
        }
        let left: Vec<&str> = nominator.nominees("n").map(|nominee| &*nominee.name).collect();
        let expected: Vec<&str> = pods.iter().skip(1).step_by(2).map(|pod| &*pod.0).collect();
        assert_eq!(left, expected);
        pods.iter().for_each(|pod| nominator.remove(pod.uid()));
        assert!(nominator.by_node.is_empty() && nominator.node_of.is_empty());
    }
}
