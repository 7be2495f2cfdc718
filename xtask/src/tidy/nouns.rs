//! Types are nouns: `Found` says that something was found, but not what it is.
//!
//! Only single words are looked at: participles by their ending, and those of irregular verbs by a list. Code of tests may
//! name its helpers as it likes.

use super::Finding;
use super::scan::words;
use super::tree::Package;

/// The keywords behind which a type gets its name.
const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// Participles that do not end in `-ed`.
const IRREGULAR: [&str; 25] = [
    "Begun", "Bound", "Broken", "Built", "Chosen", "Done", "Found", "Given", "Gone", "Held",
    "Kept", "Known", "Left", "Lost", "Made", "Read", "Said", "Seen", "Sent", "Shown", "Spent",
    "Taken", "Told", "Won", "Written",
];

/// Checks all files of a package.
pub(super) fn check(package: &Package) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in package.files.iter().filter(|file| !file.is_test) {
        let code = &file.source.shipped;
        for at in KEYWORDS.iter().flat_map(|keyword| words(code, keyword)) {
            let Some(name) = name_behind(&code[at..]) else { continue };
            if is_participle(name) {
                findings.push(Finding::new(
                    format!("{}:{}", file.place, file.source.line(at)),
                    format!("the type `{name}` has a participle for its name: say what it is, with a noun"),
                ));
            }
        }
    }
    findings
}

/// The name that a declaration gives, behind its keyword.
fn name_behind(declaration: &str) -> Option<&str> {
    let (_, rest) = declaration.split_once(char::is_whitespace)?;
    rest.trim_start().split(|char: char| !char.is_alphanumeric() && char != '_').next()
}

/// Whether a name is one word, and that a participle. Words in `-eed` are nouns: feed, need, seed, speed.
fn is_participle(name: &str) -> bool {
    let is_one_word = name.starts_with(|char: char| char.is_ascii_uppercase())
        && name[1..].bytes().all(|byte| byte.is_ascii_lowercase());
    let is_regular = name.len() > 3 && name.ends_with("ed") && !name.ends_with("eed");
    is_one_word && (is_regular || IRREGULAR.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::fixture::package;

    fn found(text: &str) -> Vec<String> {
        check(&package("engine", text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_participle_fails_whatever_kind_of_type_it_names() {
        for text in [
            "//! Head.\npub(crate) struct Found<'a>(&'a str);\n",
            "//! Head.\nenum  Placed { Here }\n",
            "//! Head.\ntrait Kept {}\n",
            "//! Head.\ntype Shared = u8;\n",
        ] {
            let found = found(text);
            assert!(
                found.len() == 1 && found[0].starts_with("crates/engine/src/lib.rs:2: the type `"),
                "{text}: {found:?}"
            );
        }
    }

    #[test]
    fn nouns_variants_and_tests_pass() {
        for text in [
            "struct VolumeMatch; struct NodeNeed; enum Need { Placed, Found }\n",
            "struct Seed; struct Speed; struct PlacedPod; struct TAKEN; struct Bed;\n",
            "fn f(found: Found) { let structure = Found { lost: 1 }; }\n",
            "#[cfg(test)]\nmod tests {\n    struct Found;\n}\n",
            "// struct Found;\nconst A: &str = \"struct Found;\";\n",
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
        let test = package("engine", "struct Found;\n").into_test();
        assert_eq!(check(&test), []);
    }
}
