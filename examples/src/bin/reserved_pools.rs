//! A scheduler with the plugin ReservedPools beside the in-tree ones.

use std::process::ExitCode;

use kube_scheduler_examples::reserved_pools;
use kube_scheduler_rs::SchedulerBuilder;

fn main() -> ExitCode {
    SchedulerBuilder::new().with_plugin(reserved_pools::NAME, reserved_pools::new).run()
}
