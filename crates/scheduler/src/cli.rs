//! The command line: the scheduler's flags when there is no subcommand, and the subcommands.

use std::ffi::OsString;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands;
use crate::flags::{Flags, ignored_args, ignored_given};

/// Assigns pods to nodes: a drop-in for kube-scheduler v1.36.
///
/// Without a subcommand it runs as a scheduler against the API server that --kubeconfig, --master, the configuration
/// file or the surrounding cluster names. The subcommands need no cluster.
#[derive(Debug, Parser)]
#[command(
    name = "kube-scheduler-rs",
    args_conflicts_with_subcommands = true,
    disable_version_flag = true,
    max_term_width = 120
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) flags: Flags,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(commands::demo::Args),
    Devcluster(commands::devcluster::Args),
    Simulate(commands::simulate::Args),
    Completions(commands::completions::Args),
    /// Print versions
    Version,
}

/// The whole command line as clap knows it.
pub(crate) fn command() -> clap::Command {
    Cli::command().args(ignored_args())
}

/// Reads a command line. Returns beside it the names of flags that were given and have no effect yet.
pub(crate) fn parse(
    args: impl IntoIterator<Item = impl Into<OsString>>,
) -> Result<(Cli, Vec<&'static str>), clap::Error> {
    let mut command = command();
    let matches: ArgMatches =
        command.try_get_matches_from_mut(args.into_iter().map(|arg| hyphenated(arg.into())))?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    let ignored = ignored_given(&matches);
    Ok((cli, ignored))
}

/// Upstream accepts underscores for hyphens in the names of flags.
fn hyphenated(arg: OsString) -> OsString {
    let Some(text) = arg.to_str().filter(|text| text.starts_with("--")) else { return arg };
    match text.split_once('=') {
        Some((name, value)) if name.contains('_') => {
            format!("{}={value}", name.replace('_', "-")).into()
        }
        None if text.contains('_') => text.replace('_', "-").into(),
        _ => arg,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &str) -> Result<(Cli, Vec<&'static str>), clap::Error> {
        parse(std::iter::once("kube-scheduler").chain(args.split_whitespace()))
    }

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn upstream_command_lines_are_understood() {
        let kubeadm = "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf \
                       --authorization-kubeconfig=/etc/kubernetes/scheduler.conf --bind-address=127.0.0.1 \
                       --kubeconfig=/etc/kubernetes/scheduler.conf --leader-elect=true";
        let (cli, ignored) = parsed(kubeadm).unwrap();
        assert_eq!(cli.flags.kubeconfig.unwrap().to_str(), Some("/etc/kubernetes/scheduler.conf"));
        assert_eq!(cli.flags.leader_elect, Some(true));
        assert_eq!(ignored, ["authentication-kubeconfig", "authorization-kubeconfig"]);
    }

    #[test]
    fn names_may_have_underscores_and_values_keep_theirs() {
        let (cli, _) = parsed("--secure_port=0 --master=http://a_b -v 3 --leader_elect").unwrap();
        assert_eq!((cli.flags.secure_port, cli.flags.verbosity), (0, 3));
        assert_eq!(
            (cli.flags.master.as_deref(), cli.flags.leader_elect),
            (Some("http://a_b"), Some(true))
        );
    }

    #[test]
    fn wrong_usage_is_refused() {
        for wrong in [
            "--nonsense",
            "somewhere",
            "--secure-port=70000",
            "--leader-elect=maybe",
            "demo --kubeconfig x",
        ] {
            assert_eq!(parsed(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
    }
}
