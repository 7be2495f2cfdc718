//! The flags as clap arguments, for completions and the manual page. They are never parsed by clap.

use clap::{Arg, ArgAction, ValueHint};

use super::feature_gates::gate_values;
use super::set::Flags;

/// Every flag of the scheduler.
pub(crate) fn args() -> Vec<Arg> {
    let mut args = Vec::new();
    let mut flags = Flags::default();
    for (title, section) in flags.sections() {
        section.visit(&mut |flag| {
            // clap adds one itself.
            if flag.name == "help" {
                return;
            }
            let mut arg = Arg::new(flag.name)
                .long(flag.name)
                .help(flag.usage.clone())
                .action(ArgAction::Append);
            arg = arg.help_heading(heading(title));
            if let Some(letter) = flag.short {
                arg = arg.short(letter);
            }
            let type_name = flag.value.type_name();
            arg = arg.value_name(if type_name.is_empty() { "bool" } else { type_name });
            if flag.value.without_value().is_some() {
                arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
            }
            let is_file = ["config", "kubeconfig", "-file", "write-config-to", "-manifest"];
            if is_file.iter().any(|end| flag.name.ends_with(end)) {
                arg = arg.value_hint(ValueHint::FilePath);
            } else if flag.name == "cert-dir" {
                arg = arg.value_hint(ValueHint::DirPath);
            } else if flag.name == "feature-gates" {
                arg = arg.value_parser(gate_values()).hide_possible_values(true);
            } else if flag.name == "logging-format" {
                arg = arg.value_parser(["text", "json"]);
            }
            args.push(arg);
        });
    }
    args
}

fn heading(title: &'static str) -> &'static str {
    match title {
        "misc" => "Misc flags",
        "secure serving" => "Secure serving flags",
        "authentication" => "Authentication flags",
        "authorization" => "Authorization flags",
        "deprecated" => "Deprecated flags",
        "leader election" => "Leader election flags",
        "feature gate" => "Feature gate flags",
        "metrics" => "Metrics flags",
        "logs" => "Logs flags",
        "global" => "Global flags",
        _ => "Kube-scheduler-rs flags",
    }
}
