//! The program that libFuzzer runs: one fuzz target, the one that `FUZZ_TARGET` names when this is compiled.
//!
//! One program for each, because libFuzzer looks at the counters of the whole program after every input: with what only other
//! targets need, that takes longer than the input.

#![no_main]

use kube_scheduler_tests::fuzz::{Target, target};
use libfuzzer_sys::fuzz_target;

const TARGET: Target = match target(env!("FUZZ_TARGET")) {
    Some(target) => target,
    None => panic!("FUZZ_TARGET names no target of tests/src/fuzz.rs"),
};

fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
