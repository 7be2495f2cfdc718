//! Claims that come with the pods of a question: for volumes, and for devices.
//!
//! Invariants: they are of the question's namespace; one that the cluster has counts as it is there.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::{Object, Quantity, Timestamp};
use kube_scheduler_engine::{Engine, Input};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{RequestError, in_namespace, typed, uid};
use crate::API_GROUP;
use crate::interrupt::Interrupt;

/// How many claims a question may have: each is one object more in the copy.
const MAX_CLAIMS: usize = 1_000;
const EXPECTED: &str =
    "expected a PersistentVolumeClaim of v1 or a ResourceClaim of resource.k8s.io with a name";

/// The claims of a question.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    objects: Vec<Arc<Object>>,
    /// Whether one has its volume or its devices already: these are objects of the whole cluster, as nodes are.
    pub(super) are_bound: bool,
}

/// The fields of a claim for a volume that scheduling reads.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeClaimForm {
    spec: VolumeClaimSpecForm,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeClaimSpecForm {
    #[serde(rename = "accessModes")]
    _access_modes: Option<Vec<String>>,
    #[serde(rename = "storageClassName")]
    _storage_class_name: Option<String>,
    #[serde(rename = "volumeMode")]
    _volume_mode: Option<String>,
    volume_name: Option<String>,
    #[serde(rename = "selector")]
    _selector: Option<Map<String, Value>>,
    resources: Option<AmountsForm>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AmountsForm {
    requests: Option<Map<String, Value>>,
}

/// The same of a claim for devices; what a request says is read by the plugin.
#[derive(Default, Deserialize)]
#[serde(default)]
struct DeviceClaimForm {
    #[serde(rename = "spec")]
    _spec: DeviceClaimSpecForm,
    status: Option<DeviceClaimStatusForm>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DeviceClaimSpecForm {
    #[serde(rename = "devices")]
    _devices: DevicesForm,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DevicesForm {
    #[serde(rename = "requests")]
    _requests: Option<Vec<NamedForm>>,
    #[serde(rename = "constraints")]
    _constraints: Option<Vec<Map<String, Value>>>,
}

#[derive(Deserialize)]
struct NamedForm {
    #[serde(rename = "name")]
    _name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DeviceClaimStatusForm {
    allocation: Option<Map<String, Value>>,
}

impl Claims {
    /// Reads the claims of a question in `namespace`.
    pub(super) fn read(given: Vec<Value>, namespace: &Arc<str>) -> Result<Self, RequestError> {
        if given.len() > MAX_CLAIMS {
            let problem = format!("{}: at most {MAX_CLAIMS} are allowed", given.len());
            return Err(RequestError::Field { field: "spec.claims".into(), problem });
        }
        let (mut claims, mut names) = (Self::default(), BTreeSet::new());
        for (at, claim) in given.into_iter().enumerate() {
            let at = format!("spec.claims[{at}]");
            let (claim, is_bound) = read(claim, namespace, &at)?;
            if !names.insert((claim.kind.clone(), claim.name.clone())) {
                let problem = format!("{}: is given twice", title(&claim));
                return Err(RequestError::Field { field: at.into(), problem });
            }
            claims.are_bound |= is_bound;
            claims.objects.push(Arc::new(claim));
        }
        Ok(claims)
    }

    /// Makes the claims part of the cluster. Returns warnings about those that it has already.
    pub(crate) fn add_to(
        &self,
        engine: &mut Engine,
        interrupt: &Interrupt,
        now: Timestamp,
    ) -> Vec<String> {
        let mut warnings = Vec::new();
        for claim in &self.objects {
            if interrupt.is_set() {
                break;
            }
            let Object { group, kind, namespace, name, .. } = &**claim;
            if engine.cluster().objects().get(group, kind, namespace, name).is_some() {
                warnings
                    .push(format!("{}: the cluster has one, which counts instead", title(claim)));
            } else {
                engine.handle(Input::ObjectApplied(claim.clone()), now);
            }
        }
        warnings
    }
}

/// `PersistentVolumeClaim web/data`, for messages.
fn title(claim: &Object) -> String {
    format!("{} {}", claim.kind, claim.key())
}

/// A claim, and whether it has its volume or devices already. `at` is its path, for errors.
fn read(mut claim: Value, namespace: &Arc<str>, at: &str) -> Result<(Object, bool), RequestError> {
    let refused = |problem: String| RequestError::Field { field: at.to_owned().into(), problem };
    in_namespace(
        claim.pointer("/metadata/namespace"),
        namespace,
        format!("{at}.metadata.namespace"),
    )?;
    let object = |claim: &Value| {
        Object::from_value(claim.clone()).map_err(|error| refused(error.to_string()))
    };
    let found = object(&claim)?;
    if found.name.is_empty() {
        return Err(refused(EXPECTED.to_owned()));
    }
    let named = format!("{} {namespace}/{}", found.kind, found.name);
    let is_bound = match (&*found.group, &*found.kind) {
        ("", "PersistentVolumeClaim") => {
            let VolumeClaimForm { spec } = shaped(&claim, at, &named)?;
            let requests = spec.resources.and_then(|resources| resources.requests);
            for (resource, amount) in requests.into_iter().flatten() {
                if Quantity::from_json(&amount).is_err() {
                    let field = format!("{at}.spec.resources.requests.{resource}");
                    let problem = format!("{named}: {amount}: expected a quantity such as 10Gi");
                    return Err(RequestError::Field { field: field.into(), problem });
                }
            }
            spec.volume_name.is_some_and(|volume| !volume.is_empty())
        }
        ("resource.k8s.io", "ResourceClaim") => {
            let DeviceClaimForm { status, .. } = shaped(&claim, at, &named)?;
            status.is_some_and(|status| status.allocation.is_some())
        }
        _ => return Err(refused(EXPECTED.to_owned())),
    };
    if let Some(metadata) = claim.get_mut("metadata").and_then(Value::as_object_mut) {
        let own = format!("{API_GROUP}/{}/{namespace}/{}", found.kind, found.name);
        metadata.insert("namespace".to_owned(), Value::from(&**namespace));
        metadata.insert("uid".to_owned(), own.into());
        let owners = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut);
        for owner in owners.into_iter().flatten().filter_map(Value::as_object_mut) {
            // A claim that was made for a pod is for that of the question, which has a UID of its own.
            if let (Some("Pod"), Some(pod)) = (text(owner, "kind"), text(owner, "name")) {
                let pod = uid(namespace, pod);
                owner.insert("uid".to_owned(), Value::from(&*pod));
            }
        }
    }
    Ok((object(&claim)?, is_bound))
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key).and_then(Value::as_str)
}

/// The claim with its type; an error names it.
fn shaped<T: serde::de::DeserializeOwned>(
    claim: &Value,
    at: &str,
    named: &str,
) -> Result<T, RequestError> {
    typed(at, claim).map_err(|error| match error {
        RequestError::Field { field, problem } => {
            RequestError::Field { field, problem: format!("{named}: {problem}") }
        }
        other @ RequestError::Form { .. } => other,
    })
}
