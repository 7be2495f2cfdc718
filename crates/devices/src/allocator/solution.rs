//! What a search has found for claims: devices for their requests.

use super::capacity::Amounts;

/// A device chosen for a request.
#[derive(Clone, Debug)]
pub(super) struct ChosenDevice {
    /// The request, as a place in the plan.
    pub(super) request: usize,
    /// The device, as a place in the search order.
    pub(super) place: usize,
    /// What a share takes, if the device is shared.
    pub(super) share: Option<Amounts>,
}

/// A complete solution.
#[derive(Clone)]
pub(super) struct Solution {
    /// The devices of every claim.
    pub(super) results: Vec<Vec<ChosenDevice>>,
    /// For every request of every claim which alternative it got, counted from 0.
    pub(super) alternatives: Vec<Vec<usize>>,
}
