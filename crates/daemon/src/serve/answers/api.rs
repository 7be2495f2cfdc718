//! The API of questions as clients discover it: its paths, its group, its resources.

use http::Method;
use kube_scheduler_answers::{API_GROUP, QuestionKind};
use serde_json::{Value, json};

use crate::serve::authorization::Attributes;

const VERSION: &str = "v1alpha1";

/// A path of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiPath<'p> {
    /// The groups that are served.
    Groups,
    /// The versions of the group.
    Group,
    /// The resources of the version.
    Resources,
    /// Questions of a kind, in a namespace or, where it is empty, about the whole cluster.
    Questions { kind: QuestionKind, namespace: &'p str },
}

impl<'p> ApiPath<'p> {
    /// The page at `path`, if it is one of the API.
    pub(crate) fn of(path: &'p str) -> Option<Self> {
        let rest = path.strip_prefix("/apis")?;
        if rest.is_empty() || rest == "/" {
            return Some(Self::Groups);
        }
        let parts: Vec<&str> = rest.strip_prefix('/')?.splitn(6, '/').collect();
        match parts[..] {
            [API_GROUP] => Some(Self::Group),
            [API_GROUP, VERSION] => Some(Self::Resources),
            [API_GROUP, VERSION, "namespaces", namespace, resource] if !namespace.is_empty() => {
                questions(resource, namespace)
            }
            [API_GROUP, VERSION, resource] => questions(resource, ""),
            _ => None,
        }
    }

    /// What a request with this method wants there.
    pub(crate) fn wanted(self, method: &Method) -> Option<Attributes<'p>> {
        let Self::Questions { kind, namespace } = self else { return None };
        let verb = match *method {
            Method::POST => "create",
            Method::GET | Method::HEAD => "list",
            Method::PUT => "update",
            Method::PATCH => "patch",
            _ => "deletecollection",
        };
        Some(Attributes::Resource {
            verb,
            group: API_GROUP,
            version: VERSION,
            resource: kind.resource(),
            namespace,
        })
    }
}

/// The questions with this resource, if they are asked in namespaces or not as the path says.
fn questions<'p>(resource: &str, namespace: &'p str) -> Option<ApiPath<'p>> {
    let mut kinds = QuestionKind::ALL.into_iter();
    let kind = kinds.find(|kind| kind.resource() == resource)?;
    (kind.is_namespaced() != namespace.is_empty()).then_some(ApiPath::Questions { kind, namespace })
}

/// The groups that are served.
pub(super) fn groups() -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group()]})
}

/// The versions of the group.
pub(super) fn group() -> Value {
    let version = json!({"groupVersion": format!("{API_GROUP}/{VERSION}"), "version": VERSION});
    json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": API_GROUP,
        "versions": [version], "preferredVersion": version,
    })
}

/// The resources of the version.
pub(super) fn resources() -> Value {
    let resources = QuestionKind::ALL.map(|kind| {
        json!({
            "name": kind.resource(), "singularName": kind.singular(),
            "namespaced": kind.is_namespaced(), "kind": kind.kind(), "verbs": ["create"],
        })
    });
    json!({
        "kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": format!("{API_GROUP}/{VERSION}"),
        "resources": resources,
    })
}

#[cfg(test)]
mod tests {
    use kube_scheduler_answers::API_VERSION;

    use super::*;

    #[test]
    fn paths_are_those_of_an_api() {
        let prefix = format!("/apis/{API_VERSION}");
        let asked = |kind, namespace| Some(ApiPath::Questions { kind, namespace });
        for (path, expected) in [
            ("/apis", Some(ApiPath::Groups)),
            ("/apis/", Some(ApiPath::Groups)),
            ("/apis/answers.kube-scheduler.rs", Some(ApiPath::Group)),
            (&*prefix, Some(ApiPath::Resources)),
            (
                &*format!("{prefix}/namespaces/web/explanations"),
                asked(QuestionKind::Explanation, "web"),
            ),
            (
                &*format!("{prefix}/namespaces/web/preemptions"),
                asked(QuestionKind::Preemption, "web"),
            ),
            (&*format!("{prefix}/namespaces/web/whatifs"), asked(QuestionKind::WhatIf, "web")),
            (&*format!("{prefix}/drains"), asked(QuestionKind::Drain, "")),
            (&*format!("{prefix}/namespaces/web/drains"), None),
            (&*format!("{prefix}/whatifs"), None),
            (&*format!("{prefix}/namespaces//explanations"), None),
            (&*format!("{prefix}/namespaces/web/explanations/x"), None),
            (&*format!("{prefix}/namespaces/web/explanations/x/y/z"), None),
            (&*format!("{prefix}/namespaces/web/whatever"), None),
            (&*format!("{prefix}/"), None),
            ("/apisx", None),
            ("/apis/apps/v1", None),
            ("/metrics", None),
        ] {
            assert_eq!(ApiPath::of(path), expected, "{path}");
        }
    }

    #[test]
    fn the_version_is_that_of_the_answers() {
        assert_eq!(format!("{API_GROUP}/{VERSION}"), API_VERSION);
    }
}
