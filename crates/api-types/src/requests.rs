//! What a pod asks for in total, by each of the reference's ways of counting (`docs/spec/plugins-node.md` §2.3, §2.4).
//!
//! Invariants: sums and maxima are formed on exact quantities and rounded up once, at the end; limits and ephemeral
//! containers never count as requests; a resource that was mentioned with zero stays mentioned.

mod claims;
#[cfg(test)]
mod tests;
mod totals;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::names::{self, is_pod_level_resource, is_scalar_resource};
use crate::options::CompileOptions;
use crate::quantity::Quantity;
use crate::resources::{
    DEFAULT_MEMORY_REQUEST, DEFAULT_MILLI_CPU_REQUEST, NonZeroRequest, ResourceName, Resources,
};
use crate::wire;

use claims::UnclaimedAmounts;
use totals::{Containers, Sums, Totals};

/// The total requests of one pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodRequests {
    /// What the pod takes on its node: for resized pods the status counts too. NodeResourcesBalancedAllocation scores by it.
    pub accounted: Resources,
    /// What the pod takes on its node, with defaults for CPU and memory where nothing is asked.
    pub non_zero: NonZeroRequest,
    /// What NodeResourcesFit filters by: specification only, nothing below zero.
    pub fit: Resources,
    /// What NodeResourcesFit scores by: containers only, pod-level resources and status ignored, defaults filled in.
    pub fit_score: Resources,
    /// Exact totals by name, status counted, pod-level resources never skipped. Two versions of a pod compared by them show
    /// whether it was scaled down.
    pub totals: Arc<[(ResourceName, Quantity)]>,
    /// Exact totals by name from the specification alone, pod-level resources never skipped.
    pub spec_totals: Arc<[(ResourceName, Quantity)]>,
    /// Exact limits by name, from the specification alone. Nothing is decided by them.
    pub limits: Arc<[(ResourceName, Quantity)]>,
    /// What of all these is the pod's overhead, and not asked for by its containers; `None` without any.
    pub overhead: Option<Arc<Resources>>,
    /// What is needed to add what claims take; only for pods with claims.
    unclaimed: Option<Arc<UnclaimedAmounts>>,
}

impl PodRequests {
    /// Counts the requests of `pod` in each of these ways, under the feature gates of `options`.
    pub fn from_wire(pod: &wire::Pod, options: &CompileOptions) -> Self {
        let view = View { pod, options, states: States::of(pod) };
        let has_status = !view.states.by_name.is_empty() || pod.status.resources.is_some();

        let plain = Count { uses_status: false, skips_pod_level: false, defaults: Defaults::NONE };
        let spec_totals = view.total(&plain);
        let totals = if has_status {
            view.total(&Count { uses_status: true, ..plain })
        } else {
            spec_totals.clone()
        };
        let skips_pod_level = !options.pod_level_resources;
        let is_pod_level_skipped = skips_pod_level && view.has_pod_level_requests();
        let fit_totals = if is_pod_level_skipped {
            view.total(&Count { skips_pod_level, ..plain })
        } else {
            spec_totals.clone()
        };
        let accounted_totals = if is_pod_level_skipped {
            view.total(&Count { uses_status: true, skips_pod_level, ..plain })
        } else {
            totals.clone()
        };
        let needs_defaults = view.lacks_some_default();
        let fit_score = if needs_defaults || view.has_pod_level_requests() {
            view.total(&Count { skips_pod_level: true, defaults: Defaults::BOTH, ..plain })
                .to_resources()
        } else {
            spec_totals.to_resources()
        };
        let accounted = accounted_totals.to_resources();
        let with_defaults = view.with_defaults(&accounted_totals, skips_pod_level, needs_defaults);
        let non_zero = with_defaults.as_ref().unwrap_or(&accounted_totals).to_non_zero();
        let unclaimed = view.may_have_claims().then(|| {
            let spec = Arc::new(fit_totals.clone().shrunk());
            let containers = if is_pod_level_skipped || !view.has_pod_level_requests() {
                spec.clone()
            } else {
                Arc::new(view.total(&Count { skips_pod_level: true, ..plain }).shrunk())
            };
            let accounted = if accounted_totals == *spec {
                spec.clone()
            } else {
                Arc::new(accounted_totals.shrunk())
            };
            let with_defaults = with_defaults.map(|totals| Arc::new(totals.shrunk()));
            Arc::new(UnclaimedAmounts {
                with_defaults: with_defaults.unwrap_or_else(|| accounted.clone()),
                accounted,
                spec,
                containers,
                pod_level: if skips_pod_level { Box::default() } else { view.pod_level_names() },
            })
        });
        let mut fit = fit_totals.to_resources();
        raise_to_zero(&mut fit);
        let spec_totals = spec_totals.into_shared();
        let totals = if has_status { totals.into_shared() } else { spec_totals.clone() };
        let limits = view.limits();
        // Pods that ask for exactly their limits are common.
        let limits =
            if *limits == *spec_totals { spec_totals.clone() } else { limits.into_shared() };
        let overhead = overhead(pod);
        Self {
            accounted,
            non_zero,
            fit,
            fit_score,
            totals,
            spec_totals,
            limits,
            overhead,
            unclaimed,
        }
    }

    /// The exact total of `name`, status counted.
    pub fn total(&self, name: &str) -> Option<&Quantity> {
        find(&self.totals, name)
    }

    /// The exact total of `name` by the specification alone.
    pub fn spec_total(&self, name: &str) -> Option<&Quantity> {
        find(&self.spec_totals, name)
    }
}

fn find<'a>(totals: &'a [(ResourceName, Quantity)], name: &str) -> Option<&'a Quantity> {
    let at = totals.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
    totals.get(at).map(|(_, amount)| amount)
}

fn overhead(pod: &wire::Pod) -> Option<Arc<Resources>> {
    let overhead = &pod.spec.overhead;
    (!overhead.is_empty()).then(|| Arc::new(Totals::of(overhead).to_resources()))
}

fn raise_to_zero(resources: &mut Resources) {
    resources.milli_cpu = resources.milli_cpu.max(0);
    resources.memory = resources.memory.max(0);
    resources.ephemeral_storage = resources.ephemeral_storage.max(0);
    for (_, amount) in &mut resources.scalars {
        *amount = (*amount).max(0);
    }
}

/// Adds one amount to a vector in the scheduler's units; names the scheduler does not count are dropped.
pub(crate) fn add_amount(resources: &mut Resources, name: &ResourceName, amount: &Quantity) {
    match &**name {
        names::CPU => resources.milli_cpu = resources.milli_cpu.wrapping_add(amount.milli_value()),
        names::MEMORY => resources.memory = resources.memory.wrapping_add(amount.value()),
        names::EPHEMERAL_STORAGE => {
            resources.ephemeral_storage = resources.ephemeral_storage.wrapping_add(amount.value());
        }
        name_text => {
            if is_scalar_resource(name_text) {
                let place = resources.scalar_mut(name);
                *place = place.wrapping_add(amount.value());
            }
        }
    }
}

/// Which defaults stand in for a container that does not mention a resource.
#[derive(Clone, Copy)]
struct Defaults {
    cpu: bool,
    memory: bool,
}

impl Defaults {
    const NONE: Self = Self { cpu: false, memory: false };
    const BOTH: Self = Self { cpu: true, memory: true };

    fn fill(self, requests: &mut Totals) {
        if self.cpu {
            requests.fill(names::CPU, || Quantity::from_milli(DEFAULT_MILLI_CPU_REQUEST));
        }
        if self.memory {
            requests.fill(names::MEMORY, || Quantity::from_units(DEFAULT_MEMORY_REQUEST));
        }
    }
}

/// One way of counting.
#[derive(Clone, Copy)]
struct Count {
    uses_status: bool,
    skips_pod_level: bool,
    defaults: Defaults,
}

/// What the status says about running containers.
struct States<'a> {
    /// States that carry resources, by container name; those of init containers win.
    by_name: BTreeMap<&'a str, &'a wire::ContainerStatus>,
    /// A resize that cannot be done: what the specification wants does not count.
    is_infeasible: bool,
}

impl<'a> States<'a> {
    fn of(pod: &'a wire::Pod) -> Self {
        // Whatever has no resources still hides an earlier state of the same name.
        let all =
            pod.status.container_statuses.iter().chain(pod.status.init_container_statuses.iter());
        let mut by_name: BTreeMap<&str, &wire::ContainerStatus> =
            all.map(|state| (&*state.name, state)).collect();
        by_name.retain(|_, state| state.resources.is_some());
        let resize =
            pod.status.conditions.iter().find(|condition| &*condition.kind == "PodResizePending");
        Self {
            by_name,
            is_infeasible: resize.is_some_and(|condition| &*condition.reason == "Infeasible"),
        }
    }

    /// The largest of what is wanted, in effect and set aside.
    fn effective(
        &self,
        wanted: &wire::ResourceList,
        actual: &wire::ResourceList,
        allocated: &wire::ResourceList,
    ) -> Totals {
        let mut largest = Sums::default();
        largest.raise_to(actual);
        largest.raise_to(allocated);
        if !self.is_infeasible {
            largest.raise_to(wanted);
        }
        largest.into_totals()
    }
}

struct View<'a> {
    pod: &'a wire::Pod,
    options: &'a CompileOptions,
    states: States<'a>,
}

impl View<'_> {
    fn total(&self, count: &Count) -> Totals {
        let spec = &self.pod.spec;
        let mut all = Containers::default();
        for container in spec.containers.iter() {
            all.add(&self.container(container, count.uses_status, count.defaults));
        }
        for container in spec.init_containers.iter() {
            let stays = container.is_restartable();
            let requests = self.container(container, count.uses_status && stays, count.defaults);
            all.start(&requests, stays);
        }
        let mut total = all.into_total();
        if !count.skips_pod_level {
            self.replace_by_pod_level(&mut total, count.uses_status);
        }
        total.add(&spec.overhead);
        total.into_totals()
    }

    /// Limits by the same way of counting, but that overhead raises only what is limited.
    fn limits(&self) -> Totals {
        let spec = &self.pod.spec;
        let mut all = Containers::default();
        for container in spec.containers.iter() {
            all.add(&container.resources.limits);
        }
        for container in spec.init_containers.iter() {
            all.start(&container.resources.limits, container.is_restartable());
        }
        let mut total = all.into_total();
        for (name, limit) in spec.resources.iter().flat_map(|resources| resources.limits.iter()) {
            if is_pod_level_resource(name) {
                total.set(name, limit.clone());
            }
        }
        for (name, amount) in spec.overhead.iter() {
            if let Some(limit) = total.get(name).filter(|limit| !limit.is_zero()) {
                let mut limit = limit.clone();
                limit.add(amount);
                total.set(name, limit);
            }
        }
        total.into_totals()
    }

    fn container(
        &self,
        container: &wire::Container,
        uses_status: bool,
        defaults: Defaults,
    ) -> Totals {
        let wanted = &container.resources.requests;
        let state = if uses_status { self.states.by_name.get(&*container.name) } else { None };
        let mut requests = match state.and_then(|state| Some((state, state.resources.as_ref()?))) {
            Some((state, resources)) => {
                self.states.effective(wanted, &resources.requests, &state.allocated_resources)
            }
            None => Totals::of(wanted),
        };
        defaults.fill(&mut requests);
        requests
    }

    fn has_pod_level_requests(&self) -> bool {
        self.pod_level_requests().iter().any(|(name, _)| is_pod_level_resource(name))
    }

    fn pod_level_requests(&self) -> &[(ResourceName, Quantity)] {
        self.pod.spec.resources.as_ref().map_or(&[], |resources| &*resources.requests)
    }

    fn replace_by_pod_level(&self, total: &mut Sums, uses_status: bool) {
        let Some(wanted) = &self.pod.spec.resources else { return };
        let status = &self.pod.status;
        let in_effect = match &status.resources {
            Some(actual) if uses_status && self.options.pod_level_in_place_scaling => self
                .states
                .effective(&wanted.requests, &actual.requests, &status.allocated_resources),
            _ => Totals::of(&wanted.requests),
        };
        for (name, _) in wanted.requests.iter().filter(|(name, _)| is_pod_level_resource(name)) {
            total.set(name, in_effect.get(name).cloned().unwrap_or_default());
        }
    }

    /// Whether some container may not mention CPU or memory.
    fn lacks_some_default(&self) -> bool {
        // What the specification mentions is lost to a resize that cannot be done.
        if self.states.is_infeasible && !self.states.by_name.is_empty() {
            return true;
        }
        let spec = &self.pod.spec;
        spec.containers.iter().chain(spec.init_containers.iter()).any(|container| {
            let requests = &container.resources.requests;
            requests.get(names::CPU).is_none() || requests.get(names::MEMORY).is_none()
        })
    }

    /// The totals with defaults for what the pod takes on its node, if that makes a difference.
    fn with_defaults(
        &self,
        accounted: &Totals,
        skips_pod_level: bool,
        needs_defaults: bool,
    ) -> Option<Totals> {
        let defaults = if !skips_pod_level && self.has_pod_level_requests() {
            let lacks = |name| accounted.get(name).is_none();
            Defaults { cpu: lacks(names::CPU), memory: lacks(names::MEMORY) }
        } else {
            Defaults::BOTH
        };
        (needs_defaults && (defaults.cpu || defaults.memory))
            .then(|| self.total(&Count { uses_status: true, skips_pod_level, defaults }))
    }

    fn may_have_claims(&self) -> bool {
        !self.pod.spec.resource_claims.is_empty()
            || !self.pod.status.node_allocatable_resource_claim_statuses.is_empty()
    }

    /// The resources that the pod asks for as a whole.
    fn pod_level_names(&self) -> Box<[ResourceName]> {
        let names = self.pod_level_requests().iter().map(|(name, _)| name);
        names.filter(|name| is_pod_level_resource(name)).cloned().collect()
    }
}
