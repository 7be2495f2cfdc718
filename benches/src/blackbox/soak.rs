//! One scheduler for a long time: pods come and go at a steady rate, no two alike, and what it holds in memory and how long
//! pods wait is looked at meanwhile. In the end the two must be as they were.

mod verdict;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::AsyncBufRead;
use kube_scheduler_api_types::lock;
use kube_scheduler_tests::control_plane::{Api, Change, Features, Process, Watch, open_watch};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

pub use self::verdict::Verdict;
use self::verdict::WaitSeries;
use super::load;
use super::process_usage::Usage;
use super::server::{Backend, Cluster};
use super::shape::Shape;
use crate::table::Table;

const NAMESPACE: &str = "soak";
/// How many figures there are of a whole soak.
const N_SAMPLES: u32 = 20;
/// How long the scheduler has to forget what is gone, before memory is looked at for the last time.
const SETTLING: Duration = Duration::from_secs(90);
/// A scheduler has read everything when it takes no more than this processor time in each of this many seconds in a row.
const SECONDS_AT_REST: u32 = 10;
const CPU_AT_REST: Duration = Duration::from_millis(50);
/// How long it may take until then.
const READING: Duration = Duration::from_secs(300);

/// What to do and how.
#[derive(Clone, Debug)]
pub struct Soak {
    /// The API server; one of our own.
    pub backend: Backend,
    /// How many nodes there are.
    pub n_nodes: usize,
    /// How long pods come and go.
    pub length: Duration,
    /// How many come in a second.
    pub pods_per_second: u32,
    /// How many are there before the oldest goes for each that comes.
    pub n_pods: usize,
    /// How many more bytes the scheduler may hold once all pods are gone than before the first.
    pub max_growth: u64,
    /// This program: it is the devcluster, too.
    pub program: PathBuf,
    /// The scheduler and its arguments; `{kubeconfig}` stands for the kubeconfig to use.
    pub command: Vec<String>,
}

/// When pods came that are not bound yet, and how long the others waited since the last sample.
#[derive(Debug, Default)]
struct Waits {
    came: HashMap<String, Instant>,
    waited: Vec<Duration>,
    n_bound: usize,
}

type SharedWaits = Arc<Mutex<Waits>>;

/// What was seen since the sample before.
#[derive(Clone, Copy, Debug)]
struct Sample {
    memory_bytes: u64,
    /// 99 of 100 pods waited no longer; nothing if none was bound.
    p99: Option<Duration>,
}

/// A pod like no other: its labels, and what it asks for beside room.
fn pod(index: usize) -> Value {
    let app = format!("app-{index}");
    let mut pod = Shape::Plain.pod(index);
    pod["metadata"]["labels"] = json!({"app": app, "shard": format!("s{}", index % 7)});
    let milli = 50 + index * 37 % 400;
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": format!("{milli}m"), "memory": format!("{}Mi", 64 + index % 129)}});
    let selector = json!({"matchLabels": {"app": app}});
    match index % 4 {
        0 => {}
        1 => {
            pod["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
                "topologyKey": "topology.kubernetes.io/zone", "labelSelector": selector}]);
        }
        2 => {
            pod["spec"]["affinity"]["podAntiAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}]});
        }
        _ => {
            pod["spec"]["tolerations"] =
                json!([{"key": format!("t{index}"), "operator": "Exists"}]);
            pod["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
        }
    }
    pod
}

impl Soak {
    /// Plays it; a table of samples, and whether memory and waits stayed as they were. The last line is of the time after all
    /// pods were deleted.
    ///
    /// # Errors
    /// If the cluster does not start or refuses something, or the scheduler ends.
    pub async fn play(&self) -> Result<(Table, Verdict)> {
        let cluster = Cluster::start(&self.backend, &self.program, Features::Default).await?;
        load::fill(&cluster.api, NAMESPACE, self.n_nodes, 0, Shape::Plain).await?;
        let waits = SharedWaits::default();
        let watch = tokio::spawn(follow(cluster.api.clone(), waits.clone()));
        let kubeconfig = cluster.scheduler_kubeconfig.to_string_lossy().into_owned();
        let command = self.command.iter().map(|arg| arg.replace("{kubeconfig}", &kubeconfig));
        let command: Vec<String> = command.collect();
        let (program, args) = command.split_first().context("there is no scheduler to start")?;
        let mut scheduler =
            Process::start(program.as_ref(), args, &cluster.files().join("scheduler.log"))?;
        let outcome = self.churn(&cluster.api, &waits, &mut scheduler).await;
        watch.abort();
        if scheduler.ended().is_none() {
            scheduler.terminate().await?;
        }
        outcome
    }

    async fn churn(
        &self,
        api: &Api,
        waits: &SharedWaits,
        scheduler: &mut Process,
    ) -> Result<(Table, Verdict)> {
        let mut table = Table::new([
            "minutes",
            "created",
            "bound",
            "memory MiB",
            "CPU s",
            "wait p50 ms",
            "p99 ms",
            "max ms",
        ]);
        let before_bytes = at_rest(scheduler).await?.memory_bytes;
        let started = Instant::now();
        let mut tick = tokio::time::interval(Duration::from_secs(1) / self.pods_per_second.max(1));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut n_created, mut n_samples, mut waits_by_sample) = (0, 0, WaitSeries::default());
        while started.elapsed() < self.length {
            tick.tick().await;
            let pod = pod(n_created);
            let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            lock(waits).came.insert(name, Instant::now());
            let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
            api.send("POST", &path, Some(&pod), "application/json").await?;
            n_created += 1;
            if let Some(oldest) = n_created.checked_sub(self.n_pods + 1) {
                load::delete_now(api, &format!("{path}/{}", super::shape::pod_name(oldest)))
                    .await?;
            }
            if started.elapsed() >= self.length * (n_samples + 1) / N_SAMPLES {
                n_samples += 1;
                let sample = sample(&mut table, started, n_created, waits, scheduler)?;
                waits_by_sample.add(sample.p99, n_created >= self.n_pods);
                eprint!("{}", table.plain());
            }
        }
        load::delete_now(api, &format!("/api/v1/namespaces/{NAMESPACE}/pods")).await?;
        tokio::time::sleep(SETTLING).await;
        let Sample { memory_bytes, .. } = sample(&mut table, started, n_created, waits, scheduler)?;
        let verdict = Verdict {
            before_bytes,
            after_bytes: memory_bytes,
            max_growth: self.max_growth,
            p99s: waits_by_sample.early_and_late(),
        };
        Ok((table, verdict))
    }
}

fn usage(scheduler: &mut Process) -> Result<Usage> {
    let Some(usage) = Usage::of(scheduler.id()).filter(|_| scheduler.ended().is_none()) else {
        bail!("the scheduler ended:\n{}", scheduler.log());
    };
    Ok(usage)
}

/// What a scheduler uses that has read everything: it does next to nothing for a while then.
async fn at_rest(scheduler: &mut Process) -> Result<Usage> {
    let give_up = Instant::now() + READING;
    let (mut last, mut n_seconds) = (usage(scheduler)?, 0);
    while n_seconds < SECONDS_AT_REST {
        if Instant::now() >= give_up {
            bail!(
                "the scheduler does not come to rest within {READING:?}, though there are no pods"
            );
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = usage(scheduler)?;
        n_seconds = if now.cpu.saturating_sub(last.cpu) <= CPU_AT_REST { n_seconds + 1 } else { 0 };
        last = now;
    }
    Ok(last)
}

fn sample(
    table: &mut Table,
    started: Instant,
    n_created: usize,
    waits: &SharedWaits,
    scheduler: &mut Process,
) -> Result<Sample> {
    let usage = usage(scheduler)?;
    let (mut waited, n_bound) = {
        let mut waits = lock(waits);
        (std::mem::take(&mut waits.waited), waits.n_bound)
    };
    waited.sort_unstable();
    let at = |hundredths: usize| {
        let at = (waited.len() * hundredths).div_ceil(100).saturating_sub(1);
        waited.get(at).copied()
    };
    let millis = |wait: Option<Duration>| {
        wait.map_or("-".to_owned(), |wait| format!("{:.1}", wait.as_secs_f64() * 1e3))
    };
    table.push(vec![
        format!("{:.1}", started.elapsed().as_secs_f64() / 60.0),
        n_created.to_string(),
        n_bound.to_string(),
        format!("{:.1}", usage.memory_bytes as f64 / f64::from(1 << 20)),
        format!("{:.1}", usage.cpu.as_secs_f64()),
        millis(at(50)),
        millis(at(99)),
        millis(at(100)),
    ]);
    Ok(Sample { memory_bytes: usage.memory_bytes, p99: at(99) })
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WatchedPod {
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

/// Notes when pods are bound, until it is aborted. A watch that ends is followed by another one.
async fn follow(api: Api, waits: SharedWaits) {
    let path = format!(
        "/api/v1/namespaces/{NAMESPACE}/pods?watch=1&resourceVersion=0&fieldSelector=spec.nodeName%21%3D"
    );
    loop {
        if let Ok(pods) = open_watch(&api, &path).await {
            read(pods, &waits).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn read(mut pods: Watch<impl AsyncBufRead + Unpin>, waits: &SharedWaits) {
    while let Ok(Some(change)) = pods.next::<WatchedPod>().await {
        let Change::Applied(seen) = change else { continue };
        let mut waits = lock(waits);
        if !seen.spec.node_name.is_empty()
            && let Some(came) = waits.came.remove(&seen.metadata.name)
        {
            waits.waited.push(came.elapsed());
            waits.n_bound += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_pods_are_alike() {
        let pods: Vec<Value> = (0..40).map(pod).collect();
        for (at, one) in pods.iter().enumerate() {
            assert!(
                pods[at + 1..]
                    .iter()
                    .all(|other| other["metadata"]["labels"] != one["metadata"]["labels"])
            );
        }
    }
}
