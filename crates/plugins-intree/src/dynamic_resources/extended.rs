//! Extended resources that device classes serve: the special claim that stands for them (`docs/spec/plugins-dra.md` §11).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use kube_scheduler_devices::api::{DeviceClass, DeviceRequest, Request, ResourceClaim};
use kube_scheduler_devices::{ContainerDemand, ExtendedClaim, ExtendedResources};
use kube_scheduler_framework::api::{
    Object, Pod, ResourceName, Resources, Timestamp, is_dra_extended_resource,
};
use kube_scheduler_framework::{ObjectStore, Status};
use serde_json::{Value, json};

use super::decoded::Decoded;
use super::kinds;
use crate::resources::device_classes;

const STALE: &str = "cannot schedule extended resource claim";
const NOT_THERE: &str = "cannot fit resource";

/// What of a pod's requests device classes may have to serve.
pub(super) struct Demand {
    /// Extended resources with what the pod requests in total, by name.
    resources: Vec<(ResourceName, i64)>,
    containers: Vec<ContainerDemand>,
    classes: Arc<ExtendedResources>,
}

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
    pub(super) fn on(&self, allocatable: &Resources) -> Result<Option<ExtendedClaim>, Status> {
        let mut served = Vec::new();
        for (name, _) in &self.resources {
            let there = allocatable.scalar(name);
            match self.classes.class(name) {
                Some(class) if there.unwrap_or(0) == 0 => served.push((name, &**class)),
                _ if there.is_none() => return Err(Status::unresolvable(NOT_THERE)),
                _ => {}
            }
        }
        let is_needed = !served.is_empty();
        Ok(is_needed.then(|| ExtendedClaim::new(&self.containers, served)))
    }
}

/// Whether the pod requests something that classes might serve. Errs on the side of yes: this is asked for every pod.
pub(super) fn may_need_claim(pod: &Pod) -> bool {
    device_classes::may_serve(pod)
}

/// The rejection of every node for a pod whose special claim is left over from an earlier attempt.
pub(super) fn stale() -> Status {
    Status::unresolvable(STALE)
}

/// What the containers request, init containers first.
fn containers(pod: &Pod) -> Vec<ContainerDemand> {
    let users = pod.spec.device_users.iter();
    let demands = users.map(|container| ContainerDemand {
        name: container.name.clone(),
        is_short_lived: container.is_short_lived,
        requests: container
            .requests
            .iter()
            .map(|(name, amount)| (name.clone(), amount.as_integer()))
            .collect(),
    });
    demands.collect()
}

/// The special claim of a pod, if an earlier attempt made one.
pub(super) fn find_claim(objects: &ObjectStore, pod: &Pod) -> Option<Arc<Object>> {
    let claims = objects.list_in(kinds::GROUP, kinds::CLAIM, &pod.namespace);
    let is_special = |object: &Object| {
        let metadata = &object.json["metadata"];
        metadata["annotations"][kinds::SPECIAL_ANNOTATION] == "true"
            && metadata["ownerReferences"].as_array().is_some_and(|owners| {
                owners.iter().any(|owner| {
                    owner["name"] == *pod.name
                        && owner["uid"] == *pod.uid
                        && owner["controller"] == true
                })
            })
    };
    let found = claims.into_iter().find(|object| is_special(object))?;
    kinds::claim(objects, &found.namespace, &found.name).cloned()
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
            "annotations": {kinds::SPECIAL_ANNOTATION: "true"},
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
    let requests = special.requests.iter().filter_map(request_json).collect();
    variant.set_field(&["spec", "devices", "requests"], Value::Array(requests));
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
/// Parity: in the reference it depends on the order of changes what becomes of classes that name the same resource
/// (`docs/spec/plugins-dra.md` §19). Here it depends on the classes alone: the newest one serves it, of equally old ones
/// the first by name, and every class serves the resource that is named after it.
pub(super) fn resources(
    objects: &ObjectStore,
    decoded: &Decoded<DeviceClass>,
) -> ExtendedResources {
    let list = objects.list(kinds::GROUP, kinds::CLASS);
    let mut classes: Vec<Arc<DeviceClass>> =
        list.filter_map(|object| decoded.get(object).ok()).collect();
    classes.sort_by(|a, b| a.created.cmp(&b.created).then_with(|| b.name.cmp(&a.name)));
    let mut resources = ExtendedResources::default();
    classes.iter().for_each(|class| resources.apply(None, class));
    resources
}
