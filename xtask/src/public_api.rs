//! `public-api`: what the libraries offer, recorded line by line in `docs/api`, and whether anything uses it.
//!
//! A change of a public item has to touch the record, so that a review sees it. What nothing outside of a crate uses must
//! not be public, and what a type's name means must not depend on the crate. Exceptions are of two kinds: what is public by
//! design, with the reason, and what the baseline has.

mod library;
mod rustdoc;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::baseline::{Baseline, Exception};
use crate::metadata::{self, Metadata};
use crate::process::{self, ExitOutcome};
use crate::tidy;
use library::{Kind, Library};

pub(crate) use rustdoc::stand_in;

/// Where the records lie.
const RECORDS: &str = "docs/api";

/// The names of the rules in the baseline.
const RULES: [&str; 3] = ["unused-public", "public-names", "name-twice"];

/// Items that are public for users outside of the workspace although nothing in it uses them: beginnings of paths, with the
/// reason.
const BY_DESIGN: [(&str, &str); 7] = [
    ("kube_scheduler_answers::", "for programs that read answers as values; docs/answers.md"),
    (
        "kube_scheduler_api_types::wire::",
        "the fields of objects as they are sent, whichever of them are read",
    ),
    ("kube_scheduler_cel::", "for programs that evaluate expressions without a scheduler"),
    (
        "kube_scheduler_devices::api::",
        "the fields of objects as they are sent, whichever of them are read",
    ),
    ("kube_scheduler_framework::testing::", "for the tests of plugin authors"),
    (
        "kube_scheduler_rs::SchedulerBuilder::",
        "for the programs of plugin authors; docs/plugins.md",
    ),
    ("kube_scheduler_rs::testing::", "for the tests of plugin authors"),
];

/// Items for programs outside of the workspace, which the tests of their own crate use as such programs do: beginnings of
/// paths, with the reason. Without such a test they are reported as any other.
const TESTED: [(&str, &str); 12] = [
    ("kube_scheduler_daemon::ConnectionPatience::", EMBEDDING),
    ("kube_scheduler_daemon::DaemonBuilder::", EMBEDDING),
    ("kube_scheduler_daemon::Introspection::", EMBEDDING),
    ("kube_scheduler_daemon::Patience::", EMBEDDING),
    ("kube_scheduler_daemon::Progress::", EMBEDDING),
    ("kube_scheduler_daemon::ServingOptions::", EMBEDDING),
    ("kube_scheduler_devcluster::", "for tests of other programs"),
    ("kube_scheduler_queue::", "for programs that have a queue without a scheduler"),
    ("kube_scheduler_simulator::NodeUsage", REPORT),
    ("kube_scheduler_simulator::OutcomeCounts::", REPORT),
    ("kube_scheduler_simulator::PodExplanation", REPORT),
    ("kube_scheduler_simulator::Report::", REPORT),
];
const EMBEDDING: &str = "for programs that embed the daemon";
const REPORT: &str = "for programs that read reports as values";

/// The crate that plugin authors learn, and how many names they can be asked to.
const FRAMEWORK: &str = "kube_scheduler_framework";
const MAX_NAMES: usize = 90;

/// What to do.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Write the records, and record in xtask/baseline.txt what became better
    #[arg(long)]
    bless: bool,
}

/// Compares what the libraries offer with the records, and with what is used.
pub(crate) fn run(args: &Args) -> Result<ExitOutcome> {
    let root = process::root()?;
    let metadata = metadata::load()?;
    let libraries = libraries(&metadata)?;

    let mut problems = Vec::new();
    for library in &libraries {
        let place = format!("{RECORDS}/{}.txt", library.ident);
        let record = fs::read_to_string(root.join(&place)).unwrap_or_default();
        let actual = text(library);
        if args.bless {
            fs::create_dir_all(root.join(RECORDS))
                .with_context(|| format!("cannot make {RECORDS}"))?;
            fs::write(root.join(&place), actual)
                .with_context(|| format!("cannot write {place}"))?;
        } else {
            problems.extend(changes(&place, &record, &actual));
        }
    }

    let packages = tidy::packages(&root, &metadata)?;
    let found = exceptions(&libraries, &users(&root, &packages)?);
    let mut baseline = Baseline::load(&root)?;
    if args.bless {
        baseline.shrink(&RULES, &found);
        baseline.store(&root)?;
    }
    let differences = baseline.compare(&RULES, &found);
    problems.extend(differences.into_iter().map(|(place, message)| format!("{place}: {message}")));

    problems.iter().for_each(|problem| println!("{problem}"));
    let n_items: usize = libraries.iter().map(|library| library.items.len()).sum();
    let looked_at = format!("{} libraries, {n_items} items", libraries.len());
    if problems.is_empty() {
        println!("public-api: ok ({looked_at})");
        return Ok(ExitOutcome::Well);
    }
    println!("public-api: {} problems ({looked_at}); `--bless` writes the records", problems.len());
    Ok(ExitOutcome::Badly(1))
}

/// The libraries that are published.
fn libraries(metadata: &Metadata) -> Result<Vec<Library>> {
    let documents = rustdoc::documents(metadata.target_directory.as_std_path())?;
    let read = |name: &str| {
        let ident = name.replace('-', "_");
        library::read(&ident, &documents.join(format!("{ident}.json")))
    };
    metadata::published(metadata).into_keys().map(read).collect()
}

fn users(root: &Path, packages: &[tidy::Package]) -> Result<users::Users> {
    let mut documents = Vec::new();
    for place in tidy::all_files(root)?.iter().filter(|place| place.ends_with(".md")) {
        let text = fs::read_to_string(root.join(place));
        documents.push(text.with_context(|| format!("cannot read {place}"))?);
    }
    Ok(users::Users::new(packages, documents.iter().map(String::as_str)))
}

/// The record of a library.
fn text(library: &Library) -> String {
    library.items.iter().map(|item| format!("{}\n", item.line)).collect()
}

/// The lines that a record lacks or has too many.
fn changes(place: &str, record: &str, actual: &str) -> Vec<String> {
    let (old, new) =
        (record.lines().collect::<BTreeSet<_>>(), actual.lines().collect::<BTreeSet<_>>());
    let gone = old.difference(&new).map(|line| format!("{place}: - {line}"));
    gone.chain(new.difference(&old).map(|line| format!("{place}: + {line}"))).collect()
}

/// Public items without a user, a framework that is too large, and names that two crates have given.
fn exceptions(libraries: &[Library], users: &users::Users) -> Vec<Exception> {
    let unused = users.unused(libraries).into_iter();
    let is_for_others = |unused: &users::UnusedItem| {
        let is_in = |starts: &[(&str, &str)]| {
            starts.iter().any(|(start, _)| unused.path.starts_with(start))
        };
        is_in(&BY_DESIGN) || unused.in_own_tests && is_in(&TESTED)
    };
    let unused = unused.filter(|unused| !is_for_others(unused)).map(|unused| {
        let who = if unused.in_own_tests {
            "only tests of its own crate use it"
        } else {
            "nothing uses it"
        };
        let message = format!("is public, but {who}: narrow it, or delete it");
        Exception { rule: RULES[0], place: unused.path, measure: 0, message }
    });
    let framework = libraries.iter().filter(|library| library.ident == FRAMEWORK);
    let too_large = framework.map(n_names).filter(|names| *names > MAX_NAMES).map(|measure| {
        let message = format!(
            "has {measure} public names; {MAX_NAMES} are allowed: what do plugin authors need?"
        );
        Exception { rule: RULES[1], place: FRAMEWORK.to_owned(), measure, message }
    });
    unused.chain(too_large).chain(names_twice(libraries)).collect()
}

/// Types whose name another crate has given to a type of its own. What a crate passes on is no type of its own, and one
/// crate may have the name in several modules.
fn names_twice(libraries: &[Library]) -> Vec<Exception> {
    let mut by_name: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for library in libraries {
        for item in library.items.iter().filter(|item| item.is_type && item.kind == Kind::Named) {
            let paths = by_name.entry(item.name()).or_default();
            paths.entry(&library.ident).or_insert(&item.path);
        }
    }
    by_name.retain(|_, paths| paths.len() > 1);
    let each = by_name.values().flat_map(|paths| paths.iter().map(move |path| (paths, path)));
    let exceptions = each.map(|(paths, (ident, path))| {
        let others = paths.keys().filter(|other| *other != ident).copied();
        let others = others.collect::<Vec<_>>().join(", ");
        let message =
            format!("has the name of another type, of {others}: one of them needs another name");
        Exception { rule: RULES[2], place: (*path).to_owned(), measure: 0, message }
    });
    exceptions.collect()
}

/// How many names a reader of the crate's page meets. Modules have pages of their own.
fn n_names(library: &Library) -> usize {
    let names =
        library.items.iter().filter(|item| matches!(item.kind, Kind::Named | Kind::Reexport(_)));
    names
        .map(|item| &item.path)
        .filter(|path| path.matches("::").count() == 1)
        .collect::<BTreeSet<_>>()
        .len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use library::Item;

    fn library(ident: &str, items: &[(&str, bool, Kind)]) -> Library {
        let item = |(path, is_type, kind): &(&str, bool, Kind)| Item {
            line: String::new(),
            path: format!("{ident}::{path}"),
            kind: kind.clone(),
            is_type: *is_type,
            mentions: BTreeSet::new(),
        };
        Library {
            ident: ident.to_owned(),
            items: items.iter().map(item).collect(),
            crates: Vec::new(),
        }
    }

    #[test]
    fn a_type_with_the_name_of_another_crates_type_is_found_on_both_sides() {
        let queue =
            library("q", &[("Entry", true, Kind::Named), ("deep::Place", true, Kind::Named)]);
        let cache = library("c", &[("Place", true, Kind::Named), ("Node", true, Kind::Named)]);
        let found = names_twice(&[queue, cache]);
        let found: Vec<_> = found.iter().map(|found| (&*found.place, &*found.message)).collect();
        let message = |other: &str| {
            format!("has the name of another type, of {other}: one of them needs another name")
        };
        assert_eq!(found, [("c::Place", &*message("q")), ("q::deep::Place", &*message("c"))]);
    }

    #[test]
    fn modules_re_exports_functions_and_associated_types_may_have_the_name_of_a_type() {
        let of_queue = ("q".to_owned(), "Place".to_owned());
        let queue = library("q", &[("Place", true, Kind::Named), ("b::Place", true, Kind::Named)]);
        let cache = library(
            "c",
            &[
                ("Place", false, Kind::Reexport(of_queue)),
                ("of::Place", false, Kind::Named),
                ("Node::Place", true, Kind::Part),
            ],
        );
        assert_eq!(names_twice(&[queue, cache]), []);
    }

    #[test]
    fn changes_are_named_line_by_line() {
        assert_eq!(changes("r.txt", "a\nb\n", "a\nb\n"), Vec::<String>::new());
        assert_eq!(changes("r.txt", "a\nb\n", "b\nc\n"), ["r.txt: - a", "r.txt: + c"]);
    }
}
