//! Commands, flags and metrics in the documents are those of the program.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{root, sources};
use crate::{run, stderr, stdout};

/// The documents that users read, by path. What is in `docs/spec` is about kube-scheduler.
fn documents() -> Vec<(PathBuf, String)> {
    let mut paths = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    let listed = |folder: &str| {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<PathBuf>>()
    };
    paths.extend(listed("docs"));
    paths.extend(listed("docs/performance"));
    paths.extend(listed("crates").into_iter().map(|path| path.join("README.md")));
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

/// The code of a document: lines of blocks, and spans in backticks.
fn code(text: &str) -> Vec<String> {
    let (mut found, mut prose, mut is_fenced) = (Vec::new(), String::new(), false);
    let spans_of = |prose: &mut String, found: &mut Vec<String>| {
        found.extend(prose.split('`').skip(1).step_by(2).map(str::to_owned));
        prose.clear();
    };
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if is_fenced || line.starts_with("    ") {
            found.push(line.trim().to_owned());
        } else if line.is_empty() || line.starts_with("| ") {
            spans_of(&mut prose, &mut found);
            prose.push_str(line);
        } else {
            prose.push_str(line);
            prose.push(' ');
        }
    }
    spans_of(&mut prose, &mut found);
    found
}

/// The words after `program` in a line of code, up to a pipe, a comment or the next command.
fn arguments<'c>(code: &'c str, program: &str) -> Option<Vec<&'c str>> {
    let mut words = code.split_whitespace();
    let before: Vec<&str> = words.by_ref().take_while(|word| *word != program).collect();
    // Before it may be a prompt, variables, or another program that runs it.
    let is_command = before.iter().all(|word| *word == "$" || word.contains('='))
        || before.last() == Some(&"--");
    let ends = ["|", "#", ";", "&&", "&", ">", "\\"];
    (is_command && code.split_whitespace().any(|word| word == program))
        .then(|| words.take_while(|word| !ends.contains(word) && !word.starts_with('#')).collect())
}

/// Whether a help text has this flag, long or short.
fn has_flag(help: &str, flag: &str) -> bool {
    let of_flag = |c: char| c.is_ascii_alphanumeric() || c == '-';
    help.split(|c: char| !of_flag(c)).any(|word| word == flag)
}

#[test]
fn commands_in_the_documents_exist_with_their_flags() {
    let mut helps: BTreeMap<Vec<&str>, String> = BTreeMap::new();
    let documents = documents();
    let all: Vec<(&PathBuf, String)> = documents
        .iter()
        .flat_map(|(path, text)| code(text).into_iter().map(move |code| (path, code)))
        .collect();
    let mut n_commands = 0;
    for (path, code) in &all {
        let Some(arguments) = arguments(code, "kube-scheduler-rs") else { continue };
        n_commands += 1;
        let is_name = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        let subcommand: Vec<&str> = arguments
            .iter()
            .take_while(|word| !word.starts_with('-'))
            .take_while(is_name)
            .copied()
            .collect();
        let help = helps.entry(subcommand.clone()).or_insert_with(|| {
            let shown = run(&[&subcommand[..], &["--help"]].concat());
            assert!(shown.status.success(), "{}: {code:?}: {}", path.display(), stderr(&shown));
            stdout(&shown)
        });
        let flags = arguments.iter().map(|word| word.trim_start_matches('['));
        for flag in flags.filter(|word| word.starts_with('-') && !word.contains('…')) {
            let name = flag.split(['=', ']']).next().unwrap_or(flag);
            assert!(has_flag(help, name), "{}: {code:?}: no flag {name}", path.display());
        }
    }
    assert!(n_commands > 15, "{n_commands}");
}

#[test]
fn flags_in_the_documents_exist() {
    // Every subcommand and flag is in the completions; xtask and other programs have flags of their own.
    let known = stdout(&run(&["completions", "bash"])) + &sources();
    let page = std::fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let flags: Vec<String> = code(&page)
        .into_iter()
        .filter(|code| code.starts_with("--") && !code.contains('…'))
        .map(|code| code.split(['=', ' ', '[']).next().unwrap_or_default().to_owned())
        .collect();
    assert!(flags.len() > 20, "{flags:?}");
    // Of podman and helm.
    let foreign = ["--target", "--set"];
    for flag in flags.iter().filter(|flag| !foreign.contains(&flag.as_str())) {
        assert!(has_flag(&known, flag), "docs/operations.md: no flag {flag}");
    }
}

#[test]
fn metrics_in_the_documents_exist() {
    let sources = sources();
    let units = ["_total", "_seconds", "_bytes", "_entries", "_pods", "_goroutines", "_count"];
    let mut n_metrics = 0;
    for (path, text) in documents() {
        let names = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let metrics = names.filter(|name| {
            (name.starts_with("scheduler_") || name.starts_with("kube_scheduler_rs_"))
                && units.iter().any(|unit| name.ends_with(unit))
        });
        for name in metrics {
            n_metrics += 1;
            assert!(
                sources.contains(&format!("\"{name}\"")),
                "{}: no metric {name}",
                path.display()
            );
        }
    }
    assert!(n_metrics > 5, "{n_metrics}");
}
