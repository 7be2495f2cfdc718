//! The verdict of a node against counting all of its volumes, as the rules are written.
//!
//! A limit that is exceeded by what is there does not concern a pod whose volumes of that driver are all there already. So the count
//! cannot end when the limit is exceeded: this is what an attempt to do so would break.

use std::collections::BTreeSet;

use kube_scheduler_framework::testing::{Fixture, fixture, pod};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

/// Claims `c0` to `c7` of two drivers, two of them without a volume yet.
fn world(more: &str) -> Fixture {
    let claims = (0..8).map(|at| match at {
        0..6 => format!("pvc c{at} volume=pv{at}; pv pv{at} csi=d{}:h{}\n", at % 2, at / 2),
        _ => format!("pvc c{at} class=s{}\n", at % 2),
    });
    let classes = "storageclass s0 provisioner=d0; storageclass s1 provisioner=d1\n";
    fixture(&format!("{}{classes}node n\n{more}", claims.collect::<String>()))
}

fn cluster(world: &Fixture) -> ClusterView<'_> {
    ClusterView::unrecorded(world.cluster())
}

fn text_of(name: &str, claims: &[u8]) -> String {
    claims.iter().fold(name.to_owned(), |text, at| format!("{text} claim=c{at}"))
}

fn limits() -> NodeVolumeLimits {
    let rejection = Status::unschedulable(REASON).from_plugin(&NAME.into());
    NodeVolumeLimits { wants_drivers: false, rejection }
}

/// Everything is counted, whatever it says.
fn naive(world: &Fixture, new: &BTreeSet<CountedVolume<'_>>) -> bool {
    let cluster = cluster(world);
    let node = world.view("n");
    let collector = Collector { cluster, has_csi_node: true };
    let mut there = BTreeSet::new();
    for pod in node.pods() {
        collector.collect_new(pod, &mut there).unwrap_or_default();
    }
    let mut new = new.clone();
    new.retain(|volume| !there.contains(volume));
    collector.collect_attached("n", &mut there);
    let limits = cluster.csi_limits(node.idx()).unwrap();
    let n_of = |all: &BTreeSet<CountedVolume<'_>>, driver: &str| {
        all.iter().filter(|volume| volume.driver == driver).count() as i64
    };
    ["d0", "d1"].iter().all(|driver| {
        let is_over = |limit| n_of(&there, driver) + n_of(&new, driver) > limit;
        n_of(&new, driver) == 0 || !limits.limit(driver).is_some_and(is_over)
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1024,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_node_passes_unless_a_new_volume_exceeds_a_limit(
        running in prop::collection::vec(prop::collection::vec(0_u8..8, 0..4), 0..4),
        wanted in prop::collection::vec(0_u8..8, 1..4),
        attached in prop::collection::vec(0_u8..6, 0..3),
        limits_of in prop::array::uniform2(0_u8..5),
    ) {
        let pods = running.iter().enumerate().map(|(at, claims)| text_of(&format!("pod p{at} node=n"), claims));
        let attached = attached.iter().map(|at| format!("attachment a{at} node=n volume=pv{at} driver=d{}", at % 2));
        let csi_node = format!("csinode n driver=d0:{} driver=d1:{}", limits_of[0], limits_of[1]);
        let more: Vec<String> = pods.chain(attached).chain([csi_node]).collect();
        let world = world(&more.join("\n"));
        let pod = pod(&text_of("new", &wanted)).build();
        let new = new_volumes(cluster(&world), &pod, true);
        let verdict = limits().check(cluster(&world), &world.view("n"), &new);
        prop_assert_eq!(verdict.is_ok(), naive(&world, &new.unwrap()));
    }
}
