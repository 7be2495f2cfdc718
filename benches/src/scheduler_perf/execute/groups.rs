//! Pod groups, which the scheduler must know before the pods of a group come if it is to be measured what scheduling takes.

use anyhow::{Result, bail};

use super::super::go_template::Env;
use super::super::op::{CreatePodGroups, WaitForPodGroups, counted};
use super::{Executor, POLL};

/// The kind, as the scheduler names what it watches.
const POD_GROUPS: &str = "podgroups.scheduling.k8s.io";

impl Executor<'_> {
    pub(super) async fn create_pod_groups(&mut self, op: &CreatePodGroups) -> Result<()> {
        let n = counted("countParam", op.count, &op.count_param, &mut self.params)?;
        let template = self.template(&op.template_path)?;
        let fields = self.params.template(&op.template_params)?;
        self.need_namespace(&op.namespace).await?;
        let before = self.world.scheduler.n_watched(POD_GROUPS, &op.namespace).unwrap_or(0);
        let object = |index: usize| template.object(Env { index, count: n, fields: &fields });
        self.hands.create_all(n, &op.namespace, object).await?;
        self.until_known(&op.namespace, before + n).await
    }

    pub(super) async fn wait_for_pod_groups(&mut self, op: &WaitForPodGroups) -> Result<()> {
        let n = counted("countParam", op.count, &op.count_param, &mut self.params)?;
        self.until_known(&op.namespace, n).await
    }

    /// Waits until the scheduler has seen this many groups of a namespace.
    async fn until_known(&self, namespace: &str, n: usize) -> Result<()> {
        let deadline = tokio::time::Instant::now() + self.patience;
        loop {
            let Some(known) = self.world.scheduler.n_watched(POD_GROUPS, namespace) else {
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
