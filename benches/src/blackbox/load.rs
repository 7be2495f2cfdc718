//! Filling a cluster for a round, and emptying it again.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::stream::{self, StreamExt, TryStreamExt};
use kube_scheduler_tests::control_plane::{Api, code};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::devices::Devices;
use super::progress::Progress;
use super::shape::{ROUND_LABEL, Shape, node};

/// How many requests are on their way at once.
const WIDTH: usize = 32;
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
/// How long a namespace may take to end once it is empty.
const NAMESPACE_GRACE: Duration = Duration::from_secs(10);

/// Creates the round's namespace, nodes and pods.
pub(super) async fn fill(
    api: &Api,
    round: &str,
    n_nodes: usize,
    n_pods: usize,
    shape: Shape,
) -> Result<()> {
    if shape == Shape::Claims && !Devices::suffice(n_nodes, n_pods) {
        bail!("{n_nodes} nodes have too few devices for {n_pods} pods");
    }
    refuse_other_nodes(api).await?;
    api.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": round}}))
        .await?;
    // Where admission looks for it, its controller may be slow or not there at all.
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let accounts = format!("/api/v1/namespaces/{round}/serviceaccounts");
    create(api, &accounts, &account).await?;
    create_all(api, "nodes created", "/api/v1/nodes", n_nodes, |index| node(round, index)).await?;
    if let Some(devices) = shape.devices(round) {
        create(api, "/apis/resource.k8s.io/v1/deviceclasses", &devices.class()).await?;
        let slice = |index| devices.slice(index);
        create_all(api, "slices created", SLICES, n_nodes, slice).await?;
        let claim = |index| devices.claim(index);
        create_all(api, "claims created", &devices.claims_path(), n_pods, claim).await?;
    }
    let pods = format!("/api/v1/namespaces/{round}/pods");
    create_all(api, "pods created", &pods, n_pods, |index| shape.pod(index)).await
}

/// Other nodes would get pods, and would change what is measured.
pub(crate) async fn refuse_other_nodes(api: &Api) -> Result<()> {
    let nodes = api.send("GET", "/api/v1/nodes?limit=1", None, "").await?;
    if let Some(node) = nodes["items"].as_array().and_then(|nodes| nodes.first()) {
        bail!(
            "the cluster has nodes already, {} for one: an empty one is needed, such as an API server without kubelets",
            node["metadata"]["name"]
        );
    }
    Ok(())
}

async fn create_all(
    api: &Api,
    what: &str,
    path: &str,
    n: usize,
    object: impl Fn(usize) -> Value,
) -> Result<()> {
    let progress = Progress::start(what, n);
    stream::iter(0..n)
        .map(|index| {
            let object = object(index);
            async move { create(api, path, &object).await }
        })
        .buffer_unordered(WIDTH)
        .try_for_each(async |()| {
            progress.step();
            Ok(())
        })
        .await?;
    progress.finish();
    Ok(())
}

/// Creates an object. It is no error if it exists already: the answer to a first try may have been lost.
async fn create(api: &Api, path: &str, object: &Value) -> Result<()> {
    match api.send("POST", path, Some(object), "application/json").await {
        Err(error) if code(&error) != Some(409) => {
            Err(error.context(format!("POST {path}: {}", object["metadata"]["name"])))
        }
        _ => Ok(()),
    }
}

/// How many events say that a pod of the round was placed.
pub(super) async fn scheduled_events(api: &Api, round: &str) -> Result<usize> {
    let path =
        format!("/api/v1/namespaces/{round}/events?fieldSelector=reason%3DScheduled&limit=1000");
    let mut n = 0;
    let mut next = path.clone();
    loop {
        let page = api.send("GET", &next, None, "").await.context("list events")?;
        n += page["items"].as_array().map_or(0, Vec::len);
        match page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
            // Tokens are base64 for URLs, or the server's own escaped form of it.
            Some(token) => next = format!("{path}&continue={}", token.replace('=', "%3D")),
            None => return Ok(n),
        }
    }
}

/// Takes away what [`fill`] made, and the events.
pub(super) async fn empty(api: &Api, round: &str, shape: Shape) -> Result<()> {
    let namespace = format!("/api/v1/namespaces/{round}");
    delete_now(api, &format!("{namespace}/pods")).await?;
    delete_now(api, &format!("/api/v1/nodes?labelSelector={ROUND_LABEL}%3D{round}")).await?;
    if let Some(devices) = shape.devices(round) {
        release_claims(api, &devices).await?;
        delete_now(api, &devices.claims_path()).await?;
        delete_now(api, &format!("{SLICES}?labelSelector={ROUND_LABEL}%3D{round}")).await?;
        delete_now(api, &devices.class_path()).await?;
    }
    delete_now(api, &format!("{namespace}/events")).await?;
    end_namespace(api, round).await
}

/// Takes their devices and finalizers from all claims, as a controller of claims does once their pods are gone.
async fn release_claims(api: &Api, devices: &Devices) -> Result<()> {
    let path = devices.claims_path();
    let claims = api.send("GET", &path, None, "").await.context("list claims")?;
    let names = claims["items"].as_array().into_iter().flatten();
    let names = names.filter_map(|claim| claim["metadata"]["name"].as_str());
    let patch = async |path: &str, patch: Value| {
        let answer = api.send("PATCH", path, Some(&patch), "application/merge-patch+json").await;
        answer.map(drop).with_context(|| format!("PATCH {path}"))
    };
    let (path, patch) = (&path, &patch);
    stream::iter(names)
        .map(|name| async move {
            let claim = format!("{path}/{name}");
            let status = json!({"status": {"reservedFor": null, "allocation": null}});
            patch(&format!("{claim}/status"), status).await?;
            patch(&claim, json!({"metadata": {"finalizers": null}})).await
        })
        .buffer_unordered(WIDTH)
        .try_collect()
        .await
}

/// Deletes the object at a path, without grace. It is no error if there is none.
pub(crate) async fn delete_now(api: &Api, path: &str) -> Result<()> {
    let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    match api.send("DELETE", path, Some(&now), "application/json").await {
        Err(error) if code(&error) != Some(404) => Err(error.context(format!("DELETE {path}"))),
        _ => Ok(()),
    }
}

/// Deletes a namespace that holds nothing any more, and waits until it is gone.
pub(crate) async fn end_namespace(api: &Api, name: &str) -> Result<()> {
    let namespace = format!("/api/v1/namespaces/{name}");
    match api.send("DELETE", &namespace, None, "").await {
        Err(error) if code(&error) != Some(404) => {
            return Err(error.context(format!("DELETE {namespace}")));
        }
        _ => {}
    }
    let give_up = Instant::now() + NAMESPACE_GRACE;
    loop {
        match api.send("GET", &namespace, None, "").await {
            Err(error) if code(&error) == Some(404) => return Ok(()),
            Err(error) => return Err(error),
            Ok(_) if Instant::now() < give_up => {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            // There is no controller that ends namespaces. This one holds nothing any more.
            Ok(mut object) => {
                object["spec"]["finalizers"] = json!([]);
                let path = format!("{namespace}/finalize");
                api.send("PUT", &path, Some(&object), "application/json").await?;
            }
        }
    }
}
