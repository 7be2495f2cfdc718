//! Objects that an API server creates for itself: the roles and bindings of the scheduler and of the groups that every
//! user is in, and the configuration that servers read to delegate authentication.
//!
//! Invariant: the scheduler's roles are those of Kubernetes v1.36 with default feature gates, rule by rule.

use serde_json::{Value, json};

use super::authority::Authority;

/// API groups, resources, verbs.
type Rule = (&'static [&'static str], &'static [&'static str], &'static [&'static str]);

const READ: &[&str] = &["get", "list", "watch"];
const CREATE: &[&str] = &["create"];
const COORDINATION: &[&str] = &["coordination.k8s.io"];
const CORE: &[&str] = &[""];
const STORAGE: &[&str] = &["storage.k8s.io"];
const RESOURCE: &[&str] = &["resource.k8s.io"];

const KUBE_SCHEDULER: &[Rule] = &[
    (&["", "events.k8s.io"], &["events"], &["create", "patch", "update"]),
    (COORDINATION, &["leases"], CREATE),
    (
        COORDINATION,
        &["leasecandidates"],
        &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    ),
    (CORE, &["nodes"], READ),
    (CORE, &["pods"], &["delete", "get", "list", "watch"]),
    (CORE, &["bindings", "pods/binding"], CREATE),
    (CORE, &["pods/status"], &["patch", "update"]),
    (CORE, &["replicationcontrollers", "services"], READ),
    (&["apps", "extensions"], &["replicasets"], READ),
    (&["apps"], &["statefulsets"], READ),
    (&["policy"], &["poddisruptionbudgets"], READ),
    (CORE, &["persistentvolumeclaims", "persistentvolumes"], READ),
    (&["authentication.k8s.io"], &["tokenreviews"], CREATE),
    (&["authorization.k8s.io"], &["subjectaccessreviews"], CREATE),
    (STORAGE, &["csinodes"], READ),
    (STORAGE, &["volumeattachments"], READ),
    (CORE, &["namespaces"], READ),
    (STORAGE, &["csidrivers"], READ),
    (STORAGE, &["csistoragecapacities"], READ),
    (RESOURCE, &["deviceclasses"], READ),
    (RESOURCE, &["resourceclaims"], &["get", "list", "patch", "update", "watch"]),
    (RESOURCE, &["resourceclaims/status"], &["get", "list", "patch", "update", "watch"]),
    (CORE, &["pods/finalizers"], &["update"]),
    (RESOURCE, &["resourceslices"], READ),
    (RESOURCE, &["devicetaintrules"], READ),
    (RESOURCE, &["resourceclaims"], &["create", "delete"]),
    (RESOURCE, &["resourceclaims/binding"], &["patch", "update"]),
];

const VOLUME_SCHEDULER: &[Rule] = &[
    (CORE, &["persistentvolumes"], &["get", "list", "patch", "update", "watch"]),
    (STORAGE, &["storageclasses"], READ),
    (CORE, &["persistentvolumeclaims"], &["get", "list", "patch", "update", "watch"]),
];

const BASIC_USER: &[Rule] = &[
    (&["authorization.k8s.io"], &["selfsubjectaccessreviews", "selfsubjectrulesreviews"], CREATE),
    (&["authentication.k8s.io"], &["selfsubjectreviews"], CREATE),
];

const AUTH_DELEGATOR: &[Rule] = &[
    (&["authentication.k8s.io"], &["tokenreviews"], CREATE),
    (&["authorization.k8s.io"], &["subjectaccessreviews"], CREATE),
];

const LEADER_LOCKING: &[Rule] = &[
    (COORDINATION, &["leases"], &["create", "get", "list", "update", "watch"]),
    (COORDINATION, &["leasecandidates"], &["create", "get", "list", "update", "watch"]),
];

const DISCOVERY: &[&str] = &[
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
];

const PUBLIC_INFO: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];

const MONITORING: &[&str] = &[
    "/flagz",
    "/healthz",
    "/healthz/*",
    "/livez",
    "/livez/*",
    "/metrics",
    "/metrics/slis",
    "/readyz",
    "/readyz/*",
    "/statusz",
];

/// Roles and bindings that exist from the start.
pub(crate) fn standing_policy() -> Vec<Value> {
    let system = "kube-system";
    let scheduler = user("system:kube-scheduler");
    // Rules that the table cannot express are added by hand: with names of objects, or with paths.
    let mut of_scheduler = rules(KUBE_SCHEDULER);
    of_scheduler.push(json!({"apiGroups": COORDINATION, "resources": ["leases"],
        "resourceNames": ["kube-scheduler"], "verbs": ["get", "list", "update", "watch"]}));
    let mut monitoring = rules(&[(CORE, &["nodes/metrics"], &["get"])]);
    monitoring.push(paths(MONITORING));
    let everything = vec![
        json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}),
        json!({"nonResourceURLs": ["*"], "verbs": ["*"]}),
    ];
    let reader = vec![json!({"apiGroups": CORE, "resources": ["configmaps"],
        "resourceNames": ["extension-apiserver-authentication"], "verbs": READ})];
    let authenticated = || group("system:authenticated");
    let everyone = json!([group("system:authenticated"), group("system:unauthenticated")]);
    vec![
        role("", "cluster-admin", everything),
        role("", "system:basic-user", rules(BASIC_USER)),
        role("", "system:discovery", vec![paths(DISCOVERY)]),
        role("", "system:public-info-viewer", vec![paths(PUBLIC_INFO)]),
        role("", "system:monitoring", monitoring),
        role("", "system:auth-delegator", rules(AUTH_DELEGATOR)),
        role("", "system:kube-scheduler", of_scheduler),
        role("", "system:volume-scheduler", rules(VOLUME_SCHEDULER)),
        role(system, "extension-apiserver-authentication-reader", reader),
        role(system, "system::leader-locking-kube-scheduler", rules(LEADER_LOCKING)),
        binding("", "cluster-admin", "cluster-admin", json!([group("system:masters")])),
        binding("", "system:basic-user", "system:basic-user", json!([authenticated()])),
        binding("", "system:discovery", "system:discovery", json!([authenticated()])),
        binding("", "system:public-info-viewer", "system:public-info-viewer", everyone),
        binding("", "system:monitoring", "system:monitoring", json!([group("system:monitoring")])),
        binding("", "system:kube-scheduler", "system:kube-scheduler", json!([scheduler])),
        binding("", "system:volume-scheduler", "system:volume-scheduler", json!([scheduler])),
        binding(
            system,
            "system::extension-apiserver-authentication-reader",
            "extension-apiserver-authentication-reader",
            json!([user("system:kube-controller-manager"), scheduler]),
        ),
        binding(
            system,
            "system::leader-locking-kube-scheduler",
            "system::leader-locking-kube-scheduler",
            json!([scheduler,
                {"kind": "ServiceAccount", "name": "kube-scheduler", "namespace": system}]),
        ),
    ]
}

/// The config map from which servers other than the API server learn which authorities to trust.
pub(crate) fn authentication_config(
    clients: Option<&Authority>,
    front_proxy: Option<&Authority>,
) -> Value {
    let mut data = json!({});
    if let Some(clients) = clients {
        data["client-ca-file"] = clients.pem().into();
    }
    if let Some(front_proxy) = front_proxy {
        data["requestheader-client-ca-file"] = front_proxy.pem().into();
        data["requestheader-allowed-names"] = json!(["front-proxy-client"]).to_string().into();
        for (key, header) in [
            ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
            ("requestheader-group-headers", "X-Remote-Group"),
            ("requestheader-username-headers", "X-Remote-User"),
        ] {
            data[key] = json!([header]).to_string().into();
        }
    }
    let metadata =
        json!({"name": "extension-apiserver-authentication", "namespace": "kube-system"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

fn rules(table: &[Rule]) -> Vec<Value> {
    let rule = |(groups, resources, verbs): &Rule| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    table.iter().map(rule).collect()
}

fn paths(paths: &[&str]) -> Value {
    json!({"nonResourceURLs": paths, "verbs": ["get"]})
}

fn user(name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name})
}

fn group(name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name})
}

fn role(namespace: &str, name: &str, rules: Vec<Value>) -> Value {
    let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": metadata(namespace, name), "rules": rules})
}

fn binding(namespace: &str, name: &str, role: &str, subjects: Value) -> Value {
    let (kind, role_kind) = if namespace.is_empty() {
        ("ClusterRoleBinding", "ClusterRole")
    } else {
        ("RoleBinding", "Role")
    };
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": metadata(namespace, name), "subjects": subjects,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role}})
}

fn metadata(namespace: &str, name: &str) -> Value {
    let mut metadata =
        json!({"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}});
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    metadata
}
