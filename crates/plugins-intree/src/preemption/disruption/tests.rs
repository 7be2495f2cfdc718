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
    /// In which of three ways it says that.
    written: u8,
    allowed: Option<i64>,
    /// The number of the pod whose disruption is counted already.
    disrupted: Option<u8>,
}

impl Plain {
    fn object(&self) -> Object {
        let (mut labels, mut expressions) = (json!({}), Vec::new());
        for (key, wanted) in ["app", "tier"].iter().zip(self.wanted) {
            let Some(value) = wanted else { continue };
            let expression = |operator: &str, values: &[u8]| {
                let values: Vec<String> = values.iter().map(u8::to_string).collect();
                json!({"key": key, "operator": operator, "values": values})
            };
            match self.written {
                0 => labels[*key] = value.to_string().into(),
                1 => expressions.push(expression("In", &[value, 7])),
                _ => {
                    expressions.push(expression("NotIn", &[1 - value]));
                    expressions.push(expression("Exists", &[]));
                }
            }
        }
        let mut status = json!({"disruptionsAllowed": self.allowed});
        if let Some(pod) = self.disrupted {
            status["disruptedPods"] = json!({format!("p{pod}"): "2026-01-01T00:00:00Z"});
        }
        Object::from_value(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"namespace": self.namespace, "name": self.name},
            "spec": {"selector": {"matchLabels": labels, "matchExpressions": expressions}},
            "status": status,
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
        ([wanted(), wanted()], 0_u8..3),
        prop::option::weighted(0.9, -1_i64..4),
        prop::option::weighted(0.2, 0_u8..8),
    );
    let all = prop::collection::vec(one, 0..12);
    all.prop_map(|all| {
        let numbered = all.into_iter().enumerate();
        let mut all: Vec<Plain> = numbered
            .map(|(at, (namespace, (wanted, written), allowed, disrupted))| Plain {
                namespace: format!("n{namespace}"),
                name: format!("b{}", at % 4),
                wanted,
                written,
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
            Budgets::of(ClusterView::unrecorded(&cluster), "evil").violations(pods.iter().collect());
            budget.allowed = Some(1);
            budget.wanted = [Some(0), None];
            cluster.upsert_object(Arc::new(budget.object()));
        }
        let mut budgets = Budgets::of(ClusterView::unrecorded(&cluster), "evil");
        prop_assert_eq!(budgets.len(), plain.len());

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

        let mut left = RemainingBudgets::default();
        let let_go: Vec<bool> = pods.iter().map(|pod| budgets.let_go(pod, &mut left)).collect();
        prop_assert_eq!(let_go, walk_to_the_first(&plain, &pods));
    }
}

/// A cluster with budgets of the namespace "evil", whose selectors are these.
fn cluster_with(selectors: impl IntoIterator<Item = serde_json::Value>) -> ClusterState {
    let mut cluster = ClusterState::new();
    for (at, selector) in selectors.into_iter().enumerate() {
        let object = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"namespace": "evil", "name": format!("b{at:05}")},
            "spec": {"selector": selector}, "status": {"disruptionsAllowed": 1000},
        });
        cluster.upsert_object(Arc::new(Object::from_value(object).unwrap()));
    }
    cluster
}

/// Pods with labels of their own.
fn pods_of(namespace: &str, n: usize) -> Vec<Arc<Pod>> {
    let pod = |at: usize| {
        let json = json!({"metadata": {"namespace": namespace, "name": format!("p{at}"),
            "labels": {"app": format!("a{at}")}}});
        Arc::new(Pod::from_value(&json).unwrap())
    };
    (0..n).map(pod).collect()
}

fn expressions(operator: &str, n: usize) -> serde_json::Value {
    let one = |at: usize| json!({"key": format!("k{at}"), "operator": operator});
    json!({"matchExpressions": (0..n).map(one).collect::<Vec<_>>()})
}

/// How many of these pods a budget protects, and what it cost a pod of the namespace "evil" to find out.
fn protected(cluster: &ClusterState, pods: &[Arc<Pod>]) -> (usize, u64) {
    protected_from("evil", cluster, pods)
}

/// The same for a pod of any namespace.
fn protected_from(payer: &str, cluster: &ClusterState, pods: &[Arc<Pod>]) -> (usize, u64) {
    let mut budgets = Budgets::of(ClusterView::unrecorded(cluster), payer);
    let (violating, others) = budgets.split(pods.iter().collect());
    assert_eq!(violating.len() + others.len(), pods.len());
    (violating.len(), budgets.take_work())
}

#[test]
fn a_budget_is_compared_with_pods_that_have_a_label_which_it_asks_for() {
    let by_app = |at: usize| json!({"matchLabels": {"app": format!("a{at}"), "tier": "none"}});
    let cluster = cluster_with((0..3000).map(by_app));
    // Reading them, and for each set of labels a look-up and the budget that is found.
    assert_eq!(protected(&cluster, &pods_of("evil", 1000)), (0, 3000 + 1000 * (1 + 5)));
    assert_eq!(protected(&cluster, &pods_of("honest", 1000)), (0, 0));
}

#[test]
fn pods_that_share_their_labels_are_compared_once() {
    let cluster = cluster_with([expressions("DoesNotExist", 5)]);
    let one = pods_of("evil", 1).remove(0);
    let named = |at: usize| Arc::new(Pod { name: format!("p{at}").into(), ..(*one).clone() });
    let all: Vec<Arc<Pod>> = (0..1500).map(named).collect();
    assert_eq!(protected(&cluster, &all), (500, 1 + 6 + coverage::COVERING));
}

#[test]
fn what_budgets_of_others_cost_is_not_paid_by_who_preempts() {
    let cluster = cluster_with(vec![expressions("DoesNotExist", 5); 4]);
    let pods = pods_of("evil", 1200);
    let work = 4 + 1200 * 4 * (6 + coverage::COVERING);
    assert_eq!(protected_from("evil", &cluster, &pods), (200, work));
    assert_eq!(protected_from("honest", &cluster, &pods), (200, 0));
}

#[test]
fn comparing_budgets_has_a_limit_and_pods_beyond_it_are_protected() {
    let most = |n_pods: u64, n_budgets: u64| {
        n_budgets + n_pods * (coverage::MOST_WORK + coverage::COVERING)
    };
    let pods = pods_of("evil", 500);
    for (what, n_budgets, selector, expected) in [
        ("too long, as many as may be evicted", 1, expressions("DoesNotExist", 30_000), 0),
        ("too long, of which not all are counted", 20, expressions("DoesNotExist", 30_000), 500),
        ("long", 1, expressions("DoesNotExist", 250), 500),
        ("long, for other pods", 3, expressions("Exists", 60), 500),
        ("many", 100, expressions("DoesNotExist", 1), 500),
        (
            "more than are looked at, for other pods",
            5000,
            json!({"matchLabels": {"app": "none"}}),
            500,
        ),
        (
            "as many as are looked at, for other pods",
            4096,
            json!({"matchLabels": {"app": "none"}}),
            0,
        ),
    ] {
        let cluster = cluster_with(vec![selector; n_budgets]);
        let (n_protected, work) = protected(&cluster, &pods);
        assert_eq!(n_protected, expected, "{what}");
        assert!(work <= most(500, n_budgets as u64), "{what}: {work}");
        assert_eq!(protected(&cluster, &pods_of("honest", 500)), (0, 0), "{what}");
    }
}

#[test]
fn budgets_that_are_looked_up_by_very_many_labels_protect_all_pods() {
    let by_own_key = |at: usize| json!({"matchLabels": {format!("k{at}"): "v"}});
    let cluster = cluster_with((0..1000).map(by_own_key));
    let (n_protected, work) = protected(&cluster, &pods_of("evil", 10));
    assert_eq!((n_protected, work), (10, 1000 + 10 * coverage::MOST_WORK));
}

#[test]
fn what_was_not_compared_is_named_and_lets_no_unit_go() {
    let cluster = cluster_with(vec![expressions("DoesNotExist", 1); 30]);
    let pods = pods_of("evil", 2);
    let mut budgets = Budgets::of(ClusterView::unrecorded(&cluster), "evil");
    let violations = budgets.violations(pods.iter().collect());
    let names: Vec<Vec<String>> = violations
        .iter()
        .map(|(_, names)| names.iter().map(ToString::to_string).collect())
        .collect();
    assert_eq!(names, vec![vec!["b00008".to_owned()]; 2]);
    assert!(!budgets.let_go(&pods[0], &mut RemainingBudgets::default()));
}
