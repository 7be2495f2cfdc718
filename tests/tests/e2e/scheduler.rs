//! The scheduler under test: the daemon inside the test's process, or a process of its own.

use std::time::Duration;

use anyhow::Result;
use kube_scheduler_config::{Configuration, FeatureGates, Gate, load};
use kube_scheduler_daemon::{Daemon, DaemonBuilder, Endpoint};
use kube_scheduler_plugins_intree::registry;
use kube_scheduler_tests::control_plane::Process;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cluster::Cluster;

/// A daemon that is stopped waits for all that is under way, however slow the machine is.
const GRACE: Duration = Duration::from_secs(24 * 3600);
/// Nothing takes longer than this unless it never ends.
const DEADLINE: Duration = Duration::from_secs(180);

/// A daemon that runs in the background, as the user `system:kube-scheduler`.
pub(crate) struct Running {
    task: JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
}

impl Running {
    /// Starts one with the default configuration.
    ///
    /// # Panics
    /// If it does not start.
    pub(crate) async fn start(cluster: &Cluster) -> Self {
        Self::start_with(Self::builder(cluster).await).await
    }

    /// Starts one with a configuration of its own.
    ///
    /// # Panics
    /// If it is none, or if the daemon does not start.
    pub(crate) async fn start_configured(cluster: &Cluster, config: &Value) -> Self {
        let config: Configuration = load(&config.to_string(), &FeatureGates::default())
            .expect("the scenario's configuration is one");
        Self::start_with(Self::builder(cluster).await.config(config)).await
    }

    /// Starts one with pod groups: gangs, topology and preemption by groups.
    ///
    /// # Panics
    /// If it does not start.
    pub(crate) async fn start_with_groups(cluster: &Cluster) -> Self {
        let gates = [
            Gate::GenericWorkload,
            Gate::GangScheduling,
            Gate::TopologyAwareWorkloadScheduling,
            Gate::WorkloadAwarePreemption,
        ];
        Self::start_with_gates(cluster, &gates).await
    }

    /// Starts one with these feature gates on.
    ///
    /// # Panics
    /// If it does not start.
    pub(crate) async fn start_with_gates(cluster: &Cluster, gates: &[Gate]) -> Self {
        let gates = gates.iter().fold(FeatureGates::default(), |all, gate| all.with(*gate, true));
        let config = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        });
        let config = load(&config.to_string(), &gates).expect("the default configuration is one");
        Self::start_with(Self::builder(cluster).await.gates(gates).config(config)).await
    }

    async fn builder(cluster: &Cluster) -> DaemonBuilder {
        let endpoint = Endpoint::from_kubeconfig(cluster.scheduler_kubeconfig(), None)
            .await
            .expect("the suite's kubeconfig is one");
        Daemon::builder(endpoint, registry()).grace(GRACE)
    }

    async fn start_with(builder: DaemonBuilder) -> Self {
        let daemon = builder.start().await.expect("the daemon starts");
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            daemon.run(async { drop(stopped.await) }).await.expect("the daemon ends well");
        });
        Self { task, stop: Some(stop) }
    }

    /// Stops it in order.
    ///
    /// # Panics
    /// If it failed, or never finishes what is under way.
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        let ended = tokio::time::timeout(DEADLINE, &mut self.task).await;
        ended.expect("all is finished").expect("the daemon did not break down");
    }

    /// Ends it as a crash would: nothing is finished.
    pub(crate) async fn kill(mut self) {
        self.task.abort();
        // It ends as cancelled.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The program, as the user `system:kube-scheduler`.
pub(crate) struct Program;

impl Program {
    /// Starts it with the scheduler's kubeconfig and `args`; what it logs goes to a file of that name.
    pub(crate) fn start(cluster: &Cluster, name: &str, args: &[&str]) -> Result<Process> {
        let kubeconfig = cluster.scheduler_kubeconfig().display().to_string();
        let args = ["--kubeconfig", &kubeconfig].into_iter().chain(args.iter().copied());
        Process::start(cluster.program(), args, &cluster.files().join(format!("{name}.log")))
    }

    /// Starts it with a configuration of its own, and with these feature gates, such as `GangScheduling=true`.
    pub(crate) fn start_configured(
        cluster: &Cluster,
        name: &str,
        config: &Value,
        gates: &str,
    ) -> Result<Process> {
        let mut config = config.clone();
        config["clientConnection"]["kubeconfig"] =
            cluster.scheduler_kubeconfig().display().to_string().into();
        config["leaderElection"]["leaderElect"] = false.into();
        let file = cluster.files().join(format!("{name}.json"));
        std::fs::write(&file, config.to_string())?;
        let config = format!("--config={}", file.display());
        let gates = format!("--feature-gates={gates}");
        Self::start(cluster, name, &[&config, &gates, "--secure-port=0"])
    }
}
