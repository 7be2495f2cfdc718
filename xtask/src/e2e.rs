//! `e2e`: the end-to-end suite with its lines shown, and its large run.

use anyhow::{Result, ensure};

use crate::process::{self, ExitOutcome};

/// What to play.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only the large run: so many nodes and pods bound before a real API server that is killed twice meanwhile
    #[arg(long, value_name = "NODESxPODS", num_args = 0..=1, default_missing_value = "5000x10000")]
    scale: Option<String>,
    /// Before a real API server, only scenarios with this in their names
    #[arg(long, value_name = "TEXT", conflicts_with = "scale")]
    only: Option<String>,
}

/// Runs the tests one after the other.
pub(crate) fn run(args: &Args) -> Result<ExitOutcome> {
    let mut command = process::cargo("test");
    command.args(["--package", "kube-scheduler-tests", "--test", "e2e"]);
    if let Some(sizes) = &args.scale {
        ensure!(
            std::env::var_os("KUBEBUILDER_ASSETS").is_some(),
            "--scale needs kube-apiserver and etcd: set KUBEBUILDER_ASSETS to their directory"
        );
        command.env("KUBE_SCHEDULER_E2E_SCALE", sizes);
        command.args(["--release", "--", "--nocapture", "scale::"]);
    } else {
        command.args(["--", "--nocapture", "--test-threads=1"]);
        if let Some(text) = &args.only {
            command.env("KUBE_SCHEDULER_E2E_ONLY", text).arg("against_a_real_api_server");
        }
    }
    process::run(&mut command)
}
