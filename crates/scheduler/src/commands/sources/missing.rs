//! What is said of a pod that is asked about and that the scheduler does not know.

use std::collections::BTreeSet;

use anyhow::anyhow;
use kube_scheduler_answers::{PodName, Refusal};
use kube_scheduler_api_types::Pod;
use serde_json::Value;

use super::QueryableCluster;
use crate::commands::answers::hint_about;

/// How many namespaces are named.
pub(super) const MAX_NAMED: usize = 5;

/// What else is known of such a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trace {
    /// It has ended, in this phase.
    Ended(String),
    /// It is there, for the scheduler of this name.
    There(String),
    /// It is not there; these namespaces have one of its name, as far as that was read.
    Elsewhere(Vec<String>),
    /// Why it is not known whether it is there.
    Unknown(String),
}

impl Trace {
    /// From what the API server has of the pod.
    pub(super) fn of(found: &Value) -> Self {
        match Pod::from_value(found) {
            Ok(pod) if pod.has_ended() => Self::Ended(pod.status.phase.to_string()),
            Ok(pod) => Self::There(pod.spec.scheduler_name.to_string()),
            Err(error) => Self::Unknown(error.to_string()),
        }
    }

    /// Why there is no answer about the pod.
    pub(super) fn refusal(self, pod: &PodName) -> anyhow::Error {
        let none = Refusal::NoSuchPod(pod.clone());
        match (self, hint_about(pod)) {
            (Self::Ended(phase), _) => {
                anyhow!("pod {pod} has ended ({phase}): it is not scheduled any more")
            }
            (Self::There(scheduler), _) => anyhow!(
                "pod {pod} is there, for scheduler {scheduler:?}, but the scheduler that was asked does not know it yet"
            ),
            (_, Some(hint)) => anyhow!("{none}; {hint}"),
            (Self::Unknown(why), None) => {
                anyhow!("{none}; whether it has ended is not known: {why}")
            }
            (Self::Elsewhere(namespaces), None) if namespaces.is_empty() => none.into(),
            (Self::Elsewhere(namespaces), None) => {
                let more = if namespaces.len() > MAX_NAMED { ", …" } else { "" };
                let named = namespaces[..namespaces.len().min(MAX_NAMED)].join(", ");
                anyhow!("{none}; there is one of this name in namespace {named}{more}")
            }
        }
    }
}

impl QueryableCluster {
    /// Why there is no answer; of a pod that is not there, with what else was read of it.
    pub(crate) fn refused(&self, refusal: Refusal) -> anyhow::Error {
        match &refusal {
            Refusal::NoSuchPod(missing) => self.trace_of(missing).refusal(missing),
            _ => refusal.into(),
        }
    }

    fn trace_of(&self, missing: &PodName) -> Trace {
        if let Some(phase) = self.finished.get(missing) {
            return Trace::Ended(phase.to_string());
        }
        let known = self.engine.known_pods().filter(|pod| pod.name == missing.name);
        let ended = self.finished.keys().filter(|pod| pod.name == missing.name);
        let namespaces: BTreeSet<&str> =
            known.map(|pod| &*pod.namespace).chain(ended.map(|pod| &*pod.namespace)).collect();
        Trace::Elsewhere(namespaces.into_iter().map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_said_follows_from_what_the_api_server_has() {
        let pod = |phase: &str| {
            json!({
                "metadata": {"namespace": "shop", "name": "web"},
                "spec": {"schedulerName": "other", "containers": [{"name": "c"}]},
                "status": {"phase": phase},
            })
        };
        let said = |trace: Trace, pod: &str| trace.refusal(&pod.parse().unwrap()).to_string();
        for phase in ["Succeeded", "Failed"] {
            let text = format!("pod shop/web has ended ({phase}): it is not scheduled any more");
            assert_eq!(said(Trace::of(&pod(phase)), "shop/web"), text);
        }
        assert_eq!(
            said(Trace::of(&pod("Running")), "shop/web"),
            "pod shop/web is there, for scheduler \"other\", but the scheduler that was asked does not know it yet"
        );
        let nowhere = || Trace::Elsewhere(Vec::new());
        assert_eq!(said(nowhere(), "shop/web"), "there is no pod shop/web");
        let forbidden = Trace::Unknown("pods \"web\" is forbidden".to_owned());
        assert_eq!(
            said(forbidden, "shop/web"),
            "there is no pod shop/web; whether it has ended is not known: pods \"web\" is forbidden"
        );
        let hint = said(nowhere(), "deployment/web");
        assert!(hint.starts_with("there is no pod deployment/web; deployment/web means"), "{hint}");
        let many = Trace::Elsewhere((0..7).map(|at| format!("n-{at}")).collect());
        assert_eq!(
            said(many, "shop/web"),
            "there is no pod shop/web; there is one of this name in namespace n-0, n-1, n-2, n-3, n-4, …"
        );
    }
}
