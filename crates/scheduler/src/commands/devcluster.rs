//! `devcluster`: an API server in memory with hollow nodes, for kubectl and schedulers to play with.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use kube_scheduler_devcluster::{DevCluster, NODES, NodeTemplate, Selection, User};

use super::{print, runtime};
use crate::logging;
use crate::signals::Signals;

/// How often changes are written to the file of --persist.
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// Serve a Kubernetes API from memory, with nodes that only pretend.
///
/// kubectl and client libraries work against it; pods that are bound to its nodes are reported as running. There is no
/// scheduler in it: run kube-scheduler-rs with the kubeconfig that it prints. It listens on loopback only, without TLS
/// and with everyone as administrator unless --tls and --rbac say otherwise, and ends with Ctrl-C or SIGTERM.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The port on 127.0.0.1; 0 takes any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,

    /// Hollow nodes to begin with; fewer are added when a persisted cluster has some already
    #[arg(long, value_name = "N", default_value_t = 5)]
    nodes: usize,

    /// CPUs of a hollow node
    #[arg(long, value_name = "QUANTITY", default_value = "4")]
    node_cpu: String,

    /// Memory of a hollow node
    #[arg(long, value_name = "QUANTITY", default_value = "32Gi")]
    node_memory: String,

    /// Zones that the nodes are spread over
    #[arg(long, value_name = "N", default_value_t = 3)]
    zones: usize,

    /// Keep the cluster in this file: read at the start if it exists, written as things change and at the end
    #[arg(long, value_name = "FILE")]
    persist: Option<PathBuf>,

    /// Where to write the kubeconfig; by default a file in the directory for temporary files, removed at the end
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,

    /// Serve TLS and know users by client certificates; the kubeconfigs hold the authority's certificate
    #[arg(long)]
    tls: bool,

    /// Refuse what no role allows: roles, bindings and reviews work as in a control plane
    #[arg(long)]
    rbac: bool,

    /// Where to write a kubeconfig for the user system:kube-scheduler; with --rbac it may do what a scheduler may
    #[arg(long, value_name = "FILE")]
    scheduler_kubeconfig_out: Option<PathBuf>,

    /// How much to log
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    verbosity: u8,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    logging::start_quietly(args.verbosity);
    runtime()?.block_on(async {
        let signals = Signals::listen().context("cannot listen for signals")?;
        let mut builder = DevCluster::builder().port(args.port).tls(args.tls).rbac(args.rbac);
        if let Some(path) = &args.persist {
            builder = builder.persist(path, SAVE_EVERY);
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

        let kubeconfig = args.kubeconfig_out.clone().unwrap_or_else(|| temporary_kubeconfig(&cluster));
        cluster.write_kubeconfig(&kubeconfig)?;
        if let Some(path) = &args.scheduler_kubeconfig_out {
            let text = cluster.kubeconfig_for(&User::kube_scheduler())?;
            std::fs::write(path, text).with_context(|| path.display().to_string())?;
        }
        let path = kubeconfig.display();
        print(&format!(
            "devcluster: {} nodes at {}\nkubeconfig: {path}\n\n  kubectl --kubeconfig {path} get nodes\n  \
             kube-scheduler-rs --kubeconfig {path} --secure-port 0\n\nCtrl-C ends it.\n",
            args.nodes.max(n_present),
            cluster.url(),
        ))?;
        signals.first().await;
        cluster.shutdown().await?;
        if args.kubeconfig_out.is_none() {
            // It points nowhere from now on.
            let _ = std::fs::remove_file(&kubeconfig);
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// A path that no other running cluster uses: the port is in it.
pub(super) fn temporary_kubeconfig(cluster: &DevCluster) -> PathBuf {
    let port = cluster.url().rsplit(':').next().unwrap_or_default().to_owned();
    std::env::temp_dir().join(format!("kube-scheduler-rs-{port}.kubeconfig"))
}
