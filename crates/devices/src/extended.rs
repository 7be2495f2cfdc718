//! Extended resources that device classes provide (`docs/spec/plugins-dra.md` §5.4 and §11).

use std::sync::Arc;

use kube_scheduler_api_types::{DEVICE_CLASS_PREFIX, KeyedMap, RequestMapping};

use crate::api::{AllocationMode, DeviceClass, DeviceRequest, ExactRequest, Request};

/// Which class provides which extended resource. Every class provides one named after itself; it may name another one,
/// which the newest class of those that name it provides.
///
/// What happens when two classes name the same resource follows the reference step by step, its oddities included: the
/// outcome depends on the order of changes.
#[derive(Clone, Debug, Default)]
pub struct ExtendedResources(KeyedMap<Arc<str>, Arc<DeviceClass>>);

impl ExtendedResources {
    /// The device class that provides the extended resource `resource`.
    pub fn class(&self, resource: &str) -> Option<&Arc<DeviceClass>> {
        self.0.get(resource)
    }

    /// Whether no class provides any resource.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes that a class was added, or that `old` was replaced by it.
    pub fn apply(&mut self, old: Option<&DeviceClass>, class: &Arc<DeviceClass>) {
        let explicit = &class.extended_resource_name;
        if let Some(holder) = self.0.get(explicit).filter(|_| !explicit.is_empty()) {
            let is_older = class.created < holder.created;
            let loses_tie = class.created == holder.created && class.name >= holder.name;
            if is_older || loses_tie {
                return;
            }
        }
        if let Some(old) = old {
            self.remove(old);
        }
        if !explicit.is_empty() {
            self.0.insert(explicit.clone(), class.clone());
        }
        self.0.insert(implicit_name(&class.name), class.clone());
    }

    /// Notes that a class was deleted: it provides its resources no longer.
    pub fn remove(&mut self, class: &DeviceClass) {
        self.0.remove(&class.extended_resource_name);
        self.0.remove(&implicit_name(&class.name));
    }
}

/// The resource that is named after a class.
fn implicit_name(class: &str) -> Arc<str> {
    format!("{DEVICE_CLASS_PREFIX}{class}").into()
}

/// The extended resources that one container of a pod requests.
#[derive(Clone, Debug)]
pub struct ContainerDemand {
    /// Name of the container.
    pub name: Arc<str>,
    /// Whether it ends before the others start: init containers but sidecars.
    pub is_short_lived: bool,
    /// All its requests, with those that are no whole 64-bit number absent; sorted by name.
    pub requests: Vec<(Arc<str>, Option<i64>)>,
}

/// The requests of a claim for extended resources, and which container uses which.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtendedClaim {
    /// The requests of the claim, sorted by name.
    pub requests: Vec<DeviceRequest>,
    /// Which container's resource each request serves.
    pub mappings: Vec<RequestMapping>,
}

/// One request while it is made.
struct Draft {
    container: usize,
    name: Arc<str>,
    count: i64,
}

impl ExtendedClaim {
    /// What a pod with these containers, init containers first, needs of the given resources, which come with the
    /// classes that provide them and sorted by name.
    pub fn new<'a>(
        containers: &[ContainerDemand],
        served: impl IntoIterator<Item = (&'a Arc<str>, &'a DeviceClass)>,
    ) -> Self {
        let mut claim = Self::default();
        for (resource, class) in served {
            claim.add(containers, resource, class);
        }
        claim.requests.sort_by(|a, b| a.name.cmp(&b.name));
        claim
    }

    fn add(&mut self, containers: &[ContainerDemand], resource: &Arc<str>, class: &DeviceClass) {
        let mut long_lived: Vec<Draft> = Vec::new();
        let mut mappings = Vec::new();
        let mapping = |container: usize, request: &Arc<str>| RequestMapping {
            container_name: containers[container].name.clone(),
            resource_name: resource.clone(),
            request_name: request.clone(),
        };
        for (at, amount, draft_name) in demands(containers, resource, false) {
            mappings.push(mapping(at, &draft_name));
            long_lived.push(Draft { container: at, name: draft_name, count: amount });
        }
        // What an init container needs is taken from containers that have not started, as far as that goes.
        let mut short_lived: Vec<Draft> = Vec::new();
        for (at, amount, draft_name) in demands(containers, resource, true) {
            let mut covered: i64 = 0;
            for later in long_lived.iter().filter(|later| later.container >= at) {
                mappings.push(mapping(at, &later.name));
                covered = covered.saturating_add(later.count);
                if covered >= amount {
                    break;
                }
            }
            if covered < amount {
                mappings.push(mapping(at, &draft_name));
                short_lived.push(Draft {
                    container: at,
                    name: draft_name,
                    count: amount - covered,
                });
            }
        }
        // Init containers run one after the other: the largest request serves them all.
        let largest = short_lived.iter().map(|draft| draft.count).max();
        let kept = short_lived.iter().find(|draft| Some(draft.count) == largest);
        if let Some(kept) = kept {
            for mapping in &mut mappings {
                if short_lived.iter().any(|draft| draft.name == mapping.request_name) {
                    mapping.request_name = kept.name.clone();
                }
            }
        }
        self.mappings.extend(mappings);
        let drafts = long_lived.iter().chain(kept);
        self.requests.extend(drafts.map(|draft| draft.request(&class.name)));
    }
}

impl Draft {
    fn request(&self, class: &Arc<str>) -> DeviceRequest {
        let exact = ExactRequest {
            device_class_name: class.clone(),
            allocation_mode: AllocationMode::ExactCount,
            count: self.count,
            ..ExactRequest::default()
        };
        DeviceRequest { name: self.name.clone(), request: Request::Exactly(exact) }
    }
}

/// The containers that request a resource, with the amount and the name of the request that would serve it.
fn demands(
    containers: &[ContainerDemand],
    resource: &str,
    is_short_lived: bool,
) -> impl Iterator<Item = (usize, i64, Arc<str>)> {
    let chosen = containers
        .iter()
        .enumerate()
        .filter(move |(_, container)| container.is_short_lived == is_short_lived);
    chosen.filter_map(move |(at, container)| {
        let place = container.requests.iter().position(|(name, _)| **name == *resource)?;
        let amount = container.requests[place].1.filter(|amount| *amount != 0)?;
        Some((at, amount, format!("container-{at}-request-{place}").into()))
    })
}
