//! Rust source as the rules see it: code and comments apart, strings blank, test code found.
//!
//! Not a parser: it knows just enough of the language that no rule is fooled by a string, a comment, a lifetime or a
//! raw string. Every part is as long as the text it came from, so that an offset means the same place in all.

use std::ops::Range;

/// One file, taken apart.
#[derive(Debug)]
pub(crate) struct Source {
    /// The text.
    pub(crate) text: String,
    /// The text with comments and the contents of strings blank.
    pub(crate) code: String,
    /// `code` with items under `#[cfg(test)]` blank too.
    pub(crate) shipped: String,
    /// The comments, all else blank.
    pub(crate) comments: String,
    /// Items under `#[cfg(test)]`, attribute included.
    test_items: Vec<Range<usize>>,
    /// Modules declared as `#[cfg(test)] mod name;`.
    pub(crate) test_modules: Vec<String>,
    /// Whether the file begins with `#![cfg(test)]`.
    pub(crate) is_all_test: bool,
}

impl Source {
    /// Takes a file apart.
    pub(crate) fn new(text: String) -> Self {
        let (code, comments) = split(&text);
        let (test_items, test_modules) = test_items(&code);
        let mut shipped = code.clone().into_bytes();
        for item in &test_items {
            blank(&mut shipped[item.clone()]);
        }
        let is_all_test = code.contains("#![cfg(test)]");
        let shipped = String::from_utf8(shipped).unwrap_or_default();
        Self { text, code, shipped, comments, test_items, test_modules, is_all_test }
    }

    /// The line of an offset, from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// Lines that are not test code.
    pub(super) fn shipped_lines(&self) -> usize {
        let in_tests: usize = self
            .test_items
            .iter()
            .map(|item| self.line(item.end) - self.line(item.start) + 1)
            .sum();
        self.text.lines().count().saturating_sub(in_tests)
    }
}

/// Where `needle` occurs as a word: not inside a longer name.
pub(crate) fn words<'a>(text: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_name =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = text.as_bytes();
    text.match_indices(needle).map(|(at, _)| at).filter(move |&at| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let starts_with_name = is_name(needle.as_bytes().first());
        let ends_with_name = is_name(needle.as_bytes().last());
        let goes_on_before = starts_with_name && is_name(before);
        let goes_on_after = ends_with_name && is_name(bytes.get(at + needle.len()));
        !goes_on_before && !goes_on_after
    })
}

/// The offset just behind the bracket that closes the one at `open`; the end of the text if none does.
pub(super) fn close(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// One name that `use` brings in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    /// The offset of the statement.
    pub(crate) at: usize,
    /// The full path; `*` is the last part of a glob.
    pub(crate) path: String,
    /// The name it has here.
    pub(crate) name: String,
    /// Whether it is passed on to everyone: `pub use`.
    pub(crate) is_public: bool,
}

/// All that `use` brings in.
pub(crate) fn imports(code: &str) -> Vec<Import> {
    let mut imports = Vec::new();
    for at in words(code, "use") {
        let rest = &code[at + 3..];
        // `use<'a>` bounds what an opaque type captures.
        if rest.starts_with(char::is_whitespace)
            && let Some(end) = rest.find(';')
        {
            let tree: String = rest[..end].replace(" as ", "\0").split_whitespace().collect();
            let is_public = code[..at].trim_end().ends_with("pub");
            expand("", &tree, &mut |path, name| {
                imports.push(Import { at, path, name, is_public });
            });
        }
    }
    imports
}

/// The path that begins at `start`: names joined by `::`, without generic arguments.
pub(crate) fn path_at(code: &str, start: usize) -> &str {
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let mut end = start;
    loop {
        let rest = &code[end..];
        let name = rest.find(|char| !is_name(char)).unwrap_or(rest.len());
        end += name;
        match code[end..].strip_prefix("::") {
            Some(rest) if rest.starts_with(is_name) => end += 2,
            _ => return &code[start..end],
        }
    }
}

fn expand(prefix: &str, tree: &str, found: &mut impl FnMut(String, String)) {
    match tree.split_once('{') {
        Some((head, group)) => {
            let group = group.strip_suffix('}').unwrap_or(group);
            let (mut depth, mut start) = (0_i32, 0);
            for (at, char) in group.char_indices() {
                match char {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        expand(&format!("{prefix}{head}"), &group[start..at], found);
                        start = at + 1;
                    }
                    _ => {}
                }
            }
            expand(&format!("{prefix}{head}"), &group[start..], found);
        }
        None if tree.is_empty() => {}
        None => {
            let (leaf, alias) = tree.split_once('\0').unwrap_or((tree, ""));
            let path = if leaf == "self" {
                prefix.trim_end_matches(':').to_owned()
            } else {
                format!("{prefix}{leaf}")
            };
            let path = path.trim_start_matches(':').to_owned();
            let last = path.rsplit("::").next().unwrap_or(&path);
            let name = if alias.is_empty() { last } else { alias }.to_owned();
            found(path, name);
        }
    }
}

fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

/// Code and comments, each with everything else blank.
fn split(text: &str) -> (String, String) {
    let mut code = text.as_bytes().to_vec();
    let mut comments = text.as_bytes().to_vec();
    blank(&mut comments);
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let (end, is_comment) = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => (find(bytes, at, b"\n"), true),
            b'/' if bytes[at..].starts_with(b"/*") => (block_comment(bytes, at), true),
            b'"' => (string(bytes, at), false),
            b'\'' => (char_literal(bytes, at), false),
            b'r' if is_start_of_name(bytes, at) => (raw_string(bytes, at), false),
            _ => (at, false),
        };
        if end == at {
            at += 1;
            continue;
        }
        if is_comment {
            comments[at..end].copy_from_slice(&bytes[at..end]);
            blank(&mut code[at..end]);
        } else {
            // Quotes stay, so that a string still looks like a value.
            blank(&mut code[at + 1..end - 1]);
        }
        at = end;
    }
    (String::from_utf8(code).unwrap_or_default(), String::from_utf8(comments).unwrap_or_default())
}

fn find(bytes: &[u8], from: usize, needle: &[u8]) -> usize {
    bytes[from..]
        .windows(needle.len())
        .position(|window| window == needle)
        .map_or(bytes.len(), |at| from + at)
}

fn block_comment(bytes: &[u8], start: usize) -> usize {
    let (mut depth, mut at) = (0_usize, start);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of a character literal; `start` itself if it is a lifetime.
fn char_literal(bytes: &[u8], start: usize) -> usize {
    if bytes.get(start + 1) == Some(&b'\\') {
        return (find(bytes, start + 3, b"'") + 1).min(bytes.len());
    }
    let length = bytes.get(start + 1).map_or(1, |first| match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    });
    if bytes.get(start + 1 + length) == Some(&b'\'') { start + length + 2 } else { start }
}

/// The end of a raw string; `start` itself if it is a name.
fn raw_string(bytes: &[u8], start: usize) -> usize {
    let hashes = bytes[start + 1..].iter().take_while(|byte| **byte == b'#').count();
    let quote = start + 1 + hashes;
    if bytes.get(quote) != Some(&b'"') {
        return start;
    }
    let closing = [&b"\""[..], &b"#".repeat(hashes)].concat();
    (find(bytes, quote + 1, &closing) + closing.len()).min(bytes.len())
}

/// Whether a name begins here, byte and C string prefixes aside.
fn is_start_of_name(bytes: &[u8], at: usize) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    match at.checked_sub(1).map(|before| bytes[before]) {
        Some(b'b' | b'c') => at < 2 || !is_name(bytes[at - 2]),
        Some(before) => !is_name(before),
        None => true,
    }
}

/// Items under `#[cfg(test)]` or `#[cfg(all(test, …))]`, and the modules among them that lie in other files.
fn test_items(code: &str) -> (Vec<Range<usize>>, Vec<String>) {
    let (mut items, mut modules) = (Vec::new(), Vec::new());
    let mut from = 0;
    while let Some(start) = ["#[cfg(test)]", "#[cfg(all(test"]
        .iter()
        .filter_map(|attribute| code[from..].find(attribute).map(|at| from + at))
        .min()
    {
        let mut at = close(code, start + 1);
        loop {
            at += code[at..].len() - code[at..].trim_start().len();
            if !code[at..].starts_with("#[") {
                break;
            }
            at = close(code, at + 1);
        }
        from = at;
        let item = code[at..]
            .trim_start_matches("pub(crate) ")
            .trim_start_matches("pub(super) ")
            .trim_start_matches("pub ");
        let keyword = item
            .split(|char: char| !char.is_ascii_alphanumeric() && char != '_')
            .next()
            .unwrap_or_default();
        let is_item = matches!(
            keyword,
            "mod"
                | "fn"
                | "impl"
                | "use"
                | "struct"
                | "enum"
                | "const"
                | "static"
                | "type"
                | "trait"
                | "macro_rules"
                | "async"
        );
        if !is_item {
            continue;
        }
        let Some(end) =
            code[at..].find(if keyword == "use" { &[';'][..] } else { &[';', '{'][..] })
        else {
            continue;
        };
        let end = at + end;
        from = if code.as_bytes()[end] == b'{' { close(code, end) } else { end + 1 };
        if keyword == "mod" && code.as_bytes()[end] == b';' {
            modules.push(
                item.trim_start_matches("mod")
                    .split(';')
                    .next()
                    .unwrap_or_default()
                    .trim()
                    .to_owned(),
            );
        }
        items.push(start..from);
    }
    (items, modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        let source = Source::new(text.to_owned());
        assert_eq!(source.code.len(), text.len());
        assert_eq!(source.comments.len(), text.len());
        assert_eq!(source.shipped.len(), text.len());
        source
    }

    #[test]
    fn strings_and_comments_are_no_code() {
        let text = r###"
            let a = "todo! \" quoted // no comment"; // note todo!
            /* nested /* todo! */ still */ let b = r#"todo! " "#;
            let c = ('"', '\'', 'é', b'"', br"todo!", c"todo!"); let d: &'static str = f::<'_>();
            let r#type = 1; real!();
        "###;
        let source = source(text);
        assert_eq!(words(&source.code, "todo").count(), 0, "{}", source.code);
        assert_eq!(words(&source.comments, "todo").count(), 2);
        for kept in ["let b", "let c", "&'static str", "let d", "let r#type", "real!"] {
            assert!(source.code.contains(kept), "{kept} in {}", source.code);
        }
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(
            words("HashMap FxHashMap HashMapExt (HashMap)", "HashMap").collect::<Vec<_>>(),
            [0, 30]
        );
        assert_eq!(words("allow(x) disallow(x)", "allow(").count(), 1);
    }

    #[test]
    fn grouped_imports_are_expanded() {
        let code = "use std::{fs, collections::{BTreeMap, HashMap as Map}, io::{self, Read}};\nuse ::a::b;\nfn f() -> impl Sized + use<'a> { 0 }";
        let imports = imports(code);
        let paths: Vec<_> = imports.iter().map(|import| import.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "std::fs",
                "std::collections::BTreeMap",
                "std::collections::HashMap",
                "std::io",
                "std::io::Read",
                "a::b"
            ]
        );
        let names: Vec<_> = imports.iter().map(|import| import.name.as_str()).collect();
        assert_eq!(names, ["fs", "BTreeMap", "Map", "io", "Read", "b"]);
    }

    #[test]
    fn test_items_are_found_and_not_counted() {
        let text = "//! Head.\nfn a() { shipped(); }\n#[cfg(test)]\nuse b::{c};\n#[cfg(test)]\nmod far;\n\n#[cfg(test)]\n#[rustfmt::skip]\nmod tests {\n    fn t() { x.unwrap(); }\n}\n";
        let source = source(text);
        assert!(source.shipped.contains("shipped()"));
        assert!(!source.shipped.contains("unwrap"), "{}", source.shipped);
        assert!(!source.shipped.contains("b::"), "{}", source.shipped);
        assert_eq!(source.test_modules, ["far"]);
        assert_eq!(source.shipped_lines(), 3);
    }

    #[test]
    fn code_for_tests_of_others_is_shipped() {
        let text = "#[cfg(any(test, feature = \"testing\"))]\nmod testing { fn f() { kept(); } }\nstruct S {\n    #[cfg(test)]\n    probe: u8,\n}\nfn g() { also_kept(); }\n";
        let source = source(text);
        assert!(source.shipped.contains("kept()"));
        assert!(source.shipped.contains("also_kept()"));
    }

    #[test]
    fn offsets_are_lines() {
        let source = source("a\nb\nc");
        assert_eq!((source.line(0), source.line(2), source.line(4)), (1, 2, 3));
    }
}
