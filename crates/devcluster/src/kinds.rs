//! The table of kinds that are served.
//!
//! Invariants: a kind's position in [`KINDS`] is its identity for the life of the process; group, version and plural name
//! together are unique; a kind that is stored as another one has the same scope, status and selectable fields.

/// A served kind: what discovery, selectors and the generic verbs need to know about it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Kind {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// The kind, as in `kind: Pod`.
    pub kind: &'static str,
    /// Plural resource name, as in paths.
    pub plural: &'static str,
    /// Whether its objects are in a namespace.
    pub namespaced: bool,
    /// Whether objects can only be posted and are not stored, as reviews and bindings.
    pub review: bool,
    /// Abbreviations that kubectl accepts for it.
    pub(crate) short_names: &'static [&'static str],
    /// Groups of kinds it belongs to, as in `kubectl get all`.
    pub(crate) categories: &'static [&'static str],
    pub(crate) subresources: &'static [&'static str],
    /// Whether `status` is a subresource: ignored on creation, changed only through `/status`.
    pub(crate) has_status: bool,
    /// Whether `metadata.generation` counts the changes of anything but metadata and status.
    pub(crate) has_generation: bool,
    /// What objects can be selected by, besides `metadata.name` and `metadata.namespace`: the name of the field in
    /// selectors, and the path to its value.
    pub(crate) fields: &'static [(&'static str, &'static [&'static str])],
    /// The kind as which its objects are stored, if that is another one: the same kind in another version or group.
    pub(crate) stored_as: Option<KindId>,
}

/// A kind's position in [`KINDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindId(u16);

impl KindId {
    /// The entry of the kind in [`KINDS`].
    pub fn get(self) -> &'static Kind {
        &KINDS[usize::from(self.0)]
    }

    /// Position in [`KINDS`].
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The kind as which objects are stored.
    pub(crate) fn storage(self) -> Self {
        self.get().stored_as.unwrap_or(self)
    }

    /// The kind with this group, version and plural name, as they are in paths.
    pub fn by_plural(group: &str, version: &str, plural: &str) -> Option<Self> {
        Self::find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
    }

    /// The kind of a manifest with this `apiVersion` and `kind`.
    pub(crate) fn by_manifest(api_version: &str, kind_name: &str) -> Option<Self> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self::find(|kind| kind.group == group && kind.version == version && kind.kind == kind_name)
    }

    /// The kind with this plural name, or `plural.group`; of several the first in the table.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        let (plural, group) = match name.split_once('.') {
            Some((plural, group)) => (plural, Some(group)),
            None => (name, None),
        };
        Self::find(|kind| kind.plural == plural && group.is_none_or(|group| group == kind.group))
    }

    /// All kinds, in table order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..KINDS.len()).filter_map(|index| u16::try_from(index).ok().map(KindId))
    }

    fn find(mut matches: impl FnMut(&Kind) -> bool) -> Option<Self> {
        Self::all().find(|id| matches(id.get()))
    }
}

impl Kind {
    /// Whether it is defined by a custom resource at a real server.
    pub(crate) fn is_custom(&self) -> bool {
        self.group.ends_with(".x-k8s.io")
    }

    /// `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The singular resource name.
    pub(crate) fn singular(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

    /// `pods` or `deployments.apps`, as in messages.
    pub(crate) fn qualified_plural(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// `Pod` or `Deployment.apps`, as in messages.
    pub(crate) fn qualified_kind(&self) -> String {
        if self.group.is_empty() {
            self.kind.to_owned()
        } else {
            format!("{}.{}", self.kind, self.group)
        }
    }

    /// The position of a selectable field in the objects' index.
    pub(crate) fn field_index(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|(field, _)| *field == name)
    }

    const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
        namespaced: bool,
    ) -> Self {
        Self {
            group,
            version,
            kind,
            plural,
            namespaced,
            short_names: &[],
            categories: &[],
            subresources: &[],
            has_status: false,
            has_generation: false,
            fields: &[],
            stored_as: None,
            review: false,
        }
    }

    const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    const fn in_all(mut self) -> Self {
        self.categories = &["all"];
        self
    }

    const fn status(mut self) -> Self {
        self.has_status = true;
        self.subresources = &["status"];
        self
    }

    const fn generation(mut self) -> Self {
        self.has_generation = true;
        self
    }

    const fn subresources(mut self, names: &'static [&'static str]) -> Self {
        self.subresources = names;
        self
    }

    const fn fields(mut self, fields: &'static [(&'static str, &'static [&'static str])]) -> Self {
        self.fields = fields;
        self
    }

    const fn stored_as(mut self, kind: KindId) -> Self {
        self.stored_as = Some(kind);
        self
    }

    const fn review(mut self) -> Self {
        self.review = true;
        self
    }
}

/// Core events; events of `events.k8s.io` are stored as these.
pub const EVENTS: KindId = KindId(0);
/// Events of `events.k8s.io/v1`.
pub(crate) const EVENTS_V1: KindId = KindId(1);
/// Namespaces.
pub(crate) const NAMESPACES: KindId = KindId(2);
/// Pods.
pub const PODS: KindId = KindId(3);
/// Nodes.
pub const NODES: KindId = KindId(4);
/// Priority classes.
pub(crate) const PRIORITY_CLASSES: KindId = KindId(5);
/// Pod disruption budgets.
pub const DISRUPTION_BUDGETS: KindId = KindId(6);
/// Leases.
pub const LEASES: KindId = KindId(7);
/// Bindings: only posted, never stored.
pub(crate) const BINDINGS: KindId = KindId(8);
/// Persistent volumes.
pub const PERSISTENT_VOLUMES: KindId = KindId(9);
/// Persistent volume claims.
pub const PERSISTENT_VOLUME_CLAIMS: KindId = KindId(10);
/// Storage classes.
pub(crate) const STORAGE_CLASSES: KindId = KindId(11);
/// CSI nodes.
pub const CSI_NODES: KindId = KindId(12);
/// Deployments.
pub(crate) const DEPLOYMENTS: KindId = KindId(13);
/// ReplicaSets.
pub(crate) const REPLICA_SETS: KindId = KindId(14);
/// StatefulSets.
pub(crate) const STATEFUL_SETS: KindId = KindId(15);
/// DaemonSets.
pub(crate) const DAEMON_SETS: KindId = KindId(16);
/// Jobs.
pub(crate) const JOBS: KindId = KindId(17);
/// ReplicationControllers.
pub(crate) const REPLICATION_CONTROLLERS: KindId = KindId(18);
/// Claims of devices.
pub const RESOURCE_CLAIMS: KindId = KindId(19);
/// Templates of claims of devices.
pub(crate) const RESOURCE_CLAIM_TEMPLATES: KindId = KindId(20);
/// Slices of devices.
pub const RESOURCE_SLICES: KindId = KindId(21);
/// Device classes.
pub(crate) const DEVICE_CLASSES: KindId = KindId(22);
/// Groups of pods that are scheduled together.
pub(crate) const POD_GROUPS: KindId = KindId(23);
/// Descriptions of groups of pods.
pub(crate) const WORKLOADS: KindId = KindId(24);

/// Rules that taint devices.
pub(crate) const DEVICE_TAINT_RULES: KindId = KindId(25);

const SLICE_FIELDS: &[(&str, &[&str])] =
    &[("spec.nodeName", &["spec", "nodeName"]), ("spec.driver", &["spec", "driver"])];

const SCALED: &[&str] = &["status", "scale"];

/// Every kind; those with a constant come first.
pub static KINDS: &[Kind] = &[
    Kind::new("", "v1", "Event", "events", true).short(&["ev"]).fields(&[
        ("involvedObject.kind", &["involvedObject", "kind"]),
        ("involvedObject.namespace", &["involvedObject", "namespace"]),
        ("involvedObject.name", &["involvedObject", "name"]),
        ("involvedObject.uid", &["involvedObject", "uid"]),
        ("involvedObject.apiVersion", &["involvedObject", "apiVersion"]),
        ("involvedObject.resourceVersion", &["involvedObject", "resourceVersion"]),
        ("involvedObject.fieldPath", &["involvedObject", "fieldPath"]),
        ("reason", &["reason"]),
        ("reportingComponent", &["reportingComponent"]),
        ("source", &["source", "component"]),
        ("type", &["type"]),
    ]),
    // The same fields in the same order as the core form, since objects are indexed in that form.
    Kind::new("events.k8s.io", "v1", "Event", "events", true)
        .stored_as(EVENTS)
        .short(&["ev"])
        .fields(&[
            ("regarding.kind", &[]),
            ("regarding.namespace", &[]),
            ("regarding.name", &[]),
            ("regarding.uid", &[]),
            ("regarding.apiVersion", &[]),
            ("regarding.resourceVersion", &[]),
            ("regarding.fieldPath", &[]),
            ("reason", &[]),
            ("reportingController", &[]),
            ("source", &[]),
            ("type", &[]),
        ]),
    Kind::new("", "v1", "Namespace", "namespaces", false)
        .short(&["ns"])
        .status()
        .subresources(&["status", "finalize"])
        .fields(&[("status.phase", &["status", "phase"])]),
    Kind::new("", "v1", "Pod", "pods", true)
        .short(&["po"])
        .in_all()
        .status()
        .generation()
        .subresources(&[
            "status",
            "binding",
            "eviction",
            "resize",
            "ephemeralcontainers",
            "portforward",
        ])
        .fields(&[
            ("spec.nodeName", &["spec", "nodeName"]),
            ("status.phase", &["status", "phase"]),
            ("spec.schedulerName", &["spec", "schedulerName"]),
            ("spec.restartPolicy", &["spec", "restartPolicy"]),
            ("spec.serviceAccountName", &["spec", "serviceAccountName"]),
            ("spec.hostNetwork", &["spec", "hostNetwork"]),
            ("status.podIP", &["status", "podIP"]),
            ("status.nominatedNodeName", &["status", "nominatedNodeName"]),
        ]),
    Kind::new("", "v1", "Node", "nodes", false)
        .short(&["no"])
        .status()
        .fields(&[("spec.unschedulable", &["spec", "unschedulable"])]),
    Kind::new("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false)
        .short(&["pc"])
        .generation(),
    Kind::new("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true)
        .short(&["pdb"])
        .status()
        .generation(),
    Kind::new("coordination.k8s.io", "v1", "Lease", "leases", true),
    Kind::new("", "v1", "Binding", "bindings", true).review(),
    Kind::new("", "v1", "PersistentVolume", "persistentvolumes", false).short(&["pv"]).status(),
    Kind::new("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true)
        .short(&["pvc"])
        .status(),
    Kind::new("storage.k8s.io", "v1", "StorageClass", "storageclasses", false).short(&["sc"]),
    Kind::new("storage.k8s.io", "v1", "CSINode", "csinodes", false),
    Kind::new("apps", "v1", "Deployment", "deployments", true)
        .short(&["deploy"])
        .in_all()
        .status()
        .generation()
        .subresources(SCALED),
    Kind::new("apps", "v1", "ReplicaSet", "replicasets", true)
        .short(&["rs"])
        .in_all()
        .status()
        .generation()
        .subresources(SCALED)
        .fields(&[("status.replicas", &["status", "replicas"])]),
    Kind::new("apps", "v1", "StatefulSet", "statefulsets", true)
        .short(&["sts"])
        .in_all()
        .status()
        .generation()
        .subresources(SCALED),
    Kind::new("apps", "v1", "DaemonSet", "daemonsets", true)
        .short(&["ds"])
        .in_all()
        .status()
        .generation(),
    Kind::new("batch", "v1", "Job", "jobs", true)
        .in_all()
        .status()
        .generation()
        .fields(&[("status.successful", &["status", "succeeded"])]),
    Kind::new("", "v1", "ReplicationController", "replicationcontrollers", true)
        .short(&["rc"])
        .in_all()
        .status()
        .generation()
        .subresources(SCALED)
        .fields(&[("status.replicas", &["status", "replicas"])]),
    Kind::new("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", true).status(),
    Kind::new("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", true),
    Kind::new("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", false)
        .generation()
        .fields(SLICE_FIELDS),
    Kind::new("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", false).generation(),
    Kind::new("scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups", true).status().generation(),
    Kind::new("scheduling.k8s.io", "v1alpha2", "Workload", "workloads", true)
        .short(&["wl"])
        .generation(),
    Kind::new("resource.k8s.io", "v1beta2", "DeviceTaintRule", "devicetaintrules", false)
        .status()
        .generation(),
    // The versions that v1.36 can serve have the same fields as v1, except for v1beta1, which is not here.
    Kind::new("resource.k8s.io", "v1beta2", "ResourceClaim", "resourceclaims", true)
        .stored_as(RESOURCE_CLAIMS)
        .status(),
    Kind::new(
        "resource.k8s.io",
        "v1beta2",
        "ResourceClaimTemplate",
        "resourceclaimtemplates",
        true,
    )
    .stored_as(RESOURCE_CLAIM_TEMPLATES),
    Kind::new("resource.k8s.io", "v1beta2", "ResourceSlice", "resourceslices", false)
        .stored_as(RESOURCE_SLICES)
        .generation()
        .fields(SLICE_FIELDS),
    Kind::new("resource.k8s.io", "v1beta2", "DeviceClass", "deviceclasses", false)
        .stored_as(DEVICE_CLASSES)
        .generation(),
    Kind::new("resource.k8s.io", "v1alpha3", "DeviceTaintRule", "devicetaintrules", false)
        .stored_as(DEVICE_TAINT_RULES)
        .status()
        .generation(),
    // A custom resource of scheduler-plugins.
    Kind::new("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups", true)
        .short(&["pg", "pgs"])
        .status()
        .generation(),
    Kind::new("", "v1", "Service", "services", true).short(&["svc"]).in_all().status(),
    Kind::new("", "v1", "ConfigMap", "configmaps", true).short(&["cm"]),
    Kind::new("", "v1", "Secret", "secrets", true).fields(&[("type", &["type"])]),
    Kind::new("", "v1", "ServiceAccount", "serviceaccounts", true).short(&["sa"]),
    Kind::new("", "v1", "LimitRange", "limitranges", true).short(&["limits"]),
    Kind::new("", "v1", "ResourceQuota", "resourcequotas", true).short(&["quota"]).status(),
    Kind::new("", "v1", "Endpoints", "endpoints", true).short(&["ep"]),
    Kind::new("", "v1", "PodTemplate", "podtemplates", true),
    Kind::new("apps", "v1", "ControllerRevision", "controllerrevisions", true),
    Kind::new("batch", "v1", "CronJob", "cronjobs", true)
        .short(&["cj"])
        .in_all()
        .status()
        .generation(),
    Kind::new("storage.k8s.io", "v1", "CSIDriver", "csidrivers", false),
    Kind::new("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", true),
    Kind::new("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", false).status(),
    Kind::new("coordination.k8s.io", "v1beta1", "LeaseCandidate", "leasecandidates", true)
        .fields(&[("spec.leaseName", &["spec", "leaseName"])]),
    Kind::new("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", true)
        .short(&["hpa"])
        .in_all()
        .status(),
    Kind::new("networking.k8s.io", "v1", "Ingress", "ingresses", true)
        .short(&["ing"])
        .status()
        .generation(),
    Kind::new("networking.k8s.io", "v1", "IngressClass", "ingressclasses", false).generation(),
    Kind::new("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", true)
        .short(&["netpol"])
        .generation(),
    Kind::new("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true).generation(),
    Kind::new("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false),
    Kind::new(
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        false,
    ),
    Kind::new("rbac.authorization.k8s.io", "v1", "Role", "roles", true),
    Kind::new("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", true),
    Kind::new("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", false).review(),
    Kind::new("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", false)
        .review(),
    Kind::new("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", false)
        .review(),
    Kind::new(
        "authorization.k8s.io",
        "v1",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        false,
    )
    .review(),
    Kind::new(
        "authorization.k8s.io",
        "v1",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        false,
    )
    .review(),
    Kind::new(
        "authorization.k8s.io",
        "v1",
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        true,
    )
    .review(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_the_positions_of_their_kinds() {
        let expected = [
            (EVENTS, "", "events"),
            (EVENTS_V1, "events.k8s.io", "events"),
            (NAMESPACES, "", "namespaces"),
            (PODS, "", "pods"),
            (NODES, "", "nodes"),
            (PRIORITY_CLASSES, "scheduling.k8s.io", "priorityclasses"),
            (DISRUPTION_BUDGETS, "policy", "poddisruptionbudgets"),
            (LEASES, "coordination.k8s.io", "leases"),
            (BINDINGS, "", "bindings"),
            (PERSISTENT_VOLUMES, "", "persistentvolumes"),
            (PERSISTENT_VOLUME_CLAIMS, "", "persistentvolumeclaims"),
            (STORAGE_CLASSES, "storage.k8s.io", "storageclasses"),
            (CSI_NODES, "storage.k8s.io", "csinodes"),
            (DEPLOYMENTS, "apps", "deployments"),
            (REPLICA_SETS, "apps", "replicasets"),
            (STATEFUL_SETS, "apps", "statefulsets"),
            (DAEMON_SETS, "apps", "daemonsets"),
            (JOBS, "batch", "jobs"),
            (REPLICATION_CONTROLLERS, "", "replicationcontrollers"),
            (RESOURCE_CLAIMS, "resource.k8s.io", "resourceclaims"),
            (RESOURCE_CLAIM_TEMPLATES, "resource.k8s.io", "resourceclaimtemplates"),
            (RESOURCE_SLICES, "resource.k8s.io", "resourceslices"),
            (DEVICE_CLASSES, "resource.k8s.io", "deviceclasses"),
            (POD_GROUPS, "scheduling.k8s.io", "podgroups"),
            (WORKLOADS, "scheduling.k8s.io", "workloads"),
            (DEVICE_TAINT_RULES, "resource.k8s.io", "devicetaintrules"),
        ];
        for (id, group, plural) in expected {
            assert_eq!((id.get().group, id.get().plural), (group, plural));
        }
    }

    #[test]
    fn group_version_and_plural_are_unique() {
        for one in KindId::all() {
            let kind = one.get();
            assert_eq!(KindId::by_plural(kind.group, kind.version, kind.plural), Some(one));
            assert_eq!(KindId::by_manifest(&kind.api_version(), kind.kind), Some(one));
        }
    }

    #[test]
    fn forms_of_a_kind_differ_in_names_alone() {
        assert_eq!(EVENTS_V1.storage(), EVENTS);
        for form in KindId::all() {
            let (kind, storage) = (form.get(), form.storage().get());
            assert_eq!(form.storage().storage(), form.storage());
            assert_eq!((kind.kind, kind.plural), (storage.kind, storage.plural));
            assert_eq!(kind.namespaced, storage.namespaced);
            assert_eq!(kind.subresources, storage.subresources);
            assert_eq!(kind.has_status, storage.has_status);
            assert_eq!(kind.has_generation, storage.has_generation);
            // Objects are indexed in the stored form.
            assert_eq!(kind.fields.len(), storage.fields.len());
            let is_same = |(kind, storage): (&(&str, _), &(&str, _))| kind.0 == storage.0;
            assert!(form == EVENTS_V1 || kind.fields.iter().zip(storage.fields).all(is_same));
        }
    }
}
