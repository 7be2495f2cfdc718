//! The binary `kube-scheduler-rs`.

use std::process::ExitCode;

use kube_scheduler_rs::SchedulerBuilder;

/// Decoding lists of objects makes and drops millions of small strings on several threads; this allocator is built for
/// that, and gives memory back to the system afterwards.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    SchedulerBuilder::new().run()
}
