//! The choice among sorted candidates against going through all volumes, one after the other, as the rules are written.

use kube_scheduler_cache::ClusterState;
use kube_scheduler_framework::ClusterView;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::Value;

use super::*;

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
    (1_u8..4, 0_u8..5, 0_u8..8, 0_u8..6, zones, prop::bool::weighted(0.8)).prop_map(
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
        "metadata": {"name": format!("pv{at:02}"), "resourceVersion": "1"},
        "spec": {
            "capacity": {"storage": format!("{}Gi", shape.gib)}, "storageClassName": "x",
            "accessModes": [if shape.mode == 0 { "ReadOnlyMany" } else { "ReadWriteOnce" }],
        },
        "status": {"phase": if shape.phase == 0 { "Released" } else { "Available" }},
    });
    match shape.reserved {
        0 => json["spec"]["claimRef"] = json!({"name": "c", "namespace": "ns", "uid": "u"}),
        1 => json["spec"]["claimRef"] = json!({"name": "d", "namespace": "ns", "uid": "v"}),
        _ => {}
    }
    if shape.has_affinity {
        json["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] = terms.into();
    }
    Arc::new(Object::from_value(json).unwrap())
}

/// All volumes by name; what is left out, and what wins, is decided one by one.
fn naive<'a>(
    volumes: &'a [Arc<Object>],
    claim: VolumeClaim<'_>,
    labels: &Labels,
    taken: &[Arc<Object>],
) -> Option<&'a Arc<Object>> {
    let mut best: Option<&Arc<Object>> = None;
    for object in volumes {
        let volume = PersistentVolume::new(object);
        let is_taken = taken.iter().any(|other| other.name == object.name);
        let is_others = volume.claim_ref().is_some() && !is_bound_to(volume, claim);
        if is_taken || is_others || volume.capacity() < claim.requested_storage() {
            continue;
        }
        let reaches = VolumeAffinity::new(volume).matches(labels);
        if is_bound_to(volume, claim) {
            return reaches.then_some(object);
        }
        let is_mode = claim.access_modes().all(|mode| volume.access_modes().any(|m| m == mode));
        if volume.phase() != "Available" || !reaches || !is_mode {
            continue;
        }
        if best.is_none_or(|best| volume.capacity() < PersistentVolume::new(best).capacity()) {
            best = Some(object);
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(3),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_choice_is_that_of_a_walk_through_all_volumes(
        shapes in prop::collection::vec(shape(), 0..12),
        gib in 1_u8..4,
        nodes in prop::collection::vec((0_u8..4, 0_u8..4), 1..4),
    ) {
        let volumes: Vec<_> =
            shapes.iter().enumerate().map(|(at, shape)| volume(at, shape)).collect();
        let mut cluster = ClusterState::new();
        for volume in &volumes {
            cluster.upsert_object(volume.clone());
        }
        let claim = Object::from_value(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c", "namespace": "ns", "uid": "u"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "x",
                "resources": {"requests": {"storage": format!("{gib}Gi")}},
            },
        }))
        .unwrap();
        let claim = VolumeClaim::new(&claim);
        let candidates = Candidates::new(ClusterView::unrecorded(&cluster), claim).unwrap();
        for (zone, rack) in nodes {
            let labels: Labels =
                [("zone", format!("z{zone}")), ("rack", format!("z{rack}"))].into_iter().collect();
            let mut taken = Vec::new();
            loop {
                let found = candidates.choose(&labels, &taken);
                prop_assert_eq!(found, naive(&volumes, claim, &labels, &taken));
                match found {
                    Some(found) => taken.push(found.clone()),
                    None => break,
                }
            }
        }
    }
}
