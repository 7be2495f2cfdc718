//! One program for all fuzz targets: `FUZZ_TARGET` names the one to run, and libFuzzer reads the arguments.

#![no_main]

use std::sync::LazyLock;

use kube_scheduler_tests::fuzz::{TARGETS, Target, target};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| {
        let names = TARGETS.map(|target| target.name).join(", ");
        eprintln!("FUZZ_TARGET is \"{name}\"; targets are: {names}");
        std::process::exit(2)
    })
});

fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
