//! What is said of a pod that is asked about and is not there.

use std::collections::BTreeSet;

use anyhow::anyhow;
use kube_scheduler_answers::Refusal;

use super::Asked;
use crate::commands::answers::hint_about;

/// How many namespaces are named.
const MAX_NAMED: usize = 5;

impl Asked {
    /// Why there is no answer; of a pod that is not there, with what else was read of it.
    pub(crate) fn refused(&self, refusal: Refusal) -> anyhow::Error {
        let Refusal::NoSuchPod(missing) = &refusal else { return refusal.into() };
        if self.finished.contains(missing) {
            return anyhow!("pod {missing} has ended: it is not scheduled any more");
        }
        let known = self.engine.known_pods().filter(|pod| pod.name == missing.name);
        let ended = self.finished.iter().filter(|pod| pod.name == missing.name);
        let namespaces: BTreeSet<&str> =
            known.map(|pod| &*pod.namespace).chain(ended.map(|pod| &*pod.namespace)).collect();
        let named: Vec<&str> = namespaces.iter().take(MAX_NAMED).copied().collect();
        let more = if namespaces.len() > MAX_NAMED { ", …" } else { "" };
        match (named.join(", "), hint_about(missing)) {
            (_, Some(hint)) => anyhow!("{refusal}; {hint}"),
            (named, None) if named.is_empty() => refusal.into(),
            (named, None) => {
                anyhow!("{refusal}; there is one of this name in namespace {named}{more}")
            }
        }
    }
}
