//! The rules of resource claims: which claims a pod or pod group gets from templates, whose reservations are taken back, and when a
//! claim is released and deleted.
//!
//! They know a cluster as a [`ClaimStore`], so that the same rules hold for the store in memory and for an API server that is
//! reached over HTTP. Invariants: a pod or group has at most one claim per entry of its `spec.resourceClaims`; only reservations of
//! pods that are gone or have ended are taken back; the allocation goes with the last reservation, and the finalizer that protects it
//! goes after it. A claim that was generated goes with its pod or group, also without a garbage collector.

use std::collections::{BTreeMap, BTreeSet};

use kube_scheduler_api_types::well_known::CLAIM_FINALIZER;
use serde_json::{Value, json};

use super::{generated, owning_group, owning_pod};
use crate::groups::group_of;
use crate::object::{at, child_mut, key_of, list_at, list_mut, meta_mut, text_at};

/// The API group of pod groups.
const GROUP: &str = "scheduling.k8s.io";

/// The kinds of objects that the rules are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimKind {
    /// `v1` Pod.
    Pod,
    /// `scheduling.k8s.io` PodGroup.
    Group,
    /// `resource.k8s.io` ResourceClaimTemplate.
    Template,
    /// `resource.k8s.io` ResourceClaim.
    Claim,
}

/// A cluster as the rules see and change it. What is changed is seen by the next question.
pub trait ClaimStore {
    /// An object, in full.
    fn get(&self, kind: ClaimKind, namespace: &str, name: &str) -> Option<Value>;

    /// The claims that the object with this UID owns.
    fn owned_claims(&self, namespace: &str, uid: &str) -> Vec<Value>;

    /// Creates a claim, which has a `generateName`, and says how it is called. `None` if that fails.
    fn create_claim(&mut self, namespace: &str, claim: Value) -> Option<String>;

    /// Replaces the status of a pod or a pod group.
    fn put_status(&mut self, kind: ClaimKind, object: Value);

    /// Changes the status of a claim, or everything else.
    fn change_claim(
        &mut self,
        namespace: &str,
        name: &str,
        is_status: bool,
        change: &mut dyn FnMut(&mut Value),
    );

    /// Deletes the claim with this UID.
    fn delete_claim(&mut self, namespace: &str, name: &str, uid: &str);
}

/// Which objects are to be looked at, going by what has changed.
#[derive(Debug, Default)]
pub struct ClaimController {
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

impl ClaimController {
    /// Notes that an object was created or changed, or is gone.
    pub fn see(&mut self, kind: ClaimKind, object: &Value, is_gone: bool) {
        match kind {
            ClaimKind::Pod => self.see_pod(object, is_gone),
            ClaimKind::Group => self.see_group(object, is_gone),
            ClaimKind::Claim => self.see_claim(object, is_gone),
            ClaimKind::Template => {
                self.stale_pods.append(&mut self.waiting);
                self.stale_groups.append(&mut self.waiting_groups);
            }
        }
    }

    fn see_claim(&mut self, claim: &Value, is_gone: bool) {
        let key = key_in(claim, "name");
        for user in self.users_of.remove(&key).unwrap_or_default() {
            if let Some(claims) = self.by_user.get_mut(&user) {
                claims.remove(&key);
                if claims.is_empty() {
                    self.by_user.remove(&user);
                }
            }
        }
        if is_gone {
            // Its pod or group gets another one.
            let namespace = text_at(claim, &["metadata", "namespace"]);
            if let Some((group, _)) = owning_group(claim) {
                self.stale_groups.insert(key_of(namespace, group));
            }
            if let Some((pod, _)) = owning_pod(claim) {
                self.stale_pods.insert(key_of(namespace, pod));
            }
            return;
        }
        let reserved = list_at(claim, &["status", "reservedFor"]).iter();
        let uids = reserved.map(|reference| text_at(reference, &["uid"]));
        let owner = owning_pod(claim).or_else(|| owning_group(claim));
        let uids: Vec<Box<str>> = uids.chain(owner.map(|(_, uid)| uid)).map(Into::into).collect();
        for uid in &uids {
            self.by_user.entry(uid.clone()).or_default().insert(key.clone());
        }
        self.users_of.insert(key.clone(), uids);
        self.stale_claims.insert(key);
    }

    fn see_group(&mut self, group: &Value, is_gone: bool) {
        let key = key_in(group, "name");
        if is_gone {
            self.waiting_groups.remove(&key);
            self.claims_are_stale(text_at(group, &["metadata", "uid"]));
        } else {
            self.stale_groups.insert(key);
            // Some of them may wait for this one.
            self.stale_pods.append(&mut self.waiting);
        }
    }

    fn see_pod(&mut self, pod: &Value, is_gone: bool) {
        let key = key_in(pod, "name");
        self.claims_are_stale(text_at(pod, &["metadata", "uid"]));
        if is_gone {
            self.waiting.remove(&key);
        } else if !list_at(pod, &["spec", "resourceClaims"]).is_empty() {
            self.stale_pods.insert(key);
        }
    }

    /// The pod or group with this UID has changed or is gone.
    pub(super) fn claims_are_stale(&mut self, uid: &str) {
        let claims = self.by_user.get(uid).into_iter().flatten();
        self.stale_claims.extend(claims.cloned());
    }

    /// Whether nothing is to be looked at.
    pub fn is_idle(&self) -> bool {
        [&self.stale_pods, &self.stale_groups, &self.stale_claims].iter().all(|all| all.is_empty())
    }

    /// Looks at everything that is to be looked at, and does what is due.
    pub fn work(&mut self, store: &mut dyn ClaimStore) {
        for group in std::mem::take(&mut self.stale_groups) {
            self.waiting_groups.remove(&group);
            if !settle_group(store, &group) {
                self.waiting_groups.insert(group);
            }
        }
        for pod in std::mem::take(&mut self.stale_pods) {
            self.waiting.remove(&pod);
            if !settle_pod(store, &pod) {
                self.waiting.insert(pod);
            }
        }
        for claim in std::mem::take(&mut self.stale_claims) {
            settle_claim(store, &claim);
        }
    }
}

fn key_in(object: &Value, field: &str) -> String {
    key_of(text_at(object, &["metadata", "namespace"]), text_at(object, &["metadata", field]))
}

/// Whether a pod will never run (again): it has ended, or is deleted before it was bound.
fn is_done(pod: &Value) -> bool {
    matches!(text_at(pod, &["status", "phase"]), "Succeeded" | "Failed")
        || (at(pod, &["metadata", "deletionTimestamp"]).is_some()
            && text_at(pod, &["spec", "nodeName"]).is_empty())
}

/// Generates the claims that a pod lacks, and reserves claims for it that were allocated before it was bound by something other
/// than the scheduler. Returns false if a template is missing, or the claims of its group.
pub(super) fn settle_pod(store: &mut dyn ClaimStore, key: &str) -> bool {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let Some(mut pod) = store.get(ClaimKind::Pod, namespace, name) else {
        return true;
    };
    if is_done(&pod) || at(&pod, &["metadata", "deletionTimestamp"]).is_some() {
        return true;
    }
    let group = group_of(&pod).map(|group| store.get(ClaimKind::Group, namespace, group));
    let group = match group {
        // Which claims are the group's is not known yet.
        Some(None) => return false,
        Some(Some(group)) => Some(group),
        None => None,
    };
    let (mut is_complete, mut generated) = (true, Vec::new());
    for entry in list_at(&pod, &["spec", "resourceClaims"]) {
        let shared = group.as_ref().filter(|group| generated::has_entry(group, entry));
        let consumer = shared.map_or_else(|| reference(&pod, None), group_reference);
        let Some(template) = at(entry, &["resourceClaimTemplateName"]).and_then(Value::as_str)
        else {
            reserve(store, &pod, text_at(entry, &["resourceClaimName"]), consumer);
            continue;
        };
        let entry = text_at(entry, &["name"]);
        let owner = if shared.is_some() { &generated::OF_GROUP } else { &generated::OF_POD };
        if let Some(claim) = owner.find(store, shared.unwrap_or(&pod), entry) {
            let claim = text_at(&claim, &["metadata", "name"]).to_owned();
            reserve(store, &pod, &claim, consumer);
            generated.push((entry.to_owned(), claim));
        } else if shared.is_some() {
            is_complete = false;
        } else {
            match owner.make(store, &pod, entry, template) {
                Some(claim) => generated.push((entry.to_owned(), claim)),
                None => is_complete = false,
            }
        }
    }
    if generated::note(&mut pod, generated) {
        store.put_status(ClaimKind::Pod, pod);
    }
    is_complete
}

/// Generates the claims that a pod group lacks. Returns false if a template is missing.
pub(super) fn settle_group(store: &mut dyn ClaimStore, key: &str) -> bool {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let Some(mut group) = store.get(ClaimKind::Group, namespace, name) else {
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
        let known = generated::OF_GROUP.find(store, &group, entry);
        let claim = known.map(|claim| text_at(&claim, &["metadata", "name"]).to_owned());
        match claim.or_else(|| generated::OF_GROUP.make(store, &group, entry, template)) {
            Some(claim) => generated.push((entry.to_owned(), claim)),
            None => is_complete = false,
        }
    }
    if generated::note(&mut group, generated) {
        store.put_status(ClaimKind::Group, group);
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
fn reserve(store: &mut dyn ClaimStore, pod: &Value, claim: &str, consumer: Value) {
    let text = |field| text_at(pod, &["metadata", field]);
    let namespace = text("namespace");
    if text_at(pod, &["spec", "nodeName"]).is_empty() {
        return;
    }
    let Some(value) = store.get(ClaimKind::Claim, namespace, claim) else { return };
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
    store.change_claim(namespace, claim, true, &mut |claim| {
        list_mut(child_mut(claim, "status"), "reservedFor").push(consumer.clone());
    });
}

/// Takes back reservations, releases the allocation, and deletes the claim, as far as these steps are due.
pub(super) fn settle_claim(store: &mut dyn ClaimStore, key: &str) {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let Some(value) = store.get(ClaimKind::Claim, namespace, name) else { return };
    let is_terminating = at(&value, &["metadata", "deletionTimestamp"]).is_some();
    let uid = text_at(&value, &["metadata", "uid"]);
    let reserved = list_at(&value, &["status", "reservedFor"]);
    let valid: Vec<Value> = reserved
        .iter()
        .filter(|reference| {
            let text = |field| text_at(reference, &[field]);
            match (text("apiGroup"), text("resource")) {
                ("", "pods") => needs(store, namespace, text("name"), text("uid")),
                (GROUP, "podgroups") => exists(store, namespace, text("name"), text("uid")),
                // What consumers other than pods and groups do is not known here.
                _ => true,
            }
        })
        .cloned()
        .collect();
    let is_unused = valid.is_empty();
    let has_finalizer =
        list_at(&value, &["metadata", "finalizers"]).contains(&CLAIM_FINALIZER.into());
    let has_left = valid.len() < reserved.len();
    let releases = has_finalizer && is_unused && (has_left || is_terminating);
    if has_left || (releases && at(&value, &["status", "allocation"]).is_some()) {
        store.change_claim(namespace, name, true, &mut |claim| {
            let status = child_mut(claim, "status");
            if is_unused {
                status.remove("reservedFor");
            } else {
                status.insert("reservedFor".into(), valid.clone().into());
            }
            if releases {
                status.remove("allocation");
                // What drivers have said about devices that are no longer the claim's.
                status.remove("devices");
            }
        });
    }
    if releases {
        store.change_claim(namespace, name, false, &mut |claim| {
            list_mut(meta_mut(claim), "finalizers")
                .retain(|finalizer| finalizer != CLAIM_FINALIZER);
        });
    }
    let is_orphan = owning_pod(&value).is_some_and(|(pod, uid)| !needs(store, namespace, pod, uid))
        || owning_group(&value).is_some_and(|(group, uid)| !exists(store, namespace, group, uid));
    if is_unused && is_orphan && !is_terminating {
        // With the finalizer it waits for the next round.
        store.delete_claim(namespace, name, uid);
    }
}

/// Whether a pod exists and is not done.
fn needs(store: &dyn ClaimStore, namespace: &str, name: &str, uid: &str) -> bool {
    store
        .get(ClaimKind::Pod, namespace, name)
        .is_some_and(|pod| text_at(&pod, &["metadata", "uid"]) == uid && !is_done(&pod))
}

/// Whether a pod group exists. It does as long as it has pods.
fn exists(store: &dyn ClaimStore, namespace: &str, name: &str, uid: &str) -> bool {
    store
        .get(ClaimKind::Group, namespace, name)
        .is_some_and(|group| text_at(&group, &["metadata", "uid"]) == uid)
}
