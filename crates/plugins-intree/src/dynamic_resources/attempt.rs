//! PreFilter: what the pod's claims are and what has to be allocated (`docs/spec/plugins-dra.md` §7.2).

use std::sync::Arc;

use kube_scheduler_devices::api::{Allocation, Request, ResourceClaim};
use kube_scheduler_devices::{Allocator, Classes};
use kube_scheduler_framework::api::selector::SelectorError;
use kube_scheduler_framework::api::validation::FieldPath;
use kube_scheduler_framework::api::{NodeSelector, Object, Pod};
use kube_scheduler_framework::{Context, CycleState, ObjectStore, Status};

use super::extended::{self, Demand};
use super::group::{self, GroupClaims};
use super::resolve::{ResolvedClaim, is_controlled_by};
use super::shared::PluginData;
use super::state::{PodClaim, PodDevices, UnconfirmedWrite};
use super::{consumers, decoded, in_flight, kinds};

/// Makes the state of an attempt.
pub(super) struct Preparation<'a> {
    pub(super) shared: &'a PluginData,
    pub(super) cx: &'a Context<'a>,
    pub(super) state: &'a CycleState,
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
        let devices = &self.shared.devices;
        devices.follow(objects);
        let resolved = self.shared.claims_of(objects, self.pod).map_err(Status::unresolvable)?;
        let special = self.special(objects)?;
        let mut state = PodDevices::default();
        state.is_of_copy = objects.is_copy();
        state.group = self.shared.group_of(self.pod).cloned();
        let shared = GroupClaims::of(self.shared, cluster, self.pod)?;
        for claim in resolved {
            state.claims.push(self.claim(objects, claim, shared.as_ref())?);
        }
        if let Some((demand, claim)) = special {
            state.demand = Some(Arc::new(demand));
            state.claims.push(self.claim(objects, claim, None)?);
        }
        if state.claims.is_empty() {
            return Ok(state);
        }
        self.check_consumers(&state)?;
        let mut classes = Classes::default();
        for claim in state.to_allocate() {
            if in_flight::get(objects, &claim.flight).is_some() {
                return Err(Status::unresolvable(format!(
                    "resource claim {} is in the process of being allocated",
                    claim.claim.key()
                )));
            }
            if !claim.is_special {
                self.check_requests(objects, &claim.claim, &mut classes)?;
            }
        }
        if state.to_allocate().next().is_some() {
            let demanded = state.demand.iter().flat_map(|demand| demand.classes());
            classes.extend(demanded.map(|class| (class.name.clone(), class.clone())));
            let selectors = self.shared.devices.selectors.clone();
            state.classes = classes.clone();
            let allocator = Allocator::with_state(devices.state(objects), classes, selectors);
            state.allocator = Some(Arc::new(allocator));
        }
        Ok(state)
    }

    /// Checks that the pod may use its claims beside all that do.
    fn check_consumers(&self, state: &PodDevices) -> Result<(), Status> {
        // A claim that was generated for the pod has no other users.
        let is_used_alone = |claim: &&PodClaim| {
            !claim.is_special
                && claim.group.is_none()
                && !is_controlled_by(&claim.claim, &self.pod.uid)
        };
        let cluster = self.cx.cluster();
        let is_full = |claim: &&PodClaim| {
            consumers::is_full(self.shared, cluster, self.state, self.pod, &claim.claim)
        };
        match state.claims.iter().filter(is_used_alone).find(is_full) {
            Some(claim) => Err(Status::unresolvable(format!(
                "resource claim {} has as many users as it may have",
                claim.claim.key()
            ))),
            None => Ok(()),
        }
    }

    /// The pod's demand for resources that classes serve, and the claim that stands for it.
    fn special(&self, objects: &ObjectStore) -> Result<Option<(Demand, ResolvedClaim)>, Status> {
        if !self.shared.may_need_special_claim(self.pod) {
            return Ok(None);
        }
        let resources = self.shared.devices.resources(objects);
        let Some(demand) = Demand::new(self.pod, resources) else { return Ok(None) };
        let known = self.shared.devices.special_claim(objects, self.pod);
        let object = known.or_else(|| extended::new_claim(self.pod, self.cx.now()));
        let Some(object) = object else { return Ok(None) };
        let claim = decoded(&object)?;
        Ok(Some((demand, ResolvedClaim { object, claim, entry: None })))
    }

    fn claim(
        &self,
        objects: &ObjectStore,
        resolved: ResolvedClaim,
        shared: Option<&GroupClaims>,
    ) -> Result<PodClaim, Status> {
        let ResolvedClaim { object, claim, entry } = resolved;
        let pending = self.pending(objects, &claim)?;
        let allocation = claim.status.allocation.as_ref().or(pending.as_deref());
        let selector = allocation.and_then(|allocation| allocation.node_selector.as_ref());
        let reach = selector
            .map(|selector| NodeSelector::compile_strict(selector, &FieldPath::root()))
            .transpose()
            .map_err(|error: SelectorError| Status::error(error.to_string()))?
            .map(Arc::new);
        let flight = claim.uid.clone();
        let group = shared.zip(entry.as_ref()).and_then(|(shared, entry)| shared.consumer(entry));
        // What any member of a group gave back of a claim that they share counts.
        let write = match group {
            Some(_) => objects.unanswered_of_any(&object),
            None => objects.unanswered(&object, &self.pod.uid),
        };
        let given_back = UnconfirmedWrite::once(write.map(|write| write.ends(&object)));
        Ok(PodClaim {
            object,
            claim,
            is_special: entry.is_none(),
            group,
            reach,
            given_back,
            flight,
            pending,
            found: None,
            reserved: None,
            may_be_shared: false,
        })
    }

    /// What another member of the pod's group has reserved for the claim in the same group cycle, if that still stands.
    fn pending(
        &self,
        objects: &ObjectStore,
        claim: &ResourceClaim,
    ) -> Result<Option<Arc<Allocation>>, Status> {
        if claim.status.allocation.is_some() || !group::is_reserved_in_cycle(self.state, &claim.uid)
        {
            return Ok(None);
        }
        let Some(object) = in_flight::get(objects, &claim.uid) else { return Ok(None) };
        Ok(decoded(object)?.status.allocation.clone().map(Arc::new))
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
                    add_class(objects, &request.name, &exact.device_class_name, classes)?;
                }
                Request::FirstAvailable(_)
                    if !self.shared.settings.inventory.features.prioritized_list =>
                {
                    return Err(Status::unresolvable(format!(
                        "resource claim {}, request {}: has subrequests, but the DRAPrioritizedList feature is disabled",
                        claim.key(),
                        request.name
                    )));
                }
                Request::FirstAvailable(alternatives) => {
                    for alternative in alternatives {
                        let label = format!("{}/{}", request.name, alternative.name);
                        add_class(objects, &label, &alternative.device_class_name, classes)?;
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
}

fn decoded(claim: &Object) -> Result<Arc<ResourceClaim>, Status> {
    decoded::claim(claim).map_err(|error| Status::unresolvable(error.to_string()))
}

fn add_class(
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
    let object = kinds::class(objects, class).ok_or_else(|| {
        Status::unresolvable(format!("request {label}: device class {class} does not exist"))
    })?;
    let decoded = decoded::class(object)
        .map_err(|error| Status::unresolvable(format!("request {label}: {error}")))?;
    classes.insert(class.clone(), decoded);
    Ok(())
}
