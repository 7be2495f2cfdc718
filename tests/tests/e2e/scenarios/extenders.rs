//! A program outside that narrows the nodes, scores them, and binds.

use anyhow::Result;
use kube_scheduler_tests::control_plane::Api;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::extender::Extender;
use crate::objects::{nodes, pod};
use crate::scheduler::Running;

/// Keeps all pods from `node-0` and the pod `unwanted` from all nodes, likes `node-2`, and binds with a request of its own.
async fn answer(verb: &str, question: &Value, api: &Api) -> Result<Value> {
    let asked = || question["NodeNames"].as_array().into_iter().flatten();
    Ok(match verb {
        "filter" => {
            let is_unwanted = question["Pod"]["metadata"]["name"] == "unwanted";
            let (failed, left): (Vec<_>, Vec<_>) =
                asked().cloned().partition(|node| is_unwanted || node == "node-0");
            let reason = |node: &Value| {
                (node.as_str().unwrap_or_default().to_owned(), "no licence left".into())
            };
            let failed: serde_json::Map<String, Value> = failed.iter().map(reason).collect();
            json!({"NodeNames": left, "FailedNodes": failed})
        }
        "prioritize" => asked()
            .map(|node| json!({"Host": node, "Score": if node == "node-2" { 10 } else { 0 }}))
            .collect(),
        "bind" => {
            bind(api, question).await?;
            json!({})
        }
        other => anyhow::bail!("no extender is asked for {other:?}"),
    })
}

/// Binds as an extender is asked to.
pub(super) async fn bind(api: &Api, question: &Value) -> Result<()> {
    let text = |field: &str| question[field].as_str().unwrap_or_default();
    let (namespace, name) = (text("PodNamespace"), text("PodName"));
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
        "target": {"kind": "Node", "name": question["Node"]}});
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
    api.send("POST", &path, Some(&binding), "application/json").await.map(drop)
}

/// Pods go where the extender lets them and likes them best, it binds them itself, and its reasons reach the user.
pub(crate) async fn an_extender_has_its_say(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(4)).await.unwrap();
    let extender = Extender::listen().await;
    let config = extender.config(json!({
        "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 100, "bindVerb": "bind",
    }));
    let play = async {
        let scheduler = Running::start_configured(cluster, &config).await;
        for name in ["first", "second"] {
            api.create(&pod(name)).await.unwrap();
            assert_eq!(cluster.node_of(name).await, "node-2");
        }
        api.create(&pod("unwanted")).await.unwrap();
        let message = cluster.until_unschedulable("unwanted").await;
        assert!(message.contains("4 no licence left"), "{message}");
        scheduler.stop().await;
    };
    let answering =
        async |verb: &str, question: &Value| answer(verb, question, api).await.map(Some);
    tokio::select! {
        () = extender.serve(answering) => panic!("the extender has ended"),
        () = play => {}
    }
}
