//! Who uses which public item.
//!
//! Named items are found exactly: by the paths that other packages import or write out. Members are found by their name
//! after a dot or a `::`, so that one with a common name may pass unnoticed; what is reported has no user for certain. An
//! item that a used one mentions in its declaration is used with it.

use std::collections::{BTreeMap, BTreeSet};

use super::library::{Item, Kind, Library, Name};
use crate::tidy::{Package, Source, imports, path_at};

/// What one group of files uses.
#[derive(Debug, Default)]
struct Usage {
    /// Every part of every path that begins at one of our crates.
    named: BTreeSet<Name>,
    /// Names behind a dot or a `::`, and names of fields.
    members: BTreeSet<String>,
}

/// A public item without a user.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UnusedItem {
    /// Its path.
    pub(super) path: String,
    /// Whether the tests of its own crate use it.
    pub(super) in_own_tests: bool,
}

/// All usage in the workspace, by the package that uses.
#[derive(Debug, Default)]
pub(super) struct Users {
    packages: BTreeMap<String, Usage>,
    own_tests: BTreeMap<String, Usage>,
    documents: Usage,
}

impl Users {
    /// Reads all packages, and the code in documents.
    pub(super) fn new<'a>(
        packages: &[Package],
        documents: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut users = Self::default();
        for package in packages {
            let ident = package.name.replace('-', "_");
            for file in &package.files {
                let is_inside = file.place.contains("/src/");
                let group = if is_inside { &mut users.packages } else { &mut users.own_tests };
                let usage = group.entry(ident.clone()).or_default();
                usage.read(&file.source.code);
                // Doc tests use a crate from outside, as its users do.
                users.documents.read(&Source::new(fenced(&file.source.comments)).code);
            }
        }
        for document in documents {
            users.documents.read(&Source::new(fenced(document)).code);
        }
        users
    }

    /// The items of `libraries` that nothing outside of their crate uses, in order.
    ///
    /// Members of an unused type are reported with it.
    pub(super) fn unused(&self, libraries: &[Library]) -> Vec<UnusedItem> {
        let used = self.used(libraries, false);
        let used_by_tests_too = self.used(libraries, true);
        let mut unused = Vec::new();
        for library in libraries {
            for item in &library.items {
                let needs_user = match item.kind {
                    Kind::Named | Kind::Reexport(_) => true,
                    Kind::Member => used.contains(&parent_key(library, item)),
                    Kind::Part => false,
                };
                if needs_user && !self.is_used(library, item, &used, false) {
                    let in_own_tests = self.is_used(library, item, &used_by_tests_too, true);
                    unused.push(UnusedItem { path: item.path.clone(), in_own_tests });
                }
            }
        }
        unused.sort();
        unused.dedup();
        unused
    }

    /// Everything that is used, by name or because something used mentions it.
    fn used(&self, libraries: &[Library], with_own_tests: bool) -> BTreeSet<Name> {
        let mut used: BTreeSet<Name> = self.documents.named.clone();
        for (user, usage) in &self.packages {
            used.extend(usage.named.iter().filter(|(krate, _)| krate != user).cloned());
        }
        for (user, usage) in &self.own_tests {
            let counts = |krate: &String| krate != user || with_own_tests;
            used.extend(usage.named.iter().filter(|(krate, _)| counts(krate)).cloned());
        }
        loop {
            let before = used.len();
            for library in libraries {
                for item in &library.items {
                    if !self.is_used(library, item, &used, with_own_tests) {
                        continue;
                    }
                    used.extend(item.mentions.iter().cloned());
                    if let Kind::Reexport(source) = &item.kind {
                        used.insert(source.clone());
                        // Of a module, too: what is reached through it carries its own name behind this crate's.
                        let through = items_of_module(libraries, source).into_iter();
                        let named = through.filter(|(_, name)| {
                            used.contains(&(library.ident.clone(), name.clone()))
                        });
                        let named: Vec<Name> = named.collect();
                        used.extend(named);
                    }
                }
                for (alias, krate) in &library.crates {
                    // Whatever is reached through the alias carries its own name behind this crate's.
                    if used.contains(&(library.ident.clone(), alias.clone())) {
                        let through = used.iter().filter(|(via, _)| *via == library.ident);
                        let through: Vec<Name> =
                            through.map(|(_, name)| (krate.clone(), name.clone())).collect();
                        used.extend(through);
                    }
                }
            }
            if used.len() == before {
                return used;
            }
        }
    }

    fn is_used(
        &self,
        library: &Library,
        item: &Item,
        used: &BTreeSet<Name>,
        with_own_tests: bool,
    ) -> bool {
        match item.kind {
            Kind::Named | Kind::Reexport(_) => used.contains(&key(library, item)),
            Kind::Member => {
                used.contains(&parent_key(library, item))
                    && self.writes_member(&library.ident, item.name(), with_own_tests)
            }
            Kind::Part => used.contains(&parent_key(library, item)),
        }
    }

    fn writes_member(&self, krate: &str, name: &str, with_own_tests: bool) -> bool {
        let others = self.packages.iter().filter(|(user, _)| *user != krate);
        let tests = self.own_tests.iter().filter(|(user, _)| with_own_tests || *user != krate);
        let mut all = others.chain(tests).map(|(_, usage)| usage).chain([&self.documents]);
        all.any(|usage| usage.members.contains(name))
    }
}

impl Usage {
    /// Reads one file.
    fn read(&mut self, code: &str) {
        let mut aliases: BTreeMap<String, String> = BTreeMap::new();
        let mut reexports = Vec::new();
        for import in imports(code) {
            if !import.path.starts_with(OURS) {
                continue;
            }
            // A re-export is an item of its own, which needs users of its own.
            if import.is_public {
                let length = code[import.at..].find(';').unwrap_or_default();
                reexports.push(import.at..import.at + length);
            } else {
                self.name(&import.path);
            }
            if let Some((krate, _)) =
                import.path.split_once("::").filter(|(_, rest)| rest.ends_with('*'))
            {
                let all = parts(code).map(|(_, word)| (krate.to_owned(), word.to_owned()));
                self.named.extend(all);
            }
            aliases.insert(import.name, import.path);
        }
        let mut end = 0;
        for (at, word) in parts(code) {
            if at < end || reexports.iter().any(|reexport| reexport.contains(&at)) {
                continue;
            }
            let path = path_at(code, at);
            end = at + path.len();
            let base =
                aliases.get(word).map(String::as_str).or(word.starts_with(OURS).then_some(word));
            if let Some(base) = base {
                self.name(&format!("{base}{}", &path[word.len()..]));
            }
            let before = code[..at].trim_end();
            let names = path.split("::").map(str::trim);
            if before.ends_with('.') && !before.ends_with("..") {
                self.members.insert(word.to_owned());
            }
            self.members.extend(names.skip(1).map(str::to_owned));
            // A field in a literal or a pattern: `name: value`, or short, between commas and braces.
            let after = code[end..].trim_start();
            let is_field =
                after.starts_with(':') || after.starts_with(',') || after.starts_with('}');
            if path == word && is_field && before.ends_with(['{', ',', '&', 't']) {
                self.members.insert(word.to_owned());
            }
        }
    }

    /// Notes every part of a path that begins at one of our crates.
    fn name(&mut self, path: &str) {
        let mut parts = path.split("::").map(str::trim);
        if let Some(krate) = parts.next() {
            self.named.extend(parts.map(|part| (krate.to_owned(), part.to_owned())));
        }
    }
}

/// How the names of our crates begin in code.
const OURS: &str = "kube_scheduler_";

/// The names in code, with their places.
fn parts(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + code[from..].find(is_name)?;
        let end = code[start..].find(|char| !is_name(char)).map_or(code.len(), |at| start + at);
        from = end;
        Some((start, &code[start..end]))
    })
}

/// The Rust code in fences of a document or of doc comments, the hidden lines of doc tests included.
fn fenced(text: &str) -> String {
    let mut code = String::new();
    let mut inside = false;
    for line in text.lines() {
        let line = line.trim_start();
        let line = line.strip_prefix("///").or(line.strip_prefix("//!")).unwrap_or(line);
        let line = line.trim_start();
        if let Some(language) = line.strip_prefix("```") {
            inside = !inside && !language.starts_with("console") && !language.starts_with("text");
        } else if inside {
            code += line.strip_prefix("# ").unwrap_or(line);
            code.push('\n');
        }
    }
    code
}

/// What a module of one of our crates has; nothing if `module` is none.
fn items_of_module(libraries: &[Library], (krate, name): &Name) -> Vec<Name> {
    let path = format!("{krate}::{name}");
    let module = format!("pub mod {path}");
    let has_module = |library: &&Library| library.items.iter().any(|item| item.line == module);
    let Some(library) = libraries.iter().find(has_module) else { return Vec::new() };
    let items = library.items.iter().filter(|item| item.parent() == path);
    items.map(|item| key(library, item)).collect()
}

fn key(library: &Library, item: &Item) -> Name {
    (library.ident.clone(), item.name().to_owned())
}

fn parent_key(library: &Library, item: &Item) -> Name {
    let parent = item.parent().rsplit("::").next().unwrap_or_default();
    (library.ident.clone(), parent.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::with_files;

    /// Items of `kube_scheduler_queue`: `Queue` with `pop` and `peek`, the `Entry` that `pop` gives, and `Spare`.
    fn queue() -> Library {
        let item = |path: &str, kind: Kind, mentions: &[&str]| Item {
            line: String::new(),
            path: format!("kube_scheduler_queue::{path}"),
            is_type: false,
            kind,
            mentions: mentions.iter().map(|name| name_of("kube_scheduler_queue", name)).collect(),
        };
        let items = vec![
            item("Queue", Kind::Named, &[]),
            item("Queue::pop", Kind::Member, &["Entry"]),
            item("Queue::peek", Kind::Member, &["Spare"]),
            item("Entry", Kind::Named, &[]),
            item("Spare", Kind::Named, &[]),
        ];
        Library { ident: "kube_scheduler_queue".into(), items, crates: Vec::new() }
    }

    fn name_of(krate: &str, name: &str) -> Name {
        (krate.to_owned(), name.to_owned())
    }

    fn unused(user: &str, text: &str, documents: &[&str]) -> Vec<String> {
        let packages = [with_files(user, &[("lib", text)])];
        let users = Users::new(&packages, documents.iter().copied());
        let unused = users.unused(&[queue()]).into_iter();
        unused.map(|unused| unused.path.replace("kube_scheduler_queue::", "")).collect()
    }

    #[test]
    fn an_import_and_a_call_are_uses_and_what_they_mention_is_used() {
        let text =
            "use kube_scheduler_queue::{Queue as Pending};\nfn f(q: &Pending) { q.pop(); }\n";
        assert_eq!(unused("engine", text, &[]), ["Queue::peek", "Spare"]);
        let inline = "fn f(q: &kube_scheduler_queue::Queue) { Queue::pop(q); }\n";
        assert_eq!(unused("engine", inline, &[]), ["Queue::peek", "Spare"]);
        let aliased =
            "use kube_scheduler_queue as queue;\nfn f(q: &queue::Queue) { q.pop().peek() }\n";
        assert_eq!(unused("engine", aliased, &[]), Vec::<String>::new());
    }

    #[test]
    fn the_crate_itself_and_strings_are_no_users() {
        let text = "use kube_scheduler_queue::Queue;\nfn f(q: &Queue) { q.pop(); q.peek(); }\n";
        let all = ["Entry", "Queue", "Spare"];
        assert_eq!(unused("queue", text, &[]), all);
        assert_eq!(unused("engine", "fn f() { g(\"kube_scheduler_queue::Queue\") }\n", &[]), all);
        assert_eq!(unused("engine", "pub use kube_scheduler_queue::Queue;\n", &[]), all);
    }

    #[test]
    fn examples_in_documents_are_users() {
        let document = "# Queue\n```rust\nuse kube_scheduler_queue::Queue;\n# let q = f();\nq.pop();\n```\nSpare.peek()\n";
        assert_eq!(unused("engine", "", &[document]), ["Queue::peek", "Spare"]);
        let doc_test = "//! ```\n//! use kube_scheduler_queue::{Queue, Spare};\n//! q.pop(); q.peek();\n//! ```\n";
        assert_eq!(unused("queue", doc_test, &[]), Vec::<String>::new());
    }

    #[test]
    fn what_is_reached_through_a_module_that_another_crate_passes_on_is_used() {
        let named = |path: &str, kind: Kind, line: &str| Item {
            line: line.into(),
            path: path.into(),
            is_type: false,
            kind,
            mentions: BTreeSet::new(),
        };
        let library = |ident: &str, items: Vec<Item>| Library {
            ident: ident.into(),
            items,
            crates: Vec::new(),
        };
        let module = "kube_scheduler_queue::heaps";
        let queue = vec![
            named(module, Kind::Part, "pub mod kube_scheduler_queue::heaps"),
            named("kube_scheduler_queue::heaps::sift", Kind::Named, ""),
            named("kube_scheduler_queue::heaps::swap", Kind::Named, ""),
        ];
        let through = Kind::Reexport(name_of("kube_scheduler_queue", "heaps"));
        let framework = vec![named("kube_scheduler_framework::heaps", through, "")];
        let libraries = [
            library("kube_scheduler_queue", queue),
            library("kube_scheduler_framework", framework),
        ];
        let text = "use kube_scheduler_framework::heaps;\nfn f() { heaps::sift() }\n";
        let found = Users::new(&[with_files("engine", &[("lib", text)])], []).unused(&libraries);
        let paths: Vec<&str> = found.iter().map(|unused| &*unused.path).collect();
        assert_eq!(paths, ["kube_scheduler_queue::heaps::swap"]);
    }

    #[test]
    fn own_tests_are_distinguished() {
        let mut package = with_files("queue", &[("lib", "use kube_scheduler_queue::Spare;\n")]);
        package.files[0].place = "crates/queue/tests/it/main.rs".into();
        let found = Users::new(&[package], []).unused(&[queue()]);
        let spare = found.iter().find(|unused| unused.path.ends_with("Spare"));
        assert_eq!(spare.map(|unused| unused.in_own_tests), Some(true));
        assert_eq!(found.iter().filter(|unused| unused.in_own_tests).count(), 1);
    }
}
