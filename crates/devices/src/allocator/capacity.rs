//! How much of a device's capacities a request takes, and whether that is left (`docs/spec/plugins-dra.md` §8.7).

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::Quantity;

use crate::api::{Device, DeviceCapacity, Map, ValidRange};

/// Amounts by capacity.
pub(super) type Amounts = BTreeMap<Arc<str>, Quantity>;

/// Whether a request may take its share of a device of which claims hold `committed` and other requests of the same
/// attempt `chosen`.
pub(super) fn fits(
    device: &Device,
    requested: Option<&Map<Quantity>>,
    committed: Option<&Amounts>,
    chosen: Option<&Amounts>,
) -> bool {
    let is_known = |(name, _): (&Arc<str>, &Quantity)| device.capacity.get(name).is_some();
    if requested.is_some_and(|requested| !requested.iter().all(is_known)) {
        return false;
    }
    device.capacity.iter().all(|(name, capacity)| {
        let requested = requested.and_then(|requested| requested.get(name));
        // All of it is asked for, and none is taken: no sums have to be made.
        if requested.is_none()
            && committed.is_none()
            && chosen.is_none()
            && capacity.request_policy.is_none()
        {
            return true;
        }
        let mut total = consumption(capacity, requested);
        if violates_policy(capacity, &total) {
            return false;
        }
        for taken in [committed, chosen].into_iter().flatten().filter_map(|taken| taken.get(name)) {
            total.add(taken);
        }
        total <= capacity.value
    })
}

/// What a request takes of all capacities of a device.
pub(super) fn consumed(device: &Device, requested: Option<&Map<Quantity>>) -> Amounts {
    let of = |(name, capacity): (&Arc<str>, &DeviceCapacity)| {
        let requested = requested.and_then(|requested| requested.get(name));
        (name.clone(), consumption(capacity, requested))
    };
    device.capacity.iter().map(of).collect()
}

fn consumption(capacity: &DeviceCapacity, requested: Option<&Quantity>) -> Quantity {
    let policy = capacity.request_policy.as_ref();
    let Some(requested) = requested else {
        return policy
            .and_then(|policy| policy.default.clone())
            .unwrap_or_else(|| capacity.value.clone());
    };
    let Some(policy) = policy else { return requested.clone() };
    if let Some(range @ ValidRange { min: Some(min), .. }) = &policy.valid_range {
        return in_range(requested, min, range.step.as_ref());
    }
    let large_enough = policy.valid_values.iter().find(|value| *value >= requested);
    large_enough.unwrap_or(requested).clone()
}

/// A share of at least `min` that is a whole number of steps above it.
fn in_range(requested: &Quantity, min: &Quantity, step: Option<&Quantity>) -> Quantity {
    if requested < min {
        return min.clone();
    }
    let Some(step) = step.map(Quantity::value).filter(|step| *step != 0) else {
        return requested.clone();
    };
    let (min, requested) = (min.value(), requested.value());
    let beyond = requested.wrapping_sub(min);
    let mut n_steps = beyond.wrapping_div(step);
    if beyond.wrapping_rem(step) != 0 {
        n_steps = n_steps.wrapping_add(1);
    }
    Quantity::from_binary_units(min.wrapping_add(step.wrapping_mul(n_steps)))
}

fn violates_policy(capacity: &DeviceCapacity, consumption: &Quantity) -> bool {
    let Some(policy) = &capacity.request_policy else { return false };
    if policy.default.as_ref() == Some(consumption) {
        return false;
    }
    if let Some(range) = &policy.valid_range {
        if range.max.as_ref().is_some_and(|max| consumption > max) {
            return true;
        }
        let step = range.step.as_ref().map(Quantity::value).filter(|step| *step != 0);
        let min = range.min.as_ref().map_or(0, Quantity::value);
        return step
            .is_some_and(|step| consumption.value().wrapping_sub(min).wrapping_rem(step) != 0);
    }
    !policy.valid_values.is_empty() && !policy.valid_values.contains(consumption)
}
