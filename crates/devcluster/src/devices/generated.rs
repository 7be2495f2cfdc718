//! Claims that are made from templates, for pods and for pod groups.

use serde_json::{Value, json};

use super::rules::{ClaimKind, ClaimStore};
use crate::object::{at, child_mut, list_at, list_mut, map_mut, meta_mut, text_at};

/// Room for a generated name's base, so that the random suffix and a hyphen fit into 63 characters.
const LONGEST_BASE: usize = 57;

/// The kind of owner that claims are generated for.
pub(super) struct Owners {
    api_version: &'static str,
    kind: &'static str,
    /// The annotation that says for which entry of its owner a claim was generated.
    annotation: &'static str,
}

/// Claims of one pod.
pub(super) const OF_POD: Owners =
    Owners { api_version: "v1", kind: "Pod", annotation: "resource.kubernetes.io/pod-claim-name" };

/// Claims that the pods of a group share.
pub(super) const OF_GROUP: Owners = Owners {
    api_version: "scheduling.k8s.io/v1alpha2",
    kind: "PodGroup",
    annotation: "resource.kubernetes.io/podgroup-claim-name",
};

/// Whether a claim of a pod is one of its group's: that has the same entry.
pub(super) fn has_entry(group: &Value, entry: &Value) -> bool {
    const FIELDS: [&str; 3] = ["name", "resourceClaimName", "resourceClaimTemplateName"];
    let entries = list_at(group, &["spec", "resourceClaims"]);
    entries.iter().any(|shared| FIELDS.iter().all(|field| shared.get(field) == entry.get(field)))
}

impl Owners {
    /// The claim that was generated for an entry of the owner.
    pub(super) fn find(&self, store: &dyn ClaimStore, owner: &Value, entry: &str) -> Option<Value> {
        let text = |field| text_at(owner, &["metadata", field]);
        let claims = store.owned_claims(text("namespace"), text("uid"));
        let is_for =
            |claim: &Value| text_at(claim, &["metadata", "annotations", self.annotation]) == entry;
        claims.into_iter().find(is_for)
    }

    /// Makes a claim for an entry of the owner; gives its name. `None` if there is no such template.
    pub(super) fn make(
        &self,
        store: &mut dyn ClaimStore,
        owner: &Value,
        entry: &str,
        template: &str,
    ) -> Option<String> {
        let namespace = text_at(owner, &["metadata", "namespace"]);
        let template = store.get(ClaimKind::Template, namespace, template)?;
        store.create_claim(namespace, self.claim_of(owner, entry, &template))
    }

    /// A new claim for an entry of the owner.
    fn claim_of(&self, owner: &Value, entry: &str, template: &Value) -> Value {
        let text = |field| text_at(owner, &["metadata", field]);
        let spec = at(template, &["spec", "spec"]).cloned().unwrap_or_default();
        let mut claim = json!({"metadata": {}, "spec": spec});
        let meta = meta_mut(&mut claim);
        for field in ["labels", "annotations"] {
            if let Some(value) = at(template, &["spec", "metadata", field]) {
                meta.insert(field.into(), value.clone());
            }
        }
        meta.insert("generateName".into(), base_name(text("name"), entry).into());
        meta.insert(
            "ownerReferences".into(),
            json!([{
                "apiVersion": self.api_version, "kind": self.kind, "name": text("name"),
                "uid": text("uid"), "controller": true, "blockOwnerDeletion": true,
            }]),
        );
        let annotations = map_mut(meta.entry("annotations").or_insert(Value::Null));
        annotations.insert(self.annotation.into(), entry.into());
        claim
    }
}

/// What a generated name begins with. Both names are shortened in proportion where they are too long together.
fn base_name(owner: &str, entry: &str) -> String {
    let whole = format!("{owner}-{entry}-");
    if whole.len() <= LONGEST_BASE {
        return whole;
    }
    let cut = |text: &str| {
        let length = text.len() * LONGEST_BASE / whole.len();
        // Names are ASCII, since they were validated.
        text.chars().take(length).collect::<String>()
    };
    format!("{}-{}", cut(owner), cut(entry))
}

/// Writes the names of generated claims, by entry, into the status of a pod or group. Returns whether that changes anything.
pub(super) fn note(owner: &mut Value, generated: Vec<(String, String)>) -> bool {
    if generated.is_empty() {
        return false;
    }
    let statuses = list_mut(child_mut(owner, "status"), "resourceClaimStatuses");
    let before = statuses.clone();
    for (entry, claim) in generated {
        let status = json!({"name": entry, "resourceClaimName": claim});
        match statuses.iter_mut().find(|status| text_at(status, &["name"]) == entry) {
            Some(known) => *known = status,
            None => statuses.push(status),
        }
    }
    *statuses != before
}
