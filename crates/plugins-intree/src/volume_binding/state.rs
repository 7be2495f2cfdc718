//! What VolumeBinding stores from one extension point to the next.

use std::sync::Arc;

use super::claims::PodClaims;
use super::reservation::Reservation;

/// One pod's claims, and what is reserved for them.
#[derive(Clone, Debug, Default)]
pub(super) struct PodVolumes {
    /// From PreFilter.
    pub(super) claims: Arc<PodClaims>,
    /// From Reserve: there is nothing to bind.
    pub(super) is_all_bound: bool,
    pub(super) reserved: Option<(Arc<str>, Reservation)>,
}

impl PodVolumes {
    pub(super) fn new(claims: PodClaims) -> Self {
        Self { claims: Arc::new(claims), is_all_bound: false, reserved: None }
    }

    /// Keeps what is reserved on a node.
    pub(super) fn reserve(&mut self, node: &str, reservation: Reservation) {
        self.is_all_bound = false;
        self.reserved = Some((node.into(), reservation));
    }

    /// What is reserved on a node.
    pub(super) fn reserved_on(&self, node: &str) -> Option<&Reservation> {
        let (on, reservation) = self.reserved.as_ref()?;
        (**on == *node).then_some(reservation)
    }
}
