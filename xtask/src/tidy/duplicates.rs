//! One version of each crate: exceptions are listed with who forces them.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use crate::metadata::Metadata;

/// Crates that may come in several versions, and why that cannot be helped from here.
const EXCEPTIONS: [(&str, &str); 4] = [
    ("base64", "serde-saphyr took 0.23 before kube-client left 0.22"),
    ("getrandom", "ring is on 0.2; everything else on 0.4"),
    (
        "num-bigint",
        "rcgen names a parser among its options that is on 0.4; it is off and not built",
    ),
    ("syn", "derive macros are moving from 2 to 3; nothing of it is linked into a program"),
];

/// Finds every crate with several versions that is not an exception.
pub(super) fn check(metadata: &Metadata) -> Vec<Finding> {
    duplicates(metadata)
        .into_iter()
        .filter(|(name, _)| !EXCEPTIONS.iter().any(|(exception, _)| exception == name))
        .map(|(name, versions)| {
            let versions = versions.into_iter().collect::<Vec<_>>().join(", ");
            Finding::new(name, format!("comes in several versions: {versions}; `cargo tree -i {name}@VERSION` tells why"))
        })
        .collect()
}

/// Exceptions that are not needed any more, for a note.
pub(super) fn not_needed(metadata: &Metadata) -> Vec<String> {
    let duplicates = duplicates(metadata);
    EXCEPTIONS
        .iter()
        .filter(|(name, _)| !duplicates.contains_key(name))
        .map(|(name, _)| format!("{name} comes in one version now: its exception can go"))
        .collect()
}

fn duplicates(metadata: &Metadata) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in &metadata.packages {
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    versions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::fixture::graph;

    #[test]
    fn a_second_version_fails() {
        let found = check(&graph("xtask -> bytes@1.0\nxtask -> helper\nhelper -> bytes@0.9"));
        assert_eq!(found.len(), 1);
        assert!(
            found[0].to_string().starts_with("bytes: comes in several versions: 0.9, 1.0;"),
            "{found:?}"
        );
    }

    #[test]
    fn an_exception_passes_and_is_named_when_it_is_over() {
        let twice = graph("xtask -> syn@2.0\nxtask -> syn@3.0");
        assert_eq!(check(&twice), []);
        assert!(!not_needed(&twice).iter().any(|note| note.starts_with("syn ")));
        assert!(not_needed(&graph("xtask -> syn@3.0")).iter().any(|note| note.starts_with("syn ")));
    }
}
