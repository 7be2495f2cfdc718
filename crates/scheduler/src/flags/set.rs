//! All flags together.

use std::collections::BTreeSet;

use super::authentication::Authentication;
use super::authorization::Authorization;
use super::deprecated::Deprecated;
use super::feature_gates::FeatureGateFlags;
use super::general::{Global, Misc, Ours};
use super::leader_election::LeaderElectionFlags;
use super::logs::Logs;
use super::metrics::MetricsFlags;
use super::section::{Flag, Section};
use super::serving::SecureServing;
use super::value::VersionRequest;

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
    /// The names of the flags that were given.
    pub(super) given: BTreeSet<&'static str>,
}

impl Flags {
    /// Whether a flag was given on the command line, even if with its default.
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
        // Visiting needs mutable access to the values.
        self.clone().visit(&mut |flag| values.push((flag.name, flag.value.text())));
        values.sort_unstable();
        values
    }

    /// The errors that the reference's validation of flags finds, after parsing. `gates` are those that the flags set.
    pub(crate) fn validate(&self, gates: &kube_scheduler_config::FeatureGates) -> Vec<String> {
        let mut errors = self.serving.validate();
        errors.extend(self.authentication.validate(gates));
        errors.extend(self.metrics.validate());
        errors
    }

    /// The sections with their titles, in the order of the help.
    pub(super) fn sections(&mut self) -> [(&'static str, &mut dyn Section); 11] {
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

    /// Calls `look` with every flag.
    pub(super) fn visit(&mut self, look: &mut dyn FnMut(Flag<'_>)) {
        for (_, section) in self.sections() {
            section.visit(look);
        }
    }

    /// The version to report instead of the real one.
    pub(crate) fn reported_version(&self) -> Option<&str> {
        match &self.global.version {
            VersionRequest::Report(version) => Some(version),
            _ => None,
        }
    }
}
