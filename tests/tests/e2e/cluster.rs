//! A cluster to play scenarios in: the embedded one, or a real API server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use kube_scheduler_devcluster::{DevCluster, User};
use kube_scheduler_tests::control_plane::{Api, Assets, Features, RealServer, ServerOptions, code};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::Mutex;

use crate::inhabitants::Inhabitants;
use crate::wait::until;

/// Which API server to use.
#[derive(Clone, Debug)]
pub(crate) enum Backend {
    /// The one in memory.
    Embedded,
    /// kube-apiserver and etcd.
    Real(Assets),
}

enum Server {
    Embedded(DevCluster),
    Real(Box<Mutex<RealServer>>),
}

/// A running cluster.
pub(crate) struct Cluster {
    api: Api,
    server: Server,
    inhabitants: Option<Inhabitants>,
    scheduler_kubeconfig: PathBuf,
    /// The program under test.
    program: PathBuf,
    files: TempDir,
}

impl Cluster {
    /// Starts one, without any node. `program` is the scheduler for scenarios that need a process of its own. The embedded
    /// cluster has all features always.
    pub(crate) async fn start(
        backend: &Backend,
        program: &Path,
        features: Features,
    ) -> Result<Self> {
        let options = ServerOptions { audits: true, features };
        let mut cluster = Self::start_bare(backend, program, options).await?;
        cluster.inhabitants = Some(Inhabitants::start(cluster.api.clone()));
        Ok(cluster)
    }

    /// Starts one in which no kubelet runs pods and no controller binds volumes.
    pub(crate) async fn start_bare(
        backend: &Backend,
        program: &Path,
        options: ServerOptions,
    ) -> Result<Self> {
        let files = tempfile::tempdir()?;
        let (server, administrator, scheduler) = match backend {
            Backend::Embedded => {
                let builder = DevCluster::builder().tls(true).rbac(true);
                let builder = builder.hollow(None).volumes(None).disruption_controller(false);
                let builder = builder.claim_controller(false);
                let cluster = builder.start().await?;
                let scheduler = cluster.kubeconfig_for(&User::kube_scheduler())?;
                let administrator = cluster.kubeconfig_for(&User::administrator())?;
                (Server::Embedded(cluster), administrator, scheduler)
            }
            Backend::Real(assets) => {
                let server = RealServer::start(assets, files.path(), options).await?;
                let scheduler = server.kubeconfig_for(&User::kube_scheduler())?;
                let administrator = server.kubeconfig_for(&User::administrator())?;
                (Server::Real(Box::new(Mutex::new(server))), administrator, scheduler)
            }
        };
        let scheduler_kubeconfig = files.path().join("scheduler.conf");
        std::fs::write(&scheduler_kubeconfig, scheduler)?;
        let api = Api::of_kubeconfig(&administrator).await?;
        let program = program.to_owned();
        Ok(Self { api, server, inhabitants: None, scheduler_kubeconfig, program, files })
    }

    /// The API as the administrator.
    pub(crate) fn api(&self) -> &Api {
        &self.api
    }

    /// The kubeconfig of `system:kube-scheduler`.
    pub(crate) fn scheduler_kubeconfig(&self) -> &Path {
        &self.scheduler_kubeconfig
    }

    /// The program under test.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// A directory that goes with the cluster.
    pub(crate) fn files(&self) -> &Path {
        self.files.path()
    }

    /// Credentials of another user.
    pub(crate) async fn kubeconfig_for(&self, user: &User) -> Result<String> {
        match &self.server {
            Server::Embedded(cluster) => Ok(cluster.kubeconfig_for(user)?),
            Server::Real(server) => server.lock().await.kubeconfig_for(user),
        }
    }

    /// Kills the API server and starts it again after `downtime`; returns when a real one is ready again.
    pub(crate) async fn restart_api_server(&self, downtime: Duration) -> Result<()> {
        match &self.server {
            Server::Embedded(cluster) => {
                cluster.restart(downtime);
                Ok(())
            }
            Server::Real(server) => server.lock().await.restart(downtime).await,
        }
    }

    /// What was refused to the scheduler so far, one line each.
    pub(crate) async fn denied(&self) -> Result<Vec<String>> {
        match &self.server {
            Server::Embedded(cluster) => {
                Ok(cluster.denied().iter().map(|denial| format!("{denial:?}")).collect())
            }
            Server::Real(server) => server.lock().await.denied(),
        }
    }

    /// Where each pod is bound to, if it is.
    pub(crate) async fn placements(&self) -> BTreeMap<String, Option<String>> {
        let pods = self.api.list("Pod").await.expect("pods can be listed");
        let placement = |pod: &Value| {
            let node = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty());
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            (name.to_owned(), node.map(str::to_owned))
        };
        pods.iter().map(placement).collect()
    }

    /// How many pods are bound.
    pub(crate) async fn n_bound(&self) -> usize {
        self.placements().await.values().flatten().count()
    }

    /// Waits for `n` bound pods.
    pub(crate) async fn until_bound(&self, n: usize) {
        until(&format!("{n} pods bound"), async || self.n_bound().await >= n).await;
    }

    /// Waits until a pod is bound, and returns its node.
    pub(crate) async fn node_of(&self, pod: &str) -> String {
        let mut node = None;
        until(&format!("pod {pod} bound"), async || {
            let object = self.api.get("Pod", pod).await.expect("pods can be read");
            node = object
                .and_then(|pod| pod["spec"]["nodeName"].as_str().map(str::to_owned))
                .filter(|node| !node.is_empty());
            node.is_some()
        })
        .await;
        node.unwrap_or_default()
    }

    /// The PodScheduled condition of a pod; null when there is none.
    pub(crate) async fn condition(&self, pod: &str) -> Value {
        let pod = self.api.get("Pod", pod).await.expect("pods can be read").unwrap_or_default();
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let scheduled = conditions.into_iter().find(|one| one["type"] == "PodScheduled");
        scheduled.unwrap_or_default()
    }

    /// Waits until a pod's condition says that it fits nowhere, and returns the message.
    pub(crate) async fn until_unschedulable(&self, pod: &str) -> String {
        let mut condition = Value::Null;
        until(&format!("pod {pod} unschedulable"), async || {
            condition = self.condition(pod).await;
            condition["reason"] == "Unschedulable"
        })
        .await;
        condition["message"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits for an event about a pod.
    pub(crate) async fn until_event(&self, pod: &str, reason: &str) -> Value {
        let mut reported = None;
        until(&format!("event {reason} about {pod}"), async || {
            let events = self.api.list("Event").await.expect("events can be listed");
            reported = events
                .into_iter()
                .find(|event| event["reason"] == reason && event["regarding"]["name"] == pod);
            reported.is_some()
        })
        .await;
        reported.unwrap_or_default()
    }

    /// Takes away everything that scenarios make.
    pub(crate) async fn clear(&self) -> Result<()> {
        for kind in [
            "Pod",
            "ResourceClaimTemplate",
            "ResourceSlice",
            "DeviceClass",
            "PersistentVolumeClaim",
            "PersistentVolume",
            "StorageClass",
            "PodDisruptionBudget",
            "Node",
            "Event",
        ] {
            self.api.clear(kind).await.with_context(|| format!("clear {kind}"))?;
        }
        // Served where their gate is on.
        for kind in ["PodGroup", "DeviceTaintRule"] {
            if self.api.list(kind).await.is_ok() {
                self.api.clear(kind).await.with_context(|| format!("clear {kind}"))?;
            }
        }
        for class in self.api.list("PriorityClass").await? {
            let name = class["metadata"]["name"].as_str().unwrap_or_default();
            if !name.starts_with("system-") {
                self.api.delete("PriorityClass", name, None).await?;
            }
        }
        // The controllers delete the claims of pods that are gone, and let groups go. Kinds that are not served have no objects.
        for kind in ["Pod", "ResourceClaim", "PodGroup"] {
            until(&format!("no {kind} left"), async || match self.api.list(kind).await {
                Ok(objects) => objects.is_empty(),
                Err(error) => code(&error) == Some(404),
            })
            .await;
        }
        Ok(())
    }
}
