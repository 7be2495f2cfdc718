//! The profiles of an engine, by typed number.

use std::ops::Index;

use kube_scheduler_api_types::Pod;
use kube_scheduler_queue::ProfileId;
use kube_scheduler_runtime::Profile;

/// A profile, by its position in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileIdx(usize);

impl ProfileIdx {
    /// The profile at this position.
    pub const fn new(position: usize) -> Self {
        Self(position)
    }

    /// The position of the profile in the configuration.
    pub const fn position(self) -> usize {
        self.0
    }
}

/// The queue numbers the profiles that it is made for in the same order, and scheduler names without a profile after
/// them: those have an index at which there is no profile.
impl From<ProfileId> for ProfileIdx {
    fn from(id: ProfileId) -> Self {
        Self(id.index())
    }
}

/// All profiles, in the order of configuration.
#[derive(Debug)]
pub(crate) struct Profiles(Vec<Profile>);

impl Profiles {
    pub(crate) const fn new(profiles: Vec<Profile>) -> Self {
        Self(profiles)
    }

    pub(crate) fn as_slice(&self) -> &[Profile] {
        &self.0
    }

    pub(crate) fn get(&self, profile: ProfileIdx) -> Option<&Profile> {
        self.0.get(profile.0)
    }

    pub(crate) fn first(&self) -> Option<&Profile> {
        self.0.first()
    }

    /// The profile that schedules a pod.
    pub(crate) fn of(&self, pod: &Pod) -> Option<ProfileIdx> {
        let name = &pod.spec.scheduler_name;
        self.0.iter().position(|profile| profile.scheduler_name == *name).map(ProfileIdx)
    }
}

impl Index<ProfileIdx> for Profiles {
    type Output = Profile;

    fn index(&self, profile: ProfileIdx) -> &Profile {
        &self.0[profile.0]
    }
}
