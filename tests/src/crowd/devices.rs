//! Devices of a crowd: what drivers publish, claims that are made with pods and go with them, and what schedulers write of them.

use std::sync::Arc;

use anyhow::{Result, bail};
use kube_scheduler_api_types::Object;
use kube_scheduler_engine::Input;
use kube_scheduler_framework::{ApiError, ObjectKey, ObjectWrite};
use serde_json::{Value, json};

use super::kinds;
use crate::history::{ApiServer, Numbers};

const GROUP: &str = "resource.k8s.io/v1";
const CLAIM: &str = "ResourceClaim";
const SLICE: &str = "ResourceSlice";
const DRIVER: &str = "gpu.example.com";
const RESOURCE: &str = "example.com/gpu";

/// The devices of a crowd and who draws them.
#[derive(Debug)]
pub(super) struct Devices {
    numbers: Numbers,
    are_there: bool,
    n_made: u64,
}

/// What a write came to, and what the watch shows of it.
pub(super) struct ClaimWrite {
    pub(super) result: std::result::Result<Arc<Object>, ApiError>,
    pub(super) seen: Vec<Input>,
}

impl Devices {
    pub(super) fn new(seed: u64) -> Self {
        let mut numbers = Numbers::new(seed ^ 0xde_71ce);
        let are_there = numbers.one_in(2);
        Self { numbers, are_there, n_made: 0 }
    }

    pub(super) fn none() -> Self {
        Self { numbers: Numbers::new(0), are_there: false, n_made: 0 }
    }

    /// What happens to devices by itself: drivers publish, classes come back, claims of pods that are gone go.
    pub(super) fn step(&mut self, server: &mut ApiServer, n_nodes: u64) -> Result<Vec<Input>> {
        if !self.are_there {
            return Ok(Vec::new());
        }
        let mut inputs = self.remove_orphans(server)?;
        if server.objects_of("DeviceClass").next().is_none() {
            inputs.push(server.put_object(class(self.numbers.one_in(2)))?);
        }
        if self.numbers.one_in(4) {
            let node = kinds::node_name(self.numbers.below(n_nodes));
            let slice = self.slice(&node);
            let is_gone = self.numbers.one_in(8);
            inputs.extend(match is_gone {
                true => server.delete_object(&slice)?,
                false => Some(server.put_object(slice)?),
            });
        }
        Ok(inputs)
    }

    /// Claims that were made for pods which are gone go as well.
    fn remove_orphans(&self, server: &mut ApiServer) -> Result<Vec<Input>> {
        self.remove_claims(server, |server, uid| server.pod_of(uid).is_none())
    }

    /// Those of one pod go. What other pods have left stays until something else happens.
    pub(super) fn remove_claims_of(&self, server: &mut ApiServer, pod: &str) -> Result<Vec<Input>> {
        self.remove_claims(server, |_, uid| uid == pod)
    }

    fn remove_claims(
        &self,
        server: &mut ApiServer,
        is_owner: impl Fn(&ApiServer, &str) -> bool,
    ) -> Result<Vec<Input>> {
        if !self.are_there {
            return Ok(Vec::new());
        }
        let orphans = server.objects_of(CLAIM).filter(|claim| {
            let owner = claim["metadata"]["ownerReferences"][0]["uid"].as_str();
            owner.is_some_and(|uid| is_owner(server, uid))
        });
        let orphans: Vec<Value> = orphans.cloned().collect();
        let gone = orphans.iter().map(|claim| server.delete_object(claim));
        Ok(gone.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn slice(&mut self, node: &str) -> Value {
        let n_devices = self.numbers.below(5);
        let devices = (0..n_devices).map(|at| {
            let model = self.numbers.pick(&["large", "small"]);
            let mut device = json!({"name": format!("gpu-{at}"), "attributes": {
                "model": {"string": model}, "socket": {"int": at % 2},
            }});
            if self.numbers.one_in(8) {
                device["taints"] = json!([{"key": "broken", "effect": "NoSchedule"}]);
            }
            device
        });
        let devices: Vec<Value> = devices.collect();
        json!({
            "apiVersion": GROUP, "kind": SLICE, "metadata": {"name": node},
            "spec": {"driver": DRIVER, "nodeName": node, "devices": devices,
                     "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}},
        })
    }

    /// Has some pods want devices: the claim that is made for this one, if it uses one.
    pub(super) fn give_wish(&mut self, pod: &mut Value) -> Option<Value> {
        if !self.are_there || self.numbers.one_in(3) {
            return None;
        }
        let one = json!({"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}});
        let of_model = |model: &str, count: u64| {
            let text = format!("device.attributes[\"{DRIVER}\"].model == \"{model}\"");
            json!({"name": model, "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count,
                   "selectors": [{"cel": {"expression": text}}]})
        };
        let (template, spec) = match self.numbers.below(4) {
            0 => {
                let resources = &mut pod["spec"]["containers"][0]["resources"];
                for list in ["requests", "limits"] {
                    resources[list][RESOURCE] = "1".into();
                }
                return None;
            }
            1 => ("one", json!({"requests": [one]})),
            2 => {
                let mut two = one;
                two["exactly"]["count"] = 2.into();
                let alike = [json!({"matchAttribute": format!("{DRIVER}/socket")})];
                ("alike", json!({"requests": [two], "constraints": alike}))
            }
            _ => {
                let either = [of_model("large", 2), of_model("small", 1)];
                ("either", json!({"requests": [{"name": "r", "firstAvailable": either}]}))
            }
        };
        let metadata = &pod["metadata"];
        let name = format!("claim-of-{}", metadata["name"].as_str().unwrap_or_default());
        let claim = json!({
            "apiVersion": GROUP, "kind": CLAIM,
            "metadata": {
                "name": name, "namespace": metadata["namespace"], "uid": name,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": metadata["name"],
                                     "uid": metadata["uid"], "controller": true}],
            },
            "spec": {"devices": spec},
        });
        pod["spec"]["resourceClaims"] =
            json!([{"name": "devices", "resourceClaimTemplateName": template}]);
        pod["status"]["resourceClaimStatuses"] =
            json!([{"name": "devices", "resourceClaimName": name}]);
        Some(claim)
    }

    /// The server does what a scheduler asks for.
    pub(super) fn carry_out(
        &mut self,
        server: &mut ApiServer,
        write: &ObjectWrite,
    ) -> Result<ClaimWrite> {
        let key = write.key();
        let known = server.object(&key.kind, &key.namespace, &key.name).cloned();
        let refused = |reason: &str| ClaimWrite {
            result: Err(ApiError::new(reason, "no")),
            seen: Vec::new(),
        };
        let json = match (write, known) {
            (ObjectWrite::Create(object), _) => {
                self.n_made += 1;
                let mut json = Value::from(&*object.json);
                let prefix = json["metadata"]["generateName"].as_str().unwrap_or_default();
                let name = format!("{prefix}{}", self.n_made);
                json["metadata"]["uid"] = name.as_str().into();
                json["metadata"]["name"] = name.into();
                json
            }
            (ObjectWrite::PatchStatus { object, patch, .. }, _) if *object.kind == *"Pod" => {
                return patch_pod(server, object, patch);
            }
            (_, None) => return Ok(refused("NotFound")),
            (ObjectWrite::Get(_), Some(json)) => {
                return Ok(ClaimWrite {
                    result: Ok(Arc::new(Object::from_value(json)?)),
                    seen: Vec::new(),
                });
            }
            (ObjectWrite::Delete { object, .. }, Some(json)) => {
                let seen = server.delete_object(&json)?.into_iter().collect();
                return Ok(ClaimWrite { result: Ok(object.clone()), seen });
            }
            (ObjectWrite::Replace(object) | ObjectWrite::ReplaceStatus(object), Some(_)) => {
                return Ok(match server.replace_object(object)? {
                    Ok((seen, stored)) => ClaimWrite { result: Ok(stored), seen: vec![seen] },
                    Err(reason) => refused(reason),
                });
            }
            (ObjectWrite::PatchStatus { patch, .. }, Some(mut json)) => {
                let is_meant = |field: &str| json["metadata"][field] == patch["metadata"][field];
                if !is_meant("uid") || !is_meant("resourceVersion") {
                    return Ok(refused("Conflict"));
                }
                let deleted = patch["status"]["reservedFor"].as_array().cloned();
                if let Some(reserved) = json["status"]["reservedFor"].as_array_mut() {
                    let is_deleted =
                        |it: &Value| deleted.iter().flatten().any(|gone| gone["uid"] == it["uid"]);
                    reserved.retain(|it| !is_deleted(it));
                }
                json
            }
            (other, _) => bail!("no plugin of a crowd asks for {other:?}"),
        };
        let stored = server.put_object(json)?;
        let Input::ObjectApplied(object) = &stored else { bail!("a claim was not stored") };
        Ok(ClaimWrite { result: Ok(object.clone()), seen: vec![stored.clone()] })
    }
}

fn class(serves: bool) -> Value {
    let expression = format!("device.driver == \"{DRIVER}\"");
    let mut class = json!({
        "apiVersion": GROUP, "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    });
    if serves {
        class["spec"]["extendedResourceName"] = RESOURCE.into();
    }
    class
}

fn patch_pod(server: &mut ApiServer, pod: &ObjectKey, patch: &Value) -> Result<ClaimWrite> {
    let key = (pod.namespace.to_string(), pod.name.to_string());
    let seen = server.change_pod(&key, |pod| {
        for (field, value) in patch["status"].as_object().into_iter().flatten() {
            pod["status"][field] = value.clone();
        }
    })?;
    let result = match &seen {
        None => Err(ApiError::new("NotFound", "no")),
        Some(_) => Ok(Arc::new(Object::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": *pod.namespace, "name": *pod.name},
        }))?)),
    };
    Ok(ClaimWrite { result, seen: seen.into_iter().collect() })
}
