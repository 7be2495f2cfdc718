//! What the documents quote is what the program says.

mod commands;

use std::path::{Path, PathBuf};

use crate::{run, stderr};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of all sources of the crates, tests aside.
fn sources() -> String {
    let mut text = String::new();
    let mut open: Vec<PathBuf> = std::fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path().join("src"))
        .collect();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
    text
}

/// The messages that the first column of the table of symptoms quotes.
fn quoted_symptoms() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let (_, section) = page.split_once("\n## Troubleshooting\n").unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    let spans = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    // Paths, flags and names of checks are no messages.
    let messages = spans.filter(|span| span.contains(' ') && !span.starts_with("kubectl"));
    messages.map(str::to_owned).collect()
}

#[test]
fn quoted_messages_are_messages_of_the_program() {
    let quoted = quoted_symptoms();
    assert!(quoted.len() > 5, "{quoted:?}");
    let sources = sources();
    for message in quoted {
        // `…` and a capital X stand for what differs; what the operating system says is its own.
        let parts = message
            .split(['…', 'X'])
            .map(|part| part.trim().trim_end_matches(": Permission denied"));
        for part in parts.filter(|part| part.contains(' ')) {
            assert!(
                sources.contains(part),
                "docs/operations.md quotes {message:?}, which nothing says"
            );
        }
    }
}

#[test]
fn what_can_be_had_at_once_is_said_as_quoted() {
    let quoted = quoted_symptoms();
    for (args, start) in [
        (&["--secure-port=0"][..], "no API server is configured"),
        (&["--feature-gates=X=true"], "unrecognized feature gate: X"),
    ] {
        let message = quoted.iter().find(|message| message.starts_with(start)).unwrap();
        let said = stderr(&run(args));
        assert!(
            said.contains(message.trim_end_matches('…').trim()),
            "{message:?} is not in {said}"
        );
    }
}

/// The names in the first column of the table of metrics that differ; a `*` at the end stands for anything.
fn metrics_that_differ() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/parity.md")).unwrap();
    let (_, section) =
        page.split_once("\n### Metrics that differ or have no meaning here\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let cells = section.lines().filter_map(|row| row.strip_prefix("| ")?.split(" | ").next());
    let spans = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    spans.map(str::to_owned).collect()
}

#[test]
fn every_metric_of_the_reference_is_here_or_in_the_table_of_those_that_differ() {
    let (sources, rows) = (sources(), metrics_that_differ());
    let is_in_table = |name: &str| {
        let short = name.strip_prefix("scheduler_").unwrap_or(name);
        rows.iter().any(|row| match row.strip_suffix('*') {
            Some(start) => name.starts_with(start) || short.starts_with(start),
            None => row == name || row == short,
        })
    };
    let recorded = include_str!("../data/metrics-v1.36.2.txt");
    let names: Vec<&str> = recorded.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(names.len() > 80);
    let is_here = |name: &str| sources.contains(&format!("\"{name}\""));
    let lacking: Vec<&&str> =
        names.iter().filter(|name| !is_here(name) && !is_in_table(name)).collect();
    assert!(lacking.is_empty(), "neither here nor in docs/parity.md: {lacking:#?}");
}
