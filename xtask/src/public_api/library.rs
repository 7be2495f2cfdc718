//! One library's public items, read from rustdoc's JSON.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// A library of the workspace.
#[derive(Debug)]
pub(super) struct Library {
    /// Its name in code: `kube_scheduler_queue`.
    pub(super) ident: String,
    /// What others can reach, in the order of the record.
    pub(super) items: Vec<Item>,
    /// Whole crates of ours that it passes on: alias and name.
    pub(super) crates: Vec<(String, String)>,
}

/// A public item.
#[derive(Debug)]
pub(super) struct Item {
    /// Its declaration with full paths: one line of the record.
    pub(super) line: String,
    /// The path under which it is reached: `kube_scheduler_queue::Queue::pop`.
    pub(super) path: String,
    /// What it is.
    pub(super) kind: Kind,
    /// Whether it is a type or a trait, which may have members.
    pub(super) is_type: bool,
    /// The items, ours and others', that its declaration names.
    pub(super) mentions: BTreeSet<Name>,
}

/// What an item is, as far as its users differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Reached by a path of its own: types, traits, free functions, constants, macros.
    Named,
    /// An item of another of our crates under a name of this one.
    Reexport(Name),
    /// A method, an associated constant or a field: reached through a value or its type.
    Member,
    /// Comes with another item: modules, variants, and what a trait prescribes.
    Part,
}

/// A crate and the last part of a path in it.
pub(super) type Name = (String, String);

impl Item {
    /// The last part of the path.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit("::").next().unwrap_or(&self.path)
    }

    /// The path of what it belongs to.
    pub(super) fn parent(&self) -> &str {
        self.path.rsplit_once("::").map_or("", |(parent, _)| parent)
    }
}

/// Reads the document of one crate.
pub(super) fn read(ident: &str, document: &Path) -> Result<Library> {
    let api = public_api::Builder::from_rustdoc_json(document)
        .omit_auto_derived_impls(true)
        .omit_auto_trait_impls(true)
        .omit_blanket_impls(true)
        .build()
        .with_context(|| format!("cannot read {}", document.display()))?;
    let text =
        std::fs::read(document).with_context(|| format!("cannot read {}", document.display()))?;
    let json: Value = serde_json::from_slice(&text).context("rustdoc wrote no JSON")?;
    let reader = Reader { json: &json };
    let from_traits = reader.items_of_traits();
    let mut items: Vec<Item> = api
        .items()
        .map(|item| {
            let line = item.to_string();
            let inner = reader.inner(item.id().0);
            let kind = reader.kind(inner, from_traits.contains(&item.id().0), ident);
            let mut mentions = BTreeSet::new();
            reader.mentions(inner, ident, &mut mentions);
            reader.of_variant(inner, ident, &mut mentions);
            if let Some(implementations) =
                inner.pointer("/struct/impls").or(inner.pointer("/enum/impls"))
            {
                reader.of_implementations(implementations, ident, &mut mentions);
            }
            let is_type = ["struct", "enum", "union", "trait", "type_alias"]
                .iter()
                .any(|kind| !inner[kind].is_null());
            Item { path: path(&line, ident), line, kind, is_type, mentions }
        })
        .collect();
    let types: BTreeSet<String> =
        items.iter().filter(|item| item.is_type).map(|item| item.path.clone()).collect();
    for item in items.iter_mut().filter(|item| item.kind == Kind::Named) {
        if types.contains(item.parent()) {
            item.kind = Kind::Member;
        }
    }
    let crates = reader.crates_passed_on();
    Ok(Library { ident: ident.to_owned(), items, crates })
}

/// The path in a rendered declaration, generic arguments left out.
fn path(line: &str, ident: &str) -> String {
    let start = line.match_indices(ident).map(|(at, _)| at).find(|at| {
        let before = line[..*at].chars().next_back();
        before.is_none_or(|char| char == ' ') && !line[..*at].contains("impl")
    });
    let Some(start) = start else { return line.to_owned() };
    let (mut path, mut depth) = (String::new(), 0_usize);
    let mut chars = line[start..].chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            ':' if chars.peek() == Some(&':') || path.ends_with(':') => path.push(':'),
            _ if char.is_alphanumeric() || char == '_' => path.push(char),
            _ => break,
        }
    }
    path.trim_end_matches(':').to_owned()
}

/// A look at the JSON. Its form belongs to the toolchain that `rust-toolchain.toml` names; `public_api` refuses others.
struct Reader<'a> {
    json: &'a Value,
}

impl<'a> Reader<'a> {
    fn inner(&self, id: u32) -> &'a Value {
        &self.json["index"][id.to_string()]["inner"]
    }

    fn kind(&self, inner: &Value, is_of_trait: bool, ident: &str) -> Kind {
        let Some(kind) = inner.as_object().and_then(|inner| inner.keys().next()) else {
            return Kind::Part;
        };
        match kind.as_str() {
            _ if is_of_trait => Kind::Part,
            "use" => {
                let source = inner["use"]["source"].as_str().unwrap_or_default();
                let (krate, name) = match source.split_once("::") {
                    Some((krate, rest)) => (krate, rest.rsplit("::").next().unwrap_or(rest)),
                    None => (source, ""),
                };
                if krate == "crate" || krate == ident || name.is_empty() {
                    Kind::Part
                } else {
                    Kind::Reexport((krate.to_owned(), name.to_owned()))
                }
            }
            "function" | "constant" | "assoc_const" | "struct" | "enum" | "union" | "trait"
            | "type_alias" | "static" | "macro" | "proc_macro" => Kind::Named,
            "struct_field" => Kind::Member,
            _ => Kind::Part,
        }
    }

    /// Re-exports of whole crates.
    fn crates_passed_on(&self) -> Vec<(String, String)> {
        let all = self.json["index"].as_object().into_iter().flat_map(|index| index.values());
        let uses =
            all.filter(|item| item["visibility"] == "public").map(|item| &item["inner"]["use"]);
        let names =
            uses.filter_map(|found| Some((found["name"].as_str()?, found["source"].as_str()?)));
        let whole = names.filter(|(_, source)| !source.contains("::") && *source != "crate");
        whole.map(|(name, source)| (name.to_owned(), source.to_owned())).collect()
    }

    /// The items that a trait prescribes, in the trait and in its implementations.
    fn items_of_traits(&self) -> BTreeSet<u32> {
        let all = self.json["index"].as_object().into_iter().flat_map(|index| index.values());
        let lists = all.filter_map(|item| {
            let inner = &item["inner"];
            let implementation = inner.get("impl").filter(|found| !found["trait"].is_null());
            inner.get("trait").or(implementation).map(|found| &found["items"])
        });
        lists.flat_map(ids).collect()
    }

    /// The types that implementations of a type's traits bring in: iterators, targets, outputs.
    fn of_implementations(&self, impls: &Value, ident: &str, found: &mut BTreeSet<Name>) {
        for id in ids(impls) {
            let implementation = &self.inner(id)["impl"];
            if !implementation["trait"].is_null() && implementation["is_synthetic"] != true {
                self.mentions(implementation, ident, found);
                for item in ids(&implementation["items"]) {
                    self.mentions(self.inner(item), ident, found);
                }
            }
        }
    }

    /// The types of a variant's fields, which are as public as the enum: a caller that gets one gets them, named or not.
    fn of_variant(&self, inner: &Value, ident: &str, found: &mut BTreeSet<Name>) {
        let fields = |at: &str| inner.pointer(at).map(ids).unwrap_or_default();
        let named = fields("/variant/kind/struct/fields");
        for field in fields("/variant/kind/tuple").into_iter().chain(named) {
            self.mentions(self.inner(field), ident, found);
        }
    }

    /// Collects the paths that a declaration names.
    fn mentions(&self, value: &Value, ident: &str, found: &mut BTreeSet<Name>) {
        match value {
            Value::Object(fields) => {
                if let (Some(id), Some(Value::String(_))) = (fields.get("id"), fields.get("path")) {
                    let full = &self.json["paths"][id.to_string()]["path"];
                    let parts = full.as_array().map(Vec::as_slice).unwrap_or_default();
                    if let [krate, .., name] = parts {
                        let (krate, name) = (krate.as_str().unwrap_or(ident), name.as_str());
                        found.insert((krate.to_owned(), name.unwrap_or_default().to_owned()));
                    }
                }
                fields.values().for_each(|value| self.mentions(value, ident, found));
            }
            Value::Array(values) => {
                values.iter().for_each(|value| self.mentions(value, ident, found));
            }
            _ => {}
        }
    }
}

fn ids(list: &Value) -> Vec<u32> {
    let ids = list.as_array().into_iter().flatten();
    ids.filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_variant_mentions_the_types_of_its_fields() {
        let field = |id: u32| json!({"inner": {"struct_field": {"resolved_path": {"path": "T", "id": id}}}});
        let document = json!({
            "index": {"1": field(8), "2": field(9), "3": field(7)},
            "paths": {
                "7": {"path": ["q", "deep", "Seven"]},
                "8": {"path": ["q", "Eight"]},
                "9": {"path": ["std", "Nine"]},
            },
        });
        let reader = Reader { json: &document };
        let mentions = |variant: Value| {
            let mut found = BTreeSet::new();
            reader.of_variant(&variant, "q", &mut found);
            found.into_iter().map(|(krate, name)| format!("{krate} {name}")).collect::<Vec<_>>()
        };
        let tuple = json!({"variant": {"kind": {"tuple": [1, null, 2]}}});
        assert_eq!(mentions(tuple), ["q Eight", "std Nine"]);
        let named = json!({"variant": {"kind": {"struct": {"fields": [3]}}}});
        assert_eq!(mentions(named), ["q Seven"]);
        assert_eq!(mentions(json!({"variant": {"kind": "plain"}})), Vec::<String>::new());
        // The fields of a struct have a visibility of their own, and are items of their own.
        assert_eq!(mentions(json!({"struct": {"kind": {"tuple": [1]}}})), Vec::<String>::new());
    }

    #[test]
    fn the_path_is_found_in_a_declaration() {
        let cases = [
            ("pub fn q::Queue<E, O>::pop(&mut self) -> q::Entry", "q::Queue::pop"),
            ("pub q::Options::limit: usize", "q::Options::limit"),
            ("#[non_exhaustive] pub struct q::Entry<'a>", "q::Entry"),
            ("pub const q::LIMIT: usize", "q::LIMIT"),
            ("pub trait q::Policy: core::fmt::Debug", "q::Policy"),
            ("pub fn q::f(q::Entry)", "q::f"),
        ];
        for (line, expected) in cases {
            assert_eq!(path(line, "q"), expected, "{line}");
        }
    }
}
