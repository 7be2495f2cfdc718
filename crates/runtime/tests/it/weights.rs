//! What a Score plugin's answer is multiplied with.

use kube_scheduler_runtime::{ExtensionPoint, Profile};

use crate::toy::{Toy, build, config};

use ExtensionPoint::{Bind, QueueSort, Score};

fn weighed(multi_point: &str, score: &str) -> Result<Profile, String> {
    let toys =
        vec![Toy::at("Base", &[QueueSort, Bind]), Toy::at("A", &[Score]), Toy::at("B", &[Score])];
    let config = config(&format!("Base:7 {multi_point}"), &[(Score, score)]);
    build(toys, &config).map_err(|error| error.to_string())
}

fn weights(multi_point: &str, score: &str) -> (i64, i64) {
    let profile = weighed(multi_point, score).unwrap();
    let weight = |name| profile.weight(profile.position(name).unwrap());
    (weight("A"), weight("B"))
}

#[test]
fn the_explicit_weight_counts_and_none_means_one() {
    assert_eq!(weights("A:2 B:3", ""), (2, 3));
    assert_eq!(weights("A:2 B", "A:5"), (5, 1));
    assert_eq!(weights("A:2 B:0", "A:0"), (1, 1), "an explicit 0 is 1, not MultiPoint's weight");
    assert_eq!(weights("A:2 B:4", "A:9 -B"), (9, 4), "a disabled plugin still has its weight");
}

#[test]
fn a_total_that_does_not_fit_is_refused() {
    // Weights have 32 bits, so that only the wrapped difference behind a negative total gets there.
    let overflow = "score plugins: total score of Score plugins could overflow";
    assert_eq!(weighed("A:-1 B:1", "").unwrap_err(), overflow);
    assert_eq!(weights("A:2147483647 B:2147483647", ""), (2147483647, 2147483647));
}

#[test]
fn a_single_negative_weight_turns_scores_around() {
    assert_eq!(weights("A:1 B:-1", ""), (1, -1));
}
