//! Plugins that follow by themselves what PreFilter reads, so that pods share their answers although it changes.

use kube_scheduler_api_types::Pod;
use kube_scheduler_framework::following::{FollowOutcome, PreFilterFollower};
use kube_scheduler_framework::{Code, CycleState};

use super::{PreFilterRun, Runner};
use crate::meter::MeteredPoint;
use crate::profile::PluginIdx;
use crate::skip_set::SkipSet;

impl<'a> Runner<'a> {
    /// The plugins whose answers by what PreFilter left in `state` can be [followed](Self::follow).
    pub fn following(&self, run: &PreFilterRun, state: &CycleState) -> SkipSet {
        let mut following = SkipSet::default();
        for (idx, _, plugin) in
            self.profile.pre_filter().filter(|(idx, ..)| !run.skip.contains(*idx))
        {
            let can_follow = |plugin: &dyn PreFilterFollower| {
                plugin.can_follow(&self.cx_of_pre_filter(idx), state)
            };
            if plugin.follower().is_some_and(can_follow) {
                following.insert(idx);
            }
        }
        following
    }

    /// Prepares the `state` of an earlier pod of the same signature for `pod`, as far as these plugins are concerned.
    pub fn follow(&self, following: &SkipSet, state: &mut CycleState, pod: &Pod) -> FollowOutcome {
        let mut changed = Vec::new();
        // Most pods have no such plugin, and this runs for every pod.
        if following.is_empty() {
            return FollowOutcome::Except(changed);
        }
        let mut is_first = true;
        for (idx, plugin) in self.followers(following) {
            let follow = || plugin.follow(&self.cx_of_pre_filter(idx), state, pod);
            match self.profile.measured(idx, MeteredPoint::PreFilter, follow, |_| Code::Success) {
                FollowOutcome::Except(nodes) => changed.extend(nodes),
                // The plugins before this one have already advanced their state to this pod, and will not name the changed nodes
                // again.
                FollowOutcome::Apart if is_first => return FollowOutcome::Apart,
                FollowOutcome::Apart | FollowOutcome::Outdated => return FollowOutcome::Outdated,
            }
            is_first = false;
        }
        FollowOutcome::Except(changed)
    }

    /// Lets these plugins drop what they keep in `state` for answers: none is wanted before the state is prepared for a later
    /// pod.
    pub fn rest(&self, following: &SkipSet, state: &mut CycleState) {
        if !following.is_empty() {
            self.followers(following).for_each(|(_, plugin)| plugin.rest(state));
        }
    }

    fn followers<'b>(
        &self,
        following: &'b SkipSet,
    ) -> impl Iterator<Item = (PluginIdx, &'a dyn PreFilterFollower)> + use<'a, 'b> {
        let all = self.profile.pre_filter().filter(|(idx, ..)| following.contains(*idx));
        all.filter_map(|(idx, _, plugin)| Some((idx, plugin.follower()?)))
    }
}
