//! The defaults of resource claims, for programs that read claims which no API server has seen, or that are one.

use serde_json::{Value, json};

/// Fills in what an API server sets in the spec of a ResourceClaim, or in the inner spec of a template: `ExactCount`
/// devices unless a request names another allocation mode, and one device where that mode comes without a count.
///
/// Fields that are set, or that have the wrong type, are left as they are.
pub fn default_device_requests(spec: &mut Value) {
    let requests = spec.pointer_mut("/devices/requests").and_then(Value::as_array_mut);
    for request in requests.into_iter().flatten() {
        if let Some(exactly) = request.get_mut("exactly") {
            default_count(exactly);
        }
        let alternatives = request.get_mut("firstAvailable").and_then(Value::as_array_mut);
        alternatives.into_iter().flatten().for_each(default_count);
    }
}

fn default_count(request: &mut Value) {
    let Some(request) = request.as_object_mut() else { return };
    let mode = request.entry("allocationMode").or_insert(Value::Null);
    // Serialized Go structs have empty fields where others have none.
    if mode.is_null() || mode == "" {
        *mode = json!("ExactCount");
    }
    if mode != "ExactCount" {
        return;
    }
    let count = request.entry("count").or_insert(Value::Null);
    if count.is_null() || *count == 0 {
        *count = json!(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaulted(request: Value) -> Value {
        let mut spec = json!({"devices": {"requests": [request]}});
        default_device_requests(&mut spec);
        spec["devices"]["requests"][0].take()
    }

    #[test]
    fn exactly_one_device_is_the_default() {
        let one = json!({"allocationMode": "ExactCount", "count": 1});
        for empty in
            [json!({}), json!({"allocationMode": null}), json!({"allocationMode": "", "count": 0})]
        {
            assert_eq!(defaulted(json!({"exactly": empty})), json!({"exactly": one}));
        }
    }

    #[test]
    fn alternatives_are_defaulted_one_by_one() {
        let alternatives = json!([{"name": "a"}, {"name": "b", "count": 3}, {"name": "c", "allocationMode": "All"}]);
        let expected = json!([
            {"name": "a", "allocationMode": "ExactCount", "count": 1},
            {"name": "b", "allocationMode": "ExactCount", "count": 3},
            {"name": "c", "allocationMode": "All"},
        ]);
        assert_eq!(defaulted(json!({"firstAvailable": alternatives}))["firstAvailable"], expected);
    }

    #[test]
    fn nothing_else_is_touched() {
        for odd in [
            json!(7),
            json!({"exactly": 7}),
            json!({"exactly": {"allocationMode": 7}}),
            json!({"firstAvailable": "x"}),
        ] {
            assert_eq!(defaulted(odd.clone()), odd);
        }
        let mut spec = json!("nonsense");
        default_device_requests(&mut spec);
        assert_eq!(spec, "nonsense");
    }
}
