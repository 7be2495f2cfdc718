//! PreFilter: what the pod's claims are and what has to be allocated (`docs/spec/plugins-dra.md` §7.2).

use std::sync::Arc;

use kube_scheduler_devices::api::{Request, ResourceClaim};
use kube_scheduler_devices::{Allocator, Classes};
use kube_scheduler_framework::api::selector::SelectorError;
use kube_scheduler_framework::api::validation::FieldPath;
use kube_scheduler_framework::api::{NodeSelector, Object, Pod};
use kube_scheduler_framework::{Context, ObjectStore, Status};

use super::extended::{self, Demand};
use super::inventory::Devices;
use super::resolve::{self, Resolved};
use super::settings::Settings;
use super::state::{GivenBack, PodClaim, PodDevices};
use super::{in_flight, kinds};

/// Makes the state of an attempt.
pub(super) struct Preparation<'a> {
    pub(super) settings: &'a Settings,
    pub(super) devices: &'a Devices,
    pub(super) cx: &'a Context<'a>,
    pub(super) pod: &'a Pod,
}

impl Preparation<'_> {
    /// What is known about the pod's claims; empty if it has none.
    ///
    /// # Errors
    /// Why the pod is rejected.
    pub(super) fn prepare(&self) -> Result<PodDevices, Status> {
        let cluster = self.cx.cluster();
        let objects = cluster.objects();
        self.devices.follow(objects);
        let resolved = resolve::claims_of(objects, &self.devices.claims, self.pod)
            .map_err(Status::unresolvable)?;
        let mut state = PodDevices::default();
        for claim in resolved {
            state.claims.push(self.claim(claim, false)?);
        }
        if let Some((demand, claim)) = self.special(objects)? {
            state.demand = Some(Arc::new(demand));
            state.claims.push(self.claim(claim, true)?);
        }
        if state.claims.is_empty() {
            return Ok(state);
        }
        let mut classes = Classes::default();
        let mut is_any_to_allocate = false;
        for claim in state.claims.iter().filter(|claim| !claim.is_allocated()) {
            if in_flight::contains(objects, &claim.flight) {
                return Err(Status::unresolvable(format!(
                    "resource claim {} is in the process of being allocated",
                    claim.claim.key()
                )));
            }
            is_any_to_allocate = true;
            if !claim.is_special {
                self.check_requests(objects, &claim.claim, &mut classes)?;
            }
        }
        if is_any_to_allocate {
            let demanded = state.demand.iter().flat_map(|demand| demand.classes());
            classes.extend(demanded.map(|class| (class.name.clone(), class.clone())));
            let (devices, selectors) =
                (self.devices.state(objects), self.devices.selectors.clone());
            state.classes = classes.clone();
            state.allocator = Some(Arc::new(Allocator::with_state(devices, classes, selectors)));
        }
        Ok(state)
    }

    /// The pod's demand for resources that classes serve, and the claim that stands for it.
    fn special(&self, objects: &ObjectStore) -> Result<Option<(Demand, Resolved)>, Status> {
        if !self.settings.serves_extended || !extended::may_need_claim(self.pod) {
            return Ok(None);
        }
        let resources = self.devices.resources(objects);
        let Some(demand) = Demand::new(self.pod, resources) else { return Ok(None) };
        let object = self
            .devices
            .special_claim(objects, self.pod)
            .or_else(|| extended::new_claim(self.pod, self.cx.now()));
        let Some(object) = object else { return Ok(None) };
        let claim = self.decoded(&object)?;
        Ok(Some((demand, (object, claim))))
    }

    fn decoded(&self, object: &Arc<Object>) -> Result<Arc<ResourceClaim>, Status> {
        self.devices.claims.get(object).map_err(|error| Status::unresolvable(error.to_string()))
    }

    fn claim(&self, (object, claim): Resolved, is_special: bool) -> Result<PodClaim, Status> {
        let allocation = claim.status.allocation.as_ref();
        let selector = allocation.and_then(|allocation| allocation.node_selector.as_ref());
        let reach = selector
            .map(|selector| NodeSelector::compile_strict(selector, &FieldPath::root()))
            .transpose()
            .map_err(|error: SelectorError| Status::error(error.to_string()))?
            .map(Arc::new);
        let given_back = GivenBack::of(self.cx.cluster().objects(), &object, &self.pod.uid);
        let flight = claim.uid.clone();
        Ok(PodClaim { object, claim, is_special, reach, given_back, flight, reserved: None })
    }

    /// Checks that the claim can be allocated as far as that does not depend on nodes, and adds the classes it names.
    fn check_requests(
        &self,
        objects: &ObjectStore,
        claim: &ResourceClaim,
        classes: &mut Classes,
    ) -> Result<(), Status> {
        for request in &claim.requests {
            match &request.request {
                Request::Exactly(exact) => {
                    self.add_class(objects, &request.name, &exact.device_class_name, classes)?;
                }
                Request::FirstAvailable(_) if !self.settings.features.prioritized_list => {
                    return Err(Status::unresolvable(format!(
                        "resource claim {}, request {}: has subrequests, but the DRAPrioritizedList feature is disabled",
                        claim.key(),
                        request.name
                    )));
                }
                Request::FirstAvailable(alternatives) => {
                    for alternative in alternatives {
                        let label = format!("{}/{}", request.name, alternative.name);
                        self.add_class(objects, &label, &alternative.device_class_name, classes)?;
                    }
                }
                Request::Unknown => {
                    return Err(Status::unresolvable(format!(
                        "resource claim {}, request {}: unknown request type",
                        claim.key(),
                        request.name
                    )));
                }
            }
        }
        Ok(())
    }

    fn add_class(
        &self,
        objects: &ObjectStore,
        label: &str,
        class: &Arc<str>,
        classes: &mut Classes,
    ) -> Result<(), Status> {
        if class.is_empty() {
            return Err(Status::error(format!("request {label}: unsupported request type")));
        }
        if classes.contains_key(class) {
            return Ok(());
        }
        let object = objects.get(kinds::GROUP, kinds::CLASS, "", class).ok_or_else(|| {
            Status::unresolvable(format!("request {label}: device class {class} does not exist"))
        })?;
        let decoded = self
            .devices
            .classes
            .get(object)
            .map_err(|error| Status::unresolvable(format!("request {label}: {error}")))?;
        classes.insert(class.clone(), decoded);
        Ok(())
    }
}
