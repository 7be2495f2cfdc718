//! Questions to a scheduler that runs.
//!
//! Invariant: what is printed, and the exit code, are those of the same command that answers by itself, but for what only a
//! running scheduler knows.

use anyhow::{Context, Result, bail};
use kube_scheduler_answers::{Format, PodName, QuestionKind, render};
use serde_json::{Value, json};

use super::replicas;
use super::{
    CapacityArgs, DrainArgs, ExplainArgs, FragmentationArgs, PreemptArgs, QueueArgs, WhatIfArgs,
    check_changes, names_in, no_pod,
};
use crate::commands::sources::{LiveCluster, Manifests, Output};
use crate::commands::terminal::{end_work, print_answer};

/// Answers to a command's questions, in their order.
struct LiveAnswers<'a> {
    format: Format,
    live: &'a LiveCluster,
    answers: Vec<Value>,
}

impl<'a> LiveAnswers<'a> {
    const fn new(output: Output, live: &'a LiveCluster) -> Self {
        Self { format: output.format, live, answers: Vec::new() }
    }

    fn ask(&mut self, kind: QuestionKind, namespace: &str, spec: &Value) -> Result<()> {
        let rendered = match self.format {
            Format::Table => Some("table"),
            Format::Wide => Some("wide"),
            _ => None,
        };
        self.answers.push(self.live.ask(kind, namespace, spec, rendered)?);
        Ok(())
    }

    /// Prints one answer as it is, several as a list; whether all are as `fits` says.
    fn print(mut self, fits: impl Fn(&Value) -> bool) -> Result<bool> {
        let fields = self.answers.iter_mut().filter_map(Value::as_object_mut);
        let tables: String = fields
            .filter_map(|answer| answer.remove("rendered")?.as_str().map(str::to_owned))
            .collect();
        end_work();
        eprintln!("{}", self.live.answered(&self.answers));
        let text = match &self.answers[..] {
            [only] => render(only, self.format, |_| tables)?,
            all => render(&all, self.format, |_| tables)?,
        };
        print_answer(&text, self.format)?;
        Ok(self.answers.iter().all(fits))
    }
}

fn has_verdict(verdicts: &'static [&str]) -> impl Fn(&Value) -> bool {
    |answer| answer["verdict"].as_str().is_some_and(|verdict| verdicts.contains(&verdict))
}

/// The namespace that a manifest names.
fn namespace_of(manifest: &Value) -> &str {
    manifest["metadata"]["namespace"].as_str().unwrap_or("default")
}

fn pods(manifests: &[Value]) -> impl Iterator<Item = &Value> {
    of_kind(manifests, "Pod")
}

/// Refuses pod groups, which only a question about changes can have.
fn without_groups(manifests: Manifests) -> Result<Manifests> {
    if of_kind(&manifests.all, "PodGroup").next().is_some() {
        bail!(
            "a running scheduler takes pod groups in the question of what-if only: try what-if --add, or --local"
        );
    }
    Ok(manifests)
}

fn of_kind<'a>(manifests: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    manifests.iter().filter(move |manifest| manifest["kind"] == kind)
}

/// What comes with the pods of a question.
fn objects(manifests: &[Value]) -> impl Iterator<Item = &Value> {
    let own = |manifest: &&Value| {
        let kind = manifest["kind"].as_str();
        kind.is_some_and(|kind| !["Pod", "Node", "PodGroup"].contains(&kind))
    };
    manifests.iter().filter(own)
}

/// Adds objects to what is asked, if there are any: schedulers of earlier versions know none.
fn add_objects<'a>(spec: &mut Value, objects: impl Iterator<Item = &'a Value>) {
    let objects: Vec<Value> = objects.cloned().collect();
    if !objects.is_empty() {
        spec["objects"] = objects.into();
    }
}

/// Those that a question about one pod in `namespace` comes with: others do not matter to it.
fn objects_in<'a>(manifests: &'a [Value], namespace: &'a str) -> impl Iterator<Item = &'a Value> {
    objects(manifests).filter(move |object| namespace_of(object) == namespace)
}

/// Asks about pods by name and by manifest; `more` stands in each question besides.
fn about_pods(
    answered: &mut LiveAnswers<'_>,
    kind: QuestionKind,
    named: &[PodName],
    manifests: &Manifests,
    more: &Value,
) -> Result<()> {
    let all = &manifests.all;
    for name in named {
        let mut spec = more.clone();
        spec["podName"] = Value::from(&*name.name);
        add_objects(&mut spec, objects_in(all, &name.namespace));
        answered.ask(kind, &name.namespace, &spec)?;
    }
    let given: Vec<&Value> = pods(all).collect();
    for at in replicas::first_of_each(&given)? {
        let pod = given[at];
        let mut spec = more.clone();
        spec["pod"] = pod.clone();
        add_objects(&mut spec, objects_in(all, namespace_of(pod)));
        answered.ask(kind, namespace_of(pod), &spec)?;
    }
    if answered.answers.is_empty() {
        bail!(no_pod(manifests.stand_for_none));
    }
    Ok(())
}

pub(super) fn explained(args: &ExplainArgs, live: &LiveCluster) -> Result<bool> {
    let mut answered = LiveAnswers::new(args.output, live);
    let more = if args.suggest { json!({"suggest": true}) } else { json!({}) };
    let manifests = without_groups(live.manifests(&args.about.pods)?)?;
    let named = names_in(live.namespace(), &args.about.pod)?;
    about_pods(&mut answered, QuestionKind::Explanation, &named, &manifests, &more)?;
    answered.print(has_verdict(&["Fits", "Bound"]))
}

pub(super) fn preempted(args: &PreemptArgs, live: &LiveCluster) -> Result<bool> {
    let mut answered = LiveAnswers::new(args.output, live);
    let manifests = without_groups(live.manifests(&args.about.pods)?)?;
    let named = names_in(live.namespace(), &args.about.pod)?;
    about_pods(&mut answered, QuestionKind::Preemption, &named, &manifests, &json!({}))?;
    answered.print(has_verdict(&["Fits", "FitsAfterPreemption", "Bound"]))
}

pub(super) fn what_if(args: &WhatIfArgs, live: &LiveCluster) -> Result<bool> {
    let Manifests { all: manifests, stand_for_none } = live.manifests(&args.add)?;
    let mut changes: Vec<Value> = manifests
        .iter()
        .filter(|manifest| manifest["kind"] == "Node")
        .map(|node| json!({"addNode": {"node": node}}))
        .collect();
    changes.extend(
        args.nodes_like
            .iter()
            .map(|(node, count)| json!({"addNodesLike": {"name": &**node, "count": count}})),
    );
    changes.extend(args.taint.iter().map(|(node, taint)| {
        let (key, value, effect) = (&*taint.key, &*taint.value, taint.effect.as_str());
        json!({"taint": {"name": &**node, "key": key, "value": value, "effect": effect}})
    }));
    changes.extend(args.label.iter().map(
        |(node, key, value)| json!({"label": {"name": &**node, "key": &**key, "value": &**value}}),
    ));
    let deleted = names_in(live.namespace(), &args.delete_pod)?;
    let evicted = names_in(live.namespace(), &args.evict_pod)?;
    let named = |pod: &PodName| json!({"namespace": &*pod.namespace, "name": &*pod.name});
    changes.extend(deleted.iter().map(|pod| json!({"deletePod": named(pod)})));
    changes.extend(evicted.iter().map(|pod| json!({"evictPod": named(pod)})));
    changes.extend(args.cordon.iter().map(|node| json!({"cordon": {"name": node}})));
    changes.extend(args.uncordon.iter().map(|node| json!({"uncordon": {"name": node}})));
    let at_once = args.disable_eviction;
    changes.extend(
        args.drain.iter().map(|node| json!({"drain": {"name": node, "disableEviction": at_once}})),
    );
    changes.extend(args.remove_node.iter().map(|node| json!({"removeNode": {"name": node}})));
    // Before their pods.
    changes.extend(
        of_kind(&manifests, "PodGroup").map(|group| json!({"addPodGroup": {"podGroup": group}})),
    );
    changes.extend(replicas::of(pods(&manifests)).map(|added| json!({"addPods": added})));
    check_changes(changes.is_empty(), stand_for_none)?;
    // A question about pods of several namespaces is asked in the namespace of the first pod. Only readers who may list pods in
    // all namespaces may ask it.
    let named = pods(&manifests).next().map(namespace_of);
    let gone = deleted.iter().chain(&evicted);
    let named = named.or_else(|| gone.map(|pod| &*pod.namespace).next());
    let namespace = named.unwrap_or_else(|| live.namespace());
    let mut answered = LiveAnswers::new(args.output, live);
    let mut spec = json!({"changes": changes});
    add_objects(&mut spec, objects(&manifests));
    answered.ask(QuestionKind::WhatIf, namespace, &spec)?;
    answered.print(|answer| answer["fits"] == true)
}

pub(super) fn drained(args: &DrainArgs, live: &LiveCluster) -> Result<bool> {
    let nodes = args.nodes_among(|selector| live.nodes_with(selector))?;
    let spec = json!({"nodes": nodes, "disableEviction": args.disable_eviction});
    let mut answered = LiveAnswers::new(args.output, live);
    answered.ask(QuestionKind::Drain, "", &spec)?;
    answered.print(|answer| answer["fits"] == true)
}

pub(super) fn counted(args: &CapacityArgs, live: &LiveCluster) -> Result<bool> {
    let manifests = without_groups(live.manifests(std::slice::from_ref(&args.pod))?)?;
    let Manifests { all: manifests, stand_for_none } = manifests;
    let pods: Vec<&Value> = pods(&manifests).collect();
    let template = replicas::template(&pods, stand_for_none)
        .with_context(|| args.pod.display().to_string())?;
    let template = pods[template];
    let namespace = namespace_of(template);
    let max = args.max.max(args.at_least);
    let mut spec = json!({"pod": template, "max": max, "steps": args.steps});
    add_objects(&mut spec, objects_in(&manifests, namespace));
    let mut answered = LiveAnswers::new(args.output, live);
    answered.ask(QuestionKind::Capacity, namespace, &spec)?;
    let at_least = u64::try_from(args.at_least)?;
    answered.print(|answer| answer["count"].as_u64() >= Some(at_least))
}

pub(super) fn queued(args: &QueueArgs, live: &LiveCluster) -> Result<bool> {
    let mut answered = LiveAnswers::new(args.output, live);
    answered.ask(QuestionKind::Queue, live.namespace(), &json!({"limit": args.limit}))?;
    answered.print(|_| true)
}

pub(super) fn fragmented(args: &FragmentationArgs, live: &LiveCluster) -> Result<bool> {
    let spec = json!({"by": args.by, "maxShapes": args.max_shapes});
    let mut answered = LiveAnswers::new(args.output, live);
    answered.ask(QuestionKind::Fragmentation, "", &spec)?;
    answered.print(|_| true)
}
