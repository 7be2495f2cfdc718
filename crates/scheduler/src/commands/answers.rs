//! `explain`, `preempt`, `what-if`, `drain`, `capacity`, `queue` and `fragmentation`: questions that the scheduler answers about itself.
//!
//! Exit codes: 0 when everything that is asked about fits, 1 when not, 2 on an error or wrong usage.

mod args;
mod live;
mod names;
mod replicas;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use kube_scheduler_answers::{
    Capacity, CapacityOptions, Change, ExplainOptions, Explanation, Format, Fragmentation,
    FragmentationOptions, Interrupt, Preemption, QuestionLimits, Queue, QueueOptions, Subject,
    Verdict, WhatIf, capacity, explain, fragmentation, preemption, queue, render, what_if_under,
};
use kube_scheduler_api_types::LabelSelector;
use kube_scheduler_runtime::Registry;
use serde::Serialize;

pub(crate) use self::args::{
    CapacityArgs, DrainArgs, ExplainArgs, FragmentationArgs, PreemptArgs, QueueArgs, WhatIfArgs,
};
pub(crate) use self::names::hint_about;
use self::names::names_in;
use super::sources::{Output, QueryableCluster, print_remark};
use super::terminal::{begin_work, end_work, print_answer};
use crate::failure;

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
    let mut asked = args.source.load(&args.about.pods, registry, &mut print_remark)?.with_groups();
    let now = asked.now;
    let mut answers: Vec<Explanation> = Vec::new();
    for subject in &subjects(&asked, &args.about.pod)? {
        let answer = explain(&mut asked.engine, subject, ExplainOptions::ALL, now);
        let mut answer = answer.map_err(|refusal| asked.refused(refusal))?;
        if let Some(pod) = subject.pod_in(&asked.engine).filter(|_| args.suggest) {
            answer.suggest(&asked.engine, &pod, &Interrupt::default(), now);
        }
        answers.push(answer);
    }
    let version = asked.resource_version.as_deref();
    print_all(&answers, version, args.output.format, Explanation::table)?;
    Ok(answers.iter().all(|answer| matches!(answer.verdict, Verdict::Fits | Verdict::Bound)))
}

/// The pods that are asked about, by name and by manifest; of replicas that are alike only the first.
fn subjects(asked: &QueryableCluster, named: &[String]) -> Result<Vec<Subject>> {
    let named = names_in(&asked.namespace, named)?.into_iter().map(Subject::Known);
    let first = replicas::first_of_each(&asked.manifests.iter().collect::<Vec<_>>())?;
    let given = first.into_iter().filter_map(|at| asked.pods.get(at));
    let given = given.cloned().map(Subject::Manifest);
    let subjects: Vec<Subject> = named.chain(given).collect();
    if subjects.is_empty() {
        bail!(no_pod(asked.stands_for_none));
    }
    Ok(subjects)
}

/// Why manifests have no pod to ask about; `stands_for_none` if there are workloads among them.
const fn no_pod(stands_for_none: bool) -> &'static str {
    match stands_for_none {
        true => "the manifests stand for no pod (replicas 0, for example)",
        false => "there is no pod in the manifests of --pods",
    }
}

/// An answer for programs, which says from which revision it follows.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DatedAnswer<'a, A> {
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
    let dated: Vec<_> =
        answers.iter().map(|answer| DatedAnswer { answer, resource_version }).collect();
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
    let mut asked = args.source.load(&args.about.pods, registry, &mut print_remark)?.with_groups();
    let now = asked.now;
    let mut answers: Vec<Preemption> = Vec::new();
    for subject in &subjects(&asked, &args.about.pod)? {
        let answer = preemption(&mut asked.engine, subject, ExplainOptions::ALL, now);
        answers.push(answer.map_err(|refusal| asked.refused(refusal))?);
    }
    let version = asked.resource_version.as_deref();
    print_all(&answers, version, args.output.format, Preemption::table)?;
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
    check_changes(changes.is_empty() && other.is_none(), asked.stands_for_none)?;
    answer(&asked, &changes, args.output)
}

/// Refuses a question without any change, and says it if manifests stand for nothing.
fn check_changes(is_empty: bool, stands_for_none: bool) -> Result<()> {
    match (is_empty, stands_for_none) {
        (true, true) => bail!(no_pod(true)),
        (true, false) => {
            bail!("there is nothing to change: give --add, --drain or another change")
        }
        (false, true) => print_remark(format!("warning: {}", no_pod(true))),
        (false, false) => {}
    }
    Ok(())
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

/// Drains of nodes by name.
fn drain_of(disable_eviction: bool) -> impl Fn(&String) -> Change {
    let change = if disable_eviction { Change::DrainAtOnce } else { Change::Drain };
    move |node| change(node.as_str().into())
}

fn answer(asked: &QueryableCluster, changes: &[Change], output: Output) -> Result<bool> {
    let QueryableCluster { engine, other, now, resource_version, .. } = asked;
    let (other, limits) = (other.as_ref().unwrap_or(engine), QuestionLimits::default());
    let answer = what_if_under(engine, other, changes, limits, *now);
    let answer: WhatIf = answer.map_err(|refusal| asked.refused(refusal))?;
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
    let manifests: Vec<_> = asked.manifests.iter().collect();
    let template = replicas::template(&manifests, asked.stands_for_none)
        .and_then(|at| asked.pods.get(at).context("there is no pod"))
        .with_context(|| args.pod.display().to_string())?;
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
