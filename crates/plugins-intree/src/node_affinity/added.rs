//! The affinity that a profile adds to all its pods.

use kube_scheduler_framework::PluginArgs;
use kube_scheduler_framework::api::validation::FieldPath;
use kube_scheduler_framework::api::{NodeSelector, NodeSelectorTerm, PreferredNodeTerm, wire};

use crate::plugin_args::{checked_args, read};

/// `addedAffinity`, compiled strictly.
#[derive(Debug, Default)]
pub(super) struct AddedAffinity {
    pub(super) required: Option<NodeSelector>,
    /// `None` when no terms are given.
    pub(super) preferred: Option<Box<[PreferredNodeTerm]>>,
}

impl AddedAffinity {
    pub(super) fn from_args(args: &PluginArgs) -> Result<Self, String> {
        let typed = checked_args!(NodeAffinity, args)?;
        if typed.added_affinity.is_none() {
            return Ok(Self::default());
        }
        // Selectors are compiled from the wire form; that the arguments have its shape is known by now.
        let affinity: wire::NodeAffinity = read(&args["addedAffinity"])?;
        let required = affinity.required.map(|required| {
            NodeSelector::compile_strict(&required, &FieldPath::root()).map_err(|error| {
                format!(
                    "parsing addedAffinity.requiredDuringSchedulingIgnoredDuringExecution: {error}"
                )
            })
        });
        let required = required.transpose()?;
        let given = affinity.preferred.unwrap_or_default();
        let mut terms = Vec::with_capacity(given.len());
        for (i, preferred) in given.iter().enumerate() {
            let weight = preferred.weight.unwrap_or(0);
            let term = &preferred.preference;
            // Terms without weight or requirements are dropped unread.
            if weight == 0 || term.match_expressions.is_empty() && term.match_fields.is_empty() {
                continue;
            }
            let term = NodeSelectorTerm::compile(term, &FieldPath::root().index(i)).map_err(|error| {
                format!("parsing addedAffinity.preferredDuringSchedulingIgnoredDuringExecution: {error}")
            })?;
            terms.push(PreferredNodeTerm { weight, term });
        }
        Ok(Self { required, preferred: (!given.is_empty()).then(|| terms.into()) })
    }

    /// Whether a node has what is required. Nothing of it is looked at if nothing is.
    pub(super) fn allows(&self, matches: impl FnOnce(&NodeSelector) -> bool) -> bool {
        self.required.as_ref().is_none_or(matches)
    }

    /// The preferred terms, none when none are given.
    pub(super) fn preferred_terms(&self) -> &[PreferredNodeTerm] {
        self.preferred.as_deref().unwrap_or_default()
    }
}
