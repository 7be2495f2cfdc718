//! Devices, and claims for them: what the workloads about Dynamic Resource Allocation have besides nodes and pods.

use std::sync::Arc;

use anyhow::Result;
use kube_scheduler_api_types::Object;
use serde_json::{Value, json};

use crate::template::uid;
use crate::workload::{node_name, object};

const DRIVER: &str = "gpu.example.com";
const CLASS: &str = "gpu";
/// The extended resource that the class serves.
const RESOURCE: &str = "example.com/gpu";
const GROUP: &str = "resource.k8s.io/v1";

/// The devices of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Devices {
    /// This many cards of two models, on two sockets in turn.
    Cards(usize),
    /// Eight small parts and four large ones of one card, which has room for eight small ones.
    Partitions,
    /// Two cards that many may share.
    Shared,
    /// Two cards that all nodes may use, each in two halves or four quarters. What is left of a card without its first half are
    /// its last two quarters, after a half that takes the same room.
    Network,
}

/// What a pod wants of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// One device.
    One,
    /// Two devices on the same socket.
    TwoAlike,
    /// One device as an extended resource, without a claim.
    Extended,
    /// Two devices of one model, or else one of the other.
    EitherOf,
    /// A small part of a card.
    Partition,
    /// A tenth of a card's memory.
    Share,
    /// The first half of a card.
    FirstHalf,
    /// Two parts of one card.
    TwoParts,
    /// This many devices, with claims for 32 at most.
    Many(usize),
}

impl Devices {
    /// The slices of node number `at`, as they are published for the `generation`-th time.
    pub(crate) fn slices(self, at: usize, generation: usize) -> Result<Vec<Arc<Object>>> {
        let node = node_name(at);
        let of_node = json!({"nodeName": node});
        let (devices, counters) = match self {
            Self::Cards(n) => ((0..n).map(card).collect(), None),
            Self::Partitions => {
                ((0..12).map(partition).collect(), Some(json!({"memory": {"value": "80Gi"}})))
            }
            Self::Shared => ((0..2).map(shared).collect(), None),
            Self::Network => {
                let slices = [2 * at, 2 * at + 1].map(|card| network_card(card, generation));
                let slices: Result<Vec<_>> = slices.into_iter().collect();
                return Ok(slices?.into_iter().flatten().collect());
            }
        };
        Pool { name: &node, reach: &of_node, devices, counters }.slices(generation)
    }
}

/// What is published of one pool.
struct Pool<'a> {
    name: &'a str,
    /// The fields that say where the devices can be used.
    reach: &'a Value,
    devices: Vec<Value>,
    /// The counters that the devices share.
    counters: Option<Value>,
}

impl Pool<'_> {
    fn slices(self, generation: usize) -> Result<Vec<Arc<Object>>> {
        let counters = self
            .counters
            .map(|counters| json!({"sharedCounters": [{"name": "card", "counters": counters}]}));
        let n_slices = 1 + usize::from(counters.is_some());
        let slice = |number: usize, content: Value| {
            let name = format!("{}-gpu-{number}", self.name);
            let mut spec = json!({
                "driver": DRIVER,
                "pool": {"name": self.name, "generation": generation, "resourceSliceCount": n_slices},
            });
            for fields in [self.reach, &content] {
                if let (Some(spec), Value::Object(fields)) = (spec.as_object_mut(), fields) {
                    spec.extend(fields.clone());
                }
            }
            object(json!({
                "apiVersion": GROUP, "kind": "ResourceSlice",
                "metadata": {
                    "name": name, "uid": uid(&name), "resourceVersion": generation.to_string(),
                },
                "spec": spec,
            }))
        };
        let contents = std::iter::once(json!({"devices": self.devices})).chain(counters);
        contents.enumerate().map(|(number, content)| slice(number, content)).collect()
    }
}

/// Card number `at` of those that all nodes may use.
fn network_card(at: usize, generation: usize) -> Result<Vec<Arc<Object>>> {
    let part = |name: String, quarters: &[usize]| {
        let takes: serde_json::Map<String, Value> =
            quarters.iter().map(|at| (format!("quarter-{at}"), json!({"value": "1"}))).collect();
        json!({
            "name": name,
            "attributes": {"first": {"bool": quarters == [0, 1]}, "card": {"int": at}},
            "capacity": {"quarters": {"value": quarters.len().to_string()}},
            "consumesCounters": [{"counterSet": "card", "counters": takes}],
        })
    };
    let halves =
        [[0, 1], [2, 3]].map(|quarters| part(format!("half-{}", quarters[0] / 2), &quarters));
    let quarters = (0..4).map(|at| part(format!("quarter-{at}"), &[at]));
    let counters: serde_json::Map<String, Value> =
        (0..4).map(|at| (format!("quarter-{at}"), json!({"value": "1"}))).collect();
    let anywhere = json!({"nodeSelector": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}]}});
    Pool {
        name: &format!("card-{at:06}"),
        reach: &anywhere,
        devices: halves.into_iter().chain(quarters).collect(),
        counters: Some(counters.into()),
    }
    .slices(generation)
}

/// The class that all claims name.
pub(crate) fn class() -> Result<Arc<Object>> {
    object(json!({
        "apiVersion": GROUP, "kind": "DeviceClass",
        "metadata": {"name": CLASS, "uid": uid(CLASS), "resourceVersion": "1",
                     "creationTimestamp": "2025-12-01T00:00:00Z"},
        "spec": {
            "selectors": [{"cel": {"expression": format!("device.driver == \"{DRIVER}\"")}}],
            "extendedResourceName": RESOURCE,
        },
    }))
}

fn card(at: usize) -> Value {
    json!({
        "name": format!("card-{at}"),
        "attributes": {
            "model": {"string": if at.is_multiple_of(4) { "large" } else { "small" }},
            "socket": {"int": at % 2},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    })
}

fn partition(at: usize) -> Value {
    let (profile, memory) = if at < 8 { ("small", "10Gi") } else { ("large", "20Gi") };
    json!({
        "name": format!("part-{at:02}"),
        "attributes": {"profile": {"string": profile}},
        "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": memory}}}],
    })
}

fn shared(at: usize) -> Value {
    json!({
        "name": format!("card-{at}"),
        "allowMultipleAllocations": true,
        "capacity": {"memory": {
            "value": "80Gi",
            "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}},
        }},
    })
}

impl Wish {
    /// Adds the request to a pod, and returns the claims that were made for it.
    pub(crate) fn add_to(self, pod: &mut Value) -> Result<Vec<Arc<Object>>> {
        if self == Self::Extended {
            let resources = &mut pod["spec"]["containers"][0]["resources"];
            for list in ["requests", "limits"] {
                resources[list][RESOURCE] = "1".into();
            }
            return Ok(Vec::new());
        }
        let metadata = pod["metadata"].clone();
        let field = |name: &str| metadata[name].as_str().unwrap_or_default();
        let (mut entries, mut statuses, mut claims) = (Vec::new(), Vec::new(), Vec::new());
        for (at, spec) in self.claims().into_iter().enumerate() {
            let (entry, name) = (format!("claim-{at}"), format!("claim-{at}-{}", field("name")));
            claims.push(object(json!({
                "apiVersion": GROUP, "kind": "ResourceClaim",
                "metadata": {
                    "name": name, "namespace": field("namespace"), "uid": uid(&name), "resourceVersion": "1",
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": field("name"),
                                         "uid": field("uid"), "controller": true}],
                },
                "spec": {"devices": spec},
            }))?);
            statuses.push(json!({"name": entry, "resourceClaimName": name}));
            entries.push(
                json!({"name": entry, "resourceClaimTemplateName": format!("template-{at}")}),
            );
        }
        pod["spec"]["resourceClaims"] = entries.into();
        pod["status"]["resourceClaimStatuses"] = statuses.into();
        Ok(claims)
    }

    /// What `spec.devices` of its claims is.
    fn claims(self) -> Vec<Value> {
        let exactly = |count: usize| json!({"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": count});
        let selecting = |count: usize, attribute: &str, value: &str| {
            let expression = format!("device.attributes[\"{DRIVER}\"].{attribute} == \"{value}\"");
            let mut request = exactly(count);
            request["selectors"] = json!([{"cel": {"expression": expression}}]);
            request
        };
        let one = |request: Value| vec![json!({"requests": [{"name": "r", "exactly": request}]})];
        match self {
            Self::Extended => Vec::new(),
            Self::One => one(exactly(1)),
            Self::TwoAlike => {
                let mut claims = one(exactly(2));
                claims[0]["constraints"] = json!([{"matchAttribute": format!("{DRIVER}/socket")}]);
                claims
            }
            Self::EitherOf => {
                let (mut first, mut second) =
                    (selecting(2, "model", "large"), selecting(1, "model", "small"));
                first["name"] = "large".into();
                second["name"] = "small".into();
                vec![json!({"requests": [{"name": "r", "firstAvailable": [first, second]}]})]
            }
            Self::Partition => one(selecting(1, "profile", "small")),
            Self::FirstHalf => {
                let mut request = exactly(1);
                let expression = format!("device.attributes[\"{DRIVER}\"].first");
                request["selectors"] = json!([{"cel": {"expression": expression}}]);
                one(request)
            }
            Self::TwoParts => {
                let mut claims = one(exactly(2));
                claims[0]["constraints"] = json!([{"matchAttribute": format!("{DRIVER}/card")}]);
                claims
            }
            Self::Share => {
                let mut request = exactly(1);
                request["capacity"] = json!({"requests": {"memory": "8Gi"}});
                one(request)
            }
            Self::Many(n) => {
                (0..n).step_by(32).flat_map(|start| one(exactly((n - start).min(32)))).collect()
            }
        }
    }
}
