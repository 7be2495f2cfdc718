//! The claims of one pod, and what is the same about them on all nodes.

use std::sync::{Arc, OnceLock};

use crate::api::{DeviceClass, Request, ResourceClaim};
use crate::selectors::{Column, SelectorTable};

/// The claims of one pod that are to be allocated together, in their order. Their selectors are looked up on the first node, and known on
/// all others that the same allocator is asked about.
pub struct PodClaims {
    claims: Vec<Arc<ResourceClaim>>,
    /// By request or alternative, in the order of a search.
    selectors: Box<[OnceLock<FoundSelectors>]>,
}

/// The selectors of one request, as they were found first.
struct FoundSelectors {
    table: Arc<SelectorTable>,
    class: Arc<DeviceClass>,
    selectors: Arc<[PlannedSelector]>,
}

/// A selector that devices have to pass.
pub(super) struct PlannedSelector {
    pub(super) column: Arc<Column>,
    /// Whose selector it is and which, for messages.
    pub(super) is_of_class: bool,
    pub(super) index: usize,
}

impl PodClaims {
    /// Claims, none of which is allocated yet. O(requests).
    pub fn new(claims: impl IntoIterator<Item = Arc<ResourceClaim>>) -> Self {
        let claims: Vec<_> = claims.into_iter().collect();
        let requests = claims.iter().flat_map(|claim| &claim.requests);
        let n_places = requests.map(|request| match &request.request {
            Request::FirstAvailable(alternatives) => alternatives.len(),
            _ => 1,
        });
        let selectors = (0..n_places.sum()).map(|_| OnceLock::new()).collect();
        Self { claims, selectors }
    }

    /// The claims to allocate, in their order.
    pub fn as_slice(&self) -> &[Arc<ResourceClaim>] {
        &self.claims
    }

    /// The selectors of a request, if they were found in this table and for this class.
    pub(super) fn selectors(
        &self,
        place: usize,
        table: &Arc<SelectorTable>,
        class: &Arc<DeviceClass>,
    ) -> Option<&Arc<[PlannedSelector]>> {
        let found = self.selectors.get(place)?.get()?;
        let is_same = Arc::ptr_eq(&found.table, table) && Arc::ptr_eq(&found.class, class);
        is_same.then_some(&found.selectors)
    }

    /// Keeps the selectors of a request, unless others were found before.
    pub(super) fn keep_selectors(
        &self,
        place: usize,
        table: &Arc<SelectorTable>,
        class: &Arc<DeviceClass>,
        selectors: &Arc<[PlannedSelector]>,
    ) {
        if let Some(kept) = self.selectors.get(place) {
            kept.get_or_init(|| FoundSelectors {
                table: table.clone(),
                class: class.clone(),
                selectors: selectors.clone(),
            });
        }
    }
}
