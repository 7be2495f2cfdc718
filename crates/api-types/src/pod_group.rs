//! `scheduling.k8s.io` PodGroup, as far as the scheduler reads it.
//!
//! Behaviour: `docs/spec/podgroups.md` §1.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor};

use crate::Timestamp;
use crate::compile::{DecodeError, decode};
use crate::object::Object;
use crate::pod::{ClaimOfPod, ConditionText, PodCondition, PodResourceClaim};
use crate::wire::{Date, Text};

/// The most conditions that are read; an API server accepts eight.
const MAX_CONDITIONS: usize = 64;

/// The most resource claims that are read; an API server accepts four.
const MAX_CLAIMS: usize = 64;

/// What a group's pods have to wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupPolicy {
    /// Nothing: each pod is scheduled as soon as it fits.
    #[default]
    Basic,
    /// Pods wait for each other: none is bound before this many are scheduled.
    Gang {
        /// How many pods, at least 1.
        min_count: i32,
    },
}

/// What happens to the others when a pod of the group is evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DisruptionMode {
    /// Nothing: `Pod` in `v1alpha2`, `{single: {}}` in later versions.
    #[default]
    Pod,
    /// They are evicted, too: `PodGroup`, or `{all: {}}`.
    PodGroup,
}

/// A group of pods that are scheduled together.
#[derive(Clone, Debug, PartialEq)]
pub struct PodGroup {
    /// Namespace, the same as that of its pods.
    pub namespace: Arc<str>,
    /// Name, to which pods refer.
    pub name: Arc<str>,
    /// `metadata.uid`: tells objects of the same name apart.
    pub uid: Arc<str>,
    /// `metadata.generation`.
    pub generation: i64,
    /// `spec.parentCompositePodGroupName`: the larger group that this one is a part of. Nothing here considers it.
    pub parent: Option<Arc<str>>,
    /// `spec.schedulingPolicy`.
    pub policy: GroupPolicy,
    /// The label keys of `spec.schedulingConstraints.topology`; `None` without `schedulingConstraints`.
    pub topology_keys: Option<Vec<Arc<str>>>,
    /// `spec.disruptionMode`.
    pub disruption_mode: DisruptionMode,
    /// `spec.resourceClaims`: the claims that pods of the group may share.
    pub resource_claims: Vec<PodResourceClaim>,
    /// `spec.priority`; 0 if there is none.
    pub priority: i32,
    /// Whether `spec.preemptionPolicy` is `Never`; the field is there from `v1alpha3` and `v1beta1` on.
    pub never_preempts: bool,
    /// `status.conditions`.
    pub conditions: Vec<PodCondition>,
    /// `status.resourceClaimStatuses`: names of generated claims, in order.
    pub claim_statuses: Vec<ClaimOfPod>,
}

impl PodGroup {
    /// The API group of the kind.
    pub const GROUP: &'static str = "scheduling.k8s.io";
    /// The kind.
    pub const KIND: &'static str = "PodGroup";

    /// The name under which a group of another API group is known as a PodGroup. Names of objects have no slash, so it is that
    /// of no other.
    pub fn foreign_name(api_group: &str, name: &str) -> Arc<str> {
        [api_group, "/", name].concat().into()
    }

    /// API group and name of such a group; `None` for the name of a PodGroup of [`GROUP`](Self::GROUP).
    pub fn foreign_parts(name: &str) -> Option<(&str, &str)> {
        name.split_once('/')
    }

    /// Reads an object of the kind.
    ///
    /// # Errors
    /// If a field that matters has a wrong type, or the group has more than 64 conditions, resource claims or statuses of such.
    pub fn from_object(object: &Object) -> Result<Self, DecodeError> {
        let fields: Fields = decode("podgroup", &object.json)?;
        let Spec {
            parent_composite_pod_group_name: parent,
            scheduling_policy,
            scheduling_constraints,
            disruption_mode,
            priority,
            preemption_policy,
            resource_claims,
        } = fields.spec;
        let policy = match scheduling_policy.gang {
            Some(gang) => GroupPolicy::Gang { min_count: gang.min_count },
            None => GroupPolicy::Basic,
        };
        let lists = [
            ("status.conditions", fields.status.conditions.len(), MAX_CONDITIONS),
            ("spec.resourceClaims", resource_claims.len(), MAX_CLAIMS),
            (
                "status.resourceClaimStatuses",
                fields.status.resource_claim_statuses.len(),
                MAX_CLAIMS,
            ),
        ];
        if let Some((path, _, most)) = lists.into_iter().find(|(_, n, most)| n > most) {
            return Err(DecodeError {
                object: format!("podgroup {}", object.key()),
                path: path.to_owned(),
                reason: format!("must have at most {most} items"),
            });
        }
        let keys = |constraints: Constraints| constraints.topology.into_iter().map(|t| t.key.0);
        Ok(Self {
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: object.uid.clone(),
            generation: fields.metadata.generation,
            parent: parent.map(|name| name.0).filter(|name| !name.is_empty()),
            policy,
            topology_keys: scheduling_constraints.map(|constraints| keys(constraints).collect()),
            disruption_mode,
            resource_claims: resource_claims.into_iter().map(PodResourceClaim::from).collect(),
            priority: priority.unwrap_or(0),
            never_preempts: *preemption_policy == *"Never",
            conditions: fields.status.conditions.into_iter().map(PodCondition::from).collect(),
            claim_statuses: fields
                .status
                .resource_claim_statuses
                .into_iter()
                .map(|status| (status.name.0, status.resource_claim_name.map(|name| name.0)))
                .collect(),
        })
    }

    /// How many pods must be scheduled before one is bound; `None` if pods do not wait for each other.
    pub const fn min_count(&self) -> Option<i32> {
        match self.policy {
            GroupPolicy::Basic => None,
            GroupPolicy::Gang { min_count } => Some(min_count),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    #[serde(deserialize_with = "crate::wire::or_default")]
    metadata: Metadata,
    #[serde(deserialize_with = "crate::wire::or_default")]
    spec: Spec,
    #[serde(deserialize_with = "crate::wire::or_default")]
    status: GroupStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    #[serde(deserialize_with = "crate::wire::or_default")]
    generation: i64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    parent_composite_pod_group_name: Option<Text>,
    #[serde(deserialize_with = "crate::wire::or_default")]
    scheduling_policy: Policy,
    scheduling_constraints: Option<Constraints>,
    disruption_mode: DisruptionMode,
    priority: Option<i32>,
    preemption_policy: Text,
    #[serde(deserialize_with = "crate::wire::or_default")]
    resource_claims: Vec<Claim>,
}

/// The text of `v1alpha2`, or the object of later versions, one member of which is set. `null`, and no text, are the default.
impl<'de> Deserialize<'de> for DisruptionMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ModeVisitor)
    }
}

struct ModeVisitor;

impl<'de> Visitor<'de> for ModeVisitor {
    type Value = DisruptionMode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"Pod\" or \"PodGroup\", or an object with one of single and all")
    }

    fn visit_unit<E: Error>(self) -> Result<DisruptionMode, E> {
        Ok(DisruptionMode::default())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<DisruptionMode, E> {
        match text {
            "" | "Pod" => Ok(DisruptionMode::Pod),
            "PodGroup" => Ok(DisruptionMode::PodGroup),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<DisruptionMode, A::Error> {
        let mut modes = Vec::new();
        while let Some(member) = members.next_key::<Text>()? {
            let mode = match &*member {
                "single" => DisruptionMode::Pod,
                "all" => DisruptionMode::PodGroup,
                _ => return Err(A::Error::unknown_field(&member, &["single", "all"])),
            };
            if members.next_value::<Option<NothingYet>>()?.is_some() {
                modes.push(mode);
            }
        }
        match modes[..] {
            [mode] => Ok(mode),
            _ => Err(A::Error::custom("expected exactly one of single and all")),
        }
    }
}

/// An object that may have members one day.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct NothingYet {}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Claim {
    name: Text,
    resource_claim_name: Option<Text>,
    resource_claim_template_name: Option<Text>,
}

impl From<Claim> for PodResourceClaim {
    fn from(claim: Claim) -> Self {
        Self {
            name: claim.name.0,
            claim: claim.resource_claim_name.map(|name| name.0),
            template: claim.resource_claim_template_name.map(|name| name.0),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Policy {
    gang: Option<Gang>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Gang {
    #[serde(deserialize_with = "crate::wire::or_default")]
    min_count: i32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Constraints {
    #[serde(deserialize_with = "crate::wire::or_default")]
    topology: Vec<Topology>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Topology {
    key: Text,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GroupStatus {
    #[serde(deserialize_with = "crate::wire::or_default")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "crate::wire::or_default")]
    resource_claim_statuses: Vec<ClaimStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimStatus {
    name: Text,
    resource_claim_name: Option<Text>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    kind: Text,
    status: Text,
    reason: Text,
    message: Text,
    last_transition_time: Date,
    #[serde(deserialize_with = "crate::wire::or_default")]
    observed_generation: i64,
}

impl From<Condition> for PodCondition {
    fn from(condition: Condition) -> Self {
        let last_transition: Option<Timestamp> = condition.last_transition_time.0;
        Self {
            text: Arc::new(ConditionText {
                kind: condition.kind.0,
                status: condition.status.0,
                reason: condition.reason.0,
                message: condition.message.0,
                last_probe: None,
                observed_generation: condition.observed_generation,
            }),
            last_transition,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn group(spec: &serde_json::Value) -> Result<PodGroup, DecodeError> {
        let json = json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"namespace": "a", "name": "g", "uid": "u", "generation": 3}, "spec": spec,
            "status": {"conditions": [{"type": "PodGroupScheduled", "status": "True", "observedGeneration": 2,
                                       "lastTransitionTime": "2026-01-02T03:04:05Z"}],
                       "resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "x"}, {"name": "none"}]},
        });
        PodGroup::from_object(&Object::from_value(json)?)
    }

    #[test]
    fn reads_what_counts_and_defaults_the_rest() {
        let read = group(&json!({
            "schedulingPolicy": {"gang": {"minCount": 4}}, "disruptionMode": "PodGroup", "priority": -7,
            "schedulingConstraints": {"topology": [{"key": "zone"}]},
            "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "four"}],
        }));
        let read = read.unwrap();
        assert_eq!((read.min_count(), read.priority, read.generation), (Some(4), -7, 3));
        assert_eq!(read.topology_keys, Some(vec!["zone".into()]));
        assert_eq!(read.disruption_mode, DisruptionMode::PodGroup);
        let claim =
            PodResourceClaim { name: "gpus".into(), claim: None, template: Some("four".into()) };
        assert_eq!(read.resource_claims, [claim]);
        let statuses = [("gpus".into(), Some("x".into())), ("none".into(), None)];
        assert_eq!(read.claim_statuses, statuses);
        let [condition] = &read.conditions[..] else { panic!("{:?}", read.conditions) };
        assert_eq!((&*condition.status, condition.observed_generation), ("True", 2));

        let basic = group(&json!({"schedulingPolicy": {"basic": {}}})).unwrap();
        assert_eq!((basic.min_count(), basic.priority, &basic.topology_keys), (None, 0, &None));
        let empty = group(&json!({"schedulingConstraints": {}})).unwrap();
        assert_eq!(empty.topology_keys, Some(Vec::new()), "present, but empty");
    }

    #[test]
    fn the_disruption_mode_is_read_in_the_forms_of_all_versions() {
        use DisruptionMode as Mode;
        let cases = [
            (json!(null), Mode::Pod),
            (json!(""), Mode::Pod),
            (json!("Pod"), Mode::Pod),
            (json!("PodGroup"), Mode::PodGroup),
            (json!({"single": {}}), Mode::Pod),
            (json!({"all": {}}), Mode::PodGroup),
            (json!({"single": null, "all": {"later": 1}}), Mode::PodGroup),
        ];
        for (given, mode) in cases {
            let read = group(&json!({"disruptionMode": given})).unwrap();
            assert_eq!(read.disruption_mode, mode, "{given}");
        }
        assert_eq!(group(&json!({})).unwrap().disruption_mode, Mode::Pod);
    }

    #[test]
    fn a_disruption_mode_that_is_none_is_named_with_what_is_allowed() {
        let allowed = "\"Pod\" or \"PodGroup\", or an object with one of single and all";
        let either = "expected exactly one of single and all";
        for (given, at, why) in [
            (json!("Node"), "", allowed),
            (json!("All"), "", allowed),
            (json!(3), "", allowed),
            (json!(["all"]), "", allowed),
            (json!({}), "", either),
            (json!({"all": null}), "", either),
            (json!({"all": {}, "single": {}}), "", either),
            (json!({"most": {}}), "", "expected `single` or `all`"),
            (json!({"all": true}), ".all", "expected an object"),
        ] {
            let error = group(&json!({"disruptionMode": given})).unwrap_err().to_string();
            let start = format!("podgroup a/g: spec.disruptionMode{at}: ");
            assert!(error.starts_with(&start) && error.contains(why), "{given}: {error}");
        }
    }

    /// As the API server of 1.37 has it, with all gates.
    #[test]
    fn a_group_of_v1beta1_is_read() {
        let read = group(&json!({
            "parentCompositePodGroupName": "parent",
            "workloadRef": {"workloadName": "train", "templateName": "workers"},
            "schedulingPolicy": {"gang": {"minCount": 4}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
            "resourceClaims": [{"name": "link", "resourceClaimTemplateName": "one-link"}],
            "disruptionMode": {"all": {}},
            "priorityClassName": "high", "priority": 7, "preemptionPolicy": "Never",
        }));
        let read = read.unwrap();
        assert_eq!(read.parent, Some("parent".into()));
        assert_eq!((read.min_count(), read.priority), (Some(4), 7));
        assert_eq!(read.disruption_mode, DisruptionMode::PodGroup);
        assert_eq!(read.topology_keys, Some(vec!["rack".into()]));
        assert_eq!(read.resource_claims.len(), 1);
        assert!(read.never_preempts);
        for none in [json!(null), json!("")] {
            assert_eq!(group(&json!({"parentCompositePodGroupName": none})).unwrap().parent, None);
        }
        for policy in [json!("PreemptLowerPriority"), json!(null)] {
            assert!(!group(&json!({"preemptionPolicy": policy})).unwrap().never_preempts);
        }
    }

    #[test]
    fn errors_name_the_group_and_the_field() {
        let error = group(&json!({"schedulingPolicy": {"gang": {"minCount": "x"}}}));
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("podgroup a/g: spec.schedulingPolicy.gang.minCount:"), "{error}");
    }
}
