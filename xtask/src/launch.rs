//! `bench` and `demo`: release builds of our own programs, run with the caller's arguments in the caller's directory.

use std::ffi::OsString;

use anyhow::Result;
use clap::Subcommand;

use crate::dist::PROFILE;
use crate::process::{self, ExitOutcome};

/// Which benchmark to run.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// The engine alone, without IO: rate, latencies and memory, workload by workload
    Core {
        /// Arguments for the benchmark; `cargo xtask bench core -- --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
    /// Questions about scheduling: how long answers take while pods are scheduled, and what they cost the scheduling
    Answers {
        /// Arguments for the benchmark; `cargo xtask bench answers -- --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
    /// Any scheduler binary from outside: rate, CPU time, memory, and how much of the API server's ceiling that is
    ///
    /// The scheduler's command comes after `--`; without one it is ours.
    Blackbox {
        /// Arguments for the benchmark; `cargo xtask bench blackbox -- --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
    /// Definitions in the reference's scheduler_perf format, run with our scheduler; prints the reference's result JSON
    ///
    /// Ours are in benches/workloads.
    SchedulerPerf {
        /// Arguments for the benchmark; `cargo xtask bench scheduler-perf -- --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
    /// How long pods of others wait while one tenant creates the worst pods that it may
    Beside {
        /// Arguments for the benchmark; `cargo xtask bench beside -- --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
    /// The worst pods of one tenant: time and memory of each kind, what a unit of work takes
    Tenants {
        /// Arguments for the benchmark; `cargo xtask bench tenants -- --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
    /// All figures of docs/performance: measures them, and writes tables, JSON and chart there
    Curve {
        /// Arguments for the benchmark; `cargo xtask bench curve -- --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
    /// The building blocks one by one: quantities, selectors, the queue, column scans, decoding
    Micro {
        /// Arguments for criterion, such as part of a benchmark's name
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
}

/// Runs a benchmark.
pub(crate) fn bench(bench: &Bench) -> Result<ExitOutcome> {
    match bench {
        // It starts the other one itself, to measure memory.
        Bench::Core { args } => match build_benchmarks(&["bench-core", "bench-memory"])? {
            ExitOutcome::Well => benchmark("bench-core", args),
            badly => Ok(badly),
        },
        Bench::Answers { args } => benchmark("bench-answers", args),
        Bench::SchedulerPerf { args } => benchmark("bench-scheduler-perf", args),
        Bench::Beside { args } => benchmark("bench-beside", args),
        Bench::Tenants { args } => benchmark("bench-tenants", args),
        Bench::Blackbox { args } => {
            // It is what is timed unless another scheduler is named, and is looked for beside the benchmark.
            let mut build = process::cargo("build");
            let program = "kube-scheduler-rs";
            build.args(["--profile", PROFILE, "--package", program, "--bin", program]);
            match process::run(&mut build)? {
                ExitOutcome::Well => benchmark("bench-blackbox", args),
                badly => Ok(badly),
            }
        }
        Bench::Curve { args } => match build_benchmarks(&["bench-curve", "bench-memory"])? {
            ExitOutcome::Well => benchmark("bench-curve", args),
            badly => Ok(badly),
        },
        Bench::Micro { args } => {
            let mut command = process::cargo("bench");
            command.args(["--package", "kube-scheduler-benches", "--bench", "micro", "--"]);
            process::run(command.args(args))
        }
    }
}

fn build_benchmarks(programs: &[&str]) -> Result<ExitOutcome> {
    let mut command = process::cargo("build");
    command.args(["--profile", PROFILE, "--package", "kube-scheduler-benches"]);
    for program in programs {
        command.args(["--bin", program]);
    }
    process::run(&mut command)
}

fn benchmark(program: &str, args: &[OsString]) -> Result<ExitOutcome> {
    let mut command = process::cargo("run");
    command.args(["--profile", PROFILE, "--package", "kube-scheduler-benches"]);
    process::run(command.args(["--bin", program, "--"]).args(args))
}

/// Runs the demo exactly as the README's command does, so that both share one build.
pub(crate) fn demo(args: &[OsString]) -> Result<ExitOutcome> {
    let mut command = process::cargo("run");
    command.args(["--release", "--package", "kube-scheduler-rs", "--", "demo"]);
    process::run(command.args(args))
}
