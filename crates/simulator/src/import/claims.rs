//! Claims of devices that pods get from templates, as the cluster's controller generates them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::manifest::Document;
use kube_scheduler_api_types::well_known::RESOURCE_GROUP;
use kube_scheduler_workloads::json::map_at;

/// Namespace and name.
type Key = (String, String);

/// What pods' claims are generated from.
#[derive(Debug)]
pub(super) struct ClaimTemplates {
    templates: BTreeMap<Key, Value>,
    /// The claims that are there, those that were generated included.
    claims: BTreeSet<Key>,
}

impl ClaimTemplates {
    /// Collects the templates of all documents.
    pub(super) fn collect(documents: &[Document]) -> Self {
        let of_kind =
            |kind| documents.iter().filter(move |document| document.is_of(RESOURCE_GROUP, kind));
        let named =
            |document: &Document| (document.namespace_and_name(), document.value["spec"].clone());
        Self {
            templates: of_kind("ResourceClaimTemplate").map(named).collect(),
            claims: of_kind("ResourceClaim").map(Document::namespace_and_name).collect(),
        }
    }

    /// Generates the claims that a pod lacks, and puts their names into its status. An entry whose template is not in the input
    /// is left alone: the pod waits for it, as it would in a cluster.
    pub(super) fn complete(&mut self, pod: &mut Value) -> Vec<Value> {
        let mut claims = Vec::new();
        let metadata = pod["metadata"].clone();
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        let entries = pod["spec"]["resourceClaims"].as_array().cloned().unwrap_or_default();
        for entry in &entries {
            let name = entry["name"].as_str().unwrap_or_default();
            let template = entry["resourceClaimTemplateName"].as_str().unwrap_or_default();
            let known = pod["status"]["resourceClaimStatuses"].as_array();
            let is_known = known.into_iter().flatten().any(|status| status["name"] == name);
            let template = self.templates.get(&(text("namespace").to_owned(), template.to_owned()));
            let (Some(template), false) = (template, is_known) else { continue };
            // A pod of the cluster and one that is asked about may have the same name.
            let mut claim = format!("{}-{name}", text("name"));
            while !self.claims.insert((text("namespace").to_owned(), claim.clone())) {
                claim.push_str("-x");
            }
            claims.push(json!({
                "apiVersion": format!("{RESOURCE_GROUP}/v1"), "kind": "ResourceClaim",
                "metadata": {
                    "namespace": text("namespace"), "name": claim,
                    "uid": format!("resourceclaim:{}/{claim}", text("namespace")),
                    "labels": template["metadata"]["labels"],
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": text("name"),
                        "uid": text("uid"), "controller": true, "blockOwnerDeletion": true}],
                },
                "spec": template["spec"],
            }));
            let status = json!({"name": name, "resourceClaimName": claim});
            if add_status(pod, status).is_none() {
                // Of a wrong type, which the decoder of pods says.
                return Vec::new();
            }
        }
        claims
    }
}

fn add_status(pod: &mut Value, status: Value) -> Option<()> {
    let statuses = map_at(pod.as_object_mut()?, "status")?.entry("resourceClaimStatuses");
    let statuses = statuses.or_insert(Value::Null);
    if statuses.is_null() {
        *statuses = json!([]);
    }
    statuses.as_array_mut()?.push(status);
    Some(())
}
