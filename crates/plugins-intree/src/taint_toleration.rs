//! TaintToleration: hard taints keep pods away that do not tolerate them, soft ones make a node less attractive.
//!
//! Answers to `plugins/tainttoleration/taint_toleration.go` of the reference; behaviour in `docs/spec/plugins-node.md` §2.8
//! and §4.5. Scans look at each distinct list of taints once, however many nodes carry it.

use std::sync::Arc;

use kube_scheduler_framework::api::{Pod, Taint, TaintEffect, untolerated_taint};
use kube_scheduler_framework::{
    ActionType, Context, CycleState, EnqueueExtensions, EventRegistration, FeasibleNodes, Filter,
    FilterSink, Handle, NodeIdx, NodeView, Normalization, Plugin, PluginArgs, PluginError,
    PreScore, Score, Sign, SignatureWriter, Status,
};

use crate::signature::{tolerations, write};

pub(crate) const NAME: &str = "TaintToleration";

const REASON: &str = "node(s) had untolerated taint(s)";
const NO_STATE: &str = "failed to read \"PreScoreTaintToleration\" from cycleState: not found";

pub(crate) fn new(_: &PluginArgs, handle: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    Ok(Arc::new(TaintToleration {
        compares_numbers: handle.is_enabled("TaintTolerationComparisonOperators"),
        rejection: Status::unresolvable(REASON).from_plugin(&NAME.into()),
    }))
}

struct TaintToleration {
    /// Whether `Lt` and `Gt` tolerations count.
    compares_numbers: bool,
    rejection: Status,
}

/// PreScore ran.
#[derive(Clone)]
struct PreScoreMarker;

impl TaintToleration {
    fn is_kept_out(&self, pod: &Pod, taints: &[Taint]) -> bool {
        untolerated_taint(taints, &pod.spec.tolerations, self.compares_numbers).is_some()
    }

    /// How many soft taints are not tolerated.
    fn n_untolerated(&self, pod: &Pod, taints: &[Taint]) -> i64 {
        let is_tolerated = |taint: &Taint| {
            let mut tolerations = pod.spec.tolerations.iter();
            tolerations.any(|toleration| toleration.tolerates(taint, self.compares_numbers))
        };
        let untolerated = taints
            .iter()
            .filter(|taint| taint.effect == TaintEffect::PreferNoSchedule && !is_tolerated(taint));
        i64::try_from(untolerated.count()).unwrap_or(i64::MAX)
    }
}

/// Whether a node lets a pod in that it kept out, or is new and lets it in. What keeps out is a comparison with all tolerations of the
/// pod, and is asked for each waiting pod: first about taints that the node has lost, since one of these must have kept the pod out if
/// none of those left does.
fn opens(old: Option<&[Taint]>, new: &[Taint], keeps_out: impl Fn(&Taint) -> bool) -> bool {
    let lost_one = |old: &[Taint]| old.iter().any(|taint| !new.contains(taint) && keeps_out(taint));
    old.is_none_or(lost_one) && !new.iter().any(keeps_out)
}

plugin!(TaintToleration, Filter, PreScore, Score, EnqueueExtensions, Sign);

impl Filter for TaintToleration {
    fn filter(&self, _: &Context<'_>, _: &CycleState, pod: &Pod, node: &NodeView<'_>) -> Status {
        if self.is_kept_out(pod, node.taints()) { self.rejection.clone() } else { Status::SUCCESS }
    }

    fn filter_all(
        &self,
        cx: &Context<'_>,
        _: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        sink: &mut FilterSink<'_>,
    ) -> Result<(), Status> {
        let sets = cx.cluster().taint_sets();
        let mut keeps_out = vec![false; sets.n_ids()];
        for (id, taints) in sets.iter() {
            keeps_out[id.index()] = self.is_kept_out(pod, taints);
        }
        if !keeps_out.contains(&true) {
            return Ok(());
        }
        let id = sink.code_for(self.rejection.clone());
        let keeps_out = &keeps_out[..];
        let ids = cx.cluster().taint_set_ids();
        sink.reject_by_value(nodes, id, ids, |_, taints| keeps_out[taints.index()]);
        Ok(())
    }
}

impl PreScore for TaintToleration {
    fn pre_score(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        _: &Pod,
        _: &FeasibleNodes<'_>,
    ) -> Status {
        state.insert(PreScoreMarker);
        Status::SUCCESS
    }
}

impl Score for TaintToleration {
    fn score(
        &self,
        _: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status> {
        state.get::<PreScoreMarker>().ok_or_else(|| Status::error(NO_STATE))?;
        Ok(self.n_untolerated(pod, node.taints()))
    }

    fn score_all(
        &self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        if nodes.is_empty() {
            return Ok(());
        }
        state.get::<PreScoreMarker>().ok_or_else(|| Status::error(NO_STATE))?;
        let sets = cx.cluster().taint_sets();
        let mut counts = vec![0_i64; sets.n_ids()];
        for (id, taints) in sets.iter() {
            counts[id.index()] = self.n_untolerated(pod, taints);
        }
        if counts.iter().all(|count| *count == 0) {
            scores.fill(0);
            return Ok(());
        }
        let counts = &counts[..];
        let ids = cx.cluster().taint_set_ids();
        ids.zip_nodes(nodes, scores, |score, taints| *score = counts[taints.index()]);
        Ok(())
    }

    fn normalization(&self) -> Normalization {
        Normalization::ReversedProportional
    }
}

impl Sign for TaintToleration {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        write(tolerations(&pod.spec.tolerations), signature);
        true
    }
}

impl EnqueueExtensions for TaintToleration {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        let of_nodes = ActionType::ADD | ActionType::UPDATE_NODE_TAINT;
        let compares_numbers = self.compares_numbers;
        vec![
            EventRegistration::on_node(of_nodes, move |_, pod, old, new| {
                let Some(new) = new else { return true };
                let keeps_out = |taint: &Taint| {
                    let taint = std::slice::from_ref(taint);
                    untolerated_taint(taint, &pod.spec.tolerations, compares_numbers).is_some()
                };
                opens(old.map(|old| &*old.taints), &new.taints, keeps_out)
            }),
            EventRegistration::on_pod(ActionType::UPDATE_POD_TOLERATION, |_, pod, _, updated| {
                // Whether the new toleration helps is not asked.
                updated.is_some_and(|updated| updated.uid == pod.uid)
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    fn taint(number: u8) -> Taint {
        Taint { key: number.to_string().into(), value: "".into(), effect: "NoSchedule".into() }
    }

    /// What the hint says, and how many taints it asked about.
    fn ask(old: Option<&[u8]>, new: &[u8], tolerated: &[u8]) -> (bool, usize) {
        let taints =
            |numbers: &[u8]| numbers.iter().map(|number| taint(*number)).collect::<Vec<_>>();
        let (old, new, tolerated) = (old.map(taints), taints(new), taints(tolerated));
        let n_asked = Cell::new(0);
        let opens = opens(old.as_deref(), &new, |taint| {
            n_asked.set(n_asked.get() + 1);
            !tolerated.contains(taint)
        });
        (opens, n_asked.get())
    }

    #[test]
    fn taints_that_are_new_or_stay_are_not_compared_for_pods_that_they_keep_out() {
        // A taint comes: no pod is let in by that.
        assert_eq!(ask(Some(&[1, 2]), &[1, 2, 3], &[1, 2, 3]), (false, 0));
        // One goes that the pod tolerates, and one that it does not.
        assert_eq!(ask(Some(&[1, 2]), &[1], &[2]), (false, 1));
        assert_eq!(ask(Some(&[1, 2]), &[1], &[1]), (true, 2));
        assert_eq!(ask(None, &[1, 2, 3], &[]), (false, 1));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, rng_seed: RngSeed::Fixed(8), ..ProptestConfig::default() })]

        #[test]
        fn the_hint_is_that_of_comparing_all_taints(
            old in prop::option::of(prop::collection::vec(0..5_u8, 0..4)),
            new in prop::collection::vec(0..5_u8, 0..4),
            tolerated in prop::collection::vec(0..5_u8, 0..5),
        ) {
            let is_kept_out = |taints: &[u8]| taints.iter().any(|taint| !tolerated.contains(taint));
            let expected = old.as_deref().is_none_or(is_kept_out) && !is_kept_out(&new);
            prop_assert_eq!(ask(old.as_deref(), &new, &tolerated).0, expected);
        }
    }
}
