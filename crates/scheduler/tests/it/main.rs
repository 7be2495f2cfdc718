//! The real binary on bad and on good input: one clear error, the right exit code, nothing half done.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod asking;
mod assisting;
mod cluster;
mod completing;
mod configuring;
mod demonstrating;
mod documented;
mod live;
mod logging;
mod namespaces;
mod newcomer;
mod packaging;
mod processes;
mod refusals;
mod simulating;

use std::path::PathBuf;
use std::process::{Command, Output};

/// Runs the binary to its end.
fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kube-scheduler-rs"))
        .args(args)
        .env_remove("KUBECONFIG")
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A directory of files that is gone afterwards.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// The path of a file that may not exist.
    fn path(&self, name: &str) -> String {
        let path: PathBuf = self.0.path().join(name);
        path.to_str().unwrap().to_owned()
    }

    /// Writes a file and gives its path.
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}
