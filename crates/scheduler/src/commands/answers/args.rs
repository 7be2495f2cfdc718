//! The arguments of questions.

use std::path::PathBuf;
use std::sync::Arc;

use kube_scheduler_answers::{
    FragmentationOptions, LabelError, PodNameError, QueueOptions, check_key, check_pair,
};
use kube_scheduler_api_types::{LabelSelector, Taint, TaintEffect};

use super::names::name_in;
use crate::commands::sources::{Output, Source};

/// The pods that a question is about.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct PodArgs {
    /// A pod of the cluster, by its name alone if it is in the namespace of --namespace; pod/NAME is that, too.
    #[arg(value_name = "[NAMESPACE/]POD", required_unless_present = "pods", value_parser = pod_name)]
    pub(super) pod: Vec<String>,

    /// Manifests of pods that need not exist, or of workloads such as a Deployment. Each pod is asked about by itself as things are
    /// now, and of replicas that are alike only the first: what-if --add places them together. May be repeated.
    #[arg(short, long, value_name = "FILE")]
    pub(super) pods: Vec<PathBuf>,
}

/// Say why a pod fits where it fits: what rejects it on each node, every plugin's score, and what evicting pods would do.
///
/// The answer is what the next attempt at the pod would find. Nothing is changed.
///
/// Exit code: 0 when the pod fits or has a node, 1 when it does not fit (also if pods would have to be evicted), 2 on an
/// error.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(super) about: PodArgs,

    /// Try which small changes of the pod or the cluster make it fit, and list those that do, smallest first.
    #[arg(long)]
    pub(super) suggest: bool,

    #[command(flatten)]
    pub(super) source: Source,

    #[command(flatten)]
    pub(super) output: Output,
}

/// Say which pods would be evicted for a pod that does not fit, on which node, and why there.
///
/// For each node that would have room after evictions: the victims, the PodDisruptionBudgets that would be violated, and what is
/// compared, in the order in which it counts. For the other nodes, why evicting pods does not help. The answer is what the next
/// attempt at the pod would do. Nothing is changed.
///
/// Exit code: 0 when the pod fits, has a node or would fit after evictions, 1 when not, 2 on an error.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PreemptArgs {
    #[command(flatten)]
    pub(super) about: PodArgs,

    #[command(flatten)]
    pub(super) source: Source,

    #[command(flatten)]
    pub(super) output: Output,
}

/// Say what would happen if the cluster were changed: where pods go, who is evicted, what stays pending and why.
///
/// The changes are applied to a copy of the cluster: nodes are added, tainted and labelled, pods deleted and evicted, nodes cordoned,
/// drained and removed, and pods added last; then the scheduler runs on it in virtual time until no pod can make progress. Only differences from what would happen anyway are given. Controllers do not run.
///
/// Exit code: 0 when every added or moved pod gets a node, 1 when not, 2 on an error.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WhatIfArgs {
    /// Manifests of nodes and pods that are added; Deployments, Jobs and their like stand for the pods that their controllers
    /// would create. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub(super) add: Vec<PathBuf>,

    /// Copies of an existing node are added: empty, and with new names. May be repeated.
    #[arg(long, value_name = "NODE=COUNT", value_parser = nodes_like)]
    pub(super) nodes_like: Vec<(Arc<str>, usize)>,

    /// A node leaves; pods of controllers come again. May be repeated.
    #[arg(long, value_name = "NODE")]
    pub(super) remove_node: Vec<String>,

    /// A node takes no new pods. May be repeated.
    #[arg(long, value_name = "NODE")]
    pub(super) cordon: Vec<String>,

    /// A node takes new pods again. May be repeated.
    #[arg(long, value_name = "NODE")]
    pub(super) uncordon: Vec<String>,

    /// A node is cordoned, and the pods of controllers on it come again elsewhere, in rounds as disruption budgets allow, after
    /// all other changes. May be repeated.
    #[arg(long, value_name = "NODE")]
    pub(super) drain: Vec<String>,

    /// Drained nodes are emptied at once, whatever disruption budgets say.
    #[arg(long, requires = "drain")]
    pub(super) disable_eviction: bool,

    /// A node gets a taint. May be repeated.
    #[arg(long, value_name = "NODE:KEY[=VALUE]:EFFECT", value_parser = taint)]
    pub(super) taint: Vec<(Arc<str>, Taint)>,

    /// A node gets a label. May be repeated.
    #[arg(long, value_name = "NODE:KEY=VALUE", value_parser = label)]
    pub(super) label: Vec<NodeLabel>,

    /// A pod is deleted. May be repeated.
    #[arg(long, value_name = "[NAMESPACE/]POD", value_parser = pod_name)]
    pub(super) delete_pod: Vec<String>,

    /// A pod is evicted, in rounds as disruption budgets allow, after all other changes; one of a controller comes again. May be
    /// repeated.
    #[arg(long, value_name = "[NAMESPACE/]POD", value_parser = pod_name)]
    pub(super) evict_pod: Vec<String>,

    /// Another KubeSchedulerConfiguration takes effect, such as one with other weights; pods that run stay where they are. The
    /// answer is given here.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["live", "server"])]
    pub(super) with_config: Option<PathBuf>,

    #[command(flatten)]
    pub(super) source: Source,

    #[command(flatten)]
    pub(super) output: Output,
}

/// Say where the pods of nodes would go if the nodes were drained, and which of them would find no place.
///
/// The nodes are drained together, in rounds: in each as many pods are evicted as PodDisruptionBudgets allow, and pods that have
/// found a place count as healthy in the next one. Pods that no round can evict are listed as blocked. Pods of DaemonSets and
/// mirror pods stay, as with `kubectl drain --ignore-daemonsets`; pods without a controller are deleted for good, as with --force.
///
/// Exit code: 0 when every pod finds a place, 1 when one does not or is blocked, 2 on an error.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DrainArgs {
    /// The nodes.
    #[arg(value_name = "NODE", required_unless_present = "selector")]
    pub(super) nodes: Vec<String>,

    /// All nodes with these labels, such as topology.kubernetes.io/zone=a.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    pub(super) selector: Option<LabelSelector>,

    /// Delete pods instead of evicting them: all at once, whatever disruption budgets say.
    #[arg(long)]
    pub(super) disable_eviction: bool,

    #[command(flatten)]
    pub(super) source: Source,

    #[command(flatten)]
    pub(super) output: Output,
}

/// Say how many more pods of one kind fit, on which nodes, how large one may be, and why the next one does not fit.
///
/// The pods are placed by the scheduler one after the other on a copy of the cluster. No pod is evicted for them, and pods
/// that are pending now are left aside.
///
/// Exit code: 0 when as many fit as --at-least says (one, unless given), 1 when not, 2 on an error.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CapacityArgs {
    /// A manifest of one pod, or of a workload with one template, such as a Deployment.
    #[arg(short, long, value_name = "FILE")]
    pub(super) pod: PathBuf,

    /// How many have to fit.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = n_pods)]
    pub(super) at_least: usize,

    /// Where to stop counting.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = n_pods)]
    pub(super) max: usize,

    /// Say how the number of nodes that have room, and what limits the others, change as pods are added.
    #[arg(long)]
    pub(super) steps: bool,

    #[command(flatten)]
    pub(super) source: Source,

    #[command(flatten)]
    pub(super) output: Output,
}

/// Say what waits to be scheduled, in which order, and for what.
///
/// Pods are listed in the order in which they come to their turn: active ones as the QueueSort plugin has it, then those that no
/// node has room for, with the plugins that reject them and the events that may bring them back, then gated ones. To find out
/// which are which, the scheduler runs on a copy of the cluster until no pod can make progress. Nothing is changed.
///
/// Exit code: 0, or 2 on an error.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct QueueArgs {
    /// How many pods are listed, and how many groups of pods that wait for the same.
    #[arg(long, value_name = "N", default_value_t = QueueOptions::default().max_listed)]
    pub(super) limit: usize,

    #[command(flatten)]
    pub(super) source: Source,

    #[command(flatten)]
    pub(super) output: Output,
}

/// Say which share of what is free the pods that the cluster runs could not use, by resource and pool of nodes.
///
/// Each shape of pods (what they ask for, and where they may go) is tried on all nodes with the scheduler's own filters. What is
/// free on a node where a shape does not fit is of no use to it; the share is the mean over all pods that ask for the resource.
/// Pods of DaemonSets and mirror pods are left aside. Nothing is changed.
///
/// Exit code: 0, or 2 on an error.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FragmentationArgs {
    /// Tell nodes apart by the values of this label, such as node.kubernetes.io/instance-type.
    #[arg(long, value_name = "LABEL", value_parser = label_key)]
    pub(super) by: Option<String>,

    /// How many shapes are tried, the most frequent first.
    #[arg(long, value_name = "N", default_value_t = FragmentationOptions::default().max_shapes)]
    pub(super) max_shapes: usize,

    #[command(flatten)]
    pub(super) source: Source,

    #[command(flatten)]
    pub(super) output: Output,
}

/// The largest number of pods that can be asked for.
const MAX_PODS: usize = 1_000_000;

fn n_pods(text: &str) -> Result<usize, String> {
    let n = text.parse().map_err(|_| "expected a number")?;
    if (1..=MAX_PODS).contains(&n) { Ok(n) } else { Err(format!("expected 1 to {MAX_PODS}")) }
}

fn nodes_like(text: &str) -> Result<(Arc<str>, usize), String> {
    let (node, count) = text.split_once('=').ok_or("expected NODE=COUNT")?;
    let count = count.parse().map_err(|_| format!("{count:?}: expected a number"))?;
    if count == 0 { Err("expected at least one node".to_owned()) } else { Ok((node.into(), count)) }
}

fn taint(text: &str) -> Result<(Arc<str>, Taint), String> {
    const EXPECTED: &str = "expected NODE:KEY[=VALUE]:EFFECT";

    let (node, rest) = text.split_once(':').ok_or(EXPECTED)?;
    let (key_and_value, effect) = rest.rsplit_once(':').ok_or(EXPECTED)?;
    let (key, value) = key_and_value.split_once('=').unwrap_or((key_and_value, ""));
    let effect = match effect {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        other => {
            return Err(format!(
                "effect {other:?}: expected NoSchedule, PreferNoSchedule or NoExecute"
            ));
        }
    };
    if node.is_empty() || key.is_empty() {
        return Err(EXPECTED.to_owned());
    }
    check_pair(key, value).map_err(|error| error.to_string())?;
    Ok((node.into(), Taint { key: key.into(), value: value.into(), effect }))
}

/// A node, and the key and the value of a label.
type NodeLabel = (Arc<str>, Arc<str>, Arc<str>);

fn label(text: &str) -> Result<NodeLabel, String> {
    const EXPECTED: &str = "expected NODE:KEY=VALUE";

    let (node, rest) = text.split_once(':').ok_or(EXPECTED)?;
    let (key, value) = rest.split_once('=').ok_or(EXPECTED)?;
    if node.is_empty() || key.is_empty() {
        return Err(EXPECTED.to_owned());
    }
    check_pair(key, value).map_err(|error| error.to_string())?;
    Ok((node.into(), key.into(), value.into()))
}

/// The name of a pod, in whatever namespace.
fn pod_name(text: &str) -> Result<String, PodNameError> {
    name_in("any", text).map(|_| text.to_owned())
}

fn selector(text: &str) -> Result<LabelSelector, String> {
    if text.trim().is_empty() {
        return Err("expected labels, such as topology.kubernetes.io/zone=a".to_owned());
    }
    LabelSelector::parse(text).map_err(|error| error.to_string())
}

fn label_key(text: &str) -> Result<String, LabelError> {
    check_key(text).map(|()| text.to_owned())
}
