//! Objects as the API serves them, and what can be said about them without allocating.

use std::sync::Arc;

use kube_scheduler_devices::api::{
    Allocation, DeviceClass, DeviceTaintRule, Request, ResourceClaim, ResourceSlice,
};
use kube_scheduler_devices::{
    ContainerDemand, DeviceName, ExtendedClaim, ExtendedResources, Features, Usage,
};
use serde_json::{Value, json};

fn claim_error(json: &Value) -> String {
    ResourceClaim::from_json(&json.clone().into()).unwrap_err().to_string()
}

#[test]
fn a_field_of_the_wrong_type_is_named() {
    let mut claim = json!({
        "metadata": {"namespace": "default", "name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"count": "two"}}]}},
    });
    assert_eq!(
        claim_error(&claim),
        "ResourceClaim default/c: spec.devices.requests[0].exactly.count: invalid type: string \"two\", expected i64"
    );
    claim["spec"]["devices"]["requests"] =
        json!([{"name": "r", "exactly": {"capacity": {"requests": {"memory": "1 GB"}}}}]);
    let error = claim_error(&claim);
    let start = "ResourceClaim default/c: spec.devices.requests[0].exactly.capacity.requests";
    assert!(error.starts_with(start) && error.contains("quantities must match"), "{error}");
    let slice = json!({"metadata": {"name": "s"}, "spec": {"pool": {"generation": true}}});
    assert_eq!(
        ResourceSlice::from_json(&slice.clone().into()).unwrap_err().to_string(),
        "ResourceSlice s: spec.pool.generation: invalid type: boolean `true`, expected i64"
    );
}

#[test]
fn null_and_unknown_fields_do_no_harm() {
    let claim = ResourceClaim::from_json(&json!({
        "metadata": {"namespace": "default", "name": "c", "creationTimestamp": null, "labels": null},
        "spec": {"devices": {"requests": null, "constraints": null, "config": null}, "future": 1},
        "status": {"allocation": null, "reservedFor": null, "devices": [{"conditions": null}]},
    }).into());
    let claim = claim.unwrap();
    assert!(claim.requests.is_empty() && claim.status.allocation.is_none());
    for json in [json!({}), json!({"metadata": null, "spec": null})] {
        assert!(ResourceSlice::from_json(&json.clone().into()).unwrap().devices.is_empty());
        assert!(DeviceClass::from_json(&json.clone().into()).unwrap().selectors.is_empty());
    }
}

#[test]
fn an_allocation_survives_being_written_and_read() {
    let json = json!({
        "devices": {
            "results": [{
                "request": "r/a", "driver": "d", "pool": "p", "device": "x", "adminAccess": true,
                "tolerations": [{"operator": "Exists", "tolerationSeconds": 5}],
                "bindingConditions": ["ready"], "bindingFailureConditions": ["failed"],
                "shareID": "s", "consumedCapacity": {"memory": "1Gi"},
            }],
            "config": [{"source": "FromClaim", "requests": ["r"], "opaque": {"driver": "d", "parameters": {}}}],
        },
        "nodeSelector": {"nodeSelectorTerms": [{
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
            "matchExpressions": [{"key": "a", "operator": "Exists"}],
        }]},
    });
    let claim = ResourceClaim::from_json(&json!({"status": {"allocation": json}}).into()).unwrap();
    assert_eq!(claim.status.allocation.unwrap().to_json(), json);
}

#[test]
fn rules_taint_the_devices_they_mean() {
    let slice = Arc::new(
        ResourceSlice::from_json(
            &json!({"spec": {"driver": "d", "pool": {"name": "p"},
            "devices": [{"name": "a", "taints": [{"key": "own"}]}, {"name": "b"}]}})
            .into(),
        )
        .unwrap(),
    );
    let rule = |selector: Value, key: &str| {
        let spec =
            json!({"deviceSelector": selector, "taint": {"key": key, "effect": "NoSchedule"}});
        DeviceTaintRule::from_json(&json!({"spec": spec}).into()).unwrap()
    };
    let rules = [
        rule(json!({"driver": "d", "device": "a"}), "one"),
        rule(json!({"driver": "other"}), "none"),
        rule(Value::Null, "all"),
    ];
    let tainted = slice.with_rules(&rules);
    let keys = |at: usize| tainted.devices[at].taints.iter().map(|t| &*t.key).collect::<Vec<_>>();
    assert_eq!(keys(0), ["own", "one", "all"]);
    assert_eq!(keys(1), ["all"]);
    assert!(Arc::ptr_eq(&slice, &slice.with_rules(&rules[1..2])));
}

#[test]
fn shares_of_a_device_are_held_until_the_last_is_gone() {
    let share = |id: &str| -> Allocation {
        let result = json!({"driver": "d", "pool": "p", "device": "x", "shareID": id});
        let claim = json!({"status": {"allocation": {"devices": {"results": [result]}}}});
        ResourceClaim::from_json(&claim.clone().into()).unwrap().status.allocation.unwrap()
    };
    let name = DeviceName::new(&"d".into(), &"p".into(), &"x".into());
    let features = Features::default();
    let mut usage = Usage::default();
    usage.add(&share("1"), features);
    usage.add(&share("2"), features);
    usage.remove(&share("1"), features);
    assert!(usage.holds(&name));
    usage.remove(&share("2"), features);
    assert!(!usage.holds(&name));
}

fn demand(name: &str, is_short_lived: bool, amount: i64) -> ContainerDemand {
    let requests = vec![("cpu".into(), Some(1)), ("example.com/gpu".into(), Some(amount))];
    ContainerDemand { name: name.into(), is_short_lived, requests }
}

/// Requests with their counts, and containers with the requests they use.
type Needs = (Vec<(String, i64)>, Vec<(String, String)>);

fn claim_for(containers: &[ContainerDemand]) -> Needs {
    let class = DeviceClass { name: "gpu".into(), ..DeviceClass::default() };
    let claim = ExtendedClaim::new(containers, [(&"example.com/gpu".into(), &class)]);
    let requests = claim.requests.iter().map(|request| {
        let Request::Exactly(exact) = &request.request else { panic!("not exact") };
        (request.name.to_string(), exact.count)
    });
    let mappings = claim.mappings.iter();
    let mappings = mappings.map(|m| (m.container_name.to_string(), m.request_name.to_string()));
    (requests.collect(), mappings.collect())
}

#[test]
fn init_containers_use_what_later_containers_need_anyway() {
    let (requests, mappings) = claim_for(&[demand("i0", true, 2), demand("c0", false, 1)]);
    let request = |index: usize| format!("container-{index}-request-1");
    assert_eq!(requests, [(request(0), 1), (request(1), 1)]);
    let expected = [("c0", request(1)), ("i0", request(1)), ("i0", request(0))];
    assert_eq!(mappings, expected.map(|(container, request)| (container.to_owned(), request)));
}

#[test]
fn the_largest_request_of_init_containers_serves_them_all() {
    let (requests, mappings) =
        claim_for(&[demand("i0", true, 1), demand("i1", true, 3), demand("c0", false, 0)]);
    assert_eq!(requests, [("container-1-request-1".to_owned(), 3)]);
    let request = "container-1-request-1".to_owned();
    assert_eq!(mappings, [("i0".to_owned(), request.clone()), ("i1".to_owned(), request)]);
}

#[test]
fn the_newest_class_provides_a_resource() {
    let class = |name: &str, created: &str| {
        let json = json!({"metadata": {"name": name, "creationTimestamp": created},
                          "spec": {"extendedResourceName": "example.com/gpu"}});
        Arc::new(DeviceClass::from_json(&json.clone().into()).unwrap())
    };
    let (old, new) = (class("a", "2026-01-01T00:00:00Z"), class("b", "2026-01-02T00:00:00Z"));
    let holder = |resources: &ExtendedResources| {
        resources.class("example.com/gpu").map(|class| class.name.to_string())
    };
    let mut resources = ExtendedResources::default();
    resources.apply(None, &old);
    resources.apply(None, &new);
    assert_eq!(holder(&resources).as_deref(), Some("b"));
    resources.apply(None, &old);
    assert_eq!(holder(&resources).as_deref(), Some("b"));
    resources.apply(None, &class("aa", "2026-01-02T00:00:00Z"));
    assert_eq!(holder(&resources).as_deref(), Some("aa"));
    assert!(resources.class("deviceclass.resource.kubernetes.io/b").is_some());
    resources.remove(&new);
    assert_eq!(holder(&resources), None);
}
