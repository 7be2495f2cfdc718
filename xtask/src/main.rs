//! The build system: `cargo xtask --help` lists what it does.
//!
//! It depends on none of the crates it builds, so that it starts in seconds and works while they are broken.
//! Commands that build something call cargo and leave its output alone; exit codes are passed on.

#![expect(clippy::print_stdout, reason = "what a command-line tool prints is its result")]

mod artifact;
mod baseline;
mod ci;
mod conformance;
mod dist;
#[cfg(test)]
mod documented;
mod e2e;
mod fault;
mod fuzz;
mod launch;
mod metadata;
mod package;
mod process;
mod public_api;
mod suite;
mod tidy;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::process::ExitOutcome;

/// Builds, checks, tests and packs kube-scheduler-rs.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Everything CI runs, step by step
    Ci(ci::Args),
    /// All tests: cargo-nextest if it is installed, else `cargo test`; then the doc tests
    ///
    /// Extra arguments go to the test runner, for example `cargo xtask test -- -p kube-scheduler-queue`; with
    /// extra arguments the doc tests are left out.
    Test {
        /// Arguments for the test runner
        #[arg(last = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
    /// House rules no compiler knows: layers, licences, duplicates, sources, signposts, structure
    Tidy(tidy::Args),
    /// Compare what the libraries offer with the record in docs/api, and find what nothing uses
    PublicApi(public_api::Args),
    /// Pack the libraries as a registry gets them, and build programs outside of the workspace against the packages
    Package,
    /// Compare with the recorded decisions of the reference scheduler
    ///
    /// Prints `FAMILY steps=N conform=M cases=K/L` per family; exits with 0 only if all that was asked conforms.
    Conformance(conformance::Args),
    /// The end-to-end suite, also before the kube-apiserver and etcd of KUBEBUILDER_ASSETS if that is set
    E2e(e2e::Args),
    /// Schedulers against a simulated API server in virtual time while everything goes wrong that can
    ///
    /// `cargo xtask fault --seeds 1000 --steps 100` runs a thousand seeds; `--seed S` replays one and shows its trace.
    /// Exits with 1 if anything was violated; `cargo xtask fault -- --help` lists the rest.
    Fault {
        /// Arguments for the simulation: --seeds N, --seed S, --steps M, --without FAULT, --verbose, -o json
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
    /// Look for inputs that break something, with libFuzzer (needs a C++ compiler)
    ///
    /// What is learned stays in target/fuzz. Exits with 1 if there are findings; each is a file that `cargo xtask test`
    /// replays once it is moved to the folder of its target in tests/data/fuzz.
    Fuzz(fuzz::Args),
    /// Benchmarks, built with the profile of a release (`dist`)
    Bench {
        #[command(subcommand)]
        bench: launch::Bench,
    },
    /// The whole way of a pod on this machine: `cargo run --release -- demo`
    Demo {
        /// Arguments for the demo; `cargo xtask demo -- --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
    /// A release in dist/: stripped binary, shell completions, tarball, kubectl plugin, SHA256SUMS
    Dist(dist::Args),
}

fn main() -> ExitCode {
    let done = public_api::stand_in().unwrap_or_else(command);
    match done {
        Ok(ExitOutcome::Well) => ExitCode::SUCCESS,
        Ok(ExitOutcome::Badly(code)) => ExitCode::from(code),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn command() -> Result<ExitOutcome> {
    match Cli::parse().command {
        Command::Ci(args) => ci::run(&args),
        Command::Test { args } => suite::run(&args),
        Command::Tidy(args) => tidy::run(&args),
        Command::PublicApi(args) => public_api::run(&args),
        Command::Package => package::run(),
        Command::Conformance(args) => conformance::run(&args),
        Command::E2e(args) => e2e::run(&args),
        Command::Fault { args } => fault::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Bench { bench } => launch::bench(&bench),
        Command::Demo { args } => launch::demo(&args),
        Command::Dist(args) => dist::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Cli::try_parse_from(line.split(' ')).map(|cli| cli.command)
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_explains_itself() {
        for command in Cli::command().get_subcommands() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(about.len() > 20, "`{}` says only `{about}`", command.get_name());
        }
    }

    #[test]
    fn arguments_of_other_programs_pass_through() {
        let Command::Demo { args } = parse("xtask demo --nodes 10 --keep-running").unwrap() else {
            panic!("not demo")
        };
        assert_eq!(args, ["--nodes", "10", "--keep-running"]);
        let Command::Bench { bench: launch::Bench::Core { args } } =
            parse("xtask bench core --nodes=5 Basic").unwrap()
        else {
            panic!("not bench core")
        };
        assert_eq!(args, ["--nodes=5", "Basic"]);
        let Command::Bench { bench: launch::Bench::Blackbox { args } } =
            parse("xtask bench blackbox --nodes 5 -- scheduler --nodes 6").unwrap()
        else {
            panic!("not bench blackbox")
        };
        assert_eq!(args, ["--nodes", "5", "--", "scheduler", "--nodes", "6"]);
        let Command::Fault { args } = parse("xtask fault --seeds 10 -o json").unwrap() else {
            panic!("not fault")
        };
        assert_eq!(args, ["--seeds", "10", "-o", "json"]);
        let Command::Test { args } = parse("xtask test -- -p xtask").unwrap() else {
            panic!("not test")
        };
        assert_eq!(args, ["-p", "xtask"]);
    }

    #[test]
    fn families_can_be_repeated_or_listed() {
        for line in [
            "xtask conformance --family a --family b --data d",
            "xtask conformance --family a b --data d",
        ] {
            let Command::Conformance(args) = parse(line).unwrap() else {
                panic!("not conformance")
            };
            assert_eq!(args.family, ["a", "b"], "{line}");
        }
    }

    #[test]
    fn an_unknown_command_is_refused() {
        assert!(parse("xtask deploy").is_err());
    }
}
