//! StatefulSets: pods with numbers, and claims of their own.

use std::ops::Range;

use serde_json::{Value, json};

use crate::controller::{Controller, PodNaming, template_hash};
use crate::json::{
    at, child_mut, int_at, labels_mut, list_at, list_mut, map_mut, meta_mut, text_at,
};

/// The label with the hash of the template that a pod was made from. Pods of DaemonSets have it, too.
pub const REVISION: &str = "controller-revision-hash";

/// The numbers of the pods that there should be.
pub fn ordinals(set: &Controller<'_>) -> Range<i64> {
    let start = int_at(set.value, &["spec", "ordinals", "start"]).unwrap_or(0).max(0);
    start..start.saturating_add(set.count("replicas", 1))
}

/// The pod with this number.
pub fn pod(set: &Controller<'_>, number: i64) -> Value {
    let name = format!("{}-{number}", set.name);
    let mut pod = set.pod(PodNaming::Exactly(&name));
    let labels = labels_mut(&mut pod);
    labels.insert("statefulset.kubernetes.io/pod-name".into(), name.as_str().into());
    labels.insert("apps.kubernetes.io/pod-index".into(), number.to_string().into());
    labels.insert(REVISION.into(), template_hash(set.template()).into());
    let spec = child_mut(&mut pod, "spec");
    spec.insert("hostname".into(), name.as_str().into());
    let service = text_at(set.value, &["spec", "serviceName"]);
    if !service.is_empty() {
        spec.insert("subdomain".into(), service.into());
    }
    for claim in list_at(set.value, &["spec", "volumeClaimTemplates"]) {
        let volume = text_at(claim, &["metadata", "name"]);
        let claim = claim_name(volume, &name);
        let volumes = list_mut(spec, "volumes");
        volumes.retain(|other| text_at(other, &["name"]) != volume);
        volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}}));
    }
    pod
}

/// The claims of the pod with this number, in the order of their templates. They have no owner: they outlive the set.
pub fn claims(set: &Controller<'_>, number: i64) -> Vec<Value> {
    let labels = at(set.value, &["spec", "selector", "matchLabels"]).and_then(Value::as_object);
    let templates = list_at(set.value, &["spec", "volumeClaimTemplates"]).iter();
    let claims = templates.map(|template| {
        let volume = text_at(template, &["metadata", "name"]);
        let mut claim = template.clone();
        let object = map_mut(&mut claim);
        object.remove("status");
        object.insert("apiVersion".into(), "v1".into());
        object.insert("kind".into(), "PersistentVolumeClaim".into());
        let meta = meta_mut(&mut claim);
        meta.insert("name".into(), claim_name(volume, &format!("{}-{number}", set.name)).into());
        meta.insert("namespace".into(), set.namespace.into());
        if let Some(labels) = labels {
            let own = map_mut(meta.entry("labels").or_insert(Value::Null));
            own.extend(labels.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        claim
    });
    claims.collect()
}

fn claim_name(volume: &str, pod: &str) -> String {
    format!("{volume}-{pod}")
}
