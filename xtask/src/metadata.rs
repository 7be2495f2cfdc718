//! What `cargo metadata` knows of the workspace: packages, declared dependencies and the resolved graph.
//!
//! Resolved for one fixed platform, the one releases are made for: the answer does not depend on where it is asked,
//! and a fresh clone does not fetch what other platforms need.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process;

const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// The answer of `cargo metadata`.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    /// Every package of the graph, ours and others'.
    pub(crate) packages: Vec<Package>,
    /// Where cargo builds.
    #[serde(default)]
    pub(crate) target_directory: PathBuf,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

/// One package.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    /// Its name as registries know it.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    id: String,
    /// Its licence as an SPDX expression.
    pub(crate) license: Option<String>,
    /// Its manifest.
    pub(crate) manifest_path: PathBuf,
    /// The dependencies as its manifest declares them.
    pub(crate) dependencies: Vec<Dependency>,
}

/// A declared dependency.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    /// The package it asks for.
    pub(crate) name: String,
    kind: Option<String>,
    /// The name it has in the code, if another.
    pub(crate) rename: Option<String>,
}

impl Dependency {
    /// Whether only tests, examples and benchmarks see it.
    pub(crate) fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<NodeDep>,
}

#[derive(Debug, Deserialize)]
struct NodeDep {
    pkg: String,
    dep_kinds: Vec<DepKind>,
}

#[derive(Debug, Deserialize)]
struct DepKind {
    kind: Option<String>,
}

impl Metadata {
    /// Asks cargo.
    pub(crate) fn load() -> Result<Self> {
        let mut command = process::cargo("metadata");
        command
            .args(["--format-version", "1", "--filter-platform", PLATFORM])
            .current_dir(process::root()?);
        Self::parse(&process::output(&mut command)?)
    }

    /// Reads cargo's answer.
    pub(crate) fn parse(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).context("cargo metadata gave an answer that cannot be read")
    }

    /// The packages of the workspace, by name.
    pub(crate) fn members(&self) -> BTreeMap<&str, &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
            .map(|package| (package.name.as_str(), package))
            .collect()
    }

    /// All packages that code of `package` can reach, each with the chain of names that leads there.
    ///
    /// Dev-dependencies and build scripts do not count: neither is part of what is shipped.
    pub(crate) fn reachable<'a>(&'a self, package: &'a Package) -> BTreeMap<&'a str, Vec<&'a str>> {
        let names: BTreeMap<_, _> =
            self.packages.iter().map(|p| (p.id.as_str(), p.name.as_str())).collect();
        let nodes: BTreeMap<_, _> =
            self.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        let mut chains: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut queue =
            std::collections::VecDeque::from([(package.id.as_str(), vec![package.name.as_str()])]);
        let mut seen = std::collections::BTreeSet::from([package.id.as_str()]);
        while let Some((id, chain)) = queue.pop_front() {
            let deps = nodes.get(id).map_or(&[][..], |node| &node.deps);
            for dep in
                deps.iter().filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind.is_none()))
            {
                if let Some(name) = names.get(dep.pkg.as_str())
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
                packages.push(json!({
                    "name": name, "version": version, "id": id, "license": "MIT",
                    "manifest_path": format!("/w/{name}/Cargo.toml"), "dependencies": [],
                }));
                nodes.push(json!({"id": id, "deps": []}));
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
                    let declared = json!({"name": name, "kind": kind, "rename": null});
                    packages[from]["dependencies"].as_array_mut().unwrap().push(declared);
                    let resolved = json!({"pkg": to, "dep_kinds": [{"kind": kind}]});
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
        let metadata = json!({"packages": packages, "workspace_members": members, "resolve": {"nodes": nodes}});
        Metadata::parse(metadata.to_string().as_bytes()).unwrap()
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
        let engine = metadata.members()["kube-scheduler-engine"];
        let reachable = metadata.reachable(engine);
        assert_eq!(reachable.keys().copied().collect::<Vec<_>>(), ["crossbeam", "rayon"]);
        assert_eq!(reachable["crossbeam"], ["kube-scheduler-engine", "rayon", "crossbeam"]);
    }
}
