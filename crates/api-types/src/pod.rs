//! A pod as the scheduler keeps it: compiled once from the API object, cheap to clone, holding only what
//! decisions, messages and API writes need.
//!
//! Invariants: everything behind an `Arc` is immutable; two pods made from equal API objects compare equal;
//! environment, commands, probes and managed fields never get here.

use std::ops::Deref;
use std::sync::Arc;

use crate::Timestamp;
use crate::affinity::{NodeAffinity, PodAffinity, PodAffinityTerm};
use crate::labels::Labels;
use crate::node_claims::NodeResourceClaim;
use crate::quantity::Quantity;
use crate::requests::PodRequests;
use crate::resources::ResourceName;
use crate::source::Source;
use crate::storage::Volume;
use crate::taint::Toleration;
use crate::topology::TopologySpreadConstraint;
use crate::well_known::NUMBERING_LABELS;

/// One pod. Cloning copies a few pointers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// Unique identity; a pod re-created under the same name has another one.
    pub uid: Arc<str>,
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// Name, unique in its namespace at one time.
    pub name: Arc<str>,
    /// Opaque revision, compared for equality only.
    pub resource_version: Arc<str>,
    /// `metadata.generation`, written back as `observedGeneration`.
    pub generation: i64,
    /// When the object was created.
    pub created: Option<Timestamp>,
    /// `metadata.deletionTimestamp`: when deletion was requested. The pod is terminating from then on.
    pub deletion_requested: Option<Timestamp>,
    /// `metadata.labels`.
    pub labels: Labels,
    /// The controller that owns the pod, if any.
    pub controller: Option<Arc<ControllerRef>>,
    /// `spec.nodeName`: where the pod runs or is assumed to run.
    pub node_name: Option<Arc<str>>,
    /// What the pod asks for in total, by each of the reference's ways of counting.
    pub requests: Arc<PodRequests>,
    /// `spec.volumes`, those that can matter to scheduling: all but ConfigMaps, Secrets, projected and empty directories.
    /// Apart from the rest because pods of one template may have volumes of their own.
    pub volumes: Arc<[Volume]>,
    /// What scheduling reads of the specification besides.
    pub spec: Arc<PodSpec>,
    /// The parts of the status that scheduling reads or writes.
    pub status: Arc<PodStatus>,
    /// The object in full, if its decoder was configured to keep it. No decision reads it.
    pub source: Option<Arc<Source>>,
}

impl Pod {
    /// `namespace/name`, the way messages and queue keys write it.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// What it takes in memory, about, in bytes, beside the parts that pods of one template have in common: specification,
    /// requests, labels, volumes, and the texts of its conditions. O(1) for a pod
    /// that is not kept in full.
    pub fn own_bytes(&self) -> usize {
        let texts = self.uid.len() + self.name.len() + self.resource_version.len();
        let conditions = size_of_val(&*self.status.conditions);
        let source = self.source.as_ref().map_or(0, |source| source.n_bytes());
        size_of::<Self>() + size_of::<PodStatus>() + texts + conditions + source
    }

    /// `spec.priority`, 0 when absent.
    pub fn priority(&self) -> i32 {
        self.spec.priority.unwrap_or(0)
    }

    /// Whether the pod has been given a node.
    pub fn is_assigned(&self) -> bool {
        self.node_name.is_some()
    }

    /// Whether all of its containers have ended for good: its phase is `Succeeded` or `Failed`.
    pub fn has_ended(&self) -> bool {
        matches!(&*self.status.phase, "Succeeded" | "Failed")
    }

    /// Whether the pod has been given a node, or is nominated to one in its status.
    pub fn is_assigned_or_nominated(&self) -> bool {
        self.is_assigned() || self.nominated_node_name().is_some()
    }

    /// Whether the pod has affinity or anti-affinity to other pods, even if without any term.
    pub fn has_pod_affinity(&self) -> bool {
        self.spec.pod_affinity.is_some() || self.spec.pod_anti_affinity.is_some()
    }

    /// Whether it has one of the [labels by which controllers number pods](NUMBERING_LABELS).
    pub fn is_numbered(&self) -> bool {
        NUMBERING_LABELS.iter().any(|label| self.labels.contains_key(label))
    }

    /// Whether one of its affinity terms selects pods by such a label. O(terms).
    pub fn has_affinity_by_number(&self) -> bool {
        self.spec.affinity_terms().any(PodAffinityTerm::selects_by_number)
    }

    /// Whether one of its topology spread constraints counts pods by such a label. O(constraints).
    pub fn spreads_by_number(&self) -> bool {
        let constraints = &self.spec.topology_spread_constraints;
        constraints.iter().any(TopologySpreadConstraint::selects_by_number)
    }

    /// `status.nominatedNodeName`, `None` when empty.
    pub fn nominated_node_name(&self) -> Option<&str> {
        self.status.nominated_node_name.as_deref()
    }

    /// The names of the ResourceClaims of `spec.resourceClaims`, in order and as far as they are known.
    pub fn claim_names(&self) -> impl Iterator<Item = &str> {
        let statuses = &self.status.resource_claim_statuses;
        self.spec.resource_claims.iter().filter_map(move |entry| match entry.claim_in(statuses) {
            ResourceClaimName::Existing(name) | ResourceClaimName::Generated(name) => Some(name),
            ResourceClaimName::Unneeded | ResourceClaimName::Pending => None,
        })
    }

    /// The same pod, placed on `node`.
    pub fn with_node_name(&self, node: &Arc<str>) -> Self {
        Self { node_name: Some(node.clone()), ..self.clone() }
    }

    /// The same pod, whose claims take `claims` of the node's resources, whatever they took before.
    pub fn with_node_resource_claims(&self, claims: Arc<[NodeResourceClaim]>) -> Self {
        let requests = Arc::new(self.requests.with_claims(&claims));
        let status = PodStatus { node_resource_claims: claims, ..(*self.status).clone() };
        Self { requests, status: Arc::new(status), ..self.clone() }
    }
}

/// The owner reference that has `controller: true`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControllerRef {
    /// API version, such as `apps/v1`.
    pub api_version: Arc<str>,
    /// Kind, such as `ReplicaSet`.
    pub kind: Arc<str>,
    /// Name in the pod's namespace.
    pub name: Arc<str>,
    /// `metadata.uid`: tells objects of the same name apart.
    pub uid: Arc<str>,
}

/// The parts of `spec` that can influence placement, apart from requests, volumes and the node name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSpec {
    /// `schedulerName`: which profile schedules the pod.
    pub scheduler_name: Arc<str>,
    /// Priority as given; absent counts as 0.
    pub priority: Option<i32>,
    /// Whether `preemptionPolicy` is `Never`.
    pub never_preempts: bool,
    /// Exact label equalities the node must have. `None` and empty differ (`docs/spec/plugins-node.md` §4.6.1).
    pub node_selector: Option<Labels>,
    /// `affinity.nodeAffinity`.
    pub node_affinity: Option<Arc<NodeAffinity>>,
    /// `affinity.podAffinity`; present (even if without terms) makes the pod count as "with affinity".
    pub pod_affinity: Option<Arc<PodAffinity>>,
    /// `affinity.podAntiAffinity`.
    pub pod_anti_affinity: Option<Arc<PodAffinity>>,
    /// Tolerations in the order given.
    pub tolerations: Arc<[Toleration]>,
    /// Topology spread constraints in the order given.
    pub topology_spread_constraints: Arc<[TopologySpreadConstraint]>,
    /// Host ports of restartable init containers, then containers, normalised (`docs/spec/plugins-node.md` §2.9).
    pub host_ports: Arc<[HostPort]>,
    /// Distinct non-zero host port numbers of all containers and all init containers, sorted (signatures only).
    pub host_port_numbers: Arc<[i32]>,
    /// The images of all containers, for ImageLocality.
    pub images: PodImages,
    /// Names of the scheduling gates, in order.
    pub scheduling_gates: Arc<[Arc<str>]>,
    /// `resourceClaims`, in order.
    pub resource_claims: Arc<[PodResourceClaim]>,
    /// What each container requests, init containers first, if some of it may be served by devices: an extended resource,
    /// or a resource claim. Empty otherwise.
    pub device_users: Arc<[ContainerResources]>,
    /// `schedulingGroup.podGroupName`: the group that the pod belongs to.
    pub pod_group: Option<Arc<str>>,
    /// Node features the pod needs, one bit per registered feature (`docs/spec/plugins-node.md` §4.11).
    pub required_features: u64,
}

impl PodSpec {
    /// All terms of pod affinity and anti-affinity that compiled, required and preferred.
    pub fn affinity_terms(&self) -> impl Iterator<Item = &PodAffinityTerm> {
        let affinities = [&self.pod_affinity, &self.pod_anti_affinity].into_iter().flatten();
        affinities.flat_map(|affinity| {
            let preferred = affinity.preferred.iter().map(|weighted| &weighted.term);
            affinity.required.iter().chain(preferred)
        })
    }
}

/// One host port that a pod needs on its node. Ordered by number first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// Port number, above zero.
    pub port: i32,
    /// Protocol; `TCP` when none was given.
    pub protocol: Arc<str>,
    /// Host address; `0.0.0.0` when none was given.
    pub ip: Arc<str>,
}

/// The images of a pod as ImageLocality sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodImages {
    /// Normalised names: init containers, then containers, then image volumes, repeats kept.
    pub names: Arc<[Arc<str>]>,
    /// How many of `names` come from init containers and containers.
    pub n_containers: usize,
}

/// One entry of `spec.resourceClaims`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodResourceClaim {
    /// Name within the pod.
    pub name: Arc<str>,
    /// `resourceClaimName`: a claim that exists by itself.
    pub claim: Option<Arc<str>>,
    /// `resourceClaimTemplateName`: the template of a claim that is generated for the pod.
    pub template: Option<Arc<str>>,
}

/// The name of the ResourceClaim behind an entry of `spec.resourceClaims`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceClaimName<'a> {
    /// That of a claim that exists by itself.
    Existing(&'a str),
    /// The name of a claim that was generated from a template.
    Generated(&'a str),
    /// None: the status says that no claim needed to be generated.
    Unneeded,
    /// One that is not in the status yet.
    Pending,
}

impl PodResourceClaim {
    /// The claim that is meant, given `status.resourceClaimStatuses` of the pod or the pod group that has this entry. An entry
    /// without a [template](Self::template) is taken for one with a template, if it names no claim.
    pub fn claim_in<'a>(&'a self, statuses: &'a [ClaimOfPod]) -> ResourceClaimName<'a> {
        if let Some(name) = &self.claim {
            return ResourceClaimName::Existing(name);
        }
        match statuses.iter().find(|(entry, _)| *entry == self.name) {
            Some((_, Some(name))) => ResourceClaimName::Generated(name),
            Some((_, None)) => ResourceClaimName::Unneeded,
            None => ResourceClaimName::Pending,
        }
    }
}

/// `resources` of one container, as far as devices may serve them.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerResources {
    /// Name of the container in the pod.
    pub name: Arc<str>,
    /// Whether it ends before the others start: init containers but sidecars.
    pub is_short_lived: bool,
    /// All requests, sorted by name.
    pub requests: Arc<[(ResourceName, Quantity)]>,
    /// The pod's names of the resource claims that it uses.
    pub claims: Arc<[Arc<str>]>,
}

/// A claim's name within the pod and the name of the claim generated for it, if one was.
pub type ClaimOfPod = (Arc<str>, Option<Arc<str>>);

/// The parts of `status` that scheduling reads or must preserve when it patches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed`, or empty.
    pub phase: Arc<str>,
    /// When the kubelet acknowledged the pod.
    pub started: Option<Timestamp>,
    /// `status.nominatedNodeName`: where preemption evicted pods for this one, or where it is expected; never `Some("")`.
    pub nominated_node_name: Option<Arc<str>>,
    /// All conditions in order.
    pub conditions: Arc<[PodCondition]>,
    /// Names of generated claims, in order.
    pub resource_claim_statuses: Arc<[ClaimOfPod]>,
    /// `extendedResourceClaimStatus`.
    pub extended_resource_claim: Option<Arc<ExtendedResourceClaim>>,
    /// `nodeAllocatableResourceClaimStatuses`, which count as requests on the pod's node.
    pub node_resource_claims: Arc<[NodeResourceClaim]>,
}

/// `status.extendedResourceClaimStatus`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExtendedResourceClaim {
    /// Name of the claim that the scheduler made for extended resources.
    pub claim: Arc<str>,
    /// Which request of the claim serves which resource of which container, in order.
    pub mappings: Vec<RequestMapping>,
}

/// Which request of a claim for extended resources serves which resource of a container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestMapping {
    /// Name of the container.
    pub container_name: Arc<str>,
    /// Name of the resource.
    pub resource_name: Arc<str>,
    /// Name of the request within the claim.
    pub request_name: Arc<str>,
}

/// One pod condition. The fields of its [`ConditionText`] can be read as if they were its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodCondition {
    /// Everything but the time. Shared, because the conditions of most pods are equal in it.
    pub text: Arc<ConditionText>,
    /// `lastTransitionTime`.
    pub last_transition: Option<Timestamp>,
}

/// The fields of a pod condition, apart from its time of transition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConditionText {
    /// `type`, such as `PodScheduled`.
    pub kind: Arc<str>,
    /// `True`, `False` or `Unknown`.
    pub status: Arc<str>,
    /// `reason`: the machine-readable cause.
    pub reason: Arc<str>,
    /// `message`: the human-readable cause.
    pub message: Arc<str>,
    /// `lastProbeTime`, which is rarely set.
    pub last_probe: Option<Timestamp>,
    /// `observedGeneration`.
    pub observed_generation: i64,
}

impl Deref for PodCondition {
    type Target = ConditionText;

    fn deref(&self) -> &ConditionText {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_claim_has_the_name_in_the_status() {
        let entry = |name: &str, claim: Option<&str>, template: Option<&str>| PodResourceClaim {
            name: name.into(),
            claim: claim.map(Arc::from),
            template: template.map(Arc::from),
        };
        let statuses: [ClaimOfPod; 2] = [("a".into(), Some("a-x".into())), ("b".into(), None)];
        let of_template = |name: &str| entry(name, None, Some("t"));
        let own = entry("a", Some("mine"), None);
        assert_eq!(own.claim_in(&statuses), ResourceClaimName::Existing("mine"));
        assert_eq!(of_template("a").claim_in(&statuses), ResourceClaimName::Generated("a-x"));
        assert_eq!(of_template("b").claim_in(&statuses), ResourceClaimName::Unneeded);
        assert_eq!(of_template("c").claim_in(&statuses), ResourceClaimName::Pending);
    }
}
