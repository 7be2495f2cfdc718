//! What extenders are asked, as the reference writes it: `k8s.io/kube-scheduler/extender/v1` in JSON.
//!
//! Invariant: of two ways to say something both are always there, the one that is not used as `null`.

use std::sync::Arc;

use kube_scheduler_api_types::{Node, Pod};
use kube_scheduler_framework::preemption::PreemptionCandidate;
use serde_json::{Value, json};

/// Asks about nodes, by name or in full.
pub(super) fn about_nodes(
    pod: &Pod,
    nodes: &[Arc<Node>],
    knows_nodes: bool,
) -> Result<String, String> {
    let mut text = format!("{{\"Pod\":{},\"Nodes\":", full_pod(pod)?);
    if knows_nodes {
        let names: Vec<&str> = nodes.iter().map(|node| &*node.name).collect();
        text.push_str("null,\"NodeNames\":");
        text.push_str(&json!(names).to_string());
    } else {
        text.push_str("{\"metadata\":{},\"items\":[");
        for (at, node) in nodes.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            let source = node.source.as_ref().ok_or_else(|| {
                format!("node {} is not known in full, so it cannot be shown", node.name)
            })?;
            text.push_str(source.json());
        }
        text.push_str("]},\"NodeNames\":null");
    }
    text.push('}');
    Ok(text)
}

/// Asks about evictions, by UID or with the pods in full.
pub(super) fn about_victims(
    pod: &Pod,
    candidates: &[(Arc<Node>, PreemptionCandidate)],
    knows_nodes: bool,
) -> Result<String, String> {
    let mut by_node = String::from("{");
    for (at, (node, candidate)) in candidates.iter().enumerate() {
        if at > 0 {
            by_node.push(',');
        }
        by_node.push_str(&json!(&*node.name).to_string());
        by_node.push_str(":{\"Pods\":[");
        for (at, victim) in candidate.victims.iter().enumerate() {
            if at > 0 {
                by_node.push(',');
            }
            if knows_nodes {
                by_node.push_str(&json!({"UID": &*victim.uid}).to_string());
            } else {
                by_node.push_str(&running(victim)?);
            }
        }
        by_node.push_str(&format!("],\"NumPDBViolations\":{}}}", candidate.n_pdb_violations));
    }
    by_node.push('}');
    let (victims, meta) = if knows_nodes { ("null", &*by_node) } else { (&*by_node, "null") };
    Ok(format!(
        "{{\"Pod\":{},\"NodeNameToVictims\":{victims},\"NodeNameToMetaVictims\":{meta}}}",
        full_pod(pod)?
    ))
}

/// Asks to bind.
pub(super) fn about_binding(pod: &Pod, node: &str) -> String {
    json!({
        "PodName": &*pod.name, "PodNamespace": &*pod.namespace, "PodUID": &*pod.uid, "Node": node,
    })
    .to_string()
}

fn full_pod(pod: &Pod) -> Result<&str, String> {
    match &pod.source {
        Some(source) => Ok(source.json()),
        None => Err(format!("pod {} is not known in full, so it cannot be shown", pod.key())),
    }
}

/// A pod on a node. Of one that is only assumed there, the API server knows no node yet.
fn running(pod: &Pod) -> Result<String, String> {
    let text = full_pod(pod)?;
    let mut object: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match (&pod.node_name, object.get_mut("spec")) {
        (Some(node), Some(Value::Object(spec))) if !spec.contains_key("nodeName") => {
            spec.insert("nodeName".to_owned(), (**node).into());
            Ok(object.to_string())
        }
        _ => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_api_types::Source;
    use kube_scheduler_framework::NodeIdx;

    use super::*;

    fn pod(name: &str, extra: Value) -> Pod {
        let text = json!({
            "metadata": {"name": name, "namespace": "ns", "uid": format!("{name}-uid")}, "spec": extra,
        })
        .to_string();
        let mut pod = Pod::from_json(&text).unwrap();
        pod.source = Some(Arc::new(Source::of_pod(&text).unwrap()));
        pod
    }

    fn node(name: &str) -> Arc<Node> {
        let text =
            json!({"metadata": {"name": name}, "status": {"capacity": {"cpu": "4"}}}).to_string();
        let mut node = Node::from_json(&text).unwrap();
        node.source = Some(Arc::new(Source::of_node(&text).unwrap()));
        Arc::new(node)
    }

    fn parsed(text: Result<String, String>) -> Value {
        serde_json::from_str(&text.unwrap()).unwrap()
    }

    #[test]
    fn nodes_are_named_or_shown() {
        let pod = pod("p", json!({"containers": [{"name": "c"}]}));
        let nodes = [node("a"), node("b\"")];
        let shown = json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "p-uid"},
            "spec": {"containers": [{"name": "c"}]}, "status": {},
        });
        assert_eq!(
            parsed(about_nodes(&pod, &nodes, true)),
            json!({"Pod": shown, "Nodes": null, "NodeNames": ["a", "b\""]})
        );
        assert_eq!(
            parsed(about_nodes(&pod, &nodes, false)),
            json!({
                "Pod": shown,
                "Nodes": {"metadata": {}, "items": [
                    {"metadata": {"name": "a"}, "spec": {}, "status": {"capacity": {"cpu": "4"}}},
                    {"metadata": {"name": "b\""}, "spec": {}, "status": {"capacity": {"cpu": "4"}}},
                ]},
                "NodeNames": null,
            })
        );
    }

    #[test]
    fn victims_are_named_or_shown_where_they_run() {
        let preemptor = pod("p", json!({}));
        let assumed = pod("v", json!({})).with_node_name(&"a".into());
        let running = pod("w", json!({"nodeName": "a"}));
        let candidate = PreemptionCandidate {
            node: NodeIdx::from_index(0),
            victims: vec![Arc::new(assumed), Arc::new(running)],
            n_pdb_violations: 1,
        };
        let candidates = [(node("a"), candidate)];
        let named = parsed(about_victims(&preemptor, &candidates, true));
        assert_eq!(named["NodeNameToVictims"], Value::Null);
        assert_eq!(
            named["NodeNameToMetaVictims"],
            json!({"a": {"Pods": [{"UID": "v-uid"}, {"UID": "w-uid"}], "NumPDBViolations": 1}})
        );
        let shown = parsed(about_victims(&preemptor, &candidates, false));
        assert_eq!(shown["NodeNameToMetaVictims"], Value::Null);
        let pods = &shown["NodeNameToVictims"]["a"]["Pods"];
        assert_eq!(
            (&pods[0]["spec"]["nodeName"], &pods[1]["spec"]["nodeName"]),
            (&json!("a"), &json!("a"))
        );
        assert_eq!(shown["Pod"]["metadata"]["name"], "p");
    }

    #[test]
    fn bindings_name_everything() {
        let text = about_binding(&pod("p", json!({})), "a");
        assert_eq!(
            serde_json::from_str::<Value>(&text).unwrap(),
            json!({"PodName": "p", "PodNamespace": "ns", "PodUID": "p-uid", "Node": "a"})
        );
    }

    #[test]
    fn what_was_not_kept_cannot_be_shown() {
        let mut pod = pod("p", json!({}));
        let bare = Arc::new(Node::from_json(r#"{"metadata": {"name": "n"}}"#).unwrap());
        let error = about_nodes(&pod, &[bare], false).unwrap_err();
        assert_eq!(error, "node n is not known in full, so it cannot be shown");
        pod.source = None;
        assert!(about_victims(&pod, &[], true).is_err());
    }
}
