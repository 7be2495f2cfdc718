//! The way to the compilers' types is the same as through JSON.

use super::*;

#[test]
fn converting_is_the_same_as_printing_and_reading() {
    let json = serde_json::json!({
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", "y"]}, {"key": "b", "operator": "Exists"}]},
            {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": []}]}
        ]},
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 7, "preference": {"matchExpressions": [{"key": "c", "operator": "Gt", "values": ["1"]}]}}
        ]
    });
    let ours: NodeAffinityJson = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(serde_json::to_value(&ours).unwrap(), json);
    assert_eq!(ours.to_wire(), serde_json::from_value(json).unwrap());

    let json = serde_json::json!({
        "maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3,
        "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore", "matchLabelKeys": ["k"],
        "labelSelector": {
            "matchLabels": {"a": "b", "c": "d"},
            "matchExpressions": [{"key": "e", "operator": "NotIn", "values": ["f"]}]
        }
    });
    let ours: TopologySpreadConstraintJson = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(serde_json::to_value(&ours).unwrap(), json);
    assert_eq!(ours.to_wire(), serde_json::from_value(json).unwrap());
}
