//! What a plugin that follows by itself what its PreFilter reads lets later pods share.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::Versions;
use kube_scheduler_cache::reads::{PhaseReads, PluginReads};

use super::{Check, PreparedPod, changed_nodes, equally_signed};
use crate::following::FollowOutcome;
use crate::testing::fixture::Fixture;

impl Check<'_> {
    /// Compares what pods of equal signatures get in `after` with the state and the answers that one of them left in `before`, and
    /// without.
    pub(super) fn followed_answers_hold(
        &mut self,
        before: &Fixture,
        after: &Fixture,
        change: &str,
        pods: &[Arc<Pod>],
    ) {
        let pre_filter = self.plugin.as_pre_filter();
        if pre_filter.and_then(|point| point.follower()).is_none() {
            return;
        }
        for class in equally_signed(self.plugin, pods) {
            for (pod, next) in class.iter().flat_map(|pod| class.iter().map(move |it| (pod, it))) {
                self.pod_follows(before, after, change, pod, next);
            }
        }
    }

    fn pod_follows(
        &mut self,
        before: &Fixture,
        after: &Fixture,
        change: &str,
        pod: &Pod,
        next: &Pod,
    ) {
        let pre_filter = self.plugin.as_pre_filter();
        let Some(follower) = pre_filter.and_then(|point| point.follower()) else { return };
        let reads = PluginReads::default();
        let mut asked = PreparedPod::new(self.plugin, before, pod, &reads);
        if !asked.once.pre_filter.is_success() || !follower.can_follow(&before.cx(), &asked.state) {
            return;
        }
        let cached = asked.about_all(before, &reads);
        // What PreFilter has read is the plugin's to follow.
        let read = PhaseReads { once: reads.pre_score.get(), ..reads.get() };
        let (was, is) = (before.cluster(), after.cluster());
        if !read.can_be_cached() || !Versions::of(was).agree(&Versions::of(is), read.union()) {
            return;
        }
        follower.rest(&mut asked.state);
        let followed = follower.follow(&after.cx(), &mut asked.state, next);
        let FollowOutcome::Except(mut stale) = followed else { return };
        stale.extend(changed_nodes(was, is, read.per_node.node_kinds()));
        asked.pod = next;
        for (node, right) in self.answers(after, next).nodes {
            let Some(idx) = is.node_idx(&node) else { continue };
            let anew = asked.about(after, idx, &PluginReads::default());
            let known = cached.iter().find(|(name, _)| *name == node);
            let known = known.filter(|_| !stale.contains(&idx)).cloned();
            for (_, answer) in [anew, known].into_iter().flatten().filter(|(_, it)| *it != right) {
                let (pod, next) = (pod.key(), next.key());
                let what = format!(
                    "pod {next} after pod {pod}, node {node}, after {change}: {answer}, right is {right}"
                );
                self.complain("followed answers are those that would be worked out anew", what);
            }
        }
    }
}
