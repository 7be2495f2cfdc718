//! As much of Cargo.toml as the rules need: which dependencies a manifest names, and how.
//!
//! Cargo's own metadata does not say whether a version came from the workspace table; the text does.

use anyhow::{Context, Result};
use toml::{Table, Value};

/// A dependency as a manifest writes it.
#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    /// The section, such as `dependencies` or `workspace.dependencies`.
    pub(super) section: String,
    /// The name on the left.
    pub(super) name: String,
    value: Value,
}

impl Entry {
    /// Whether it takes version and source from the workspace table.
    pub(super) fn is_inherited(&self) -> bool {
        self.value.get("workspace") == Some(&Value::Boolean(true))
    }

    /// Whether it is a crate of this repository.
    pub(super) fn is_ours(&self) -> bool {
        self.value.get("path").is_some()
    }

    /// Whether it is the crate itself, with other features, for its own tests.
    ///
    /// It must not come from the workspace table: with the version there a crate could not be published before it is.
    pub(super) fn is_itself(&self) -> bool {
        self.section == "dev-dependencies"
            && self.value.get("path") == Some(&Value::String(".".into()))
    }
}

/// Reads the dependencies of a manifest, section by section.
pub(super) fn parse(text: &str) -> Result<Vec<Entry>> {
    let table: Table = text.parse().context("a manifest cannot be read")?;
    let mut entries = Vec::new();
    collect("", &table, &mut entries);
    Ok(entries)
}

fn collect(within: &str, table: &Table, entries: &mut Vec<Entry>) {
    for (key, value) in table {
        let Value::Table(inner) = value else { continue };
        let section = if within.is_empty() { key.clone() } else { format!("{within}.{key}") };
        if matches!(key.as_str(), "dependencies" | "dev-dependencies" | "build-dependencies") {
            entries.extend(inner.iter().map(|(name, value)| Entry {
                section: section.clone(),
                name: name.clone(),
                value: value.clone(),
            }));
        } else {
            collect(&section, inner, entries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"
[package]
name = "x" # not a dependency

[dependencies]
anyhow.workspace = true
serde = { workspace = true, features = ["rc"] }
http = "1" # pinned

[dev-dependencies.x]
path = "."

[target.'cfg(unix)'.dependencies]
libc = "0.2"

[workspace.dependencies]
ours = { path = "crates/ours", version = "0.1.0" }
"#;

    fn entries() -> Vec<Entry> {
        parse(MANIFEST).unwrap()
    }

    #[test]
    fn every_way_to_write_a_dependency_is_read() {
        let mut names: Vec<_> = entries()
            .into_iter()
            .map(|entry| format!("{} {}", entry.section, entry.name))
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "dependencies anyhow",
                "dependencies http",
                "dependencies serde",
                "dev-dependencies x",
                "target.cfg(unix).dependencies libc",
                "workspace.dependencies ours",
            ]
        );
    }

    #[test]
    fn inheritance_is_reported_from_its_look_alikes() {
        let of = |name: &str| entries().into_iter().find(|entry| entry.name == name).unwrap();
        assert!(of("anyhow").is_inherited() && of("serde").is_inherited());
        assert!(!of("http").is_inherited() && !of("ours").is_inherited());
        assert!(of("ours").is_ours() && !of("http").is_ours());
        assert!(of("x").is_itself() && !of("ours").is_itself());
    }
}
