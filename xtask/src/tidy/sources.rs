//! Rules on source files.
//!
//! What clippy and rustc already deny (`unwrap`, printing, missing docs; in the core clocks and IO) is not repeated here.

use super::scan::{close, words};
use super::tree::{File, Package};
use super::{Finding, layers};

/// A longer file has more than one reason to change. Test code does not count.
const MAX_LINES: usize = 600;

/// Never in code, not even in tests, and why.
const NEVER: [(&str, &str); 4] = [
    ("todo!", "a gap in the code: finish it, or return an error that says what is missing"),
    (
        "unimplemented!",
        "a gap in the code: finish it, or return an error that says what is missing",
    ),
    ("#[ignore", "a test that does not run: assert today's result with a note instead"),
    ("should_panic", "passes for any panic: assert the error instead"),
];

/// The lints that keep the core pure, from the top of the repository.
pub(super) const PURE_LINTS: &str = "clippy-pure.toml";

/// Checks all files of a package.
pub(super) fn check(package: &Package) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &package.files {
        check_head(file, &mut findings);
        check_length(file, &mut findings);
        check_gaps(file, &mut findings);
        check_reasons(file, &mut findings);
        check_panics(file, &mut findings);
    }
    findings
}

/// Whether clippy keeps clocks, IO, threads and random order out of a crate below the daemon.
///
/// Clippy takes its settings from the nearest `clippy.toml`: `settings` is that of the package, `pure` what it must be.
pub(super) fn check_purity(
    package: &Package,
    settings: Option<&str>,
    pure: &str,
) -> Option<Finding> {
    let is_pure = layers::is_below_daemon(&package.name);
    let place = package.manifest_place.replace("Cargo.toml", "clippy.toml");
    (is_pure && settings != Some(pure)).then(|| {
        Finding::new(
            place,
            format!("must be a link to {PURE_LINTS}: the crate lies below the daemon"),
        )
    })
}

fn check_head(file: &File, findings: &mut Vec<Finding>) {
    let head = file.source.text.trim_start();
    if !head.starts_with("//!") {
        findings.push(Finding::new(
            &file.place,
            "begins without `//!`: say what the module holds and what it promises",
        ));
    } else if head.starts_with("//! To be written") {
        findings.push(Finding::new(&file.place, "is a placeholder"));
    }
}

fn check_length(file: &File, findings: &mut Vec<Finding>) {
    let lines = file.source.shipped_lines();
    if !file.is_test && lines > MAX_LINES {
        let message = format!(
            "has {lines} lines outside tests; {MAX_LINES} are allowed: split it by reason to change"
        );
        findings.push(Finding::new(&file.place, message));
    }
}

fn check_gaps(file: &File, findings: &mut Vec<Finding>) {
    for (needle, why) in NEVER {
        for at in words(&file.source.code, needle) {
            findings.push(at_line(file, at, format!("`{needle}`: {why}")));
        }
    }
    for at in words(&file.source.comments, "FIXME") {
        findings.push(at_line(
            file,
            at,
            "FIXME: fix it, or open an issue and write TODO(#number)".to_owned(),
        ));
    }
    for at in words(&file.source.comments, "TODO") {
        if !file.source.comments[at..].starts_with("TODO(#") {
            findings.push(at_line(
                file,
                at,
                "TODO without an issue: write TODO(#number)".to_owned(),
            ));
        }
    }
}

fn check_reasons(file: &File, findings: &mut Vec<Finding>) {
    let code = &file.source.code;
    for start in words(code, "#[").chain(words(code, "#![")) {
        let open = start + code[start..].find('[').unwrap_or_default();
        let attribute = &code[start..close(code, open)];
        let silences =
            ["allow(", "expect("].iter().any(|lint| words(attribute, lint).next().is_some());
        if silences && words(attribute, "reason").next().is_none() {
            findings.push(at_line(
                file,
                start,
                "silences a lint without `reason = \"…\"`".to_owned(),
            ));
        }
    }
}

/// A parser may have a method `expect` of its own; a message in quotes marks the one that panics.
fn check_panics(file: &File, findings: &mut Vec<Finding>) {
    if !file.is_test {
        for at in words(&file.source.shipped, ".expect(\"") {
            findings.push(at_line(
                file,
                at,
                "`expect` outside tests: restructure, or return an error".to_owned(),
            ));
        }
    }
}

fn at_line(file: &File, offset: usize, message: String) -> Finding {
    Finding::new(format!("{}:{}", file.place, file.source.line(offset)), message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::fixture::package;

    /// What is found in a file of the engine, as `line message`, without its common place.
    fn found(text: &str) -> Vec<String> {
        lines(&check(&package("engine", text)))
    }

    fn lines(findings: &[Finding]) -> Vec<String> {
        let mut lines: Vec<_> = findings.iter().map(ToString::to_string).collect();
        lines.sort();
        lines.dedup();
        lines
    }

    /// Exactly one finding, whose text has this part.
    fn one(text: &str, part: &str) {
        let found = found(text);
        assert!(
            found.len() == 1 && found[0].contains(part),
            "{part} expected of {text}\nfound {found:?}"
        );
    }

    fn none(text: &str) {
        assert_eq!(found(text), Vec::<String>::new(), "{text}");
    }

    #[test]
    fn a_module_without_a_head_fails() {
        one("fn f() {}\n", "begins without `//!`");
        one("// Not a head.\n//! Head.\n", "begins without `//!`");
        one("//! To be written.\n", "placeholder");
        none("\n//! Head.\n");
    }

    #[test]
    fn a_long_file_fails_and_its_tests_do_not_count() {
        let long = "fn f() {}\n".repeat(MAX_LINES);
        one(&format!("//! Head.\n{long}"), "has 601 lines");
        none(&format!("//! Head.\n#[cfg(test)]\nmod tests {{\n{long}}}\n"));
        let test = package("engine", &format!("//! Head.\n{long}")).into_test();
        assert_eq!(check(&test), []);
    }

    #[test]
    fn gaps_fail_even_in_tests() {
        one("//! Head.\nfn f() { todo!() }\n", "lib.rs:2: `todo!`");
        one("//! Head.\nfn f() { unimplemented!(\"later\") }\n", "`unimplemented!`");
        one(
            "//! Head.\n#[cfg(test)]\nmod tests {\n#[test]\n#[ignore = \"slow\"]\nfn t() {}\n}\n",
            "lib.rs:5: `#[ignore`",
        );
        one(
            "//! Head.\n#[cfg(test)]\nmod tests {\n#[test]\n#[should_panic]\nfn t() {}\n}\n",
            "`should_panic`",
        );
        one("//! Head.\n// FIXME later\n", "FIXME");
        one("//! Head.\n// TODO: later\n", "TODO without an issue");
        none("//! Head.\n// TODO(#12): later\nfn f() { g(\"todo! FIXME\") }\n");
    }

    #[test]
    fn a_silenced_lint_needs_a_reason() {
        one("//! Head.\n#[allow(dead_code)]\nfn f() {}\n", "lib.rs:2: silences a lint");
        one("//! Head.\n#![allow(dead_code)]\n", "silences a lint");
        one("//! Head.\n#[cfg_attr(unix, expect(dead_code))]\nfn f() {}\n", "silences a lint");
        none(
            "//! Head.\n#[expect(\n    dead_code,\n    reason = \"read by the debugger\",\n)]\nfn f() {}\n",
        );
        none("//! Head.\nfn f() { g(\"#[allow(this)]\"); }\n");
    }

    #[test]
    fn an_expect_that_panics_fails_outside_tests() {
        one(
            "//! Head.\nfn f() { x.expect(\"always there\"); }\n",
            "lib.rs:2: `expect` outside tests",
        );
        none("//! Head.\nfn f() { parser.expect(Token::Comma)?; }\n");
        none("//! Head.\n#[cfg(test)]\nmod tests {\n    fn f() { x.expect(\"there\"); }\n}\n");
    }

    #[test]
    fn the_core_has_the_lints_that_keep_it_pure() {
        let engine = package("engine", "//! Head.\n");
        assert_eq!(check_purity(&engine, Some("pure"), "pure"), None);
        for settings in [None, Some("other")] {
            let found = check_purity(&engine, settings, "pure").unwrap().to_string();
            assert!(found.starts_with("crates/engine/clippy.toml: must be a link"), "{found}");
        }
        assert_eq!(check_purity(&package("daemon", "//! Head.\n"), None, "pure"), None);
    }
}
