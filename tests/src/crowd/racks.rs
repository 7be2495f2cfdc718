//! A plugin that counts pods by rack, zone and host, as plugin authors would write it: nothing in it is about caching.

use std::sync::Arc;

use kube_scheduler_framework::api::{LabelSelector, Pod, Requirement};
use kube_scheduler_framework::columns::ValueId;
use kube_scheduler_framework::counters::{CountedPods, CounterSpec, PodCounter, PodTerm};
use kube_scheduler_framework::{
    ClusterView, Context, CycleState, FeasibleNodes, Filter, NodeView, Normalization, Plugin,
    PreFilter, PreFilterOutcome, PreScore, Score, Sign, SignatureWriter, Status,
};

use super::kinds::{BOARD, HOSTNAME, RACK, ZONE};

/// Keeps few pods of a color in a domain, and prefers some domains to others, in ways that differ by color and revision.
pub(super) struct Racks;

impl Racks {
    pub(super) const NAME: &'static str = "Racks";
}

/// How many pods of the color a domain may have, and what counts them.
#[derive(Clone)]
struct Limit(PodCounter, i64);

/// What Score reads, and what it adds.
#[derive(Clone)]
struct Wish(PodCounter, i64);

fn count(cluster: ClusterView<'_>, pod: &Pod, color: &str, key: &str) -> PodCounter {
    let term = PodTerm {
        namespaces: Arc::from([pod.namespace.clone()]),
        namespace_selector: None,
        selector: LabelSelector::new(vec![Requirement::equals("color".into(), color.into())]),
    };
    cluster.count_pods(&CounterSpec {
        pods: CountedPods { terms: Arc::from([term]), counts_terminating: true },
        topology_key: Some(key.into()),
        ..CounterSpec::default()
    })
}

fn color_of(pod: &Pod) -> (&str, &str) {
    let text = |key| pod.labels.get(key).map_or("", |value| value);
    (text("color"), text("rev"))
}

impl Plugin for Racks {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn as_pre_filter(&self) -> Option<&dyn PreFilter> {
        Some(self)
    }

    fn as_filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }

    fn as_pre_score(&self) -> Option<&dyn PreScore> {
        Some(self)
    }

    fn as_score(&self) -> Option<&dyn Score> {
        Some(self)
    }

    fn as_sign(&self) -> Option<&dyn Sign> {
        Some(self)
    }
}

impl PreFilter for Racks {
    fn pre_filter(&self, cx: &Context<'_>, state: &mut CycleState, pod: &Pod) -> PreFilterOutcome {
        let cluster = cx.cluster();
        let limit = match color_of(pod) {
            ("red", "0") => Limit(count(cluster, pod, "red", RACK), 5),
            ("red", _) => Limit(count(cluster, pod, "red", HOSTNAME), 1),
            ("green", "0") => {
                // Made from a number: a third of all, so that it is another limit for each pod.
                let counter = count(cluster, pod, "green", BOARD);
                let all = cluster.counts(&counter).map_or(0, |counts| counts.numbers().n_pods());
                Limit(counter, 1 + all / 3)
            }
            _ => return PreFilterOutcome::skip(),
        };
        state.insert(limit);
        PreFilterOutcome::success()
    }
}

impl Filter for Racks {
    fn filter(&self, _: &Context<'_>, state: &CycleState, _: &Pod, node: &NodeView<'_>) -> Status {
        let Some(Limit(counter, most)) = state.get::<Limit>() else { return Status::SUCCESS };
        let near = node.cluster().counts(counter).and_then(|it| it.n_pods_near(node.idx()));
        match near {
            Some(n) if n >= *most => Status::unschedulable("enough pods there"),
            _ => Status::SUCCESS,
        }
    }
}

impl PreScore for Racks {
    fn pre_score(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &Pod,
        nodes: &FeasibleNodes<'_>,
    ) -> Status {
        let wish = match color_of(pod) {
            ("red", "0") => Wish(count(cx.cluster(), pod, "blue", HOSTNAME), 0),
            // In which domains there are nodes, and how many: groups must be as fine as domains.
            ("blue", "0") => {
                let counter = count(cx.cluster(), pod, "blue", RACK);
                let cluster = nodes.cluster(cx);
                let Some(counts) = cluster.counts(&counter) else { return Status::skip() };
                let in_domain = |(node, _): &(_, usize)| counts.domain_of(*node) != ValueId::ABSENT;
                let n: usize = nodes.groups().filter(in_domain).map(|(_, n)| n).sum();
                Wish(counter, n as i64 % 5)
            }
            ("blue", _) => Wish(count(cx.cluster(), pod, "green", ZONE), 1),
            _ => return Status::skip(),
        };
        state.insert(wish);
        Status::SUCCESS
    }
}

impl Score for Racks {
    fn score(
        &self,
        _: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Result<i64, Status> {
        let Some(Wish(counter, more)) = state.get::<Wish>() else { return Ok(0) };
        let Some(counts) = node.cluster().counts(counter) else { return Ok(0) };
        let n = match color_of(pod) {
            ("red", "0") => counts.n_pods_on(node.idx()),
            _ => counts.n_pods_near(node.idx()).unwrap_or(7),
        };
        Ok(n + more)
    }

    fn normalization(&self) -> Normalization {
        Normalization::ReversedProportional
    }
}

impl Sign for Racks {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        let (color, rev) = color_of(pod);
        [color, rev, &pod.namespace].iter().for_each(|text| signature.text(text));
        true
    }
}
