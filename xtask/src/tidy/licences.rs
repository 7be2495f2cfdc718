//! Licences: every package of the graph must offer one that is on the list in `deny.toml`.
//!
//! Expressions are SPDX: `OR` needs one allowed side, `AND` both; `/` is the old spelling of `OR`.

use super::Finding;
use crate::metadata::Metadata;

/// Checks every package.
pub(super) fn check(metadata: &Metadata, allowed: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let place = format!("{} {}", package.name, package.version);
        match package.license.as_deref() {
            None => findings.push(Finding::new(place, "states no licence")),
            Some(expression) if !is_allowed(expression, allowed) => {
                let allowed = allowed.join(", ");
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

fn is_allowed(expression: &str, list: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    any_of(&mut rest, list) == Some(true) && rest.is_empty()
}

/// `all OR all …`; `None` when it is no expression.
fn any_of(rest: &mut &[&str], list: &[String]) -> Option<bool> {
    let mut allowed = all_of(rest, list)?;
    while take(rest, "OR") {
        allowed |= all_of(rest, list)?;
    }
    Some(allowed)
}

/// `one AND one …`, which binds tighter than `OR`.
fn all_of(rest: &mut &[&str], list: &[String]) -> Option<bool> {
    let mut allowed = one(rest, list)?;
    while take(rest, "AND") {
        allowed &= one(rest, list)?;
    }
    Some(allowed)
}

fn one(rest: &mut &[&str], list: &[String]) -> Option<bool> {
    if take(rest, "(") {
        let allowed = any_of(rest, list)?;
        return take(rest, ")").then_some(allowed);
    }
    let (&name, after) = rest.split_first()?;
    *rest = after;
    if !take(rest, "WITH") {
        return Some(list.iter().any(|allowed| allowed == name));
    }
    let (&exception, after) = rest.split_first()?;
    *rest = after;
    Some(list.contains(&format!("{name} WITH {exception}")))
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

    fn list() -> Vec<String> {
        let list = ["Apache-2.0", "Apache-2.0 WITH LLVM-exception", "MIT", "Unicode-3.0"];
        list.map(str::to_owned).to_vec()
    }

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
            assert!(is_allowed(expression, &list()), "{expression}");
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
            assert!(!is_allowed(expression, &list()), "{expression}");
        }
    }

    #[test]
    fn a_copyleft_dependency_fails() {
        let found = check(
            &graph(
                "kube-scheduler-queue -> heap@2.1\nlicence heap@2.1 LGPL-3.0-or-later OR MPL-2.0",
            ),
            &list(),
        );
        assert_eq!(found.len(), 1);
        assert!(
            found[0]
                .to_string()
                .starts_with("heap 2.1.0: licence `LGPL-3.0-or-later OR MPL-2.0` is not among")
        );
    }

    #[test]
    fn a_package_without_a_licence_fails() {
        let found = check(&graph("xtask -> mystery\nlicence mystery"), &list());
        assert_eq!(found, [Finding::new("mystery 1.0.0", "states no licence")]);
    }
}
