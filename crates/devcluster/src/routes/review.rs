//! Reviews of authentication and authorization. Everyone is the administrator here and may do everything.

use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::object::map_mut;

/// The review with its verdict.
pub(crate) fn answer(kind: &Kind, mut review: Value) -> Value {
    let user = json!({"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]});
    let status = match kind.kind {
        "TokenReview" => json!({"authenticated": true, "user": user}),
        "SelfSubjectReview" => json!({"userInfo": user}),
        "SelfSubjectRulesReview" => json!({
            "incomplete": false,
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }),
        _ => json!({"allowed": true, "reason": "everything is allowed here"}),
    };
    let members = map_mut(&mut review);
    members.insert("kind".into(), kind.kind.into());
    members.insert("apiVersion".into(), kind.api_version().into());
    members.entry("metadata").or_insert_with(|| json!({}));
    members.insert("status".into(), status);
    review
}
