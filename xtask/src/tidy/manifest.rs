//! As much of Cargo.toml as the rules need: which dependencies a manifest names, and how.
//!
//! Cargo's own answer does not tell whether a version came from the workspace table; the text does. The reader knows
//! sections, keys and bracketed values that span lines, which is all that a dependency can be written in.

/// A dependency as a manifest writes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The section, such as `dependencies` or `workspace.dependencies`.
    pub(super) section: String,
    /// The name on the left.
    pub(super) name: String,
    /// All that stands on the right, with the keys of a dotted name or of a section of its own.
    pub(super) value: String,
    /// Line number, from 1.
    pub(super) line: usize,
}

impl Entry {
    /// Whether it takes version and source from the workspace table.
    pub(super) fn is_inherited(&self) -> bool {
        self.value.split([',', '{', '}', '\n']).any(|pair| {
            pair.split_once('=')
                .is_some_and(|(key, value)| key.trim() == "workspace" && value.trim() == "true")
        })
    }

    /// Whether it lies in this repository.
    pub(super) fn is_ours(&self) -> bool {
        self.value
            .split([',', '{', '}', '\n'])
            .any(|pair| pair.split('=').next().is_some_and(|key| key.trim() == "path"))
    }
}

/// Reads the dependencies of a manifest, in order.
pub(super) fn parse(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut section = String::new();
    let mut depth = 0;
    for (index, line) in text.lines().enumerate() {
        let line = without_comment(line);
        let opened = depth;
        depth += nesting(line);
        if opened > 0 {
            if let Some(entry) =
                entries.last_mut().filter(|entry| section.starts_with(&entry.section))
            {
                entry.value += line;
            }
            continue;
        }
        if let Some(header) = line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']'))
        {
            section = header.trim_matches(['[', ']']).trim().to_owned();
            if let Some((parent, name)) = table_of_one(&section) {
                let (section, name) = (parent.to_owned(), name.trim_matches('"').to_owned());
                entries.push(Entry { section, name, value: String::new(), line: index + 1 });
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let (key, value) = (key.trim(), value.trim());
        if is_dependencies(&section) {
            let (name, value) = match key.split_once('.') {
                Some((name, field)) => (name, format!("{field} = {value}")),
                None => (key, value.to_owned()),
            };
            let (section, name) = (section.clone(), name.trim_matches('"').to_owned());
            entries.push(Entry { section, name, value, line: index + 1 });
        } else if table_of_one(&section).is_some()
            && let Some(entry) = entries.last_mut()
        {
            entry.value += &format!("{key} = {value}\n");
        }
    }
    entries
}

fn is_dependencies(section: &str) -> bool {
    let last = section.rsplit('.').next().unwrap_or(section);
    matches!(last, "dependencies" | "dev-dependencies" | "build-dependencies")
}

/// `[dependencies.name]` as its parent and name.
fn table_of_one(section: &str) -> Option<(&str, &str)> {
    section.rsplit_once('.').filter(|(parent, _)| is_dependencies(parent))
}

/// The line up to a `#` that is not inside a string.
fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    for (at, char) in line.char_indices() {
        match char {
            '"' => quoted = !quoted,
            '#' if !quoted => return &line[..at],
            _ => {}
        }
    }
    line
}

/// How many brackets a key's value leaves open.
fn nesting(line: &str) -> i32 {
    line.chars()
        .map(|char| i32::from(matches!(char, '[' | '{')) - i32::from(matches!(char, ']' | '}')))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"
[package]
name = "x" # not a dependency

[dependencies]
anyhow.workspace = true
serde = { workspace = true, features = ["rc"] }
http = "1" # pinned
kube = { version = "5", features = [
    "client",
    "workspace",
] }

[dev-dependencies.proptest]
version = "1"

[target.'cfg(unix)'.dependencies]
libc = "0.2"

[workspace.dependencies]
ours = { path = "crates/ours" }
"#;

    #[test]
    fn every_way_to_write_a_dependency_is_read() {
        let entries = parse(MANIFEST);
        let names: Vec<_> =
            entries.iter().map(|entry| (entry.section.as_str(), entry.name.as_str())).collect();
        assert_eq!(
            names,
            [
                ("dependencies", "anyhow"),
                ("dependencies", "serde"),
                ("dependencies", "http"),
                ("dependencies", "kube"),
                ("dev-dependencies", "proptest"),
                ("target.'cfg(unix)'.dependencies", "libc"),
                ("workspace.dependencies", "ours"),
            ]
        );
        assert_eq!(entries[2].line, 8);
    }

    #[test]
    fn inheritance_is_told_from_its_look_alikes() {
        let inherited: Vec<_> = parse(MANIFEST).iter().map(Entry::is_inherited).collect();
        assert_eq!(inherited, [true, true, false, false, false, false, false]);
        assert!(parse(MANIFEST)[6].is_ours());
        assert!(!parse(MANIFEST)[3].is_ours());
        let table = parse("[dependencies.serde]\nworkspace = true\nfeatures = [\n \"rc\",\n]\n");
        assert!(table[0].is_inherited());
    }
}
