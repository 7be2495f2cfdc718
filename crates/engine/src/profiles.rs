//! The profiles of an engine, by typed number.

use std::ops::Index;

use kube_scheduler_api_types::Pod;
use kube_scheduler_queue::ProfileId;
use kube_scheduler_runtime::Profile;

/// All profiles, in the order of configuration, which is that of the queue's numbers.
#[derive(Debug)]
pub(crate) struct Profiles(pub(crate) Vec<Profile>);

impl Profiles {
    pub(crate) fn get(&self, profile: ProfileId) -> Option<&Profile> {
        self.0.get(profile.index())
    }

    /// The profile that schedules a pod.
    pub(crate) fn of(&self, pod: &Pod) -> Option<ProfileId> {
        let name = &pod.spec.scheduler_name;
        self.0.iter().position(|profile| profile.scheduler_name == *name).map(ProfileId::from_index)
    }
}

impl Index<ProfileId> for Profiles {
    type Output = Profile;

    fn index(&self, profile: ProfileId) -> &Profile {
        &self.0[profile.index()]
    }
}
