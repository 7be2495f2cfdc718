//! The controller of resource claims: it generates claims for pods and pod groups from their templates, takes back the
//! reservations of pods that have ended and of groups that are gone, and releases and deletes the claims that no pod or group needs any
//! more.
//!
//! Invariants: a pod or group has at most one claim per entry of its `spec.resourceClaims`; only reservations of pods that are gone or
//! have ended are taken back; the allocation goes with the last reservation, and the finalizer that protects it goes after it.
//! A claim that was generated goes with its pod or group, also without a garbage collector.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{FINALIZER, generated, owning_group, owning_pod};
use crate::api::WriteOptions;
use crate::api::delete::{DeleteOptions, delete_in};
use crate::api::update::{Part, Target, modify_in};
use crate::groups::group_of;
use crate::history::ChangeType;
use crate::kinds::{POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS};
use crate::object::{Object, at, child_mut, key_of, list_at, list_mut, meta_mut, text_at};
use crate::selectors::Selection;
use crate::status::ApiError;
use crate::store::{State, Store};
use crate::watch::{WatchEvent, Watcher};

/// The API group of pod groups.
const GROUP: &str = "scheduling.k8s.io";

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
    /// Which claims a pod or a group, by its uid, owns or has reserved.
    by_user: BTreeMap<Box<str>, BTreeSet<String>>,
    /// The other direction of `by_user`.
    users_of: BTreeMap<String, Vec<Box<str>>>,
    stale_pods: BTreeSet<String>,
    stale_groups: BTreeSet<String>,
    stale_claims: BTreeSet<String>,
    /// Pods with an entry whose template does not exist, and those that wait for their groups.
    waiting: BTreeSet<String>,
    /// Groups with an entry whose template does not exist.
    waiting_groups: BTreeSet<String>,
}

impl ClaimTask {
    fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            by_user: BTreeMap::new(),
            users_of: BTreeMap::new(),
            stale_pods: BTreeSet::new(),
            stale_groups: BTreeSet::new(),
            stale_claims: BTreeSet::new(),
            waiting: BTreeSet::new(),
            waiting_groups: BTreeSet::new(),
        }
    }

    async fn follow(&mut self, shutdown: &CancellationToken) -> Result<(), ApiError> {
        let all = |kind| Watcher::list_and_watch(self.store.clone(), kind, Selection::all());
        let (templates, mut template_watch) = all(RESOURCE_CLAIM_TEMPLATES)?;
        // Only changes of templates matter: pods and groups that wait may get their claims.
        drop(templates);
        let (claims, mut claim_watch) = all(RESOURCE_CLAIMS)?;
        let (groups, mut group_watch) = all(POD_GROUPS)?;
        let (pods, mut pod_watch) = all(PODS)?;
        groups.iter().for_each(|group| self.see_group(group, ChangeType::Added));
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
                    self.stale_groups.append(&mut self.waiting_groups);
                }
                events = group_watch.next() => {
                    for WatchEvent { change_type, object } in events? {
                        self.see_group(&object, change_type);
                    }
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
        for user in self.users_of.remove(&key).unwrap_or_default() {
            if let Some(claims) = self.by_user.get_mut(&user) {
                claims.remove(&key);
                if claims.is_empty() {
                    self.by_user.remove(&user);
                }
            }
        }
        let value = claim.value();
        if change == ChangeType::Deleted {
            // Its pod or group gets another one.
            if let Some((group, _)) = owning_group(&value) {
                self.stale_groups.insert(key_of(claim.namespace(), group));
            }
            if let Some((pod, _)) = owning_pod(&value) {
                self.stale_pods.insert(key_of(claim.namespace(), pod));
            }
            return;
        }
        let reserved = list_at(&value, &["status", "reservedFor"]).iter();
        let uids = reserved.map(|reference| text_at(reference, &["uid"]));
        let owner = owning_pod(&value).or_else(|| owning_group(&value));
        let uids: Vec<Box<str>> = uids.chain(owner.map(|(_, uid)| uid)).map(Into::into).collect();
        for uid in &uids {
            self.by_user.entry(uid.clone()).or_default().insert(key.clone());
        }
        self.users_of.insert(key.clone(), uids);
        self.stale_claims.insert(key);
    }

    fn see_group(&mut self, group: &Object, change: ChangeType) {
        let key = key_of(group.namespace(), group.name());
        if change == ChangeType::Deleted {
            self.waiting_groups.remove(&key);
            let claims = self.by_user.get(group.uid()).into_iter().flatten();
            self.stale_claims.extend(claims.cloned());
        } else {
            self.stale_groups.insert(key);
            // Some of them may wait for this one.
            self.stale_pods.append(&mut self.waiting);
        }
    }

    fn see_pod(&mut self, pod: &Object, change: ChangeType) {
        let key = key_of(pod.namespace(), pod.name());
        if let Some(claims) = self.by_user.get(pod.uid()) {
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
        let stale = [&self.stale_pods, &self.stale_groups, &self.stale_claims];
        if stale.iter().all(|stale| stale.is_empty()) {
            return;
        }
        let store = self.store.clone();
        // The closure returns no error, so neither does the write.
        let _ = store.write(|state| {
            for group in std::mem::take(&mut self.stale_groups) {
                self.waiting_groups.remove(&group);
                if !settle_group(state, &group) {
                    self.waiting_groups.insert(group);
                }
            }
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

/// Generates the claims that a pod lacks, and reserves claims for it that were allocated before it was bound by something other
/// than the scheduler. Returns false if a template is missing, or the claims of its group.
pub(super) fn settle_pod(state: &mut State, key: &str) -> bool {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let Some(mut pod) = state.get(PODS, namespace, name).map(|pod| pod.value()) else {
        return true;
    };
    if is_done(&pod) || at(&pod, &["metadata", "deletionTimestamp"]).is_some() {
        return true;
    }
    let group = group_of(&pod).map(|group| state.get(POD_GROUPS, namespace, group));
    let group = match group {
        // Which claims are the group's is not known yet.
        Some(None) => return false,
        Some(Some(group)) => Some(group.value()),
        None => None,
    };
    let (mut is_complete, mut generated) = (true, Vec::new());
    for entry in list_at(&pod, &["spec", "resourceClaims"]) {
        let shared = group.as_ref().filter(|group| generated::has_entry(group, entry));
        let consumer = shared.map_or_else(|| reference(&pod, None), group_reference);
        let Some(template) = at(entry, &["resourceClaimTemplateName"]).and_then(Value::as_str)
        else {
            reserve(state, &pod, text_at(entry, &["resourceClaimName"]), consumer);
            continue;
        };
        let entry = text_at(entry, &["name"]);
        let owner = if shared.is_some() { &generated::OF_GROUP } else { &generated::OF_POD };
        if let Some(claim) = owner.find(state, shared.unwrap_or(&pod), entry) {
            let claim = claim.name().to_owned();
            reserve(state, &pod, &claim, consumer);
            generated.push((entry.to_owned(), claim));
        } else if shared.is_some() {
            is_complete = false;
        } else {
            match owner.make(state, &pod, entry, template) {
                Some(claim) => generated.push((entry.to_owned(), claim)),
                None => is_complete = false,
            }
        }
    }
    if generated::note(&mut pod, generated) {
        state.put(PODS, pod);
    }
    is_complete
}

/// Generates the claims that a pod group lacks. Returns false if a template is missing.
pub(super) fn settle_group(state: &mut State, key: &str) -> bool {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let Some(mut group) = state.get(POD_GROUPS, namespace, name).map(|group| group.value()) else {
        return true;
    };
    if at(&group, &["metadata", "deletionTimestamp"]).is_some() {
        return true;
    }
    let (mut is_complete, mut generated) = (true, Vec::new());
    for entry in list_at(&group, &["spec", "resourceClaims"]) {
        let Some(template) = at(entry, &["resourceClaimTemplateName"]).and_then(Value::as_str)
        else {
            continue;
        };
        let entry = text_at(entry, &["name"]);
        let known = generated::OF_GROUP.find(state, &group, entry);
        let claim = known.map(|claim| claim.name().to_owned());
        match claim.or_else(|| generated::OF_GROUP.make(state, &group, entry, template)) {
            Some(claim) => generated.push((entry.to_owned(), claim)),
            None => is_complete = false,
        }
    }
    if generated::note(&mut group, generated) {
        state.put(POD_GROUPS, group);
    }
    is_complete
}

/// A pod as the consumer of a claim, or what stands in its place.
fn reference(object: &Value, group: Option<(&str, &str)>) -> Value {
    let text = |field| text_at(object, &["metadata", field]);
    let (api_group, resource) = group.unwrap_or(("", "pods"));
    let mut reference = json!({"resource": resource, "name": text("name"), "uid": text("uid")});
    if !api_group.is_empty() {
        reference["apiGroup"] = api_group.into();
    }
    reference
}

/// A pod group as the consumer of a claim.
fn group_reference(group: &Value) -> Value {
    reference(group, Some((GROUP, "podgroups")))
}

/// Reserves an allocated claim for a pod that is bound already, as for one that names its node itself, or for its group.
fn reserve(state: &mut State, pod: &Value, claim: &str, consumer: Value) {
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
    let uid = text_at(&consumer, &["uid"]);
    let is_reserved = reserved.iter().any(|reference| text_at(reference, &["uid"]) == uid);
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
    change(state, namespace, claim, Part::Status, |claim| {
        list_mut(child_mut(claim, "status"), "reservedFor").push(consumer);
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
            let text = |field| text_at(reference, &[field]);
            match (text("apiGroup"), text("resource")) {
                ("", "pods") => needs(state, namespace, text("name"), text("uid")),
                (GROUP, "podgroups") => exists(state, namespace, text("name"), text("uid")),
                // What consumers other than pods and groups do is not known here.
                _ => true,
            }
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
    let is_orphan = owning_pod(&value).is_some_and(|(pod, uid)| !needs(state, namespace, pod, uid))
        || owning_group(&value).is_some_and(|(group, uid)| !exists(state, namespace, group, uid));
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

/// Whether a pod group exists. It does as long as it has pods.
fn exists(state: &State, namespace: &str, name: &str, uid: &str) -> bool {
    state.get(POD_GROUPS, namespace, name).is_some_and(|group| group.uid() == uid)
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
