//! Defaults and admission: what the server fills in when an object is created or changed.
//!
//! Covered: of pods everything that a scheduler, a kubelet or kubectl reads, and of other kinds the few defaults without
//! which clients fail.

use kube_scheduler_api_types::default_device_requests;
use kube_scheduler_api_types::well_known::{POD_SCHEDULED, STORAGE_CLASS_ANNOTATION};
use serde_json::{Map, Value, json};

use crate::clock::to_rfc3339;
use crate::groups;
use crate::kinds::{
    DISRUPTION_BUDGETS, EVENTS, Kind, KindId, NAMESPACES, NODES, POD_GROUPS, PODS,
    PRIORITY_CLASSES, STORAGE_CLASSES,
};
use crate::object::{at, child_mut, list_at, list_mut, map_mut, text_at};
use crate::status::StatusError;
use crate::store::State;
use crate::validation::{has_pod_template, parse_amount};

const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// Fills in the defaults of an object, on creation and on every change.
pub(crate) fn apply(kind: KindId, value: &mut Value) {
    if kind == PODS {
        default_pod_spec(child_mut(value, "spec"));
        return;
    }
    // The status first: a change of the main part of a node may set its capacity as well.
    apply_to_status(kind, value);
    let entry = kind.get();
    if has_pod_template(entry) {
        apply_to_workload(entry, value);
    }
    match entry.kind {
        "Service" => {
            let spec = child_mut(value, "spec");
            spec.entry("type").or_insert(json!("ClusterIP"));
            spec.entry("sessionAffinity").or_insert(json!("None"));
            for port in list_mut_if_present(spec, "ports") {
                map_mut(port).entry("protocol").or_insert(json!("TCP"));
            }
        }
        "StorageClass" => {
            let class = map_mut(value);
            class.entry("reclaimPolicy").or_insert(json!("Delete"));
            class.entry("volumeBindingMode").or_insert(json!("Immediate"));
        }
        "PersistentVolume" => {
            let spec = child_mut(value, "spec");
            spec.entry("persistentVolumeReclaimPolicy").or_insert(json!("Retain"));
            spec.entry("volumeMode").or_insert(json!("Filesystem"));
        }
        "PersistentVolumeClaim" => {
            child_mut(value, "spec").entry("volumeMode").or_insert(json!("Filesystem"));
        }
        "PodGroup" | "Workload" if !entry.is_custom() => groups::apply_defaults(entry.kind, value),
        "ResourceClaim" => {
            value.pointer_mut("/spec").map(default_device_requests);
        }
        "ResourceClaimTemplate" => {
            value.pointer_mut("/spec/spec").map(default_device_requests);
        }
        "Secret" => {
            map_mut(value).entry("type").or_insert(json!("Opaque"));
        }
        "PriorityClass" => {
            map_mut(value).entry("preemptionPolicy").or_insert(json!("PreemptLowerPriority"));
        }
        _ => {}
    }
}

/// Fills in the defaults of a kind that makes pods, those of its template included.
fn apply_to_workload(entry: &Kind, value: &mut Value) {
    let spec = child_mut(value, "spec");
    if matches!(entry.kind, "Deployment" | "ReplicaSet" | "StatefulSet" | "ReplicationController") {
        spec.entry("replicas").or_insert(json!(1));
    }
    if let Some(template) = spec.get_mut("template") {
        default_pod_spec(child_mut(template, "spec"));
    }
    match entry.kind {
        "Job" => {
            if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
                spec.insert("completions".into(), json!(1));
            }
            set_missing(spec, [("parallelism", json!(1)), ("backoffLimit", json!(6))]);
        }
        "Deployment" => {
            set_missing(
                spec,
                [("revisionHistoryLimit", json!(10)), ("progressDeadlineSeconds", json!(600))],
            );
            let quarter = || json!("25%");
            let parameters = [("maxSurge", quarter()), ("maxUnavailable", quarter())];
            default_rollout(child_mut_of(spec, "strategy"), parameters);
        }
        "StatefulSet" => {
            set_missing(spec, [("podManagementPolicy", json!("OrderedReady"))]);
            default_rollout(child_mut_of(spec, "updateStrategy"), [("partition", json!(0))]);
        }
        "DaemonSet" => {
            let parameters = [("maxSurge", json!(0)), ("maxUnavailable", json!(1))];
            default_rollout(child_mut_of(spec, "updateStrategy"), parameters);
        }
        _ => {}
    }
}

/// Fills in the defaults of a status: without an allocatable, a node's whole capacity is allocatable.
pub(crate) fn apply_to_status(kind: KindId, value: &mut Value) {
    if kind == NODES {
        let status = child_mut(value, "status");
        if let Some(capacity) = status.get("capacity").cloned() {
            status.entry("allocatable").or_insert(capacity);
        }
    }
}

/// Does on creation what admission does; `keep_status` keeps the status that the object comes with.
///
/// # Errors
/// Status 403 for a pod with an unknown priority class or the wrong priority, and for a priority class out of range.
pub(crate) fn admit(
    state: &State,
    kind: KindId,
    value: &mut Value,
    keep_status: bool,
) -> Result<(), StatusError> {
    let entry = kind.get();
    // As in Kubernetes, nodes are the exception: they may be created with their status.
    if entry.has_status && !keep_status && kind != NODES {
        map_mut(value).remove("status");
    }
    apply(kind, value);
    match kind {
        PODS => admit_pod(state, value)?,
        NAMESPACES => {
            let name = text_at(value, &["metadata", "name"]).to_owned();
            let meta = crate::object::meta_mut(value);
            child_mut_of(meta, "labels")
                .entry("kubernetes.io/metadata.name")
                .or_insert(name.into());
            child_mut(value, "spec").entry("finalizers").or_insert(json!(["kubernetes"]));
            child_mut(value, "status").entry("phase").or_insert(json!("Active"));
        }
        PRIORITY_CLASSES => {
            let number = value.get("value").and_then(Value::as_i64);
            let name = text_at(value, &["metadata", "name"]);
            let is_system = SYSTEM_CLASSES.iter().any(|(class, _)| *class == name);
            if !is_system && number.is_some_and(|number| number > 1_000_000_000) {
                let why = "maximum allowed value of a user defined priority is 1000000000";
                return Err(StatusError::forbidden(entry, name, why));
            }
        }
        EVENTS => {
            let event = map_mut(value);
            let legacy = !event.contains_key("eventTime");
            event.entry("type").or_insert(json!("Normal"));
            if legacy {
                event.entry("count").or_insert(json!(1));
            }
        }
        POD_GROUPS => groups::admit_group(state, value)?,
        DISRUPTION_BUDGETS => {}
        _ => match entry.kind {
            "PersistentVolumeClaim" => {
                choose_class(state, value);
                child_mut(value, "status").entry("phase").or_insert(json!("Pending"));
            }
            "PersistentVolume" => {
                child_mut(value, "status").entry("phase").or_insert(json!("Available"));
            }
            _ => {}
        },
    }
    Ok(())
}

/// A claim that names no class gets the default one, if there is any; of several the newest, then the first by name.
fn choose_class(state: &State, claim: &mut Value) {
    const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
    if at(claim, &["spec", "storageClassName"]).is_some()
        || at(claim, &["metadata", "annotations", STORAGE_CLASS_ANNOTATION]).is_some()
    {
        return;
    }
    let classes = state.objects(STORAGE_CLASSES).map(|class| class.value());
    let defaults =
        classes.filter(|class| text_at(class, &["metadata", "annotations", DEFAULT]) == "true");
    let created = |class: &Value| text_at(class, &["metadata", "creationTimestamp"]).to_owned();
    // Classes come by name, and of equals the last one wins.
    let mut defaults: Vec<Value> = defaults.collect();
    defaults.reverse();
    if let Some(class) = defaults.iter().max_by_key(|class| created(class)) {
        let name = text_at(class, &["metadata", "name"]);
        child_mut(claim, "spec").insert("storageClassName".into(), name.into());
    }
}

/// The priority classes that every cluster has.
pub(crate) fn system_priority_classes() -> impl Iterator<Item = Value> {
    SYSTEM_CLASSES.into_iter().map(|(name, value)| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value,
            "description": "Used for system critical pods that must not be moved from their current node.",
        })
    })
}

fn admit_pod(state: &State, pod: &mut Value) -> Result<(), StatusError> {
    set_priority(state, PODS, pod)?;
    let spec = child_mut(pod, "spec");
    default_tolerations(list_mut(spec, "tolerations"));
    if !spec.contains_key("serviceAccountName") {
        spec.insert("serviceAccountName".into(), "default".into());
        spec.insert("serviceAccount".into(), "default".into());
    }
    let qos = qos_class(pod);
    let gated = !list_at(pod, &["spec", "schedulingGates"]).is_empty();
    let now = to_rfc3339(state.now);
    let status = child_mut(pod, "status");
    status.entry("phase").or_insert(json!("Pending"));
    status.entry("qosClass").or_insert(json!(qos));
    if gated {
        let condition = json!({
            "type": POD_SCHEDULED, "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates", "lastProbeTime": null,
        });
        crate::object::set_condition(list_mut(status, "conditions"), condition, &now);
    }
    Ok(())
}

/// Does on a change of a pod what admission does: fields that admission has set on creation are set again, so that sending
/// the original manifest again changes nothing.
pub(crate) fn admit_pod_update(old: &Value, pod: &mut Value) {
    let spec = child_mut(pod, "spec");
    default_tolerations(list_mut(spec, "tolerations"));
    for field in ["priority", "preemptionPolicy", "serviceAccountName", "serviceAccount"] {
        if let Some(value) = old.get("spec").and_then(|spec| spec.get(field)) {
            spec.entry(field).or_insert_with(|| value.clone());
        }
    }
}

/// Sets the priority of a pod or a group of pods from `priorityClassName`, as the priority admission plugin does.
///
/// # Errors
/// Status 403 for an unknown priority class and for a priority that is not that of the class.
pub(crate) fn set_priority(
    state: &State,
    kind: KindId,
    pod: &mut Value,
) -> Result<(), StatusError> {
    let wanted = text_at(pod, &["spec", "priorityClassName"]).to_owned();
    let class = if wanted.is_empty() {
        let mut defaults: Vec<Value> = state
            .objects(PRIORITY_CLASSES)
            .map(|class| class.value())
            .filter(|class| class.get("globalDefault") == Some(&Value::Bool(true)))
            .collect();
        // Several defaults may exist in a race; the lowest value wins.
        defaults.sort_by_key(|class| class.get("value").and_then(Value::as_i64));
        defaults.into_iter().next()
    } else {
        let found = state.get(PRIORITY_CLASSES, "", &wanted).map(|class| class.value());
        if found.is_none() {
            let why = format!("no PriorityClass with name {wanted} was found");
            return Err(StatusError::forbidden(
                kind.get(),
                text_at(pod, &["metadata", "name"]),
                &why,
            ));
        }
        found
    };
    let priority =
        class.as_ref().and_then(|class| class.get("value")).and_then(Value::as_i64).unwrap_or(0);
    let policy = class
        .as_ref()
        .map(|class| text_at(class, &["preemptionPolicy"]))
        .filter(|policy| !policy.is_empty());
    let given = crate::object::int_at(pod, &["spec", "priority"]);
    if given.is_some_and(|given| given != priority) {
        let noun = if kind == PODS { "pod" } else { "podGroup" };
        let why = format!(
            "the integer value of priority must not be provided in {} spec; priority admission controller \
                   computed a different value from the given PriorityClass name",
            noun
        );
        return Err(StatusError::forbidden(kind.get(), text_at(pod, &["metadata", "name"]), &why));
    }
    let class_name = class.as_ref().map(|class| text_at(class, &["metadata", "name"]).to_owned());
    let policy = policy.unwrap_or("PreemptLowerPriority").to_owned();
    let spec = child_mut(pod, "spec");
    if let Some(class_name) = class_name {
        spec.insert("priorityClassName".into(), class_name.into());
    }
    spec.insert("priority".into(), priority.into());
    if kind == PODS {
        spec.entry("preemptionPolicy").or_insert(policy.into());
    }
    Ok(())
}

fn default_tolerations(tolerations: &mut Vec<Value>) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covered = tolerations.iter().any(|toleration| {
            let (own_key, effect) =
                (text_at(toleration, &["key"]), text_at(toleration, &["effect"]));
            (own_key == key || own_key.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !covered {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
}

fn default_pod_spec(spec: &mut Map<String, Value>) {
    let defaults = [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("enableServiceLinks", json!(true)),
        ("securityContext", json!({})),
    ];
    for (field, default) in defaults {
        spec.entry(field).or_insert(default);
    }
    if text_of(spec, "schedulerName").is_empty() {
        spec.insert("schedulerName".into(), "default-scheduler".into());
    }
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for container in list_mut_if_present(spec, list) {
            default_container(map_mut(container), host_network);
        }
    }
    if let Some(Value::Object(resources)) = spec.get_mut("resources") {
        default_requests(resources);
    }
}

fn default_container(container: &mut Map<String, Value>, host_network: bool) {
    let image = text_of(container, "image");
    let tagged =
        image.rsplit('/').next().is_some_and(|last| last.contains(':') || last.contains('@'));
    let pull = if !tagged || image.ends_with(":latest") { "Always" } else { "IfNotPresent" };
    container.entry("imagePullPolicy").or_insert(json!(pull));
    container.entry("terminationMessagePath").or_insert(json!("/dev/termination-log"));
    container.entry("terminationMessagePolicy").or_insert(json!("File"));
    let resources = container.entry("resources").or_insert(json!({}));
    default_requests(map_mut(resources));
    for port in list_mut_if_present(container, "ports") {
        let port = map_mut(port);
        port.entry("protocol").or_insert(json!("TCP"));
        if host_network && let Some(number) = port.get("containerPort").cloned() {
            port.entry("hostPort").or_insert(number);
        }
    }
}

/// A limit without a request is a request of the same size.
fn default_requests(resources: &mut Map<String, Value>) {
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    let requests = child_mut_of(resources, "requests");
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

fn qos_class(pod: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    let mut look = |resources: &Value| {
        for name in ["cpu", "memory"] {
            let amount = |part: &str| {
                let parsed = resources
                    .get(part)
                    .and_then(|amounts| amounts.get(name))
                    .and_then(parse_amount);
                parsed.filter(|amount| !amount.is_zero())
            };
            let (request, limit) = (amount("requests"), amount("limits"));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request == limit;
        }
    };
    let pod_level = pod.pointer("/spec/resources").filter(|resources| resources.is_object());
    if let Some(resources) = pod_level {
        look(resources);
    } else {
        for list in ["containers", "initContainers"] {
            for container in list_at(pod, &["spec", list]) {
                look(container.get("resources").unwrap_or(&Value::Null));
            }
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// A rolling update with these parameters, unless something else is asked for.
fn default_rollout<const N: usize>(
    strategy: &mut Map<String, Value>,
    parameters: [(&str, Value); N],
) {
    set_missing(strategy, [("type", json!("RollingUpdate"))]);
    if text_of(strategy, "type") == "RollingUpdate" {
        set_missing(child_mut_of(strategy, "rollingUpdate"), parameters);
    }
}

fn set_missing<const N: usize>(map: &mut Map<String, Value>, defaults: [(&str, Value); N]) {
    for (field, default) in defaults {
        map.entry(field).or_insert(default);
    }
}

fn text_of<'m>(map: &'m Map<String, Value>, key: &str) -> &'m str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn child_mut_of<'m>(map: &'m mut Map<String, Value>, key: &str) -> &'m mut Map<String, Value> {
    map_mut(map.entry(key).or_insert(Value::Null))
}

fn list_mut_if_present<'m>(map: &'m mut Map<String, Value>, key: &str) -> &'m mut [Value] {
    map.get_mut(key).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}
