//! Every input in `tests/data/fuzz` through its target: what the fuzzer kept, and what once failed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]
#![allow(clippy::print_stdout, reason = "shown only when a target panics: the input that did it")]

use std::fs;
use std::path::{Path, PathBuf};

use kube_scheduler_api_types::{Node, Pod};
use kube_scheduler_tests::fuzz::{TARGETS, Target, target};

fn inputs(target: &Target) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/fuzz").join(target.name);
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn replay(name: &str) {
    let target = target(name).unwrap();
    let paths = inputs(&target);
    assert!(!paths.is_empty(), "there are no inputs for {name}");
    for path in paths {
        println!("{}", path.display());
        (target.run)(&fs::read(path).unwrap());
    }
}

#[test]
fn every_folder_belongs_to_a_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/fuzz");
    for entry in fs::read_dir(root).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(target(&name).is_some(), "{name}");
    }
    assert!(TARGETS.iter().all(|target| !target.about.is_empty()));
}

/// What the first byte chooses is chosen both ways, so that either decoder and either version of HTTP is replayed.
#[test]
fn both_encodings_and_versions_are_replayed() {
    for name in ["watch", "list", "pod", "node", "secure-port"] {
        let inputs = inputs(&target(name).unwrap());
        let first_bytes: Vec<u8> =
            inputs.iter().filter_map(|path| fs::read(path).unwrap().first().copied()).collect();
        for choice in [0, 1] {
            assert!(first_bytes.iter().any(|byte| byte % 2 == choice), "{name}: {first_bytes:?}");
        }
    }
    let read = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/fuzz").join(name);
        fs::read(path).unwrap()[1..].to_vec()
    };
    assert_eq!(&*Pod::from_protobuf(&read("pod/in-protobuf")).unwrap().name, "p");
    assert_eq!(&*Node::from_protobuf(&read("node/in-protobuf")).unwrap().name, "n");
}

macro_rules! replayed {
    ($($test:ident: $name:literal),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                replay($name);
            }
        )*

        #[test]
        fn every_target_is_replayed() {
            assert_eq!(TARGETS.map(|target| target.name), [$($name),*]);
        }
    };
}

replayed! {
    quantities: "quantity",
    selectors: "selector",
    expressions: "cel",
    configurations: "config",
    manifests: "manifests",
    traces: "trace",
    watches: "watch",
    lists: "list",
    pods: "pod",
    nodes: "node",
    objects: "object",
    questions: "question",
    requests_to_devcluster: "devcluster",
    requests_to_the_secure_port: "secure-port",
    histories: "history",
}
