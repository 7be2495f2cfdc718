//! What devices of a claim must have in common, or must not (`docs/spec/plugins-dra.md` §8.10).
//!
//! Distinct attributes differ between all devices in scope: issue 140438 of the reference is done right here (§19).

use std::sync::Arc;

use crate::api::{Attribute, Constraint};
use crate::inventory::DeviceRef;

use super::plan::RequestPlan;

/// The state of one constraint during a search.
pub(super) struct ConstraintState<'a> {
    /// The requests it is about; empty means all.
    requests: &'a [Arc<str>],
    pub(super) attribute: &'a str,
    must_differ: bool,
    /// The values of all devices in scope, in the order in which they were chosen.
    values: Vec<&'a Attribute>,
}

impl<'a> ConstraintState<'a> {
    pub(super) fn new(constraint: &'a Constraint) -> Self {
        let matching = constraint.match_attribute.as_ref();
        let attribute = matching.or(constraint.distinct_attribute.as_ref());
        Self {
            requests: &constraint.requests,
            attribute: attribute.map_or("", |name| &**name),
            must_differ: matching.is_none(),
            values: Vec::new(),
        }
    }

    pub(super) fn applies_to(&self, request: &RequestPlan<'_>) -> bool {
        self.requests.is_empty() || request.is_named_by(self.requests)
    }

    /// Adds a device that was chosen for `request`, unless the constraint forbids that.
    pub(super) fn add(&mut self, request: &RequestPlan<'_>, device: DeviceRef<'a>) -> bool {
        if !self.applies_to(request) {
            return true;
        }
        let Some(value) = self.acceptable(device) else { return false };
        self.values.push(value);
        true
    }

    /// Whether a device could be added for `request` now.
    pub(super) fn would_accept(&self, request: &RequestPlan<'_>, device: DeviceRef<'a>) -> bool {
        !self.applies_to(request) || self.acceptable(device).is_some()
    }

    /// The device's value, if the constraint allows it.
    fn acceptable(&self, device: DeviceRef<'a>) -> Option<&'a Attribute> {
        let value = device.device.attribute(&device.slice().driver, self.attribute)?;
        let accepts = match (self.values.first(), self.must_differ) {
            (None, _) => true,
            (Some(_), _) if !is_comparable(value) => false,
            (Some(first), false) => *first == value,
            (Some(_), true) => !self.values.contains(&value),
        };
        accepts.then_some(value)
    }

    /// Takes back the device added last for `request`.
    pub(super) fn remove_last(&mut self, request: &RequestPlan<'_>) {
        if self.applies_to(request) {
            self.values.pop();
        }
    }
}

/// Whether values of this type can be compared.
pub(super) fn is_comparable(value: &Attribute) -> bool {
    matches!(
        value,
        Attribute::String(_) | Attribute::Int(_) | Attribute::Bool(_) | Attribute::Version(_)
    )
}
