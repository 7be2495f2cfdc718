//! `version`: which version this is, and which one of Kubernetes it replaces.

use std::process::ExitCode;

use anyhow::Result;
use kube_scheduler_daemon::{KUBERNETES_VERSION, KubernetesVersion, architecture};

use super::print;
use crate::flags::Flags;
use crate::flags::value::VersionRequest;
use crate::version::KUBERNETES;

/// Prints the version if the flags ask for it, and returns whether they did.
pub(crate) fn asked_for(flags: &Flags) -> Result<bool> {
    match &flags.global.version {
        VersionRequest::Print => print(&format!("Kubernetes {KUBERNETES}\n"))?,
        VersionRequest::PrintAll => print(&format!("{}\n", in_full()))?,
        VersionRequest::No | VersionRequest::Report(_) => return Ok(false),
    }
    Ok(true)
}

/// The version in the form in which Go prints the structure, for programs that parse it. Fields about Go are empty.
fn in_full() -> String {
    let KubernetesVersion { major, minor, .. } = KUBERNETES_VERSION;
    format!(
        "version.Info{{Major:\"{major}\", Minor:\"{minor}\", EmulationMajor:\"\", EmulationMinor:\"\", \
         MinCompatibilityMajor:\"\", MinCompatibilityMinor:\"\", GitVersion:\"{KUBERNETES}\", GitCommit:\"\", \
         GitTreeState:\"\", BuildDate:\"\", GoVersion:\"\", Compiler:\"rustc\", Platform:\"{}/{}\"}}",
        std::env::consts::OS,
        architecture()
    )
}

/// Runs the command.
pub(crate) fn run() -> Result<ExitCode> {
    print(&format!("kube-scheduler-rs {}\nKubernetes {KUBERNETES}\n", env!("CARGO_PKG_VERSION")))?;
    Ok(ExitCode::SUCCESS)
}
