//! The scheduler that the end-to-end suite starts as a process: what `kube-scheduler-rs` is, built with the tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    kube_scheduler_rs::SchedulerBuilder::new().run()
}
