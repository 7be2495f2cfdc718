//! Look-ups of disks against a comparison of each with each, as the rules are written.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use super::*;

fn is_same_disk(new: &VolumeSource, existing: &VolumeSource) -> bool {
    use VolumeSource::{AwsElasticBlockStore, GcePersistentDisk, Iscsi, Rbd};
    match (new, existing) {
        (
            GcePersistentDisk { disk, is_read_only },
            GcePersistentDisk { disk: other, is_read_only: other_is_read_only },
        ) => disk == other && !(*is_read_only && *other_is_read_only),
        (AwsElasticBlockStore { volume_id }, AwsElasticBlockStore { volume_id: other }) => {
            volume_id == other
        }
        (Iscsi { iqn, is_read_only }, Iscsi { iqn: other, is_read_only: other_is_read_only }) => {
            iqn == other && !(*is_read_only && *other_is_read_only)
        }
        (
            Rbd { monitors, pool, image, is_read_only },
            Rbd {
                monitors: other_monitors,
                pool: other_pool,
                image: other_image,
                is_read_only: other_is_read_only,
            },
        ) => {
            monitors.iter().any(|monitor| other_monitors.contains(monitor))
                && pool == other_pool
                && image == other_image
                && !(*is_read_only && *other_is_read_only)
        }
        _ => false,
    }
}

fn naive(pod: &Pod, other: &Pod) -> bool {
    pod.volumes.iter().any(|volume| {
        other.volumes.iter().any(|existing| is_same_disk(&volume.source, &existing.source))
    })
}

fn disk() -> impl Strategy<Value = Value> {
    let monitors = prop::collection::vec(0_u8..4, 0..3);
    (0_u8..5, 0_u8..3, prop::bool::weighted(0.7), monitors).prop_map(
        |(kind, name, is_read_only, monitors)| {
            let text = name.to_string();
            match kind {
                0 => json!({"gcePersistentDisk": {"pdName": text, "readOnly": is_read_only}}),
                1 => json!({"awsElasticBlockStore": {"volumeID": text, "readOnly": is_read_only}}),
                2 => json!({"iscsi": {"iqn": text, "targetPortal": "x", "readOnly": is_read_only}}),
                3 => {
                    let monitors: Vec<_> = monitors.iter().map(u8::to_string).collect();
                    let (pool, image) = (["p", "q", "p"][usize::from(name)], ["i", "i", "j"][usize::from(name)]);
                    json!({"rbd": {"monitors": monitors, "pool": pool, "image": image, "readOnly": is_read_only}})
                }
                _ => json!({"hostPath": {"path": text}}),
            }
        },
    )
}

fn pod() -> impl Strategy<Value = Pod> {
    prop::collection::vec(disk(), 0..5).prop_map(|mut volumes| {
        for (at, volume) in volumes.iter_mut().enumerate() {
            volume["name"] = at.to_string().into();
        }
        let pod =
            json!({"metadata": {"namespace": "ns", "name": "p"}, "spec": {"volumes": volumes}});
        Pod::from_value(&pod).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4096,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(5),
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_disk_is_found_where_a_comparison_of_each_with_each_finds_it(pod in pod(), other in pod()) {
        prop_assert_eq!(Disks::of(&pod).are_in_conflict_with(&other), naive(&pod, &other));
    }
}
