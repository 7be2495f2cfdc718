//! Merging against definitions.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::kinds::{NODES, PODS};

fn merged(kind: KindId, old: Value, patch: Value) -> Value {
    patched(kind, PatchType::Strategic, &old, &patch).expect("applies")
}

#[test]
fn keyed_lists_merge_and_atomic_lists_replace() {
    let old = json!({"spec": {
        "containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}], "args": ["x"]}, {"name": "b"}],
        "tolerations": [{"key": "k"}],
    }});
    let patch = json!({"spec": {
        "containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}], "args": ["y"]}, {"name": "c", "image": "3"}],
        "tolerations": [{"key": "l"}],
    }});
    let expected = json!({"spec": {
        "containers": [
            {"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}], "args": ["y"]},
            {"name": "b"},
            {"name": "c", "image": "3"},
        ],
        "tolerations": [{"key": "l"}],
    }});
    assert_eq!(merged(PODS, old, patch), expected);
}

#[test]
fn directives_delete_replace_order_and_vanish() {
    let old = json!({
        "metadata": {"finalizers": ["a", "b", "c"]},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}], "volumes": [{"name": "v", "emptyDir": {}}], "nodeSelector": {"x": "1"}},
    });
    let patch = json!({
        "metadata": {"$deleteFromPrimitiveList/finalizers": ["b"], "finalizers": ["d"], "$setElementOrder/finalizers": ["d", "a"]},
        "spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
            "containers": [{"name": "b", "$patch": "delete"}],
            "volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}],
            "nodeSelector": {"$patch": "replace", "y": "2"},
        },
    });
    let expected = json!({
        "metadata": {"finalizers": ["d", "a", "c"]},
        "spec": {
            "containers": [{"name": "c"}, {"name": "a"}],
            "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
            "nodeSelector": {"y": "2"},
        },
    });
    assert_eq!(merged(PODS, old, patch), expected);
}

#[test]
fn node_taints_are_atomic_and_conditions_are_not() {
    let old = json!({"spec": {"taints": [{"key": "a"}]}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let patch = json!({"spec": {"taints": [{"key": "b"}]}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let expected = json!({"spec": {"taints": [{"key": "b"}]}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    assert_eq!(merged(NODES, old, patch), expected);
}

#[test]
fn broken_strategic_patches_are_refused() {
    for patch in [
        json!([]),
        json!({"spec": {"$patch": "explode"}}),
        json!({"spec": {"containers": [{"image": "x"}]}}),
        json!({"spec": {"containers": ["x"]}}),
    ] {
        assert!(patched(PODS, PatchType::Strategic, &json!({}), &patch).is_err(), "{patch}");
    }
}

type Containers = BTreeMap<u8, BTreeMap<u8, u8>>;

fn containers() -> impl Strategy<Value = Containers> {
    prop::collection::btree_map(0u8..5, prop::collection::btree_map(0u8..4, 0u8..3, 0..4), 0..5)
}

fn as_pod(containers: &Containers) -> Value {
    let list: Vec<Value> = containers
        .iter()
        .map(|(name, env)| {
            let env: Vec<Value> = env
                .iter()
                .map(|(key, value)| json!({"name": format!("E{key}"), "value": value.to_string()}))
                .collect();
            json!({"name": format!("c{name}"), "env": env})
        })
        .collect();
    json!({"spec": {"containers": list}})
}

/// The content of a pod regardless of order.
fn content(pod: &Value) -> BTreeMap<String, BTreeMap<String, String>> {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let members = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    members(&pod["spec"], "containers")
        .iter()
        .map(|container| {
            let env = members(container, "env")
                .iter()
                .map(|one| (text(one, "name"), text(one, "value")))
                .collect();
            (text(container, "name"), env)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn keyed_merging_is_a_union_of_maps(old in containers(), patch in containers()) {
        let mut expected = old.clone();
        for (name, env) in &patch {
            expected.entry(*name).or_default().extend(env);
        }
        let once = merged(PODS, as_pod(&old), as_pod(&patch));
        prop_assert_eq!(content(&once), content(&as_pod(&expected)));
        let twice = merged(PODS, once.clone(), as_pod(&patch));
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn applying_makes_the_configuration_true_and_forgets_what_is_dropped(one in containers(), two in containers()) {
        let applier = apply::Applier { manager: "m", subresource: "", force: false, now: "2030-01-01T00:00:00Z" };
        let first = apply::applied(PODS.get(), None, &as_pod(&one), applier).expect("applies");
        let second = apply::applied(PODS.get(), Some(&first), &as_pod(&two), applier).expect("applies");
        prop_assert_eq!(content(&second), content(&as_pod(&two)));
        let third = apply::applied(PODS.get(), Some(&second), &as_pod(&two), applier).expect("applies");
        prop_assert_eq!(second, third);
    }
}
