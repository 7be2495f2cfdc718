//! `tidy`: the house rules that no compiler knows.
//!
//! Each module holds one group of rules as a function from what it looks at to findings; none of them prints or
//! touches the file system, so each is tested with an example that breaks it. Here the inputs are gathered.

mod dependencies;
mod duplicates;
mod layers;
mod licences;
mod manifest;
mod scan;
mod sources;
mod tree;

use std::fmt;

use anyhow::{Context, Result};

use crate::metadata::Metadata;
use crate::process::{self, Ended};

/// A broken rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// A path from the top of the repository, perhaps with a line; or a package.
    place: String,
    /// What is wrong, and what is allowed instead.
    message: String,
}

impl Finding {
    fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Checks everything; what is broken is printed, one line each.
pub(crate) fn run() -> Result<Ended> {
    let root = process::root()?;
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path))
            .with_context(|| format!("cannot read {}", root.join(path).display()))
    };
    let metadata = Metadata::load()?;
    let packages = tree::packages(&root, &metadata)?;
    let table = manifest::parse(&read("Cargo.toml")?);

    let mut findings = layers::check(&metadata);
    findings.extend(licences::check(&metadata));
    findings.extend(duplicates::check(&metadata));
    findings.extend(dependencies::check_documented(&table, &read("docs/dependencies.md")?));
    for package in &packages {
        findings.extend(dependencies::check_inherited(&package.manifest_place, &package.manifest));
        findings.extend(dependencies::check_used(package));
        findings.extend(sources::check(package));
    }
    findings.sort();
    findings.dedup();

    for finding in &findings {
        println!("{finding}");
    }
    for note in dependencies::not_asked_for(&table, &packages)
        .into_iter()
        .chain(duplicates::not_needed(&metadata))
    {
        println!("note: {note}");
    }
    let files: usize = packages.iter().map(|package| package.files.len()).sum();
    let looked_at = format!("{} packages, {files} files", packages.len());
    if findings.is_empty() {
        println!("tidy: ok ({looked_at})");
        return Ok(Ended::Well);
    }
    println!("tidy: {} findings ({looked_at})", findings.len());
    Ok(Ended::Badly(1))
}
