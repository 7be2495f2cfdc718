//! Equal parts of pods and nodes, kept once.
//!
//! Pods of one template have the same specification, requests, labels and owner; nodes of one pool have the same images,
//! taints and label keys. Each object arrives with its own copies, and an engine keeps it for long: a shell that feeds an
//! engine passes every object through [`Deduplicator`] first, so that memory follows the number of templates rather than that
//! of objects.
//!
//! Invariants: what replaces a part is equal to it to the letter, so no reader can notice; no decision reads a table, and
//! none depends on when a table is swept; parts that no object holds any more are dropped, and until then there are no more
//! of them, in bytes, than of those that objects hold, or 4 MiB. Sharing is O(size of the object).

mod weighing;

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashTable;
use kube_scheduler_api_types::{
    ConditionText, ControllerRef, Labels, Node, NodeAffinity, NodeImage, Pod, PodAffinity,
    PodRequests, PodSpec, PodStatus, Quantity, ResourceName, Taint, Toleration, Volume,
};

use self::weighing::{ContentHasher, PartDigest, place, weigh};
use kube_scheduler_framework::EventObject;

/// Tables with fewer parts than this are not swept for their number.
const SWEPT_FROM: usize = 1_024;
/// What all tables may hold before they are swept for their bytes.
const SWEPT_FROM_BYTES: usize = 4 << 20;

macro_rules! tables {
    ($($table:ident: $part:ty,)*) => {
        /// What pods and nodes have in common.
        #[derive(Debug, Default)]
        pub struct Deduplicator {
            /// What the tables held after the last sweep, in bytes.
            n_kept_bytes: usize,
            $($table: Table<$part>,)*
        }

        impl Deduplicator {
            fn sizes(&self) -> impl Iterator<Item = SharedSize> {
                [$(self.$table.size(),)*].into_iter()
            }

            fn sweep_tables(&mut self) {
                $(self.$table.sweep();)*
            }
        }
    };
}

// Parts hold other parts: the tables of those that hold most are swept first.
tables! {
    specs: Arc<PodSpec>,
    statuses: Arc<PodStatus>,
    requests: Arc<PodRequests>,
    owners: Arc<ControllerRef>,
    labels: Labels,
    volumes: Arc<[Volume]>,
    tolerations: Arc<[Toleration]>,
    node_affinities: Arc<NodeAffinity>,
    pod_affinities: Arc<PodAffinity>,
    conditions: Arc<ConditionText>,
    quantities: Arc<[(ResourceName, Quantity)]>,
    node_conditions: Arc<[(Arc<str>, Arc<str>)]>,
    taints: Arc<[Taint]>,
    images: Arc<[NodeImage]>,
    names: Arc<[Arc<str>]>,
    texts: Arc<str>,
}

impl Deduplicator {
    /// Replaces what a pod or a node has in common with others. An object that has other holders is copied for it.
    pub fn share(&mut self, object: &mut EventObject) {
        match object {
            EventObject::Pod(pod) => self.share_pod(pod),
            EventObject::Node(node) => self.share_node(node),
            EventObject::Other(_) => {}
        }
    }

    /// [`share`](Self::share) for a pod.
    pub fn share_pod(&mut self, pod: &mut Arc<Pod>) {
        self.sweep_if_heavy();
        let pod = Arc::make_mut(pod);
        self.text(&mut pod.namespace);
        if let Some(node_name) = &mut pod.node_name {
            self.text(node_name);
        }
        if let Some(owner) = &mut pod.controller {
            self.owners.share(owner);
        }
        if !self.labels.replace(&mut pod.labels) {
            self.share_texts_of(&mut pod.labels);
            self.labels.share(&mut pod.labels);
        }
        share_empty(&mut pod.volumes);
        if !pod.volumes.is_empty() && !self.volumes.replace(&mut pod.volumes) {
            let volumes = Arc::make_mut(&mut pod.volumes).iter_mut();
            volumes.for_each(|volume| self.texts.share(&mut volume.name));
            self.volumes.share(&mut pod.volumes);
        }
        if !self.specs.replace(&mut pod.spec) {
            self.share_texts_of_spec(Arc::make_mut(&mut pod.spec));
            self.specs.share(&mut pod.spec);
        }
        if !self.requests.replace(&mut pod.requests) {
            self.share_texts_of_requests(Arc::make_mut(&mut pod.requests));
            self.requests.share(&mut pod.requests);
        }
        self.share_status(&mut pod.status);
    }

    /// [`share`](Self::share) for a node.
    pub fn share_node(&mut self, node: &mut Arc<Node>) {
        self.sweep_if_heavy();
        let node = Arc::make_mut(node);
        self.text(&mut node.name);
        self.share_texts_of(&mut node.labels);
        if !self.labels.replace(&mut node.annotations) {
            self.share_texts_of(&mut node.annotations);
            self.labels.share(&mut node.annotations);
        }
        self.quantities.share(&mut node.allocatable_quantities);
        for (name, _) in &mut node.allocatable.scalars {
            self.text(name);
        }
        self.node_conditions.share(&mut node.conditions);
        self.names.share(&mut node.declared_features);
        share_empty(&mut node.taints);
        self.taints.share(&mut node.taints);
        if !self.images.replace(&mut node.images) {
            let images = Arc::make_mut(&mut node.images).iter_mut();
            images.for_each(|image| self.names.share(&mut image.names));
            self.images.share(&mut node.images);
        }
    }

    /// One part may be as large as a thousand others: their number alone is no bound.
    fn sweep_if_heavy(&mut self) {
        if self.size().n_bytes > SWEPT_FROM_BYTES.max(self.n_kept_bytes.saturating_mul(2)) {
            self.sweep();
        }
    }

    /// How many parts are kept, and how many bytes they were compared by: what is in them, without what pointers and lists
    /// take. A part that others are parts of counts with them. O(1).
    pub fn size(&self) -> SharedSize {
        self.sizes().fold(SharedSize::default(), |sum, table| SharedSize {
            n_parts: sum.n_parts + table.n_parts,
            n_bytes: sum.n_bytes + table.n_bytes,
        })
    }

    /// Drops what no object holds any more, and the room that it took. Tables do so by themselves when they have doubled; a
    /// shell calls this from time to time, so that nothing stays of objects that are gone. O(parts kept).
    pub fn sweep(&mut self) {
        self.sweep_tables();
        self.n_kept_bytes = self.size().n_bytes;
    }

    fn text(&mut self, text: &mut Arc<str>) {
        self.texts.share(text);
    }

    fn share_texts_of(&mut self, labels: &mut Labels) {
        if labels.is_empty() {
            *labels = Labels::default();
            return;
        }
        // Of very many, each would take more in the table than it takes in the labels.
        let Some(pairs) = labels.shared_pairs() else { return };
        let shared = |(key, value): &(Arc<str>, Arc<str>)| {
            let (mut key, mut value) = (key.clone(), value.clone());
            self.texts.share(&mut key);
            self.texts.share(&mut value);
            (key, value)
        };
        *labels = pairs.iter().map(shared).collect();
    }

    /// For specifications that few pods have.
    fn share_texts_of_spec(&mut self, spec: &mut PodSpec) {
        self.text(&mut spec.scheduler_name);
        share_empty(&mut spec.topology_spread_constraints);
        share_empty(&mut spec.host_ports);
        share_empty(&mut spec.host_port_numbers);
        share_empty(&mut spec.resource_claims);
        self.names.share(&mut spec.images.names);
        self.names.share(&mut spec.scheduling_gates);
        if let Some(selector) = &mut spec.node_selector {
            self.share_texts_of(selector);
        }
        self.tolerations.share(&mut spec.tolerations);
        if let Some(affinity) = &mut spec.node_affinity {
            self.node_affinities.share(affinity);
        }
        for affinity in [&mut spec.pod_affinity, &mut spec.pod_anti_affinity].into_iter().flatten()
        {
            self.pod_affinities.share(affinity);
        }
    }

    /// For requests that few pods have.
    fn share_texts_of_requests(&mut self, requests: &mut PodRequests) {
        let is_once = Arc::ptr_eq(&requests.totals, &requests.spec_totals);
        for list in [&mut requests.spec_totals, &mut requests.totals, &mut requests.limits] {
            share_empty(list);
            if !list.is_empty() {
                Arc::make_mut(list).iter_mut().for_each(|(name, _)| self.texts.share(name));
            }
        }
        if is_once {
            requests.totals = requests.spec_totals.clone();
        }
    }

    /// The conditions of waiting pods are written by the thousand in the same second, so whole statuses are equal. Pods that
    /// run started at times of their own, but the texts of their conditions are the same.
    fn share_status(&mut self, status: &mut Arc<PodStatus>) {
        let is_common = status.started.is_none();
        if is_common && self.statuses.replace(status) {
            return;
        }
        let changed = Arc::make_mut(status);
        self.text(&mut changed.phase);
        share_empty(&mut changed.conditions);
        share_empty(&mut changed.resource_claim_statuses);
        share_empty(&mut changed.node_resource_claims);
        if !changed.conditions.is_empty() {
            let conditions = Arc::make_mut(&mut changed.conditions).iter_mut();
            conditions.for_each(|condition| self.conditions.share(&mut condition.text));
        }
        if is_common {
            self.statuses.share(status);
        }
    }
}

/// What is kept of parts that objects share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedSize {
    /// How many distinct parts the table has.
    pub n_parts: usize,
    /// What is in them, in bytes.
    pub n_bytes: usize,
}

/// All empty lists are one.
fn share_empty<T>(list: &mut Arc<[T]>) {
    if list.is_empty() {
        *list = Arc::default();
    }
}

/// Something that can be kept once: a handle on content that many may hold.
trait Part: Clone {
    /// Equal for equal parts; need not differ for others.
    fn hash_content(&self, hasher: &mut ContentHasher);
    /// Whether the two are equal for every reader.
    fn is_same(&self, other: &Self) -> bool;
    /// How many handles there are on the content.
    fn n_holders(&self) -> usize;
}

/// Parts of one kind with hashes and sizes of their content.
#[derive(Debug)]
struct Table<T> {
    parts: HashTable<(PartDigest, T)>,
    n_bytes: usize,
    sweeps_at: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { parts: HashTable::new(), n_bytes: 0, sweeps_at: SWEPT_FROM }
    }
}

impl<T: Part> Table<T> {
    /// Replaces `part` by an equal one if there is one.
    fn replace(&self, part: &mut T) -> bool {
        self.replace_weighed(weigh(part), part)
    }

    fn replace_weighed(&self, weighed: PartDigest, part: &mut T) -> bool {
        let is_same =
            |(other, known): &(PartDigest, T)| other.hash == weighed.hash && known.is_same(part);
        let known = self.parts.find(place(weighed), is_same);
        let is_known = known.is_some();
        if let Some((_, known)) = known {
            *part = known.clone();
        }
        is_known
    }

    /// Replaces `part` by an equal one, or keeps it for those to come.
    fn share(&mut self, part: &mut T) {
        let weighed = weigh(part);
        if self.replace_weighed(weighed, part) {
            return;
        }
        if self.parts.len() >= self.sweeps_at {
            self.sweep();
        }
        self.n_bytes += weighed.n_bytes();
        let entry = (weighed, part.clone());
        self.parts.insert_unique(place(weighed), entry, |(weighed, _)| place(*weighed));
    }

    fn sweep(&mut self) {
        let n_bytes = &mut self.n_bytes;
        self.parts.retain(|(weighed, part)| {
            // The table is one of the holders: a part without another one is not in use.
            let is_held = part.n_holders() > 1;
            *n_bytes -= if is_held { 0 } else { weighed.n_bytes() };
            is_held
        });
        self.parts.shrink_to_fit(|(weighed, _)| place(*weighed));
        self.sweeps_at = SWEPT_FROM.max(self.parts.len() * 2);
    }

    fn size(&self) -> SharedSize {
        SharedSize { n_parts: self.parts.len(), n_bytes: self.n_bytes }
    }
}

impl Part for Labels {
    fn hash_content(&self, hasher: &mut ContentHasher) {
        self.hash(hasher);
    }

    fn is_same(&self, other: &Self) -> bool {
        self == other
    }

    fn n_holders(&self) -> usize {
        Self::n_holders(self)
    }
}

/// What an `Arc` holds that can be shared.
trait Content: PartialEq {
    /// As [`Part::hash_content`].
    fn hash_content(&self, hasher: &mut ContentHasher);

    /// As [`Part::is_same`]. Equality may be less: amounts are equal that are written differently.
    fn is_same(&self, other: &Self) -> bool {
        self == other
    }
}

impl<T: Content + ?Sized> Part for Arc<T> {
    fn hash_content(&self, hasher: &mut ContentHasher) {
        T::hash_content(self, hasher);
    }

    fn is_same(&self, other: &Self) -> bool {
        Self::ptr_eq(self, other) || T::is_same(self, other)
    }

    fn n_holders(&self) -> usize {
        Self::strong_count(self)
    }
}

macro_rules! hashed_as_a_whole {
    ($($content:ty),* $(,)?) => {$(
        impl Content for $content {
            fn hash_content(&self, hasher: &mut ContentHasher) {
                self.hash(hasher);
            }
        }
    )*};
}

hashed_as_a_whole!(
    str,
    ControllerRef,
    ConditionText,
    [Arc<str>],
    [(Arc<str>, Arc<str>)],
    [NodeImage],
    [Taint],
    [Toleration],
    [Volume],
);

impl Content for PodStatus {
    fn hash_content(&self, hasher: &mut ContentHasher) {
        (&self.phase, &self.nominated_node_name, &self.conditions).hash(hasher);
        // The claim that was made for the pod: no two pods have the same.
        self.resource_claim_statuses.hash(hasher);
    }
}

impl Content for PodSpec {
    fn hash_content(&self, hasher: &mut ContentHasher) {
        (&self.scheduler_name, self.priority, &self.node_selector, &self.tolerations).hash(hasher);
        (&self.host_ports, &self.images, &self.scheduling_gates, &self.pod_group).hash(hasher);
        self.resource_claims.hash(hasher);
        for affinity in [&self.pod_affinity, &self.pod_anti_affinity] {
            affinity.is_some().hash(hasher);
            affinity.iter().for_each(|affinity| affinity.hash_content(hasher));
        }
        self.node_affinity.is_some().hash(hasher);
        self.node_affinity.iter().for_each(|affinity| affinity.hash_content(hasher));
        for constraint in self.topology_spread_constraints.iter() {
            (constraint.max_skew, &constraint.topology_key, &constraint.selector).hash(hasher);
        }
    }
}

impl Content for PodAffinity {
    fn hash_content(&self, hasher: &mut ContentHasher) {
        self.required.hash(hasher);
        for preferred in self.preferred.iter() {
            (preferred.weight, &preferred.term).hash(hasher);
        }
    }
}

impl Content for NodeAffinity {
    fn hash_content(&self, hasher: &mut ContentHasher) {
        let required = self.required.iter().flat_map(|selector| selector.terms());
        required.flatten().for_each(|term| term.hash(hasher));
        for preferred in self.preferred.iter().flatten().flat_map(|terms| terms.iter()) {
            (preferred.weight, &preferred.term).hash(hasher);
        }
    }
}

impl Content for PodRequests {
    fn hash_content(&self, hasher: &mut ContentHasher) {
        (&self.accounted, &self.non_zero, &self.fit, &self.fit_score).hash(hasher);
    }

    /// Equal amounts may be written differently, and what is written is shown.
    fn is_same(&self, other: &Self) -> bool {
        self == other
            && is_same_text(&self.totals, &other.totals)
            && is_same_text(&self.spec_totals, &other.spec_totals)
            && is_same_text(&self.limits, &other.limits)
    }
}

impl Content for [(ResourceName, Quantity)] {
    fn hash_content(&self, hasher: &mut ContentHasher) {
        for (name, quantity) in self {
            (name, quantity.value()).hash(hasher);
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.len() == other.len() && is_same_text(self, other)
    }
}

/// Of lists of the same length.
fn is_same_text(one: &[(ResourceName, Quantity)], other: &[(ResourceName, Quantity)]) -> bool {
    let mut pairs = one.iter().zip(other.iter());
    pairs.all(|(a, b)| a.0 == b.0 && a.1.is_written_like(&b.1))
}

#[cfg(test)]
mod tests;
