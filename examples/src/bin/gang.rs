//! A scheduler with the plugin Gang beside the in-tree ones.

use std::process::ExitCode;

use kube_scheduler_examples::gang;
use kube_scheduler_rs::SchedulerBuilder;

fn main() -> ExitCode {
    SchedulerBuilder::new().with_plugin(gang::NAME, gang::new).run()
}
