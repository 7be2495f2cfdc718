//! The cluster of one workload: its API server, our scheduler in it, what is known of its pods, and what was created.
//!
//! Invariant: what was created in a cluster that was there before is written down before it is created, so that it can be
//! taken away whatever happens.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, anyhow, bail};
use futures::stream::{self, StreamExt, TryStreamExt};
use kube_scheduler_api_types::lock;
use kube_scheduler_config::{Configuration, FeatureGates, Gate, default, load};
use kube_scheduler_daemon::{Daemon, DaemonHandle, Endpoint};
use kube_scheduler_plugins_intree::registry;
use kube_scheduler_tests::control_plane::{Api, Features, code, control_claims};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::objects::collection;
use super::pods::{Pods, follow};
use super::versions::ServedVersions;
use crate::blackbox::{Backend, Cluster, delete_now, end_namespace, refuse_other_nodes};

/// How many requests are on their way at once.
pub(crate) const WIDTH: usize = 30;

/// A running cluster with a scheduler in it.
pub(crate) struct ScheduledCluster {
    parts: Parts,
    cluster: Cluster,
    created: Arc<Mutex<CreatedObjects>>,
    tasks: Vec<JoinHandle<Result<()>>>,
    _stop: oneshot::Sender<()>,
}

/// What operations look at.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) pods: Pods,
    pub(crate) scheduler: DaemonHandle,
}

/// What to take away at the end.
#[derive(Debug, Default)]
struct CreatedObjects {
    namespaces: BTreeSet<String>,
    /// Where objects in namespaces are.
    collections: BTreeSet<String>,
    /// Paths of objects outside of namespaces.
    objects: BTreeSet<String>,
}

/// Feature gates of a workload. Hints can be turned off in versions before 1.34 only, so that one is emulated then.
pub(crate) fn gates(wanted: &BTreeMap<String, bool>) -> Result<FeatureGates> {
    let mut gates = if wanted.get("SchedulerQueueingHints") == Some(&false) {
        FeatureGates::emulating("1.33")?
    } else {
        FeatureGates::default()
    };
    gates.set(wanted).context("featureGates")?;
    Ok(gates)
}

impl ScheduledCluster {
    /// Starts everything, and waits until the scheduler has seen what there is. `config` is a
    /// KubeSchedulerConfiguration; empty stands for the default one.
    pub(crate) async fn start(
        backend: &Backend,
        program: &Path,
        config: &str,
        gates: FeatureGates,
        seed: u64,
    ) -> Result<Self> {
        let config = if config.is_empty() {
            let mut config = Configuration::default();
            default(&mut config, &gates);
            config
        } else {
            load(config, &gates).context("schedulerConfigPath")?
        };
        // Features that are off by default only for workloads that need them, so that the others measure what users have.
        let features = match gates.is_enabled(Gate::GenericWorkload) {
            true => Features::Gated,
            false => Features::AllVersions,
        };
        let cluster = Cluster::start(backend, program, features).await?;
        let api = cluster.api.clone();
        refuse_other_nodes(&api).await?;
        let pods = Pods::new();
        let (standing, stands) = oneshot::channel();
        let mut tasks = vec![tokio::spawn(follow(api.clone(), pods.clone(), standing))];
        if stands.await.is_err()
            && let Some(task) = tasks.pop()
        {
            task.await??;
            bail!("the watch on pods ended at once");
        }
        if cluster.has_no_controllers() {
            tasks.push(tokio::spawn(control_claims(api.clone())));
        }
        let endpoint = Endpoint::from_kubeconfig(&cluster.scheduler_kubeconfig, None).await?;
        let daemon = Daemon::builder(endpoint, registry()).config(config).gates(gates).seed(seed);
        let daemon = daemon.start().await.context("start the scheduler")?;
        let scheduler = daemon.handle();
        let (stop, stopped) = oneshot::channel::<()>();
        tasks.push(tokio::spawn(async move {
            daemon.run(async { drop(stopped.await) }).await.context("the scheduler")
        }));
        if !scheduler.synced().await {
            bail!("the scheduler ended before it had seen the cluster");
        }
        let parts = Parts { pods, scheduler };
        Ok(Self { parts, cluster, created: Arc::default(), tasks, _stop: stop })
    }

    /// Returns when the scheduler or the watch on pods ends, which they should not.
    pub(crate) async fn breakdown(&mut self) -> anyhow::Error {
        let ended = futures::future::select_all(&mut self.tasks).await.0;
        match ended {
            Ok(Ok(())) => anyhow!("the scheduler ended by itself"),
            Ok(Err(error)) => error,
            Err(error) => anyhow!(error),
        }
    }

    /// What operations look at.
    pub(crate) fn parts(&self) -> Parts {
        self.parts.clone()
    }

    /// What operations need of the cluster, for tasks of their own.
    pub(crate) fn hands(&self) -> Hands {
        let created = self.cluster.is_kept().then(|| self.created.clone());
        Hands {
            api: self.cluster.api.clone(),
            created,
            priorities: Arc::default(),
            versions: Arc::default(),
        }
    }

    /// Takes away what was created, if the cluster stays.
    pub(crate) async fn end(self) -> Result<()> {
        for task in &self.tasks {
            task.abort();
        }
        if !self.cluster.is_kept() {
            return Ok(());
        }
        let created = std::mem::take(&mut *lock(&self.created));
        let api = &self.cluster.api;
        stream::iter(created.collections.into_iter().chain(created.objects))
            .map(async |path| delete_now(api, &path).await)
            .buffer_unordered(WIDTH)
            .try_collect::<()>()
            .await?;
        for namespace in created.namespaces {
            delete_now(api, &format!("/api/v1/namespaces/{namespace}/events")).await?;
            end_namespace(api, &namespace).await?;
        }
        Ok(())
    }
}

/// Creates, changes and deletes objects.
#[derive(Clone)]
pub(crate) struct Hands {
    pub(crate) api: Api,
    created: Option<Arc<Mutex<CreatedObjects>>>,
    /// Priorities that there is a class for.
    priorities: Arc<tokio::sync::Mutex<BTreeSet<i64>>>,
    /// In which versions the server has pod groups.
    versions: Arc<ServedVersions>,
}

impl Hands {
    /// Creates an object and returns it as the server has it.
    pub(crate) async fn create(&self, object: &Value, namespace: &str) -> Result<Value> {
        let object = &*self.versions.as_served(&self.api, object).await?;
        let path = collection(object, namespace)?;
        self.note(&path, object, namespace);
        let object = &*self.with_class(object).await?;
        let strict = format!("{path}?fieldValidation=Strict");
        let answer = self.api.send("POST", &strict, Some(object), "application/json").await;
        let made = answer.with_context(|| format!("create {}", shown(object)))?;
        if object["metadata"]["name"].is_null() {
            self.note(&path, &made, namespace);
        }
        Ok(made)
    }

    /// A pod with a priority but no class gets one of that value, because admission refuses it otherwise.
    ///
    /// Parity: the reference turns that admission off in the API server that it starts.
    async fn with_class<'o>(&self, object: &'o Value) -> Result<Cow<'o, Value>> {
        let spec = &object["spec"];
        let (true, Some(priority), true) = (
            object["kind"] == "Pod",
            spec["priority"].as_i64(),
            spec["priorityClassName"].is_null(),
        ) else {
            return Ok(Cow::Borrowed(object));
        };
        let sign = if priority < 0 { "minus-" } else { "" };
        let name = format!("scheduler-perf-{sign}{}", priority.unsigned_abs());
        let mut priorities = self.priorities.lock().await;
        if !priorities.contains(&priority) {
            let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": name}, "value": priority});
            match Box::pin(self.create(&class, "")).await {
                Err(error) if code(&error) != Some(409) => return Err(error),
                _ => {}
            }
            priorities.insert(priority);
        }
        drop(priorities);
        let mut object = object.clone();
        object["spec"]["priorityClassName"] = name.into();
        Ok(Cow::Owned(object))
    }

    fn note(&self, path: &str, object: &Value, namespace: &str) {
        let Some(created) = &self.created else { return };
        let mut created = lock(created);
        let name = object["metadata"]["name"].as_str();
        if !namespace.is_empty() {
            created.collections.insert(path.to_owned());
        } else if let Some(name) = name {
            if object["kind"] == "Namespace" {
                created.namespaces.insert(name.to_owned());
            } else {
                created.objects.insert(format!("{path}/{name}"));
            }
        }
    }

    /// Creates a namespace; that it is there is no error.
    pub(crate) async fn create_namespace(&self, namespace: &Value) -> Result<()> {
        match self.create(namespace, "").await {
            Err(error) if code(&error) != Some(409) => return Err(error),
            _ => {}
        }
        if self.created.is_some() {
            // Where admission looks for it, its controller may be slow or not there at all.
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
            let name = namespace["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("/api/v1/namespaces/{name}/serviceaccounts");
            let made = self.api.send("POST", &path, Some(&account), "application/json").await;
            if let Err(error) = made
                && code(&error) != Some(409)
            {
                return Err(error.context("create the service account"));
            }
        }
        Ok(())
    }

    /// Replaces an object, or the parts of it that `subresources` name.
    pub(crate) async fn replace(
        &self,
        object: &Value,
        namespace: &str,
        subresources: &[&str],
    ) -> Result<()> {
        let name = object["metadata"]["name"].as_str().context("an update needs metadata.name")?;
        let parts = [&[name], subresources].concat().join("/");
        let path = format!("{}/{parts}?fieldValidation=Strict", collection(object, namespace)?);
        let object = &*self.with_class(object).await?;
        self.api
            .send("PUT", &path, Some(object), "application/json")
            .await
            .with_context(|| format!("update {}", shown(object)))?;
        Ok(())
    }

    /// Deletes an object with the grace that it asks for; that it is gone is no error.
    pub(crate) async fn delete(&self, path: &str) -> Result<()> {
        match self.api.send("DELETE", path, None, "").await {
            Err(error) if code(&error) != Some(404) => Err(error.context(format!("delete {path}"))),
            _ => Ok(()),
        }
    }

    /// Creates `n` objects, several at a time.
    pub(crate) async fn create_all(
        &self,
        n: usize,
        namespace: &str,
        object: impl Fn(usize) -> Result<Value>,
    ) -> Result<()> {
        stream::iter(0..n)
            .map(|index| {
                let object = object(index);
                async move { self.create(&object?, namespace).await.map(drop) }
            })
            .buffer_unordered(WIDTH)
            .try_collect::<()>()
            .await
    }
}

/// For errors.
fn shown(object: &Value) -> String {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().or(metadata["generateName"].as_str()).unwrap_or_default();
    format!("{} {name}", object["kind"].as_str().unwrap_or("object"))
}

/// The text of a scheduler configuration; empty if none is named.
pub(crate) fn scheduler_config(directory: &Path, path: &str) -> Result<String> {
    if path.is_empty() {
        return Ok(String::new());
    }
    let path: PathBuf = directory.join(path);
    std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}
