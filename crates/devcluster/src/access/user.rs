//! Users and their groups.

/// The group of all users who sent credentials.
const AUTHENTICATED: &str = "system:authenticated";

/// The sender of requests: a person or a program.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct User {
    /// The name, as role bindings refer to it.
    pub name: String,
    /// The user's groups. The server adds those that every authenticated user is in.
    pub groups: Vec<String>,
}

impl User {
    /// The group whose members may do everything.
    pub(crate) const ADMINISTRATORS: &str = "system:masters";

    /// A user without groups.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), groups: Vec::new() }
    }

    /// Adds the user to a group.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        let group = group.into();
        if !self.groups.contains(&group) {
            self.groups.push(group);
        }
        self
    }

    /// A user who may do everything.
    pub fn administrator() -> Self {
        Self::new("kubernetes-admin").group(Self::ADMINISTRATORS)
    }

    /// The control plane's scheduler.
    pub fn kube_scheduler() -> Self {
        Self::new("system:kube-scheduler")
    }

    /// The sender of requests without credentials.
    pub(crate) fn anonymous() -> Self {
        Self::new("system:anonymous").group("system:unauthenticated")
    }

    /// Adds the group of all users who sent credentials.
    pub(crate) fn authenticated(self) -> Self {
        self.group(AUTHENTICATED)
    }

    /// The groups that credentials have to name: all but the one that every authenticated user is in.
    pub(crate) fn own_groups(&self) -> Vec<&str> {
        self.groups.iter().map(String::as_str).filter(|group| *group != AUTHENTICATED).collect()
    }
}
