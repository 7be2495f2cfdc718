//! Signposts: a path named in a document or in a comment of the code leads somewhere, and a cited section exists.
//!
//! A path counts when it ends in `.rs` or `.md`, or begins with a directory at the top of the repository. It may be written
//! from the top, from the document, or in a short form that readers find by searching: `engine/src/attempt.rs`,
//! `engine/attempt.rs`, `attempt.rs`. What does not look like one of our paths (an upstream file, a file of a user) is
//! left alone.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::Finding;

/// Where the behaviour specification lies: its pages are cited with section numbers.
pub(super) const SPECIFICATION: &str = "docs/spec/";

/// What the repository contains, as far as a signpost can name it.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Files and directories, from the top.
    paths: BTreeSet<String>,
    /// Every end of those paths that starts at a component.
    endings: BTreeSet<String>,
    /// `page §section` for each numbered heading of the specification.
    sections: BTreeSet<String>,
}

impl Places {
    /// Collects what can be named from all files of the repository.
    pub(super) fn new<'a>(files: impl IntoIterator<Item = &'a str>) -> Self {
        let mut places = Self::default();
        for file in files {
            for path in Path::new(file).ancestors().filter_map(Path::to_str) {
                if !path.is_empty() && places.paths.insert(path.to_owned()) {
                    // `queue/heap.rs` is understood as `queue/src/heap.rs`.
                    for path in [path.to_owned(), path.replacen("/src/", "/", 1)] {
                        let tails = path.match_indices('/').map(|(at, _)| &path[at + 1..]);
                        places.endings.extend(tails.map(str::to_owned));
                        places.endings.insert(path);
                    }
                }
            }
        }
        places
    }

    /// Learns the sections of a page of the specification.
    pub(super) fn add_sections(&mut self, page: &str, text: &str) {
        let headings = text.lines().filter(|line| line.starts_with('#'));
        let numbers = headings.filter_map(|line| line.split_whitespace().nth(1));
        let is_number = |word: &&str| {
            word.split('.').all(|part| part.parse::<u8>().is_ok()) && !word.is_empty()
        };
        let numbers = numbers.map(|word| word.trim_end_matches('.')).filter(is_number);
        self.sections.extend(numbers.map(|number| format!("{page} §{number}")));
    }

    /// Whether a path, as a document in `directory` writes it, leads somewhere.
    fn has(&self, directory: &str, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        if self.endings.contains(path.trim_start_matches("./")) {
            return true;
        }
        let mut from_here = PathBuf::new();
        for component in Path::new(directory).join(path).components() {
            match component {
                Component::ParentDir => {
                    from_here.pop();
                }
                Component::CurDir => {}
                other => from_here.push(other),
            }
        }
        from_here.to_str().is_some_and(|path| self.paths.contains(path))
    }

    fn is_top_directory(&self, name: &str) -> bool {
        // A file's name is not followed by a slash, so that directories alone come here.
        self.paths.contains(name)
    }
}

/// Reads like a file of Rust, but is the API group of questions about scheduling.
const API_GROUP: &str = "answers.kube-scheduler.rs";

/// Checks a document, or the comments of a source file with all else blank.
pub(super) fn check(place: &str, text: &str, places: &Places) -> Vec<Finding> {
    let directory = Path::new(place).parent().and_then(Path::to_str).unwrap_or_default();
    let mut findings = Vec::new();
    for (at, path) in candidates(text) {
        let line = text[..at].matches('\n').count() + 1;
        let mut report =
            |message: String| findings.push(Finding::new(format!("{place}:{line}"), message));
        let first = path.split('/').next().unwrap_or_default();
        let is_ours = path.ends_with(".rs")
            || path.ends_with(".md")
            || (path.contains('/') && places.is_top_directory(first));
        if !is_ours || path == API_GROUP {
            continue;
        }
        if !places.has(directory, path) {
            report(format!("names `{path}`, which does not exist"));
        } else if let Some(page) = page(path) {
            for section in cited_sections(&text[at + path.len()..]) {
                if !places.sections.contains(&format!("{page} §{section}")) {
                    report(format!("cites §{section} of `{path}`, which has no such section"));
                }
            }
        }
    }
    findings
}

/// The page of the specification that a path means: from the top, or from `docs/`.
fn page(path: &str) -> Option<&str> {
    let within = path.strip_prefix("docs/").unwrap_or(path);
    within.strip_prefix("spec/").filter(|page| page.ends_with(".md"))
}

/// Everything that is written like a path, with its place.
fn candidates(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "_-./".contains(char);
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let start = from + text[from..].find(is_part)?;
            let end = text[start..].find(|char| !is_part(char)).map_or(text.len(), |at| start + at);
            from = end;
            let path = text[start..end].trim_end_matches('.');
            let before = text[..start].chars().next_back();
            // Part of a URL, of a pattern, or of a path outside of the repository.
            let is_foreign = path.starts_with('/')
                || path.contains("//")
                || before.is_some_and(|char| "~*{}$<>=@:".contains(char))
                || text[end..].starts_with(['*', '{', '<']);
            let has_name = path.rsplit('/').next().is_some_and(|name| !name.starts_with('.'));
            if has_name && !is_foreign && (path.contains('/') || path.contains('.')) {
                return Some((start, path));
            }
        }
    })
}

/// The section numbers that follow a page's name: "§2.3, §2.4 and §4", over line ends and comment marks.
fn cited_sections(rest: &str) -> Vec<&str> {
    let mut sections = Vec::new();
    let mut rest = rest;
    loop {
        rest =
            rest.trim_start_matches(|char: char| char.is_whitespace() || "`,;)/!".contains(char));
        let joined = rest.strip_prefix("and").or_else(|| rest.strip_prefix("to"));
        if let Some(after) = joined.filter(|after| after.starts_with(char::is_whitespace)) {
            rest = after;
        } else if let Some(after) = rest.strip_prefix('§') {
            let end = after.find(|char: char| !char.is_ascii_digit() && char != '.');
            let (number, after) = after.split_at(end.unwrap_or(after.len()));
            sections.push(number.trim_end_matches('.'));
            rest = after;
        } else {
            return sections;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        let files = [
            "crates/queue/src/heap.rs",
            "docs/testing.md",
            "docs/spec/core.md",
            "tests/tests/e2e/main.rs",
        ];
        let mut places = Places::new(files);
        places.add_sections("core.md", "# Core\n\n## 4. Attempts\n### 4.2 Filter\n");
        places
    }

    fn found(text: &str) -> Vec<String> {
        check("docs/testing.md", text, &places()).iter().map(ToString::to_string).collect()
    }

    fn none(text: &str) {
        assert_eq!(found(text), Vec::<String>::new(), "{text}");
    }

    #[test]
    fn a_path_may_be_written_from_anywhere() {
        none(
            "See `crates/queue/src/heap.rs`, `queue/src/heap.rs`, `queue/heap.rs`, heap.rs and [it](testing.md#faults).",
        );
        none("`tests/tests/e2e` and `docs/spec/`, [up](../docs/spec/core.md).");
    }

    #[test]
    fn a_path_that_leads_nowhere_is_found_with_its_line() {
        assert_eq!(
            found("Fine.\nRun by `tests/determinism.rs`."),
            ["docs/testing.md:2: names `tests/determinism.rs`, which does not exist"]
        );
        assert_eq!(found("[gone](spec/gone.md)").len(), 1);
        assert_eq!(found("`docs/spec/pages`").len(), 1);
        assert_eq!(found("`eap.rs`").len(), 1, "a name is matched from its beginning");
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        none(
            "`pkg/scheduler/schedule_one.go`, https://example.com/docs/gone.md, `~/.kube/config.md`",
        );
        none("`docs/*.md`, `crates/{a,b}/src/x`, `/tests/gone`, `dump.json`, and/or 3.5");
    }

    #[test]
    fn a_cited_section_must_exist() {
        none("`docs/spec/core.md` §4, §4.2 and 7");
        none("(`docs/spec/core.md`\n//! §4 to\n//! §4.2).");
        assert_eq!(
            found("`docs/spec/core.md` §4 and\n/// §5.1, whatever"),
            ["docs/testing.md:1: cites §5.1 of `docs/spec/core.md`, which has no such section"]
        );
    }
}
