//! Properties of allocations, against a naive model that tries everything and checks only complete solutions.

use std::collections::BTreeMap;

use kube_scheduler_api_types::{Labels, Quantity};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::api::{Attribute, DeviceResult, ResourceClaim, ResourceSlice};
use crate::facts::DeviceFacts;
use crate::features::Features;
use crate::inventory::Inventory;
use crate::selectors::{ExpressionError, Selector};

/// Selectors of the form `attribute=value`, for strings; `fail` is an error wherever it is evaluated.
struct Equality;

impl SelectorCompiler for Equality {
    fn compile(&self, expression: &str, _: &mut u64) -> Result<Box<dyn Selector>, ExpressionError> {
        struct Compiled(Option<(String, String)>);
        impl Selector for Compiled {
            fn n_bytes(&self) -> usize {
                0
            }

            fn matches(
                &self,
                device: DeviceFacts<'_>,
                _: &mut u64,
            ) -> Result<bool, ExpressionError> {
                let Some((name, value)) = &self.0 else { return Err("failed".to_owned().into()) };
                Ok(device.attributes.get(name) == Some(&Attribute::String(value.as_str().into())))
            }
        }
        let parts = expression.split_once('=');
        Ok(Box::new(Compiled(parts.map(|(name, value)| (name.to_owned(), value.to_owned())))))
    }
}

/// Random choices, shrinking towards the first one of each kind.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn below(&mut self, n: u8) -> u8 {
        self.0.next().copied().unwrap_or(0) % n
    }

    fn one_in(&mut self, n: u8) -> bool {
        self.below(n) == n - 1
    }
}

pub(super) struct Case {
    pub(super) slices: Vec<Value>,
    pub(super) claims: Vec<Value>,
    /// Allocations of other claims.
    pub(super) taken: Vec<Value>,
}

fn device(choices: &mut Choices<'_>, name: &str, has_counters: bool) -> Value {
    let model = ["a", "b"][choices.below(2) as usize];
    let mut device = json!({"name": name, "attributes": {"model": {"string": model}}});
    if !choices.one_in(4) {
        device["attributes"]["numa"] = json!({"int": choices.below(3)});
    }
    if choices.one_in(3) {
        device["allowMultipleAllocations"] = json!(true);
        device["capacity"] = json!({"memory": {"value": choices.below(5).to_string()}});
    }
    if has_counters && choices.below(2) == 1 {
        let amount = (1 + choices.below(3)).to_string();
        device["consumesCounters"] =
            json!([{"counterSet": "set", "counters": {"slots": {"value": amount}}}]);
    }
    if choices.one_in(8) {
        device["taints"] = json!([{"key": "broken", "effect": "NoSchedule"}]);
    }
    device
}

fn request(choices: &mut Choices<'_>, may_fail: bool) -> Value {
    let mut request = json!({
        "deviceClassName": "any", "allocationMode": "ExactCount", "count": choices.below(3),
    });
    match choices.below(4) {
        1 => request["selectors"] = json!([{"cel": {"expression": "model=a"}}]),
        2 => request["selectors"] = json!([{"cel": {"expression": "model=b"}}]),
        _ => {}
    }
    if may_fail && choices.one_in(12) {
        request["selectors"] = json!([{"cel": {"expression": "fail"}}]);
    }
    if choices.one_in(5) {
        request["capacity"] = json!({"requests": {"memory": choices.below(4).to_string()}});
    }
    if choices.one_in(6) {
        request["tolerations"] = json!([{"operator": "Exists"}]);
    }
    if may_fail && choices.one_in(6) {
        request["allocationMode"] = json!("All");
    }
    if may_fail && choices.one_in(8) {
        request["adminAccess"] = json!(true);
    }
    request
}

fn claim(choices: &mut Choices<'_>, index: usize, may_fail: bool) -> Value {
    let mut requests = Vec::new();
    for at in 0..1 + choices.below(2) {
        let name = format!("r{at}");
        if choices.one_in(4) {
            let mut first = request(choices, false);
            let mut second = request(choices, false);
            first["name"] = json!("x");
            second["name"] = json!("y");
            requests.push(json!({"name": name, "firstAvailable": [first, second]}));
        } else {
            requests.push(json!({"name": name, "exactly": request(choices, may_fail)}));
        }
    }
    let mut constraints = Vec::new();
    match choices.below(4) {
        1 => constraints.push(json!({"matchAttribute": "gpu.example.com/numa"})),
        2 => constraints.push(json!({"distinctAttribute": "gpu.example.com/numa"})),
        3 => {
            constraints.push(json!({"requests": ["r0"], "matchAttribute": "gpu.example.com/model"}))
        }
        _ => {}
    }
    json!({"metadata": {"namespace": "default", "name": format!("claim-{index}")},
           "spec": {"devices": {"requests": requests, "constraints": constraints}}})
}

/// A node with two pools and up to two claims. With `may_fail` there are also selectors that fail, requests for all
/// devices and admin access.
pub(super) fn case(bytes: &[u8], may_fail: bool) -> Case {
    let mut choices = Choices(bytes.iter());
    let claims =
        (0..1 + choices.below(2) as usize).map(|at| claim(&mut choices, at, may_fail)).collect();
    let mut slices = Vec::new();
    let mut taken = Vec::new();
    for pool in ["p0", "p1"] {
        let has_counters = choices.below(2) == 1;
        let n_devices = choices.below(4);
        let n_slices = 1 + u8::from(has_counters);
        let pool_json = json!({"name": pool, "generation": 1, "resourceSliceCount": n_slices});
        let names: Vec<String> = (0..n_devices).map(|at| format!("d{at}")).collect();
        let devices: Vec<Value> =
            names.iter().map(|name| device(&mut choices, name, has_counters)).collect();
        for (name, device) in names.iter().zip(&devices) {
            let result = |share: Option<Value>| {
                let mut result = json!({"request": "r", "driver": "gpu.example.com", "pool": pool, "device": name});
                if let Some(consumed) = share {
                    result["shareID"] = json!("s");
                    result["consumedCapacity"] = consumed;
                }
                result
            };
            match choices.below(6) {
                4 if device["allowMultipleAllocations"] == true => {
                    taken.push(result(Some(json!({"memory": "1"}))));
                }
                5 => taken.push(result(None)),
                _ => {}
            }
        }
        slices.push(json!({"metadata": {"name": format!("{pool}-devices")},
            "spec": {"driver": "gpu.example.com", "pool": pool_json, "nodeName": "n", "devices": devices}}));
        if has_counters {
            let total = choices.below(5).to_string();
            slices.push(json!({"metadata": {"name": format!("{pool}-counters")},
                "spec": {"driver": "gpu.example.com", "pool": pool_json, "nodeName": "n",
                         "sharedCounters": [{"name": "set", "counters": {"slots": {"value": total}}}]}}));
        }
    }
    Case { slices, claims, taken }
}

pub(super) fn usage(case: &Case) -> Usage {
    let holder = json!({"status": {"allocation": {"devices": {"results": case.taken}}}});
    let holder = ResourceClaim::from_json(&holder.clone().into()).unwrap();
    let mut usage = Usage::default();
    usage.add(holder.status.allocation.as_ref().unwrap(), Features::default());
    usage
}

pub(super) fn allocator(case: &Case, usage: &Usage) -> Allocator {
    allocator_with(case, usage, Features::default(), Arc::new(Equality))
}

pub(super) fn allocator_with(
    case: &Case,
    usage: &Usage,
    features: Features,
    compiler: Arc<dyn SelectorCompiler>,
) -> Allocator {
    let slices = case
        .slices
        .iter()
        .map(|slice| Arc::new(ResourceSlice::from_json(&slice.clone().into()).unwrap()));
    let inventory = Arc::new(Inventory::new(slices, features));
    let class = DeviceClass::from_json(&json!({"metadata": {"name": "any"}}).into()).unwrap();
    let classes = [(class.name.clone(), Arc::new(class))].into_iter().collect();
    Allocator::new(SelectorTable::new(inventory), usage, classes, compiler)
}

pub(super) type Answer = Result<Option<Vec<Allocation>>, AllocationError>;

pub(super) fn claims_of(case: &Case) -> Vec<ResourceClaim> {
    case.claims
        .iter()
        .map(|claim| ResourceClaim::from_json(&claim.clone().into()).unwrap())
        .collect()
}

pub(super) fn ask(case: &Case, max_steps: u64, thoroughness: Thoroughness) -> Answer {
    let claims = claims_of(case);
    let claims = PodClaims::new(claims.into_iter().map(Arc::new));
    let labels = Labels::default();
    let node = NodeRef { name: "n", labels: &labels };
    let allocator = allocator(case, &usage(case));
    allocator.allocate_by(
        node,
        &claims,
        &Steps::new(max_steps),
        &mut || "share".into(),
        thoroughness,
    )
}

/// Asks with the shares counted from `n_shares`.
fn ask_with(case: &Case, usage: &Usage, mut n_shares: usize) -> Answer {
    let claims = claims_of(case);
    let claims = PodClaims::new(claims.into_iter().map(Arc::new));
    let labels = Labels::default();
    let node = NodeRef { name: "n", labels: &labels };
    allocator(case, usage).allocate(node, &claims, &Steps::new(1_000_000), &mut || {
        n_shares += 1;
        format!("share {n_shares}").into()
    })
}

/// The naive model: a device as JSON with its pool.
pub(super) struct Model<'a> {
    case: &'a Case,
    devices: Vec<(&'a str, &'a Value)>,
}

/// Claim, request name, request, device.
pub(super) type Choice<'a> = (usize, String, &'a Value, usize);

impl<'a> Model<'a> {
    pub(super) fn new(case: &'a Case) -> Self {
        let devices = case.slices.iter().flat_map(|slice| {
            let pool = slice["spec"]["pool"]["name"].as_str().unwrap();
            slice["spec"]["devices"].as_array().into_iter().flatten().map(move |d| (pool, d))
        });
        Self { case, devices: devices.collect() }
    }

    /// The first valid solution: every way to choose, in order, checked at the end.
    pub(super) fn first(&self) -> Option<Vec<Choice<'a>>> {
        let mut slots = Vec::new();
        for (at, claim) in self.case.claims.iter().enumerate() {
            for request in claim["spec"]["devices"]["requests"].as_array().unwrap() {
                slots.push((at, request));
            }
        }
        self.choose(&slots, &mut Vec::new())
    }

    fn choose(
        &self,
        slots: &[(usize, &'a Value)],
        chosen: &mut Vec<Choice<'a>>,
    ) -> Option<Vec<Choice<'a>>> {
        let Some(((claim, request), rest)) = slots.split_first() else {
            return self.is_valid(chosen).then(|| chosen.clone());
        };
        let name = request["name"].as_str().unwrap();
        let alternatives: Vec<(String, &Value)> = match request["firstAvailable"].as_array() {
            None => vec![(name.to_owned(), &request["exactly"])],
            Some(all) => all
                .iter()
                .map(|one| (format!("{name}/{}", one["name"].as_str().unwrap()), one))
                .collect(),
        };
        for (full_name, exact) in alternatives {
            let n = exact["count"].as_u64().unwrap() as usize;
            let found = self.combine(
                n,
                0,
                chosen,
                &|place| (*claim, full_name.clone(), exact, place),
                rest,
            );
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn combine(
        &self,
        n: usize,
        start: usize,
        chosen: &mut Vec<Choice<'a>>,
        choice: &dyn Fn(usize) -> Choice<'a>,
        rest: &[(usize, &'a Value)],
    ) -> Option<Vec<Choice<'a>>> {
        if n == 0 {
            return self.choose(rest, chosen);
        }
        for place in start..self.devices.len() {
            chosen.push(choice(place));
            let found = self.combine(n - 1, place + 1, chosen, choice, rest);
            chosen.pop();
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn is_valid(&self, chosen: &[Choice<'_>]) -> bool {
        let number = |value: &Value| value.as_str().map_or(0, |text| text.parse::<i64>().unwrap());
        let mut n_users = vec![0; self.devices.len()];
        let mut memory = vec![0; self.devices.len()];
        for (place, (pool, device)) in self.devices.iter().enumerate() {
            for taken in &self.case.taken {
                if taken["pool"] == **pool && taken["device"] == device["name"] {
                    match taken["consumedCapacity"]["memory"].as_str() {
                        Some(_) => memory[place] += 1,
                        None => n_users[place] += 1,
                    }
                }
            }
        }
        let is_held: Vec<bool> =
            (0..self.devices.len()).map(|p| n_users[p] > 0 || memory[p] > 0).collect();
        let is_charged: Vec<bool> = memory.iter().map(|memory| *memory > 0).collect();
        let mut slots: BTreeMap<&str, i64> = BTreeMap::new();
        let mut newly_charged = std::collections::BTreeSet::new();
        let mut needs_counters = std::collections::BTreeSet::new();
        let consumed = |place: usize| {
            number(&self.devices[place].1["consumesCounters"][0]["counters"]["slots"]["value"])
        };
        for (place, (pool, _)) in self.devices.iter().enumerate() {
            if is_held[place] {
                *slots.entry(pool).or_default() += consumed(place);
            }
        }
        for (_, _, exact, place) in chosen {
            let (pool, device) = self.devices[*place];
            let model = device["attributes"]["model"]["string"].as_str().unwrap();
            let selector = exact["selectors"][0]["cel"]["expression"].as_str();
            if selector.is_some_and(|selector| selector != format!("model={model}"))
                || (device["taints"].is_array() && exact["tolerations"].is_null())
            {
                return false;
            }
            let requested = exact["capacity"]["requests"]["memory"].as_str();
            if requested.is_some() && device["capacity"].is_null() {
                return false;
            }
            let is_shared = device["allowMultipleAllocations"] == true;
            if is_shared {
                if n_users[*place] > 0 {
                    return false;
                }
                let total = number(&device["capacity"]["memory"]["value"]);
                memory[*place] += requested.map_or(total, |amount| amount.parse().unwrap());
                if memory[*place] > total {
                    return false;
                }
            } else {
                n_users[*place] += 1;
                if n_users[*place] > 1 {
                    return false;
                }
            }
            if consumed(*place) > 0 && !(is_shared && is_charged[*place]) {
                needs_counters.insert(pool);
                if newly_charged.insert(*place) {
                    *slots.entry(pool).or_default() += consumed(*place);
                }
            }
        }
        let total = |pool: &str| {
            let of_pool = |slice: &&Value| slice["spec"]["pool"]["name"] == *pool;
            let sets = self
                .case
                .slices
                .iter()
                .filter(of_pool)
                .filter_map(|slice| slice["spec"]["sharedCounters"].as_array());
            sets.flatten().map(|set| number(&set["counters"]["slots"]["value"])).sum::<i64>()
        };
        needs_counters.iter().all(|pool| slots.get(pool).copied().unwrap_or(0) <= total(pool))
            && self.constraints_hold(chosen)
    }

    fn constraints_hold(&self, chosen: &[Choice<'_>]) -> bool {
        self.case.claims.iter().enumerate().all(|(at, claim)| {
            claim["spec"]["devices"]["constraints"].as_array().unwrap().iter().all(|constraint| {
                let is_match = constraint["matchAttribute"].is_string();
                let name = constraint["matchAttribute"]
                    .as_str()
                    .or(constraint["distinctAttribute"].as_str());
                let id = name.unwrap().split_once('/').unwrap().1;
                let in_scope = |request: &str| {
                    constraint["requests"].is_null()
                        || constraint["requests"][0] == *request.split('/').next().unwrap()
                };
                let values: Vec<&Value> = chosen
                    .iter()
                    .filter(|(claim, request, _, _)| *claim == at && in_scope(request))
                    .map(|(_, _, _, place)| &self.devices[*place].1["attributes"][id])
                    .collect();
                let pair = |i: usize, j: usize| (values[i] == values[j]) == is_match;
                values.iter().all(|value| !value.is_null())
                    && (0..values.len()).all(|i| (0..i).all(|j| pair(i, j)))
            })
        })
    }
}

/// Claim, request, pool and device of everything that was chosen.
fn chosen_devices(allocations: &[Allocation]) -> Vec<(usize, String, String, String)> {
    let results = allocations.iter().enumerate().flat_map(|(claim, allocation)| {
        allocation.results.iter().map(move |result| {
            let texts =
                [&result.request, &result.pool, &result.device].map(|text| text.to_string());
            let [request, pool, device] = texts;
            (claim, request, pool, device)
        })
    });
    results.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

    #[test]
    fn the_allocation_is_the_first_of_all_valid_ones(bytes in prop::collection::vec(any::<u8>(), 0..160)) {
        let case = case(&bytes, false);
        let model = Model::new(&case);
        let expected = model.first().map(|chosen| {
            let named = chosen.into_iter().map(|(claim, request, _, place)| {
                let (pool, device) = model.devices[place];
                (claim, request, pool.to_owned(), device["name"].as_str().unwrap().to_owned())
            });
            named.collect::<Vec<_>>()
        });
        let got = ask(&case, 1_000_000, Thoroughness::Direct);
        prop_assert_eq!(got.unwrap().map(|allocations| chosen_devices(&allocations)), expected);
    }

    #[test]
    fn leaving_out_what_must_fail_changes_nothing(bytes in prop::collection::vec(any::<u8>(), 0..160)) {
        let case = case(&bytes, true);
        let direct = ask(&case, 1_000_000, Thoroughness::Direct);
        prop_assert_eq!(direct, ask(&case, 100_000_000, Thoroughness::Exhaustive));
    }

    #[test]
    fn claims_that_were_asked_about_before_get_what_fresh_ones_get(
        bytes in prop::array::uniform2(prop::collection::vec(any::<u8>(), 0..160)),
        turns in prop::collection::vec(0..2_usize, 1..5),
    ) {
        let cases = bytes.map(|bytes| case(&bytes, true));
        let allocators = [0, 1].map(|at| allocator(&cases[at], &usage(&cases[at])));
        let claims = || PodClaims::new(claims_of(&cases[0]).into_iter().map(Arc::new));
        let labels = Labels::default();
        let node = NodeRef { name: "n", labels: &labels };
        let ask = |allocator: &Allocator, claims: &PodClaims| {
            allocator.allocate(node, claims, &Steps::new(1_000_000), &mut || "share".into())
        };
        let used = claims();
        for at in turns {
            prop_assert_eq!(ask(&allocators[at], &used), ask(&allocators[at], &claims()));
        }
    }

    #[test]
    fn all_allocations_together_take_no_more_than_there_is(bytes in prop::collection::vec(any::<u8>(), 0..160)) {
        let mut case = case(&bytes, true);
        case.taken.clear();
        let mut usage = Usage::default();
        let mut held: Vec<DeviceResult> = Vec::new();
        while let Ok(Some(allocations)) = ask_with(&case, &usage, held.len()) {
            let n_before = held.len();
            for allocation in &allocations {
                usage.add(allocation, Features::default());
                held.extend(allocation.results.iter().filter(|r| !r.admin_access).cloned());
            }
            if held.len() == n_before || held.len() > 64 {
                break;
            }
        }
        for (pool, device) in &Model::new(&case).devices {
            let holders = || held.iter().filter(|r| *r.pool == **pool && device["name"] == *r.device);
            let n_dedicated = holders().filter(|holder| holder.share_id.is_none()).count();
            prop_assert!(n_dedicated == 0 || holders().count() == 1, "{pool}/{} twice", device["name"]);
            let mut memory = Quantity::ZERO;
            for consumed in holders().filter_map(|holder| holder.consumed_capacity.as_ref()) {
                memory.add(consumed.get("memory").unwrap());
            }
            let total = device["capacity"]["memory"]["value"].as_str().unwrap_or("0");
            prop_assert!(memory <= Quantity::parse(total).unwrap(), "{pool}/{}", device["name"]);
        }
        for slice in case.slices.iter().filter(|slice| slice["spec"]["sharedCounters"].is_array()) {
            let pool = slice["spec"]["pool"]["name"].as_str().unwrap();
            let is_held = |device: &Value| {
                held.iter().any(|holder| *holder.pool == *pool && device["name"] == *holder.device)
            };
            let counter = |value: &Value| value["counters"]["slots"]["value"].as_str().map_or(0, |n| n.parse::<i64>().unwrap());
            let model = Model::new(&case);
            let devices = model.devices.iter().filter(|(of, device)| *of == pool && is_held(device));
            let taken: i64 = devices.map(|(_, device)| counter(&device["consumesCounters"][0])).sum();
            prop_assert!(taken <= counter(&slice["spec"]["sharedCounters"][0]), "{pool}: {taken}");
        }
    }
}

pub(super) fn many(n_devices: usize, device: impl Fn(usize) -> Value, claim: Value) -> Case {
    let pool = json!({"name": "n", "generation": 1, "resourceSliceCount": 1});
    let devices: Vec<Value> = (0..n_devices).map(device).collect();
    let slice = json!({"metadata": {"name": "s"}, "spec":
        {"driver": "gpu.example.com", "pool": pool, "nodeName": "n", "devices": devices}});
    Case { slices: vec![slice], claims: vec![claim], taken: Vec::new() }
}

fn exactly(name: &str, expression: &str, count: usize) -> Value {
    json!({"name": name, "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": count,
           "selectors": [{"cel": {"expression": expression}}]}})
}

fn of_model(model: &'static str) -> impl Fn(usize) -> Value {
    move |at| {
        json!({"name": format!("d{at}"), "attributes":
        {"model": {"string": model}, "numa": {"int": at % 8}, "serial": {"string": format!("{at}")}}})
    }
}

pub(super) fn claim_of(requests: Value, constraints: Value) -> Value {
    json!({"metadata": {"namespace": "default", "name": "c"},
           "spec": {"devices": {"requests": requests, "constraints": constraints}}})
}

#[test]
fn a_request_that_cannot_be_met_ends_the_search_early() {
    let requests = json!([exactly("many", "model=a", 16), exactly("none", "model=b", 1)]);
    let case = many(128, of_model("a"), claim_of(requests, json!([])));
    assert_eq!(ask(&case, 2_000, Thoroughness::Direct), Ok(None));
    let error = ask(&case, 2_000, Thoroughness::Exhaustive);
    assert_eq!(error, Err(AllocationError::TooManySteps));
}

#[test]
fn devices_that_differ_in_nothing_that_counts_are_tried_once() {
    // 16 devices for each value of `numa`: no 17 with the same one. Serial numbers do not matter.
    let requests = json!([exactly("a", "model=a", 9), exactly("b", "model=a", 8)]);
    let constraints = json!([{"matchAttribute": "gpu.example.com/numa"}]);
    let case = many(128, of_model("a"), claim_of(requests, constraints));
    assert_eq!(ask(&case, 20_000, Thoroughness::Direct), Ok(None));
}

#[test]
fn too_many_devices_for_a_claim_are_an_error() {
    let case = many(64, of_model("a"), claim_of(json!([exactly("a", "model=a", 33)]), json!([])));
    let text = "claim default/c: number of requested devices 33 exceeds the claim limit of 32";
    assert_eq!(ask(&case, 1_000, Thoroughness::Direct), Err(AllocationError::Failed(text.into())));
}

#[test]
fn a_deep_search_does_not_exhaust_the_stack() {
    let requests: Vec<Value> = (0..32).map(|at| exactly(&format!("r{at}"), "model=a", 1)).collect();
    let claim = claim_of(Value::Array(requests), json!([]));
    let mut case = many(8_192, of_model("a"), claim.clone());
    case.claims = vec![claim; 256];
    assert!(matches!(ask(&case, 1_000_000, Thoroughness::Direct), Ok(Some(_))));
}
