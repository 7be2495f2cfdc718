//! What schedulers write of resource claims, as the server takes it, and what must hold of claims whatever happens.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use kube_scheduler_api_types::Object;
use kube_scheduler_engine::PodRef;
use kube_scheduler_framework::{EventObject, ObjectWrite};
use kube_scheduler_writes::Success;
use serde_json::{Value, json};

use super::server::{Key, Refusal, Server, WriteResult, key_of};
use crate::history::Numbers;

pub(super) const CLAIM: &str = "ResourceClaim";

/// What the class of all devices serves.
pub(super) const RESOURCE: &str = "example.com/dra";
/// What the class of fast devices serves by its name.
pub(super) const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/fast";

/// Whether device classes may serve a resource.
pub(super) fn may_be_devices(resource: &str) -> bool {
    [RESOURCE, IMPLICIT].contains(&resource)
}

/// Driver, pool and name.
pub(super) type Device = [String; 3];

/// What the simulation knows about devices.
#[derive(Debug)]
pub(super) struct Devices {
    pub(super) are_there: bool,
    pub(super) numbers: Numbers,
    pub(super) n_made: u64,
    /// All that ever were.
    pub(super) published: BTreeSet<Device>,
    /// What drivers have started to publish and still have to, in order.
    pub(super) unpublished: VecDeque<Part>,
    /// Whether device plugins serve on some nodes what device classes serve on others.
    pub(super) has_plugins: bool,
    /// Nodes that have or had a device plugin.
    pub(super) with_plugin: BTreeSet<String>,
}

/// One slice of a pool that is to be published.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) node: String,
    pub(super) key: Key,
    /// `None` for a slice that has to go.
    pub(super) slice: Option<Value>,
}

impl Devices {
    pub(super) fn new(seed: u64, are_there: bool) -> Self {
        let mut numbers = Numbers::new(seed ^ 0xde_71ce);
        let has_plugins = numbers.one_in(2);
        Self {
            are_there,
            numbers,
            n_made: 0,
            published: BTreeSet::new(),
            unpublished: VecDeque::new(),
            has_plugins,
            with_plugin: BTreeSet::new(),
        }
    }

    pub(super) fn next_uid(&mut self, prefix: &str) -> String {
        self.n_made += 1;
        format!("{prefix}-{}", self.n_made)
    }
}

impl Server {
    /// A request of a plugin about one object.
    pub(super) fn write_object(&mut self, write: &ObjectWrite) -> Result<WriteResult<Success>> {
        let key = write.key();
        let is_claim = *key.kind == *CLAIM;
        let name = (key.namespace.to_string(), key.name.to_string());
        let written = match write {
            ObjectWrite::Replace(object) if !is_claim => self.replace(object)?,
            ObjectWrite::Replace(object) => self.replace_claim(object, "metadata")?,
            ObjectWrite::ReplaceStatus(object) if is_claim => {
                self.replace_claim(object, "status")?
            }
            ObjectWrite::Create(object) if is_claim => return self.create_claim(object),
            ObjectWrite::Delete { object, .. } if is_claim => return Ok(self.delete_made(object)),
            ObjectWrite::PatchStatus { patch, .. } if is_claim => {
                self.unreserve_claim(&name, patch)?
            }
            ObjectWrite::PatchStatus { patch, .. } if *key.kind == *"Pod" => {
                return self.name_claim(&name, patch);
            }
            ObjectWrite::Get(_) if is_claim => match self.get(CLAIM, &name) {
                None => Err(Refusal::not_found(CLAIM, &name)),
                Some(json) => Ok(Arc::new(Object::from_value(json.clone())?)),
            },
            _ => bail!("no plugin of the simulation asks for {write:?}"),
        };
        Ok(written.map(Success::Stored))
    }

    /// Takes one part of a claim over, if its revision is still the one that was read.
    fn replace_claim(&mut self, object: &Object, part: &str) -> Result<WriteResult<Arc<Object>>> {
        let key = (object.namespace.to_string(), object.name.to_string());
        let Some(before) = self.get(CLAIM, &key) else {
            return Ok(Err(Refusal::not_found(CLAIM, &key)));
        };
        if before["metadata"]["resourceVersion"] != *object.resource_version {
            return Ok(Err(Refusal::conflict("the object has been modified".to_owned())));
        }
        let mut json = before.clone();
        json[part] = Value::from(&object.json[part]);
        let (old, new) = (&before["status"], &json["status"]);
        if !has_reservations(new) && new["allocation"].is_null() {
            // Given back.
        } else if new["allocation"].is_null() {
            return Ok(Err(Refusal::invalid("reservedFor: may not be set without an allocation")));
        } else if !old["allocation"].is_null() && old["allocation"] != new["allocation"] {
            return Ok(Err(Refusal::invalid("allocation: field is immutable")));
        }
        self.put_claim(json).map(Ok)
    }

    /// Takes the reservations away that the patch deletes.
    fn unreserve_claim(&mut self, key: &Key, patch: &Value) -> Result<WriteResult<Arc<Object>>> {
        let Some(before) = self.get(CLAIM, key) else {
            return Ok(Err(Refusal::not_found(CLAIM, key)));
        };
        let is_meant = |field: &str| {
            let named = &patch["metadata"][field];
            named.is_null() || before["metadata"][field] == *named
        };
        if !is_meant("uid") {
            return Ok(Err(Refusal::conflict("Precondition failed: UID".to_owned())));
        }
        if !is_meant("resourceVersion") {
            return Ok(Err(Refusal::conflict("the object has been modified".to_owned())));
        }
        let deleted =
            patch["status"]["reservedFor"].as_array().context("a patch of reservedFor")?;
        let mut json = before.clone();
        if let Some(reserved) = json["status"]["reservedFor"].as_array_mut() {
            reserved.retain(|it| !deleted.iter().any(|deleted| deleted["uid"] == it["uid"]));
        }
        self.put_claim(json).map(Ok)
    }

    /// A patch of a claim that names the revision which the claim has now; `None` if it is another claim, or none, or if the patch is
    /// about one revision only.
    pub(super) fn with_present_revision(&self, write: &ObjectWrite) -> Option<ObjectWrite> {
        let ObjectWrite::PatchStatus { object, patch, is_final: false } = write else {
            return None;
        };
        let key = (object.namespace.to_string(), object.name.to_string());
        let claim = self.get(CLAIM, &key).filter(|_| *object.kind == *CLAIM)?;
        if claim["metadata"]["uid"] != patch["metadata"]["uid"] {
            return None;
        }
        let mut patch = (**patch).clone();
        patch["metadata"]["resourceVersion"] = claim["metadata"]["resourceVersion"].clone();
        Some(ObjectWrite::PatchStatus {
            object: object.clone(),
            patch: patch.into(),
            is_final: false,
        })
    }

    /// Stores a claim. What changes nothing makes no revision.
    pub(super) fn put_claim(&mut self, json: Value) -> Result<Arc<Object>> {
        if self.get(CLAIM, &key_of(&json)) == Some(&json) {
            return Ok(Arc::new(Object::from_value(json)?));
        }
        match self.update(CLAIM, json)? {
            EventObject::Other(stored) => Ok(stored),
            EventObject::Pod(_) | EventObject::Node(_) => bail!("a claim is no pod"),
        }
    }

    /// Someone deletes a claim: it stays as long as a finalizer keeps it.
    pub(super) fn delete_claim(&mut self, key: &Key, now: &str) -> Result<()> {
        let Some(claim) = self.get(CLAIM, key) else { return Ok(()) };
        let metadata = &claim["metadata"];
        if metadata["finalizers"].as_array().is_none_or(Vec::is_empty) {
            self.delete(CLAIM, key);
        } else if metadata["deletionTimestamp"].is_null() {
            self.change(CLAIM, key, |claim| claim["metadata"]["deletionTimestamp"] = now.into())?;
        }
        Ok(())
    }

    /// No device belongs to two claims, and each of them existed once.
    pub(super) fn check_allocations(&self, published: &BTreeSet<Device>) -> Result<()> {
        let mut holders: BTreeMap<Device, &Key> = BTreeMap::new();
        for (key, claim) in self.all(CLAIM) {
            for device in held_devices(claim) {
                ensure!(
                    published.contains(&device),
                    "claim {key:?} has {device:?}, which never was"
                );
                if let Some(other) = holders.insert(device.clone(), key) {
                    bail!("device {device:?} is allocated to claim {key:?} and to {other:?}");
                }
            }
        }
        Ok(())
    }

    /// A pod that one of our schedulers has just bound has its devices there.
    pub(super) fn check_claims_of(&self, pod: &PodRef) -> Result<()> {
        let key = (pod.namespace.to_string(), pod.name.to_string());
        let Some(json) = self.get("Pod", &key) else { return Ok(()) };
        let node = json["spec"]["nodeName"].as_str().context("a node")?;
        for name in claim_names(json) {
            let name = name.with_context(|| format!("pod {pod} is bound before it has a claim"))?;
            let claim = self.get(CLAIM, &(key.0.clone(), name.clone()));
            let claim =
                claim.with_context(|| format!("pod {pod} is bound without claim {name}"))?;
            let status = &claim["status"];
            ensure!(
                !status["allocation"].is_null(),
                "pod {pod} is bound and its claim {name} has no devices"
            );
            ensure!(
                is_reserved_for(claim, &json["metadata"]["uid"]),
                "pod {pod} is bound and its claim {name} is reserved for {}",
                status["reservedFor"]
            );
            ensure!(
                admits(&status["allocation"]["nodeSelector"], node),
                "pod {pod} is bound to {node}, its claim {name} to {}",
                status["allocation"]["nodeSelector"]
            );
        }
        Ok(())
    }

    /// No claim is kept for a pod that is gone, and pods that run have theirs.
    pub(super) fn check_reservations(&self) -> Result<()> {
        for (key, claim) in self.all(CLAIM) {
            for consumer in reservations(claim) {
                ensure!(self.is_used(&key.0, consumer), "claim {key:?} is kept for {consumer}");
            }
        }
        for (key, pod) in self.all("Pod").filter(|(_, pod)| !has_ended(pod)) {
            for name in claim_names(pod).flatten().filter(|_| pod["spec"]["nodeName"].is_string()) {
                let claim = self.get(CLAIM, &(key.0.clone(), name));
                let holds = claim.is_none_or(|claim| {
                    claim["status"]["allocation"].is_null()
                        || !claim["metadata"]["deletionTimestamp"].is_null()
                        || !is_owned_by(claim, pod)
                        || is_reserved_for(claim, &pod["metadata"]["uid"])
                });
                ensure!(holds, "pod {key:?} runs without a right to its claim");
            }
        }
        Ok(())
    }

    /// Whether the pod is there that a claim is reserved for, and has not ended.
    pub(super) fn is_used(&self, namespace: &str, consumer: &Value) -> bool {
        let name = consumer["name"].as_str().unwrap_or_default();
        let pod = self.get("Pod", &(namespace.to_owned(), name.to_owned()));
        pod.is_some_and(|pod| pod["metadata"]["uid"] == consumer["uid"] && !has_ended(pod))
    }
}

pub(super) fn has_ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

pub(super) fn reservations(claim: &Value) -> impl Iterator<Item = &Value> {
    claim["status"]["reservedFor"].as_array().into_iter().flatten()
}

fn has_reservations(status: &Value) -> bool {
    status["reservedFor"].as_array().is_some_and(|reserved| !reserved.is_empty())
}

pub(super) fn is_reserved_for(claim: &Value, uid: &Value) -> bool {
    reservations(claim).any(|consumer| consumer["uid"] == *uid)
}

pub(super) fn reservation(pod: &Value) -> Value {
    let metadata = &pod["metadata"];
    json!({"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]})
}

/// The names of a pod's claims, `None` for those that are not made yet.
pub(super) fn claim_names(pod: &Value) -> impl Iterator<Item = Option<String>> {
    let entries = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
    entries.map(|entry| {
        let made = pod["status"]["resourceClaimStatuses"].as_array().into_iter().flatten();
        let mut made = made.filter(|made| made["name"] == entry["name"]);
        let name = entry["resourceClaimName"].as_str();
        let name = name.or_else(|| made.next()?["resourceClaimName"].as_str());
        name.map(str::to_owned)
    })
}

/// The devices of a claim that no other claim may have.
fn held_devices(claim: &Value) -> impl Iterator<Item = Device> {
    let results = claim["status"]["allocation"]["devices"]["results"].as_array();
    let results = results.into_iter().flatten().filter(|result| result["adminAccess"] != true);
    results.map(|result| {
        ["driver", "pool", "device"].map(|field| result[field].as_str().unwrap_or_default().into())
    })
}

/// Devices of the simulation belong to one node, which is named as a field.
pub(super) fn admits(selector: &Value, node: &str) -> bool {
    let Some(terms) = selector["nodeSelectorTerms"].as_array() else { return true };
    terms.iter().any(|term| {
        let fields = term["matchFields"].as_array().into_iter().flatten();
        fields.into_iter().all(|field| {
            field["values"].as_array().is_some_and(|values| values.iter().any(|it| it == node))
        })
    })
}

/// Frees the devices of a claim without users, and lets it be deleted.
pub(super) fn free(claim: &mut Value) {
    claim["status"] = json!({});
    claim["metadata"]["finalizers"] = json!([]);
}

/// Whether the claim is the one that was made for the pod, or one for all.
pub(super) fn is_owned_by(claim: &Value, pod: &Value) -> bool {
    let owner = &claim["metadata"]["ownerReferences"][0]["uid"];
    owner.is_null() || (*owner == pod["metadata"]["uid"] && key_of(claim).0 == key_of(pod).0)
}
