//! `explain`, `preempt`, `what-if`, `drain`, `capacity`, `queue` and `fragmentation`: questions that the scheduler answers about itself.
//!
//! Exit codes: 0 when everything that is asked about fits, 1 when not, 2 on an error or wrong usage.

mod live;
mod replicas;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use kube_scheduler_answers::{
    Capacity, CapacityOptions, Change, ExplainOptions, Explanation, Format, Fragmentation,
    FragmentationOptions, Interrupt, PodName, PodNameError, Preemption, QuestionLimits, Queue,
    QueueOptions, Subject, Verdict, WhatIf, capacity, explain, fragmentation, preemption, queue,
    render, what_if_under,
};
use kube_scheduler_api_types::validation::{label_key_messages, label_value_messages};
use kube_scheduler_api_types::{LabelSelector, Pod, Taint, TaintEffect};
use kube_scheduler_runtime::Registry;
use serde::Serialize;

use super::sources::{Asked, Output, Source, print_remark};
use super::terminal::{begin_work, end_work, print_answer};
use crate::failure;

/// The pods that a question is about.
#[derive(Clone, Debug, clap::Args)]
struct PodArgs {
    /// A pod of the cluster, by its name alone if it is in the namespace of --namespace.
    #[arg(value_name = "[NAMESPACE/]POD", required_unless_present = "pods", value_parser = pod_name)]
    pod: Vec<String>,

    /// Manifests of pods that need not exist. May be repeated.
    #[arg(short, long, value_name = "FILE")]
    pods: Vec<PathBuf>,
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
    about: PodArgs,

    /// Try which small changes of the pod or the cluster make it fit, and list those that do, smallest first.
    #[arg(long)]
    suggest: bool,

    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    output: Output,
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
    about: PodArgs,

    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    output: Output,
}

/// Say what would happen if the cluster were changed: where pods go, who is evicted, what stays pending and why.
///
/// The changes are applied to a copy of the cluster in the order of this help; then the scheduler runs on it in virtual time
/// until no pod can make progress. Only differences from what would happen anyway are given. Controllers do not run.
///
/// Exit code: 0 when every added or moved pod gets a node, 1 when not, 2 on an error.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WhatIfArgs {
    /// Manifests of nodes and pods that are added; Deployments, Jobs and their like stand for the pods that their controllers
    /// would create. May be repeated.
    #[arg(long, value_name = "FILE")]
    add: Vec<PathBuf>,

    /// Copies of an existing node are added: empty, and with new names. May be repeated.
    #[arg(long, value_name = "NODE=COUNT", value_parser = nodes_like)]
    nodes_like: Vec<(Arc<str>, usize)>,

    /// A node leaves; pods of controllers come again. May be repeated.
    #[arg(long, value_name = "NODE")]
    remove_node: Vec<String>,

    /// A node takes no new pods. May be repeated.
    #[arg(long, value_name = "NODE")]
    cordon: Vec<String>,

    /// A node takes new pods again. May be repeated.
    #[arg(long, value_name = "NODE")]
    uncordon: Vec<String>,

    /// A node is cordoned, and the pods of controllers on it come again elsewhere, in rounds as disruption budgets allow, after
    /// all other changes. May be repeated.
    #[arg(long, value_name = "NODE")]
    drain: Vec<String>,

    /// Drained nodes are emptied at once, whatever disruption budgets say.
    #[arg(long, requires = "drain")]
    disable_eviction: bool,

    /// A node gets a taint. May be repeated.
    #[arg(long, value_name = "NODE:KEY[=VALUE]:EFFECT", value_parser = taint)]
    taint: Vec<(Arc<str>, Taint)>,

    /// A node gets a label. May be repeated.
    #[arg(long, value_name = "NODE:KEY=VALUE", value_parser = label)]
    label: Vec<NodeLabel>,

    /// A pod is deleted. May be repeated.
    #[arg(long, value_name = "[NAMESPACE/]POD", value_parser = pod_name)]
    delete_pod: Vec<String>,

    /// A pod is evicted, in rounds as disruption budgets allow, after all other changes; one of a controller comes again. May be
    /// repeated.
    #[arg(long, value_name = "[NAMESPACE/]POD", value_parser = pod_name)]
    evict_pod: Vec<String>,

    /// Another KubeSchedulerConfiguration takes effect, such as one with other weights; pods that run stay where they are. The
    /// answer is given here.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["live", "server"])]
    with_config: Option<PathBuf>,

    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    output: Output,
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
    nodes: Vec<String>,

    /// All nodes with these labels, such as topology.kubernetes.io/zone=a.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    selector: Option<LabelSelector>,

    /// Delete pods instead of evicting them: all at once, whatever disruption budgets say.
    #[arg(long)]
    disable_eviction: bool,

    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    output: Output,
}

/// Say how many more pods of one kind fit, on which nodes, how large one may be, and why the next one does not fit.
///
/// The pods are placed by the scheduler one after the other on a copy of the cluster. No pod is evicted for them, and pods
/// that are pending now are left aside.
///
/// Exit code: 0 when as many fit as --at-least says (one, unless given), 1 when not, 2 on an error.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CapacityArgs {
    /// A manifest of one pod.
    #[arg(short, long, value_name = "FILE")]
    pod: PathBuf,

    /// How many have to fit.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = n_pods)]
    at_least: usize,

    /// Where to stop counting.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = n_pods)]
    max: usize,

    /// Say how the number of nodes that have room, and what limits the others, change as pods are added.
    #[arg(long)]
    steps: bool,

    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    output: Output,
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
    limit: usize,

    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    output: Output,
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
    #[arg(long, value_name = "LABEL")]
    by: Option<String>,

    /// How many shapes are tried, the most frequent first.
    #[arg(long, value_name = "N", default_value_t = FragmentationOptions::default().max_shapes)]
    max_shapes: usize,

    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    output: Output,
}

/// An exit code that tells "does not fit" from errors.
fn ended(work: impl FnOnce() -> Result<bool>) -> ExitCode {
    begin_work();
    let fits = work();
    end_work();
    match fits {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            failure::report(&error);
            ExitCode::from(2)
        }
    }
}

/// Runs `explain`.
pub(crate) fn run_explain(args: &ExplainArgs, registry: Registry) -> ExitCode {
    ended(|| explained(args, registry))
}

fn explained(args: &ExplainArgs, registry: Registry) -> Result<bool> {
    if let Some(scheduler) = args.source.running(&mut print_remark)? {
        return live::explained(args, &scheduler);
    }
    let Asked { mut engine, now, pods, namespace, resource_version, .. } =
        args.source.load(&args.about.pods, registry, &mut print_remark)?.with_groups();
    let subjects = subjects(names_in(&namespace, &args.about.pod)?, &pods)?;
    let mut answers: Vec<Explanation> = Vec::new();
    for subject in &subjects {
        let mut answer = explain(&mut engine, subject, ExplainOptions::ALL, now)?;
        if let Some(pod) = subject.pod_in(&engine).filter(|_| args.suggest) {
            answer.suggest(&engine, &pod, &Interrupt::default(), now);
        }
        answers.push(answer);
    }
    print_all(&answers, resource_version.as_deref(), args.output.format, Explanation::table)?;
    Ok(answers.iter().all(|answer| matches!(answer.verdict, Verdict::Fits | Verdict::Bound)))
}

/// Pods by name; those that name no namespace are in `namespace`.
fn names_in(namespace: &str, pods: &[String]) -> Result<Vec<PodName>> {
    pods.iter().map(|pod| Ok(PodName::parse_in(namespace, pod)?)).collect()
}

/// The name of a pod, in whatever namespace.
fn pod_name(text: &str) -> Result<String, PodNameError> {
    PodName::parse_in("any", text).map(|_| text.to_owned())
}

/// The pods that are asked about, by name and by manifest.
fn subjects(named: Vec<PodName>, given: &[Arc<Pod>]) -> Result<Vec<Subject>> {
    let named = named.into_iter().map(Subject::Known);
    let given = given.iter().cloned().map(Subject::Manifest);
    let subjects: Vec<Subject> = named.chain(given).collect();
    if subjects.is_empty() {
        bail!("there is no pod in the manifests of --pods");
    }
    Ok(subjects)
}

/// An answer for programs, which says from which revision it follows.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Dated<'a, A> {
    #[serde(flatten)]
    answer: &'a A,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<&'a str>,
}

/// Prints one answer as it is, several as a list.
fn print_all<A: Serialize>(
    answers: &[A],
    resource_version: Option<&str>,
    format: Format,
    table: fn(&A, bool) -> String,
) -> Result<()> {
    let tables = |wide| answers.iter().map(|answer| table(answer, wide)).collect();
    let dated: Vec<_> = answers.iter().map(|answer| Dated { answer, resource_version }).collect();
    let text = match &dated[..] {
        [only] => render(only, format, tables)?,
        all => render(&all, format, tables)?,
    };
    print_answer(&text, format)
}

/// Runs `preempt`.
pub(crate) fn run_preempt(args: &PreemptArgs, registry: Registry) -> ExitCode {
    ended(|| preempted(args, registry))
}

fn preempted(args: &PreemptArgs, registry: Registry) -> Result<bool> {
    if let Some(scheduler) = args.source.running(&mut print_remark)? {
        return live::preempted(args, &scheduler);
    }
    let Asked { mut engine, now, pods, namespace, resource_version, .. } =
        args.source.load(&args.about.pods, registry, &mut print_remark)?.with_groups();
    let mut answers: Vec<Preemption> = Vec::new();
    for subject in &subjects(names_in(&namespace, &args.about.pod)?, &pods)? {
        answers.push(preemption(&mut engine, subject, ExplainOptions::ALL, now)?);
    }
    print_all(&answers, resource_version.as_deref(), args.output.format, Preemption::table)?;
    let fits = |answer: &Preemption| {
        matches!(answer.verdict, Verdict::Fits | Verdict::FitsAfterPreemption | Verdict::Bound)
    };
    Ok(answers.iter().all(fits))
}

/// Runs `what-if`.
pub(crate) fn run_what_if(args: &WhatIfArgs, registry: Registry) -> ExitCode {
    ended(|| asked(args, registry))
}

fn asked(args: &WhatIfArgs, registry: Registry) -> Result<bool> {
    let other = args.with_config.as_deref();
    if other.is_none()
        && let Some(scheduler) = args.source.running(&mut print_remark)?
    {
        return live::what_if(args, &scheduler);
    }
    let asked = args.source.load_under(&args.add, other, registry, &mut print_remark)?;
    let mut changes: Vec<Change> = asked.nodes.iter().cloned().map(Change::AddNode).collect();
    let like = |(node, count): &(Arc<str>, usize)| Change::AddNodesLike {
        node: node.clone(),
        count: *count,
    };
    changes.extend(args.nodes_like.iter().map(like));
    changes.extend(
        args.taint
            .iter()
            .map(|(node, taint)| Change::Taint { node: node.clone(), taint: taint.clone() }),
    );
    changes.extend(args.label.iter().map(|(node, key, value)| Change::Label {
        node: node.clone(),
        key: key.clone(),
        value: value.clone(),
    }));
    let named = |pods| names_in(&asked.namespace, pods);
    changes.extend(named(&args.delete_pod)?.into_iter().map(Change::DeletePod));
    changes.extend(named(&args.evict_pod)?.into_iter().map(Change::EvictPod));
    changes.extend(args.cordon.iter().map(|node| Change::Cordon(node.as_str().into())));
    changes.extend(args.uncordon.iter().map(|node| Change::Uncordon(node.as_str().into())));
    changes.extend(args.drain.iter().map(drain_of(args.disable_eviction)));
    changes.extend(args.remove_node.iter().map(|node| Change::RemoveNode(node.as_str().into())));
    // Before their pods.
    changes.extend(asked.groups.iter().cloned().map(Change::AddPodGroup));
    changes.extend(asked.pods.iter().cloned().map(Change::AddPod));
    if changes.is_empty() && other.is_none() {
        bail!("there is nothing to change: give --add, --drain or another change");
    }
    answer(&asked, &changes, args.output)
}

/// Runs `drain`.
pub(crate) fn run_drain(args: &DrainArgs, registry: Registry) -> ExitCode {
    ended(|| drained(args, registry))
}

fn drained(args: &DrainArgs, registry: Registry) -> Result<bool> {
    if let Some(scheduler) = args.source.running(&mut print_remark)? {
        return live::drained(args, &scheduler);
    }
    let asked = args.source.load(&[], registry, &mut print_remark)?;
    let cluster = asked.engine.cluster();
    let nodes = args.nodes_among(|selector| {
        let nodes = cluster.live_nodes().iter().filter_map(|node| cluster.node(node));
        let nodes = nodes.filter(|node| selector.matches(&node.labels));
        Ok(nodes.map(|node| node.name.to_string()).collect())
    })?;
    let changes = Change::draining(&nodes, args.disable_eviction);
    answer(&asked, &changes, args.output)
}

impl DrainArgs {
    /// The nodes by name, and those that `with_labels` finds.
    fn nodes_among(
        &self,
        with_labels: impl FnOnce(&LabelSelector) -> Result<Vec<String>>,
    ) -> Result<Vec<String>> {
        let mut nodes = self.nodes.clone();
        if let Some(selector) = &self.selector {
            let mut found = with_labels(selector)?;
            if found.is_empty() {
                bail!("no node has the labels that --selector asks for");
            }
            found.retain(|node| !nodes.contains(node));
            found.sort_unstable();
            nodes.extend(found);
        }
        Ok(nodes)
    }
}

fn selector(text: &str) -> Result<LabelSelector, String> {
    LabelSelector::parse(text).map_err(|error| error.to_string())
}

/// Drains of nodes by name.
fn drain_of(disable_eviction: bool) -> impl Fn(&String) -> Change {
    let change = if disable_eviction { Change::DrainAtOnce } else { Change::Drain };
    move |node| change(node.as_str().into())
}

fn answer(asked: &Asked, changes: &[Change], output: Output) -> Result<bool> {
    let Asked { engine, other, now, resource_version, .. } = asked;
    let (other, limits) = (other.as_ref().unwrap_or(engine), QuestionLimits::default());
    let answer: WhatIf = what_if_under(engine, other, changes, limits, *now)?;
    let fits = answer.fits;
    print_all(&[answer], resource_version.as_deref(), output.format, WhatIf::table)?;
    Ok(fits)
}

/// Runs `capacity`.
pub(crate) fn run_capacity(args: &CapacityArgs, registry: Registry) -> ExitCode {
    ended(|| counted(args, registry))
}

fn counted(args: &CapacityArgs, registry: Registry) -> Result<bool> {
    if let Some(scheduler) = args.source.running(&mut print_remark)? {
        return live::counted(args, &scheduler);
    }
    let asked = args.source.load(std::slice::from_ref(&args.pod), registry, &mut print_remark)?;
    let asked = asked.with_groups();
    let [template] = &asked.pods[..] else {
        let n = asked.pods.len();
        return Err(anyhow!("{}: expected one pod, found {n}", args.pod.display()));
    };
    let max = args.max.max(args.at_least);
    let options = CapacityOptions {
        max,
        steps: args.steps,
        explain: ExplainOptions::ALL,
        ..CapacityOptions::default()
    };
    let answer = capacity(&asked.engine, template, options, asked.now)?;
    let version = asked.resource_version.as_deref();
    let count = answer.count;
    print_all(&[answer], version, args.output.format, Capacity::table)?;
    Ok(count >= args.at_least)
}

/// Runs `queue`.
pub(crate) fn run_queue(args: &QueueArgs, registry: Registry) -> ExitCode {
    ended(|| queued(args, registry))
}

fn queued(args: &QueueArgs, registry: Registry) -> Result<bool> {
    if let Some(scheduler) = args.source.running(&mut print_remark)? {
        return live::queued(args, &scheduler);
    }
    let asked = args.source.load(&[], registry, &mut print_remark)?;
    let options =
        QueueOptions { max_listed: args.limit, from_objects: true, ..QueueOptions::default() };
    let answer = queue(&asked.engine, options, asked.now);
    let version = asked.resource_version.as_deref();
    print_all(&[answer], version, args.output.format, Queue::table)?;
    Ok(true)
}

/// Runs `fragmentation`.
pub(crate) fn run_fragmentation(args: &FragmentationArgs, registry: Registry) -> ExitCode {
    ended(|| fragmented(args, registry))
}

fn fragmented(args: &FragmentationArgs, registry: Registry) -> Result<bool> {
    if let Some(scheduler) = args.source.running(&mut print_remark)? {
        return live::fragmented(args, &scheduler);
    }
    let asked = args.source.load(&[], registry, &mut print_remark)?;
    let options = FragmentationOptions {
        by: args.by.clone(),
        max_shapes: args.max_shapes,
        ..FragmentationOptions::default()
    };
    let answer = fragmentation(&asked.engine, &options, asked.now);
    let version = asked.resource_version.as_deref();
    print_all(&[answer], version, args.output.format, Fragmentation::table)?;
    Ok(true)
}

/// So many pods are counted at most.
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
    check_pair(key, value)?;
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
    check_pair(key, value)?;
    Ok((node.into(), key.into(), value.into()))
}

/// Whether an API server would take this as the key and the value of a label or taint.
fn check_pair(key: &str, value: &str) -> Result<(), String> {
    let problem = |text: &str, messages: Vec<String>| {
        messages.into_iter().next().map(|message| format!("{text:?}: {message}"))
    };
    let of_key = problem(key, label_key_messages(key));
    of_key.or_else(|| problem(value, label_value_messages(value))).map_or(Ok(()), Err)
}
