//! One version of each crate: exceptions are listed in `deny.toml`, with the crate that forces them.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::semver::Version;

use super::Finding;
use super::deny::Skip;
use crate::metadata::Metadata;

/// Finds every crate with several versions that is not an exception, and exceptions without a reason.
pub(super) fn check(metadata: &Metadata, exceptions: &[Skip]) -> Vec<Finding> {
    let unexplained = exceptions.iter().filter(|skip| skip.reason.is_empty());
    let unexplained = unexplained
        .map(|skip| Finding::new(&skip.name, "is skipped in deny.toml without a reason"));
    duplicates(metadata)
        .into_iter()
        .filter(|(name, _)| !exceptions.iter().any(|exception| exception.name == *name))
        .map(|(name, versions)| {
            let versions = versions.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            Finding::new(name, format!("comes in several versions: {versions}; `cargo tree -i {name}@VERSION` shows why"))
        })
        .chain(unexplained)
        .collect()
}

/// Exceptions that are not needed any more, for a note.
pub(super) fn not_needed(metadata: &Metadata, exceptions: &[Skip]) -> Vec<String> {
    let duplicates = duplicates(metadata);
    exceptions
        .iter()
        .filter(|skip| !duplicates.contains_key(skip.name.as_str()))
        .map(|skip| format!("{} comes in one version now: its exception can go", skip.name))
        .collect()
}

fn duplicates(metadata: &Metadata) -> BTreeMap<&str, BTreeSet<&Version>> {
    let mut versions: BTreeMap<&str, BTreeSet<&Version>> = BTreeMap::new();
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
        let found = check(&graph("xtask -> bytes@1.0\nxtask -> helper\nhelper -> bytes@0.9"), &[]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].to_string().starts_with("bytes: comes in several versions: 0.9.0, 1.0.0;"),
            "{found:?}"
        );
    }

    #[test]
    fn an_exception_passes_and_is_named_when_it_is_over() {
        let twice = graph("xtask -> syn@2.0\nxtask -> syn@3.0");
        let syn = |reason: &str| [Skip { name: "syn".into(), reason: reason.into() }];
        assert_eq!(check(&twice, &syn("moving")), []);
        assert_eq!(not_needed(&twice, &syn("moving")), Vec::<String>::new());
        assert_eq!(
            not_needed(&graph("xtask -> syn@3.0"), &syn("moving")),
            ["syn comes in one version now: its exception can go"]
        );
        assert_eq!(check(&twice, &syn("")).len(), 1);
    }
}
