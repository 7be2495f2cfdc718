//! NodeResourcesBalancedAllocation: prefers nodes whose resources stay evenly used.
//!
//! Answers to `plugins/noderesources/balanced_allocation.go` of the reference; behaviour in `docs/spec/plugins-node.md` §4.9.

use std::sync::Arc;

use kube_scheduler_framework::api::{Pod, is_scalar_resource};
use kube_scheduler_framework::{
    Context, CycleState, FeasibleNodes, Handle, NodeIdx, NodeView, Plugin, PluginArgs, PluginError,
    PreScore, Score, Sign, SignatureWriter, Status,
};
use smallvec::SmallVec;

use super::resource::Resource;
use super::scored::{Amounts, ScoreAmounts, ScoredResource, Scoring, UsedBasis};
use crate::dynamic_resources::totals::ScoredDevices;
use crate::plugin_args::checked_args;
use crate::signature::write;

pub(crate) const NAME: &str = "NodeResourcesBalancedAllocation";

pub(crate) fn new(args: &PluginArgs, handle: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    let args = checked_args!(NodeResourcesBalancedAllocation, args)?;
    // Weights are 1 by validation.
    let resources = args
        .resources
        .iter()
        .map(|spec| ScoredResource { resource: Resource::named(&spec.name), weight: 1 });
    Ok(Arc::new(BalancedAllocation {
        resources: resources.collect(),
        devices: ScoredDevices::new(handle),
    }))
}

struct BalancedAllocation {
    resources: Box<[ScoredResource]>,
    /// Present if device classes may serve extended resources.
    devices: Option<ScoredDevices>,
}

impl BalancedAllocation {
    /// Whether the pod asks for none of the configured resources: then there is nothing to balance.
    fn is_indifferent(&self, pod: &Pod) -> bool {
        let requests = &pod.requests.accounted;
        self.resources.iter().all(|scored| match &scored.resource {
            // No node has any, but a request for it still counts as a request.
            Resource::Scalar(name) if !is_scalar_resource(name) => {
                pod.requests.total(name).is_none_or(|quantity| quantity.value() == 0)
            }
            resource => resource.of(requests) == 0,
        })
    }

    fn scoring<'a>(&'a self, pod: &'a Pod) -> Scoring<'a> {
        Scoring {
            scorer: NAME,
            resources: &self.resources,
            request: &pod.requests.accounted,
            basis: UsedBasis::Plain,
            devices: self.devices.as_ref(),
        }
    }
}

plugin!(BalancedAllocation, PreScore, Score, Sign);

impl PreScore for BalancedAllocation {
    fn pre_score(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        pod: &Pod,
        _: &FeasibleNodes<'_>,
    ) -> Status {
        if self.is_indifferent(pod) { Status::skip() } else { Status::SUCCESS }
    }
}

impl Score for BalancedAllocation {
    fn score(
        &self,
        _: &Context<'_>,
        _: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status> {
        // PreScore skips such pods, but it may be disabled.
        if self.is_indifferent(pod) {
            return Ok(0);
        }
        Ok(self.scoring(pod).of_node(node, &Balance))
    }

    fn score_all(
        &self,
        cx: &Context<'_>,
        _: &CycleState,
        pod: &Pod,
        nodes: &[NodeIdx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        if self.is_indifferent(pod) {
            scores.fill(0);
            return Ok(());
        }
        self.scoring(pod).of_nodes(cx.cluster(), pod, nodes, scores, &Balance);
        Ok(())
    }

    fn promises_bounds(&self) -> bool {
        true
    }
}

impl Sign for BalancedAllocation {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        write(&pod.requests.accounted, signature);
        signature.present(self.is_indifferent(pod));
        true
    }
}

/// 75 when the pod leaves the balance as it is, more when it improves it.
struct Balance;

impl ScoreAmounts for Balance {
    #[inline]
    fn score(&self, mut amounts: impl Iterator<Item = Amounts>) -> i64 {
        let fractions = |amounts: &Amounts| {
            let Amounts { allocatable, before, after, .. } = *amounts;
            (fraction(before, allocatable), fraction(after, allocatable))
        };
        let first = [amounts.next(), amounts.next(), amounts.next()];
        // Two resources are the default. In lists, theirs take longer (`bench core --workload SchedulingCSIPVs`).
        if let [Some(a), Some(b), None] = &first {
            let ((a_before, a_after), (b_before, b_after)) = (fractions(a), fractions(b));
            return gain_between(&[a_before, b_before], &[a_after, b_after]);
        }
        let all = first.into_iter().flatten().chain(amounts);
        let (before, after): (Fractions, Fractions) =
            all.map(|amounts| fractions(&amounts)).unzip();
        gain_between(&before, &after)
    }
}

#[inline]
fn gain_between(before: &[f64], after: &[f64]) -> i64 {
    50 + (50 + balance(after) - balance(before)) / 2
}

type Fractions = SmallVec<[f64; 4]>;

fn fraction(used: i64, allocatable: i64) -> f64 {
    let fraction = used as f64 / allocatable as f64;
    if fraction > 1.0 { 1.0 } else { fraction }
}

/// 100 when all fractions are equal, less the more they differ. No fused operations, sums in order.
fn balance(fractions: &[f64]) -> i64 {
    let deviation = match fractions {
        [] | [_] => 0.0,
        [a, b] => ((a - b) / 2.0).abs(),
        _ => {
            let n = fractions.len() as f64;
            let mut total = 0.0;
            for fraction in fractions {
                total += fraction;
            }
            let mean = total / n;
            let mut squares = 0.0;
            for fraction in fractions {
                squares += (fraction - mean) * (fraction - mean);
            }
            (squares / n).sqrt()
        }
    };
    ((1.0 - deviation) * 100.0) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(rows: &[(i64, i64, i64)]) -> i64 {
        Balance.score(rows.iter().map(|&(before, after, allocatable)| Amounts {
            allocatable,
            before,
            after,
            weight: 1,
        }))
    }

    #[test]
    fn two_resources() {
        assert_eq!(score(&[(0, 3000, 4000), (0, 5000, 10000)]), 68);
        assert_eq!(score(&[(0, 2, 4), (0, 5, 10)]), 75);
        assert_eq!(score(&[(10, 10, 10), (0, 10, 10)]), 100);
        assert_eq!(score(&[(0, 0, 10), (0, 10, 10)]), 50);
    }

    #[test]
    fn more_than_there_is_counts_as_full() {
        assert_eq!(score(&[(0, 20, 10), (0, 10, 10)]), 75);
    }

    #[test]
    fn three_resources_take_the_root() {
        // Fractions 0.5, 0.5, 1: deviation sqrt(1/18) = 0.2357, so 76 after and 100 before.
        assert_eq!(score(&[(0, 1, 2), (0, 1, 2), (0, 2, 2)]), 63);
    }

    #[test]
    fn without_any_capacity_the_score_is_neutral() {
        assert_eq!(score(&[]), 75);
    }
}
