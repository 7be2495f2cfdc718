//! Role-based access control over the stored roles and bindings.
//!
//! Invariant: rules only ever allow; what no rule of a bound role allows is rejected. Differences from a full API server:
//! aggregated cluster roles are not filled in, and users may write roles with more rights than they have themselves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::action::{Action, Decision};
use super::user::User;
use crate::kinds::KindId;
use crate::object::StoredObject;
use crate::store::State;

#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Rule {
    #[serde(deserialize_with = "nullable")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    api_groups: Vec<String>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    resources: Vec<String>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    resource_names: Vec<String>,
    #[serde(
        rename = "nonResourceURLs",
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    non_resource_urls: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Role {
    #[serde(deserialize_with = "nullable")]
    rules: Vec<Rule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Binding {
    metadata: Meta,
    #[serde(deserialize_with = "nullable")]
    subjects: Vec<Subject>,
    role_ref: RoleRef,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Meta {
    name: String,
    namespace: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RoleRef {
    kind: String,
    name: String,
}

/// All roles, and which users are bound to them.
#[derive(Debug, Default)]
pub(super) struct Policy {
    cluster_roles: BTreeMap<String, Vec<Rule>>,
    roles: BTreeMap<(String, String), Vec<Rule>>,
    cluster_bindings: Vec<Binding>,
    bindings: Vec<Binding>,
}

impl Policy {
    /// Parses the stored roles and bindings.
    pub(super) fn read(state: &State) -> Self {
        let mut policy = Self::default();
        for role in objects(state, "clusterroles") {
            policy.cluster_roles.insert(role.name().to_owned(), parsed::<Role>(role).rules);
        }
        for role in objects(state, "roles") {
            let key = (role.namespace().to_owned(), role.name().to_owned());
            policy.roles.insert(key, parsed::<Role>(role).rules);
        }
        policy.cluster_bindings = objects(state, "clusterrolebindings").map(parsed).collect();
        policy.bindings = objects(state, "rolebindings").map(parsed).collect();
        policy
    }

    /// Whether a rule allows the action; the reason names the first binding that does, in the API server's words.
    pub(super) fn decide(&self, user: &User, action: &Action) -> Decision {
        for (binding, subject, rules) in self.bound(user, &action.namespace) {
            if rules.iter().any(|rule| rule.allows(action)) {
                return Decision { is_allowed: true, reason: reason(binding, subject) };
            }
        }
        Decision { is_allowed: false, reason: String::new() }
    }

    /// The resource rules and the path rules of a user in a namespace.
    pub(super) fn rules(&self, user: &User, namespace: &str) -> (Value, Value) {
        let of_user = || self.bound(user, namespace).flat_map(|(_, _, rules)| rules);
        let resources: Vec<&Rule> =
            of_user().filter(|rule| rule.non_resource_urls.is_empty()).collect();
        let paths: Vec<&Rule> =
            of_user().filter(|rule| !rule.non_resource_urls.is_empty()).collect();
        (json!(resources), json!(paths))
    }

    /// The rules of a user who may do everything, as a rules review lists them.
    pub(super) fn everything() -> (Value, Value) {
        (
            json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
            json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]),
        )
    }

    /// The bindings that apply to a user in a namespace, those of the cluster first, with their rules.
    fn bound<'p>(
        &'p self,
        user: &'p User,
        namespace: &'p str,
    ) -> impl Iterator<Item = (&'p Binding, &'p Subject, &'p [Rule])> {
        let of_namespace =
            self.bindings.iter().filter(move |binding| binding.metadata.namespace == namespace);
        self.cluster_bindings.iter().chain(of_namespace).filter_map(move |binding| {
            let subject = binding
                .subjects
                .iter()
                .find(|subject| subject.includes(user, &binding.metadata.namespace))?;
            Some((binding, subject, self.rules_of(binding)?))
        })
    }

    fn rules_of(&self, binding: &Binding) -> Option<&[Rule]> {
        let name = &binding.role_ref.name;
        let rules = match binding.role_ref.kind.as_str() {
            "ClusterRole" => self.cluster_roles.get(name),
            "Role" => self.roles.get(&(binding.metadata.namespace.clone(), name.clone())),
            _ => None,
        };
        rules.map(Vec::as_slice)
    }
}

impl Rule {
    fn allows(&self, action: &Action) -> bool {
        has(&self.verbs, &action.verb)
            && if action.path.is_empty() {
                self.allows_resource(action)
            } else {
                self.non_resource_urls.iter().any(|url| match url.strip_suffix('*') {
                    Some(prefix) => action.path.starts_with(prefix),
                    None => *url == action.path,
                })
            }
    }

    fn allows_resource(&self, action: &Action) -> bool {
        let full = action.full_resource();
        let of_resource = |own: &String| {
            own == "*"
                || *own == full
                || (!action.subresource.is_empty()
                    && own.strip_prefix("*/").is_some_and(|sub| sub == action.subresource))
        };
        has(&self.api_groups, &action.group)
            && self.resources.iter().any(of_resource)
            && (self.resource_names.is_empty() || self.resource_names.contains(&action.name))
    }
}

impl Subject {
    fn includes(&self, user: &User, binding_namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => self.name == user.name,
            "Group" => user.groups.contains(&self.name),
            "ServiceAccount" => {
                let namespace =
                    if self.namespace.is_empty() { binding_namespace } else { &self.namespace };
                !namespace.is_empty()
                    && user.name == format!("system:serviceaccount:{namespace}:{}", self.name)
            }
            _ => false,
        }
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|own| own == "*" || own == wanted)
}

fn reason(binding: &Binding, subject: &Subject) -> String {
    let (kind, name) = match binding.metadata.namespace.as_str() {
        "" => ("ClusterRoleBinding", binding.metadata.name.clone()),
        namespace => ("RoleBinding", format!("{}/{namespace}", binding.metadata.name)),
    };
    let subject_name = match subject.kind.as_str() {
        "ServiceAccount" => format!("{}/{}", subject.name, subject.namespace),
        _ => subject.name.clone(),
    };
    format!(
        "RBAC: allowed by {kind} {name:?} of {} {:?} to {} {subject_name:?}",
        binding.role_ref.kind, binding.role_ref.name, subject.kind,
    )
}

fn objects<'s>(state: &'s State, plural: &str) -> impl Iterator<Item = &'s StoredObject> + use<'s> {
    KindId::by_plural("rbac.authorization.k8s.io", "v1", plural)
        .into_iter()
        .flat_map(|kind| state.objects(kind))
        .map(AsRef::as_ref)
}

/// An object that cannot be parsed has no rules, and so allows nothing.
fn parsed<T: Default + for<'de> Deserialize<'de>>(object: &StoredObject) -> T {
    serde_json::from_slice(object.json()).unwrap_or_default()
}

fn nullable<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(value: Value) -> Rule {
        serde_json::from_value(value).expect("a rule")
    }

    fn on(verb: &str, group: &str, resource: &str, name: &str) -> Action {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Action {
            verb: verb.into(),
            group: group.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            name: name.into(),
            ..Action::default()
        }
    }

    #[test]
    fn a_resource_does_not_stand_for_its_subresources() {
        let pods = rule(json!({"verbs": ["create"], "apiGroups": [""], "resources": ["pods"]}));
        assert!(pods.allows(&on("create", "", "pods", "")));
        assert!(!pods.allows(&on("create", "", "pods/binding", "a")));
        assert!(!pods.allows(&on("create", "apps", "pods", "")));
        assert!(!pods.allows(&on("get", "", "pods", "a")));
        let any_status =
            rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*/status"]}));
        assert!(any_status.allows(&on("patch", "", "pods/status", "a")));
        assert!(!any_status.allows(&on("patch", "", "pods", "a")));
    }

    #[test]
    fn names_narrow_a_rule() {
        let lease = rule(json!({"verbs": ["get", "list"], "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"], "resourceNames": ["kube-scheduler"]}));
        assert!(lease.allows(&on("get", "coordination.k8s.io", "leases", "kube-scheduler")));
        assert!(!lease.allows(&on("get", "coordination.k8s.io", "leases", "other")));
        assert!(!lease.allows(&on("list", "coordination.k8s.io", "leases", "")));
    }

    #[test]
    fn paths_end_in_a_star_or_are_exact() {
        let health = rule(json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/apis/*"]}));
        let get =
            |path: &str| Action { verb: "get".into(), path: path.into(), ..Action::default() };
        assert!(health.allows(&get("/healthz")) && health.allows(&get("/apis/apps")));
        assert!(!health.allows(&get("/healthz/ping")) && !health.allows(&get("/apis")));
        assert!(!health.allows(&on("get", "", "pods", "a")));
    }

    #[test]
    fn subjects_are_users_groups_or_service_accounts() {
        let subject =
            |value: Value| -> Subject { serde_json::from_value(value).expect("a subject") };
        let robot = User::new("system:serviceaccount:kube-system:kube-scheduler").group("robots");
        let account = subject(json!({"kind": "ServiceAccount", "name": "kube-scheduler"}));
        assert!(account.includes(&robot, "kube-system"));
        assert!(!account.includes(&robot, "default") && !account.includes(&robot, ""));
        assert!(subject(json!({"kind": "Group", "name": "robots"})).includes(&robot, ""));
        assert!(!subject(json!({"kind": "User", "name": "robots"})).includes(&robot, ""));
    }
}
