//! Rules on structure: functions stay short, and modules do not import each other in knots.
//!
//! A knot is a set of modules that reach each other through their imports, re-exports followed to where an item is. What a
//! module takes from the modules around it (`super::`) is nesting and ties no knot.

use std::collections::{BTreeMap, BTreeSet};

use super::scan::{Source, close, imports, words};
use super::tree::Package;
use crate::baseline::Exception;

/// The names of the rules in the baseline.
pub(super) const RULES: [&str; 2] = ["long-function", "knot"];

/// A function this long is too long, signature and closing brace included.
const MAX_FUNCTION: usize = 79;

/// More modules in one knot have to be understood together.
const MAX_KNOT: usize = 3;

/// Checks one package.
pub(super) fn check(package: &Package) -> Vec<Exception> {
    let mut found = Vec::new();
    for file in package.files.iter().filter(|file| !file.is_test) {
        let mut longest: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, lines) in functions(&file.source) {
            let measure = longest.entry(name).or_default();
            *measure = lines.max(*measure);
        }
        for (name, lines) in longest.into_iter().filter(|(_, lines)| *lines > MAX_FUNCTION) {
            found.push(Exception {
                rule: "long-function",
                place: format!("{}:{name}", file.place),
                measure: lines,
                message: format!("has {lines} lines; {MAX_FUNCTION} are allowed: split it by what its parts are for"),
            });
        }
    }
    found.extend(knots(package));
    found
}

/// The functions of a file with their lengths.
fn functions(source: &Source) -> impl Iterator<Item = (&str, usize)> {
    let code = &source.shipped;
    words(code, "fn").filter_map(move |start| {
        let rest = code[start + 2..].trim_start();
        let name = rest.split(|char: char| !char.is_alphanumeric() && char != '_').next()?;
        // `fn(u8)` is a type; a `;` ends a declaration without a body.
        let open = start + code[start..].find(['{', ';']).filter(|_| !name.is_empty())?;
        let end = if code.as_bytes()[open] == b'{' { close(code, open) } else { open };
        Some((name, source.line(end.saturating_sub(1)) - source.line(start) + 1))
    })
}

/// The modules of a package: path from the crate's root, and what they import.
#[derive(Debug, Default)]
struct Modules {
    /// For each module, the full paths that its code names.
    paths: BTreeMap<String, Vec<String>>,
    /// For each module, the names that its imports bring in, with their paths.
    names: BTreeMap<String, BTreeMap<String, String>>,
}

impl Modules {
    fn new(package: &Package) -> Self {
        let mut modules = Self::default();
        for file in package.files.iter().filter(|file| !file.is_test) {
            let Some((_, within)) = file.place.rsplit_once("/src/") else { continue };
            let path = within.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
            let path = if path == "lib" || path == "main" { String::new() } else { path };
            // Programs have roots of their own.
            if path.starts_with("bin::") {
                continue;
            }
            let code = &file.source.shipped;
            let imports = imports(code);
            let names = imports.iter().map(|import| (import.name.clone(), import.path.clone()));
            modules.names.entry(path.clone()).or_default().extend(names);
            let inline = ["crate::", "super::"].into_iter().flat_map(|start| {
                words(code, start).map(|at| super::scan::path_at(code, at).to_owned())
            });
            let inline: Vec<String> = inline.collect();
            let all = imports.into_iter().map(|import| import.path).chain(inline);
            modules.paths.entry(path).or_default().extend(all);
        }
        modules
    }

    /// The module in which a path of `module` ends, re-exports followed; `None` if it leads out of the crate.
    fn resolve(&self, module: &str, path: &str, depth: usize) -> Option<String> {
        let mut parts = path.split("::").peekable();
        let mut here = match *parts.peek()? {
            "crate" => {
                parts.next();
                String::new()
            }
            "self" | "super" => module.to_owned(),
            first if self.paths.contains_key(&join(module, first)) => module.to_owned(),
            _ => return None,
        };
        while let Some(part) = parts.next() {
            let child = join(&here, part);
            if part == "self" {
            } else if part == "super" {
                here = here.rsplit_once("::").map_or("", |(parent, _)| parent).to_owned();
            } else if self.paths.contains_key(&child) {
                here = child;
            } else {
                let passed_on = self.names.get(&here).and_then(|names| names.get(part));
                let rest: Vec<&str> = parts.collect();
                return match passed_on.filter(|_| depth > 0) {
                    Some(path) => {
                        let path = [path.as_str()].into_iter().chain(rest).collect::<Vec<_>>();
                        self.resolve(&here, &path.join("::"), depth - 1)
                    }
                    None => Some(here),
                };
            }
        }
        Some(here)
    }

    /// Which modules import which, those around them left out.
    fn edges(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (module, paths) in &self.paths {
            for target in paths.iter().filter_map(|path| self.resolve(module, path, 8)) {
                let is_around = target.is_empty()
                    || module
                        .strip_prefix(&target)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
                if !is_around {
                    edges.entry(module.clone()).or_default().insert(target);
                }
            }
        }
        edges
    }
}

fn join(module: &str, child: &str) -> String {
    if module.is_empty() { child.to_owned() } else { format!("{module}::{child}") }
}

fn knots(package: &Package) -> Option<Exception> {
    let edges = Modules::new(package).edges();
    let largest = components(&edges).into_iter().max_by_key(BTreeSet::len)?;
    let names = largest.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    (largest.len() > MAX_KNOT).then(|| Exception {
        rule: "knot",
        place: package.name.clone(),
        measure: largest.len(),
        message: format!(
            "{} modules import each other in a knot, {MAX_KNOT} are allowed: {names}",
            largest.len()
        ),
    })
}

/// The sets of modules that reach each other.
fn components(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<BTreeSet<String>> {
    let reach = |start: &String| {
        let mut reached = BTreeSet::new();
        let mut open = vec![start];
        while let Some(module) = open.pop() {
            for next in edges.get(module).into_iter().flatten() {
                if reached.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        reached
    };
    let reached: BTreeMap<&String, BTreeSet<String>> =
        edges.keys().map(|module| (module, reach(module))).collect();
    let back = |from: &String, to: &String| reached.get(to).is_some_and(|all| all.contains(from));
    let together =
        reached.iter().map(|(from, all)| all.iter().filter(|to| back(from, to)).cloned().collect());
    together.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::fixture::{package, with_files};

    fn knot_of(files: &[(&str, &str)]) -> Option<String> {
        knots(&with_files("engine", files)).map(|found| found.message)
    }

    #[test]
    fn a_long_function_is_found_by_its_name() {
        let body = "    g();\n".repeat(78);
        let text = format!(
            "//! Head.\nfn short() {{\n    g();\n}}\nfn long() {{\n{body}}}\ntrait T {{ fn f(&self); }}\n"
        );
        let found = check(&package("engine", &text));
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].place.as_str(), found[0].measure),
            ("crates/engine/src/lib.rs:long", 80)
        );
        let shorter = text.replacen("    g();\n}\n", "}\n", 2);
        assert_eq!(check(&package("engine", &shorter)), []);
    }

    #[test]
    fn four_modules_in_a_circle_are_a_knot_however_they_name_each_other() {
        let circle = [
            ("lib", "mod a; mod b; mod c; mod d; pub use b::B;"),
            ("a", "use crate::B;"),
            ("b", "use super::c::C as Other;"),
            ("c", "fn f() { crate::d::g() }"),
            ("d", "use crate::{a::A, b};"),
        ];
        assert!(knot_of(&circle).is_some_and(|message| message.ends_with(": a, b, c, d")));
        assert_eq!(knot_of(&circle[..4]), None);
    }

    #[test]
    fn nesting_is_no_knot() {
        let files = [
            ("lib", "mod a;"),
            ("a", "mod b; mod c; mod d; mod e; use b::B; use c::C; use d::D; use e::E; struct S;"),
            ("a/b", "use super::S;"),
            ("a/c", "use super::{S, B};"),
            ("a/d", "use super::S; use crate::a::c::C;"),
            ("a/e", "use super::d::D;"),
        ];
        assert_eq!(knot_of(&files), None);
        let mut back = files;
        back[2].1 = "use super::e::E;";
        assert!(
            knot_of(&back).is_some_and(|message| message.ends_with(": a::b, a::c, a::d, a::e"))
        );
    }
}
