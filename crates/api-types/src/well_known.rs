//! Names that Kubernetes gives to labels, annotations, taints, finalizers and conditions, and that more than one part of a scheduler
//! reads or writes.

/// API group of claims, slices and classes of devices.
pub const RESOURCE_GROUP: &str = "resource.k8s.io";
/// API group of storage classes, CSI nodes and drivers.
pub const STORAGE_GROUP: &str = "storage.k8s.io";

/// Label of a node: its name as a host.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Label of nodes and volumes: the zone they are in.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Label of nodes and volumes: the region they are in.
pub const REGION: &str = "topology.kubernetes.io/region";
/// [`ZONE`], as it was called before Kubernetes 1.17.
pub const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
/// [`REGION`], as it was called before Kubernetes 1.17.
pub const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// Taint of a node with `spec.unschedulable`.
pub const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// Annotation of a volume claim: the node for which a volume is to be provisioned.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotation of a volume claim: its binding is complete.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Annotation of a volume: bound by software, not by its author.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Annotation of a volume: the name of the provisioner that made it.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Annotation that overrides the class of a volume or of a volume claim.
pub const STORAGE_CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
/// The provisioner of storage classes that cannot provision.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Finalizer of a claim that has devices.
pub const CLAIM_FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// Annotation of the claims that the scheduler makes for extended resources.
pub const EXTENDED_RESOURCE_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";

/// Labels (and annotations) by which controllers number the pods of one StatefulSet or indexed Job. Pods that differ in nothing
/// else are alike, unless a selector is about one of these labels.
pub const NUMBERING_LABELS: [&str; 3] = [
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "statefulset.kubernetes.io/pod-name",
];

/// Whether `label` is one of the [`NUMBERING_LABELS`].
pub fn is_numbering_label(label: &str) -> bool {
    NUMBERING_LABELS.contains(&label)
}

/// Condition of a pod: whether it has a node.
pub const POD_SCHEDULED: &str = "PodScheduled";
/// Condition of a pod that is about to be evicted.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
