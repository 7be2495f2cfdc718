//! Decisions about pods with resource claims: what they get, and what is written of it.
//!
//! The engine runs its own Reserve, PreBind and Unreserve. Its writes are held until the recording has the outcome of
//! them, and go to an API server of the test's own. Time is virtual.

mod api;
mod recorded;

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Result, bail};
use kube_scheduler_api_types::{Object, Pod};
use kube_scheduler_engine::{Effect, Input, Token};
use kube_scheduler_framework::{ApiError, ObjectWrite};
use serde_json::{Map, Value, json};

use self::api::{Api, forbidden};
use self::recorded::Normal;
use super::decisions::{Replay, answer};
use super::{Options, Report, name_of, text};

const GROUP: &str = "resource.k8s.io";
const CLAIM: &str = "ResourceClaim";
const SPECIAL: &str = "<extended-resources>";

/// After this many rounds PreBind counts as hanging.
const MAX_ROUNDS: usize = 10_000;

pub(super) fn judge(case: &Value, options: Options<'_>, report: &mut Report) {
    let steps = case["steps"].as_array().map_or(&[][..], Vec::as_slice);
    // From there on the reference decides otherwise because of a defect that is not to be repeated.
    let end = case["divergesFromStep"].as_u64().and_then(|end| usize::try_from(end).ok());
    let steps = &steps[..end.unwrap_or(steps.len()).min(steps.len())];
    let mut replay = Cluster::new(case, options);
    for (at, step) in steps.iter().enumerate() {
        let difference = match &mut replay {
            Ok(replay) => replay.step(step).unwrap_or_else(|error| Some(format!("{error:#}"))),
            Err(error) => Some(format!("{error:#}")),
        };
        let pod = text(&step["pod"]["metadata"]["name"]);
        report.count(|| format!("{} step {at} pod {pod}", name_of(case)), difference);
    }
}

/// The engine and its surroundings.
struct Cluster {
    replay: Replay,
    api: Api,
    normal: Normal,
    /// Whether the recording says what claims got.
    has_allocations: bool,
}

/// How PreBind ended.
enum PreBind {
    /// The pod can be bound.
    Done(Token),
    /// It failed, and Unreserve has run.
    Failed(String),
}

impl Cluster {
    fn new(case: &Value, options: Options<'_>) -> Result<Self> {
        let replay = Replay::new(case, options)?;
        let mut api = Api::default();
        api.load(&case["cluster"])?;
        let has_allocations = text(&case["family"]) != "dra";
        Ok(Self { replay, api, normal: Normal::new(case), has_allocations })
    }

    fn step(&mut self, step: &Value) -> Result<Option<String>> {
        let expect = &step["expect"];
        self.carry_out_changes(&step["changes"])?;
        let pod = Arc::new(Pod::from_value(&step["pod"])?);
        let explained = self.replay.explained(&pod, expect)?;
        let outcome = text(&expect["outcome"]);
        let node = match outcome {
            "BindFailed" => text(&expect["best"][0]),
            _ => text(&expect["node"]),
        };
        let scheduled = self.replay.schedule(&pod, expect, node);
        let effects: Vec<Effect> = self.replay.engine.drain_effects().collect();
        let afterwards = match outcome {
            "Scheduled" | "BindFailed" if scheduled.is_none() => self.bind(step, &pod, effects)?,
            _ => {
                let afterwards = self.give_back(expect, &effects)?;
                self.forget(&pod);
                self.replay.delete_victims(expect)?;
                afterwards
            }
        };
        self.replay.engine.drain_effects().for_each(drop);
        Ok(explained.or(scheduled).or(afterwards))
    }

    fn carry_out_changes(&mut self, changes: &Value) -> Result<()> {
        for change in changes.as_array().into_iter().flatten() {
            let seen = self.api.change(change)?;
            self.handle(seen);
        }
        Ok(())
    }

    fn handle(&mut self, input: Input) {
        self.replay.engine.handle(input, self.replay.now);
    }

    fn forget(&mut self, pod: &Pod) {
        let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
        self.handle(Input::PodDeleted { namespace, name });
    }

    /// What PostFilter wants of claims: compared, and carried out where the recording did.
    fn give_back(&mut self, expect: &Value, effects: &[Effect]) -> Result<Option<String>> {
        let (mut deallocations, mut deletions, mut writes) = (Vec::new(), Vec::new(), Vec::new());
        for effect in effects {
            if let Effect::WriteObject { write, awaited_by: None, .. } = effect {
                let key = write.key();
                let name = json!(format!("{}/{}", key.namespace, key.name));
                match write {
                    ObjectWrite::Delete { .. } => deletions.push(name),
                    _ => deallocations.push(name),
                }
                writes.push(write);
            }
            if let Some(answer) = answer(effect) {
                self.handle(answer);
            }
        }
        let recorded = |field: &str| expect[field].as_array().cloned().unwrap_or_default();
        let (may_deallocate, must_delete) = (recorded("deallocations"), recorded("deletions"));
        let is_right = match &deallocations[..] {
            [] => may_deallocate.is_empty(),
            [one] => may_deallocate.contains(one),
            _ => false,
        };
        if !is_right || deletions != must_delete {
            return Ok(Some(format!(
                "PostFilter deallocates {deallocations:?} and deletes {deletions:?}, recorded are {may_deallocate:?} and {must_delete:?}"
            )));
        }
        if may_deallocate.len() + must_delete.len() == 1 {
            for write in writes {
                let answer = self.api.carry_out(write)?;
                if let Some(seen) = answer.seen {
                    self.handle(seen);
                }
            }
        }
        Ok(None)
    }

    /// From Reserve on.
    fn bind(
        &mut self,
        step: &Value,
        pod: &Arc<Pod>,
        effects: Vec<Effect>,
    ) -> Result<Option<String>> {
        let expect = &step["expect"];
        // PreBind may be over already if nothing has to be written first; nothing is in flight any more then.
        let has_failed = effects.iter().any(|effect| failure(effect).is_some());
        let mut difference = None;
        if !has_failed {
            difference = self
                .allocations_differ(&step["pod"], expect)
                .or_else(|| self.node_resources_differ(pod, expect));
        }
        self.carry_out_changes(&step["meanwhile"])?;
        self.api.pod_patch = None;
        let then = text(&step["then"]);
        if matches!(then, "bind" | "bind+unreserve") {
            self.api.fault = step["apiFault"].as_str().map(str::to_owned);
            let end = self.pre_bind(effects)?;
            self.api.fault = None;
            let bind = match &end {
                // The recording says Skip where PreBind was not called: there is nothing to see of that.
                PreBind::Done(_) if expect["bind"]["code"] == "Skip" => json!({"code": "Skip"}),
                PreBind::Done(_) => json!({"code": "Success"}),
                PreBind::Failed(text) => json!({"code": "Error", "reasons": [text]}),
            };
            difference =
                difference.or_else(|| differs("PreBind", &bind, &expect["bind"])).or_else(|| {
                    let patch = self.api.pod_patch.take().unwrap_or_default();
                    differs("the patch of the pod", &patch, &expect["podPatch"])
                });
            match end {
                PreBind::Done(token) if then == "bind+unreserve" => {
                    let error = ApiError::new("Forbidden", "refused by the test");
                    self.handle(Input::BindingWritten { token, result: Err(error) });
                    self.carry_out_rest()?;
                    self.forget(pod);
                }
                PreBind::Done(_) => {}
                PreBind::Failed(_) => self.forget(pod),
            }
        } else if then == "unreserve" {
            self.stop(pod, &effects)?;
        }
        Ok(difference.or_else(|| self.claims_differ(&step["pod"], expect)))
    }

    /// Lets PreBind run to its end.
    fn pre_bind(&mut self, mut effects: Vec<Effect>) -> Result<PreBind> {
        for _ in 0..MAX_ROUNDS {
            for effect in std::mem::take(&mut effects) {
                if let Effect::WriteBinding { token, .. } = effect {
                    return Ok(PreBind::Done(token));
                }
                if let Some(text) = failure(&effect) {
                    let text = text.to_owned();
                    self.carry_out_rest()?;
                    return Ok(PreBind::Failed(text));
                }
                self.write(&effect)?;
            }
            effects = self.replay.engine.drain_effects().collect();
            if effects.is_empty() {
                let Some(deadline) = self.replay.engine.next_deadline() else { break };
                self.replay.now = self.replay.now.max(deadline);
                self.handle(Input::TimePassed);
                effects = self.replay.engine.drain_effects().collect();
            }
        }
        bail!("PreBind comes to no end")
    }

    fn write(&mut self, effect: &Effect) -> Result<()> {
        let Effect::WriteObject { write, awaited_by, .. } = effect else { return Ok(()) };
        let earlier = self.api.pod_patch.take();
        let answer = self.api.carry_out(write)?;
        // What Unreserve sends is not recorded.
        if awaited_by.is_none() || self.api.pod_patch.is_none() {
            self.api.pod_patch = earlier;
        }
        if let Some((token, _)) = awaited_by {
            self.handle(Input::ObjectWritten { token: *token, result: answer.result });
        }
        if let Some(seen) = answer.seen {
            self.handle(seen);
        }
        Ok(())
    }

    /// Carries out what is still wanted, such as by Unreserve.
    fn carry_out_rest(&mut self) -> Result<()> {
        for _ in 0..MAX_ROUNDS {
            let effects: Vec<Effect> = self.replay.engine.drain_effects().collect();
            if effects.is_empty() {
                return Ok(());
            }
            effects.iter().try_for_each(|effect| self.write(effect))?;
        }
        bail!("writes come to no end")
    }

    /// Makes the engine give the pod up before anything is written for it.
    fn stop(&mut self, pod: &Arc<Pod>, effects: &[Effect]) -> Result<()> {
        for effect in effects {
            match effect {
                Effect::WriteBinding { token, .. } => {
                    let error = ApiError::new("Forbidden", "refused by the test");
                    self.handle(Input::BindingWritten { token: *token, result: Err(error) });
                }
                Effect::WriteObject { write, awaited_by: Some((token, _)), .. } => {
                    let result = Err(forbidden(write));
                    self.handle(Input::ObjectWritten { token: *token, result });
                }
                _ => {}
            }
        }
        self.carry_out_rest()?;
        self.forget(pod);
        self.carry_out_rest()
    }

    /// Claims that Reserve allocated against the recorded ones.
    fn allocations_differ(&mut self, pod: &Value, expect: &Value) -> Option<String> {
        if !self.has_allocations {
            return None;
        }
        let objects = self.replay.engine.cluster().objects();
        let namespace = text(&pod["metadata"]["namespace"]);
        let mut in_flight: Vec<Arc<Object>> = Vec::new();
        for name in claim_names(pod) {
            let uid = self.api.claim(namespace, name).map(|claim| text(&claim["metadata"]["uid"]));
            in_flight.extend(uid.and_then(|uid| objects.pending(GROUP, CLAIM, uid)).cloned());
        }
        let special = objects.list_pending(GROUP, CLAIM).find(|claim| {
            &*claim.name == SPECIAL
                && claim.json["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
        });
        in_flight.extend(special.cloned());
        let mut allocations = Vec::new();
        for claim in in_flight {
            let mut entry =
                self.normal.allocation(&Value::from(&claim.json["status"]["allocation"]));
            entry.insert("claim".into(), json!(*claim.name));
            if &*claim.name == SPECIAL {
                entry
                    .insert("requests".into(), (&claim.json["spec"]["devices"]["requests"]).into());
            }
            allocations.push(Value::Object(entry));
        }
        let mut recorded = expect["allocations"].clone();
        // Which container gets what is seen in the patch of the pod.
        for claim in recorded.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut)
        {
            claim.remove("mappings");
        }
        if let Some(recorded) = recorded.as_array_mut() {
            let left_out = keep_first_of_each_claim(recorded);
            left_out.iter().for_each(|allocation| self.normal.skip_shares(allocation));
        }
        keep_first_of_each_claim(&mut allocations);
        differs("Reserve", &Value::Array(allocations), &recorded)
    }

    /// What the assumed pod's claims take of its node against what is recorded.
    fn node_resources_differ(&self, pod: &Pod, expect: &Value) -> Option<String> {
        // Then the pod is no longer assumed when the recording looks.
        if expect["outcome"] == "BindFailed" {
            return None;
        }
        let assumed = self.replay.engine.cluster().pod(&pod.uid)?;
        let claims = assumed.status.node_resource_claims.iter().map(|claim| {
            let resources = claim.resources.iter();
            let resources: Map<String, Value> = resources
                .map(|(name, amount)| (name.to_string(), amount.canonical().into()))
                .collect();
            json!({
                "resourceClaimName": *claim.claim,
                "containers": claim.containers.iter().map(|name| &**name).collect::<Vec<_>>(),
                "resources": resources,
            })
        });
        let claims: Value = claims.collect();
        let recorded = match &expect["nodeAllocatable"] {
            Value::Null => json!([]),
            recorded => recorded.clone(),
        };
        differs("the claims of the assumed pod", &claims, &recorded)
    }

    /// What the API has of the claims against what it should have.
    fn claims_differ(&mut self, pod: &Value, expect: &Value) -> Option<String> {
        let namespace = text(&pod["metadata"]["namespace"]);
        for (name, recorded) in expect["claimAfter"].as_object().into_iter().flatten() {
            let is = match self.api.claim(namespace, name) {
                None => json!({"absent": true}),
                Some(claim) => {
                    let mut entry = Map::new();
                    entry.insert("finalizers".into(), claim["metadata"]["finalizers"].clone());
                    entry.insert("status".into(), self.normal.status(&claim["status"]));
                    if recorded.get("requests").is_some() {
                        let requests = claim["spec"]["devices"]["requests"].clone();
                        entry.insert("requests".into(), requests);
                    }
                    Value::Object(entry)
                }
            };
            let difference = differs(&format!("claim {name}"), &is, recorded);
            if difference.is_some() {
                return difference;
            }
        }
        None
    }
}

/// The names of the claims that a pod uses, in order.
fn claim_names(pod: &Value) -> impl Iterator<Item = &str> {
    let statuses = pod["status"]["resourceClaimStatuses"].as_array();
    let entries = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
    entries.filter_map(move |entry| {
        entry["resourceClaimName"].as_str().or_else(|| {
            let status = statuses?.iter().find(|status| status["name"] == entry["name"])?;
            status["resourceClaimName"].as_str()
        })
    })
}

/// A claim that a pod names twice is in flight once, with what it got first. Returns what it got later.
fn keep_first_of_each_claim(allocations: &mut Vec<Value>) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let is_first = |allocation: &mut Value| seen.insert(text(&allocation["claim"]).to_owned());
    let kept = allocations.extract_if(.., is_first).collect();
    std::mem::replace(allocations, kept)
}

/// Why a binding failed, if the effect reports that.
fn failure(effect: &Effect) -> Option<&str> {
    match effect {
        Effect::RecordEvent { reason, note, .. } if &**reason == "FailedScheduling" => {
            let note: &str = note;
            let text = note.strip_prefix("running PreBind plugin \"DynamicResources\": ");
            Some(text.unwrap_or(note))
        }
        _ => None,
    }
}

/// `None` if both say the same, up to what is empty.
fn differs(what: &str, is: &Value, recorded: &Value) -> Option<String> {
    let (is, recorded) = (recorded::pruned(is), recorded::pruned(recorded));
    (is != recorded).then(|| format!("{what}: {is}, recorded is {recorded}"))
}
