//! A fixed set of fault simulations, small enough for every run of the tests; `cargo xtask fault` runs many more.

use std::collections::BTreeSet;

use kube_scheduler_tests::fault::{Counts, Fault, Options, run};

const SEEDS: std::ops::Range<u64> = 0..24;
/// In this one a pod goes whose binding waits for an object and for no time, which is rare.
const SLEEPER: u64 = 106;

fn options() -> Options {
    Options { n_steps: 100, ..Options::default() }
}

#[test]
fn a_fixed_set_of_seeds_violates_nothing() {
    let mut counts = Counts::default();
    for seed in SEEDS {
        let outcome = run(seed, &options());
        assert_eq!(outcome.violation, None, "seed {seed}");
        counts = counts.plus(outcome.counts);
    }
    let of_others =
        Options { without: BTreeSet::from([Fault::Tenants, Fault::Devices]), ..options() };
    assert_eq!(run(SLEEPER, &of_others).violation, None);
    // Otherwise nothing was tried.
    assert!(counts.n_placed > 100 && counts.n_judged > 20, "{counts:?}");
    assert!(counts.n_turned_down > 100 && counts.n_broken > 20, "{counts:?}");
    assert!(counts.n_ends > 10 && counts.n_leaders > 30, "{counts:?}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..4 {
        let options = Options { keeps_trace: true, ..options() };
        let (first, second) = (run(seed, &options), run(seed, &options));
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first, second);
        assert_eq!(first.hash, run(seed, &Options { keeps_trace: false, ..options }).hash);
    }
    assert_ne!(run(1, &options()).hash, run(2, &options()).hash);
}

/// Whatever goes wrong, sharing evaluations changes no decision.
#[test]
fn traces_do_not_depend_on_shared_evaluations() {
    for seed in 4..12 {
        let usual = run(seed, &options()).hash;
        let alone = Options { shares_evaluations: false, ..options() };
        assert_eq!(usual, run(seed, &alone).hash, "seed {seed}");
    }
}

/// Whatever goes wrong, questions change no decision and no effect. Each of these seeds is also run without them.
#[test]
fn traces_do_not_depend_on_questions() {
    let mut counts = Counts::default();
    for seed in 12..24 {
        let asked = run(seed, &Options { asks_questions: true, ..options() });
        assert_eq!(asked.violation, None, "seed {seed}");
        assert_eq!(asked.hash, run(seed, &options()).hash, "seed {seed}");
        counts = counts.plus(asked.counts);
    }
    assert!(counts.n_answers > 2_000, "{counts:?}");
}

/// A fault that is left out does not happen.
#[test]
fn faults_can_be_left_out() {
    let calm = Options { without: BTreeSet::from(Fault::ALL), ..options() };
    let mut counts = Counts::default();
    for seed in 0..4 {
        let outcome = run(seed, &calm);
        assert_eq!(outcome.violation, None, "seed {seed}");
        counts = counts.plus(outcome.counts);
    }
    assert!(counts.n_placed > 0);
    assert_eq!((counts.n_broken, counts.n_ends), (0, 0), "{counts:?}");
    for fault in Fault::ALL {
        assert_eq!(Fault::parse(fault.as_str()), Ok(fault));
    }
    assert!(Fault::parse("weather").is_err());
}

/// Tenants' worst pods are among the faults, and are placed, refused and deleted like others.
#[test]
fn the_worst_pods_of_tenants_change_what_happens_and_violate_nothing() {
    let mut n_changed = 0;
    for seed in 0..9 {
        let without = BTreeSet::from([Fault::Tenants]);
        let [with, without] =
            [options(), Options { without, ..options() }].map(|it| run(seed, &it));
        assert_eq!((with.violation, without.violation), (None, None), "seed {seed}");
        n_changed += usize::from(with.hash != without.hash);
    }
    assert!(n_changed >= 4, "{n_changed}");
}

/// Devices are published, claimed, allocated and freed while everything goes wrong, and no device is ever given away twice.
#[test]
fn devices_are_allocated_and_nothing_is_violated() {
    let mut counts = Counts::default();
    for seed in 100..124 {
        let outcome = run(seed, &options());
        assert_eq!(outcome.violation, None, "seed {seed}");
        counts = counts.plus(outcome.counts);
    }
    assert!(counts.n_allocated > 10 && counts.n_made > 5, "{counts:?}");
    let without = BTreeSet::from([Fault::Devices]);
    assert_eq!(run(100, &Options { without, ..options() }).counts.n_allocated, 0);
}
