//! The cluster the slow way, by name, written from the behaviour of the reference (`docs/spec/core.md` §14 and §15).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::{Labels, Node, Pod};

use crate::{ClusterState, NodeIdx};

type Port = (String, String, i32);

#[derive(Clone, Default)]
pub(super) struct ModelNode {
    pub(super) object: Option<Arc<Node>>,
    pub(super) pods: Vec<Arc<Pod>>,
    ports: BTreeSet<Port>,
}

#[derive(Clone, Default)]
pub(super) struct Model {
    pub(super) nodes: BTreeMap<String, ModelNode>,
    pub(super) namespaces: BTreeMap<String, Labels>,
    assumed: BTreeSet<String>,
    zones: Vec<(String, Vec<String>)>,
    listed: Vec<String>,
    images: BTreeMap<String, (i64, BTreeSet<String>)>,
}

fn describe(pod: &Pod) -> String {
    format!("{}({}/{})", pod.uid, pod.namespace, pod.name)
}

fn name_of(pod: &Pod) -> String {
    pod.node_name.as_deref().unwrap_or_default().to_owned()
}

fn ports(pod: &Pod) -> impl Iterator<Item = Port> {
    pod.spec
        .host_ports
        .iter()
        .map(|port| (port.ip.to_string(), port.protocol.to_string(), port.port))
}

impl Model {
    pub(super) fn add_node(&mut self, node: &Arc<Node>) {
        let name = node.name.to_string();
        let old = self.nodes.entry(name.clone()).or_default().object.replace(node.clone());
        if let Some(old) = &old {
            self.remove_images(old);
        }
        let zone = node.zone_key();
        if old.as_ref().is_none_or(|old| old.zone_key() != zone) {
            self.remove_from_zones(&name);
            match self.zones.iter_mut().find(|(key, _)| *key == zone) {
                Some((_, names)) => names.push(name.clone()),
                None => self.zones.push((zone, vec![name.clone()])),
            }
        }
        for image in node.images.iter() {
            for image_name in image.names.iter() {
                let state = self
                    .images
                    .entry(image_name.to_string())
                    .or_insert((image.size_bytes, BTreeSet::new()));
                state.1.insert(name.clone());
            }
        }
    }

    pub(super) fn remove_node(&mut self, name: &str) -> Result<(), String> {
        let node = self.nodes.get_mut(name).ok_or(format!("node {name} is not found"))?;
        let old = node.object.take();
        if let Some(old) = old {
            self.remove_images(&old);
            self.remove_from_zones(name);
        }
        self.drop_empty(name);
        Ok(())
    }

    pub(super) fn find(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.nodes.values().flat_map(|node| &node.pods).find(|pod| *pod.uid == *uid)
    }

    pub(super) fn add_pod(&mut self, pod: &Arc<Pod>) -> Result<(), String> {
        if let Some(old) = self.find(&pod.uid).cloned() {
            if !self.assumed.remove(&*pod.uid) {
                return Err(format!("pod {} was already in added state", describe(pod)));
            }
            self.take(&old);
        }
        self.put(pod);
        Ok(())
    }

    pub(super) fn update_pod(&mut self, pod: &Arc<Pod>) -> Result<(), String> {
        let Some(old) = self.find(&pod.uid).cloned() else {
            return Err(format!(
                "pod {} is not added to scheduler cache, so cannot be updated",
                describe(pod)
            ));
        };
        if self.assumed.contains(&*pod.uid) {
            return Err(format!("assumed pod {} should not be updated", describe(pod)));
        }
        self.take(&old);
        self.put(pod);
        Ok(())
    }

    pub(super) fn assume_pod(&mut self, pod: &Arc<Pod>) -> Result<(), String> {
        if self.find(&pod.uid).is_some() {
            return Err(format!("pod {} is in the cache, so can't be assumed", describe(pod)));
        }
        self.assumed.insert(pod.uid.to_string());
        self.put(pod);
        Ok(())
    }

    pub(super) fn forget_pod_as(&mut self, pod: &Pod) -> Result<(), String> {
        let Some(known) = self.find(&pod.uid).cloned() else { return Ok(()) };
        if known.node_name != pod.node_name {
            let (assumed, assigned) = (name_of(pod), name_of(&known));
            return Err(format!(
                "pod {} was assumed on {assumed} but assigned to {assigned}",
                describe(pod)
            ));
        }
        self.forget_pod(&pod.uid)
    }

    pub(super) fn forget_pod(&mut self, uid: &str) -> Result<(), String> {
        let Some(known) = self.find(uid).cloned() else { return Ok(()) };
        if !self.assumed.remove(uid) {
            return Err(format!("pod {} wasn't assumed so cannot be forgotten", describe(&known)));
        }
        self.take(&known);
        Ok(())
    }

    pub(super) fn remove_pod(&mut self, uid: &str) -> Result<(), String> {
        let Some(known) = self.find(uid).cloned() else {
            return Err(format!(
                "pod {uid} is not found in scheduler cache, so cannot be removed from it"
            ));
        };
        self.assumed.remove(uid);
        self.take(&known);
        Ok(())
    }

    pub(super) fn refresh_order(&mut self) {
        let live: BTreeSet<&String> = self.zones.iter().flat_map(|(_, names)| names).collect();
        if live == self.listed.iter().collect() {
            return;
        }
        let longest = self.zones.iter().map(|(_, names)| names.len()).max().unwrap_or(0);
        self.listed = (0..longest)
            .flat_map(|at| self.zones.iter().filter_map(move |(_, names)| names.get(at)).cloned())
            .collect();
    }

    fn put(&mut self, pod: &Arc<Pod>) {
        let node = self.nodes.entry(name_of(pod)).or_default();
        node.pods.push(pod.clone());
        node.ports.extend(ports(pod));
    }

    fn take(&mut self, pod: &Pod) {
        let name = name_of(pod);
        let Some(node) = self.nodes.get_mut(&name) else { return };
        if let Some(at) = node.pods.iter().position(|other| other.uid == pod.uid) {
            node.pods.swap_remove(at);
        }
        for port in ports(pod) {
            node.ports.remove(&port);
        }
        self.drop_empty(&name);
    }

    fn drop_empty(&mut self, name: &str) {
        if self.nodes.get(name).is_some_and(|node| node.object.is_none() && node.pods.is_empty()) {
            self.nodes.remove(name);
        }
    }

    fn remove_images(&mut self, node: &Node) {
        for name in node.images.iter().flat_map(|image| image.names.iter()) {
            if let Some(state) = self.images.get_mut(&**name) {
                state.1.remove(&*node.name);
                if state.1.is_empty() {
                    self.images.remove(&**name);
                }
            }
        }
    }

    fn remove_from_zones(&mut self, name: &str) {
        self.zones.iter_mut().for_each(|(_, names)| names.retain(|other| other != name));
        self.zones.retain(|(_, names)| !names.is_empty());
    }

    /// Asserts that `cluster` shows exactly this.
    pub(super) fn assert_shown_by(&self, cluster: &ClusterState) {
        let name = |idx: NodeIdx| cluster.node_name(idx).map(|name| name.to_string()).unwrap();
        let live: BTreeMap<_, _> =
            self.nodes.iter().filter(|(_, node)| node.object.is_some()).collect();
        assert_eq!(cluster.n_nodes(), live.len());
        assert_eq!(cluster.n_ghosts(), self.nodes.len() - live.len());
        let shown: BTreeSet<String> = cluster.live_nodes().iter().map(name).collect();
        assert_eq!(shown.iter().collect::<Vec<_>>(), live.keys().copied().collect::<Vec<_>>());
        if !cluster.order_is_stale() {
            assert_eq!(cluster.order().iter().copied().map(name).collect::<Vec<_>>(), self.listed);
        }
        assert_eq!(
            cluster.assumed_pods().map(|pod| pod.uid.to_string()).collect::<BTreeSet<_>>(),
            self.assumed
        );
        for (image, (size_bytes, nodes)) in &self.images {
            let state = cluster.image(image).unwrap();
            assert_eq!((state.size_bytes, state.n_nodes), (*size_bytes, nodes.len()), "{image}");
            let holders = cluster.nodes_with_image(image).unwrap();
            assert_eq!(holders.iter().map(name).collect::<BTreeSet<_>>(), *nodes);
        }
        for image in ["img-a", "img-a:1", "img-b", "img-c"] {
            assert_eq!(cluster.image(image).is_some(), self.images.contains_key(image));
        }
        for (name, node) in &self.nodes {
            let idx = (0..cluster.capacity())
                .map(NodeIdx::from_index)
                .find(|idx| cluster.node_name(*idx).is_some_and(|shown| **shown == **name))
                .unwrap();
            assert_eq!(cluster.node(idx), node.object.as_ref());
            assert!(cluster.pods_on(idx).eq(&node.pods), "pods of {name} in order");
            let ports = cluster.used_ports(idx).iter();
            let ports: BTreeSet<Port> = ports
                .map(|port| (port.ip.to_string(), port.protocol.to_string(), port.port))
                .collect();
            assert_eq!(ports, node.ports, "ports of {name}");
            let scalars = cluster.requested_on(idx).scalars;
            let mentioned: BTreeSet<Arc<str>> =
                scalars.iter().map(|(name, _)| name.clone()).collect();
            let names = node.pods.iter().flat_map(|pod| &pod.requests.accounted.scalars);
            let expected: BTreeSet<Arc<str>> = names.map(|(name, _)| name.clone()).collect();
            assert_eq!(mentioned, expected, "scalar resources requested on {name}");
        }
    }
}
