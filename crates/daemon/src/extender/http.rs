//! An extender behind HTTP, as the engine asks it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use kube_scheduler_api_types::{Node, Pod};
use kube_scheduler_config::ExtenderConfig;
use kube_scheduler_framework::preemption::PreemptionCandidate;
use kube_scheduler_framework::{BoxFuture, Status};
use kube_scheduler_runtime::{
    Extender, ExtenderCallError, ExtenderFilterResult, ExtenderReport, ExtenderVerbs,
    ExtenderVictims, PendingPriorities,
};
use tokio::runtime::Handle;

use super::connection::Connection;
use super::tls::ExtenderTlsError;
use super::{answers, questions};
use crate::transport::proxy::Proxies;
use crate::watchdog::Heartbeat;

/// How long a call may take when nothing is configured.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// An extender behind HTTP.
#[derive(Debug)]
pub(super) struct HttpExtender {
    config: ExtenderConfig,
    managed_resources: BTreeSet<String>,
    connection: Arc<Connection>,
    /// Where calls run; `None` if nothing is going to be called.
    runtime: Option<Handle>,
    /// Of the thread that waits for answers.
    heartbeat: Heartbeat,
}

/// An answer that is on its way.
struct PendingReply {
    answer: mpsc::Receiver<Result<Bytes, String>>,
    heartbeat: Heartbeat,
}

impl PendingReply {
    /// Waits for the answer. A runtime that has ended gives none.
    fn wait(self) -> Result<Bytes, String> {
        // The extender's time-out ends this; until then the thread does not hang.
        let _rest = self.heartbeat.rest();
        self.answer.recv().unwrap_or_else(|_| Err("context canceled".to_owned()))
    }
}

impl HttpExtender {
    /// Makes ready. Calls run on the runtime that this is called on.
    pub(super) fn new(
        config: &ExtenderConfig,
        heartbeat: Heartbeat,
    ) -> Result<Self, ExtenderTlsError> {
        // A negative time-out has expired before anything is sent, as in the reference.
        let timeout = match config.http_timeout.as_nanos() {
            0 => DEFAULT_TIMEOUT,
            nanos => Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)),
        };
        let managed_resources =
            config.managed_resources.iter().map(|resource| resource.name.clone()).collect();
        Ok(Self {
            connection: Arc::new(Connection::new(config, timeout, &Proxies::of_environment())?),
            config: config.clone(),
            managed_resources,
            runtime: Handle::try_current().ok(),
            heartbeat,
        })
    }

    /// Asks; the answer is waited for later.
    fn ask(&self, verb: &str, question: String) -> Result<PendingReply, String> {
        let runtime =
            self.runtime.as_ref().ok_or("extenders cannot be called from here").cloned()?;
        let (answer, coming) = mpsc::sync_channel(1);
        let (connection, verb) = (self.connection.clone(), verb.to_owned());
        runtime.spawn(async move {
            // The send fails only when the engine has ended and the receiver is gone.
            let _ = answer.send(connection.post(&verb, question).await);
        });
        Ok(PendingReply { answer: coming, heartbeat: self.heartbeat.clone() })
    }
}

impl Extender for HttpExtender {
    fn name(&self) -> &str {
        &self.config.url_prefix
    }

    fn verbs(&self) -> ExtenderVerbs {
        ExtenderVerbs {
            filter: !self.config.filter_verb.is_empty(),
            prioritize: !self.config.prioritize_verb.is_empty(),
            preempt: !self.config.preempt_verb.is_empty(),
            bind: !self.config.bind_verb.is_empty(),
        }
    }

    fn is_ignorable(&self) -> bool {
        self.config.ignorable
    }

    fn weight(&self) -> i64 {
        self.config.weight
    }

    fn is_interested(&self, pod: &Pod) -> bool {
        self.managed_resources.is_empty()
            || pod.source.as_ref().is_some_and(|source| {
                source.resource_names().iter().any(|name| self.managed_resources.contains(&**name))
            })
    }

    fn filter(
        &self,
        pod: &Arc<Pod>,
        nodes: &[Arc<Node>],
    ) -> Result<ExtenderFilterResult, ExtenderCallError> {
        let knows_nodes = self.config.node_cache_capable;
        let question = questions::about_nodes(pod, nodes, knows_nodes)?;
        let answer = self.ask(&self.config.filter_verb, question)?.wait()?;
        Ok(answers::filter_result(&answer, knows_nodes)?)
    }

    fn prioritize(&self, pod: &Arc<Pod>, nodes: &[Arc<Node>]) -> PendingPriorities {
        let question = questions::about_nodes(pod, nodes, self.config.node_cache_capable);
        let coming = question.and_then(|text| self.ask(&self.config.prioritize_verb, text));
        Box::new(move || Ok(answers::priorities(&coming?.wait()?)?))
    }

    fn preempt(
        &self,
        pod: &Arc<Pod>,
        candidates: &[(Arc<Node>, PreemptionCandidate)],
    ) -> Result<BTreeMap<String, ExtenderVictims>, ExtenderCallError> {
        let question = questions::about_victims(pod, candidates, self.config.node_cache_capable)?;
        Ok(answers::victims(&self.ask(&self.config.preempt_verb, question)?.wait()?)?)
    }

    fn bind(&self, pod: &Arc<Pod>, node: &str) -> BoxFuture<Status> {
        let (connection, verb) = (self.connection.clone(), self.config.bind_verb.clone());
        let question = questions::about_binding(pod, node);
        Box::pin(async move {
            let answer = connection.post(&verb, question).await;
            match answer.and_then(|answer| answers::binding_result(&answer)) {
                Ok(()) => Status::SUCCESS,
                Err(error) => Status::error(error),
            }
        })
    }

    fn report(&self, report: ExtenderReport<'_>) {
        let extender = self.name();
        match report {
            ExtenderReport::FilterIgnored { error } => tracing::info!(
                extender,
                err = error,
                "Skipping extender as it returned error and has ignorable flag set"
            ),
            ExtenderReport::BindIgnored { error } => tracing::info!(
                extender,
                err = error,
                "Skipping extender in bind as it returned error and has ignorable flag set"
            ),
            ExtenderReport::PreemptIgnored { error } => tracing::debug!(
                extender,
                err = error,
                "Skipped extender as it returned error and has ignorable flag set"
            ),
            ExtenderReport::NoVictims { node } => tracing::debug!(
                extender,
                node,
                "Ignored node for which the extender didn't report victims"
            ),
            ExtenderReport::NotScored { pod, error } => tracing::trace!(
                extender,
                error,
                pod = pod.key(),
                "Failed to run extender's priority function. No score given by this extender."
            ),
            ExtenderReport::Scored { pod, node, score } => tracing::trace!(
                target: "V10",
                extender,
                pod = pod.key(),
                node,
                score,
                "Extender scored node for pod"
            ),
            other => tracing::debug!(extender, ?other, "Extender answered"),
        }
    }
}
