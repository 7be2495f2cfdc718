//! Sees pods being bound, through a watch as any client has it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{AsyncBufRead, AsyncBufReadExt};
use kube_scheduler_tests::control_plane::Api;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How many watches may end one after the other without telling anything new.
const MAX_FAILURES: u32 = 40;
const BETWEEN_WATCHES: Duration = Duration::from_millis(50);

/// What was seen so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) n_bound: usize,
    /// When the first bound pod was told, and the last.
    pub(super) first: Option<Instant>,
    pub(super) last: Option<Instant>,
}

/// A watch on the bound pods of a namespace.
pub(super) struct Watcher {
    seen: watch::Receiver<Seen>,
    task: JoinHandle<Result<()>>,
}

impl Watcher {
    /// Returns when the watch stands.
    pub(super) async fn start(api: &Api, namespace: &str) -> Result<Self> {
        let path = format!(
            "/api/v1/namespaces/{namespace}/pods?watch=1&timeoutSeconds=7200&resourceVersion=0&fieldSelector=spec.nodeName%21%3D"
        );
        let mut lines = api.stream(&path).await.context("watch pods")?;
        let (tell, seen) = watch::channel(Seen::default());
        let api = api.clone();
        let task = tokio::spawn(async move {
            let mut names = HashSet::new();
            let mut n_failures = 0;
            loop {
                let n_before = names.len();
                let ended = follow(lines, &mut names, &tell).await;
                n_failures = if names.len() > n_before { 0 } else { n_failures + 1 };
                if n_failures > MAX_FAILURES {
                    ended?;
                }
                // Servers end watches whose readers fall behind, and refuse some while they are behind themselves. A new one
                // begins with all bound pods.
                lines = loop {
                    tokio::time::sleep(BETWEEN_WATCHES).await;
                    match api.stream(&path).await.context("watch pods") {
                        Ok(lines) => break lines,
                        Err(error) if n_failures > MAX_FAILURES => return Err(error),
                        Err(_) => n_failures += 1,
                    }
                };
            }
        });
        Ok(Self { seen, task })
    }

    pub(super) fn seen(&self) -> Seen {
        *self.seen.borrow()
    }

    /// Waits until so many pods are bound, showing each change to `show`.
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

/// Takes in what a watch tells until it ends.
async fn follow(
    mut lines: impl AsyncBufRead + Unpin,
    names: &mut HashSet<String>,
    tell: &watch::Sender<Seen>,
) -> Result<()> {
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).await.context("watch pods")? > 0 {
        let now = Instant::now();
        if let Some(name) = bound_pod(&line)?
            && names.insert(name)
        {
            tell.send_modify(|seen| {
                seen.n_bound += 1;
                seen.first.get_or_insert(now);
                seen.last = Some(now);
            });
        }
        line.clear();
    }
    Ok(())
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: &'a str,
    #[serde(default)]
    object: Object,
}

#[derive(Default, Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    message: String,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    node_name: String,
}

/// The name of the pod that a line of the watch tells to be bound.
fn bound_pod(line: &[u8]) -> Result<Option<String>> {
    let event: Event<'_> = serde_json::from_slice(line).context("watch pods")?;
    match event.kind {
        "ADDED" | "MODIFIED" if !event.object.spec.node_name.is_empty() => {
            Ok(Some(event.object.metadata.name))
        }
        "ERROR" => anyhow::bail!("watch pods: {}", event.object.message),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bound_pods_count() {
        let line = |kind: &str, node: &str| {
            format!(
                r#"{{"type":"{kind}","object":{{"kind":"Pod","metadata":{{"name":"a"}},"spec":{{"nodeName":"{node}"}}}}}}"#
            )
        };
        let told = |kind, node| bound_pod(line(kind, node).as_bytes()).unwrap();
        assert_eq!(told("ADDED", "n"), Some("a".to_owned()));
        assert_eq!(told("MODIFIED", "n"), Some("a".to_owned()));
        assert_eq!(told("ADDED", ""), None);
        assert_eq!(told("DELETED", "n"), None);
    }

    #[test]
    fn what_the_server_complains_about_is_told() {
        let line = br#"{"type":"ERROR","object":{"kind":"Status","message":"too old resource version","code":410}}"#;
        assert_eq!(
            bound_pod(line).unwrap_err().to_string(),
            "watch pods: too old resource version"
        );
    }
}
