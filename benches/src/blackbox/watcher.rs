//! Sees pods being bound, through a watch as any client has it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::AsyncBufRead;
use kube_scheduler_tests::control_plane::{Api, Change, Watch, open_watch};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How many watches may end in succession without any new event.
const MAX_FAILURES: u32 = 40;
const BETWEEN_WATCHES: Duration = Duration::from_millis(50);

/// What was seen so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BoundPods {
    pub(super) n_bound: usize,
    /// When the first bound pod was reported, and the last.
    pub(super) first: Option<Instant>,
    pub(super) last: Option<Instant>,
}

/// A watch on the bound pods of a namespace.
pub(super) struct Watcher {
    seen: watch::Receiver<BoundPods>,
    task: JoinHandle<Result<()>>,
}

impl Watcher {
    /// Returns when the watch stands.
    pub(super) async fn start(api: &Api, namespace: &str) -> Result<Self> {
        let path = format!(
            "/api/v1/namespaces/{namespace}/pods?watch=1&timeoutSeconds=7200&resourceVersion=0&fieldSelector=spec.nodeName%21%3D"
        );
        let mut pods = open_watch(api, &path).await?;
        let (tell, seen) = watch::channel(BoundPods::default());
        let api = api.clone();
        let task = tokio::spawn(async move {
            let mut names = HashSet::new();
            let mut n_failures = 0;
            loop {
                let n_before = names.len();
                let ended = follow(pods, &mut names, &tell).await;
                n_failures = if names.len() > n_before { 0 } else { n_failures + 1 };
                if n_failures > MAX_FAILURES {
                    ended?;
                }
                // Servers end watches whose readers fall behind, and refuse some while they are behind themselves. A new one
                // begins with all bound pods.
                pods = loop {
                    tokio::time::sleep(BETWEEN_WATCHES).await;
                    match open_watch(&api, &path).await {
                        Ok(pods) => break pods,
                        Err(error) if n_failures > MAX_FAILURES => return Err(error),
                        Err(_) => n_failures += 1,
                    }
                };
            }
        });
        Ok(Self { seen, task })
    }

    pub(super) fn seen(&self) -> BoundPods {
        *self.seen.borrow()
    }

    /// Waits until this many pods are bound, showing each change to `show`.
    ///
    /// # Errors
    /// If the watch ends before.
    pub(super) async fn until_bound(
        &mut self,
        n: usize,
        mut show: impl FnMut(usize),
    ) -> Result<()> {
        loop {
            let n_bound = self.seen.borrow_and_update().n_bound;
            show(n_bound);
            if n_bound >= n {
                return Ok(());
            }
            if self.seen.changed().await.is_err() {
                return (&mut self.task).await.context("the watch on pods")?;
            }
        }
    }
}

/// Records what a watch reports until it ends.
async fn follow(
    mut pods: Watch<impl AsyncBufRead + Unpin>,
    names: &mut HashSet<String>,
    tell: &watch::Sender<BoundPods>,
) -> Result<()> {
    while let Some(change) = pods.next().await? {
        let now = Instant::now();
        if let Some(name) = bound_pod(change)
            && names.insert(name)
        {
            tell.send_modify(|seen| {
                seen.n_bound += 1;
                seen.first.get_or_insert(now);
                seen.last = Some(now);
            });
        }
    }
    Ok(())
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Pod {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: String,
}

/// The name of the pod, if the watch reports that it is bound.
fn bound_pod(change: Change<Pod>) -> Option<String> {
    match change {
        Change::Applied(pod) if !pod.spec.node_name.is_empty() => Some(pod.metadata.name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bound_pods_count() {
        let pod = |node: &str| {
            let json = format!(r#"{{"metadata":{{"name":"a"}},"spec":{{"nodeName":"{node}"}}}}"#);
            serde_json::from_str::<Pod>(&json).unwrap()
        };
        assert_eq!(bound_pod(Change::Applied(pod("n"))), Some("a".to_owned()));
        assert_eq!(bound_pod(Change::Applied(pod(""))), None);
        assert_eq!(bound_pod(Change::Deleted(pod("n"))), None);
    }
}
