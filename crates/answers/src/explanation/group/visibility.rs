//! A group for a reader who may not see the whole cluster.

use std::collections::BTreeSet;

use super::{DomainsAnswer, GroupAnswer, GroupAttempt};
use crate::explanation::visibility::{ERROR_HIDDEN, merged};

/// What stands for a text that names domains.
const DOMAINS_HIDDEN: &str =
    "a reason that names domains; its text is shown to those who may list nodes";

impl GroupAnswer {
    /// Leaves out the names of domains, which may be those of nodes, the texts that have them, and those of errors.
    pub(in crate::explanation) fn hide_nodes(&mut self) {
        if let Some(attempt) = &mut self.attempt {
            attempt.hide_nodes();
        }
    }
}

impl GroupAttempt {
    fn hide_nodes(&mut self) {
        let examples =
            self.domains.iter_mut().flat_map(|domains| std::mem::take(&mut domains.examples));
        let names: BTreeSet<String> = examples.chain(self.chosen.take()).collect();
        // Which domains there are is not known of one that is abridged.
        let (all, is_error) = (self.is_abridged, self.is_error);
        let hide = |text: &mut String, is_error: bool| {
            if text.is_empty() {
                return;
            }
            if is_error {
                ERROR_HIDDEN.clone_into(text);
            } else if all || has_one_of(text, &names) {
                DOMAINS_HIDDEN.clone_into(text);
            }
        };
        hide(&mut self.message, is_error);
        self.preemption
            .iter_mut()
            .chain(&mut self.no_domains)
            .for_each(|text| hide(text, is_error));
        for domains in &mut self.domains {
            hide(&mut domains.message, is_error);
            domains.failed.iter_mut().for_each(|failed| hide(&mut failed.message, failed.is_error));
        }
        let is_same = |a: &DomainsAnswer, b: &DomainsAnswer| a.is_like(b);
        self.domains = merged(std::mem::take(&mut self.domains), is_same, |known, domains| {
            known.count += domains.count;
            known.nodes += domains.nodes;
        });
    }
}

/// Whether one of the words of a text is one of these names.
fn has_one_of(text: &str, names: &BTreeSet<String>) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let words = text.split(|c| !is_of_name(c));
    words.map(|word| word.trim_matches(['.', '/', '-'])).any(|word| names.contains(word))
}

#[cfg(test)]
mod tests {
    use kube_scheduler_framework::Status;

    use super::super::FailedMembers;
    use super::*;

    fn failed(message: &str, is_error: bool) -> FailedMembers {
        FailedMembers {
            count: 1,
            message: message.to_owned(),
            examples: vec!["m".to_owned()],
            is_error,
        }
    }

    fn domain(name: &str, failed: FailedMembers) -> DomainsAnswer {
        DomainsAnswer {
            count: 1,
            examples: vec![name.to_owned()],
            nodes: 1,
            message: String::new(),
            n_placed: 0,
            failed: vec![failed],
        }
    }

    #[test]
    fn texts_with_names_of_domains_are_hidden_and_others_stay() {
        let exact = "pod group is unschedulable, kubernetes.io/hostname: 2 of 2 domains, such as node-7: cpu (milli): 8 needed";
        let mut attempt = GroupAttempt::of(&Status::unschedulable(exact), false);
        attempt.preemption = Some("No preemption victims found".to_owned());
        attempt.domains = vec![
            domain("node-7", failed("node-7 is too small.", false)),
            domain("node-8", failed("Insufficient cpu in node-8.", false)),
            domain("a", failed("0/1 nodes are a bit small", false)),
            domain("cpu-1", failed("Insufficient cpu", false)),
            domain("d", failed("timed out at node-9", true)),
        ];
        let mut abridged = attempt.clone();
        attempt.hide_nodes();
        let hidden = serde_json::to_string(&attempt).unwrap();
        for name in ["node-7", "node-8", "node-9", "cpu-1"] {
            assert!(!hidden.contains(name), "{hidden}");
        }
        assert_eq!(attempt.preemption.as_deref(), Some("No preemption victims found"));
        let seen: Vec<(usize, &str)> =
            attempt.domains.iter().map(|it| (it.count, &*it.failed[0].message)).collect();
        assert_eq!(seen, [(3, DOMAINS_HIDDEN), (1, "Insufficient cpu"), (1, ERROR_HIDDEN)]);
        (abridged.is_abridged, abridged.domains) = (true, Vec::new());
        abridged.hide_nodes();
        assert_eq!(abridged.message, DOMAINS_HIDDEN);
    }
}
