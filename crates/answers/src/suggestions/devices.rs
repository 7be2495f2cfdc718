//! Changes of a pod's claims of devices: fewer devices, or devices of more kinds.
//!
//! Only claims whose devices are still to be found are changed; those that have theirs keep them.

use std::fmt;
use std::sync::Arc;

use kube_scheduler_api_types::well_known::RESOURCE_GROUP;
use kube_scheduler_api_types::{Json, Object, Pod};
use kube_scheduler_framework::ObjectStore;
use serde_json::Value;

use super::candidates::{Candidate, percent};
use crate::format::count;
use crate::rehearsal::edited;

const KIND: &str = "ResourceClaim";
/// How many changes of claims are looked at.
const MAX_CHANGES: usize = 12;

/// A claim, by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Claim {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "claim {}/{}", self.namespace, self.name)
    }
}

/// One request of a claim, or one of its alternatives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Request {
    claim: Claim,
    at: usize,
    alternative: Option<usize>,
    /// `request` or `request/alternative`.
    name: Arc<str>,
}

impl Request {
    /// Where the request stands in a claim.
    fn of<'a>(&self, claim: &'a mut Value) -> Option<&'a mut Value> {
        let request = claim["spec"]["devices"]["requests"].get_mut(self.at)?;
        match self.alternative {
            Some(at) => request["firstAvailable"].get_mut(at),
            None => request.get_mut("exactly"),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {} of {}", self.name, self.claim)
    }
}

/// One change of a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DeviceChange {
    Fewer { request: Request, from: i64, by: i64 },
    DropSelector { request: Request, at: usize },
    DropConstraint { claim: Claim, at: usize, attribute: Arc<str> },
}

impl DeviceChange {
    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::Fewer { .. } => "LowerDeviceCount",
            Self::DropSelector { .. } => "DropDeviceSelector",
            Self::DropConstraint { .. } => "DropDeviceConstraint",
        }
    }

    pub(super) fn size(&self) -> u32 {
        match self {
            Self::Fewer { from, by, .. } => percent(*by, *from),
            Self::DropSelector { .. } | Self::DropConstraint { .. } => 40,
        }
    }

    pub(super) const fn most(&self) -> Option<i64> {
        if let Self::Fewer { by, .. } = self { Some(*by) } else { None }
    }

    pub(super) fn by(&self, amount: i64) -> Self {
        match self {
            Self::Fewer { request, from, .. } => {
                Self::Fewer { request: request.clone(), from: *from, by: amount }
            }
            other => other.clone(),
        }
    }
}

impl fmt::Display for DeviceChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fewer { request, from, by } => {
                let to = usize::try_from(from.saturating_sub(*by)).unwrap_or(0);
                write!(f, "{} instead of {from} for {request}", count(to, "device"))
            }
            Self::DropSelector { request, at } => {
                write!(f, "drop device selector {} from {request}", at + 1)
            }
            Self::DropConstraint { claim, at, attribute } => {
                write!(f, "drop device constraint {} over {attribute} from {claim}", at + 1)
            }
        }
    }
}

/// What could be changed about the claims of a pod.
pub(super) fn changes_of_devices(objects: &ObjectStore, pod: &Pod) -> Vec<Candidate> {
    let mut changes = Vec::new();
    for name in pod.claim_names() {
        let object = objects.latest(RESOURCE_GROUP, KIND, &pod.namespace, name);
        let Some(object) = object.filter(|it| it.json["status"]["allocation"].is_null()) else {
            continue;
        };
        let claim = Claim { namespace: pod.namespace.clone(), name: name.into() };
        of_claim(&claim, &object.json["spec"]["devices"], &mut changes);
    }
    changes.truncate(MAX_CHANGES);
    changes.into_iter().map(Candidate::OfDevices).collect()
}

fn of_claim(claim: &Claim, devices: &Json, changes: &mut Vec<DeviceChange>) {
    for (at, request) in list(&devices["requests"]).enumerate() {
        let name = request["name"].as_str().unwrap_or_default();
        let single = Request { claim: claim.clone(), at, alternative: None, name: name.into() };
        of_request(&single, &request["exactly"], changes);
        for (place, alternative) in list(&request["firstAvailable"]).enumerate() {
            let name = format!("{name}/{}", alternative["name"].as_str().unwrap_or_default());
            let one = Request { alternative: Some(place), name: name.into(), ..single.clone() };
            of_request(&one, alternative, changes);
        }
    }
    for (at, constraint) in list(&devices["constraints"]).enumerate() {
        let attributes = [&constraint["matchAttribute"], &constraint["distinctAttribute"]];
        let attribute = attributes.into_iter().find_map(Json::as_str).unwrap_or_default();
        let (claim, attribute) = (claim.clone(), attribute.into());
        changes.push(DeviceChange::DropConstraint { claim, at, attribute });
    }
}

fn of_request(request: &Request, json: &Json, changes: &mut Vec<DeviceChange>) {
    let selectors = list(&json["selectors"]).enumerate();
    changes.extend(
        selectors.map(|(at, _)| DeviceChange::DropSelector { request: request.clone(), at }),
    );
    let takes_all = json["allocationMode"].as_str() == Some("All");
    let count = json["count"].as_i64().filter(|count| *count > 1 && !takes_all);
    changes.extend(count.map(|from| DeviceChange::Fewer {
        request: request.clone(),
        from,
        by: from - 1,
    }));
}

/// The claim after the change; `None` if it is not there any more.
pub(super) fn of_devices(change: &DeviceChange, objects: &ObjectStore) -> Option<Object> {
    let claim = match change {
        DeviceChange::Fewer { request, .. } | DeviceChange::DropSelector { request, .. } => {
            &request.claim
        }
        DeviceChange::DropConstraint { claim, .. } => claim,
    };
    let object = objects.latest(RESOURCE_GROUP, KIND, &claim.namespace, &claim.name)?;
    edited(object, |json| match change {
        DeviceChange::Fewer { request, from, by } => {
            if let Some(request) = request.of(json) {
                request["count"] = from.saturating_sub(*by).into();
            }
        }
        DeviceChange::DropSelector { request, at } => {
            if let Some(request) = request.of(json) {
                remove(&mut request["selectors"], *at);
            }
        }
        DeviceChange::DropConstraint { at, .. } => {
            remove(&mut json["spec"]["devices"]["constraints"], *at);
        }
    })
}

fn list(json: &Json) -> impl Iterator<Item = &Json> {
    json.as_array().into_iter().flatten()
}

fn remove(list: &mut Value, at: usize) {
    if let Some(list) = list.as_array_mut().filter(|list| at < list.len()) {
        list.remove(at);
    }
}
