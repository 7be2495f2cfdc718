//! What a queue says to a reader who may not see the whole cluster.

use kube_scheduler_engine::without_domains;

use super::data::Queue;
use super::groups;
use crate::explanation::{ERROR_HIDDEN, NODES_HIDDEN, OTHERS_HIDDEN, Visibility, is_of};

impl Queue {
    /// The answer without the names that its reader may not see: pods of other namespaces than `namespace` are counted, and
    /// keep their places in the order, but are not listed.
    #[must_use]
    pub(crate) fn visible_to(mut self, reader: Visibility, namespace: &str) -> Self {
        if !reader.nodes {
            for pod in &mut self.pods {
                pod.goes_to = None;
                (pod.place.node, pod.place.nominated_node) = (None, None);
                pod.message = match (pod.is_error, pod.message.take()) {
                    (true, _) => Some(ERROR_HIDDEN.to_owned()),
                    (false, message) => message.map(|message| without_domains(&message)),
                };
            }
            self.group_again();
            self.warnings.push(NODES_HIDDEN.to_owned());
        }
        if !reader.all_pods {
            let n_pods = self.pods.len();
            self.pods.retain(|pod| is_of(&pod.pod, namespace));
            if self.pods.len() < n_pods {
                self.group_again();
                self.warnings.push(OTHERS_HIDDEN.to_owned());
            }
        }
        self
    }

    /// Groups the pods by what the reader may see of them.
    fn group_again(&mut self) {
        self.groups = groups(&self.pods, self.max_examples);
        self.n_groups = self.groups.len();
    }

    /// The answer with at most this many pods and groups listed.
    #[must_use]
    pub(crate) fn limited(mut self, max_listed: usize) -> Self {
        self.pods.truncate(max_listed);
        self.groups.truncate(max_listed);
        self
    }
}
