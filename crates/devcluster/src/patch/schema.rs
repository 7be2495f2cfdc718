//! Which lists are merged by key, and by which: the part of the API's types that merging needs.
//!
//! Invariant: a list that is not named here is atomic, as lists without a patch strategy are in Kubernetes. Server-side
//! apply treats a few more lists as keyed than strategic merge does; these are [`ListRule::ApplyKeyed`].

use crate::kinds::Kind;

/// How a list is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListRule {
    /// Replaced as a whole.
    Atomic,
    /// A set of scalars.
    Set,
    /// Objects identified by this field.
    Keyed(&'static str),
    /// Keyed for server-side apply only, by all of these fields.
    ApplyKeyed(&'static [&'static str]),
}

/// A place in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node {
    shape: Shape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Root(RootKind),
    Metadata,
    PodTemplate,
    PodSpec,
    PodStatus,
    Container,
    Resources,
    ServiceSpec,
    NodeSpec,
    WorkloadSpec,
    CsiSpec,
    Status,
    ClaimStatus,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RootKind {
    Pod,
    PodTemplate,
    Node,
    Service,
    Workload,
    CronJob,
    CsiNode,
    ServiceAccount,
    Claim,
    Other,
}

impl Node {
    /// The object itself.
    pub(crate) fn root(kind: &Kind) -> Self {
        let root = match kind.kind {
            "Pod" => RootKind::Pod,
            "PodTemplate" => RootKind::PodTemplate,
            "Node" => RootKind::Node,
            "Service" => RootKind::Service,
            "Deployment"
            | "ReplicaSet"
            | "StatefulSet"
            | "DaemonSet"
            | "Job"
            | "ReplicationController" => RootKind::Workload,
            "CronJob" => RootKind::CronJob,
            "CSINode" => RootKind::CsiNode,
            "ServiceAccount" => RootKind::ServiceAccount,
            "ResourceClaim" => RootKind::Claim,
            _ => RootKind::Other,
        };
        Self { shape: Shape::Root(root) }
    }

    /// The member `key`; for a list, its elements.
    pub(crate) fn child(self, key: &str) -> Self {
        let shape = match (self.shape, key) {
            (Shape::Root(_), "metadata") | (Shape::PodTemplate, "metadata") => Shape::Metadata,
            (Shape::Root(RootKind::Pod), "spec") | (Shape::PodTemplate, "spec") => Shape::PodSpec,
            (Shape::Root(RootKind::Pod), "status") => Shape::PodStatus,
            (Shape::Root(RootKind::PodTemplate), "template")
            | (Shape::WorkloadSpec, "template") => Shape::PodTemplate,
            (Shape::Root(RootKind::Node), "spec") => Shape::NodeSpec,
            (Shape::Root(RootKind::Service), "spec") => Shape::ServiceSpec,
            (Shape::Root(RootKind::Workload), "spec") => Shape::WorkloadSpec,
            // A cron job's job template is one level further down.
            (Shape::Root(RootKind::CronJob), "spec") => Shape::Root(RootKind::CronJob),
            (Shape::Root(RootKind::CronJob), "jobTemplate") => Shape::Root(RootKind::Workload),
            (Shape::Root(RootKind::CsiNode), "spec") => Shape::CsiSpec,
            (Shape::Root(RootKind::Claim), "status") => Shape::ClaimStatus,
            (Shape::Root(_), "status") => Shape::Status,
            (Shape::PodSpec, "containers" | "initContainers" | "ephemeralContainers") => {
                Shape::Container
            }
            (Shape::Container, "resources") => Shape::Resources,
            _ => Shape::Other,
        };
        Self { shape }
    }

    /// How the list under `key` is merged.
    pub(crate) fn list(self, key: &str) -> ListRule {
        use ListRule::{ApplyKeyed, Keyed, Set};
        match (self.shape, key) {
            (Shape::Metadata, "finalizers") => Set,
            (Shape::Metadata, "ownerReferences") => Keyed("uid"),
            (
                Shape::PodSpec,
                "containers"
                | "initContainers"
                | "ephemeralContainers"
                | "volumes"
                | "imagePullSecrets"
                | "schedulingGates"
                | "resourceClaims",
            ) => Keyed("name"),
            (Shape::PodSpec, "hostAliases") => Keyed("ip"),
            (Shape::PodSpec, "topologySpreadConstraints") => Keyed("topologyKey"),
            (Shape::Container, "env") => Keyed("name"),
            (Shape::Container, "ports") => Keyed("containerPort"),
            (Shape::Container, "volumeMounts") => Keyed("mountPath"),
            (Shape::Container, "volumeDevices") => Keyed("devicePath"),
            (Shape::Resources, "claims") => ApplyKeyed(&["name"]),
            (Shape::PodStatus | Shape::Status | Shape::ClaimStatus, "conditions") => Keyed("type"),
            (Shape::PodStatus, "podIPs" | "hostIPs") => Keyed("ip"),
            (Shape::PodStatus | Shape::Status, "resourceClaimStatuses") => Keyed("name"),
            (Shape::Status, "addresses") => Keyed("type"),
            (Shape::ClaimStatus, "reservedFor") => Keyed("uid"),
            (Shape::ClaimStatus, "devices") => ApplyKeyed(&["driver", "device", "pool"]),
            (Shape::NodeSpec, "podCIDRs") => Set,
            (Shape::ServiceSpec, "ports") => Keyed("port"),
            (Shape::CsiSpec, "drivers") => Keyed("name"),
            (Shape::Root(RootKind::ServiceAccount), "secrets" | "imagePullSecrets") => {
                Keyed("name")
            }
            _ => ListRule::Atomic,
        }
    }
}
