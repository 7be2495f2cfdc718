//! Users and their groups.

/// The group of all who brought credentials.
const AUTHENTICATED: &str = "system:authenticated";

/// Somebody who sends requests.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct User {
    /// The name that bindings of roles mean.
    pub name: String,
    /// The groups, without those that everyone with credentials is in.
    pub groups: Vec<String>,
}

impl User {
    /// The group that may do everything.
    pub const ADMINISTRATORS: &str = "system:masters";

    /// A user without groups of his own.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), groups: Vec::new() }
    }

    /// Puts the user into a group.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        let group = group.into();
        if !self.groups.contains(&group) {
            self.groups.push(group);
        }
        self
    }

    /// Who may do everything.
    pub fn administrator() -> Self {
        Self::new("kubernetes-admin").group(Self::ADMINISTRATORS)
    }

    /// The scheduler of the control plane.
    pub fn kube_scheduler() -> Self {
        Self::new("system:kube-scheduler")
    }

    /// Whoever brings no credentials.
    pub(crate) fn anonymous() -> Self {
        Self::new("system:anonymous").group("system:unauthenticated")
    }

    /// With the group of all who brought credentials.
    pub(crate) fn authenticated(self) -> Self {
        self.group(AUTHENTICATED)
    }

    /// The groups that credentials have to tell.
    pub(crate) fn own_groups(&self) -> Vec<&str> {
        self.groups.iter().map(String::as_str).filter(|group| *group != AUTHENTICATED).collect()
    }
}
