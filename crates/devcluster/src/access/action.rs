//! What a request wants to do, whether it may, and the record of a rejection.

use super::user::User;
use crate::status::StatusError;

/// What a request wants to do, in the words of RBAC rules.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Action {
    pub(crate) verb: String,
    /// For requests outside of the resources, the path; empty when a resource is meant.
    pub(crate) path: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Action {
    /// The resource as rules spell it: `pods` or `pods/binding`.
    pub(crate) fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// The error that rejects this action, in the API server's words.
    pub(crate) fn refusal(&self, user: &User) -> StatusError {
        let user = &user.name;
        if !self.path.is_empty() {
            let why = format!("forbidden: User {user:?} cannot {} path {:?}", self.verb, self.path);
            return StatusError::with_code(403, why);
        }
        let scope = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", self.namespace)
        };
        let why = format!(
            "User {user:?} cannot {} resource {:?} in API group {:?} {scope}",
            self.verb,
            self.full_resource(),
            self.group,
        );
        StatusError::access_denied(&self.group, &self.resource, &self.name, &why)
    }
}

/// A request that was rejected because no role allows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Denial {
    /// Who sent the request.
    pub user: User,
    /// The verb, such as `list`; for a path outside of the resources the HTTP method in lower case.
    pub verb: String,
    /// The resource with its group, such as `pods/binding` or `leases.coordination.k8s.io`, or the path.
    pub resource: String,
    /// Empty for cluster-scoped requests.
    pub namespace: String,
    /// Empty when the request was not for a single object.
    pub name: String,
}

/// Whether an action is allowed, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) is_allowed: bool,
    /// Names the binding that allows it; empty for rejections.
    pub(crate) reason: String,
}
