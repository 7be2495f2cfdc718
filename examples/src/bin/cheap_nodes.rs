//! A scheduler with the plugin CheapNodes beside the in-tree ones.

use std::process::ExitCode;

use kube_scheduler_examples::cheap_nodes;
use kube_scheduler_rs::SchedulerBuilder;

fn main() -> ExitCode {
    SchedulerBuilder::new().with_plugin(cheap_nodes::NAME, cheap_nodes::new).run()
}
