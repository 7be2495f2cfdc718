//! A drop-in kube-scheduler, and a builder for schedulers with other plugins.
//!
//! The binary `kube-scheduler-rs` without a subcommand is the scheduler: flags and configuration file are those of
//! kube-scheduler v1.36. Its subcommands need no cluster: `demo` shows a whole one at work, `devcluster` serves one,
//! `simulate` answers from files.
//!
//! A custom scheduler is a `main` of a few lines:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use std::sync::Arc;
//!
//! use kube_scheduler_framework::Plugin;
//! use kube_scheduler_rs::SchedulerBuilder;
//!
//! struct Nothing;
//!
//! impl Plugin for Nothing {
//!     fn name(&self) -> &str {
//!         "Nothing"
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     SchedulerBuilder::new().with_plugin("Nothing", |_args, _handle| Ok(Arc::new(Nothing))).run()
//! }
//! ```
//!
//! Invariants: a mistake in flags, files or connection ends in one line on standard error and exit code 1 (2 for wrong
//! usage) before anything was done; only what a command is asked for goes to standard output.

mod builder;
mod cli;
mod commands;
mod failure;
mod flags;
mod logging;
mod serving;
mod settings;
mod signals;
mod similar;
#[cfg(feature = "testing")]
pub mod testing;
mod text_file;
mod version;

pub use builder::{BuilderError, SchedulerBuilder};

/// The code of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
