//! Budgets found by namespace against a walk through all budgets for each pod.

use kube_scheduler_cache::ClusterState;
use kube_scheduler_framework::api::Object;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A budget, as its object says it.
#[derive(Clone, Debug)]
struct Plain {
    namespace: String,
    name: String,
    /// What it asks of the label "app" and of the label "tier".
    wanted: [Option<u8>; 2],
    allowed: Option<i64>,
    /// The number of the pod whose disruption is counted already.
    disrupted: Option<u8>,
}

impl Plain {
    fn object(&self) -> Object {
        let mut labels = json!({});
        for (key, wanted) in ["app", "tier"].iter().zip(self.wanted) {
            if let Some(value) = wanted {
                labels[*key] = value.to_string().into();
            }
        }
        let mut status = json!({"disruptionsAllowed": self.allowed});
        if let Some(pod) = self.disrupted {
            status["disruptedPods"] = json!({format!("p{pod}"): "2026-01-01T00:00:00Z"});
        }
        Object::from_value(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"namespace": self.namespace, "name": self.name},
            "spec": {"selector": {"matchLabels": labels}}, "status": status,
        }))
        .unwrap()
    }

    fn covers(&self, pod: &Pod) -> bool {
        let has = |key: &str, wanted: Option<u8>| {
            wanted.is_none_or(|value| pod.labels.get(key) == Some(&*value.to_string()))
        };
        let [app, tier] = self.wanted;
        self.namespace == *pod.namespace
            && self.wanted != [None, None]
            && has("app", app)
            && has("tier", tier)
            && self.disrupted.is_none_or(|at| *pod.name != *format!("p{at}"))
    }
}

/// For each pod the names of the budgets that its eviction violates; every budget that covers it is counted down.
fn walk(budgets: &[Plain], pods: &[Arc<Pod>]) -> Vec<Vec<String>> {
    let mut left: Vec<i64> = budgets.iter().map(|budget| budget.allowed.unwrap_or(0)).collect();
    let of_pod = |pod: &Arc<Pod>| {
        let mut violated = Vec::new();
        for (budget, left) in budgets.iter().zip(&mut left) {
            if budget.covers(pod) {
                *left -= 1;
                if *left < 0 {
                    violated.push(budget.name.clone());
                }
            }
        }
        violated
    };
    pods.iter().map(of_pod).collect()
}

/// For each pod whether all budgets let it go; those after one that does not are not counted down.
fn walk_to_the_first(budgets: &[Plain], pods: &[Arc<Pod>]) -> Vec<bool> {
    let mut left: Vec<i64> = budgets.iter().map(|budget| budget.allowed.unwrap_or(0)).collect();
    let lets_go = |pod: &Arc<Pod>| {
        for (budget, left) in budgets.iter().zip(&mut left) {
            if budget.covers(pod) {
                *left -= 1;
                if *left < 0 {
                    return false;
                }
            }
        }
        true
    };
    pods.iter().map(lets_go).collect()
}

fn budgets() -> impl Strategy<Value = Vec<Plain>> {
    let wanted = || prop::option::weighted(0.6, 0_u8..2);
    let one = (
        0_u8..3,
        [wanted(), wanted()],
        prop::option::weighted(0.9, -1_i64..4),
        prop::option::weighted(0.2, 0_u8..8),
    );
    let all = prop::collection::vec(one, 0..12);
    all.prop_map(|all| {
        let numbered = all.into_iter().enumerate();
        let mut all: Vec<Plain> = numbered
            .map(|(at, (namespace, wanted, allowed, disrupted))| Plain {
                namespace: format!("n{namespace}"),
                name: format!("b{}", at % 4),
                wanted,
                allowed,
                disrupted,
            })
            .collect();
        // The order in which they are counted down.
        all.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        all.dedup_by(|a, b| (&a.namespace, &a.name) == (&b.namespace, &b.name));
        all
    })
}

fn pods() -> impl Strategy<Value = Vec<Arc<Pod>>> {
    let label = || prop::option::weighted(0.8, 0_u8..2);
    let one = (0_u8..8, 0_u8..3, label(), label());
    let pod = one.prop_map(|(name, namespace, app, tier)| {
        let mut labels = json!({});
        for (key, value) in [("app", app), ("tier", tier)] {
            if let Some(value) = value {
                labels[key] = value.to_string().into();
            }
        }
        let (name, namespace) = (format!("p{name}"), format!("n{namespace}"));
        let json = json!({"metadata": {"name": name, "namespace": namespace, "labels": labels}});
        Arc::new(Pod::from_value(&json).unwrap())
    });
    prop::collection::vec(pod, 0..12)
}

proptest! {
    #[test]
    fn budgets_found_by_namespace_are_those_of_a_walk(
        plain in budgets(), pods in pods(), replaced in prop::option::of(0_usize..12),
    ) {
        let (mut cluster, mut plain) = (ClusterState::new(), plain);
        for budget in &plain {
            cluster.upsert_object(Arc::new(budget.object()));
        }
        // What was read of a budget before must not be what counts once it has changed.
        if let Some(budget) = replaced.and_then(|at| plain.get_mut(at)) {
            drop(Budgets::of(ClusterView::unrecorded(&cluster)));
            budget.allowed = Some(1);
            budget.wanted = [Some(0), None];
            cluster.upsert_object(Arc::new(budget.object()));
        }
        let budgets = Budgets::of(ClusterView::unrecorded(&cluster));
        let n_covering = plain.iter().filter(|budget| budget.wanted != [None, None]).count();
        prop_assert_eq!(budgets.len(), n_covering);

        let violated = walk(&plain, &pods);
        let some_pods = || pods.iter().collect::<SomePods<'_>>();
        let found = budgets.violations(some_pods());
        let expected: Vec<(&Arc<Pod>, Vec<Arc<str>>)> = pods
            .iter()
            .zip(&violated)
            .filter(|(_, names)| !names.is_empty())
            .map(|(pod, names)| (pod, names.iter().map(|name| Arc::from(&**name)).collect()))
            .collect();
        prop_assert_eq!(found, expected);

        let (violating, others) = budgets.split(some_pods());
        let of = |violates: bool| {
            let pods = pods.iter().zip(&violated);
            pods.filter(move |(_, names)| names.is_empty() != violates).map(|(pod, _)| pod)
        };
        prop_assert!(violating.iter().copied().eq(of(true)));
        prop_assert!(others.iter().copied().eq(of(false)));

        let mut left = Left::default();
        let let_go: Vec<bool> = pods.iter().map(|pod| budgets.let_go(pod, &mut left)).collect();
        prop_assert_eq!(let_go, walk_to_the_first(&plain, &pods));
    }
}
