//! Acting as another user: the `Impersonate-*` headers.
//!
//! Invariants: the headers are never ignored, they are carried out or the request is rejected; the requester needs the
//! right to `impersonate` the user and each of the groups. Uids and extra fields of users do not exist here, so headers
//! with them are rejected.

use http::HeaderMap;

use super::Access;
use super::action::Action;
use super::user::User;
use crate::status::StatusError;
use crate::store::Store;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

impl Access {
    /// The user in whose name a request acts: the one that its headers name, else `requester`.
    ///
    /// # Errors
    /// Status 403 if the requester may not impersonate that user or group, 400 for headers that make no sense or ask for
    /// what is not supported.
    pub(crate) fn acting_user(
        &self,
        store: &Store,
        requester: User,
        headers: &HeaderMap,
    ) -> Result<User, StatusError> {
        let Some(wanted) = wanted(headers)? else { return Ok(requester) };
        for action in wanted.actions() {
            self.authorize(store, &requester, &action)?;
        }
        Ok(wanted.user())
    }
}

/// What the headers of one request ask for.
struct ImpersonationRequest {
    name: String,
    groups: Vec<String>,
}

fn wanted(headers: &HeaderMap) -> Result<Option<ImpersonationRequest>, StatusError> {
    for name in headers.keys().map(http::HeaderName::as_str) {
        if name.starts_with("impersonate-") && !matches!(name, USER | GROUP) {
            let why = format!(
                "header {name} is not supported: only Impersonate-User and Impersonate-Group are"
            );
            return Err(StatusError::bad_request(why));
        }
    }
    let texts = |name| -> Result<Vec<String>, StatusError> {
        let text = |value: &http::HeaderValue| match value.to_str() {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(StatusError::bad_request(format!("header {name} is not ASCII"))),
        };
        headers.get_all(name).iter().map(text).collect()
    };
    let (mut names, groups) = (texts(USER)?, texts(GROUP)?);
    match names.len() {
        0 if groups.is_empty() => Ok(None),
        0 => Err(StatusError::bad_request(format!(
            "requested impersonation of groups {groups:?} without a user: header Impersonate-User is missing"
        ))),
        1 if !names[0].is_empty() => {
            Ok(Some(ImpersonationRequest { name: names.remove(0), groups }))
        }
        _ => Err(StatusError::bad_request("header Impersonate-User must name one user")),
    }
}

impl ImpersonationRequest {
    /// Namespace and name, if the user is a service account.
    fn service_account(&self) -> Option<(&str, &str)> {
        self.name.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')
    }

    /// What the requester must be allowed to do.
    fn actions(&self) -> Vec<Action> {
        let action = |resource: &str, namespace: &str, name: &str| Action {
            verb: "impersonate".into(),
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
            ..Action::default()
        };
        let mut actions = vec![match self.service_account() {
            Some((namespace, name)) => action("serviceaccounts", namespace, name),
            None => action("users", "", &self.name),
        }];
        actions.extend(self.groups.iter().map(|group| action("groups", "", group)));
        actions
    }

    fn user(self) -> User {
        let mut user = User::new(self.name.clone());
        if let (Some((namespace, _)), true) = (self.service_account(), self.groups.is_empty()) {
            user = user
                .group("system:serviceaccounts")
                .group(format!("system:serviceaccounts:{namespace}"));
        }
        user = self.groups.into_iter().fold(user, User::group);
        let anonymous = User::anonymous();
        if user.name == anonymous.name {
            return anonymous.groups.into_iter().fold(user, User::group);
        }
        if user.groups.iter().any(|group| anonymous.groups.contains(group)) {
            return user;
        }
        user.authenticated()
    }
}
