//! What a node lacks for the requests of claims, counted device by device, to explain why nothing was found.
//!
//! The counts are by the rules of the search, asked about each device as if nothing else were chosen; only constraints look at
//! several devices of one request together. So a request may have enough devices left by these counts and still not be served:
//! together with others, or because its devices share counters.

use std::sync::Arc;

use super::plan::{RequestPlan, SelectionFailure, is_tainted};
use super::search::Search;
use super::{AllocationError, Allocator};
use crate::inventory::DeviceRef;

/// How many requests are counted.
const MAX_REQUESTS: usize = 8;

/// From how many devices the largest set that satisfies the constraints is looked for.
const MAX_SEEDS: usize = 16;

/// Why a device cannot be had for a request. The first reason counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DeviceObstacle {
    /// The selectors of the class do not match it.
    Class,
    /// The selectors of the request do not match it.
    Selector,
    /// It cannot be used on the node, or not with the features that are on.
    Unusable,
    /// It has a taint that the request does not tolerate.
    Taint,
    /// A claim has the device already.
    Use,
    /// What is left of the counters that it shares with other devices is not enough.
    Counters,
    /// What is left of its capacity is not enough.
    Capacity,
    /// It does not go with the others that are left, by the claim's constraints.
    Constraint,
}

/// What one request needs, and how many devices of the node are lost to each reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestCount {
    /// The claim, `namespace/name`.
    pub claim: String,
    /// The request, as `request` or `request/alternative`.
    pub request: Arc<str>,
    /// How many devices it needs; at least one if it asks for all.
    pub needed: usize,
    /// How many devices there are on the node, of all kinds.
    pub present: usize,
    /// How many of them can each be had.
    pub left: usize,
    /// How many of the others were lost to what.
    pub lost: Vec<(DeviceObstacle, usize)>,
}

/// Counts the devices for requests of the search's claims, in their order: for those that have too few left, or for all if none has,
/// and for a limited number of them. Must be called before the search starts.
pub(super) fn count(search: &mut Search<'_>) -> Result<Vec<RequestCount>, AllocationError> {
    let plan = search.plan;
    let mut counts = Vec::new();
    for (index, request) in plan.requests.iter().enumerate().take(MAX_REQUESTS) {
        let needed = if request.all.is_some() { request.n_needed.max(1) } else { request.n_needed };
        if needed > 0 {
            counts.push(search.count(index, request, needed)?);
        }
    }
    let is_short = |count: &RequestCount| count.left < count.needed;
    if counts.iter().any(is_short) {
        counts.retain(is_short);
    }
    Ok(counts)
}

impl<'a> Search<'a> {
    fn count(
        &mut self,
        index: usize,
        request: &RequestPlan<'a>,
        needed: usize,
    ) -> Result<RequestCount, AllocationError> {
        let mut lost: Vec<DeviceObstacle> = Vec::new();
        let mut left: Vec<usize> = Vec::new();
        for place in 0..self.pools.devices.len() {
            self.steps.take(1)?;
            match self.obstacle(request, place)? {
                Some(reason) => lost.push(reason),
                None => left.push(place),
            }
        }
        let n_agreeing = self.most_agreeing(index, &left)?;
        lost.extend(std::iter::repeat_n(DeviceObstacle::Constraint, left.len() - n_agreeing));
        lost.sort_unstable();
        Ok(RequestCount {
            claim: self.plan.claims[request.claim].claim.key(),
            request: request.full_name(),
            needed,
            present: self.pools.devices.len(),
            left: n_agreeing,
            lost: lost.chunk_by(|a, b| a == b).map(|same| (same[0], same.len())).collect(),
        })
    }

    /// What keeps the request from one device.
    fn obstacle(
        &mut self,
        request: &RequestPlan<'_>,
        place: usize,
    ) -> Result<Option<DeviceObstacle>, AllocationError> {
        let claim = self.plan.claims[request.claim].claim;
        let idx = self.pools.devices[place];
        let unselected = request.unselected(self.allocator, self.node, claim, idx, self.steps)?;
        let device = self.device(place);
        let reason = match unselected {
            Some(SelectionFailure::ByClass) => DeviceObstacle::Class,
            Some(SelectionFailure::ByRequest) => DeviceObstacle::Selector,
            Some(SelectionFailure::Unusable) => DeviceObstacle::Unusable,
            None if !self.allocator.supports(device) => DeviceObstacle::Unusable,
            None if is_tainted(self.allocator, request, device) => DeviceObstacle::Taint,
            None if self.is_in_use(request.claim, request, place) => DeviceObstacle::Use,
            None => match self.take_counters(place) {
                None => DeviceObstacle::Counters,
                Some(taken) => {
                    // Each device is looked at as if it were the only one.
                    if let Some(taken) = taken {
                        self.put_back_counters(taken);
                    }
                    if self.has_capacity(request, place) {
                        return Ok(None);
                    }
                    DeviceObstacle::Capacity
                }
            },
        };
        Ok(Some(reason))
    }

    /// How many of these devices satisfy the claim's constraints together: the most that are found when one of them comes first
    /// and the others follow in order.
    fn most_agreeing(&mut self, index: usize, places: &[usize]) -> Result<usize, AllocationError> {
        let plan = self.plan;
        let request = &plan.requests[index];
        if !self.is_constrained(request) {
            return Ok(places.len());
        }
        let mut most = 0;
        // A set that was found from one of its devices need not be looked for from another one.
        let mut is_known = vec![false; places.len()];
        for _ in 0..MAX_SEEDS {
            let Some(seed) = is_known.iter().position(|known| !known) else { break };
            self.steps.take(places.len() as u64)?;
            is_known[seed] = true;
            let mut n_agreeing = 0;
            for at in std::iter::once(seed).chain((0..places.len()).filter(|at| *at != seed)) {
                let device = self.device(places[at]);
                if self.add_to_constraints(request.claim, request, device) {
                    n_agreeing += 1;
                    is_known[at] = true;
                }
            }
            for _ in 0..n_agreeing {
                self.remove_from_constraints(request.claim, request);
            }
            most = most.max(n_agreeing);
        }
        Ok(most)
    }
}

impl Allocator {
    /// Whether devices of this kind can be had at all, with the features that are on.
    pub(super) fn supports(&self, device: DeviceRef<'_>) -> bool {
        device.device.consumes_counters.is_empty()
            || self.inventory().features().partitionable_devices
    }

    /// Whether several requests may have the device at once.
    pub(super) fn is_shared(&self, device: DeviceRef<'_>) -> bool {
        self.inventory().features().consumable_capacity && device.device.is_shareable()
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_api_types::Labels;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::tests::{Case, allocator, ask, case, usage};
    use super::super::{PodClaims, Steps, Thoroughness};
    use super::*;
    use crate::api::ResourceClaim;
    use crate::inventory::NodeRef;

    const DRIVER: &str = "gpu.example.com";

    /// Eight devices: of two models, one tainted, two that share a counter, one with a value of its own. Two are taken.
    fn some_devices(claim: Value) -> Case {
        let device = |name: &str, model: &str, numa: i64| json!({"name": name, "attributes": {"model": {"string": model}, "numa": {"int": numa}}});
        let mut tainted = device("tainted", "a", 0);
        tainted["taints"] = json!([{"key": "broken", "effect": "NoSchedule"}]);
        let part = |name: &str| {
            let mut part = device(name, "a", 0);
            part["consumesCounters"] =
                json!([{"counterSet": "set", "counters": {"slots": {"value": "2"}}}]);
            part
        };
        let mut large = device("large", "a", 0);
        large["allowMultipleAllocations"] = json!(true);
        large["capacity"] = json!({"memory": {"value": "4"}});
        let devices = json!([
            device("a0", "a", 0),
            device("a1", "a", 1),
            device("b0", "b", 0),
            device("used", "a", 0),
            tainted,
            part("part-0"),
            part("part-1"),
            large
        ]);
        let slice = |name: &str, field: &str, value: Value| {
            let mut slice = json!({"metadata": {"name": name}, "spec": {"driver": DRIVER, "nodeName": "n",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 2}}});
            slice["spec"][field] = value;
            slice
        };
        let counters = json!([{"name": "set", "counters": {"slots": {"value": "2"}}}]);
        let taken =
            |device: &str| json!({"request": "r", "driver": DRIVER, "pool": "p", "device": device});
        Case {
            slices: vec![
                slice("devices", "devices", devices),
                slice("counters", "sharedCounters", counters),
            ],
            claims: vec![claim],
            taken: vec![taken("used"), taken("part-0")],
        }
    }

    fn count_all(case: &Case) -> Result<Vec<RequestCount>, AllocationError> {
        let claims: Vec<ResourceClaim> = case
            .claims
            .iter()
            .map(|claim| ResourceClaim::from_json(&claim.clone().into()).unwrap())
            .collect();
        let labels = Labels::default();
        let node = NodeRef { name: "n", labels: &labels };
        let claims = PodClaims::new(claims.into_iter().map(Arc::new));
        allocator(case, &usage(case)).count(node, &claims, &Steps::new(1_000_000))
    }

    fn counted(spec: &Value) -> Vec<RequestCount> {
        let claim =
            json!({"metadata": {"namespace": "ns", "name": "c"}, "spec": {"devices": spec}});
        count_all(&some_devices(claim)).unwrap()
    }

    fn request(count: usize, rest: &Value) -> Value {
        let mut exactly =
            json!({"deviceClassName": "any", "allocationMode": "ExactCount", "count": count});
        for (key, value) in rest.as_object().into_iter().flatten() {
            exactly[key] = value.clone();
        }
        json!({"name": "r", "exactly": exactly})
    }

    #[test]
    fn every_device_is_lost_to_its_first_reason_or_left() {
        let selector = json!({"selectors": [{"cel": {"expression": "model=a"}}]});
        let [count] = &counted(&json!({"requests": [request(9, &selector)]}))[..] else { panic!() };
        assert_eq!((count.needed, count.present, count.left), (9, 8, 3));
        let lost = [
            (DeviceObstacle::Selector, 1),
            (DeviceObstacle::Taint, 1),
            (DeviceObstacle::Use, 2),
            (DeviceObstacle::Counters, 1),
        ];
        assert_eq!(count.lost, lost);
        let n_lost: usize = count.lost.iter().map(|(_, n)| n).sum();
        assert_eq!(n_lost + count.left, count.present);
    }

    #[test]
    fn capacity_and_constraints_count_among_what_is_left() {
        let much = json!({"capacity": {"requests": {"memory": "5"}}});
        let [count] = &counted(&json!({"requests": [request(9, &much)]}))[..] else { panic!() };
        assert!(count.lost.contains(&(DeviceObstacle::Capacity, 4)), "{count:?}");
        let spec = json!({
            "requests": [request(9, &Value::Null)],
            "constraints": [{"matchAttribute": "gpu.example.com/numa"}],
        });
        let [count] = &counted(&spec)[..] else { panic!() };
        // Of a0, a1, b0 and the large one, a1 has another value.
        assert_eq!((count.left, count.lost.last()), (3, Some(&(DeviceObstacle::Constraint, 1))));
    }

    #[test]
    fn only_requests_with_too_few_devices_are_named_if_there_are_any() {
        let named = |name: &str, count: usize| {
            let mut request = request(count, &Value::Null);
            request["name"] = name.into();
            request
        };
        let names = |requests: Value| -> Vec<String> {
            let counts = counted(&json!({"requests": requests}));
            counts.iter().map(|count| count.request.to_string()).collect()
        };
        assert_eq!(names(json!([named("few", 1), named("many", 9)])), ["many"]);
        assert_eq!(names(json!([named("some", 3), named("more", 3)])), ["some", "more"]);
        let many: Vec<Value> = (0..12).map(|at| named(&format!("r{at}"), 1)).collect();
        assert_eq!(names(json!(many)).len(), MAX_REQUESTS);
    }
    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        /// A request without alternatives that has too few devices left is never served, and every device is counted once.
        #[test]
        fn what_is_short_is_not_allocated(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let case = case(&bytes, false);
            let counts = count_all(&case).unwrap();
            let found = ask(&case, 1_000_000, Thoroughness::Direct).unwrap();
            for count in counts {
                let n_lost: usize = count.lost.iter().map(|(_, n)| n).sum();
                prop_assert_eq!(n_lost + count.left, count.present);
                let is_alternative = count.request.contains('/');
                prop_assert!(
                    is_alternative || count.left >= count.needed || found.is_none(),
                    "{:?} is short, but {:?} was found", count, found
                );
            }
        }
    }
}
