//! Very many names and containers: the sums equal the plain form, which adds up everything for each container, and the work grows with
//! what the pod mentions.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use super::super::totals::N_CHANGES;
use super::{CompileOptions, PodRequests, Quantity, ResourceName, container, sidecar, spec};
use crate::wire;

type Amounts = BTreeMap<ResourceName, Quantity>;

fn add(to: &mut Amounts, other: &[(ResourceName, Quantity)]) {
    for (name, amount) in other {
        match to.get_mut(name) {
            Some(known) => known.add(amount),
            None => drop(to.insert(name.clone(), amount.clone())),
        }
    }
}

fn raise(to: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let known = to.entry(name.clone()).or_insert_with(|| amount.clone());
        if *known < *amount {
            *known = amount.clone();
        }
    }
}

/// The total of containers and init containers; of these also whether they stay.
fn plain_total(
    containers: &[&[(ResourceName, Quantity)]],
    inits: &[(&[(ResourceName, Quantity)], bool)],
) -> Amounts {
    let (mut total, mut running, mut peak) = Default::default();
    containers.iter().for_each(|amounts| add(&mut total, amounts));
    for (amounts, stays) in inits {
        if *stays {
            add(&mut total, amounts);
            add(&mut running, amounts);
            raise(&mut peak, &running);
        } else {
            let mut all: Amounts = amounts.iter().cloned().collect();
            let before: Vec<_> = running.clone().into_iter().collect();
            add(&mut all, &before);
            raise(&mut peak, &all);
        }
    }
    raise(&mut total, &peak);
    total
}

fn shown<'a>(amounts: impl IntoIterator<Item = (&'a ResourceName, &'a Quantity)>) -> Vec<String> {
    amounts.into_iter().map(|(name, amount)| format!("{name}={amount}")).collect()
}

fn amounts() -> impl Strategy<Value = BTreeMap<u8, String>> {
    let amount = (-3000_i64..5000, prop::sample::select(vec!["m", "", "Ki", "k"]))
        .prop_map(|(amount, suffix)| format!("{amount}{suffix}"));
    prop_oneof![
        prop::collection::btree_map(0..100_u8, amount.clone(), 0..4),
        prop::collection::btree_map(0..100_u8, amount, 0..60),
    ]
}

fn to_json(amounts: &BTreeMap<u8, String>) -> Value {
    amounts
        .iter()
        .map(|(name, amount)| (format!("example.com/r{name}"), json!(amount)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn sums_of_many_names_are_those_of_the_plain_form(
        containers in prop::collection::vec(amounts(), 0..6),
        inits in prop::collection::vec((amounts(), any::<bool>()), 0..12),
    ) {
        let one = |amounts: &BTreeMap<u8, String>, stays: bool| json!({
            "name": "c",
            "restartPolicy": if stays { json!("Always") } else { json!(null) },
            "resources": {"requests": to_json(amounts), "limits": to_json(amounts)},
        });
        let pod = json!({"spec": {
            "containers": containers.iter().map(|amounts| one(amounts, false)).collect::<Vec<_>>(),
            "initContainers": inits.iter().map(|(amounts, stays)| one(amounts, *stays)).collect::<Vec<_>>(),
        }});
        let pod: wire::Pod = serde_json::from_value(pod).unwrap();
        let actual = PodRequests::from_wire(&pod, &CompileOptions::default());
        let containers: Vec<_> =
            pod.spec.containers.iter().map(|container| &*container.resources.requests).collect();
        let inits: Vec<_> = pod.spec.init_containers.iter()
            .map(|container| (&*container.resources.requests, container.is_restartable())).collect();
        let expected = shown(&plain_total(&containers, &inits));
        for totals in [&actual.totals, &actual.spec_totals, &actual.limits] {
            prop_assert_eq!(&shown(totals.iter().map(|(name, amount)| (name, amount))), &expected);
        }
    }
}

fn changes_for(given: Value) -> usize {
    N_CHANGES.set(0);
    spec(given);
    N_CHANGES.get()
}

#[test]
fn the_work_grows_with_what_the_pod_mentions_and_not_with_names_times_containers() {
    let n = 2000;
    let many = || -> Value {
        (0..n)
            .map(|at| (format!("example.com/r{at}"), json!("1")))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let few = |at: usize| json!({format!("example.com/r{at}"): "2"});
    let inits = |first: Value, rest: fn(&str, Value) -> Value| {
        let mut all = vec![first];
        all.extend((0..n).map(|at| rest("c", few(at))));
        json!({"initContainers": all})
    };
    let pods = [
        // A sidecar with many names, and many containers that start after it.
        inits(sidecar("s", many()), container),
        inits(sidecar("s", many()), sidecar),
        inits(container("s", many()), sidecar),
        json!({"containers": (0..n).map(|at| container("c", few(at))).collect::<Vec<_>>()}),
    ];
    for pod in pods {
        let n_changes = changes_for(pod);
        // Three totals, two of them with defaults for each container; up to four changes for a name that is mentioned. Names times
        // containers would be 4,000,000.
        assert!(n_changes < 40 * n, "{n_changes}");
    }
}
