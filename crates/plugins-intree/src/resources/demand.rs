//! What a pod needs of a node, and what a node is short of.
//!
//! Invariants: shortages come in a fixed order: pods, CPU, memory, ephemeral storage, then scalar resources by name; a
//! request of zero is never short, even on a node that is over-committed; a shortage is unresolvable when the whole node
//! could not hold the request. Two equal [`Shortages`] give equal statuses.
//!
//! Parity: of more than 50 scalar resources that a node is short of, a rejection names the first 50 and says how many more there are,
//! where the reference names all. They stand in the pod's condition, in an event and in the log, after each attempt: those of a pod that
//! asks for 12,000 take 313 KB.
//!
//! Behaviour in `docs/spec/plugins-node.md` §4.8.2.

use std::sync::Arc;

use kube_scheduler_framework::api::{Pod, Resources, is_extended_resource};
use kube_scheduler_framework::{Code, NodeView, Reason, Status};
use smallvec::SmallVec;

use super::resource::COMPUTE;

const TOO_MANY_PODS: &str = "Too many pods";
const SHORT_OF: [&str; 3] =
    ["Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage"];

/// So many scalar resources are named by one rejection.
const MAX_NAMED: usize = 50;

/// Extended resources that are not checked.
#[derive(Clone, Debug, Default)]
pub(super) struct IgnoredResources {
    pub(super) names: Vec<String>,
    /// Parts before the `/`.
    pub(super) groups: Vec<String>,
}

impl IgnoredResources {
    fn contains(&self, name: &str) -> bool {
        if self.names.is_empty() && self.groups.is_empty() || !is_extended_resource(name) {
            return false;
        }
        let group = name.split('/').next().unwrap_or_default();
        self.names.iter().any(|ignored| ignored == name)
            || self.groups.iter().any(|ignored| ignored == group)
    }
}

/// A scalar resource that a pod asks for.
#[derive(Clone, Debug)]
pub(super) struct ScalarDemand {
    pub(super) name: Arc<str>,
    /// Above zero.
    pub(super) amount: i64,
    reason: Reason,
}

/// What a pod asks for, without what need not be checked.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    /// In the order of [`COMPUTE`].
    pub(super) compute: [i64; 3],
    /// Sorted by name.
    pub(super) scalars: SmallVec<[ScalarDemand; 1]>,
}

impl Demand {
    pub(super) fn of(pod: &Pod, ignored: &IgnoredResources) -> Self {
        Self::of_resources(&pod.requests.fit, |name| !ignored.contains(name))
    }

    /// All that is asked for in `resources`, of scalar resources those that are `checked`.
    fn of_resources(resources: &Resources, is_checked: impl Fn(&str) -> bool) -> Self {
        let checked =
            resources.scalars.iter().filter(|(name, amount)| *amount != 0 && is_checked(name));
        let scalars = checked.map(|(name, amount)| ScalarDemand {
            name: name.clone(),
            amount: *amount,
            reason: format!("Insufficient {name}").into(),
        });
        let compute = [resources.milli_cpu, resources.memory, resources.ephemeral_storage];
        Self { compute, scalars: scalars.collect() }
    }

    /// What a node that has `allocatable` is short of with the pods on `node`, or without any pods. Not that it takes no more pods, and
    /// not the scalar resources that something else serves where the node has none.
    pub(super) fn add_shortages(
        &self,
        allocatable: &Resources,
        node: Option<&NodeView<'_>>,
        is_served: impl Fn(&str) -> bool,
        shortages: &mut Shortages,
    ) {
        // Not resource by resource: a call for each takes a hundredth of `bench core --workload PreemptionBasic`.
        let requested = node.map_or([0; 3], |node| {
            [
                node.requested_milli_cpu(),
                node.requested_memory(),
                node.requested_ephemeral_storage(),
            ]
        });
        let compute = COMPUTE.iter().zip(self.compute).zip(requested);
        for (what, ((resource, request), requested)) in (Shortages::CPU..).zip(compute) {
            shortages.check(what, request, resource.of(allocatable), requested);
        }
        for (what, scalar) in (Shortages::FIRST_SCALAR..).zip(&self.scalars) {
            let capacity = allocatable.scalar(&scalar.name).unwrap_or(0);
            if capacity > 0 || !is_served(&scalar.name) {
                let requested = node.map_or(0, |node| node.requested_scalar(&scalar.name));
                shortages.check(what, scalar.amount, capacity, requested);
            }
        }
    }

    /// Success, or the rejection for `shortages`.
    pub(super) fn answer(&self, shortages: &Shortages) -> Status {
        if shortages.is_empty() { Status::SUCCESS } else { self.rejection(shortages) }
    }

    /// The rejection for `shortages`.
    pub(super) fn rejection(&self, shortages: &Shortages) -> Status {
        // Sorted, so that scalar resources come last.
        let n_others = shortages.of.partition_point(|&at| at < Shortages::FIRST_SCALAR);
        let n_named = shortages.of.len().min(n_others + MAX_NAMED);
        let (named, more) = shortages.of.split_at(n_named);
        let reasons = named.iter().map(|&at| match at {
            Shortages::PODS => TOO_MANY_PODS.into(),
            at if at < Shortages::FIRST_SCALAR => SHORT_OF[usize::from(at - Shortages::CPU)].into(),
            scalar => {
                let at = usize::from(scalar - Shortages::FIRST_SCALAR);
                self.scalars.get(at).map_or_else(|| "".into(), |scalar| scalar.reason.clone())
            }
        });
        let code = if shortages.is_unresolvable {
            Code::UnschedulableAndUnresolvable
        } else {
            Code::Unschedulable
        };
        let more = (!more.is_empty())
            .then(|| Reason::from(format!("Insufficient resources ({} more)", more.len())));
        Status::new(code, reasons.chain(more))
    }
}

/// Whether `node` has what is `needed` of CPU, memory, ephemeral storage and huge pages: success, or NodeResourcesFit's
/// rejection.
pub(crate) fn check_node_resources(needed: &Resources, node: &NodeView<'_>) -> Status {
    let demand = Demand::of_resources(needed, |name| name.starts_with("hugepages-"));
    let mut shortages = Shortages::default();
    demand.add_shortages(node.allocatable(), Some(node), |_| false, &mut shortages);
    demand.answer(&shortages)
}

/// What a node is short of, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shortages {
    of: SmallVec<[u16; 8]>,
    is_unresolvable: bool,
}

/// Whether a node with `n_pods` pods takes no further one.
#[inline]
pub(super) const fn is_full(n_pods: i64, allowed: i64) -> bool {
    n_pods >= allowed
}

/// Whether less than `request` is left of what is `allocatable`.
#[inline]
pub(super) const fn is_short(request: i64, allocatable: i64, requested: i64) -> bool {
    request > allocatable.wrapping_sub(requested)
}

impl Shortages {
    const PODS: u16 = 0;
    /// The first of the three of [`COMPUTE`].
    pub(super) const CPU: u16 = 1;
    pub(super) const FIRST_SCALAR: u16 = 4;

    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.of.clear();
        self.is_unresolvable = false;
    }

    /// Together with scalar resources that no node has.
    pub(super) fn and_nowhere(&self, nowhere: &[u16]) -> Self {
        let mut all = self.clone();
        all.of.extend_from_slice(nowhere);
        all.of.sort_unstable();
        all.is_unresolvable |= !nowhere.is_empty();
        all
    }

    /// The node takes no further pod. Never unresolvable, even when it takes none at all.
    #[inline]
    pub(super) fn check_pods(&mut self, n_pods: i64, allowed: i64) {
        if is_full(n_pods, allowed) {
            self.of.push(Self::PODS);
        }
    }

    /// Compares a request with what is left of `allocatable`.
    #[inline]
    pub(super) fn check(&mut self, what: u16, request: i64, allocatable: i64, requested: i64) {
        if request > 0 && is_short(request, allocatable, requested) {
            self.of.push(what);
            self.is_unresolvable |= request > allocatable;
        }
    }
}
