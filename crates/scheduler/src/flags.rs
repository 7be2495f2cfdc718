//! The flags of the scheduler: those of kube-scheduler v1.36 with its names, types, defaults and help, by section.
//!
//! [`Flags::parse`] reads a command line into [`Flags`], one struct per section with typed fields that hold the default
//! or what was given; [`Flags::is_given`] tells which. [`Flags::validate`] is the reference's validation of them, all
//! errors at once. Nothing here acts on a flag: [`Settings`](crate::settings::Settings) does, and whoever adds a feature
//! takes the fields of its section from there.
//!
//! To add a flag: a line in its section. Reading, help, `/flagz`, completions and the man page follow from it.
//!
//! Invariants: the grammar and the texts of errors are those of Go's pflag; every flag of the reference is there; a name
//! stands in one section only.

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
mod usage;

pub(crate) use self::clap_form::args as clap_args;
pub(crate) use self::command_line::{CommandLineError, Parsed};
pub(crate) use self::general::{Misc, Ours};
pub(crate) use self::go::quoted;
pub(crate) use self::usage::{help, usage};

use std::collections::BTreeSet;

use self::authentication::Authentication;
use self::authorization::Authorization;
use self::deprecated::Deprecated;
use self::feature_gates::FeatureGateFlags;
use self::general::Global;
use self::leader_election::LeaderElectionFlags;
use self::logs::Logs;
use self::metrics::MetricsFlags;
use self::serving::SecureServing;
use self::value::FlagValue;

/// One flag, while somebody looks at it.
pub(crate) struct Flag<'a> {
    /// Its name, with hyphens.
    pub(crate) name: &'static str,
    /// The letter it goes by as well.
    pub(crate) short: Option<char>,
    /// What the help says.
    pub(crate) usage: String,
    /// What it holds.
    pub(crate) value: &'a mut dyn FlagValue,
}

/// Flags that belong together.
pub(crate) trait Section {
    /// Shows each flag to `look`.
    fn visit(&mut self, look: &mut dyn FnMut(Flag<'_>));
}

/// Declares the struct of a section: per flag a field, its type, its default, its name and its help.
macro_rules! section {
    (
        $(#[$doc:meta])*
        $section:ident {
            $(
                $(#[$field_doc:meta])*
                $field:ident: $type:ty = $default:expr, $name:literal $(or $short:literal)?, $usage:expr;
            )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub(crate) struct $section {
            $($(#[$field_doc])* pub(crate) $field: $type,)*
        }

        impl Default for $section {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $crate::flags::Section for $section {
            fn visit(&mut self, look: &mut dyn FnMut($crate::flags::Flag<'_>)) {
                $(
                    #[allow(unused_mut, unused_assignments, reason = "most flags have no letter")]
                    let mut short = None;
                    $(short = Some($short);)?
                    look($crate::flags::Flag {
                        name: $name,
                        short,
                        usage: $usage.into(),
                        value: &mut self.$field,
                    });
                )*
            }
        }
    };
}
use section;

/// Every flag, and which of them were given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    pub(crate) misc: Misc,
    pub(crate) serving: SecureServing,
    pub(crate) authentication: Authentication,
    pub(crate) authorization: Authorization,
    pub(crate) deprecated: Deprecated,
    pub(crate) leader_election: LeaderElectionFlags,
    pub(crate) feature_gates: FeatureGateFlags,
    pub(crate) metrics: MetricsFlags,
    pub(crate) logs: Logs,
    pub(crate) ours: Ours,
    pub(crate) global: Global,
    given: BTreeSet<&'static str>,
}

impl Flags {
    /// Reads what follows the program's name.
    ///
    /// # Errors
    /// At the first argument that pflag would refuse.
    pub(crate) fn parse(args: &[String]) -> Result<Parsed, CommandLineError> {
        command_line::parse(args)
    }

    /// Whether a flag was given on the command line, be it with its default.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.given.contains(name)
    }

    /// The names of the flags that were given, sorted.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.given.iter().copied()
    }

    /// The names and printed values of all flags, sorted by name.
    pub(crate) fn values(&self) -> Vec<(&'static str, String)> {
        let mut values = Vec::new();
        // Looking needs a place to look at.
        self.clone().visit(&mut |flag| values.push((flag.name, flag.value.text())));
        values.sort_unstable();
        values
    }

    /// What the reference's options find wrong with their flags, beyond what parsing refuses. `gates` are the ones that
    /// the flags set.
    pub(crate) fn validate(&self, gates: &kube_scheduler_config::FeatureGates) -> Vec<String> {
        let mut errors = self.serving.validate();
        errors.extend(self.authentication.validate(gates));
        errors.extend(self.metrics.validate());
        errors
    }

    /// The sections with their titles, in the order of the help.
    fn sections(&mut self) -> [(&'static str, &mut dyn Section); 11] {
        [
            ("misc", &mut self.misc),
            ("secure serving", &mut self.serving),
            ("authentication", &mut self.authentication),
            ("authorization", &mut self.authorization),
            ("deprecated", &mut self.deprecated),
            ("leader election", &mut self.leader_election),
            ("feature gate", &mut self.feature_gates),
            ("metrics", &mut self.metrics),
            ("logs", &mut self.logs),
            ("kube-scheduler-rs", &mut self.ours),
            ("global", &mut self.global),
        ]
    }

    fn visit(&mut self, look: &mut dyn FnMut(Flag<'_>)) {
        for (_, section) in self.sections() {
            section.visit(look);
        }
    }
}

/// Several errors as one, each told once; nothing if there are none. The reference prints its lists of errors so.
pub(crate) fn aggregate(errors: &[String]) -> Option<String> {
    let mut told: Vec<&str> = Vec::new();
    for error in errors {
        if !told.contains(&error.as_str()) {
            told.push(error);
        }
    }
    match told.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}

#[cfg(test)]
mod tests;
