//! Binding without deciding: what an API server takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use kube_scheduler_tests::control_plane::{Api, code};
use serde_json::json;

use super::shape::{node_name, pod_name};

/// How many bindings are on their way at once.
const WIDTH: usize = 64;

/// Binds the pods of a round to its nodes, round robin.
///
/// # Errors
/// If the server refuses a binding or goes away.
pub async fn bind_all(api: &Api, round: &str, n_nodes: usize, n_pods: usize) -> Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (0..WIDTH)
        .map(|_| {
            let (api, round, next) = (api.clone(), round.to_owned(), next.clone());
            tokio::spawn(async move {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= n_pods {
                        return anyhow::Ok(());
                    }
                    let name = pod_name(index);
                    let path = format!("/api/v1/namespaces/{round}/pods/{name}/binding");
                    let binding = json!({"apiVersion": "v1", "kind": "Binding",
                        "metadata": {"name": name},
                        "target": {"kind": "Node", "name": node_name(&round, index % n_nodes.max(1))}});
                    let answer = api.send("POST", &path, Some(&binding), "application/json").await;
                    // Bound already: the answer to a first try was lost.
                    if let Err(error) = answer
                        && code(&error) != Some(409)
                    {
                        return Err(error.context(path));
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.context("a worker broke down")??;
    }
    Ok(())
}
