//! Rules on dependencies: versions come from the workspace table, the document gives a reason for every crate in it, and the
//! code of a package uses every dependency of its manifest.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use super::Finding;
use super::manifest::{self, Entry};
use super::scan::words;
use super::tree::Package;

const DOCUMENT: &str = "docs/dependencies.md";

/// Every dependency of a member must come from the workspace table.
pub(super) fn check_inherited(place: &str, text: &str) -> Result<Vec<Finding>> {
    let entries = manifest::parse(text).with_context(|| place.to_owned())?;
    let outside = entries.iter().filter(|entry| !entry.section.starts_with("workspace"));
    Ok(outside
        .filter(|entry| !entry.is_inherited() && !entry.is_itself())
        .map(|entry| {
            let message = format!(
                "{} must take its version from the workspace table: `workspace = true`",
                entry.name
            );
            Finding::new(place, message)
        })
        .collect())
}

/// Every external crate of the workspace table needs a row in the document, and every row a crate.
pub(super) fn check_documented(table: &[Entry], document: &str) -> Vec<Finding> {
    let table: BTreeSet<_> = external(table).map(|entry| entry.name.as_str()).collect();
    let rows: BTreeSet<_> = document.lines().filter_map(row).collect();
    let missing = table.difference(&rows).map(|name| {
        Finding::new(
            DOCUMENT,
            format!("has no row for {name}: need, why not our own, licence, maintenance"),
        )
    });
    let stale = rows.difference(&table).map(|name| {
        Finding::new(
            DOCUMENT,
            format!("has a row for {name}, which the workspace table does not have"),
        )
    });
    missing.chain(stale).collect()
}

/// Crates of the table that no member depends on, for a note.
pub(super) fn not_asked_for(table: &[Entry], packages: &[Package]) -> Vec<String> {
    external(table)
        .filter(|entry| {
            !packages
                .iter()
                .any(|package| package.dependencies.iter().any(|d| d.package == entry.name))
        })
        .map(|entry| format!("Cargo.toml: no crate uses {}", entry.name))
        .collect()
}

/// A normal dependency must appear in code, a dev-dependency at least in tests or doc tests.
pub(super) fn check_used(package: &Package) -> Vec<Finding> {
    let mut findings = Vec::new();
    for dependency in &package.dependencies {
        let ident = dependency.ident.as_str();
        let in_code = package
            .files
            .iter()
            .any(|file| !file.is_test && words(&file.source.shipped, ident).next().is_some());
        if in_code {
            continue;
        }
        let in_tests = package.files.iter().any(|file| {
            words(&file.source.code, ident).next().is_some()
                || words(&file.source.comments, ident).next().is_some()
        });
        let problem = match (dependency.is_dev, in_tests) {
            (true, true) => continue,
            (false, true) => "is used by tests only: make it a dev-dependency",
            (_, false) => "is not used: remove it",
        };
        findings.push(Finding::new(
            &package.manifest_place,
            format!("{} {problem}", dependency.package),
        ));
    }
    findings
}

fn external(table: &[Entry]) -> impl Iterator<Item = &Entry> {
    table.iter().filter(|entry| entry.section == "workspace.dependencies" && !entry.is_ours())
}

/// The crate a table row is about: its first cell, in backticks.
fn row(line: &str) -> Option<&str> {
    line.strip_prefix("| `")?.split_once("` |").map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::fixture::package;

    const TABLE: &str =
        "[workspace.dependencies]\nours = { path = \"crates/ours\" }\nserde = \"1\"\ncsv = \"1\"\n";

    fn table() -> Vec<Entry> {
        manifest::parse(TABLE).unwrap()
    }

    #[test]
    fn a_version_of_its_own_fails() {
        let found = check_inherited(
            "crates/x/Cargo.toml",
            "[dependencies]\nserde.workspace = true\ncsv = \"1\"\n[dev-dependencies]\nx = { path = \".\" }\n",
        );
        let found = found.unwrap();
        assert_eq!(
            found,
            [Finding::new(
                "crates/x/Cargo.toml",
                "csv must take its version from the workspace table: `workspace = true`"
            )]
        );
    }

    #[test]
    fn an_undocumented_dependency_fails_and_so_does_a_stale_row() {
        assert_eq!(check_documented(&table(), "| `serde` | … |\n| `csv` | … |\n"), []);
        let found = check_documented(&table(), "| `serde` | … |\n| `yaml` | … |\n");
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("no row for csv"), "{found:?}");
        assert!(found[1].contains("a row for yaml"), "{found:?}");
    }

    #[test]
    fn an_unused_dependency_fails() {
        let used = package("x", "//! Head.\nuse serde_saphyr::from_str;\n")
            .with_dependency("serde-saphyr", false);
        assert_eq!(check_used(&used), []);
        let only_said = "//! Head.\n/// With serde-saphyr.\nfn f() { g(\"serde_saphyr\"); }\n";
        let unused = package("x", only_said).with_dependency("serde-saphyr", false);
        assert_eq!(
            check_used(&unused),
            [Finding::new("crates/x/Cargo.toml", "serde-saphyr is not used: remove it")]
        );
    }

    #[test]
    fn a_dev_dependency_of_doc_tests_is_used() {
        let text = "//! Head.\n//! ```\n//! use tempfile::TempDir;\n//! ```\n";
        assert_eq!(check_used(&package("x", text).with_dependency("tempfile", true)), []);
    }

    #[test]
    fn what_only_tests_use_is_a_dev_dependency() {
        let text = "//! Head.\n#[cfg(test)]\nmod tests { use proptest::prelude::*; }\n";
        assert_eq!(check_used(&package("x", text).with_dependency("proptest", true)), []);
        let found = check_used(&package("x", text).with_dependency("proptest", false));
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().ends_with("used by tests only: make it a dev-dependency"));
    }

    #[test]
    fn a_crate_nobody_asks_for_is_noted() {
        let packages = [package("x", "//! Head.\n").with_dependency("serde", false)];
        assert_eq!(not_asked_for(&table(), &packages), ["Cargo.toml: no crate uses csv"]);
    }
}
