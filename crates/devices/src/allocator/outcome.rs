//! From chosen devices to what stands in a claim's status (`docs/spec/plugins-dra.md` §8.11).

use std::sync::Arc;

use kube_scheduler_api_types::wire::{List, NodeSelector, NodeSelectorTerm, SelectorRequirement};

use crate::api::{Allocation, AllocationConfig, DeviceResult};
use crate::inventory::{DeviceRef, NodePools, NodeRef};

use super::plan::{ClaimPlan, Plan, RequestPlan};
use super::solution::ChosenDevice;
use super::{AllocationError, Allocator};

/// Writing down a device that a claim gets counts as so many steps, its tolerations and amounts apart.
const STEPS_OF_DEVICE: u64 = 8;

/// As how many steps [`assemble`] counts for this solution, where node selectors are not counted: for each device, and for each part of
/// each request's configuration.
pub(super) fn n_steps(
    plan: &Plan<'_>,
    results: &[Vec<ChosenDevice>],
    alternatives: &[Vec<usize>],
) -> u64 {
    let of_device = |one: &ChosenDevice| {
        let n_tolerations = plan.requests[one.request].exact.tolerations.len();
        let n_amounts = one.share.as_ref().map_or(0, |amounts| amounts.len());
        STEPS_OF_DEVICE + (n_tolerations + n_amounts) as u64
    };
    let n_of_devices: u64 = results.iter().flatten().map(of_device).sum();
    let of_claim = |(claim, chosen): (&ClaimPlan<'_>, &Vec<usize>)| {
        let n_names = claim.claim.config.iter().map(|config| 1 + config.requests.len());
        let n_names: usize = n_names.sum();
        let requests = requests(plan, claim, chosen);
        requests.map(|request| (1 + request.class.config.len() + n_names) as u64).sum::<u64>()
    };
    n_of_devices + plan.claims.iter().zip(alternatives).map(of_claim).sum::<u64>()
}

/// The allocations of all claims.
pub(super) fn assemble(
    allocator: &Allocator,
    node: NodeRef<'_>,
    pools: &NodePools,
    plan: &Plan<'_>,
    results: &[Vec<ChosenDevice>],
    alternatives: &[Vec<usize>],
    new_share_id: &mut dyn FnMut() -> Arc<str>,
) -> Result<Vec<Allocation>, AllocationError> {
    let mut allocations = Vec::with_capacity(plan.claims.len());
    for ((claim, chosen), alternatives) in plan.claims.iter().zip(results).zip(alternatives) {
        let inventory = allocator.inventory();
        let device = |chosen: &ChosenDevice| inventory.device(pools.devices[chosen.place]);
        let devices: Vec<DeviceRef<'_>> = chosen.iter().map(device).collect();
        let is_stable = inventory.features().is_stable();
        let node_selector = node_selector(node, &devices, is_stable).map_err(|n_terms| {
            AllocationError::Failed(format!(
                "create NodeSelector for claim {}: unsupported ResourceSlice.NodeSelector with {n_terms} terms",
                claim.claim.name
            ))
        })?;
        let has_conditions = inventory.features().binding_conditions;
        let results = chosen.iter().zip(&devices).map(|(chosen, device)| {
            let request = &plan.requests[chosen.request];
            result(request, chosen, *device, has_conditions, new_share_id)
        });
        allocations.push(Allocation {
            results: results.collect(),
            config: config(plan, claim, alternatives),
            node_selector,
            allocated_at: None,
        });
    }
    Ok(allocations)
}

fn result(
    request: &RequestPlan<'_>,
    chosen: &ChosenDevice,
    device: DeviceRef<'_>,
    has_conditions: bool,
    new_share_id: &mut dyn FnMut() -> Arc<str>,
) -> DeviceResult {
    let slice = device.slice();
    let conditions =
        |list: &Option<Vec<Arc<str>>>| if has_conditions { list.clone() } else { None };
    let amounts = chosen.share.as_ref().filter(|amounts| !amounts.is_empty());
    DeviceResult {
        request: request.full_name(),
        driver: slice.driver.clone(),
        pool: slice.pool.clone(),
        device: device.device.name.clone(),
        admin_access: request.has_admin_access,
        tolerations: request.exact.tolerations.clone(),
        binding_conditions: conditions(&device.device.binding_conditions),
        binding_failure_conditions: conditions(&device.device.binding_failure_conditions),
        share_id: chosen.share.as_ref().map(|_| new_share_id()),
        consumed_capacity: amounts.map(|amounts| {
            amounts.iter().map(|(name, amount)| (name.clone(), amount.clone())).collect()
        }),
    }
}

/// The requests of a claim with the alternatives that were chosen.
fn requests<'p, 'a>(
    plan: &'p Plan<'a>,
    claim: &'p ClaimPlan<'a>,
    chosen: &'p [usize],
) -> impl Iterator<Item = &'p RequestPlan<'a>> {
    let all = claim.requests.iter().zip(chosen);
    all.filter_map(move |(alternatives, at)| plan.requests.get(alternatives.range.start + at))
}

fn config(plan: &Plan<'_>, claim: &ClaimPlan<'_>, chosen: &[usize]) -> Vec<AllocationConfig> {
    let requests: Vec<&RequestPlan<'_>> = requests(plan, claim, chosen).collect();
    let mut all: Vec<AllocationConfig> = Vec::new();
    // Where the entries of every class begin, in the order of first use.
    let mut classes: Vec<(&Arc<str>, std::ops::Range<usize>)> = Vec::new();
    for request in &requests {
        let name = request.full_name();
        if let Some((_, range)) = classes.iter().find(|(class, _)| **class == request.class.name) {
            for entry in &mut all[range.clone()] {
                entry.requests.push(name.clone());
            }
            continue;
        }
        let start = all.len();
        all.extend(request.class.config.iter().map(|opaque| AllocationConfig {
            source: "FromClass".into(),
            requests: vec![name.clone()],
            opaque: opaque.clone(),
        }));
        classes.push((&request.class.name, start..all.len()));
    }
    for config in &claim.claim.config {
        let entry = || AllocationConfig {
            source: "FromClaim".into(),
            requests: config.requests.clone(),
            opaque: config.opaque.clone(),
        };
        if config.requests.is_empty() {
            all.push(entry());
            continue;
        }
        let named = requests.iter().filter(|request| request.is_named_by(&config.requests));
        all.extend(named.map(|_| entry()));
    }
    all
}

/// Where all devices can be used, or how many terms a selector has that cannot be combined.
fn node_selector(
    node: NodeRef<'_>,
    devices: &[DeviceRef<'_>],
    is_stable: bool,
) -> Result<Option<NodeSelector>, usize> {
    let mut term = NodeSelectorTerm::default();
    for device in devices {
        let reach = device.slice().reach_of(device.device);
        // As in the reference, the first device of a single node decides, and the terms of all others are dropped.
        if reach.node_name.is_some() || device.device.binds_to_node && !is_stable {
            let requirement = SelectorRequirement {
                key: "metadata.name".into(),
                operator: "In".into(),
                values: Some(List(vec![node.name.into()])),
            };
            let match_fields = List(vec![requirement]);
            term = NodeSelectorTerm { match_fields, ..NodeSelectorTerm::default() };
            return Ok(Some(NodeSelector { node_selector_terms: List(vec![term]) }));
        }
        let terms = reach.node_selector.as_ref().map(|selector| &*selector.node_selector_terms);
        match terms.unwrap_or_default() {
            [] => {}
            [only] => {
                add_missing(&only.match_fields, &mut term.match_fields.0);
                add_missing(&only.match_expressions, &mut term.match_expressions.0);
            }
            terms => return Err(terms.len()),
        }
    }
    let is_empty = term.match_fields.is_empty() && term.match_expressions.is_empty();
    Ok((!is_empty).then(|| NodeSelector { node_selector_terms: List(vec![term]) }))
}

/// Adds the requirements that are not there yet; the order of values does not count.
fn add_missing(from: &[SelectorRequirement], to: &mut Vec<SelectorRequirement>) {
    for requirement in from {
        if !to.iter().any(|known| is_same(known, requirement)) {
            to.push(requirement.clone());
        }
    }
}

fn is_same(a: &SelectorRequirement, b: &SelectorRequirement) -> bool {
    let values = |requirement: &SelectorRequirement| {
        let values = requirement.values.as_ref().map_or(&[][..], |values| values);
        values.iter().map(|value| value.0.clone()).collect::<std::collections::BTreeSet<_>>()
    };
    a.key == b.key && a.operator == b.operator && values(a) == values(b)
}
