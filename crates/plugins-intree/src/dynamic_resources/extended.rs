//! Extended resources that device classes serve: the special claim that stands for them (`docs/spec/plugins-dra.md` §11).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use kube_scheduler_devices::api::{DeviceClass, DeviceRequest, Request, ResourceClaim};
use kube_scheduler_devices::{ContainerDemand, ExtendedClaim, ExtendedResources};
use kube_scheduler_framework::api::{
    Json, Object, Pod, ResourceName, Resources, Timestamp, is_dra_extended_resource, lock,
};
use kube_scheduler_framework::columns::ResourceColumns;
use kube_scheduler_framework::{ClusterView, ObjectStore, Status};
use serde_json::{Value, json};
use smallvec::SmallVec;

use super::{decoded, kinds};
use crate::resources::device_classes;

const NOT_THERE: &str = "cannot fit resource";

/// What of a pod's requests device classes may have to serve.
pub(super) struct Demand {
    /// Extended resources with what the pod requests in total, by name.
    resources: Vec<(ResourceName, i64)>,
    containers: Vec<ContainerDemand>,
    classes: Arc<ExtendedResources>,
    /// The claims that were asked for, by the places of the resources that classes serve.
    claims: Mutex<Vec<(ServedResources, Arc<ExtendedClaim>)>>,
}

type ServedResources = SmallVec<[usize; 4]>;

/// This many claims of a pod are remembered: nodes have few different sets of device plugins.
const MAX_CLAIMS: usize = 8;

impl Demand {
    /// `None` if no class serves anything that the pod requests.
    pub(super) fn new(pod: &Pod, classes: Arc<ExtendedResources>) -> Option<Self> {
        let mut resources: Vec<(ResourceName, i64)> = pod
            .requests
            .fit
            .scalars
            .iter()
            .filter(|(name, amount)| *amount != 0 && is_dra_extended_resource(name))
            .cloned()
            .collect();
        resources.sort();
        resources.iter().any(|(name, _)| classes.class(name).is_some()).then(|| Self {
            resources,
            containers: containers(pod),
            classes,
            claims: Mutex::default(),
        })
    }

    /// The classes that may have to serve the pod.
    pub(super) fn classes(&self) -> impl Iterator<Item = &Arc<DeviceClass>> {
        self.resources.iter().filter_map(|(name, _)| self.classes.class(name))
    }

    /// What the special claim asks for on a node that has `allocatable`: nothing (which needs no claim) if device plugins
    /// serve all there.
    ///
    /// # Errors
    /// The rejection of a node that lacks a resource.
    pub(super) fn on(&self, allocatable: &Resources) -> Result<Option<Arc<ExtendedClaim>>, Status> {
        let mut served = ServedResources::new();
        for (at, (name, _)) in self.resources.iter().enumerate() {
            let there = allocatable.scalar(name);
            match self.classes.class(name) {
                Some(_) if there.unwrap_or(0) == 0 => served.push(at),
                _ if there.is_none() => return Err(Status::unresolvable(NOT_THERE)),
                _ => {}
            }
        }
        let is_needed = !served.is_empty();
        Ok(is_needed.then(|| self.claim(served)))
    }

    /// The same for all nodes, if it is: where no node has any of the resources itself, and classes serve all.
    pub(super) fn on_all(&self, allocatable: &ResourceColumns) -> Option<Arc<ExtendedClaim>> {
        let is_served_everywhere = |(name, _): &(ResourceName, i64)| {
            allocatable.scalar(name).is_none() && self.classes.class(name).is_some()
        };
        let are_all = self.resources.iter().all(is_served_everywhere);
        are_all.then(|| self.claim((0..self.resources.len()).collect()))
    }

    fn claim(&self, served: ServedResources) -> Arc<ExtendedClaim> {
        let mut claims = lock(&self.claims);
        if let Some((_, claim)) = claims.iter().find(|(known, _)| *known == served) {
            return claim.clone();
        }
        let resources = served.iter().filter_map(|at| {
            let name = &self.resources[*at].0;
            Some((name, &**self.classes.class(name)?))
        });
        let claim = Arc::new(ExtendedClaim::new(&self.containers, resources));
        if claims.len() == MAX_CLAIMS {
            claims.clear();
        }
        claims.push((served, claim.clone()));
        claim
    }
}

/// Whether classes serve something that the pod requests, as far as the classes tell without being decoded. O(classes), and reads
/// nothing else.
pub(super) fn is_served(cluster: ClusterView<'_>, pod: &Pod) -> bool {
    let scalars = &pod.requests.fit.scalars;
    scalars.iter().any(|(name, amount)| *amount != 0 && device_classes::serves(cluster, name))
}

/// What the containers request, init containers first.
fn containers(pod: &Pod) -> Vec<ContainerDemand> {
    let demands = pod.spec.device_users.iter().map(|container| {
        let (name, is_short_lived) = (container.name.clone(), container.is_short_lived);
        let requests = container.requests.iter();
        let requests = requests.map(|(name, amount)| (name.clone(), amount.as_integer())).collect();
        ContainerDemand { name, is_short_lived, requests }
    });
    demands.collect()
}

/// The claims that were made for extended resources, by the UID of the pod that owns them.
#[derive(Default)]
pub(super) struct SpecialClaims(BTreeMap<Arc<str>, BTreeMap<ClaimName, Arc<Object>>>);

/// Namespace and name.
type ClaimName = (Arc<str>, Arc<str>);

impl SpecialClaims {
    pub(super) fn add(&mut self, claim: &Arc<Object>) {
        for owner in pods_of_special(claim) {
            let name = (claim.namespace.clone(), claim.name.clone());
            self.0.entry(owner.into()).or_default().insert(name, claim.clone());
        }
    }

    pub(super) fn remove(&mut self, claim: &Object) {
        for owner in pods_of_special(claim) {
            let Some(claims) = self.0.get_mut(owner) else { continue };
            claims.remove(&(claim.namespace.clone(), claim.name.clone()));
            if claims.is_empty() {
                self.0.remove(owner);
            }
        }
    }

    /// The special claim of a pod, if an earlier attempt made one: the first by name.
    pub(super) fn of(&self, pod: &Pod) -> Option<&Arc<Object>> {
        self.0.get(&*pod.uid)?.values().find(|claim| is_owned_by(claim, pod))
    }
}

/// Whether a claim was made for the extended resources of a pod.
pub(super) fn is_claim_of(claim: &Object, pod: &Pod) -> bool {
    pods_of_special(claim).any(|uid| *uid == *pod.uid) && is_owned_by(claim, pod)
}

fn is_owned_by(claim: &Object, pod: &Pod) -> bool {
    *claim.namespace == *pod.namespace
        && owners(claim).any(|owner| owner["name"] == *pod.name && owner["uid"] == *pod.uid)
}

/// The UIDs of the controllers of a claim that was made for extended resources.
pub(super) fn pods_of_special(claim: &Object) -> impl Iterator<Item = &str> {
    let annotations = &claim.json["metadata"]["annotations"];
    let is_special = annotations[kinds::EXTENDED_RESOURCE_CLAIM] == "true";
    owners(claim).filter(move |_| is_special).filter_map(|owner| owner["uid"].as_str())
}

/// The owner references that are about controllers.
fn owners(claim: &Object) -> impl Iterator<Item = &Json> {
    let owners = claim.json["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().filter(|owner| owner["controller"] == true)
}

/// A special claim that exists in memory only, without requests. Its identity is a temporary one.
pub(super) fn new_claim(pod: &Pod, now: Timestamp) -> Option<Arc<Object>> {
    let json = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": kinds::CLAIM,
        "metadata": {
            "namespace": *pod.namespace,
            "name": kinds::SPECIAL_NAME,
            "generateName": format!("{}-extended-resources-", pod.name),
            "uid": *derived_uuid(&(&*pod.uid, now)),
            "annotations": {kinds::EXTENDED_RESOURCE_CLAIM: "true"},
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "Pod",
                "name": *pod.name,
                "uid": *pod.uid,
                "controller": true,
            }],
        },
        "spec": {},
    });
    Object::from_value(json).ok().map(Arc::new)
}

/// The special claim with what it asks for on a node.
pub(super) fn variant(claim: &ResourceClaim, special: &ExtendedClaim) -> ResourceClaim {
    ResourceClaim { requests: special.requests.clone(), ..claim.clone() }
}

/// The same as JSON.
pub(super) fn variant_object(object: &Object, special: &ExtendedClaim) -> Object {
    let mut variant = object.clone();
    let requests = special.requests.iter().filter_map(request_json).map(Json::from).collect();
    variant.set_field(&["spec", "devices", "requests"], requests);
    variant
}

fn request_json(request: &DeviceRequest) -> Option<Value> {
    let Request::Exactly(exact) = &request.request else { return None };
    Some(json!({
        "name": *request.name,
        "exactly": {
            "deviceClassName": *exact.device_class_name,
            "allocationMode": exact.allocation_mode.as_str(),
            "count": exact.count,
        },
    }))
}

/// A UUID that follows from `what`, which must be unique: the same attempt gets the same one again.
pub(super) fn derived_uuid(what: &impl Hash) -> Arc<str> {
    let half = |part: u8| {
        let mut hasher = DefaultHasher::new();
        part.hash(&mut hasher);
        what.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    let bits = half(0) << 64 | half(1);
    uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid().to_string().into()
}

/// Which class serves which resource.
///
/// Parity: in the reference it depends on the order of changes which of several classes that name the same resource counts
/// (`docs/spec/plugins-dra.md` §19). Here it depends on the classes alone: the newest one serves it, of equally old ones
/// the first by name, and every class serves the resource that is named after it.
pub(super) fn resources(objects: &ObjectStore) -> ExtendedResources {
    let list = objects.list(kinds::GROUP, kinds::CLASS);
    let mut classes: Vec<Arc<DeviceClass>> =
        list.filter_map(|object| decoded::class(object).ok()).collect();
    classes.sort_by(|a, b| a.created.cmp(&b.created).then_with(|| b.name.cmp(&a.name)));
    let mut resources = ExtendedResources::default();
    classes.iter().for_each(|class| resources.apply(None, class));
    resources
}
