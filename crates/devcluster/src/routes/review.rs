//! Reviews of authentication and authorization: whose credentials these are, and what a user may do.

use serde_json::{Value, json};

use super::request::ApiRequest;
use crate::access::{Action, User};
use crate::object::{list_at, map_mut, text_at};
use crate::server::Server;

/// The review with its verdict.
pub(crate) fn answer(
    server: &Server,
    requester: &User,
    request: &ApiRequest,
    mut review: Value,
) -> Value {
    let kind = request.kind.get();
    let status = match kind.kind {
        "TokenReview" => token(server, &review),
        "SelfSubjectReview" => json!({"userInfo": shown(requester)}),
        "SelfSubjectRulesReview" => {
            let namespace = text_at(&review, &["spec", "namespace"]);
            let (resources, paths) = server.access.rules(&server.store, requester, namespace);
            json!({"incomplete": false, "resourceRules": resources, "nonResourceRules": paths})
        }
        "SelfSubjectAccessReview" => access(server, requester, &review),
        _ => access(server, &subject(&review), &review),
    };
    let members = map_mut(&mut review);
    members.insert("kind".into(), kind.kind.into());
    members.insert("apiVersion".into(), kind.api_version().into());
    members.entry("metadata").or_insert_with(|| json!({}));
    members.insert("status".into(), status);
    review
}

fn token(server: &Server, review: &Value) -> Value {
    let Some(user) = server.access.owner_of(text_at(review, &["spec", "token"])) else {
        return json!({"user": {}, "error": "[invalid bearer token]"});
    };
    let mut status = json!({"authenticated": true, "user": shown(&user)});
    let audiences = list_at(review, &["spec", "audiences"]);
    if !audiences.is_empty() {
        status["audiences"] = json!(audiences);
    }
    status
}

fn access(server: &Server, user: &User, review: &Value) -> Value {
    let decision = server.access.decide(&server.store, user, &action(review));
    let mut status = json!({"allowed": decision.is_allowed});
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    status
}

/// The user a review is about, with exactly the groups it names.
fn subject(review: &Value) -> User {
    let groups = list_at(review, &["spec", "groups"]).iter().filter_map(Value::as_str);
    groups.fold(User::new(text_at(review, &["spec", "user"])), User::group)
}

fn action(review: &Value) -> Action {
    let path = |key| text_at(review, &["spec", "nonResourceAttributes", key]).to_owned();
    if review.pointer("/spec/nonResourceAttributes").is_some_and(Value::is_object) {
        return Action { verb: path("verb"), path: path("path"), ..Action::default() };
    }
    let resource = |key| text_at(review, &["spec", "resourceAttributes", key]).to_owned();
    Action {
        verb: resource("verb"),
        path: String::new(),
        group: resource("group"),
        resource: resource("resource"),
        subresource: resource("subresource"),
        namespace: resource("namespace"),
        name: resource("name"),
    }
}

fn shown(user: &User) -> Value {
    json!({"username": user.name, "groups": user.groups})
}
