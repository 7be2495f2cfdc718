//! What `cargo metadata` knows of the workspace: packages, declared dependencies and the resolved graph.
//!
//! Resolved for one fixed platform, the one releases are made for: the answer does not depend on where it is asked,
//! and a fresh clone does not fetch what other platforms need.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anyhow::{Context, Result};
pub(crate) use cargo_metadata::{DependencyKind, Metadata, Package};

use crate::process;

const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Asks cargo.
pub(crate) fn load() -> Result<Metadata> {
    let mut command = process::cargo("metadata");
    command
        .args(["--format-version", "1", "--filter-platform", PLATFORM])
        .current_dir(process::root()?);
    let answer = String::from_utf8(process::output(&mut command)?);
    cargo_metadata::MetadataCommand::parse(answer.context("cargo metadata is not UTF-8")?)
        .context("cargo metadata gave an answer that cannot be read")
}

/// The packages of the workspace, by name.
pub(crate) fn members(metadata: &Metadata) -> BTreeMap<&str, &Package> {
    let members = metadata.workspace_packages().into_iter();
    members.map(|package| (package.name.as_str(), package)).collect()
}

/// The packages of the workspace that are published, by name.
pub(crate) fn published(metadata: &Metadata) -> BTreeMap<&str, &Package> {
    let mut published = members(metadata);
    published.retain(|_, package| package.publish.as_ref().is_none_or(|to| !to.is_empty()));
    published
}

/// All packages that code of `package` can reach, each with the chain of names that leads there.
///
/// Dev-dependencies and build scripts do not count: neither is part of what is shipped.
pub(crate) fn reachable<'a>(
    metadata: &'a Metadata,
    package: &'a Package,
) -> BTreeMap<&'a str, Vec<&'a str>> {
    let names: BTreeMap<_, _> =
        metadata.packages.iter().map(|p| (&p.id, p.name.as_str())).collect();
    let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    let nodes: BTreeMap<_, _> = nodes.map(|node| (&node.id, node)).collect();
    let mut chains: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut queue = VecDeque::from([(&package.id, vec![package.name.as_str()])]);
    let mut seen = BTreeSet::from([&package.id]);
    while let Some((id, chain)) = queue.pop_front() {
        let deps = nodes.get(id).map_or(&[][..], |node| &node.deps);
        let is_normal = |kind: &cargo_metadata::DepKindInfo| kind.kind == DependencyKind::Normal;
        for dep in deps.iter().filter(|dep| dep.dep_kinds.iter().any(is_normal)) {
            if let Some(name) = names.get(&dep.pkg)
                && seen.insert(&dep.pkg)
            {
                let mut longer = chain.clone();
                longer.push(name);
                chains.entry(name).or_insert_with(|| longer.clone());
                queue.push_back((&dep.pkg, longer));
            }
        }
    }
    chains
}

/// Small graphs for tests, written as text.
#[cfg(test)]
pub(crate) mod fixture {
    use serde_json::{Value, json};

    use super::Metadata;

    /// A graph from lines such as `engine -> tokio 1.0 dev`, meaning an edge from the first to the second.
    ///
    /// Names that start with `kube-scheduler-` and `xtask` are members of the workspace. A version may follow each name
    /// (`base64@0.22`), a kind the edge (`dev`, `build`). All licences are MIT; `licence NAME EXPRESSION` sets another,
    /// `licence NAME` alone none.
    pub(crate) fn graph(text: &str) -> Metadata {
        let mut packages: Vec<Value> = Vec::new();
        let mut nodes: Vec<Value> = Vec::new();
        let intern = |packages: &mut Vec<Value>, nodes: &mut Vec<Value>, id: &str| {
            packages.iter().position(|package| package["id"] == id).unwrap_or_else(|| {
                let (name, version) = id.split_once('@').unwrap_or((id, "1.0.0"));
                // Cargo knows versions of three numbers only.
                let version =
                    format!("{version}.0.0").split('.').take(3).collect::<Vec<_>>().join(".");
                packages.push(json!({
                    "name": name, "version": version, "id": id, "license": "MIT", "targets": [],
                    "manifest_path": format!("/w/{name}/Cargo.toml"), "dependencies": [],
                    "features": {},
                }));
                nodes.push(json!({"id": id, "deps": [], "dependencies": []}));
                packages.len() - 1
            })
        };
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["licence", name, expression @ ..] => {
                    let at = intern(&mut packages, &mut nodes, name);
                    let licence = expression.join(" ");
                    packages[at]["license"] =
                        if licence.is_empty() { Value::Null } else { licence.into() };
                }
                [from, "->", to, kind @ ..] => {
                    let from = intern(&mut packages, &mut nodes, from);
                    let target = intern(&mut packages, &mut nodes, to);
                    let kind = kind.first().map_or(Value::Null, |kind| (*kind).into());
                    let name = packages[target]["name"].clone();
                    let declared = json!({
                        "name": name, "kind": kind, "req": "*", "optional": false,
                        "uses_default_features": true, "features": [],
                    });
                    packages[from]["dependencies"].as_array_mut().unwrap().push(declared);
                    let resolved = json!({"name": name, "pkg": to, "dep_kinds": [{"kind": kind, "target": null}]});
                    nodes[from]["deps"].as_array_mut().unwrap().push(resolved);
                }
                [alone] => {
                    intern(&mut packages, &mut nodes, alone);
                }
                _ => panic!("not a line of a graph: {line}"),
            }
        }
        let members: Vec<_> = packages
            .iter()
            .map(|package| package["id"].as_str().unwrap())
            .filter(|id| id.starts_with("kube-scheduler-") || *id == "xtask")
            .collect();
        let metadata = json!({
            "packages": packages, "workspace_members": members, "version": 1,
            "workspace_root": "/w", "target_directory": "/w/target",
            "resolve": {"nodes": nodes, "root": null},
        });
        serde_json::from_value(metadata).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_normal_dependencies_are_reachable() {
        let metadata = fixture::graph(
            "kube-scheduler-engine -> rayon
             rayon -> crossbeam
             rayon -> cc build
             kube-scheduler-engine -> proptest dev",
        );
        let engine = members(&metadata)["kube-scheduler-engine"];
        let reachable = reachable(&metadata, engine);
        assert_eq!(reachable.keys().copied().collect::<Vec<_>>(), ["crossbeam", "rayon"]);
        assert_eq!(reachable["crossbeam"], ["kube-scheduler-engine", "rayon", "crossbeam"]);
    }
}
