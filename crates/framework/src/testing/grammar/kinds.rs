//! The kinds of objects, what each starts with, and its words.

use kube_scheduler_api_types::well_known::{HOSTNAME, REGION, ZONE};
use serde_json::{Value, json};

use super::words::{Rule, Word, word};
use super::words::{
    access_modes, affinity_term, bound_volume, claim, claim_reference, csi_driver, csi_volume,
    ephemeral, gang, gate, hard_spread, image, label_selector, node_term, owner, port,
    preferred_affinity_term, preferred_node_term, soft_spread, taint, text_item, toleration,
    topology, volume,
};

/// One kind of object.
#[derive(Debug)]
pub(in crate::testing) struct Kind {
    /// The first word of its statements.
    pub(super) word: &'static str,
    api_version: &'static str,
    kind: &'static str,
    pub(super) is_namespaced: bool,
    /// What is merged into a new object, with the UID that it gets.
    template: fn(name: &str) -> Value,
    /// Where quantities of resources go.
    pub(super) resources: Option<&'static [&'static str]>,
    pub(super) words: &'static [Word],
}

impl Kind {
    /// A new object.
    pub(super) fn start(&self, namespace: &str, name: &str) -> Value {
        let mut value = (self.template)(name);
        value["apiVersion"] = self.api_version.into();
        value["kind"] = self.kind.into();
        value["metadata"]["name"] = name.into();
        value["metadata"]["uid"] = name.into();
        if self.is_namespaced {
            value["metadata"]["namespace"] = namespace.into();
            value["metadata"]["uid"] = format!("{name}-uid").into();
        }
        value
    }
}

/// The kind that statements with this first word describe.
pub(super) fn find(word: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.word == word)
}

#[cfg(test)]
pub(super) fn all() -> &'static [Kind] {
    KINDS
}

/// All first words, for errors.
pub(super) fn names() -> String {
    let words: Vec<&str> = KINDS.iter().map(|kind| kind.word).collect();
    format!("{} or object", words.join(", "))
}

/// The words of every kind.
pub(super) const COMMON: &[Word] = &[
    word("label", ":KEY=VALUE", Rule::Map(&["metadata", "labels"])),
    word("annotation", ":KEY=VALUE", Rule::Map(&["metadata", "annotations"])),
    word("uid", "=TEXT", Rule::Text(&["metadata", "uid"])),
    word("version", "=TEXT", Rule::Text(&["metadata", "resourceVersion"])),
    word("created", "=TIME", Rule::Time(&["metadata", "creationTimestamp"])),
    word("deleted", "=TIME", Rule::Time(&["metadata", "deletionTimestamp"])),
    word("owner", "=UID", Rule::Item(&["metadata", "ownerReferences"], owner)),
];

/// Nodes.
pub(in crate::testing) const NODE: Kind = Kind {
    word: "node",
    api_version: "v1",
    kind: "Node",
    is_namespaced: false,
    template: |name| {
        json!({
            "metadata": {"labels": {HOSTNAME: name}}, "spec": {},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
        })
    },
    resources: Some(&["status", "allocatable"]),
    words: &[
        word("zone", "=ZONE", Rule::Text(&["metadata", "labels", ZONE])),
        word("region", "=REGION", Rule::Text(&["metadata", "labels", REGION])),
        word("host", "=HOST", Rule::Text(&["metadata", "labels", HOSTNAME])),
        word("taint", ":KEY[=VALUE]:EFFECT", Rule::Item(&["spec", "taints"], taint)),
        word("unschedulable", "", Rule::Flag(&["spec", "unschedulable"])),
        word("image", "=NAME[=SIZE]", Rule::Item(&["status", "images"], image)),
        word("feature", "=NAME", Rule::Item(&["status", "declaredFeatures"], text_item)),
    ],
};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

const NODE_TERMS: &[&str] = &["spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"];
const AFFINITY: &[&str] = &["spec", "affinity", "podAffinity", REQUIRED];
const ANTI_AFFINITY: &[&str] = &["spec", "affinity", "podAntiAffinity", REQUIRED];
const PREFERRED_ANTI_AFFINITY: &[&str] = &["spec", "affinity", "podAntiAffinity", PREFERRED];
const SPREADING: &[&str] = &["spec", "topologySpreadConstraints"];
const PORTS: &[&str] = &["spec", "containers", "0", "ports"];

/// Pods.
pub(in crate::testing) const POD: Kind = Kind {
    word: "pod",
    api_version: "v1",
    kind: "Pod",
    is_namespaced: true,
    template: |_| {
        json!({"spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "main", "image": "main:1", "resources": {"requests": {}}}],
        }})
    },
    resources: Some(&["spec", "containers", "0", "resources", "requests"]),
    words: &[
        word("node", "=NODE", Rule::Text(&["spec", "nodeName"])),
        word("nominated", "=NODE", Rule::Text(&["status", "nominatedNodeName"])),
        word("priority", "=NUMBER", Rule::Number(&["spec", "priority"])),
        word("preemption", "=POLICY", Rule::Text(&["spec", "preemptionPolicy"])),
        word("scheduler", "=NAME", Rule::Text(&["spec", "schedulerName"])),
        word("selector", ":KEY=VALUE", Rule::Map(&["spec", "nodeSelector"])),
        word("tolerate", ":KEY[=VALUE][:EFFECT]", Rule::Item(&["spec", "tolerations"], toleration)),
        word("node-affinity", "=SELECTOR", Rule::Item(NODE_TERMS, node_term)),
        word(
            "prefer-node-affinity",
            "=WEIGHT:SELECTOR",
            Rule::Item(&["spec", "affinity", "nodeAffinity", PREFERRED], preferred_node_term),
        ),
        word("affinity", "=TOPOLOGY:SELECTOR", Rule::Item(AFFINITY, affinity_term)),
        word(
            "prefer-affinity",
            "=WEIGHT:TOPOLOGY:SELECTOR",
            Rule::Item(&["spec", "affinity", "podAffinity", PREFERRED], preferred_affinity_term),
        ),
        word("anti-affinity", "=TOPOLOGY:SELECTOR", Rule::Item(ANTI_AFFINITY, affinity_term)),
        word(
            "prefer-anti-affinity",
            "=WEIGHT:TOPOLOGY:SELECTOR",
            Rule::Item(PREFERRED_ANTI_AFFINITY, preferred_affinity_term),
        ),
        word("spread", "=TOPOLOGY:SKEW[:SELECTOR]", Rule::Item(SPREADING, hard_spread)),
        word("prefer-spread", "=TOPOLOGY:SKEW[:SELECTOR]", Rule::Item(SPREADING, soft_spread)),
        word("port", "=[IP:]PORT[/PROTOCOL]", Rule::Item(PORTS, port)),
        word("image", "=NAME", Rule::Text(&["spec", "containers", "0", "image"])),
        word("claim", "=NAME", Rule::Named(&["spec", "volumes"], claim)),
        word("ephemeral", "=NAME", Rule::Item(&["spec", "volumes"], ephemeral)),
        word("volume", "=JSON", Rule::Named(&["spec", "volumes"], volume)),
        word("gate", "=NAME", Rule::Item(&["spec", "schedulingGates"], gate)),
        word("group", "=NAME", Rule::Text(&["spec", "schedulingGroup", "podGroupName"])),
        word("started", "=TIME", Rule::Time(&["status", "startTime"])),
        word("phase", "=PHASE", Rule::Text(&["status", "phase"])),
    ],
};

const STORAGE_CLASS: &[&str] = &["spec", "storageClassName"];
const VOLUME_MODE: &[&str] = &["spec", "volumeMode"];
const CLAIM_REFERENCE: &[&str] = &["spec", "claimRef"];
const VOLUME_NODES: &[&str] = &["spec", "nodeAffinity", "required", "nodeSelectorTerms"];

const CLAIM: Kind = Kind {
    word: "pvc",
    kind: "PersistentVolumeClaim",
    is_namespaced: true,
    template: |_| {
        json!({
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"},
        })
    },
    words: &[
        word("storage", "=QUANTITY", Rule::Quantity(&["spec", "resources", "requests", "storage"])),
        word("class", "=NAME", Rule::Text(STORAGE_CLASS)),
        word("access", "=MODE[,MODE]", Rule::Value(&["spec", "accessModes"], access_modes)),
        word("volume", "=PV", Rule::Text(&["spec", "volumeName"])),
        word("bound", "=PV", Rule::Merge(bound_volume)),
        word("selector", "=SELECTOR", Rule::Value(&["spec", "selector"], label_selector)),
        word("mode", "=MODE", Rule::Text(VOLUME_MODE)),
        word("phase", "=PHASE", Rule::Text(&["status", "phase"])),
    ],
    ..PLAIN
};

const VOLUME: Kind = Kind {
    word: "pv",
    kind: "PersistentVolume",
    template: |_| {
        json!({
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}},
            "status": {"phase": "Available"},
        })
    },
    words: &[
        word("storage", "=QUANTITY", Rule::Quantity(&["spec", "capacity", "storage"])),
        word("class", "=NAME", Rule::Text(STORAGE_CLASS)),
        word("access", "=MODE[,MODE]", Rule::Value(&["spec", "accessModes"], access_modes)),
        word("claim", "=[NAMESPACE/]NAME[:UID]", Rule::Value(CLAIM_REFERENCE, claim_reference)),
        word("csi", "=DRIVER[:HANDLE]", Rule::Value(&["spec", "csi"], csi_volume)),
        word("node-affinity", "=SELECTOR", Rule::Item(VOLUME_NODES, node_term)),
        word("mode", "=MODE", Rule::Text(VOLUME_MODE)),
        word("phase", "=PHASE", Rule::Text(&["status", "phase"])),
    ],
    ..PLAIN
};

/// A cluster-wide kind of the core group without words.
const PLAIN: Kind = Kind {
    word: "namespace",
    api_version: "v1",
    kind: "Namespace",
    is_namespaced: false,
    template: |_| json!({}),
    resources: None,
    words: &[],
};

const STORAGE: Kind = Kind { api_version: "storage.k8s.io/v1", ..PLAIN };

const KINDS: &[Kind] = &[
    NODE,
    POD,
    PLAIN,
    CLAIM,
    VOLUME,
    Kind {
        word: "storageclass",
        kind: "StorageClass",
        template: |_| {
            json!({
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer",
            })
        },
        words: &[
            word("provisioner", "=NAME", Rule::Text(&["provisioner"])),
            word("binding", "=MODE", Rule::Text(&["volumeBindingMode"])),
        ],
        ..STORAGE
    },
    Kind {
        word: "csinode",
        kind: "CSINode",
        words: &[word("driver", "=NAME[:COUNT]", Rule::Item(&["spec", "drivers"], csi_driver))],
        ..STORAGE
    },
    Kind { word: "csidriver", kind: "CSIDriver", ..STORAGE },
    Kind {
        word: "attachment",
        kind: "VolumeAttachment",
        words: &[
            word("driver", "=NAME", Rule::Text(&["spec", "attacher"])),
            word("node", "=NODE", Rule::Text(&["spec", "nodeName"])),
            word("volume", "=PV", Rule::Text(&["spec", "source", "persistentVolumeName"])),
        ],
        ..STORAGE
    },
    Kind {
        word: "capacity",
        kind: "CSIStorageCapacity",
        is_namespaced: true,
        words: &[
            word("class", "=NAME", Rule::Text(&["storageClassName"])),
            word("free", "=QUANTITY", Rule::Quantity(&["capacity"])),
            word("topology", "=SELECTOR", Rule::Value(&["nodeTopology"], label_selector)),
        ],
        ..STORAGE
    },
    Kind {
        word: "service",
        kind: "Service",
        is_namespaced: true,
        words: &[word("selector", ":KEY=VALUE", Rule::Map(&["spec", "selector"]))],
        ..PLAIN
    },
    Kind {
        word: "pdb",
        api_version: "policy/v1",
        kind: "PodDisruptionBudget",
        is_namespaced: true,
        words: &[
            word("selector", "=SELECTOR", Rule::Value(&["spec", "selector"], label_selector)),
            word("allowed", "=NUMBER", Rule::Number(&["status", "disruptionsAllowed"])),
        ],
        ..PLAIN
    },
    Kind {
        word: "deviceclass",
        api_version: "resource.k8s.io/v1",
        kind: "DeviceClass",
        words: &[word("resource", "=NAME", Rule::Text(&["spec", "extendedResourceName"]))],
        ..PLAIN
    },
    Kind {
        word: "podgroup",
        api_version: "scheduling.k8s.io/v1alpha2",
        kind: "PodGroup",
        is_namespaced: true,
        template: |_| json!({"spec": {"schedulingPolicy": {"basic": {}}}}),
        words: &[
            word("min", "=NUMBER", Rule::Value(&["spec", "schedulingPolicy"], gang)),
            word(
                "topology",
                "=TOPOLOGY",
                Rule::Item(&["spec", "schedulingConstraints", "topology"], topology),
            ),
            word("priority", "=NUMBER", Rule::Number(&["spec", "priority"])),
        ],
        ..PLAIN
    },
    Kind {
        word: "priorityclass",
        api_version: "scheduling.k8s.io/v1",
        kind: "PriorityClass",
        words: &[word("value", "=NUMBER", Rule::Number(&["value"]))],
        ..PLAIN
    },
];
