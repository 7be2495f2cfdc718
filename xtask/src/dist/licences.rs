//! The licences of everything that is linked into the binary, with their texts.
//!
//! Invariants: every package that the binary's code can reach is listed, by name; a text that several packages share
//! stands once; a package without a text says so.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::metadata::{Metadata, Package, members, reachable};

const NAMES: [&str; 6] = ["license", "licence", "copying", "copyright", "notice", "unlicense"];

/// Packages and the texts they come with.
pub(super) fn report(metadata: &Metadata, package: &Package) -> String {
    let reachable = reachable(metadata, package);
    let members = members(metadata);
    let others: Vec<&Package> = metadata
        .packages
        .iter()
        .filter(|other| {
            reachable.contains_key(other.name.as_str())
                && !members.contains_key(other.name.as_str())
        })
        .collect();
    let texts = others.iter().map(|other| {
        let folder = other.manifest_path.as_std_path().parent().unwrap_or(Path::new(""));
        (*other, texts_in(folder))
    });
    write(&texts.collect::<Vec<_>>())
}

/// The files of a package whose names say that they are about its licence, by name.
fn texts_in(folder: &Path) -> Vec<(String, String)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut texts: Vec<(String, String)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_licence = NAMES.iter().any(|start| name.to_lowercase().starts_with(start));
            let text = fs::read_to_string(entry.path()).ok().filter(|_| is_licence)?;
            Some((name, text))
        })
        .collect();
    texts.sort();
    texts
}

fn write(packages: &[(&Package, Vec<(String, String)>)]) -> String {
    let mut out =
        "Software that is part of the binary kube-scheduler-rs, and its licences.\n\n".to_owned();
    let mut lines: Vec<String> = packages
        .iter()
        .map(|(package, texts)| {
            let licence = package.license.as_deref().unwrap_or("no licence stated");
            let missing = if texts.is_empty() { " (comes without a text)" } else { "" };
            format!("{} {}: {licence}{missing}\n", package.name, package.version)
        })
        .collect();
    lines.sort();
    out.extend(lines);
    // Most texts are the same except for blanks.
    let mut by_text: BTreeMap<String, (Vec<String>, &str)> = BTreeMap::new();
    for (package, texts) in packages {
        for (file, text) in texts {
            let key = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let owner = format!("{} {} ({file})", package.name, package.version);
            by_text.entry(key).or_insert((Vec::new(), text)).0.push(owner);
        }
    }
    let mut texts: Vec<(Vec<String>, &str)> = by_text.into_values().collect();
    for (owners, _) in &mut texts {
        owners.sort();
    }
    texts.sort();
    for (owners, text) in texts {
        out.push_str(&format!(
            "\n{}\n{}\n\n{}\n",
            "=".repeat(80),
            owners.join("\n"),
            text.trim_end()
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::fixture;

    #[test]
    fn a_shared_text_stands_once_and_a_missing_one_is_reported() {
        let metadata = fixture::graph(
            "kube-scheduler-a -> serde\nkube-scheduler-a -> tokio\nserde -> itoa\nitoa -> x dev",
        );
        let package = |name: &str| {
            metadata.packages.iter().find(|package| package.name.as_str() == name).unwrap()
        };
        let text = |text: &str| vec![("LICENSE".to_owned(), text.to_owned())];
        let written = write(&[
            (package("tokio"), text("Permission  granted\n")),
            (package("serde"), text("Permission granted")),
            (package("itoa"), Vec::new()),
        ]);
        assert!(
            written.contains(
                "itoa 1.0.0: MIT (comes without a text)\nserde 1.0.0: MIT\ntokio 1.0.0: MIT\n"
            ),
            "{written}"
        );
        assert_eq!(written.matches("Permission").count(), 1, "{written}");
        assert!(
            written.contains("\nserde 1.0.0 (LICENSE)\ntokio 1.0.0 (LICENSE)\n\nPermission"),
            "{written}"
        );
        let listed = report(&metadata, members(&metadata)["kube-scheduler-a"]);
        assert!(
            listed.contains("itoa 1.0.0")
                && !listed.contains("\nx 1.0.0")
                && !listed.contains("kube-scheduler-a 1"),
            "{listed}"
        );
    }
}
