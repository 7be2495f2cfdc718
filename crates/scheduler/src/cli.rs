//! The command line: a subcommand, or the scheduler's own flags.
//!
//! Invariants: the flags of the scheduler are parsed as kube-scheduler parses them, subcommands as clap does; only the first
//! argument can be a subcommand.

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands;
use crate::flags::{self, CommandLine, CommandLineError, Flags};

/// Assigns pods to nodes: a drop-in for kube-scheduler v1.36.
///
/// Without a subcommand it runs as a scheduler. The API server is the one of --kubeconfig, --master, the configuration
/// file or the cluster that it runs in. The subcommands need no cluster; those that ask about one can read it.
#[derive(Debug, Parser)]
#[command(
    name = "kube-scheduler-rs",
    disable_help_subcommand = true,
    disable_version_flag = true,
    max_term_width = 120
)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(commands::demo::Args),
    Devcluster(commands::devcluster::Args),
    Simulate(commands::simulate::Args),
    Explain(commands::answers::ExplainArgs),
    Preempt(commands::answers::PreemptArgs),
    WhatIf(Box<commands::answers::WhatIfArgs>),
    Drain(commands::answers::DrainArgs),
    Capacity(commands::answers::CapacityArgs),
    Queue(commands::answers::QueueArgs),
    Fragmentation(commands::answers::FragmentationArgs),
    Mcp(commands::mcp::Args),
    AnswersSchema(commands::answers_schema::Args),
    Config(commands::config::Args),
    Completions(commands::completions::Args),
    Man(commands::man::Args),
    /// Print versions
    Version,
}

/// What a command line asks for.
#[derive(Debug)]
pub(crate) enum Request {
    /// Running the scheduler.
    Schedule(Box<Flags>),
    /// Running a subcommand.
    Command(Box<Command>),
    /// Printing the help.
    Help,
    /// Printing which questions there are.
    Questions,
}

/// Why a command line is rejected.
#[derive(Debug)]
pub(crate) enum ParseError {
    /// The arguments of a subcommand are invalid.
    Command(clap::Error),
    /// The scheduler's flags are invalid.
    Flags(CommandLineError),
    /// The kubectl plugin is called without a command, or with one that there is not.
    NoQuestion(String),
}

/// The name under which kubectl finds the program as a plugin. By that name it never runs as a scheduler.
const PLUGIN: &str = "kubectl-scheduler";

/// What a plugin is called as.
const PLUGIN_CALL: &str = "kubectl scheduler";

/// The commands that are questions.
pub(crate) const QUESTIONS: [&str; 7] =
    ["explain", "preempt", "what-if", "drain", "capacity", "queue", "fragmentation"];

/// The whole command line of `program`, subcommands and flags, for shell completions and the manual. It is never parsed.
pub(crate) fn described(program: &str) -> clap::Command {
    let command = Program::command().name(program.to_owned()).bin_name(program.to_owned());
    let command = command.version(env!("CARGO_PKG_VERSION"));
    let command = command.subcommand_required(false).args(flags::clap_args());
    command.mut_subcommand("config", |config| {
        config.mut_subcommands(|command| {
            command.mut_args(|arg| match arg.get_long() {
                Some("feature-gates") => {
                    arg.value_parser(flags::feature_gates::gate_values()).hide_possible_values(true)
                }
                _ => arg,
            })
        })
    })
}

/// What the program was called as, without folders: a custom scheduler has a name of its own.
pub(crate) fn program_name(args: &[OsString]) -> String {
    let file = args.first().and_then(|path| Path::new(path).file_name());
    let name = file.map(|name| name.to_string_lossy().into_owned());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "kube-scheduler-rs".to_owned())
}

/// The names of the subcommands.
pub(crate) fn commands() -> Vec<String> {
    Program::command().get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

/// What the kubectl plugin answers, and its other commands.
pub(crate) fn questions() -> String {
    let program = Program::command();
    let about = |name: &&str| {
        let about = program.find_subcommand(name).and_then(clap::Command::get_about);
        format!("  {name:<15}{}\n", about.map(ToString::to_string).unwrap_or_default())
    };
    let questions: String = QUESTIONS.iter().map(about).collect();
    let others: Vec<String> =
        commands().into_iter().filter(|name| !QUESTIONS.contains(&name.as_str())).collect();
    format!(
        "Ask the scheduler of a cluster about itself. Nothing is changed.\n\nUsage:\n  {PLUGIN_CALL} COMMAND [ARGUMENTS]\n\nQuestions:\n{questions}\nOther commands: {}\n\n{PLUGIN_CALL} COMMAND --help has the arguments of one.\n",
        others.join(", ")
    )
}

/// Whether the program is called as a kubectl plugin.
fn is_plugin(program: &str) -> bool {
    program.strip_suffix(".exe").unwrap_or(program) == PLUGIN
}

/// Reads a command line; the first argument is the program's name.
pub(crate) fn parse(args: Vec<OsString>) -> Result<Request, ParseError> {
    let first = args.get(1).and_then(|arg| arg.to_str()).unwrap_or_default();
    let program = program_name(&args);
    let is_plugin = is_plugin(&program);
    if first == "help" {
        return Ok(if is_plugin { Request::Questions } else { Request::Help });
    }
    if commands().iter().any(|name| name == first) {
        let name = if is_plugin { PLUGIN_CALL.to_owned() } else { program };
        let mut command = Program::command().bin_name(name);
        let parsed = command
            .try_get_matches_from_mut(args)
            .and_then(|matches| Program::from_arg_matches(&matches));
        return match parsed {
            Ok(program) => Ok(Request::Command(Box::new(program.command))),
            Err(error) => Err(ParseError::Command(error.format(&mut command))),
        };
    }
    if is_plugin {
        return match first {
            "--help" | "-h" => Ok(Request::Questions),
            "--version" => Ok(Request::Command(Box::new(Command::Version))),
            other => Err(ParseError::NoQuestion(other.to_owned())),
        };
    }
    let args: Vec<String> =
        args.iter().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    match Flags::parse(&args) {
        Ok(CommandLine::Flags(flags)) => Ok(Request::Schedule(flags)),
        Ok(CommandLine::Help) => Ok(Request::Help),
        Err(error) => Err(ParseError::Flags(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &str) -> Result<Request, ParseError> {
        parse(
            std::iter::once("kube-scheduler")
                .chain(args.split_whitespace())
                .map(Into::into)
                .collect(),
        )
    }

    #[test]
    fn the_definition_is_consistent() {
        Program::command().debug_assert();
        described("my-scheduler").debug_assert();
    }

    #[test]
    fn a_plugin_of_kubectl_never_runs_as_a_scheduler() {
        let parsed = |args: &str| {
            let args = std::iter::once("/bin/kubectl-scheduler").chain(args.split_whitespace());
            parse(args.map(Into::into).collect())
        };
        for help in ["--help", "-h", "help"] {
            assert!(matches!(parsed(help), Ok(Request::Questions)), "{help}");
        }
        assert!(matches!(parsed("queue -f x"), Ok(Request::Command(_))));
        assert!(matches!(parsed("--version"), Ok(Request::Command(_))));
        for wrong in ["", "explian web", "--kubeconfig x explain web", "--leader-elect=false"] {
            assert!(matches!(parsed(wrong), Err(ParseError::NoQuestion(_))), "{wrong}");
        }
    }

    #[test]
    fn questions_are_commands() {
        let commands = commands();
        assert!(QUESTIONS.iter().all(|name| commands.iter().any(|known| known == name)));
    }

    #[test]
    fn a_subcommand_comes_first_or_is_none() {
        assert!(matches!(parsed("demo --nodes 30"), Ok(Request::Command(_))));
        assert!(matches!(parsed("--seed 3"), Ok(Request::Schedule(_))));
        assert!(matches!(parsed(""), Ok(Request::Schedule(_))));
        assert!(matches!(parsed("--help"), Ok(Request::Help)));
        assert!(matches!(parsed("help"), Ok(Request::Help)));
        assert!(matches!(parsed("demo --kubeconfig x"), Err(ParseError::Command(_))));
        for wrong in ["somewhere", "--seed 3 demo", "--nonsense"] {
            assert!(matches!(parsed(wrong), Err(ParseError::Flags(_))), "{wrong}");
        }
    }
}
