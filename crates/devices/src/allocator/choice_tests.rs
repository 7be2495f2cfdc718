//! Properties of choices: with them claims are served together whenever a naive model finds a way to.

use kube_scheduler_api_types::Labels;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::{Case, Model, allocator, case, claim_of, claims_of, many, usage};
use super::*;
use crate::api::ResourceClaim;
use crate::features::Features;

const NODE: &str = "n";

fn criteria_of(claims: &[ResourceClaim]) -> Criteria {
    let class = Arc::new(DeviceClass::default());
    let mut criteria = Criteria::default();
    claims.iter().for_each(|claim| criteria.add_claim(claim, &mut |_| Some(class.clone())));
    criteria
}

/// What there is for a claim, at `most` as many, with what was found so far when `max_steps` ended. Each share has an id of its own.
fn choices(
    case: &Case,
    known: (&Usage, &Criteria),
    claim: &ResourceClaim,
    (most, max_steps): (usize, u64),
) -> Result<Choices, AllocationError> {
    choices_within(case, known, claim, (most, &Steps::new(max_steps)))
}

/// The same, with steps of which some may be left.
fn choices_within(
    case: &Case,
    (usage, criteria): (&Usage, &Criteria),
    claim: &ResourceClaim,
    (most, steps): (usize, &Steps),
) -> Result<Choices, AllocationError> {
    let labels = Labels::default();
    let node = NodeRef { name: NODE, labels: &labels };
    let claims = PodClaims::new([Arc::new(claim.clone())]);
    let mut n_shares = 0;
    let mut new_share_id = || {
        n_shares += 1;
        format!("{} {n_shares}", claim.name).into()
    };
    allocator(case, usage).choices(node, &claims, (criteria, most), steps, &mut new_share_id)
}

const STEPS: u64 = 1_000_000;

/// How many steps it takes to find so many choices for the first claim of a case, at most, and how many there are.
fn cost(case: &Case, criteria: &Criteria, most: usize) -> (u64, usize) {
    let claim = &claims_of(case)[0];
    let steps = Steps::new(STEPS);
    let found = choices_within(case, (&Usage::default(), criteria), claim, (most, &steps)).unwrap();
    (STEPS - steps.left(), found.list.len())
}

/// Whether all claims can be served, one after the other, with any choice for each.
fn can_serve(case: &Case, usage: &Usage, criteria: &Criteria, claims: &[ResourceClaim]) -> bool {
    let Some((claim, rest)) = claims.split_first() else { return true };
    let found = choices(case, (usage, criteria), claim, (10_000, STEPS)).unwrap();
    assert!(found.are_all);
    found.list.iter().any(|choice| {
        let mut usage = usage.clone();
        choice.allocations.iter().for_each(|it| usage.add(it, Features::default()));
        can_serve(case, &usage, criteria, rest)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

    #[test]
    fn claims_of_several_pods_are_served_whenever_there_is_a_way(bytes in prop::collection::vec(any::<u8>(), 0..160)) {
        let case = case(&bytes, false);
        let claims = claims_of(&case);
        let criteria = criteria_of(&claims);
        let expected = Model::new(&case).first().is_some();
        prop_assert_eq!(can_serve(&case, &usage(&case), &criteria, &claims), expected);
        let reversed: Vec<ResourceClaim> = claims.into_iter().rev().collect();
        prop_assert_eq!(can_serve(&case, &usage(&case), &criteria, &reversed), expected);
    }

    #[test]
    fn the_first_choice_is_the_allocation_and_none_comes_twice(bytes in prop::collection::vec(any::<u8>(), 0..160)) {
        let case = case(&bytes, true);
        let claims = claims_of(&case);
        let (usage, criteria) = (usage(&case), criteria_of(&claims));
        let labels = Labels::default();
        let node = NodeRef { name: NODE, labels: &labels };
        let alone = PodClaims::new([Arc::new(claims[0].clone())]);
        let allocator = allocator(&case, &usage);
        let mut n_shares = 0;
        let one = allocator.allocate(node, &alone, &Steps::new(STEPS), &mut || {
            n_shares += 1;
            format!("{} {n_shares}", claims[0].name).into()
        });
        let first = choices(&case, (&usage, &criteria), &claims[0], (1, STEPS));
        let all = choices(&case, (&usage, &criteria), &claims[0], (10_000, STEPS));
        match one {
            Ok(Some(expected)) => {
                for found in [first.unwrap(), all.unwrap()] {
                    let is_unlike = |at: usize| found.list[..at].iter().all(|it| it.mark != found.list[at].mark);
                    prop_assert!((0..found.list.len()).all(is_unlike));
                    let got: Vec<Allocation> = found.list[0].allocations.iter().map(|it| (**it).clone()).collect();
                    prop_assert_eq!(&got, &expected);
                }
            }
            Ok(None) => prop_assert!(first.unwrap().list.is_empty() && all.unwrap().list.is_empty()),
            Err(error) => {
                prop_assert_eq!(first.unwrap_err(), error.clone());
                prop_assert_eq!(all.unwrap_err(), error);
            }
        }
    }
}

/// Devices, and a claim for so many of them.
fn some_of(n_devices: usize, device: impl Fn(usize) -> Value, count: usize) -> Case {
    let request = json!({"deviceClassName": "any", "allocationMode": "ExactCount", "count": count});
    many(n_devices, device, claim_of(json!([{"name": "r", "exactly": request}]), json!([])))
}

/// Devices that have nothing but a name.
fn bare(at: usize) -> Value {
    json!({"name": format!("d{at}")})
}

/// Devices of two models, each with a number of its own.
fn numbered(n_devices: usize, count: usize) -> Case {
    let device = |at: usize| {
        let model = ["a", "b"][at % 2];
        json!({"name": format!("d{at}"), "attributes":
            {"model": {"string": model}, "serial": {"string": format!("{at}")}}})
    };
    some_of(n_devices, device, count)
}

/// The claim's own selectors, and those of another claim of its gang.
fn also(expressions: &[&str]) -> Criteria {
    let selectors: Vec<_> =
        expressions.iter().map(|text| json!({"cel": {"expression": text}})).collect();
    let request = json!({"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, "selectors": selectors});
    let claim = claim_of(json!([{"name": "r", "exactly": request}]), json!([]));
    criteria_of(&[ResourceClaim::from_json(&claim.into()).unwrap()])
}

#[test]
fn devices_that_nothing_tells_apart_are_one_choice() {
    let case = numbered(16, 4);
    let claim = &claims_of(&case)[0];
    let n_found = |criteria: &Criteria| {
        let found = choices(&case, (&Usage::default(), criteria), claim, (10_000, STEPS)).unwrap();
        assert!(found.are_all);
        found.list.len()
    };
    assert_eq!(n_found(&Criteria::default()), 1);
    // None to four of one model.
    assert_eq!(n_found(&also(&["model=a"])), 5);
    // And with or without one that is different.
    assert_eq!(n_found(&also(&["model=a", "serial=3"])), 9);
}

#[test]
fn what_was_not_found_out_is_not_claimed() {
    let case = numbered(16, 4);
    let claim = &claims_of(&case)[0];
    let serials: Vec<String> = (0..16).map(|at| format!("serial={at}")).collect();
    let serials: Vec<&str> = serials.iter().map(String::as_str).collect();
    let criteria = also(&serials);
    let ask = |limits| choices(&case, (&Usage::default(), &criteria), claim, limits);
    let all = ask((10_000, STEPS)).unwrap();
    assert_eq!((all.list.len(), all.are_all), (1820, true));
    let many = ask((100, STEPS)).unwrap();
    assert_eq!((many.list.len(), many.are_all), (100, false));
    let cut = ask((10_000, 1_000)).unwrap();
    assert!((1..1820).contains(&cut.list.len()) && !cut.are_all, "{}", cut.list.len());
    assert_eq!(ask((10_000, 30)).unwrap_err(), AllocationError::TooManySteps);
}

/// Whether it was the one or the other member that got a device of a kind, and in which order they came, leaves the same, also if
/// their claims ask for the same under other names.
#[test]
fn marks_are_of_kinds_and_not_of_devices() {
    let case = numbered(6, 2);
    let claim = &claims_of(&case)[0];
    let criteria = also(&["model=a"]);
    let before = choices(&case, (&Usage::default(), &criteria), claim, (10_000, STEPS)).unwrap();
    let mut usage = Usage::default();
    before.list[0].allocations.iter().for_each(|it| usage.add(it, Features::default()));
    let after = choices(&case, (&usage, &criteria), claim, (10_000, STEPS)).unwrap();
    let marks = |found: &Choices| -> std::collections::BTreeSet<Arc<str>> {
        found.list.iter().map(|choice| choice.mark.clone()).collect()
    };
    assert_eq!((before.list.len(), marks(&before)), (3, marks(&after)));
    let other = ResourceClaim { name: "other".into(), uid: "other".into(), ..claim.clone() };
    let of_other = choices(&case, (&usage, &criteria), &other, (10_000, STEPS)).unwrap();
    assert_eq!(marks(&of_other), marks(&after));
}

/// What is had beside its users leaves the device to others, also one that several may have.
#[test]
fn a_share_with_admin_access_is_not_one_that_is_taken() {
    let request = |name: &str, is_admin: bool| {
        let exactly = json!({"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, "adminAccess": is_admin});
        json!({"name": name, "exactly": exactly})
    };
    let claim = claim_of(json!([request("r0", true), request("r1", false)]), json!([]));
    let device = |at: usize| {
        let model = ["a", "b"][at % 2];
        json!({"name": format!("d{at}"), "attributes": {"model": {"string": model}},
            "allowMultipleAllocations": true, "capacity": {"memory": {"value": "4"}}})
    };
    let case = many(2, device, claim);
    let claim = &claims_of(&case)[0];
    let criteria = also(&["model=a"]);
    let found = choices(&case, (&Usage::default(), &criteria), claim, (10_000, STEPS)).unwrap();
    let mut ways: Vec<Vec<String>> = Vec::new();
    for choice in &found.list {
        let results = choice.allocations[0].results.iter();
        ways.push(results.map(|result| result.device.to_string()).collect());
    }
    assert_eq!(ways, [["d0", "d1"], ["d1", "d0"]]);
    assert!(found.are_all);
}

#[test]
fn each_device_of_a_solution_counts() {
    let steps = |count| cost(&numbered(3, count), &Criteria::default(), 1).0;
    // In the mark four, in the allocation eight; visiting and taking it are no more than two.
    assert!(steps(3) - steps(1) >= 2 * (4 + 8), "{} {}", steps(3), steps(1));
}

#[test]
fn what_is_in_the_allocation_of_a_device_counts() {
    let steps = |n: usize| {
        let mut case = numbered(2, 2);
        let toleration = json!({"key": "k", "operator": "Exists"});
        let tolerations = vec![toleration; n];
        case.claims[0]["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] =
            tolerations.into();
        cost(&case, &Criteria::default(), 1).0
    };
    assert_eq!(steps(7) - steps(0), 2 * 7);
}

/// Each entry for two of three requests is compared with all of them.
#[test]
fn configuration_counts_for_each_request() {
    let steps = |n: usize| {
        let request = json!({"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1});
        let requests = ["r0", "r1", "r2"].map(|name| json!({"name": name, "exactly": request}));
        let mut case = numbered(3, 1);
        case.claims = vec![claim_of(json!(requests), json!([]))];
        let opaque = json!({"driver": "d", "parameters": {}});
        let entry = json!({"requests": ["r0", "r1"], "opaque": opaque});
        case.claims[0]["spec"]["devices"]["config"] = vec![entry; n].into();
        cost(&case, &Criteria::default(), 1).0
    };
    assert_eq!(steps(5) - steps(0), 5 * 3 * (1 + 2));
}

/// Marks of shares name what they take.
#[test]
fn the_text_of_each_mark_counts() {
    let of_capacity = |n_bytes: usize| {
        let name = "m".repeat(n_bytes);
        let device = |at: usize| {
            let model = ["a", "b"][at % 2];
            json!({"name": format!("d{at}"), "attributes": {"model": {"string": model}},
                "allowMultipleAllocations": true, "capacity": {name.clone(): {"value": "4"}}})
        };
        let mut case = some_of(4, device, 2);
        case.claims[0]["spec"]["devices"]["requests"][0]["exactly"]["capacity"] =
            json!({"requests": {name.clone(): "1"}});
        cost(&case, &also(&["model=a"]), 10_000)
    };
    let ((short, n_found), (long, _)) = (of_capacity(20), of_capacity(60));
    // Five steps for the capacity of each of four devices, and in each of four marks for each of two shares.
    assert_eq!((long - short, n_found), (5 * (4 + 4 * 2), 4));
}

#[test]
fn the_text_that_tells_a_device_from_others_counts() {
    let any = Criteria::default();
    // What a policy says of a device's capacity is part of its kind.
    let of_capacity = |n_bytes: usize| {
        let device = |at: usize| {
            let name = "m".repeat(n_bytes);
            let capacity = json!({"value": "4", "requestPolicy": {"default": "1"}});
            json!({"name": format!("d{at}"), "capacity": {name: capacity}})
        };
        cost(&some_of(6, device, 1), &any, 1).0
    };
    assert_eq!(of_capacity(60) - of_capacity(20), 6 * 40 / 8);
    // So is an attribute in which the devices of some claim have to agree.
    let constraint = json!({"matchAttribute": "gpu.example.com/link"});
    let aligned = claim_of(json!([]), json!([constraint]));
    let aligned = criteria_of(&[ResourceClaim::from_json(&aligned.into()).unwrap()]);
    let of_attribute = |n_bytes: usize, criteria: &Criteria| {
        let device = |at: usize| {
            let link = "l".repeat(n_bytes);
            json!({"name": format!("d{at}"), "attributes": {"link": {"string": link}}})
        };
        cost(&some_of(6, device, 1), criteria, 1).0
    };
    assert_eq!(of_attribute(60, &aligned) - of_attribute(20, &aligned), 6 * (60 / 8 - 20 / 8));
    assert_eq!(of_attribute(20, &aligned) - of_attribute(20, &any), 6 * (1 + 20 / 8));
    // And taints, here of devices that are not taken.
    let of_taints = |n_bytes: usize| {
        let device = |at: usize| match at {
            0 => bare(at),
            _ => json!({"name": format!("d{at}"), "taints":
                [{"key": "k".repeat(n_bytes), "effect": "NoSchedule"}]}),
        };
        cost(&some_of(6, device, 1), &any, 1).0
    };
    let without = cost(&some_of(6, bare, 1), &any, 1).0;
    let n_bytes = "NoSchedule".len() as u64;
    for more in [6, 46] {
        let text = (more + n_bytes) / 8;
        assert_eq!(of_taints(more as usize) - without, 5 * (1 + text));
    }
}

/// Where devices can be used is written down once for the devices of a slice, and once more for each device that a claim gets.
#[test]
fn what_says_where_devices_can_be_used_counts() {
    let steps = |n_values: usize, count: usize| {
        let mut case = some_of(3, bare, count);
        let values: Vec<String> = (0..n_values).map(|at| format!("v{at}")).collect();
        let elsewhere = json!([{"key": "zone", "operator": "NotIn", "values": values}]);
        let spec = case.slices[0]["spec"].as_object_mut().unwrap();
        spec.remove("nodeName");
        spec.insert(
            "nodeSelector".into(),
            json!({"nodeSelectorTerms": [{"matchExpressions": elsewhere}]}),
        );
        cost(&case, &Criteria::default(), 1).0
    };
    let [one, two] = [1, 2].map(|count| steps(9, count) - steps(1, count));
    let text = two - one;
    assert!(text >= 4, "{one} {two}");
    assert_eq!([one, two], [2 * text, 3 * text]);
}
