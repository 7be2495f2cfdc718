//! Objects that come, or come and go, in the background.

use std::time::Duration;

use anyhow::{Context, Result};

use super::super::cluster::Hands;
use super::super::objects::collection;
use super::super::op::{Churn, ChurnMode};
use super::{Executor, ticker};

const DEFAULT_INTERVAL: Duration = Duration::from_millis(500);

impl Executor<'_> {
    pub(super) async fn churn(&mut self, index: usize, op: &Churn) -> Result<()> {
        let namespace = op.namespace.clone().unwrap_or_else(|| format!("namespace-{index}"));
        // Not one that a barrier waits for.
        let object = serde_json::json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace}});
        self.hands.create_namespace(&object).await?;
        let mut kinds = Vec::new();
        for path in &op.template_paths {
            let object = self.template(path)?.plain()?;
            // A kind that lives outside of namespaces is created there.
            let (namespace, path) = match collection(&object, &namespace) {
                Ok(path) => (namespace.clone(), path),
                Err(_) => (String::new(), collection(&object, "").context(path.clone())?),
            };
            kinds.push(ChurnedObject { object, namespace, path });
        }
        let interval = match op.interval_milliseconds {
            0 => DEFAULT_INTERVAL,
            millis => Duration::from_millis(millis),
        };
        let hands = self.hands.clone();
        let n = op.number;
        match op.mode {
            ChurnMode::Create => {
                let n = if n == 0 { usize::MAX } else { n };
                self.state.background.spawn(create(hands, kinds, interval, n));
            }
            ChurnMode::Recreate => {
                self.state.background.spawn(recreate(hands, kinds, interval, n));
            }
        }
        Ok(())
    }
}

/// A kind of object that is created again and again.
struct ChurnedObject {
    object: serde_json::Value,
    namespace: String,
    path: String,
}

impl ChurnedObject {
    /// The path of the new object; nothing if it was refused, which is no failure of the workload.
    async fn create(&self, hands: &Hands) -> Option<String> {
        let made = hands.create(&self.object, &self.namespace).await.ok()?;
        Some(format!("{}/{}", self.path, made["metadata"]["name"].as_str()?))
    }
}

async fn create(
    hands: Hands,
    kinds: Vec<ChurnedObject>,
    interval: Duration,
    n: usize,
) -> Result<()> {
    let mut ticks = ticker(interval);
    for _ in 0..n {
        ticks.tick().await;
        for kind in &kinds {
            kind.create(&hands).await;
        }
    }
    Ok(())
}

/// Creates for `n` ticks, deletes for as many, and so on.
async fn recreate(
    hands: Hands,
    kinds: Vec<ChurnedObject>,
    interval: Duration,
    n: usize,
) -> Result<()> {
    let mut ticks = ticker(interval);
    let mut made: Vec<Vec<Option<String>>> = vec![vec![None; n]; kinds.len()];
    for slot in (0..n).cycle() {
        ticks.tick().await;
        for (kind, made) in kinds.iter().zip(&mut made) {
            let old = made.get_mut(slot).and_then(Option::take);
            let new = match old {
                Some(path) => {
                    hands.delete(&path).await?;
                    None
                }
                None => kind.create(&hands).await,
            };
            if let Some(place) = made.get_mut(slot) {
                *place = new;
            }
        }
    }
    Ok(())
}
