//! Why a pod fits nowhere, and the text that users know.
//!
//! Behaviour: `docs/spec/core.md` §17.

use std::collections::BTreeSet;
use std::fmt;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_framework::{Code, PluginName, Status, Verdicts};
use kube_scheduler_runtime::Profile;

/// Everything one attempt learned about why the pod fits nowhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Diagnosis {
    /// Each distinct explicit answer with the number of nodes that gave it.
    pub(crate) rejections: Vec<(Status, u32)>,
    /// The answer of every node without an explicit one.
    pub(crate) absent: Status,
    /// Plugins that rejected the pod, on any node or before any node was looked at.
    pub(crate) unschedulable_plugins: BTreeSet<PluginName>,
    /// Those of them that wait for something outside the scheduler.
    pub(crate) pending_plugins: BTreeSet<PluginName>,
    /// The message of PreFilter if it rejected the pod as a whole, else empty.
    pub(crate) pre_filter_message: String,
    /// The message of PostFilter, such as the outcome of preemption; empty if there is none.
    pub(crate) post_filter_message: String,
}

impl Diagnosis {
    /// Takes over the explicit answers of a filter pass and the plugins behind them.
    pub(crate) fn absorb(&mut self, verdicts: &Verdicts) {
        for (status, n) in verdicts.rejections() {
            self.blame(status);
            self.rejections.push((status.clone(), n));
        }
    }

    /// Remembers who gave a rejection.
    pub(crate) fn blame(&mut self, status: &Status) {
        if !status.is_rejected() {
            return;
        }
        if let Some(plugin) = status.plugin().filter(|name| !name.is_empty()) {
            self.unschedulable_plugins.insert(plugin.clone());
            if status.code() == Code::Pending {
                self.pending_plugins.insert(plugin.clone());
            }
        }
    }
}

/// A pod that fits on none of `n_nodes` nodes. Displays the text of the event and the condition.
#[derive(Clone, Debug)]
pub(crate) struct FitError {
    /// How many nodes there were.
    pub(crate) n_nodes: usize,
    /// Why the pod fits on none of them.
    pub(crate) diagnosis: Diagnosis,
    /// When the pod may be tried again, whatever happens until then, if it has been tried too often.
    pub(crate) not_before: Option<Timestamp>,
}

impl FitError {
    /// The error of a step after the node was chosen: that node alone rejected the pod.
    pub(crate) fn on_chosen_node(status: &Status) -> Self {
        let mut diagnosis =
            Diagnosis { rejections: vec![(status.clone(), 1)], ..Diagnosis::default() };
        diagnosis.blame(status);
        Self { n_nodes: 1, diagnosis, not_before: None }
    }
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let diagnosis = &self.diagnosis;
        let Diagnosis { rejections, absent, pre_filter_message, .. } = diagnosis;
        if pre_filter_message.is_empty() {
            f.write_str(&Status::fits_nowhere(self.n_nodes, rejections, absent))?;
        } else {
            write!(f, "0/{} nodes are available: {pre_filter_message}.", self.n_nodes)?;
        }
        if !diagnosis.post_filter_message.is_empty() {
            write!(f, " {}", diagnosis.post_filter_message)?;
        }
        Ok(())
    }
}

/// The events that may help a pod which these plugins rejected.
pub(crate) fn events_for(profile: &Profile, rejected_by: &[PluginName]) -> Vec<String> {
    let rejecting = profile.plugins().iter().filter(|entry| rejected_by.contains(&entry.name));
    let mut events = BTreeSet::new();
    for entry in rejecting {
        match entry.plugin.as_enqueue_extensions() {
            Some(extensions) => {
                // Several actions together have no name.
                let registered = extensions.events_to_register();
                events.extend(registered.iter().flat_map(|registration| {
                    let event = &registration.event;
                    let each = event.action().named_parts();
                    each.map(move |action| format!("{}{action}", event.resource()))
                }));
            }
            None => {
                events.insert("*".to_owned());
            }
        }
    }
    events.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit_error(rejections: Vec<(Status, u32)>, n_nodes: usize) -> FitError {
        let diagnosis = Diagnosis { rejections, ..Diagnosis::default() };
        FitError { n_nodes, diagnosis, not_before: None }
    }

    #[test]
    fn counts_reasons_and_sorts_what_is_printed() {
        let mut error = fit_error(
            vec![
                (Status::unschedulable("b"), 10),
                (Status::new(Code::Unschedulable, ["b".into(), "a".into()]), 2),
            ],
            13,
        );
        error.diagnosis.absent = Status::unresolvable("c");
        error.diagnosis.post_filter_message = "nothing helps.".into();
        assert_eq!(error.to_string(), "0/13 nodes are available: 1 c, 12 b, 2 a. nothing helps.");
    }

    #[test]
    fn nothing_to_say_ends_with_the_colon() {
        assert_eq!(fit_error(vec![], 1).to_string(), "0/1 nodes are available:");
    }

    #[test]
    fn a_pre_filter_message_replaces_the_counts() {
        let mut error = fit_error(vec![(Status::unschedulable("b"), 1)], 3);
        error.diagnosis.pre_filter_message = "conflict".into();
        assert_eq!(error.to_string(), "0/3 nodes are available: conflict.");
    }

    #[test]
    fn pending_plugins_are_blamed_twice() {
        let error = FitError::on_chosen_node(&Status::pending("wait").from_plugin(&"P".into()));
        assert!(error.diagnosis.pending_plugins.contains("P"));
        assert!(error.diagnosis.unschedulable_plugins.contains("P"));
        assert_eq!(error.to_string(), "0/1 nodes are available: 1 wait.");
    }
}
