//! `version`: which version this is, and which one of Kubernetes it replaces.

use std::process::ExitCode;

use anyhow::Result;

use super::print;

/// The version of kube-scheduler whose behaviour this is.
pub(crate) const KUBERNETES: &str = "v1.36.0";

/// Runs the command.
pub(crate) fn run() -> Result<ExitCode> {
    print(&format!("kube-scheduler-rs {}\nKubernetes {KUBERNETES}\n", env!("CARGO_PKG_VERSION")))?;
    Ok(ExitCode::SUCCESS)
}
