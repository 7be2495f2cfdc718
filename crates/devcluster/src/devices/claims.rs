//! The controller of resource claims: it generates claims for pods from their templates, takes back the reservations of pods that
//! have ended, and releases and deletes the claims that no pod needs any more.
//!
//! Invariants: a pod has at most one claim per entry of its `spec.resourceClaims`; only reservations of pods that are gone or
//! have ended are taken back; the allocation goes with the last reservation, and the finalizer that protects it goes after it.
//! A claim that was generated for a pod goes with the pod, also without a garbage collector.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{FINALIZER, owning_pod};
use crate::api::WriteOptions;
use crate::api::create::create_in;
use crate::api::delete::{DeleteOptions, delete_in};
use crate::api::update::{Part, Target, modify_in};
use crate::history::ChangeType;
use crate::kinds::{PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS};
use crate::object::{Object, at, child_mut, key_of, list_at, list_mut, meta_mut, text_at};
use crate::selectors::Selection;
use crate::status::ApiError;
use crate::store::{State, Store};
use crate::watch::{WatchEvent, Watcher};

/// Says for which entry of its pod a claim was generated.
const POD_CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";

/// Room for a generated name's base, so that the random suffix and a hyphen fit into 63 characters.
const LONGEST_BASE: usize = 57;

/// Runs until `shutdown`.
pub(crate) async fn run(store: Arc<Store>, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        let mut task = ClaimTask::new(store.clone());
        if let Err(error) = task.follow(&shutdown).await {
            // Too far behind its watches: start over from the current state.
            debug!(%error, "claim controller lost its watch");
        }
    }
}

struct ClaimTask {
    store: Arc<Store>,
    /// Which claims a pod, by its uid, owns or has reserved.
    by_pod: BTreeMap<Box<str>, BTreeSet<String>>,
    /// The other direction of `by_pod`.
    pods_of: BTreeMap<String, Vec<Box<str>>>,
    stale_pods: BTreeSet<String>,
    stale_claims: BTreeSet<String>,
    /// Pods with an entry whose template does not exist.
    waiting: BTreeSet<String>,
}

impl ClaimTask {
    fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            by_pod: BTreeMap::new(),
            pods_of: BTreeMap::new(),
            stale_pods: BTreeSet::new(),
            stale_claims: BTreeSet::new(),
            waiting: BTreeSet::new(),
        }
    }

    async fn follow(&mut self, shutdown: &CancellationToken) -> Result<(), ApiError> {
        let all = |kind| Watcher::list_and_watch(self.store.clone(), kind, Selection::all());
        let (templates, mut template_watch) = all(RESOURCE_CLAIM_TEMPLATES)?;
        // Only changes of templates matter: waiting pods may get their claims.
        drop(templates);
        let (claims, mut claim_watch) = all(RESOURCE_CLAIMS)?;
        let (pods, mut pod_watch) = all(PODS)?;
        claims.iter().for_each(|claim| self.see_claim(claim, ChangeType::Added));
        pods.iter().for_each(|pod| self.see_pod(pod, ChangeType::Added));
        loop {
            self.work();
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                events = template_watch.next() => {
                    drop(events?);
                    self.stale_pods.append(&mut self.waiting);
                }
                events = claim_watch.next() => {
                    for WatchEvent { change_type, object } in events? {
                        self.see_claim(&object, change_type);
                    }
                }
                events = pod_watch.next() => {
                    for WatchEvent { change_type, object } in events? {
                        self.see_pod(&object, change_type);
                    }
                }
            }
        }
    }

    fn see_claim(&mut self, claim: &Object, change: ChangeType) {
        let key = key_of(claim.namespace(), claim.name());
        for pod in self.pods_of.remove(&key).unwrap_or_default() {
            if let Some(claims) = self.by_pod.get_mut(&pod) {
                claims.remove(&key);
                if claims.is_empty() {
                    self.by_pod.remove(&pod);
                }
            }
        }
        let value = claim.value();
        if change == ChangeType::Deleted {
            // Its pod gets another one.
            if let Some((pod, _)) = owning_pod(&value) {
                self.stale_pods.insert(key_of(claim.namespace(), pod));
            }
            return;
        }
        let reserved = list_at(&value, &["status", "reservedFor"]).iter();
        let uids = reserved.map(|reference| text_at(reference, &["uid"]));
        let uids: Vec<Box<str>> =
            uids.chain(owning_pod(&value).map(|(_, uid)| uid)).map(Into::into).collect();
        for uid in &uids {
            self.by_pod.entry(uid.clone()).or_default().insert(key.clone());
        }
        self.pods_of.insert(key.clone(), uids);
        self.stale_claims.insert(key);
    }

    fn see_pod(&mut self, pod: &Object, change: ChangeType) {
        let key = key_of(pod.namespace(), pod.name());
        if let Some(claims) = self.by_pod.get(pod.uid()) {
            self.stale_claims.extend(claims.iter().cloned());
        }
        if change == ChangeType::Deleted {
            self.waiting.remove(&key);
        } else if has_claims(pod) {
            self.stale_pods.insert(key);
        }
    }

    /// Brings everything stale up to date, in one write.
    fn work(&mut self) {
        if self.stale_pods.is_empty() && self.stale_claims.is_empty() {
            return;
        }
        let store = self.store.clone();
        // The closure returns no error, so neither does the write.
        let _ = store.write(|state| {
            for pod in std::mem::take(&mut self.stale_pods) {
                self.waiting.remove(&pod);
                if !settle_pod(state, &pod) {
                    self.waiting.insert(pod);
                }
            }
            for claim in std::mem::take(&mut self.stale_claims) {
                settle_claim(state, &claim);
            }
            Ok(())
        });
    }
}

/// A cheap look at the text: most pods have no claims and need not be parsed.
fn has_claims(pod: &Object) -> bool {
    const FIELD: &[u8] = b"\"resourceClaims\":";
    pod.json().windows(FIELD.len()).any(|window| window == FIELD)
}

/// Whether a pod will never run (again): it has ended, or is deleted before it was bound.
fn is_done(pod: &Value) -> bool {
    matches!(text_at(pod, &["status", "phase"]), "Succeeded" | "Failed")
        || (at(pod, &["metadata", "deletionTimestamp"]).is_some()
            && text_at(pod, &["spec", "nodeName"]).is_empty())
}

/// Generates the claims that a pod lacks, and reserves claims for it that were allocated before somebody else than the scheduler
/// bound it. Returns false if a template is missing.
pub(super) fn settle_pod(state: &mut State, key: &str) -> bool {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let Some(mut pod) = state.get(PODS, namespace, name).map(|pod| pod.value()) else {
        return true;
    };
    if is_done(&pod) || at(&pod, &["metadata", "deletionTimestamp"]).is_some() {
        return true;
    }
    let (mut is_complete, mut generated) = (true, Vec::new());
    for entry in list_at(&pod, &["spec", "resourceClaims"]) {
        let Some(template) = at(entry, &["resourceClaimTemplateName"]).and_then(Value::as_str)
        else {
            reserve(state, &pod, text_at(entry, &["resourceClaimName"]));
            continue;
        };
        let entry = text_at(entry, &["name"]);
        if let Some(claim) = generated_claim(state, &pod, entry) {
            let claim = claim.name().to_owned();
            reserve(state, &pod, &claim);
            generated.push((entry.to_owned(), claim));
            continue;
        }
        let template = state.get(RESOURCE_CLAIM_TEMPLATES, namespace, template);
        let Some(template) = template.map(|template| template.value()) else {
            is_complete = false;
            continue;
        };
        let claim = claim_of(&pod, entry, &template);
        match create_in(state, RESOURCE_CLAIMS, namespace, claim, &WriteOptions::default()) {
            Ok(claim) => generated.push((entry.to_owned(), claim.name().to_owned())),
            Err(error) => debug!(%error, pod = key, entry, "no claim made"),
        }
    }
    let statuses = list_mut(child_mut(&mut pod, "status"), "resourceClaimStatuses");
    let before = statuses.clone();
    for (entry, claim) in generated {
        let status = json!({"name": entry, "resourceClaimName": claim});
        match statuses.iter_mut().find(|status| text_at(status, &["name"]) == entry) {
            Some(known) => *known = status,
            None => statuses.push(status),
        }
    }
    if *statuses != before {
        state.put(PODS, pod);
    }
    is_complete
}

/// The claim that was generated for an entry of a pod.
fn generated_claim(state: &State, pod: &Value, entry: &str) -> Option<Arc<Object>> {
    let dependents = state.dependents.of(text_at(pod, &["metadata", "uid"]));
    let mut claims =
        dependents.filter(|(kind, _)| *kind == RESOURCE_CLAIMS).filter_map(|(_, key)| {
            let (namespace, name) = key.split_once('/')?;
            state.get(RESOURCE_CLAIMS, namespace, name)
        });
    let is_for = |claim: &&Arc<Object>| {
        text_at(&claim.value(), &["metadata", "annotations", POD_CLAIM_NAME]) == entry
    };
    claims.find(is_for).cloned()
}

/// A new claim for an entry of a pod.
fn claim_of(pod: &Value, entry: &str, template: &Value) -> Value {
    let (name, uid) = (text_at(pod, &["metadata", "name"]), text_at(pod, &["metadata", "uid"]));
    let spec = at(template, &["spec", "spec"]).cloned().unwrap_or_default();
    let mut claim = json!({"metadata": {}, "spec": spec});
    let meta = meta_mut(&mut claim);
    for field in ["labels", "annotations"] {
        if let Some(value) = at(template, &["spec", "metadata", field]) {
            meta.insert(field.into(), value.clone());
        }
    }
    meta.insert("generateName".into(), base_name(name, entry).into());
    meta.insert(
        "ownerReferences".into(),
        json!([{
            "apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        }]),
    );
    let annotations = crate::object::map_mut(meta.entry("annotations").or_insert(Value::Null));
    annotations.insert(POD_CLAIM_NAME.into(), entry.into());
    claim
}

/// What a generated name begins with. Both names are shortened in proportion where they are too long together.
fn base_name(pod: &str, entry: &str) -> String {
    let whole = format!("{pod}-{entry}-");
    if whole.len() <= LONGEST_BASE {
        return whole;
    }
    let cut = |text: &str| {
        let length = text.len() * LONGEST_BASE / whole.len();
        // Names are ASCII, since they were validated.
        text.chars().take(length).collect::<String>()
    };
    format!("{}-{}", cut(pod), cut(entry))
}

/// Reserves an allocated claim for a pod that is bound already, as for one that names its node itself.
fn reserve(state: &mut State, pod: &Value, claim: &str) {
    let text = |field| text_at(pod, &["metadata", field]);
    let namespace = text("namespace");
    if text_at(pod, &["spec", "nodeName"]).is_empty() {
        return;
    }
    let Some(value) = state.get(RESOURCE_CLAIMS, namespace, claim).map(|claim| claim.value())
    else {
        return;
    };
    let reserved = list_at(&value, &["status", "reservedFor"]);
    let is_reserved = reserved.iter().any(|reference| text_at(reference, &["uid"]) == text("uid"));
    /// As many consumers as the API allows.
    const MOST_CONSUMERS: usize = 256;
    if is_reserved
        || reserved.len() >= MOST_CONSUMERS
        || at(&value, &["status", "allocation"]).is_none()
        || at(&value, &["metadata", "deletionTimestamp"]).is_some()
        || owning_pod(&value).is_some_and(|(_, uid)| uid != text("uid"))
    {
        return;
    }
    let reference = json!({"resource": "pods", "name": text("name"), "uid": text("uid")});
    change(state, namespace, claim, Part::Status, |claim| {
        list_mut(child_mut(claim, "status"), "reservedFor").push(reference);
    });
}

/// Takes back reservations, releases the allocation, and deletes the claim, as far as these steps are due.
pub(super) fn settle_claim(state: &mut State, key: &str) {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let Some(claim) = state.get(RESOURCE_CLAIMS, namespace, name) else { return };
    let (is_terminating, value) = (claim.is_terminating(), claim.value());
    let uid = claim.uid().to_owned();
    let reserved = list_at(&value, &["status", "reservedFor"]);
    let valid: Vec<Value> = reserved
        .iter()
        .filter(|reference| {
            // What other consumers than pods do is not known here.
            text_at(reference, &["resource"]) != "pods"
                || !text_at(reference, &["apiGroup"]).is_empty()
                || needs(
                    state,
                    namespace,
                    text_at(reference, &["name"]),
                    text_at(reference, &["uid"]),
                )
        })
        .cloned()
        .collect();
    let is_unused = valid.is_empty();
    let has_finalizer = list_at(&value, &["metadata", "finalizers"]).contains(&FINALIZER.into());
    let has_left = valid.len() < reserved.len();
    let releases = has_finalizer && is_unused && (has_left || is_terminating);
    if has_left || (releases && at(&value, &["status", "allocation"]).is_some()) {
        change(state, namespace, name, Part::Status, |claim| {
            let status = child_mut(claim, "status");
            if is_unused {
                status.remove("reservedFor");
            } else {
                status.insert("reservedFor".into(), valid.into());
            }
            if releases {
                status.remove("allocation");
                // What drivers have said about devices that are no longer the claim's.
                status.remove("devices");
            }
        });
    }
    if releases {
        change(state, namespace, name, Part::Main, |claim| {
            list_mut(meta_mut(claim), "finalizers").retain(|finalizer| finalizer != FINALIZER);
        });
    }
    let is_orphan = owning_pod(&value).is_some_and(|(pod, uid)| !needs(state, namespace, pod, uid));
    if is_unused && is_orphan && !is_terminating {
        let options = DeleteOptions { uid: Some(uid), ..DeleteOptions::default() };
        // Rejected only when it is gone. With the finalizer it waits for the next round.
        let _ = delete_in(state, RESOURCE_CLAIMS, namespace, name, &options);
    }
}

/// Whether a pod exists and is not done.
fn needs(state: &State, namespace: &str, name: &str, uid: &str) -> bool {
    state.get(PODS, namespace, name).is_some_and(|pod| pod.uid() == uid && !is_done(&pod.value()))
}

fn change(
    state: &mut State,
    namespace: &str,
    name: &str,
    part: Part,
    change: impl FnOnce(&mut Value),
) {
    let target = Target { kind: RESOURCE_CLAIMS, namespace, name, part };
    // Rejected only when it is gone.
    let _ = modify_in(state, target, &WriteOptions::default(), |old| {
        let mut new = old.clone();
        change(&mut new);
        Ok(new)
    });
}
