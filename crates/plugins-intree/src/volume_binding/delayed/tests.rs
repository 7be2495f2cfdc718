//! The search on one node against going through all volumes and capacities for each claim, as the rules are written.

use kube_scheduler_cache::ClusterState;
use kube_scheduler_framework::ClusterView;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use super::*;
use crate::volume_binding::affinity::VolumeAffinity;
use crate::volume_binding::matching::{is_bound_to, with_selected_node};
use crate::volumes::PersistentVolume;

#[derive(Clone, Debug)]
struct Shape {
    gib: u8,
    phase: u8,
    reserved: u8,
    mode: u8,
    zones: Vec<Vec<u8>>,
    has_affinity: bool,
}

fn shape() -> impl Strategy<Value = Shape> {
    let zones = prop::collection::vec(prop::collection::vec(0_u8..3, 0..3), 0..3);
    (1_u8..4, 0_u8..5, 0_u8..12, 0_u8..6, zones, prop::bool::weighted(0.8)).prop_map(
        |(gib, phase, reserved, mode, zones, has_affinity)| Shape {
            gib,
            phase,
            reserved,
            mode,
            zones,
            has_affinity,
        },
    )
}

fn tier(at: usize) -> &'static str {
    ["gold", "tin"][at % 2]
}

/// Keys take turns, so that volumes are pinned by different labels.
fn volume(at: usize, shape: &Shape) -> Arc<Object> {
    let terms: Vec<Value> = shape
        .zones
        .iter()
        .enumerate()
        .map(|(term, zones)| {
            let key = ["zone", "rack"][(at + term) % 2];
            let values: Vec<String> = zones.iter().map(|zone| format!("z{zone}")).collect();
            json!({"matchExpressions": [{"key": key, "operator": "In", "values": values}]})
        })
        .collect();
    let mut json = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": format!("pv{at:02}"), "resourceVersion": "1", "labels": {"tier": tier(at)}},
        "spec": {
            "capacity": {"storage": format!("{}Gi", shape.gib)}, "storageClassName": "x",
            "accessModes": [if shape.mode == 0 { "ReadOnlyMany" } else { "ReadWriteOnce" }],
        },
        "status": {"phase": if shape.phase == 0 { "Released" } else { "Available" }},
    });
    match shape.reserved {
        0 => json["spec"]["claimRef"] = json!({"name": "c0", "namespace": "ns", "uid": "u"}),
        1 => json["spec"]["claimRef"] = json!({"name": "c1", "namespace": "ns"}),
        2 => json["spec"]["claimRef"] = json!({"name": "c1", "namespace": "ns", "uid": "gone"}),
        3 => json["spec"]["claimRef"] = json!({"name": "c0", "namespace": "other", "uid": "u"}),
        _ => {}
    }
    if shape.has_affinity {
        json["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] = terms.into();
    }
    Arc::new(Object::from_value(json).unwrap())
}

/// Size (none at all for 0), tier (any for 2), whether it has to be read-only.
type ClaimShape = (u8, usize, bool);

fn claim(at: usize, (gib, tier_at, is_read_only): ClaimShape) -> Arc<Object> {
    let mut json = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": format!("c{at}"), "namespace": "ns", "uid": "u"},
        "spec": {
            "accessModes": [if is_read_only { "ReadOnlyMany" } else { "ReadWriteOnce" }],
            "storageClassName": "x",
        },
    });
    if gib > 0 {
        json["spec"]["resources"]["requests"]["storage"] = format!("{gib}Gi").into();
    }
    if tier_at < 2 {
        json["spec"]["selector"]["matchLabels"]["tier"] = tier(tier_at).into();
    }
    Arc::new(Object::from_value(json).unwrap())
}

/// Whether it is of the class, size (unknown for 0), zone (none for 3, and nowhere for 4).
type CapacityShape = (bool, u8, u8);

fn capacity(at: usize, (is_of_class, gib, zone): CapacityShape) -> Arc<Object> {
    let mut json = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
        "metadata": {"name": format!("{at:02}"), "namespace": "driver"},
        "storageClassName": if is_of_class { "x" } else { "y" },
    });
    if gib > 0 {
        // The number of the object is the capacity, by which it is known afterwards.
        json["maximumVolumeSize"] = format!("{gib}Gi").into();
        json["capacity"] = at.into();
    }
    match zone {
        0..3 => {
            json["nodeTopology"]["matchLabels"][["zone", "rack"][at % 2]] =
                format!("z{zone}").into()
        }
        3 => json["nodeTopology"] = json!({}),
        _ => {}
    }
    Arc::new(Object::from_value(json).unwrap())
}

fn class(topology: u8, makes_volumes: bool) -> Arc<Object> {
    let mut json = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "x"},
        "provisioner": if makes_volumes { "driver" } else { "kubernetes.io/no-provisioner" },
    });
    if topology < 2 {
        let expression = json!({"key": "zone", "values": [format!("z{topology}"), "z2"]});
        json["allowedTopologies"] = json!([{"matchLabelExpressions": [expression]}]);
    }
    Arc::new(Object::from_value(json).unwrap())
}

fn driver(publishes_capacity: bool) -> Arc<Object> {
    let json = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "driver"},
        "spec": {"storageCapacity": publishes_capacity},
    });
    Arc::new(Object::from_value(json).unwrap())
}

/// All volumes by name; what is left out, and what wins, is decided one by one.
fn naive_volume<'a>(
    volumes: &'a [Arc<Object>],
    claim: VolumeClaim<'_>,
    labels: &Labels,
    taken: &[Arc<Object>],
) -> Option<&'a Arc<Object>> {
    let size = claim.requested_storage().unwrap_or_default();
    let tier = claim.selector().map(|selector| selector["matchLabels"]["tier"].as_str().unwrap());
    let mut best: Option<&Arc<Object>> = None;
    for object in volumes {
        let volume = PersistentVolume::new(object);
        let is_taken = taken.iter().any(|other| other.name == object.name);
        let is_others = volume.claim_ref().is_some() && !is_bound_to(volume, claim);
        if is_taken || is_others || volume.capacity().unwrap() < size {
            continue;
        }
        let reaches = VolumeAffinity::new(volume).matches(labels);
        if is_bound_to(volume, claim) {
            return reaches.then_some(object);
        }
        let is_mode = claim.access_modes().all(|mode| volume.access_modes().any(|m| m == mode));
        let is_tier = tier.is_none_or(|tier| object.labels.get("tier") == Some(tier));
        if volume.phase() != "Available" || !reaches || !is_mode || !is_tier {
            continue;
        }
        if best.is_none_or(|best| volume.capacity() < PersistentVolume::new(best).capacity()) {
            best = Some(object);
        }
    }
    best
}

/// All capacities by name; the first one that suits.
fn naive_place(
    capacities: Option<&[CapacityShape]>,
    topology: u8,
    gib: u8,
    (zone, rack): (u8, u8),
) -> String {
    if topology < 2 && zone != topology && zone != 2 {
        return "unavailable".to_owned();
    }
    let Some(capacities) = capacities.filter(|_| gib > 0) else { return "fits".to_owned() };
    let found = capacities.iter().enumerate().position(|(at, (is_of_class, limit, place))| {
        let of_node = [zone, rack][at % 2];
        *is_of_class && *limit >= gib && (*place == 3 || *place == of_node && *place < 3)
    });
    found.map_or("full".to_owned(), |at| format!("fits {at}"))
}

fn shown(place: Place<'_>) -> String {
    match place {
        Place::Fits(None) => "fits".to_owned(),
        Place::Fits(Some(capacity)) => format!("fits {}", capacity.total.as_ref().unwrap().value()),
        Place::Never => "never".to_owned(),
        Place::Unavailable => "unavailable".to_owned(),
        Place::Full => "full".to_owned(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2048,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(3),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_choice_is_that_of_a_walk_through_all_volumes_and_capacities(
        shapes in prop::collection::vec(shape(), 0..16),
        claim_shapes in prop::array::uniform4((0_u8..5, 0_usize..3, prop::bool::weighted(0.2))),
        named in prop::collection::vec(0_usize..4, 1..8),
        capacity_shapes in prop::collection::vec((prop::bool::weighted(0.8), 0_u8..5, 0_u8..5), 0..8),
        (topology, makes_volumes, publishes) in (0_u8..4, prop::bool::weighted(0.9), prop::bool::weighted(0.9)),
        nodes in prop::collection::vec((0_u8..4, 0_u8..4), 1..4),
    ) {
        let volumes: Vec<_> =
            shapes.iter().enumerate().map(|(at, shape)| volume(at, shape)).collect();
        let claims: Vec<_> =
            claim_shapes.iter().enumerate().map(|(at, shape)| claim(at, *shape)).collect();
        let capacities = capacity_shapes.iter().enumerate().map(|(at, shape)| capacity(at, *shape));
        let mut cluster = ClusterState::new();
        for object in volumes.iter().cloned().chain(capacities) {
            cluster.upsert_object(object);
        }
        cluster.upsert_object(class(topology, makes_volumes));
        cluster.upsert_object(driver(publishes));
        let of_pod = named.iter().map(|at| &claims[*at]);
        let delayed = DelayedClaims::of(ClusterView::unrecorded(&cluster), of_pod);

        let mut by_size = named.clone();
        by_size.sort_by_key(|at| claim_shapes[*at].0);
        for node in nodes {
            let labels: Labels = [("zone", format!("z{}", node.0)), ("rack", format!("z{}", node.1))].into_iter().collect();
            let (mut search, mut taken) = (Search::new(&delayed, &labels), Vec::new());
            for (claim, at) in delayed.claims.iter().zip(&by_size) {
                prop_assert_eq!(&claim.object.name, &claims[*at].name);
                let found = search.choose(claim).unwrap();
                let expected = naive_volume(&volumes, VolumeClaim::new(&claim.object), &labels, &taken);
                prop_assert_eq!(found, expected);
                taken.extend(found.cloned());
            }
            for at in named.iter().chain(&by_size) {
                let claim = delayed.claims.iter().find(|claim| claim.object.name == claims[*at].name);
                let expected = match makes_volumes {
                    true => naive_place(publishes.then_some(&*capacity_shapes), topology, claim_shapes[*at].0, node),
                    false => "never".to_owned(),
                };
                prop_assert_eq!(shown(search.place(claim.unwrap())), expected);
            }
        }
    }
}

/// What claims have in common is there once, however many there are and however often each is named.
#[test]
fn claims_that_ask_for_the_same_share_what_they_could_have() {
    let mut cluster = ClusterState::new();
    cluster.upsert_object(class(9, true));
    let chosen = |at| with_selected_node(&claim(at, (1 + at as u8, at % 3, false)), "n");
    let claims: Vec<_> = (0..100).map(chosen).collect();
    let of_pod = claims.iter().chain(&claims);
    let delayed = DelayedClaims::of(ClusterView::unrecorded(&cluster), of_pod);
    let shared = (delayed.candidates.len(), delayed.provisioning.len());
    assert_eq!((delayed.claims.len(), shared), (200, (3, 1)));
    let (first, second) = delayed.claims.split_at(100);
    for (first, second) in first.iter().zip(second) {
        let nodes = first.selected_node.as_ref().zip(second.selected_node.as_ref());
        let is_read_once = nodes.is_some_and(|(first, second)| Arc::ptr_eq(first, second));
        assert!(is_read_once, "{}", first.object.name);
    }
}
