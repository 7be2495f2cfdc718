//! What pods ask for, so that it can be compared with a count of devices ([`Supply`](super::supply)).
//!
//! Only what a pod takes away from all others in any case counts: numbers of devices of a class. Requests for all devices, for admin
//! access or for a part of a device's capacity are left out, and so are those with alternatives.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::api::{AllocationMode, DeviceRequest, ExactRequest, Request, ResourceClaim};

use super::PodClaims;

/// The number of sorts of requests that are distinguished at most. Requests of further sorts are not counted.
const MAX_SORTS: usize = 16;
/// The number of bytes of selectors that count as one unit of work when they are compared.
const BYTES_BY_UNIT: usize = 64;

/// Sorts by their numbers, as bits.
pub(super) type SortSet = u64;

pub(super) fn has(set: SortSet, sort: usize) -> bool {
    set & (1_u64 << sort) != 0
}

/// The sorts of requests that pods make, numbered. Two requests are of one sort if they may be given the same devices: class,
/// selectors and tolerations are equal, and only the numbers of devices may differ.
#[derive(Clone, Debug, Default)]
pub struct Sorts {
    requests: Vec<ExactRequest>,
    n_compared: u64,
}

/// What a pod takes in any case: how many devices for requests of which sort.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs(SmallVec<[(usize, u64); 2]>);

impl Needs {
    /// Whether nothing is known of what it takes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, sort: usize, n: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == sort) {
            Some((_, sum)) => *sum = sum.saturating_add(n),
            None => self.0.push((sort, n)),
        }
    }

    /// How many devices it takes for requests of some sorts.
    pub(super) fn of(&self, set: SortSet) -> u64 {
        let of_set = self.0.iter().filter(|(sort, _)| has(set, *sort));
        of_set.fold(0_u64, |sum, (_, n)| sum.saturating_add(*n))
    }
}

impl Sorts {
    /// How many sorts there are.
    pub(super) fn n_sorts(&self) -> usize {
        self.requests.len()
    }

    /// The names of the classes that are requested, some more than once.
    pub fn classes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.requests.iter().map(|request| &request.device_class_name)
    }

    /// How much was compared to tell requests apart, in units of some nanoseconds.
    pub const fn n_compared(&self) -> u64 {
        self.n_compared
    }

    /// What a pod takes in any case if these claims, which no other pod uses and which have no devices yet, get theirs. No claim
    /// may come twice.
    pub fn needs_of<'c>(&mut self, claims: impl IntoIterator<Item = &'c ResourceClaim>) -> Needs {
        let mut needs = Needs::default();
        for request in claims.into_iter().flat_map(|claim| &claim.requests) {
            let Request::Exactly(exact) = &request.request else { continue };
            let n_taken = n_taken(exact);
            if n_taken == 0 {
                continue;
            }
            if let Some(sort) = self.number(exact) {
                needs.add(sort, n_taken);
            }
        }
        needs
    }

    /// The number of a request's sort, unless there are too many.
    fn number(&mut self, exact: &ExactRequest) -> Option<usize> {
        let texts = exact.selectors.iter().filter_map(|selector| selector.expression.as_ref());
        let n_bytes: usize = texts.map(|text| text.len()).sum();
        let n_numbers = 1 + exact.tolerations.len() + n_bytes / BYTES_BY_UNIT;
        let n_compared = n_numbers.saturating_mul(1 + self.requests.len());
        self.n_compared = self.n_compared.saturating_add(n_compared as u64);
        let is_same = |known: &ExactRequest| {
            known.device_class_name == exact.device_class_name
                && known.selectors == exact.selectors
                && known.tolerations == exact.tolerations
        };
        if let Some(known) = self.requests.iter().position(is_same) {
            return Some(known);
        }
        if self.requests.len() == MAX_SORTS {
            return None;
        }
        self.requests.push(ExactRequest {
            device_class_name: exact.device_class_name.clone(),
            selectors: exact.selectors.clone(),
            allocation_mode: AllocationMode::ExactCount,
            count: 1,
            tolerations: exact.tolerations.clone(),
            ..ExactRequest::default()
        });
        Some(self.requests.len() - 1)
    }

    /// A claim for one device of each sort, in their order.
    pub(super) fn claims(&self) -> PodClaims {
        PodClaims::new(self.requests.iter().map(|exact| {
            let request = Request::Exactly(exact.clone());
            let requests = vec![DeviceRequest { name: Arc::default(), request }];
            Arc::new(ResourceClaim { requests, ..ResourceClaim::default() })
        }))
    }

    /// The names of the classes of some sorts, each once.
    pub(super) fn classes_of(&self, set: SortSet) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = Vec::new();
        for (sort, name) in self.classes().enumerate() {
            if has(set, sort) && !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }
}

/// How many devices a request takes that nobody else can have then; zero if that cannot be said.
fn n_taken(exact: &ExactRequest) -> u64 {
    let is_counted = exact.allocation_mode == AllocationMode::ExactCount
        && exact.admin_access != Some(true)
        && exact.capacity.is_none()
        && exact.selectors.iter().all(|selector| selector.expression.is_some());
    if is_counted { u64::try_from(exact.count).unwrap_or(0) } else { 0 }
}
