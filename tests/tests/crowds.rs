//! Kept answers are those of engines that keep none, over random events with all plugins (`docs/architecture.md`).

use std::ops::Range;
use std::str::FromStr;

use kube_scheduler_tests::crowd::{Crowd, DrainCounts, Foreseen};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const STEPS: usize = 300;

/// More cases than usual with `PROPTEST_CASES`.
fn cases() -> u32 {
    from_environment("PROPTEST_CASES").unwrap_or(64)
}

fn from_environment<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// A long campaign goes in parts, each from its `FIRST_SEED` on.
fn seeds(n_crowds: u64) -> Range<u64> {
    let first = from_environment("FIRST_SEED").unwrap_or(1);
    first..first + n_crowds
}

/// Otherwise comparing them with fresh ones would prove little.
#[test]
fn answers_are_really_kept() {
    let (mut kept, mut of_devices, mut bound) = (0, 0, 0);
    for seed in 1..13 {
        let mut crowd = Crowd::new(seed).unwrap();
        crowd.run(STEPS).unwrap();
        kept += crowd.n_kept();
        of_devices += crowd.n_kept_of_devices();
        bound += crowd.n_bound();
    }
    assert!(
        kept > 5_000 && of_devices > 300 && bound > 1_000,
        "{kept} times kept answers were used, {of_devices} times about devices, {bound} pods bound"
    );
}

/// Otherwise comparing explanations with decisions would prove little. Where only one pod is ready, it is also asked whom the pod
/// would evict: most would evict nobody. Where only pods of one group are ready, it is asked what comes of the group.
#[test]
fn decisions_are_really_explained() {
    let (mut compared, mut groups, mut texts) = (0, 0, 0);
    let (mut preemptions, mut evicted) = (0, 0);
    let n_crowds = u64::from(cases() / 4);
    for seed in seeds(n_crowds) {
        let mut crowd = Crowd::new(seed).unwrap().asking();
        let outcome = crowd.run(STEPS);
        assert!(outcome.is_ok(), "seed {seed}: {:#}", outcome.unwrap_err());
        compared += crowd.n_answers();
        groups += crowd.n_group_answers();
        texts += crowd.n_explained_texts();
        preemptions += crowd.n_explained_preemptions();
        evicted += crowd.n_explained_evictions();
    }
    println!(
        "{compared} decisions about pods and {groups} about groups were explained in {n_crowds} crowds, with {texts} texts, {preemptions} preemptions and {evicted} evictions"
    );
    assert!(compared > 125 * n_crowds && texts > 10 * n_crowds, "{compared} {texts}");
    // Every fourth crowd or so has some.
    assert!(n_crowds < 16 || groups > 5 * n_crowds, "{groups}");
    assert!(preemptions > 5 * n_crowds && evicted > 5 * n_crowds, "{preemptions} {evicted}");
}

/// Otherwise comparing what would happen with what happens would prove little.
#[test]
fn attempts_are_really_foreseen() {
    let mut all = Foreseen::default();
    let n_crowds = u64::from(foreseeing_cases() / 4);
    for seed in seeds(n_crowds) {
        let mut crowd = Crowd::new(seed).unwrap().foreseeing();
        let outcome = crowd.run(STEPS);
        assert!(outcome.is_ok(), "seed {seed}: {:#}", outcome.unwrap_err());
        all += crowd.foreseen();
    }
    println!("{n_crowds} crowds: {all:?}");
    assert!(all.at_once + all.at_rest > 125 * n_crowds, "{all:?}");
    assert!(all.at_rest > 30 * n_crowds && all.texts > 10 * n_crowds, "{all:?}");
    assert!(all.preemptions > n_crowds && all.evictions > n_crowds, "{all:?}");
    // Not every few crowds have both.
    let has_all = all.placed_with_volumes > n_crowds && all.placed_in_groups > n_crowds;
    assert!(n_crowds < 16 || has_all, "{all:?}");
    // Few pods get a node although the first attempt fails and evicts no pod.
    assert!(all.later * 20 < all.at_once + all.at_rest, "{all:?}");
}

/// Others are taken out for the time in which a group is explained, but not who holds room against it (the first crowd); and its pods
/// are tried in the order of their age (the second).
#[test]
fn a_group_is_explained_as_it_will_be_tried() {
    for (seed, n_steps) in [(80, 96), (610_228_623_983_037_381, 210)] {
        Crowd::new(seed).unwrap().asking().run(n_steps).unwrap();
    }
}

/// A pod that would be placed, and evicted for another one before all comes to rest, does not fit.
#[test]
fn who_is_evicted_again_does_not_fit() {
    Crowd::new(102).unwrap().foreseeing().run(STEPS).unwrap();
}

/// Two gangs that never become complete make room for their members by turns, and the pod that has to go takes it again each time.
#[test]
fn a_drain_that_never_ends_is_cut_short() {
    let mut crowd = Crowd::draining(15).unwrap();
    crowd.run(206).unwrap();
    assert!(crowd.drained().circles > 0, "{:?}", crowd.drained());
}

/// What would happen if nodes were drained and pods evicted, asked before, is what happens then: where the pods go and in which round, which of
/// them stay because of a disruption budget, who is evicted for them, and where those go when their controllers create them again.
#[test]
fn drains_are_really_foreseen() {
    let mut all = DrainCounts::default();
    let n_crowds = u64::from(foreseeing_cases() / 2);
    for seed in seeds(n_crowds) {
        let mut crowd = Crowd::draining(seed).unwrap();
        let outcome = crowd.run(STEPS);
        assert!(outcome.is_ok(), "seed {seed}: {:#}", outcome.unwrap_err());
        all += crowd.drained();
    }
    println!("{n_crowds} crowds: {all:?}");
    assert!(all.nodes > 4 * n_crowds && all.evictions > all.recreated, "{all:?}");
    assert!(n_crowds < 16 || all.recreated > 0);
    assert!(all.together > n_crowds && all.named > n_crowds, "{all:?}");
    assert!(all.blocked > n_crowds && all.texts > n_crowds, "{all:?}");
    assert!(all.further_rounds > n_crowds / 4, "{all:?}");
}

/// Each of these looks as far ahead as anything happens, so there are fewer of them.
fn foreseeing_cases() -> u32 {
    cases() / 4
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn kept_answers_are_fresh_ones(seed: u64) {
        let outcome = Crowd::new(seed).unwrap().run(STEPS);
        prop_assert!(outcome.is_ok(), "{:#}", outcome.unwrap_err());
    }

    /// An explanation right before a decision says what the decision then is, reasons and texts included; the pods that are then
    /// evicted are those that were named; a fork decides as
    /// the engine does afterwards; and the engine that is asked decides as the one that is not.
    #[test]
    fn explanations_say_what_then_happens(seed: u64) {
        let outcome = Crowd::new(seed).unwrap().asking().run(STEPS);
        prop_assert!(outcome.is_ok(), "{:#}", outcome.unwrap_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: foreseeing_cases(),
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(2),
        ..ProptestConfig::default()
    })]

    /// What would happen if a pod came, asked before it is there, is what its first attempt does when it comes: the node, or the
    /// pods that are evicted for it; and the engine that is asked decides as the one that is not.
    #[test]
    fn what_would_happen_then_happens(seed: u64) {
        let outcome = Crowd::new(seed).unwrap().foreseeing().run(STEPS);
        prop_assert!(outcome.is_ok(), "{:#}", outcome.unwrap_err());
    }
}
