//! Binding without deciding: what an API server takes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use kube_scheduler_api_types::well_known::CLAIM_FINALIZER;
use kube_scheduler_tests::control_plane::{Api, code};
use serde_json::{Value, json};

use super::devices::Devices;
use super::shape::{Shape, node_name, pod_name};

/// How many pods are on their way at once.
const WIDTH: usize = 64;

/// Binds the pods of a round to its nodes, round robin, after their claims are written, if they have any.
///
/// # Errors
/// If the server refuses a write or goes away.
pub async fn bind_all(
    api: &Api,
    round: &str,
    n_nodes: usize,
    n_pods: usize,
    shape: Shape,
) -> Result<()> {
    let claims = match shape.devices(round) {
        Some(devices) => Some(Claims::read(api, round, devices).await?),
        None => None,
    };
    let work = Arc::new(Work {
        api: api.clone(),
        round: round.to_owned(),
        n_nodes: n_nodes.max(1),
        n_pods,
        next: AtomicUsize::new(0),
        claims,
    });
    let workers: Vec<_> = (0..WIDTH)
        .map(|_| {
            let work = work.clone();
            tokio::spawn(async move { work.go_on().await })
        })
        .collect();
    for worker in workers {
        worker.await.context("a worker broke down")??;
    }
    Ok(())
}

/// What the workers share.
struct Work {
    api: Api,
    round: String,
    n_nodes: usize,
    n_pods: usize,
    next: AtomicUsize,
    claims: Option<Claims>,
}

impl Work {
    /// Takes one pod after the other, until none is left.
    async fn go_on(&self) -> Result<()> {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.n_pods {
                return Ok(());
            }
            let node = node_name(&self.round, index % self.n_nodes);
            if let Some(claims) = &self.claims {
                claims.write(&self.api, index, &node, index / self.n_nodes).await?;
            }
            self.bind(&pod_name(index), &node).await?;
        }
    }

    async fn bind(&self, pod: &str, node: &str) -> Result<()> {
        let path = format!("/api/v1/namespaces/{}/pods/{pod}/binding", self.round);
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
            "target": {"kind": "Node", "name": node}});
        let answer = self.api.send("POST", &path, Some(&binding), "application/json").await;
        // Bound already: the answer to a first try was lost.
        match answer {
            Err(error) if code(&error) != Some(409) => Err(error.context(path)),
            _ => Ok(()),
        }
    }
}

/// The claims of all pods as they were before, and the pods' UIDs, by name.
struct Claims {
    devices: Devices,
    objects: HashMap<String, Value>,
    pod_uids: HashMap<String, Value>,
}

impl Claims {
    async fn read(api: &Api, round: &str, devices: Devices) -> Result<Self> {
        let list = async |path: &str| -> Result<HashMap<String, Value>> {
            let mut list = api.send("GET", path, None, "").await.context("list")?;
            let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
            let named = |object: Value| {
                (object["metadata"]["name"].as_str().unwrap_or_default().to_owned(), object)
            };
            Ok(items.into_iter().map(named).collect())
        };
        let objects = list(&devices.claims_path()).await?;
        let pods = list(&format!("/api/v1/namespaces/{round}/pods")).await?;
        let pod_uids =
            pods.into_iter().map(|(name, pod)| (name, pod["metadata"]["uid"].clone())).collect();
        Ok(Self { devices, objects, pod_uids })
    }

    /// Writes the claim of a pod as a scheduler does: finalizer first, then devices and reservation.
    async fn write(&self, api: &Api, index: usize, node: &str, device: usize) -> Result<()> {
        let name = pod_name(index);
        let path = format!("{}/{name}", self.devices.claims_path());
        let uid = self.pod_uids.get(&name).with_context(|| format!("there is no pod {name}"))?;
        let mut claim = self
            .objects
            .get(&name)
            .cloned()
            .with_context(|| format!("there is no claim {name}"))?;
        // Items of a list do not name what they are.
        claim["apiVersion"] = "resource.k8s.io/v1".into();
        claim["kind"] = "ResourceClaim".into();
        claim["metadata"]["finalizers"] = json!([CLAIM_FINALIZER]);
        let put = async |path: &str, object: &Value| {
            let answer = api.send("PUT", path, Some(object), "application/json").await;
            answer.with_context(|| format!("PUT {path}"))
        };
        let mut claim = put(&path, &claim).await?;
        claim["status"] = self.devices.allocated(node, device, &name, uid);
        put(&format!("{path}/status"), &claim).await.map(drop)
    }
}
