//! A scheduler that runs, as the source of answers.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube_scheduler_answers::{Interrupt, PodName, QuestionKind, Refusal};
use kube_scheduler_api_types::LabelSelector;
use kube_scheduler_daemon::{AskError, ClusterLists, Endpoint, ListError, RunningScheduler};
use kube_scheduler_simulator::ClusterInput;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::missing::{MAX_NAMED, Trace};
use super::{add_files, print_remark, wanted};

/// How long an answer may take: longer than a scheduler works on one.
const PATIENCE: Duration = Duration::from_secs(90);

/// How long a question to the API server about a pod may take.
const LOOKUP_PATIENCE: Duration = Duration::from_secs(10);

/// A scheduler that runs, and the API server beside it.
pub(crate) struct LiveCluster {
    pub(super) runtime: Runtime,
    pub(super) endpoint: Endpoint,
    pub(super) scheduler: RunningScheduler,
    pub(super) interrupt: Interrupt,
    /// Of pods and manifests that name none.
    pub(super) namespace: String,
    /// Whether manifests may name no other.
    pub(super) is_confined: bool,
}

/// What is asked about, and what comes with it.
pub(crate) struct Manifests {
    pub(crate) all: Vec<Value>,
    /// Whether there are workloads, and they stand for no pod.
    pub(crate) stand_for_none: bool,
}

/// What a scheduler says of a pod that it does not know.
fn no_such(pod: &PodName) -> String {
    Refusal::NoSuchPod(pod.clone()).to_string()
}

/// The pods that a question names: the one that it is about, and those that it takes away.
fn named_pods(namespace: &str, spec: &Value) -> Vec<PodName> {
    let about = spec["podName"].as_str().map(|name| (namespace, name));
    let changes = spec["changes"].as_array().into_iter().flatten();
    let gone = changes.flat_map(|change| [&change["deletePod"], &change["evictPod"]]);
    let gone = gone.filter_map(|pod| {
        Some((pod["namespace"].as_str().unwrap_or(namespace), pod["name"].as_str()?))
    });
    let named = about.into_iter().chain(gone);
    named.map(|(of, name)| PodName { namespace: of.into(), name: name.into() }).collect()
}

impl LiveCluster {
    /// Who has given these answers, and as of when.
    pub(crate) fn answered(&self, answers: &[Value]) -> String {
        let versions = answers.iter().filter_map(|answer| answer["resourceVersion"].as_str());
        let version = versions.max_by_key(|version| version.parse::<u64>().ok());
        let time = answers.last().and_then(|answer| answer["asOf"].as_str());
        format!(
            "answered by the running scheduler at {}, as of resource version {}{}",
            self.scheduler.url(),
            version.unwrap_or("unknown"),
            time.map(|time| format!(", at {time}")).unwrap_or_default()
        )
    }

    /// The namespace of pods and manifests that name none, and of a question about none.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Asks one question. Of a pod that the scheduler does not know, the error says what the API server has of it.
    pub(crate) fn ask(
        &self,
        kind: QuestionKind,
        namespace: &str,
        spec: &Value,
        rendered: Option<&str>,
    ) -> Result<Value> {
        let asked = self.scheduler.ask(kind, namespace, spec, rendered);
        let asked = async { wanted(&self.interrupt, timeout(PATIENCE, asked)).await };
        let answer = self.runtime.block_on(asked)?;
        let answer = answer.with_context(|| {
            format!("{} has not answered within {PATIENCE:?}", self.scheduler.url())
        })?;
        answer.map_err(|error| match error {
            AskError::Refused { code: 413, .. } => anyhow::Error::new(error).context(
                "the running scheduler takes no question as long as this one: try --local",
            ),
            AskError::Refused { code: 404, message } => {
                let is_missing = |pod: &PodName| no_such(pod) == message;
                match named_pods(namespace, spec).into_iter().find(is_missing) {
                    Some(pod) => match self.trace_of(&pod) {
                        Ok(trace) => trace.refusal(&pod),
                        Err(given_up) => given_up,
                    },
                    None => AskError::Refused { code: 404, message }.into(),
                }
            }
            error => error.into(),
        })
    }

    /// What the API server has of a pod, as far as the user may see that. Fails only if the question is given up.
    fn trace_of(&self, pod: &PodName) -> Result<Trace> {
        let found = ClusterLists::read_pod(&self.endpoint, &pod.namespace, &pod.name);
        Ok(match self.looked_up(found)? {
            Ok(Some(found)) => Trace::of(&found),
            Ok(None) => {
                // One more than are named, to see that there are more.
                let max = MAX_NAMED + 1;
                let found = ClusterLists::namespaces_with_pod(&self.endpoint, &pod.name, max);
                // Who may not list the pods of all namespaces learns of none.
                Trace::Elsewhere(self.looked_up(found)?.unwrap_or_default())
            }
            Err(why) => Trace::Unknown(why),
        })
    }

    /// What comes of asking the API server, or why nothing does. Fails only if the question is given up.
    fn looked_up<T>(
        &self,
        work: impl Future<Output = Result<T, ListError>>,
    ) -> Result<Result<T, String>> {
        let found = async { wanted(&self.interrupt, timeout(LOOKUP_PATIENCE, work)).await };
        Ok(match self.runtime.block_on(found)? {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => Err(format!("{:#}", anyhow::Error::new(error))),
            Err(_) => Err(format!("no answer within {LOOKUP_PATIENCE:?}")),
        })
    }

    /// Adds the cluster's objects of one kind.
    fn add(&self, input: &mut ClusterInput, kind: &str) -> Result<()> {
        let found = self.runtime.block_on(ClusterLists::read_kind(&self.endpoint, kind))?;
        for (kind, text) in found.lists {
            input.add_to_cluster(&kind, &text)?;
        }
        Ok(())
    }

    /// The names of the nodes with these labels.
    pub(crate) fn nodes_with(&self, selector: &LabelSelector) -> Result<Vec<String>> {
        let mut input = ClusterInput::default();
        self.add(&mut input, "nodes").context("cannot read the nodes")?;
        let found = input.finish()?;
        let nodes = found.nodes.iter().filter(|node| selector.matches(&node.labels));
        Ok(nodes.map(|node| node.name.to_string()).collect())
    }

    /// What is asked about, and what comes with it, as an API server would store it.
    pub(crate) fn manifests(&self, question: &[PathBuf]) -> Result<Manifests> {
        let mut input = ClusterInput::default();
        input.begin_question(&self.namespace);
        if self.is_confined {
            input.confine_question();
        }
        add_files(&mut input, question)?;
        if !question.is_empty() {
            // The priority of pods is that of their class.
            self.add(&mut input, "priorityclasses.scheduling.k8s.io")
                .context("cannot read the classes of priorities")?;
        }
        if input.asks_about("apps", "DaemonSet") {
            self.add(&mut input, "nodes")
                .context("cannot read the nodes that a DaemonSet is for")?;
        }
        if input.asks_about("resource.k8s.io", "ResourceClaimTemplate") {
            // Claims are made from the cluster's where it has one of the name.
            self.add(&mut input, "resourceclaimtemplates.resource.k8s.io")
                .context("cannot read the templates of claims")?;
        }
        let has_controllers = input.asks_about_controllers();
        let found = input.finish()?;
        found.warnings.into_iter().for_each(|text| print_remark(format!("warning: {text}")));
        if !found.asked_others.is_empty() {
            bail!(
                "a running scheduler takes pods, nodes, pod groups, controllers, services and claims in a question, and not {}: try --local",
                found.asked_others.join(", ")
            );
        }
        let stand_for_none = has_controllers && found.asked_pods.is_empty();
        Ok(Manifests { all: found.asked_manifests, stand_for_none })
    }
}
