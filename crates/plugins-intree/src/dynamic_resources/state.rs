//! What one attempt knows about the claims of its pod.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use kube_scheduler_devices::api::{Allocation, Consumer, Request, ResourceClaim};
use kube_scheduler_devices::{Allocator, Choices, Classes, ExtendedClaim, PodClaims, Steps};
use kube_scheduler_framework::api::{NodeResourceClaim, NodeSelector, Object, lock};
use kube_scheduler_framework::{Context, NodeIdx, NodeView, Status};

use rustc_hash::FxHashMap;

use super::answers::{Column, Question};
use super::extended::{self, Demand};
use super::following::FollowedAnswers;
use super::inventory::Devices;
use super::settings::{Settings, StepLimits};
use super::{group, kinds};

/// Every node is rejected for a pod whose special claim is left over from an earlier attempt.
const STALE: &str = "cannot schedule extended resource claim";

/// The claims of a pod from PreFilter to the end of its binding. Empty for a pod without.
#[derive(Clone, Default)]
pub(super) struct PodDevices {
    /// Whether a copy of the engine made it, where numbers of changes are others than in the original.
    pub(super) is_of_copy: bool,
    /// The name of the pod's group, if pods may use claims of their groups.
    pub(super) group: Option<Arc<str>>,
    /// The pod's claims in order, then the special claim for its extended resources, if it has one.
    pub(super) claims: Vec<PodClaim>,
    /// The answers about nodes, if pods of the same template may share them.
    pub(super) followed: Option<FollowedAnswers>,
    /// Absent if there is nothing to allocate, and while the state rests.
    pub(super) allocator: Option<Arc<Allocator>>,
    /// The classes that the claims to allocate name.
    pub(super) classes: Classes,
    /// What device classes may have to serve; absent without a special claim.
    pub(super) demand: Option<Arc<Demand>>,
    /// What Filter found. Shared by all copies: preemption tries nodes on copies, and finds the same there.
    found: Arc<Mutex<FilterFindings>>,
    /// What Reserve is to give the claims to allocate, in their order; absent for what it finds by itself.
    pub(super) choice: Option<Vec<Arc<Allocation>>>,
    /// What the special claim asks for on the chosen node; from Reserve on.
    pub(super) special: Option<Arc<ExtendedClaim>>,
    /// What the claims take of the chosen node's resources; from Reserve on.
    pub(super) node_resources: Arc<[NodeResourceClaim]>,
    /// Whether `node_resources` may have been written to the API server.
    pub(super) are_node_resources_written: bool,
    /// Whether Unreserve has run since Reserve.
    pub(super) is_given_back: bool,
}

/// One claim of the pod.
#[derive(Clone)]
pub(super) struct PodClaim {
    /// As it was read, or as it was written since.
    pub(super) object: Arc<Object>,
    /// The same, decoded.
    pub(super) claim: Arc<ResourceClaim>,
    /// Whether it stands for the pod's extended resources.
    pub(super) is_special: bool,
    /// The pod's group, if the claim is reserved for that instead of the pod.
    pub(super) group: Option<Arc<Consumer>>,
    /// Where the devices of an allocated claim can be used; `None` means everywhere.
    pub(super) reach: Option<Arc<NodeSelector>>,
    /// What an earlier attempt of the pod gave back.
    pub(super) given_back: UnconfirmedWrite,
    /// The UID under which it is in flight from Reserve on: a temporary one if the claim is created only then.
    pub(super) flight: Arc<str>,
    /// What another member of the pod's group has reserved for it in the same group cycle: nothing is searched for it.
    pub(super) pending: Option<Arc<Allocation>>,
    /// What was found for it on the chosen node; from Reserve on. Stays when Reserve is undone, for the next one.
    pub(super) found: Option<Arc<Allocation>>,
    /// What it gets; from Reserve until that is written or undone, if it was not allocated.
    pub(super) reserved: Option<Arc<Allocation>>,
    /// Whether other members of the pod's group may write what it gets, too.
    pub(super) may_be_shared: bool,
}

/// What an earlier attempt of the pod had written of a claim without waiting for the answer. The claim may be seen as it
/// was before that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnconfirmedWrite {
    /// Nothing, as far as this revision shows.
    Nothing,
    /// The pod's right to use the claim: it has to be written again, even if the claim still shows it.
    Reservation,
    /// The devices: this revision must not be used any more.
    Devices,
}

impl UnconfirmedWrite {
    /// For something that was written, which may end the revision that is seen.
    pub(super) fn once(is_end: Option<bool>) -> Self {
        match is_end {
            Some(true) => Self::Devices,
            Some(false) => Self::Reservation,
            None => Self::Nothing,
        }
    }
}

impl PodClaim {
    pub(super) fn is_allocated(&self) -> bool {
        self.claim.status.allocation.is_some()
    }

    /// What it has, or is about to get with another member of the pod's group.
    pub(super) fn allocation(&self) -> Option<&Allocation> {
        self.claim.status.allocation.as_ref().or(self.pending.as_deref())
    }

    /// Whether the API server does not have it yet.
    pub(super) fn is_in_memory(&self) -> bool {
        self.is_special && *self.object.name == *kinds::SPECIAL_NAME
    }

    /// Whether it names the pod among those who may use it, as far as this revision shows.
    pub(super) fn is_reserved_for(&self, pod_uid: &str) -> bool {
        self.claim.status.reserved_for.iter().any(|consumer| *consumer.uid == *pod_uid)
    }

    /// Whether the pod may use it, by itself or as a member of the group of this name.
    pub(super) fn may_be_used(&self, pod_uid: &str, group: Option<&Arc<str>>) -> bool {
        self.is_reserved_for(pod_uid)
            || group.is_some_and(|group| group::is_reserved_for(&self.claim, group))
    }
}

/// What Filter found.
#[derive(Default)]
pub(super) struct FilterFindings {
    /// What was found beside answers that are remembered, by node: only where devices take resources of nodes.
    pub(super) weighed: FxHashMap<NodeIdx, NodeOffer>,
    /// The answers to what the pod asks for, which differs with what its special claim asks for on a node.
    columns: Vec<(Option<Arc<ExtendedClaim>>, Arc<Column>)>,
    /// The claims to allocate, which differ in the same way.
    pub(super) claims: Vec<(Option<Arc<ExtendedClaim>>, Arc<PodClaims>)>,
    /// What may be chosen on the node for which others than the first choice are tried at the moment.
    pub(super) choices: Option<(NodeIdx, Arc<Choices>)>,
    /// Claims whose allocation some node cannot use, by place.
    pub(super) unavailable: BTreeSet<usize>,
    /// What all searches have taken.
    pub(super) searched: StepCount,
    /// What counting has taken.
    pub(super) counted: StepCount,
    /// Whether a search has failed for lack of steps left.
    pub(super) is_exhausted: bool,
}

/// How many steps were taken in an attempt.
#[derive(Default)]
pub(super) struct StepCount(u64);

impl StepCount {
    /// How many steps may be taken on the next node.
    pub(super) fn left(&self, limits: &StepLimits) -> u64 {
        limits.of_attempt.saturating_sub(self.0).min(limits.of_node)
    }

    /// Counts what is no longer left of `limit`.
    pub(super) fn count(&mut self, limit: u64, steps: &Steps) {
        self.0 = self.0.saturating_add(limit - steps.left());
    }
}

/// What the pod would get on a node, where devices take resources of nodes: this has to be computed for each pod.
#[derive(Clone)]
pub(super) struct NodeOffer {
    /// How well alternatives among the requests are served.
    pub(super) score: i64,
    /// What the claims take of the node's resources.
    pub(super) node_resources: Arc<[NodeResourceClaim]>,
}

impl PodDevices {
    pub(super) fn found(&self) -> MutexGuard<'_, FilterFindings> {
        // What a panic left behind is whole: entries are inserted at once.
        lock(&self.found)
    }

    /// What the claims take of a node's resources, as Filter found.
    pub(super) fn node_resources(&self, node: NodeIdx) -> Arc<[NodeResourceClaim]> {
        let found = self.found();
        found.weighed.get(&node).map(|weighed| weighed.node_resources.clone()).unwrap_or_default()
    }

    /// The claims to allocate.
    pub(super) fn to_allocate(&self) -> impl Iterator<Item = &PodClaim> {
        self.claims.iter().filter(|claim| claim.allocation().is_none())
    }

    /// The claims to allocate where the special claim asks for this.
    pub(super) fn claims_with(&self, special: Option<&Arc<ExtendedClaim>>) -> Arc<PodClaims> {
        let all = &mut self.found().claims;
        if let Some((_, claims)) = all.iter().find(|(known, _)| is_same(known.as_ref(), special)) {
            return claims.clone();
        }
        let claims = self.to_allocate().map(|claim| match special {
            Some(special) if claim.is_special => Arc::new(extended::variant(&claim.claim, special)),
            _ => claim.claim.clone(),
        });
        let claims = Arc::new(PodClaims::new(claims));
        all.push((special.cloned(), claims.clone()));
        claims
    }

    /// What the special claim asks for on a node; `None` if there is none, or it needs nothing.
    pub(super) fn special_on(
        &self,
        node: &NodeView<'_>,
    ) -> Result<Option<Arc<ExtendedClaim>>, Status> {
        let Some(demand) = &self.demand else { return Ok(None) };
        let Some(claim) = self.claims.iter().find(|claim| claim.is_special) else {
            return Ok(None);
        };
        if !claim.claim.requests.is_empty() {
            return Err(Status::unresolvable(STALE));
        }
        let needed = demand.on(node.allocatable())?;
        if needed.is_none() && !self.has_user_claims() || claim.is_allocated() {
            return Ok(None);
        }
        Ok(Some(needed.unwrap_or_default()))
    }

    /// What is known about nodes where the special claim asks for this.
    pub(super) fn column(
        &self,
        devices: &Devices,
        special: Option<&Arc<ExtendedClaim>>,
    ) -> Arc<Column> {
        let columns = &mut self.found().columns;
        let known = columns.iter().find(|(known, _)| is_same(known.as_ref(), special));
        if let Some((_, column)) = known {
            return column.clone();
        }
        let column = devices.answers(self.is_of_copy).to(Question {
            claims: self.to_allocate().map(|claim| claim.object.clone()).collect(),
            special: special.cloned(),
            classes: self.classes.clone(),
        });
        columns.push((special.cloned(), column.clone()));
        column
    }

    /// Whether all claims are to be allocated, and nothing of an earlier attempt is in the way.
    pub(super) fn are_all_open(&self) -> bool {
        self.claims.iter().all(|claim| {
            let is_stale = claim.is_special && !claim.claim.requests.is_empty();
            claim.allocation().is_none()
                && !is_stale
                && claim.given_back != UnconfirmedWrite::Devices
        })
    }

    /// What is searched on every node, if that is the same for all of them and nothing else is asked of them.
    pub(super) fn same_everywhere(
        &self,
        settings: &Settings,
        cx: &Context<'_>,
    ) -> Option<(&Allocator, Option<Arc<ExtendedClaim>>)> {
        let allocator = self.allocator.as_deref()?;
        if !self.are_all_open() || settings.weighs_nodes(allocator) {
            return None;
        }
        let special = match &self.demand {
            Some(demand) => Some(demand.on_all(cx.cluster().allocatable())?),
            None => None,
        };
        Some((allocator, special))
    }

    /// The claims without those for extended resources.
    pub(super) fn has_user_claims(&self) -> bool {
        self.claims.iter().any(|claim| !claim.is_special)
    }
}

/// Whether the same is asked of the special claim, as far as addresses tell.
fn is_same(one: Option<&Arc<ExtendedClaim>>, other: Option<&Arc<ExtendedClaim>>) -> bool {
    one.map(Arc::as_ptr) == other.map(Arc::as_ptr)
}

/// # Scores
impl PodDevices {
    /// Whether any claim leaves a choice between alternatives.
    pub(super) fn has_alternatives(&self) -> bool {
        let mut requests = self.claims.iter().flat_map(|claim| &claim.claim.requests);
        requests.any(|request| matches!(request.request, Request::FirstAvailable(_)))
    }

    /// How well the alternatives of claims that are allocated are served (`docs/spec/plugins-dra.md` §7.5).
    pub(super) fn allocated_score(&self) -> i64 {
        let allocated = self.claims.iter().filter_map(|claim| {
            let allocation = claim.allocation()?;
            Some(claim.claim.priority_score(allocation))
        });
        allocated.fold(0, i64::saturating_add)
    }
}
