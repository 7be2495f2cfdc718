//! Pod groups, which the scheduler must know before the pods of a group come if it is to be measured what scheduling takes.

use anyhow::{Result, bail};
use serde_json::Value;

use super::super::go_template::Env;
use super::super::op::{CreatePodGroups, WaitForPodGroups, counted};
use super::{Executor, POLL, State};

/// The kind, as the scheduler names what it watches.
const POD_GROUPS: &str = "podgroups.scheduling.k8s.io";

/// Whether an object is one of these.
pub(super) fn is_pod_group(object: &Value) -> bool {
    let group = object["apiVersion"].as_str().and_then(|version| version.split_once('/'));
    object["kind"] == "PodGroup" && group.is_some_and(|(group, _)| group == "scheduling.k8s.io")
}

impl State {
    /// Counts `n` more groups that were created in a namespace; returns how many it has in all.
    pub(super) fn count_pod_groups(&mut self, namespace: &str, n: usize) -> usize {
        let all = self.n_pod_groups.entry(namespace.to_owned()).or_default();
        *all += n;
        *all
    }
}

impl Executor<'_> {
    pub(super) async fn create_pod_groups(&mut self, op: &CreatePodGroups) -> Result<()> {
        let n = counted("countParam", op.count, &op.count_param, &mut self.params)?;
        let template = self.template(&op.template_path)?;
        let fields = self.params.template(&op.template_params)?;
        self.need_namespace(&op.namespace).await?;
        let object = |index: usize| template.object(Env { index, count: n, fields: &fields });
        self.hands.create_all(n, &op.namespace, object).await?;
        // Whatever was created by operations before may not have been seen either.
        let n_created = self.state.count_pod_groups(&op.namespace, n);
        self.until_known(&op.namespace, n_created).await
    }

    pub(super) async fn wait_for_pod_groups(&mut self, op: &WaitForPodGroups) -> Result<()> {
        let n = counted("countParam", op.count, &op.count_param, &mut self.params)?;
        self.until_known(&op.namespace, n).await
    }

    /// Waits until the scheduler has seen this many groups of a namespace.
    async fn until_known(&self, namespace: &str, n: usize) -> Result<()> {
        let deadline = tokio::time::Instant::now() + self.patience;
        loop {
            let Some(known) = self.cluster.scheduler.n_watched(POD_GROUPS, namespace) else {
                bail!(
                    "the scheduler does not watch pod groups: featureGates lacks GenericWorkload"
                );
            };
            if known >= n {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                let patience = self.patience;
                bail!(
                    "the scheduler knows {known} of {n} pod groups of namespace {namespace} after {patience:?}"
                );
            }
            tokio::time::sleep(POLL / 20).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_of_all_operations_of_a_namespace_are_counted() {
        let mut state = State::default();
        assert_eq!(state.count_pod_groups("a", 2), 2);
        assert_eq!(state.count_pod_groups("b", 1), 1);
        assert_eq!(state.count_pod_groups("a", 3), 5);
        let of = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind});
        assert!(is_pod_group(&of("scheduling.k8s.io/v1beta1", "PodGroup")));
        assert!(!is_pod_group(&of("scheduling.x-k8s.io/v1alpha1", "PodGroup")));
        assert!(!is_pod_group(&of("scheduling.k8s.io/v1", "PriorityClass")));
    }
}
