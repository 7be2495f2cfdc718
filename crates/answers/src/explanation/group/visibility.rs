//! A group for a reader who may not see the whole cluster.

use kube_scheduler_engine::without_domains;

use super::{DomainsAnswer, GroupAnswer, GroupAttempt};
use crate::explanation::visibility::{ERROR_HIDDEN, merged};

impl GroupAnswer {
    /// Leaves out the names of domains, which may be those of nodes, the texts that have them, and those of errors.
    pub(crate) fn hide_nodes(&mut self) {
        if let Some(attempt) = &mut self.attempt {
            attempt.hide_nodes();
        }
    }
}

impl GroupAttempt {
    fn hide_nodes(&mut self) {
        self.chosen = None;
        self.domains.iter_mut().for_each(|domains| domains.examples.clear());
        let hide = |text: &mut String, is_error: bool| {
            *text = match (text.is_empty(), is_error) {
                (false, true) => ERROR_HIDDEN.to_owned(),
                _ => without_domains(text),
            };
        };
        let is_error = self.is_error;
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

#[cfg(test)]
mod tests {
    use kube_scheduler_framework::Status;

    use super::super::FailedMembers;
    use super::*;

    fn failed(message: &str, is_error: bool) -> FailedMembers {
        FailedMembers {
            count: 1,
            message: message.to_owned(),
            rejected_by: Vec::new(),
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
    fn domains_have_no_names_and_texts_of_errors_are_hidden() {
        let exact = "pod group is unschedulable, cluster: enough room in sum, kubernetes.io/hostname: 2 of 3 domains, such as \
                     node-7: cpu (milli): 8 needed, kubernetes.io/hostname: 1 of 3 domains, such as node-8: no way";
        let mut attempt = GroupAttempt::of(&Status::unschedulable(exact), false);
        attempt.chosen = Some("node-7".to_owned());
        attempt.domains = vec![
            domain("node-7", failed(exact, false)),
            domain("node-8", failed(exact, false)),
            domain("node-1", failed("Insufficient cpu", false)),
            domain("node-2", failed("timed out at node-9", true)),
        ];
        attempt.hide_nodes();
        let hidden = serde_json::to_string(&attempt).unwrap();
        assert!(!hidden.contains("node-"), "{hidden}");
        let text = "pod group is unschedulable, cluster: enough room in sum, kubernetes.io/hostname: 2 of 3 domains: cpu (milli): 8 \
                    needed, kubernetes.io/hostname: 1 of 3 domains: no way";
        assert_eq!(attempt.message, text);
        let seen: Vec<(usize, &str)> =
            attempt.domains.iter().map(|it| (it.count, &*it.failed[0].message)).collect();
        assert_eq!(seen, [(2, text), (1, "Insufficient cpu"), (1, ERROR_HIDDEN)]);
    }
}
