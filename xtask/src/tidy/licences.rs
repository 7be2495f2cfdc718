//! Licences: every package of the graph must offer one that is on the list.
//!
//! Expressions are SPDX: `OR` needs one allowed side, `AND` both; `/` is the old spelling of `OR`.

use super::Finding;
use crate::metadata::Metadata;

/// Permissive licences without conditions on our own code.
const ALLOWED: [&str; 11] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    // Mozilla's root certificates, as data.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Zlib",
];

/// Checks every package.
pub(super) fn check(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let place = format!("{} {}", package.name, package.version);
        match package.license.as_deref() {
            None => findings.push(Finding::new(place, "states no licence")),
            Some(expression) if !is_allowed(expression) => {
                let allowed = ALLOWED.join(", ");
                findings.push(Finding::new(
                    place,
                    format!("licence `{expression}` is not among {allowed}"),
                ));
            }
            Some(_) => {}
        }
    }
    findings
}

fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    any_of(&mut rest) == Some(true) && rest.is_empty()
}

/// `all OR all …`; `None` when it is no expression.
fn any_of(rest: &mut &[&str]) -> Option<bool> {
    let mut allowed = all_of(rest)?;
    while take(rest, "OR") {
        allowed |= all_of(rest)?;
    }
    Some(allowed)
}

/// `one AND one …`, which binds tighter than `OR`.
fn all_of(rest: &mut &[&str]) -> Option<bool> {
    let mut allowed = one(rest)?;
    while take(rest, "AND") {
        allowed &= one(rest)?;
    }
    Some(allowed)
}

fn one(rest: &mut &[&str]) -> Option<bool> {
    if take(rest, "(") {
        let allowed = any_of(rest)?;
        return take(rest, ")").then_some(allowed);
    }
    let (&name, after) = rest.split_first()?;
    *rest = after;
    if !take(rest, "WITH") {
        return Some(ALLOWED.contains(&name));
    }
    let (&exception, after) = rest.split_first()?;
    *rest = after;
    Some(ALLOWED.contains(&format!("{name} WITH {exception}").as_str()))
}

fn take(rest: &mut &[&str], token: &str) -> bool {
    match rest.split_first() {
        Some((first, after)) if *first == token => {
            *rest = after;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::fixture::graph;

    #[test]
    fn one_allowed_side_of_or_is_enough() {
        for expression in [
            "MIT",
            "MIT/Apache-2.0",
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
            "Unlicense OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
            "GPL-3.0 AND GPL-2.0 OR MIT",
        ] {
            assert!(is_allowed(expression), "{expression}");
        }
    }

    #[test]
    fn both_sides_of_and_count() {
        for expression in [
            "LGPL-3.0-or-later OR MPL-2.0",
            "MIT AND GPL-3.0",
            "(MIT OR Apache-2.0) AND MPL-2.0",
            "MIT WITH LLVM-exception",
            "",
            "MIT OR",
            "(MIT",
            "MIT Apache-2.0",
        ] {
            assert!(!is_allowed(expression), "{expression}");
        }
    }

    #[test]
    fn a_copyleft_dependency_fails() {
        let found = check(&graph(
            "kube-scheduler-queue -> heap@2.1\nlicence heap@2.1 LGPL-3.0-or-later OR MPL-2.0",
        ));
        assert_eq!(found.len(), 1);
        assert!(
            found[0]
                .to_string()
                .starts_with("heap 2.1: licence `LGPL-3.0-or-later OR MPL-2.0` is not among")
        );
    }

    #[test]
    fn a_package_without_a_licence_fails() {
        let found = check(&graph("xtask -> mystery\nlicence mystery"));
        assert_eq!(found, [Finding::new("mystery 1.0.0", "states no licence")]);
    }
}
