//! Kept answers are those of engines that keep none, over random events with all plugins (`docs/architecture.md`).

use kube_scheduler_tests::crowd::Crowd;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const STEPS: usize = 300;

/// More cases than usual with `PROPTEST_CASES`.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(64)
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

/// Otherwise comparing explanations with decisions would prove little.
#[test]
fn decisions_are_really_explained() {
    let (mut compared, mut evicted) = (0, 0);
    for seed in 1..13 {
        let mut crowd = Crowd::new(seed).unwrap().asking();
        crowd.run(STEPS).unwrap();
        compared += crowd.n_answers();
        evicted += crowd.n_foreseen_evictions();
    }
    assert!(
        compared > 1_500 && evicted > 20,
        "{compared} explanations were compared, {evicted} evictions foreseen"
    );
}

/// Otherwise comparing what would happen with what happens would prove little.
#[test]
fn attempts_are_really_foreseen() {
    let (mut foreseen, mut evicted) = (0, 0);
    for seed in 1..5 {
        let mut crowd = Crowd::new(seed).unwrap().foreseeing();
        crowd.run(STEPS).unwrap();
        foreseen += crowd.n_foreseen();
        evicted += crowd.n_foreseen_evictions();
    }
    assert!(
        foreseen > 500 && evicted > 5,
        "{foreseen} attempts and {evicted} evictions were foreseen"
    );
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
