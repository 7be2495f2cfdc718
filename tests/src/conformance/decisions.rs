//! Decisions: every node's verdict, every plugin's score, every message, through the engine as it really runs.
//!
//! Each step is judged twice: by an explanation (all verdicts and scores), and by letting the engine schedule the pod,
//! whose choice must be one of the best nodes and whose message must be the recorded one. Then the cluster is brought
//! to where the recording goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use kube_scheduler_api_types::{Node, Object, Pod, Timestamp};
use kube_scheduler_config::{FeatureGates, decode, default};
use kube_scheduler_engine::{
    AttemptExplanation, AttemptResult, Effect, Engine, EngineOptions, EvictionOutcome, Input,
};
use kube_scheduler_framework::{NominatingInfo, PostFilterOutcome, Status};
use serde_json::{Map, Value, json};

use super::{Options, Report, name_of, text};

/// How often PostFilter is asked, each time with another random number, as the recording did.
const POST_FILTER_RUNS: u64 = 16;

pub(super) fn judge(case: &Value, options: Options<'_>, report: &mut Report) {
    let steps = case["steps"].as_array().map_or(&[][..], Vec::as_slice);
    let mut replay = match Replay::new(case, options) {
        Ok(replay) => replay,
        Err(error) => {
            for at in 0..steps.len() {
                report.count(|| format!("{} step {at}", name_of(case)), Some(format!("{error:#}")));
            }
            return;
        }
    };
    for (at, step) in steps.iter().enumerate() {
        let difference = replay.step(step).unwrap_or_else(|error| Some(format!("{error:#}")));
        report.count(
            || {
                format!(
                    "{} step {at} pod {}",
                    name_of(case),
                    text(&step["pod"]["metadata"]["name"])
                )
            },
            difference,
        );
    }
}

/// An engine with the recorded cluster.
pub(super) struct Replay {
    pub(super) engine: Engine,
    pub(super) now: Timestamp,
}

impl Replay {
    pub(super) fn new(case: &Value, options: Options<'_>) -> Result<Self> {
        let engine = engine_of(case, gates(case)?, options)?;
        let now = Timestamp::parse("2026-02-01T00:00:00Z").context("start time")?;
        let mut replay = Self { engine, now };
        replay.load(&case["cluster"])?;
        Ok(replay)
    }

    fn load(&mut self, cluster: &Value) -> Result<()> {
        for (kind, objects) in cluster.as_object().into_iter().flatten() {
            for object in objects.as_array().into_iter().flatten() {
                let input = match kind.as_str() {
                    "nodes" => Input::NodeApplied(Arc::new(Node::from_value(object)?)),
                    "pods" => Input::PodApplied(Arc::new(Pod::from_value(object)?)),
                    _ => Input::ObjectApplied(Arc::new(Object::from_value(with_type(
                        kind, object,
                    )?)?)),
                };
                self.engine.handle(input, self.now);
            }
        }
        Ok(())
    }

    /// Judges one step and moves on to where the recording goes on.
    fn step(&mut self, step: &Value) -> Result<Option<String>> {
        let expect = &step["expect"];
        let pod = Arc::new(Pod::from_value(&step["pod"])?);
        let explained = self.explained(&pod, expect)?;
        let scheduled = self.schedule(&pod, expect, text(&expect["node"]));
        self.answer_effects();
        self.settle(&pod, expect)?;
        Ok(explained.or(scheduled))
    }

    /// What an explanation says differently from the recording, PostFilter included.
    pub(super) fn explained(&mut self, pod: &Arc<Pod>, expect: &Value) -> Result<Option<String>> {
        let explanation = self.explain(pod, 0)?;
        let difference = difference(&explanation, expect);
        let is_recorded = expect["postFilter"].as_array().is_some_and(|all| !all.is_empty());
        if difference.is_none()
            && explanation.gated.is_none()
            && (explanation.post_filter.is_some() || is_recorded)
        {
            return self.post_filter_difference(pod, expect);
        }
        Ok(difference)
    }

    fn explain(&mut self, pod: &Arc<Pod>, random: u64) -> Result<AttemptExplanation> {
        self.engine
            .explain(pod, random, self.now)
            .ok_or_else(|| anyhow!("no profile for scheduler name {:?}", pod.spec.scheduler_name))
    }

    /// The set of PostFilter answers over all random numbers must be the recorded set, or lie within it where it is
    /// larger than what was tried.
    fn post_filter_difference(&mut self, pod: &Arc<Pod>, expect: &Value) -> Result<Option<String>> {
        let recorded: Vec<&Value> = expect["postFilter"].as_array().into_iter().flatten().collect();
        let mut seen: Vec<Value> = Vec::new();
        for random in 0..POST_FILTER_RUNS {
            let explanation = self.explain(pod, random)?;
            let Some(outcome) = explanation.post_filter else { continue };
            let outcome = post_filter_value(&outcome);
            if !seen.contains(&outcome) {
                seen.push(outcome);
            }
        }
        let recorded: Vec<Value> = recorded.into_iter().map(sorted_victims).collect();
        if seen.is_empty() != recorded.is_empty() {
            return Ok(Some(format!("PostFilter gives {seen:?}, recorded is {recorded:?}")));
        }
        let stranger = seen.iter().find(|outcome| !recorded.contains(outcome));
        // A tie may be broken always the same way, so that not all recorded answers need to turn up.
        Ok(stranger.map(|outcome| format!("PostFilter gives {outcome}, recorded is {recorded:?}")))
    }

    /// Lets the engine schedule the pod as it would in a cluster, and place it where the recording has placed it.
    pub(super) fn schedule(
        &mut self,
        pod: &Arc<Pod>,
        expect: &Value,
        node: &str,
    ) -> Option<String> {
        self.engine.handle(Input::PodApplied(pod.clone()), self.now);
        let turn = match node {
            "" => self.engine.schedule_next(self.now),
            node => self.engine.schedule_next_onto(node, self.now),
        };
        let outcome = text(&expect["outcome"]);
        let Some(turn) = turn else {
            return (outcome != "Gated")
                .then(|| format!("the engine did not try the pod, recorded is {outcome}"));
        };
        let message = text(&expect["message"]);
        match (&turn.result, outcome) {
            (AttemptResult::Assumed(_), "Scheduled" | "BindFailed") => {
                let node = turn.chosen.clone().unwrap_or_default();
                let best: Vec<&str> =
                    expect["best"].as_array().into_iter().flatten().map(text).collect();
                let is_nominated = pod.nominated_node_name() == Some(&*node);
                (!best.contains(&&*node) && !is_nominated)
                    .then(|| format!("the engine chose {node}, best are {best:?}"))
            }
            (AttemptResult::Unschedulable(is), "Unschedulable") => {
                let is_tie = expect["postFilter"].as_array().is_some_and(|all| all.len() > 1);
                (is != message && !is_tie)
                    .then(|| format!("message is {is:?}, recorded is {message:?}"))
            }
            (AttemptResult::Error(is), "Error") => {
                (!error_messages(expect).iter().any(|right| right == comparable(is)))
                    .then(|| format!("message is {is:?}, recorded is {message:?}"))
            }
            (result, outcome) => Some(format!("the engine says {result:?}, recorded is {outcome}")),
        }
    }

    /// Bindings are written and preemptions come to their end, so that nothing is left on its way. Victims go later, and
    /// only those that were recorded. Objects are not written, as the recording stops before PreBind: what Reserve expects
    /// of them stays an expectation.
    fn answer_effects(&mut self) {
        loop {
            let effects: Vec<Effect> = self.engine.drain_effects().collect();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                if let Some(answer) = answer(&effect) {
                    self.engine.handle(answer, self.now);
                }
            }
        }
    }

    /// Puts the pod where the recording put it, and takes its victims away.
    fn settle(&mut self, pod: &Arc<Pod>, expect: &Value) -> Result<()> {
        let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
        if text(&expect["outcome"]) == "Scheduled" {
            let node: Arc<str> = text(&expect["node"]).into();
            let placed = Arc::new(pod.with_node_name(&node));
            self.engine.handle(Input::PodApplied(placed), self.now);
        } else {
            self.engine.handle(Input::PodDeleted { namespace, name }, self.now);
            self.delete_victims(expect)?;
        }
        self.engine.drain_effects().for_each(drop);
        Ok(())
    }

    /// Takes the recorded victims away, if there is no doubt about who they are.
    pub(super) fn delete_victims(&mut self, expect: &Value) -> Result<()> {
        let post_filter: Vec<&Value> =
            expect["postFilter"].as_array().into_iter().flatten().collect();
        if let [only] = post_filter[..]
            && !text(&only["nominatedNode"]).is_empty()
        {
            for victim in only["victims"].as_array().into_iter().flatten() {
                self.delete_victim(text(victim))?;
            }
        }
        Ok(())
    }

    fn delete_victim(&mut self, victim: &str) -> Result<()> {
        let found = self.engine.cluster().all_pods().map(|(pod, _)| pod.clone());
        let pod = found
            .into_iter()
            .find(|pod| *pod.name == *victim || pod.key() == victim || *pod.uid == *victim)
            .ok_or_else(|| anyhow!("the recorded victim {victim} is not in the cluster"))?;
        let input = Input::PodDeleted { namespace: pod.namespace.clone(), name: pod.name.clone() };
        self.engine.handle(input, self.now);
        Ok(())
    }
}

/// An engine of a recorded configuration.
pub(super) fn engine_of(case: &Value, gates: FeatureGates, options: Options<'_>) -> Result<Engine> {
    let source = match case.get("config") {
        Some(config) if !config.is_null() => config.to_string(),
        _ => json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}).to_string(),
    };
    let mut config = decode(&source).context("decode the configuration")?;
    default(&mut config, &gates);
    let registry = kube_scheduler_plugins_intree::registry();
    let is_about_groups =
        case["family"].as_str().is_some_and(|family| family.starts_with("podgroup-"));
    let engine_options = EngineOptions {
        uses_class_cache: options.uses_class_cache,
        // Histories of groups draw no lots, so that they can be followed.
        breaks_ties_by_name: is_about_groups,
        hurries_groups: is_about_groups,
        group_patience: None,
        gates,
        ..EngineOptions::default()
    };
    Engine::new(&config, &registry, engine_options).context("build the engine")
}

/// The gates that the recording ran with.
pub(super) fn gates(case: &Value) -> Result<FeatureGates> {
    let mut gates = FeatureGates::default();
    let wanted = case["featureGates"].as_object().into_iter().flatten();
    let wanted: BTreeMap<String, bool> =
        wanted.filter_map(|(name, value)| Some((name.clone(), value.as_bool()?))).collect();
    gates.set(&wanted).context("set the feature gates")?;
    Ok(gates)
}

/// The answer to an effect that is carried out without any trouble; `None` if none is awaited.
pub(super) fn answer(effect: &Effect) -> Option<Input> {
    match effect {
        Effect::WriteBinding { token, .. } => {
            Some(Input::BindingWritten { token: *token, result: Ok(()) })
        }
        Effect::EvictPod { token, .. } => {
            let result = Ok(EvictionOutcome::AlreadyGone);
            Some(Input::PodEvicted { token: *token, result })
        }
        Effect::ClearNomination { token, .. } => {
            Some(Input::NominationCleared { token: *token, result: Ok(()) })
        }
        _ => None,
    }
}

/// The messages that are right. Where filtering failed on several nodes, any of the errors may be met.
fn error_messages(expect: &Value) -> Vec<String> {
    let message = text(&expect["message"]).to_owned();
    let errors: Vec<String> = expect["filter"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, status)| status["code"] == "Error")
        .map(|(_, status)| {
            let reasons = status["reasons"].as_array().into_iter().flatten().map(text);
            reasons.collect::<Vec<_>>().join(", ")
        })
        .collect();
    let messages = if errors.contains(&message) { errors } else { vec![message] };
    messages.iter().map(|message| comparable(message).to_owned()).collect()
}

/// The message up to what a compiler of expressions says in its own words.
fn comparable(message: &str) -> &str {
    const OWN_WORDS: &str = "compilation failed:";
    message.find(OWN_WORDS).map_or(message, |at| &message[..at + OWN_WORDS.len()])
}

/// Recorded objects come without kind: it follows from the list they are in.
pub(super) fn with_type(list: &str, object: &Value) -> Result<Value> {
    let (api_version, kind) = match list {
        "namespaces" => ("v1", "Namespace"),
        "services" => ("v1", "Service"),
        "replicationControllers" => ("v1", "ReplicationController"),
        "replicaSets" => ("apps/v1", "ReplicaSet"),
        "statefulSets" => ("apps/v1", "StatefulSet"),
        "persistentVolumes" => ("v1", "PersistentVolume"),
        "persistentVolumeClaims" => ("v1", "PersistentVolumeClaim"),
        "storageClasses" => ("storage.k8s.io/v1", "StorageClass"),
        "csiNodes" => ("storage.k8s.io/v1", "CSINode"),
        "csiDrivers" => ("storage.k8s.io/v1", "CSIDriver"),
        "csiStorageCapacities" => ("storage.k8s.io/v1", "CSIStorageCapacity"),
        "volumeAttachments" => ("storage.k8s.io/v1", "VolumeAttachment"),
        "podDisruptionBudgets" => ("policy/v1", "PodDisruptionBudget"),
        "deviceClasses" => ("resource.k8s.io/v1", "DeviceClass"),
        "resourceSlices" => ("resource.k8s.io/v1", "ResourceSlice"),
        "resourceClaims" => ("resource.k8s.io/v1", "ResourceClaim"),
        "podGroups" => ("scheduling.k8s.io/v1alpha2", "PodGroup"),
        "deviceTaintRules" => ("resource.k8s.io/v1beta2", "DeviceTaintRule"),
        other => return Err(anyhow!("unknown list of objects {other:?}")),
    };
    let mut object = object.as_object().cloned().unwrap_or_else(Map::new);
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), kind.into());
    Ok(Value::Object(object))
}

fn status_value(status: &Status) -> Value {
    let mut reasons: Vec<&str> = status.reasons().collect();
    reasons.sort_unstable();
    json!({
        "code": status.code().as_str(),
        "plugin": status.plugin().map_or("", |plugin| plugin),
        "reasons": reasons,
    })
}

/// A recorded status with everything filled in and its reasons sorted; their order within one status is arbitrary.
fn recorded_status(status: &Value) -> Value {
    let mut reasons: Vec<&str> =
        status["reasons"].as_array().into_iter().flatten().map(text).collect();
    reasons.sort_unstable();
    json!({"code": text(&status["code"]), "plugin": text(&status["plugin"]), "reasons": reasons})
}

fn post_filter_value(outcome: &PostFilterOutcome) -> Value {
    let reasons: Vec<&str> = outcome.status.reasons().collect();
    let mut value = json!({"code": outcome.status.code().as_str()});
    if !reasons.is_empty() {
        value["reasons"] = json!(reasons);
    }
    if let Some(NominatingInfo::Override(Some(node))) = &outcome.nominating {
        value["nominatedNode"] = json!(&**node);
        let mut victims: Vec<String> =
            outcome.victims.iter().map(|pod| pod.name.to_string()).collect();
        victims.sort_unstable();
        value["victims"] = json!(victims);
    }
    value
}

fn sorted_victims(recorded: &Value) -> Value {
    let mut value = json!({"code": text(&recorded["code"])});
    if recorded["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty()) {
        value["reasons"] = recorded["reasons"].clone();
    }
    if !text(&recorded["nominatedNode"]).is_empty() {
        value["nominatedNode"] = recorded["nominatedNode"].clone();
        let mut victims: Vec<&str> =
            recorded["victims"].as_array().into_iter().flatten().map(text).collect();
        // Recorded victims may carry their namespace; names are unique within a case.
        victims =
            victims.into_iter().map(|victim| victim.rsplit('/').next().unwrap_or(victim)).collect();
        victims.sort_unstable();
        value["victims"] = json!(victims);
    }
    value
}

/// What an explanation says differently from the recording, if anything.
fn difference(explanation: &AttemptExplanation, expect: &Value) -> Option<String> {
    if let Some(recorded) = expect.get("preEnqueue").filter(|value| !value.is_null()) {
        let is = explanation.gated.as_ref().map(status_value);
        return (is.as_ref() != Some(&recorded_status(recorded)))
            .then(|| format!("PreEnqueue gives {is:?}, recorded is {recorded}"));
    }
    if let Some(gated) = &explanation.gated {
        return Some(format!("gated by {gated:?}, which is not recorded"));
    }
    let pre_filter = status_value(&explanation.pre_filter);
    let recorded = recorded_status(&expect["preFilter"]);
    if text(&expect["outcome"]) != "Error" && pre_filter != recorded {
        return Some(format!("PreFilter gives {pre_filter}, recorded is {recorded}"));
    }
    let node_names = explanation
        .node_names
        .as_ref()
        .map(|names| names.iter().map(|name| json!(&**name)).collect());
    let mut recorded_names = expect["preFilter"]["nodeNames"].as_array().cloned();
    if let Some(names) = &mut recorded_names {
        names.sort_by(|a, b| text(a).cmp(text(b)));
    }
    if node_names != recorded_names {
        return Some(format!("PreFilter leaves {node_names:?}, recorded is {recorded_names:?}"));
    }
    let rejected: BTreeMap<&str, Value> = explanation
        .nodes
        .iter()
        .filter(|node| node.is_explicit && !node.status.is_success())
        .map(|node| (&*node.name, status_value(&node.status)))
        .collect();
    let recorded: BTreeMap<&str, Value> = expect["filter"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, status)| (name.as_str(), recorded_status(status)))
        .collect();
    let is_error = text(&expect["outcome"]) == "Error";
    if is_error && !recorded.is_empty() {
        // Filtering ends with the first error, so only the nodes before it can be compared.
        let stranger = rejected.iter().find(|(name, status)| recorded.get(*name) != Some(*status));
        return stranger.map(|(name, status)| {
            format!("Filter of {name} gives {status}, recorded is {:?}", recorded.get(name))
        });
    }
    if rejected != recorded {
        return Some(first_difference("Filter", &rejected, &recorded));
    }
    choice_difference(explanation, expect)
}

/// The first way in which the nodes that pass, their scores and the best of them differ from what is recorded.
fn choice_difference(explanation: &AttemptExplanation, expect: &Value) -> Option<String> {
    let mut feasible: Vec<&str> = explanation
        .nodes
        .iter()
        .filter(|node| node.status.is_success())
        .map(|node| &*node.name)
        .collect();
    feasible.sort_unstable();
    // Where an error ended the filtering they are recorded in the order in which they were found.
    let mut recorded: Vec<&str> =
        expect["feasible"].as_array().into_iter().flatten().map(text).collect();
    recorded.sort_unstable();
    if feasible != recorded {
        return Some(format!("feasible are {feasible:?}, recorded are {recorded:?}"));
    }
    let scores: BTreeMap<&str, Value> = explanation
        .nodes
        .iter()
        .filter_map(|node| {
            let scores = node.scores.as_ref()?;
            let plugins: Map<String, Value> = scores
                .by_plugin
                .iter()
                .map(|(name, score)| (name.to_string(), json!(score)))
                .collect();
            Some((&*node.name, json!({"total": scores.total, "plugins": plugins})))
        })
        .collect();
    let recorded: BTreeMap<&str, Value> = expect["scores"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, scores)| (name.as_str(), scores.clone()))
        .collect();
    if scores != recorded {
        return Some(first_difference("Score", &scores, &recorded));
    }
    let mut best: Vec<&str> = explanation.best.iter().map(|name| &**name).collect();
    best.sort_unstable();
    let recorded: Vec<&str> = expect["best"].as_array().into_iter().flatten().map(text).collect();
    (best != recorded).then(|| format!("best are {best:?}, recorded are {recorded:?}"))
}

fn first_difference(
    what: &str,
    is: &BTreeMap<&str, Value>,
    recorded: &BTreeMap<&str, Value>,
) -> String {
    let names: BTreeSet<&str> = is.keys().chain(recorded.keys()).copied().collect();
    for name in names {
        let (is, recorded) = (is.get(name), recorded.get(name));
        if is != recorded {
            let show = |value: Option<&Value>| {
                value.map_or_else(|| "nothing".to_owned(), Value::to_string)
            };
            return format!("{what} of {name} gives {}, recorded is {}", show(is), show(recorded));
        }
    }
    format!("{what} differs")
}
