//! Which kinds of objects are followed, and where they are served.
//!
//! Invariant: pods, nodes and namespaces are always among them, in this order; pods that have ended are left out by the
//! server, so that the end of a pod arrives as a deletion.

#[cfg(test)]
mod rights;
pub(crate) mod versions;

use kube_scheduler_api_types::CompileOptions;
use kube_scheduler_framework::ObjectKey;

use crate::engine_log::UNHANDLED_ERROR;

/// How objects of a kind are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As a pod.
    Pod,
    /// As a node.
    Node,
    /// As JSON with a header.
    Generic,
}

/// Which objects of a kind are kept in full, because extenders or plugins read more of them than the scheduler does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Retention {
    /// None: what the scheduler reads is enough.
    #[default]
    Nothing,
    /// Pods without a node.
    Pending,
    /// All.
    All,
}

/// One kind to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchedKind {
    /// The name in logs, metrics and messages: the plural, with the group behind a dot.
    pub(crate) name: String,
    /// Where all its objects are listed.
    pub(crate) path: String,
    /// `apiVersion`, which items of a list leave out.
    pub(crate) api_version: String,
    /// `kind`; empty when only the server knows it.
    pub(crate) kind: &'static str,
    /// Which objects to leave out.
    pub(crate) field_selector: Option<&'static str>,
    /// How to read them.
    pub(crate) form: Form,
    /// The feature gates under which pods are read.
    pub(crate) pod_options: CompileOptions,
    /// Which pods or nodes are kept in full.
    pub(crate) keep: Retention,
    /// Whether the scheduler works with a server that does not serve the kind.
    pub(crate) is_optional: bool,
    /// The versions in which a server may serve it, the best first; empty where all servers serve it in the same one.
    pub(crate) versions: &'static [&'static str],
}

/// Resources that plugins register for or read: the name in registrations, group, version, plural, kind.
const KNOWN: [(&str, &str, &str, &str, &str); 18] = [
    ("PersistentVolume", "", "v1", "persistentvolumes", "PersistentVolume"),
    ("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    ("storage.k8s.io/CSINode", "storage.k8s.io", "v1", "csinodes", "CSINode"),
    ("storage.k8s.io/CSIDriver", "storage.k8s.io", "v1", "csidrivers", "CSIDriver"),
    (
        "storage.k8s.io/VolumeAttachment",
        "storage.k8s.io",
        "v1",
        "volumeattachments",
        "VolumeAttachment",
    ),
    (
        "storage.k8s.io/CSIStorageCapacity",
        "storage.k8s.io",
        "v1",
        "csistoragecapacities",
        "CSIStorageCapacity",
    ),
    ("storage.k8s.io/StorageClass", "storage.k8s.io", "v1", "storageclasses", "StorageClass"),
    ("resource.k8s.io/ResourceClaim", "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim"),
    ("resource.k8s.io/ResourceSlice", "resource.k8s.io", "v1", "resourceslices", "ResourceSlice"),
    ("resource.k8s.io/DeviceClass", "resource.k8s.io", "v1", "deviceclasses", "DeviceClass"),
    (
        "devicetaintrules.v1beta2.resource.k8s.io",
        "resource.k8s.io",
        "v1beta2",
        "devicetaintrules",
        "DeviceTaintRule",
    ),
    ("scheduling.k8s.io/PodGroup", "scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup"),
    (
        "podgroups.v1alpha1.scheduling.x-k8s.io",
        "scheduling.x-k8s.io",
        "v1alpha1",
        "podgroups",
        "PodGroup",
    ),
    ("services.v1.", "", "v1", "services", "Service"),
    ("replicationcontrollers.v1.", "", "v1", "replicationcontrollers", "ReplicationController"),
    ("replicasets.v1.apps", "apps", "v1", "replicasets", "ReplicaSet"),
    ("statefulsets.v1.apps", "apps", "v1", "statefulsets", "StatefulSet"),
    (
        "poddisruptionbudgets.v1.policy",
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
    ),
];

/// The plural of a known kind.
pub(crate) fn plural_of(group: &str, kind: &str) -> Option<&'static str> {
    KNOWN.iter().find(|known| known.1 == group && known.4 == kind).map(|known| known.3)
}

/// Where one object of a known kind is served, in `version` if it is known which one; `None` for other kinds. Without a
/// name, the path ends with a slash.
pub(crate) fn path_of(key: &ObjectKey, version: Option<&str>) -> Option<String> {
    let ObjectKey { group, kind, namespace, name } = key;
    let (usual, plural) = if (&**group, &**kind) == ("", "Pod") {
        ("v1", "pods")
    } else {
        let known = KNOWN.iter().find(|known| known.1 == &**group && known.4 == &**kind)?;
        (known.2, known.3)
    };
    let version = version.unwrap_or(usual);
    let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
    Some(if namespace.is_empty() {
        format!("{root}/{version}/{plural}/{name}")
    } else {
        format!("{root}/{version}/namespaces/{namespace}/{plural}/{name}")
    })
}

impl WatchedKind {
    /// Pods that have not ended.
    pub(crate) fn pods() -> Self {
        Self {
            form: Form::Pod,
            field_selector: Some("status.phase!=Succeeded,status.phase!=Failed"),
            ..Self::new("", "v1", "pods", "Pod")
        }
    }

    /// Nodes.
    pub(crate) fn nodes() -> Self {
        Self { form: Form::Node, ..Self::new("", "v1", "nodes", "Node") }
    }

    /// What is always followed, and what plugins registered for, by the names in their registrations.
    pub(crate) fn all_for<'a>(registered: impl IntoIterator<Item = &'a str>) -> Vec<Self> {
        let mut kinds =
            vec![Self::pods(), Self::nodes(), Self::new("", "v1", "namespaces", "Namespace")];
        for name in registered {
            let Some(kind) = Self::of_registration(name) else { continue };
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    /// Every kind that decisions may depend on, and those that manifests of pods name.
    pub(crate) fn all_readable() -> Vec<Self> {
        let mut kinds = Self::all_for(KNOWN.iter().map(|known| known.0));
        for (group, plural, kind) in [
            ("scheduling.k8s.io", "priorityclasses", "PriorityClass"),
            ("resource.k8s.io", "resourceclaimtemplates", "ResourceClaimTemplate"),
        ] {
            kinds.push(Self { is_optional: true, ..Self::new(group, "v1", plural, kind) });
        }
        kinds
    }

    /// Whether schedulers change objects of this kind, or count on them in every decision: what a new leader must have
    /// seen in their latest state.
    pub(crate) fn matters_at_take_over(&self) -> bool {
        matches!(
            self.kind,
            "Pod"
                | "Node"
                | "PersistentVolume"
                | "PersistentVolumeClaim"
                | "ResourceClaim"
                | "PodGroup"
        )
    }

    /// The same kind, with pods or nodes kept in full.
    pub(crate) fn keeping(self, pods: Retention, nodes: Retention) -> Self {
        let keep = match self.form {
            Form::Pod => pods,
            Form::Node => nodes,
            Form::Generic => Retention::Nothing,
        };
        Self { keep, ..self }
    }

    /// The same kind, with pods read under these feature gates.
    pub(crate) fn reading_pods(self, pod_options: CompileOptions) -> Self {
        Self { pod_options, ..self }
    }

    /// The API group; empty for the core group.
    pub(crate) fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The plural, as in paths.
    pub(crate) fn plural(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(_, plural)| plural)
    }

    /// The same kind in another version of its group.
    pub(crate) fn in_version(self, version: &str) -> Self {
        let (group, plural) = (self.group(), self.plural());
        let path = format!("/apis/{group}/{version}/{plural}");
        let api_version = format!("{group}/{version}");
        Self { path, api_version, ..self }
    }

    /// Whether its objects are read in protobuf. Whole objects are kept, and other kinds read, as JSON.
    pub(crate) fn speaks_protobuf(&self) -> bool {
        self.form != Form::Generic && self.keep == Retention::Nothing
    }

    fn of_registration(name: &str) -> Option<Self> {
        if matches!(name, "Pod" | "AssignedPod" | "UnschedulablePod" | "Node" | "*") {
            return None;
        }
        if let Some((_, group, version, plural, kind)) = KNOWN.iter().find(|known| known.0 == name)
        {
            return Some(Self { is_optional: true, ..Self::new(group, version, plural, kind) });
        }
        // Anything else is `<plural>.<version>.<group>`.
        let parsed =
            name.split_once('.').and_then(|(plural, rest)| Some((plural, rest.split_once('.')?)));
        match parsed {
            Some((plural, (version, group))) => {
                Some(Self { is_optional: true, ..Self::new(group, version, plural, "") })
            }
            None => {
                tracing::error!(
                    logger = UNHANDLED_ERROR,
                    gvk = name,
                    "Incorrect event registration"
                );
                None
            }
        }
    }

    fn new(group: &str, version: &str, plural: &str, kind: &'static str) -> Self {
        let (name, api_version, root) = if group.is_empty() {
            (plural.to_owned(), version.to_owned(), "/api/".to_owned())
        } else {
            (format!("{plural}.{group}"), format!("{group}/{version}"), format!("/apis/{group}/"))
        };
        let path = format!("{root}{version}/{plural}");
        let versions = versions::of(&name);
        Self {
            name,
            path,
            api_version,
            kind,
            field_selector: None,
            form: Form::Generic,
            pod_options: CompileOptions::default(),
            keep: Retention::Nothing,
            is_optional: false,
            versions,
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_api_types::Object;

    use super::*;

    #[test]
    fn registrations_name_kinds() {
        let kinds = WatchedKind::all_for([
            "Node",
            "storage.k8s.io/CSINode",
            "foos.v1.example.com",
            "Node",
            "nonsense",
            "services.v1.",
            "replicasets.v1.apps",
        ]);
        let paths: Vec<&str> = kinds.iter().map(|kind| kind.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "/api/v1/pods",
                "/api/v1/nodes",
                "/api/v1/namespaces",
                "/apis/storage.k8s.io/v1/csinodes",
                "/apis/example.com/v1/foos",
                "/api/v1/services",
                "/apis/apps/v1/replicasets"
            ]
        );
    }

    #[test]
    fn objects_are_written_where_their_kind_is_served() {
        let object = |json: &str| Object::from_json(json.as_bytes()).unwrap();
        let cases = [
            (
                r#"{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv-1"}}"#,
                Some("/api/v1/persistentvolumes/pv-1"),
            ),
            (
                r#"{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data","namespace":"web"}}"#,
                Some("/api/v1/namespaces/web/persistentvolumeclaims/data"),
            ),
            (
                r#"{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"fast"}}"#,
                Some("/apis/storage.k8s.io/v1/storageclasses/fast"),
            ),
            (
                r#"{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"gpu","namespace":"ml"}}"#,
                Some("/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/gpu"),
            ),
            (
                // The version is the object's own, not the one that is followed.
                r#"{"apiVersion":"resource.k8s.io/v1beta2","kind":"ResourceClaim","metadata":{"name":"gpu","namespace":"ml"}}"#,
                Some("/apis/resource.k8s.io/v1beta2/namespaces/ml/resourceclaims/gpu"),
            ),
            (
                // The same kind in another group is another kind.
                r#"{"apiVersion":"example.com/v1","kind":"PersistentVolume","metadata":{"name":"pv-1"}}"#,
                None,
            ),
            (
                r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"web"}}"#,
                None,
            ),
        ];
        for (json, path) in cases {
            let object = object(json);
            let found = path_of(&ObjectKey::from(&object), Some(&object.version));
            assert_eq!(found.as_deref(), path, "{json}");
        }
    }
}
