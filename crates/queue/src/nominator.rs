//! Which pods are nominated to which nodes: preempting pods that wait for their victims to go.
//!
//! Invariants: a UID is nominated at most once; the pods of a node are in the order of nomination; no node has an empty
//! list. An override with an empty node name is kept under that name, so that a stale update cannot bring an older
//! nomination back.

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
    by_node: BTreeMap<Arc<str>, Vec<Nominee>>,
    node_of: KeyedMap<Arc<str>, Arc<str>>,
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
        if latest(entry.namespace(), entry.name()).is_none_or(|latest| latest.is_assigned()) {
            return;
        }
        let uid: Arc<str> = entry.uid().into();
        let node: Arc<str> = node.into();
        let nominee = Nominee {
            uid: uid.clone(),
            namespace: entry.namespace().into(),
            name: entry.name().into(),
        };
        self.by_node.entry(node.clone()).or_default().push(nominee);
        self.node_of.insert(uid, node);
    }

    /// Follows an update of the pod. An update without any node name is older than a nomination made since, and keeps it.
    pub(crate) fn update<E: QueueEntry>(
        &mut self,
        old: &E,
        new: &E,
        latest: impl FnOnce(&str, &str) -> Option<E>,
    ) {
        let remembered = match (status_node(old), status_node(new)) {
            (None, None) => self.node_of.get(old.uid()).cloned(),
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
        let Some(node) = self.node_of.remove(uid) else { return };
        if let Some(nominees) = self.by_node.get_mut(&node) {
            nominees.retain(|nominee| &*nominee.uid != uid);
            if nominees.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }

    pub(crate) fn node_of(&self, uid: &str) -> Option<&str> {
        self.node_of.get(uid).map(|node| &**node)
    }

    pub(crate) fn nominees(&self, node: &str) -> &[Nominee] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// The nodes with nominated pods, in order of their names.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &str> {
        self.by_node.keys().map(|node| &**node).filter(|node| !node.is_empty())
    }

    /// The nodes with nominated pods, each with these pods.
    pub(crate) fn by_node(&self) -> impl Iterator<Item = (&Arc<str>, &[Nominee])> {
        self.by_node
            .iter()
            .map(|(node, nominees)| (node, nominees.as_slice()))
            .filter(|(node, _)| !node.is_empty())
    }
}

fn status_node<E: QueueEntry>(entry: &E) -> Option<&str> {
    entry.nominated_node_name().filter(|node| !node.is_empty())
}
