//! Request totals against recorded cases and a direct recomputation.

mod claims;
mod many;

use std::collections::BTreeMap;

use num_bigint::BigInt;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use super::*;

fn requests(pod: Value) -> PodRequests {
    requests_with(pod, CompileOptions::default())
}

fn requests_with(pod: Value, options: CompileOptions) -> PodRequests {
    PodRequests::from_wire(&serde_json::from_value(pod).unwrap(), &options)
}

fn spec(spec: Value) -> PodRequests {
    requests(json!({ "spec": spec }))
}

fn container(name: &str, requests: Value) -> Value {
    json!({"name": name, "resources": {"requests": requests}})
}

fn sidecar(name: &str, requests: Value) -> Value {
    json!({"name": name, "restartPolicy": "Always", "resources": {"requests": requests}})
}

const MI: i64 = 1 << 20;

#[test]
fn sums_are_rounded_up_once() {
    let all = spec(
        json!({"containers": [container("a", json!({"cpu": "0.5m"})), container("b", json!({"cpu": "0.5m"}))]}),
    );
    assert_eq!(all.accounted.milli_cpu, 1);
    let all = spec(
        json!({"containers": [container("a", json!({"memory": "1.5"})), container("b", json!({"memory": "1.6"}))]}),
    );
    assert_eq!(all.fit.memory, 4);
}

#[test]
fn init_containers_count_by_peak_and_sidecars_stay() {
    // One after the other: the larger of the peak and the sum.
    let all = spec(json!({
        "containers": [container("a", json!({"cpu": "1", "memory": "1Gi"})), container("b", json!({"cpu": "1"}))],
        "initContainers": [container("i", json!({"cpu": "3"})), container("j", json!({"memory": "512Mi"}))],
    }));
    assert_eq!((all.accounted.milli_cpu, all.accounted.memory), (3000, 1024 * MI));
    // A sidecar adds to the containers and to init containers that start after it, not before.
    let all = spec(json!({
        "containers": [container("a", json!({"cpu": "1"}))],
        "initContainers": [container("i", json!({"cpu": "5"})), sidecar("s", json!({"cpu": "2"})), container("j", json!({"cpu": "4"}))],
    }));
    assert_eq!(all.accounted.milli_cpu, 6000);
    let all = spec(json!({
        "containers": [container("a", json!({"cpu": "9"}))],
        "initContainers": [sidecar("s", json!({"cpu": "2"})), container("j", json!({"cpu": "4"}))],
    }));
    assert_eq!(all.accounted.milli_cpu, 11_000);
}

#[test]
fn overhead_is_added_last_and_creates_names() {
    let all = spec(json!({
        "overhead": {"cpu": "250m", "example.com/x": "2"},
        "resources": {"requests": {"cpu": "1"}},
        "containers": [container("a", json!({"cpu": "5"}))],
    }));
    assert_eq!(all.accounted.milli_cpu, 1250);
    assert_eq!(all.accounted.scalar("example.com/x"), Some(2));
    let overhead = all.overhead.as_deref().unwrap();
    assert_eq!((overhead.milli_cpu, overhead.scalar("example.com/x")), (250, Some(2)));
    assert_eq!(spec(json!({"containers": [container("a", json!({"cpu": "5"}))]})).overhead, None);
}

#[test]
fn pod_level_requests_replace_even_by_less() {
    let pod = json!({
        "resources": {"requests": {"cpu": "1", "ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi"}},
        "containers": [container("a", json!({"cpu": "2", "memory": "1Gi", "ephemeral-storage": "3"}))],
    });
    let all = spec(pod.clone());
    assert_eq!((all.accounted.milli_cpu, all.accounted.memory), (1000, 1024 * MI));
    assert_eq!(all.accounted.ephemeral_storage, 3, "not a pod-level resource");
    assert_eq!(all.accounted.scalar("hugepages-2Mi"), Some(4 * MI));
    assert_eq!(
        (all.fit_score.milli_cpu, all.fit_score.scalar("hugepages-2Mi")),
        (2000, None),
        "score sees containers"
    );
    // Only unsupported names: the list counts as absent.
    let only_storage = spec(
        json!({"resources": {"requests": {"ephemeral-storage": "1Gi"}}, "containers": [container("a", json!({}))]}),
    );
    assert_eq!(only_storage.accounted.ephemeral_storage, 0);
    assert_eq!(only_storage.non_zero, NonZeroRequest { milli_cpu: 100, memory: 200 * MI });

    let off = CompileOptions { pod_level_resources: false, ..CompileOptions::default() };
    let all = requests_with(json!({ "spec": pod }), off);
    assert_eq!((all.accounted.milli_cpu, all.fit.milli_cpu), (2000, 2000));
    assert_eq!(
        all.total("cpu"),
        Some(&Quantity::from_units(1)),
        "scale-down detection never skips them"
    );
}

#[test]
fn non_zero_defaults() {
    // Per container, init containers too; zero that was asked for stays zero.
    let all = spec(json!({
        "containers": [container("a", json!({"cpu": "0"})), container("b", json!({})), container("c", json!({"memory": "1Mi"}))],
    }));
    assert_eq!(all.non_zero, NonZeroRequest { milli_cpu: 200, memory: 401 * MI });
    assert_eq!(all.fit_score.milli_cpu, 200);
    assert_eq!(all.accounted.milli_cpu, 0);
    let all = spec(
        json!({"initContainers": [container("i", json!({}))], "containers": [container("a", json!({"cpu": "1", "memory": "1Mi"}))]}),
    );
    assert_eq!(all.non_zero, NonZeroRequest { milli_cpu: 1000, memory: 200 * MI });
    // Pod-level memory only, one container, one init container: 100m and what the pod says.
    let all = spec(json!({
        "resources": {"requests": {"memory": "1Gi"}},
        "initContainers": [container("i", json!({}))],
        "containers": [container("a", json!({}))],
    }));
    assert_eq!(all.non_zero, NonZeroRequest { milli_cpu: 100, memory: 1024 * MI });
    // Pod-level cpu only, containers with ephemeral storage only: 200Mi.
    let all = spec(json!({
        "resources": {"requests": {"cpu": "2"}},
        "containers": [container("a", json!({"ephemeral-storage": "1"}))],
    }));
    assert_eq!(all.non_zero, NonZeroRequest { milli_cpu: 2000, memory: 200 * MI });
    assert_eq!((all.fit_score.milli_cpu, all.fit_score.memory), (100, 200 * MI));
    // Overhead counts as having the resource, but only where pod-level requests are set.
    let overhead = |resources: Value| {
        spec(
            json!({"overhead": {"memory": "1Mi"}, "resources": resources, "containers": [container("a", json!({}))]}),
        )
    };
    assert_eq!(overhead(json!({"requests": {"cpu": "1"}})).non_zero.memory, MI);
    assert_eq!(overhead(json!(null)).non_zero.memory, 201 * MI);
    assert_eq!(
        spec(json!({})).non_zero,
        NonZeroRequest::default(),
        "a pod without containers asks for nothing"
    );
}

fn resized(reason: &str, state: Value) -> PodRequests {
    requests(json!({
        "spec": {"containers": [container("a", json!({"cpu": "2", "memory": "1Gi"}))]},
        "status": {
            "conditions": [{"type": "Ready"}, {"type": "PodResizePending", "reason": reason}, {"type": "PodResizePending", "reason": "Infeasible"}],
            "containerStatuses": [state],
        },
    }))
}

#[test]
fn resize_status_counts_for_what_runs() {
    let state = json!({"name": "a", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "1", "memory": "2Gi"}});
    let all = resized("Deferred", state.clone());
    assert_eq!((all.accounted.milli_cpu, all.accounted.memory), (3000, 2048 * MI));
    assert_eq!(
        (all.fit.milli_cpu, all.fit_score.milli_cpu),
        (2000, 2000),
        "not for what is to be placed"
    );
    assert_eq!(all.non_zero, NonZeroRequest { milli_cpu: 3000, memory: 2048 * MI });
    assert_eq!(
        (all.total("cpu"), all.spec_total("cpu")),
        (Some(&Quantity::from_units(3)), Some(&Quantity::from_units(2)))
    );
    // Infeasible: the specification drops out, even if it is the largest.
    let all = resized("Infeasible", json!({"name": "a", "resources": {"requests": {"cpu": "1"}}}));
    assert_eq!((all.accounted.milli_cpu, all.accounted.memory), (1000, 0));
    assert_eq!(all.non_zero, NonZeroRequest { milli_cpu: 1000, memory: 200 * MI });
    // Without resources the state says nothing.
    let all = resized("Infeasible", json!({"name": "a", "allocatedResources": {"cpu": "9"}}));
    assert_eq!(all.accounted.milli_cpu, 2000);
}

#[test]
fn resize_status_counts_for_sidecars_but_not_for_init_containers() {
    let pod = |init: Value| {
        requests(json!({
            "spec": {"initContainers": [init]},
            "status": {"initContainerStatuses": [{"name": "i", "resources": {"requests": {"cpu": "3"}}}]},
        }))
        .accounted
        .milli_cpu
    };
    assert_eq!(pod(sidecar("i", json!({"cpu": "1"}))), 3000);
    assert_eq!(pod(container("i", json!({"cpu": "1"}))), 1000);
}

#[test]
fn pod_level_status_counts() {
    let pod = json!({
        "spec": {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}, "containers": [container("a", json!({}))]},
        "status": {"resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "3"}},
    });
    assert_eq!(requests(pod.clone()).accounted.milli_cpu, 3000);
    assert_eq!(requests(pod.clone()).fit.milli_cpu, 1000);
    let off = CompileOptions { pod_level_in_place_scaling: false, ..CompileOptions::default() };
    assert_eq!(requests_with(pod.clone(), off).accounted.milli_cpu, 1000);
    let mut infeasible = pod;
    infeasible["status"]["conditions"] =
        json!([{"type": "PodResizePending", "reason": "Infeasible"}]);
    let all = requests(infeasible);
    assert_eq!(
        (all.accounted.milli_cpu, all.accounted.memory),
        (3000, 0),
        "what the result lacks becomes zero"
    );
    assert_eq!(all.total("memory"), Some(&Quantity::ZERO));
}

#[test]
fn names_the_scheduler_does_not_count_are_dropped_but_stay_in_the_totals() {
    let all = spec(
        json!({"containers": [container("a", json!({"storage": "1", "pods": "4", "a/b/c": "1", "nvidia.com/gpu": "0"}))]}),
    );
    assert_eq!(all.accounted.scalars.as_slice(), [("nvidia.com/gpu".into(), 0)]);
    assert_eq!(all.totals.len(), 4);
}

#[test]
fn negative_requests_only_help_nobody_to_fit() {
    let all =
        spec(json!({"containers": [container("a", json!({"cpu": "-1", "example.com/x": "-2"}))]}));
    assert_eq!((all.accounted.milli_cpu, all.fit.milli_cpu), (-1000, 0));
    assert_eq!(
        (all.accounted.scalar("example.com/x"), all.fit.scalar("example.com/x")),
        (Some(-2), Some(0))
    );
}

#[test]
fn a_thousand_containers() {
    let one = |at: usize| {
        container(
            &format!("c{at}"),
            json!({"cpu": "1m", format!("example.com/r{at}"): "9223372036854775807"}),
        )
    };
    let all = spec(json!({"containers": (0..1000).map(one).collect::<Vec<_>>()}));
    assert_eq!((all.accounted.milli_cpu, all.accounted.scalars.len()), (1000, 1000));
}

// A direct recomputation: everything in nano units as big integers, one map per step of the definition.

type Amounts = BTreeMap<String, BigInt>;
type Milli = BTreeMap<&'static str, i64>;

#[derive(Clone, Debug)]
struct Model {
    requests: Milli,
    status: Option<(Milli, Milli)>,
    is_sidecar: bool,
}

fn amounts(milli: &BTreeMap<&'static str, i64>) -> Amounts {
    milli.iter().map(|(name, amount)| ((*name).to_owned(), BigInt::from(*amount))).collect()
}

fn max_of<'a>(maps: impl IntoIterator<Item = &'a Amounts>) -> Amounts {
    let mut out = Amounts::new();
    for (name, amount) in maps.into_iter().flatten() {
        let place = out.entry(name.clone()).or_insert_with(|| amount.clone());
        *place = place.clone().max(amount.clone());
    }
    out
}

fn sum_of<'a>(maps: impl IntoIterator<Item = &'a Amounts>) -> Amounts {
    let mut out = Amounts::new();
    for (name, amount) in maps.into_iter().flatten() {
        *out.entry(name.clone()).or_default() += amount;
    }
    out
}

struct Rules {
    uses_status: bool,
    infeasible: bool,
    default_cpu: bool,
    default_memory: bool,
    pod_level: bool,
}

fn effective(rules: &Rules, model: &Model, may_use_status: bool) -> Amounts {
    let wanted = amounts(&model.requests);
    let mut out = match &model.status {
        Some((actual, allocated)) if rules.uses_status && may_use_status => {
            let (actual, allocated) = (amounts(actual), amounts(allocated));
            if rules.infeasible {
                max_of([&actual, &allocated])
            } else {
                max_of([&wanted, &actual, &allocated])
            }
        }
        _ => wanted,
    };
    if rules.default_cpu {
        out.entry("cpu".into()).or_insert_with(|| BigInt::from(100));
    }
    if rules.default_memory {
        out.entry("memory".into()).or_insert_with(|| BigInt::from(200 * MI) * 1000);
    }
    out
}

fn model_total(
    rules: &Rules,
    containers: &[Model],
    inits: &[Model],
    pod_level: &BTreeMap<&'static str, i64>,
    overhead: &BTreeMap<&'static str, i64>,
) -> Amounts {
    let main: Vec<Amounts> = containers
        .iter()
        .map(|model| effective(rules, model, true))
        .chain(
            inits
                .iter()
                .filter(|model| model.is_sidecar)
                .map(|model| effective(rules, model, true)),
        )
        .collect();
    let candidates: Vec<Amounts> = (0..inits.len())
        .map(|at| {
            let before = inits[..at]
                .iter()
                .filter(|model| model.is_sidecar)
                .map(|model| effective(rules, model, true));
            let own = effective(rules, &inits[at], inits[at].is_sidecar);
            sum_of(&before.chain([own]).collect::<Vec<_>>())
        })
        .collect();
    let mut total = max_of(candidates.iter().chain([&sum_of(&main)]));
    if rules.pod_level {
        for (name, amount) in
            pod_level.iter().filter(|(name, _)| ["cpu", "memory", "hugepages-2Mi"].contains(*name))
        {
            total.insert((*name).to_owned(), BigInt::from(*amount));
        }
    }
    sum_of([&total, &amounts(overhead)])
}

fn ceil_units(milli: &BigInt) -> i64 {
    i64::try_from((milli + 999) / 1000).unwrap()
}

fn as_resources(total: &Amounts) -> Resources {
    let mut out = Resources::default();
    for (name, amount) in total {
        match name.as_str() {
            "cpu" => out.milli_cpu = i64::try_from(amount).unwrap(),
            "memory" => out.memory = ceil_units(amount),
            "ephemeral-storage" => out.ephemeral_storage = ceil_units(amount),
            "storage" => {}
            name => *out.scalar_mut(&name.into()) = ceil_units(amount),
        }
    }
    out
}

fn milli_json(milli: &BTreeMap<&'static str, i64>) -> Value {
    milli
        .iter()
        .map(|(name, amount)| ((*name).to_owned(), json!(format!("{amount}m"))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn some_requests() -> impl Strategy<Value = BTreeMap<&'static str, i64>> {
    let names =
        vec!["cpu", "memory", "ephemeral-storage", "example.com/x", "hugepages-2Mi", "storage"];
    prop::collection::btree_map(
        prop::sample::select(names),
        prop_oneof![Just(0_i64), 1..5000_i64],
        0..4,
    )
}

fn some_container() -> impl Strategy<Value = Model> {
    (some_requests(), prop::option::of((some_requests(), some_requests())), any::<bool>())
        .prop_map(|(requests, status, is_sidecar)| Model { requests, status, is_sidecar })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn every_way_of_counting_matches_a_direct_recomputation(
        containers in prop::collection::vec(some_container(), 0..4),
        inits in prop::collection::vec(some_container(), 0..4),
        pod_level in some_requests(),
        overhead in some_requests(),
        infeasible in any::<bool>(),
    ) {
        let json_of = |prefix: &str, models: &[Model]| -> Vec<Value> {
            models.iter().enumerate().map(|(at, model)| json!({
                "name": format!("{prefix}{at}"),
                "restartPolicy": if model.is_sidecar && prefix == "i" { json!("Always") } else { json!(null) },
                "resources": {"requests": milli_json(&model.requests)},
            })).collect()
        };
        let state_of = |prefix: &str, models: &[Model]| -> Vec<Value> {
            models.iter().enumerate().filter_map(|(at, model)| {
                let (actual, allocated) = model.status.as_ref()?;
                Some(json!({"name": format!("{prefix}{at}"), "resources": {"requests": milli_json(actual)}, "allocatedResources": milli_json(allocated)}))
            }).collect()
        };
        let pod = json!({
            "spec": {
                "containers": json_of("c", &containers), "initContainers": json_of("i", &inits),
                "resources": {"requests": milli_json(&pod_level)}, "overhead": milli_json(&overhead),
            },
            "status": {
                "conditions": [{"type": "PodResizePending", "reason": if infeasible { "Infeasible" } else { "Deferred" }}],
                "containerStatuses": state_of("c", &containers), "initContainerStatuses": state_of("i", &inits),
            },
        });
        let actual = requests(pod);
        let total = |uses_status, default_cpu, default_memory, uses_pod_level| {
            let rules = Rules { uses_status, infeasible, default_cpu, default_memory, pod_level: uses_pod_level };
            model_total(&rules, &containers, &inits, &pod_level, &overhead)
        };
        let accounted = total(true, false, false, true);
        prop_assert_eq!(&actual.accounted, &as_resources(&accounted));
        prop_assert_eq!(&actual.fit, &as_resources(&total(false, false, false, true)));
        prop_assert_eq!(&actual.fit_score, &as_resources(&total(false, true, true, false)));
        let has_pod_level = pod_level.keys().any(|name| ["cpu", "memory", "hugepages-2Mi"].contains(name));
        let defaults = |name: &str| !has_pod_level || !accounted.contains_key(name);
        let non_zero = as_resources(&total(true, defaults("cpu"), defaults("memory"), true));
        prop_assert_eq!(actual.non_zero, NonZeroRequest { milli_cpu: non_zero.milli_cpu, memory: non_zero.memory });
        let exact = |amounts: &Amounts| amounts.iter().map(|(name, milli)| (name.as_str().into(), Quantity::parse(&format!("{milli}m")).unwrap())).collect::<Vec<(ResourceName, Quantity)>>();
        prop_assert_eq!(actual.totals.to_vec(), exact(&accounted));
        prop_assert_eq!(actual.spec_totals.to_vec(), exact(&total(false, false, false, true)));
    }
}

#[test]
fn limits_are_summed_like_requests_and_overhead_raises_what_is_limited() {
    let limited =
        |name: &str, limits: Value| json!({"name": name, "resources": {"limits": limits}});
    let shown = |all: &PodRequests| -> Vec<String> {
        all.limits.iter().map(|(name, limit)| format!("{name}={limit}")).collect()
    };
    let all = spec(json!({
        "containers": [limited("a", json!({"cpu": "1", "x.example/gpu": "0"})), limited("b", json!({"cpu": "500m"}))],
        "initContainers": [
            limited("i", json!({"cpu": "2", "memory": "1Gi"})),
            {"name": "s", "restartPolicy": "Always", "resources": {"limits": {"cpu": "250m"}}},
            limited("j", json!({"cpu": "1"})),
        ],
        "overhead": {"cpu": "10m", "memory": "1Mi", "ephemeral-storage": "1Gi", "x.example/gpu": "1"},
    }));
    // A peak of 2 CPUs against 1.75 running; nothing limits ephemeral storage, and a limit of zero stays.
    assert_eq!(shown(&all), ["cpu=2010m", "memory=1025Mi", "x.example/gpu=0"]);
    let all = spec(json!({
        "containers": [limited("a", json!({"cpu": "1"}))],
        "resources": {"limits": {"cpu": "3", "x.example/gpu": "7"}},
    }));
    assert_eq!(shown(&all), ["cpu=3"]);
    assert!(spec(json!({"containers": [container("a", json!({"cpu": "1"}))]})).limits.is_empty());
}
