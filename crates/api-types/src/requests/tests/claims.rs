//! Requests with what claims take of the node.

use super::*;
use crate::Pod;

fn pod(spec: Value, statuses: Value) -> Pod {
    let status = json!({ "nodeAllocatableResourceClaimStatuses": statuses });
    Pod::from_value(&json!({"metadata": {"name": "p"}, "spec": spec, "status": status})).unwrap()
}

fn statuses(resources: Value) -> Value {
    json!([{"resourceClaimName": "c", "containers": ["a"], "resources": resources}])
}

fn spec_with_claim(mut spec: Value) -> Value {
    spec["resourceClaims"] = json!([{"name": "c", "resourceClaimName": "c"}]);
    spec
}

#[test]
fn claims_are_added_before_rounding() {
    let spec = spec_with_claim(json!({"containers": [container("a", json!({"cpu": "0.5m"}))]}));
    let pod = pod(spec, statuses(json!({"cpu": "0.5m", "hugepages-2Mi": "4Mi"})));
    assert_eq!(pod.requests.accounted.milli_cpu, 1);
    assert_eq!(pod.requests.accounted.scalar("hugepages-2Mi"), Some(4 * MI));
    assert_eq!(pod.requests.fit.scalar("hugepages-2Mi"), None, "not for what is to be placed");
    assert_eq!(pod.requests.non_zero, NonZeroRequest { milli_cpu: 1, memory: 200 * MI });
    let none = pod.with_node_resource_claims(Arc::default());
    assert_eq!((none.requests.accounted.milli_cpu, none.status.node_resource_claims.len()), (1, 0));
    assert_eq!(none.requests.accounted.scalar("hugepages-2Mi"), None);
}

#[test]
fn what_the_pod_asks_for_as_a_whole_stays() {
    let spec = spec_with_claim(json!({
        "resources": {"requests": {"cpu": "2"}},
        "containers": [container("a", json!({"cpu": "1"}))],
    }));
    let all = pod(spec, statuses(json!({"cpu": "1", "memory": "1Gi"})));
    assert_eq!(
        (all.requests.accounted.milli_cpu, all.requests.accounted.memory),
        (2000, 1024 * MI)
    );
    assert_eq!(all.requests.non_zero, NonZeroRequest { milli_cpu: 2000, memory: 1024 * MI });
    let claims = &all.status.node_resource_claims;
    let needed = all.requests.demand_with_claims(claims).unwrap();
    assert_eq!((needed.milli_cpu, needed.memory), (2000, 1024 * MI));
    let twice = [claims[0].clone(), claims[0].clone()];
    assert_eq!(all.requests.demand_with_claims(&twice), Err("cpu".into()));
}

#[test]
fn a_pod_without_claims_has_no_more_than_it_asks_for() {
    let plain = Pod::from_value(
        &json!({"metadata": {"name": "p"}, "spec": {"containers": [container("a", json!({"cpu": "1"}))]}}),
    )
    .unwrap();
    let claims = pod(json!({"containers": []}), statuses(json!({"cpu": "1"})));
    let claims = &claims.status.node_resource_claims;
    assert_eq!(plain.requests.with_claims(claims), *plain.requests);
    assert_eq!(plain.requests.demand_with_claims(claims), Ok(plain.requests.fit.clone()));
}

fn as_container(requests: &Milli) -> Value {
    container("a", milli_json(requests))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: RngSeed::Fixed(2), ..ProptestConfig::default() })]

    /// A claim counts like one more container, but that no default stands in for what it does not mention.
    #[test]
    fn claims_count_like_containers(
        own in prop::collection::vec(some_requests(), 1..3),
        taken in prop::collection::vec(some_requests(), 0..3),
        overhead in some_requests(),
        pod_level in some_requests(),
        earlier in some_requests(),
    ) {
        let spec = |containers: Vec<Value>| spec_with_claim(json!({
            "containers": containers,
            "overhead": milli_json(&overhead),
            "resources": {"requests": milli_json(&pod_level)},
        }));
        let plain = spec(own.iter().map(as_container).collect());
        let entries: Vec<Value> = taken
            .iter()
            .enumerate()
            .map(|(at, taken)| json!({"resourceClaimName": at.to_string(), "containers": ["a"], "resources": milli_json(taken)}))
            .collect();
        let read = pod(plain.clone(), entries.into());
        let with_earlier = pod(plain, statuses(milli_json(&earlier)));
        let added = with_earlier.with_node_resource_claims(read.status.node_resource_claims.clone());
        prop_assert_eq!(&read.requests.accounted, &added.requests.accounted);
        prop_assert_eq!(read.requests.non_zero, added.requests.non_zero);

        let all = own.iter().chain(&taken).map(as_container).collect();
        let merged = pod(spec(all), json!([])).requests;
        prop_assert_eq!(&read.requests.accounted, &merged.accounted);
        let supported = |name: &&&str| ["cpu", "memory", "hugepages-2Mi"].contains(*name);
        let is_covered = |name: &&str| {
            let sum: i64 = own.iter().chain(&taken).filter_map(|amounts| amounts.get(name)).sum();
            sum <= pod_level[name]
        };
        let is_enough = pod_level.keys().filter(supported).all(is_covered);
        let needed = read.requests.demand_with_claims(&read.status.node_resource_claims);
        prop_assert_eq!(needed.is_ok(), is_enough);
        if let Ok(needed) = needed {
            prop_assert_eq!(needed, merged.accounted.clone());
        }
    }
}
