//! Recorded allocations of the reference, replayed without a scheduler.
//!
//! Nodes, slices, classes and claims are followed through every scenario as recorded; in each step the allocator is
//! asked about every node that the recording is clear about, and its allocation for the chosen node must be the recorded
//! one.

use std::io::{BufRead, BufReader};
use std::path::Path;

use super::replay::{Replay, Tally};

/// Replays one family.
#[expect(clippy::disallowed_methods, reason = "recorded data is read from the repository")]
fn check(family: &str) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/conformance");
    let file = std::fs::File::open(dir.join(format!("{family}.jsonl.gz"))).unwrap();
    let mut tally = Tally::default();
    for line in BufReader::new(flate2::read::GzDecoder::new(file)).lines() {
        Replay::run(&serde_json::from_str(&line.unwrap()).unwrap(), &mut tally);
    }
    assert!(tally.differences.is_empty(), "{tally:?}\n{}", tally.differences.join("\n"));
    assert!(tally.n_allocations > 0 && tally.n_nodes > 0, "nothing was compared: {tally:?}");
}

macro_rules! families {
    ($($test:ident: $family:literal;)*) => {
        $(
            #[test]
            fn $test() {
                check($family);
            }
        )*
    };
}

families! {
    claims_conform: "dra-claims";
    selectors_conform: "dra-cel";
    pools_conform: "dra-pools";
    constraints_conform: "dra-constraints";
    partitionable_devices_conform: "dra-partitionable";
    consumable_capacity_conforms: "dra-consumable";
    taints_conform: "dra-taints";
    admin_access_conforms: "dra-admin";
    binding_conditions_conform: "dra-binding";
    extended_resources_conform: "dra-extended";
    scoring_conforms: "dra-scoring";
    preemption_conforms: "dra-preemption";
    mixed_claims_conform: "dra-mixed";
    node_allocatable_resources_conform: "dra-nodeallocatable";
    simple_claims_conform: "dra";
}
