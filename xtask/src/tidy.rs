//! `tidy`: the house rules that no compiler knows.
//!
//! Each module holds one group of rules as a function from what it looks at to findings; none of them prints or
//! touches the file system, so each is tested with an example that breaks it. Here the inputs are gathered.

mod deny;
mod dependencies;
mod duplicates;
mod fuzz_lock;
mod layers;
mod licences;
mod manifest;
mod nouns;
mod scan;
mod signposts;
mod sources;
mod structure;
mod tree;

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};

use crate::baseline::Baseline;
use crate::metadata;
use crate::process::{self, ExitOutcome};

pub(crate) use scan::{Source, imports, path_at};
#[cfg(test)]
pub(crate) use tree::fixture;
pub(crate) use tree::{Package, all_files, packages};

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

/// Looks where documents and comments point, and for documents without a word.
fn signposts(root: &Path, packages: &[Package]) -> Result<Vec<Finding>> {
    let files = all_files(root)?;
    let mut places = signposts::Places::new(files.iter().map(String::as_str));
    let mut documents = Vec::new();
    let mut empty = Vec::new();
    for place in files.iter().filter(|place| place.ends_with(".md")) {
        let text = tree::read(&root.join(place))?;
        if text.trim().is_empty() {
            empty.push(Finding::new(place, "is empty; write it or delete it"));
        }
        if let Some(page) = place.strip_prefix(signposts::SPECIFICATION) {
            places.add_sections(page, &text);
        }
        documents.push((place, text));
    }
    let documents = documents.iter().map(|(place, text)| (place.as_str(), text.as_str()));
    let comments = packages.iter().flat_map(|package| &package.files);
    let comments = comments.map(|file| (file.place.as_str(), file.source.comments.as_str()));
    Ok(documents
        .chain(comments)
        .flat_map(|(place, text)| signposts::check(place, text, &places))
        .chain(empty)
        .collect())
}

/// How to check.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Record in xtask/baseline.txt what became better
    #[arg(long)]
    bless: bool,
}

/// Checks everything; what is broken is printed, one line each.
pub(crate) fn run(args: &Args) -> Result<ExitOutcome> {
    let root = process::root()?;
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path))
            .with_context(|| format!("cannot read {}", root.join(path).display()))
    };
    let metadata = metadata::load()?;
    let rules = deny::parse(&read("deny.toml")?)?;
    let pure = read(sources::PURE_LINTS)?;
    let packages = packages(&root, &metadata)?;
    let table = manifest::parse(&read("Cargo.toml")?)?;

    let mut findings = layers::check(&metadata);
    findings.extend(licences::check(&metadata, &rules.licenses.allow));
    findings.extend(duplicates::check(&metadata, &rules.bans.skip));
    findings.extend(dependencies::check_documented(&table, &read("docs/dependencies.md")?));
    findings.extend(fuzz_lock::check(&metadata, &read(fuzz_lock::PLACE)?)?);
    for package in &packages {
        findings.extend(dependencies::check_inherited(&package.manifest_place, &package.manifest)?);
        findings.extend(dependencies::check_used(package));
        findings.extend(sources::check(package));
        findings.extend(nouns::check(package));
        let settings = read(&package.manifest_place.replace("Cargo.toml", "clippy.toml")).ok();
        findings.extend(sources::check_purity(package, settings.as_deref(), &pure));
    }
    findings.extend(signposts(&root, &packages)?);
    let mut baseline = Baseline::load(&root)?;
    let structure: Vec<_> = packages.iter().flat_map(structure::check).collect();
    if args.bless {
        baseline.shrink(&structure::RULES, &structure);
        baseline.store(&root)?;
    }
    let differences = baseline.compare(&structure::RULES, &structure);
    findings.extend(differences.into_iter().map(|(place, message)| Finding::new(place, message)));
    findings.sort();
    findings.dedup();

    for finding in &findings {
        println!("{finding}");
    }
    for note in dependencies::not_asked_for(&table, &packages)
        .into_iter()
        .chain(duplicates::not_needed(&metadata, &rules.bans.skip))
    {
        println!("note: {note}");
    }
    let files: usize = packages.iter().map(|package| package.files.len()).sum();
    let looked_at = format!("{} packages, {files} files", packages.len());
    if findings.is_empty() {
        println!("tidy: ok ({looked_at})");
        return Ok(ExitOutcome::Well);
    }
    println!("tidy: {} findings ({looked_at})", findings.len());
    Ok(ExitOutcome::Badly(1))
}
