//! `devcluster`: an API server in memory with hollow nodes, for trying out kubectl and schedulers.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use kube_scheduler_devcluster::{DevCluster, NODES, NodeTemplate, SampleDevices, Selection, User};
use tempfile::TempPath;

use super::{print, runtime};
use crate::logging;
use crate::signals::Signals;

/// How often changes are written to the file of --persist.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);

/// What people try first and do not find, for the banner; the help has the whole list.
const MISSING: &str = "Not here: a scheduler (start the one above), containers (kubectl logs and exec), custom resources, \
    CronJobs' and autoscalers' controllers. The whole list is in kube-scheduler-rs devcluster --help.";

/// Serve a Kubernetes API from memory, with simulated nodes.
///
/// kubectl and client libraries work with it; pods that are bound to its nodes are reported as running. Deployments,
/// ReplicaSets, StatefulSets, DaemonSets and Jobs get their pods, pods get resource claims from templates, and objects are
/// deleted with their owners. It has no scheduler: run kube-scheduler-rs with the kubeconfig whose path it prints. It listens on loopback only. Without --tls
/// it serves plain HTTP, and without --tls and --rbac every client is the administrator. It runs until Ctrl-C or SIGTERM.
///
/// What it does not have: containers (so no kubectl logs, exec, attach, cp, port-forward and top), custom resources and
/// webhooks, endpoints of Services and anything that routes to them, controllers for CronJobs, HorizontalPodAutoscalers and
/// ResourceQuotas, tokens of service accounts (kubectl create token), the history of StatefulSets and DaemonSets.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The port on 127.0.0.1; 0 takes any free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,

    /// Number of hollow nodes; nodes of a persisted cluster count
    #[arg(long, value_name = "N", default_value_t = 5)]
    nodes: usize,

    /// CPUs of a hollow node
    #[arg(long, value_name = "QUANTITY", default_value = "4")]
    node_cpu: String,

    /// Memory of a hollow node
    #[arg(long, value_name = "QUANTITY", default_value = "32Gi")]
    node_memory: String,

    /// Number of zones that the nodes are spread over
    #[arg(long, value_name = "N", default_value_t = 3)]
    zones: usize,

    /// Give every node this number of sample GPUs and one that can be divided, and every zone a pool of devices in the network,
    /// with device classes gpu.example.com, partition.example.com and fabric.example.com
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=32))]
    gpus: Option<u8>,

    /// Save the cluster in this file: read at the start if it exists, written after changes and at the end. Only its
    /// owner can read it
    #[arg(long, value_name = "FILE")]
    persist: Option<PathBuf>,

    /// Where to write the administrator's kubeconfig; by default a file in the directory for temporary files, removed at
    /// the end. Only its owner can read it
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,

    /// Serve TLS and authenticate users by client certificates; kubeconfigs contain the authority's certificate
    #[arg(long)]
    tls: bool,

    /// Reject requests that no role allows: roles, bindings and reviews work as in a control plane. kubectl and schedulers
    /// need --tls besides, since they send no token over plain HTTP
    #[arg(long)]
    rbac: bool,

    /// Where to write a kubeconfig for the user system:kube-scheduler, who with --rbac has a scheduler's rights only
    #[arg(long, value_name = "FILE")]
    scheduler_kubeconfig_out: Option<PathBuf>,

    /// Log verbosity
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    verbosity: u8,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    logging::start_quietly(args.verbosity);
    runtime()?.block_on(async {
        let signals = Signals::listen().context("cannot listen for signals")?;
        let builder = DevCluster::builder().port(args.port).tls(args.tls).rbac(args.rbac);
        let devices = args.gpus.map(|gpus| SampleDevices::default().gpus_per_node(gpus.into()));
        let mut builder = builder.workloads(true).devices(devices);
        if let Some(path) = &args.persist {
            builder = builder.persist(path, SAVE_INTERVAL);
        }
        let cluster = builder.start().await?;
        let n_present = cluster.list(NODES, &Selection::all()).items.len();
        let template = NodeTemplate::default()
            .capacity("cpu", &args.node_cpu)
            .capacity("memory", &args.node_memory)
            .zones(args.zones);
        cluster
            .add_hollow_nodes(args.nodes.saturating_sub(n_present), &template)
            .map_err(|error| anyhow::anyhow!("{error}"))
            .context("hollow nodes")?;

        // The guard removes the temporary file when this block ends, also with an error.
        let (kubeconfig, _guard) = match args.kubeconfig_out {
            Some(path) => (path, None),
            None => {
                let temporary = temporary_kubeconfig()?;
                (temporary.to_path_buf(), Some(temporary))
            }
        };
        cluster.write_kubeconfig(&kubeconfig)?;
        if let Some(path) = &args.scheduler_kubeconfig_out {
            cluster.write_kubeconfig_for(&User::kube_scheduler(), path)?;
        }
        let n_nodes = args.nodes.max(n_present);
        print(&banner(n_nodes, &cluster.url(), &kubeconfig.display().to_string()))?;
        signals.first().await;
        cluster.shutdown().await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// The text that is printed at the start.
fn banner(n_nodes: usize, url: &str, kubeconfig: &str) -> String {
    format!(
        "devcluster: {n_nodes} nodes at {url}\nkubeconfig: {kubeconfig}\n\n  \
         kubectl --kubeconfig {kubeconfig} get nodes\n  \
         kube-scheduler-rs --kubeconfig {kubeconfig} --secure-port 0\n\n{MISSING}\nPress Ctrl-C to stop.\n",
    )
}

/// A file for a kubeconfig in the directory for temporary files, removed when the value is dropped. Its name cannot be
/// guessed, so no other user can put something there first.
pub(super) fn temporary_kubeconfig() -> Result<TempPath> {
    let file =
        tempfile::Builder::new().prefix("kube-scheduler-rs-").suffix(".kubeconfig").tempfile();
    Ok(file.context("cannot create a temporary file")?.into_temp_path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_in_the_help_and_at_the_start() {
        let command = <Args as clap::Args>::augment_args(clap::Command::new("devcluster"));
        let help = command.clone().render_long_help().to_string();
        let help: Vec<&str> = help.split_whitespace().collect();
        let help = help.join(" ");
        for missing in
            ["no scheduler", "kubectl logs", "custom resources", "CronJobs", "kubectl create token"]
        {
            assert!(help.contains(missing), "{missing}: {help}");
        }
        let banner = banner(5, "http://127.0.0.1:1", "/tmp/kubeconfig");
        let not_here = banner.lines().find(|line| line.starts_with("Not here:")).expect("said");
        for missing in ["a scheduler", "kubectl logs", "custom resources", "CronJobs", "--help"] {
            assert!(not_here.contains(missing), "{missing}: {not_here}");
        }
    }
}
