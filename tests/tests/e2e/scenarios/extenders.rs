//! A program outside that narrows the nodes, scores them, and binds.

use anyhow::{Context, Result};
use kube_scheduler_tests::control_plane::Api;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::cluster::Cluster;
use crate::objects::{nodes, pod};
use crate::scheduler::Running;

/// Serves the extender of the scenarios, one request after the other.
async fn serve(listener: TcpListener, api: &Api) {
    while let Ok((stream, _)) = listener.accept().await {
        // A connection that was opened in advance may end without a request.
        if let Err(error) = respond(stream, api).await {
            eprintln!("the extender gets no request: {error:#}");
        }
    }
}

/// Reads one request and answers it.
async fn respond(stream: TcpStream, api: &Api) -> Result<()> {
    let mut stream = BufReader::new(stream);
    let mut first = String::new();
    stream.read_line(&mut first).await?;
    let verb = first.split(' ').nth(1).and_then(|path| path.rsplit('/').next());
    let verb = verb.context("a request line")?.to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let answer = answer(&verb, &serde_json::from_slice(&body)?, api).await?.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        answer.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(())
}

/// Keeps everybody from `node-0` and the pod `unwanted` from all nodes, likes `node-2`, and binds with a request of its own.
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
            let text = |field: &str| question[field].as_str().unwrap_or_default();
            let (namespace, name) = (text("PodNamespace"), text("PodName"));
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                "target": {"kind": "Node", "name": question["Node"]}});
            let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
            api.send("POST", &path, Some(&binding), "application/json").await?;
            json!({})
        }
        other => anyhow::bail!("no extender is asked for {other:?}"),
    })
}

/// Pods go where the extender lets them and likes them best, it binds them itself, and its reasons reach the user.
pub(crate) async fn an_extender_has_its_say(cluster: &Cluster) {
    let api = cluster.api();
    api.create_all(nodes(4)).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/extender", listener.local_addr().unwrap());
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "extenders": [{
            "urlPrefix": url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 100,
            "bindVerb": "bind", "nodeCacheCapable": true, "httpTimeout": "60s",
        }],
    });
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
    tokio::select! {
        () = serve(listener, api) => panic!("the extender has ended"),
        () = play => {}
    }
}
