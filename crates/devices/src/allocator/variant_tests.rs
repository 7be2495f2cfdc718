//! What the reference's stable allocator does otherwise, and what is checked first without amounts.

use kube_scheduler_api_types::Labels;
use serde_json::{Value, json};

use super::tests::{Answer, Case, allocator_with, claim_of, claims_of, many, usage};
use super::*;
use crate::facts::DeviceFacts;
use crate::features::Features;
use crate::selectors::{ExpressionError, Selector};

/// Every selector asks whether the device can be had several times.
struct Shareable;

impl SelectorCompiler for Shareable {
    fn compile(&self, _: &str, _: &mut u64) -> Result<Box<dyn Selector>, ExpressionError> {
        Ok(Box::new(Self))
    }
}

impl Selector for Shareable {
    fn n_bytes(&self) -> usize {
        0
    }

    fn matches(&self, device: DeviceFacts<'_>, _: &mut u64) -> Result<bool, ExpressionError> {
        Ok(device.allow_multiple_allocations)
    }
}

fn with(features: Features, case: &Case) -> Answer {
    let claims = PodClaims::new(claims_of(case).into_iter().map(Arc::new));
    let labels = Labels::default();
    let node = NodeRef { name: "n", labels: &labels };
    let allocator = allocator_with(case, &usage(case), features, Arc::new(Shareable));
    allocator.allocate(node, &claims, &Steps::new(1_000), &mut || "share".into())
}

/// Amounts are off, and binding conditions as given: without them, the reference uses its stable allocator.
fn without_amounts(case: &Case, binding_conditions: bool) -> Answer {
    with(Features { consumable_capacity: false, binding_conditions, ..Features::default() }, case)
}

fn device(_: usize) -> Value {
    json!({"name": "d", "allowMultipleAllocations": true, "bindsToNode": true})
}

fn request(extra: Value) -> Value {
    let mut request =
        json!({"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, "name": "r"});
    request.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    request
}

fn exactly(extra: Value) -> Value {
    json!([{"name": "r", "exactly": request(extra)}])
}

fn failure(answer: Answer) -> String {
    match answer {
        Err(AllocationError::Failed(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_stable_allocator_ignores_amounts() {
    let amounts = json!({"capacity": {"requests": {"memory": "1"}}});
    let case = many(1, device, claim_of(exactly(amounts), json!([])));
    assert_eq!(
        failure(without_amounts(&case, true)),
        "claim default/c, request r: has capacity requests, but the DRAConsumableCapacity feature is disabled"
    );
    assert!(matches!(without_amounts(&case, false), Ok(Some(_))));
}

#[test]
fn the_stable_allocator_knows_no_distinct_attributes() {
    let constraints =
        json!([{"matchAttribute": "a/b"}, {"distinctAttribute": "gpu.example.com/numa"}]);
    let case = many(1, device, claim_of(exactly(json!({})), constraints));
    assert_eq!(without_amounts(&case, true), Ok(None));
    assert_eq!(
        failure(without_amounts(&case, false)),
        "claim default/c, constraint #1: empty constraint (unsupported constraint type?)"
    );
}

#[test]
fn the_stable_allocator_does_not_bind_allocations_to_nodes() {
    let mut case = many(1, device, claim_of(exactly(json!({})), json!([])));
    let spec = case.slices[0]["spec"].as_object_mut().unwrap();
    spec.remove("nodeName");
    spec.insert("allNodes".to_owned(), json!(true));
    let selector = |answer: Answer| answer.unwrap().unwrap().remove(0).node_selector;
    assert!(selector(without_amounts(&case, true)).is_some());
    assert!(selector(without_amounts(&case, false)).is_none());
}

#[test]
fn the_stable_allocator_shows_no_device_as_shareable() {
    let selectors = json!({"selectors": [{"cel": {"expression": "shareable"}}]});
    let case = many(1, device, claim_of(exactly(selectors), json!([])));
    assert!(matches!(without_amounts(&case, true), Ok(Some(_))));
    assert_eq!(without_amounts(&case, false), Ok(None));
}

#[test]
fn amounts_of_all_alternatives_are_looked_at_before_anything_else() {
    let amounts = json!({"name": "y", "capacity": {"requests": {"memory": "1"}}});
    let nothing = json!({"name": "x", "deviceClassName": "none"});
    let requests = json!([{"name": "r", "firstAvailable": [request(nothing), request(amounts)]}]);
    let case = many(1, device, claim_of(requests, json!([])));
    assert_eq!(
        failure(without_amounts(&case, true)),
        "claim default/c, subrequest y: has capacity requests, but the DRAConsumableCapacity feature is disabled"
    );
}
