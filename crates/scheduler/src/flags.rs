//! The flags of the scheduler: those of kube-scheduler v1.36 with its names, types, defaults and help, by section.
//!
//! [`Flags::parse`] reads a command line into [`Flags`], one struct per section with typed fields that have the default or
//! the given value; [`Flags::is_given`] tells them apart. [`Flags::validate`] is the reference's validation and returns all
//! errors at once. Nothing here acts on a flag; [`Settings`](crate::settings::Settings) does.
//!
//! To add a flag, add a line to its section: parsing, help, `/flagz`, completions and the manual page follow from it.
//!
//! Invariants: the grammar and the error messages are those of Go's pflag; every flag of the reference exists; a name is in
//! one section only.

pub(crate) mod authentication;
pub(crate) mod authorization;
pub(crate) mod deprecated;
pub(crate) mod feature_gates;
pub(crate) mod leader_election;
pub(crate) mod logs;
pub(crate) mod metrics;
pub(crate) mod serving;
pub(crate) mod value;

mod clap_form;
mod command_line;
mod general;
mod go;
mod section;
mod set;
mod usage;

pub(crate) use self::clap_form::args as clap_args;
pub(crate) use self::command_line::{CommandLine, CommandLineError};
pub(crate) use self::go::quoted;
pub(crate) use self::set::Flags;
pub(crate) use self::usage::{help, usage};

#[cfg(test)]
mod tests;
