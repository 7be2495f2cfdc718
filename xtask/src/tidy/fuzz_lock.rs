//! The fuzzer's lock file, which no build of the workspace reads: it must know every dependency of our packages, or
//! `cargo xtask fuzz`, which may not change it, fails before it starts.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Finding;
use crate::metadata::{DependencyKind, Metadata, members};

/// Where it is.
pub(super) const PLACE: &str = "fuzz/Cargo.lock";

#[derive(Deserialize)]
struct Lock {
    package: Vec<LockedPackage>,
}

#[derive(Deserialize)]
struct LockedPackage {
    name: String,
    /// Names, with versions where they are needed to tell them apart.
    #[serde(default)]
    dependencies: Vec<String>,
}

/// Compares what our packages that are locked need with what is locked for them.
pub(super) fn check(metadata: &Metadata, text: &str) -> Result<Vec<Finding>> {
    let lock: Lock = toml::from_str(text).with_context(|| format!("{PLACE} cannot be read"))?;
    let name = |dependency: &str| dependency.split(' ').next().unwrap_or_default().to_owned();
    let locked: BTreeMap<String, BTreeSet<String>> = lock
        .package
        .into_iter()
        .map(|LockedPackage { name: of, dependencies }| {
            (of, dependencies.iter().map(|dependency| name(dependency)).collect())
        })
        .collect();
    let mut findings = Vec::new();
    for (package, of) in members(metadata) {
        let Some(locked) = locked.get(package) else { continue };
        let needed = of.dependencies.iter().filter(|dependency| {
            dependency.kind == DependencyKind::Normal
                && !dependency.optional
                && dependency.target.is_none()
        });
        for missing in needed.filter(|dependency| !locked.contains(&dependency.name)) {
            let message = format!(
                "lacks {} of {package}: `cargo metadata --manifest-path fuzz/Cargo.toml` adds it",
                missing.name
            );
            findings.push(Finding::new(PLACE, message));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::fixture::graph;

    #[test]
    fn a_dependency_that_is_not_locked_is_found() {
        let graph = graph(
            "kube-scheduler-tests -> kube-scheduler-queue\nkube-scheduler-tests -> bytes\n\
             kube-scheduler-tests -> helper dev\nxtask -> other",
        );
        let lock = |dependencies: &str| {
            format!(
                "[[package]]\nname = \"kube-scheduler-tests\"\nversion = \"1.0.0\"\ndependencies = [{dependencies}]\n\
                 [[package]]\nname = \"kube-scheduler-queue\"\nversion = \"1.0.0\"\n"
            )
        };
        let whole = lock("\"kube-scheduler-queue\", \"bytes 1.2.0\"");
        assert_eq!(check(&graph, &whole).unwrap(), []);
        let found = check(&graph, &lock("\"kube-scheduler-queue\"")).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].message.starts_with("lacks bytes of kube-scheduler-tests"), "{found:?}");
        check(&graph, "package = 1").unwrap_err();
    }
}
