//! Rules on source files.
//!
//! What clippy and rustc already deny (`unwrap`, printing, missing docs) is not repeated here.

use super::scan::{close, imports, words};
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

/// Modules of std that the core must not know: paths through them are forbidden.
const IMPURE_MODULES: [&str; 5] =
    ["std::env", "std::fs", "std::net", "std::process", "std::thread"];

/// Calls and types that the core must not use, and what is there instead.
const IMPURE_NAMES: [(&str, &str); 11] = [
    ("Instant::now", "time is an argument"),
    ("SystemTime::now", "time is an argument"),
    ("Timestamp::now", "time is an argument"),
    ("Zoned::now", "time is an argument"),
    ("thread::spawn", "threads belong to the shell"),
    ("thread::scope", "threads belong to the shell"),
    ("thread::sleep", "threads belong to the shell"),
    ("env::var", "the environment belongs to the shell"),
    ("rand::rng", "seeds are arguments"),
    ("getrandom::", "seeds are arguments"),
    ("RandomState", "hash order must not differ between runs"),
];

/// Types with random order.
const RANDOM_ORDER: [&str; 2] = ["std::collections::HashMap", "std::collections::HashSet"];

/// Checks all files of a package.
pub(super) fn check(package: &Package) -> Vec<Finding> {
    let is_pure = layers::is_below_daemon(&package.name);
    let mut findings = Vec::new();
    for file in &package.files {
        check_head(file, &mut findings);
        check_length(file, &mut findings);
        check_gaps(file, &mut findings);
        check_reasons(file, &mut findings);
        check_panics(file, &mut findings);
        if is_pure && !file.is_test {
            check_purity(file, &mut findings);
        }
    }
    findings
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

/// A parser may have a method `expect` of its own; a message in quotes tells the one that panics.
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

fn check_purity(file: &File, findings: &mut Vec<Finding>) {
    let shipped = &file.source.shipped;
    for (needle, instead) in IMPURE_NAMES {
        for at in words(shipped, needle) {
            findings.push(at_line(file, at, format!("`{needle}` below the daemon: {instead}")));
        }
    }
    let imports = imports(shipped);
    let mut forbid = |path: &str, message: String| {
        let within = format!("{path}::");
        let glob = path.rsplit_once("::").map(|(parent, _)| format!("{parent}::*"));
        let imported = imports.iter().filter(|import| {
            import.path == path
                || import.path.starts_with(&within)
                || glob.as_ref().is_some_and(|glob| import.path == *glob)
        });
        let places = imported.map(|import| import.at).chain(words(shipped, path));
        findings.extend(places.map(|at| at_line(file, at, message.clone())));
    };
    for module in IMPURE_MODULES {
        forbid(
            module,
            format!("`{module}` below the daemon: IO, environment and threads belong to the shell"),
        );
    }
    for name in RANDOM_ORDER {
        forbid(
            name,
            format!(
                "`{name}` below the daemon: use `FxHashMap`, `hashbrown`, or a BTreeMap where order matters"
            ),
        );
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
    fn a_clock_below_the_daemon_fails() {
        one("//! Head.\nfn f() { let now = std::time::Instant::now(); }\n", "time is an argument");
        one("//! Head.\nfn f() { let now = SystemTime::now(); }\n", "time is an argument");
        none("//! Head.\nuse std::time::{Duration, Instant};\nfn f(now: Instant) {}\n");
    }

    #[test]
    fn io_and_threads_below_the_daemon_fail_however_imported() {
        one("//! Head.\nfn f() { std::fs::read(path); }\n", "`std::fs` below the daemon");
        one("//! Head.\nuse std::{fmt, fs};\n", "`std::fs` below the daemon");
        one("//! Head.\nuse std::fs::File;\n", "`std::fs` below the daemon");
        one("//! Head.\nuse std::env as surroundings;\n", "`std::env` below the daemon");
        one("//! Head.\nuse std::{net::{IpAddr, TcpStream}};\n", "`std::net` below the daemon");
        one("//! Head.\nfn f() { thread::spawn(g); }\n", "threads belong to the shell");
        none("//! Head.\nuse std::fmt;\nmod my_std { pub mod fs {} }\nuse my_std::fs;\n");
    }

    #[test]
    fn random_order_below_the_daemon_fails_however_imported() {
        one(
            "//! Head.\nuse std::collections::HashMap;\n",
            "`std::collections::HashMap` below the daemon",
        );
        one(
            "//! Head.\nuse std::collections::{BTreeMap, HashSet as Set};\n",
            "`std::collections::HashSet`",
        );
        one(
            "//! Head.\ntype M = std::collections::HashMap<u8, u8>;\n",
            "`std::collections::HashMap`",
        );
        assert_eq!(found("//! Head.\nuse std::collections::*;\n").len(), 2);
        none(
            "//! Head.\nuse hashbrown::HashMap;\nuse std::collections::hash_map::Entry;\nuse rustc_hash::FxHashMap;\n",
        );
    }

    #[test]
    fn tests_and_the_shell_may_do_io() {
        let text = "//! Head.\nuse std::collections::HashMap;\nfn f() { Instant::now(); std::fs::read(p); }\n";
        assert_eq!(check(&package("daemon", text)), []);
        assert_eq!(check(&package("engine", text).into_test()), []);
        none(
            "//! Head.\n#[cfg(test)]\nmod tests {\n    use std::collections::HashMap;\n    fn f() { std::fs::read(p); }\n}\n",
        );
    }
}
