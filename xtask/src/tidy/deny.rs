//! The rules in `deny.toml`, as far as tidy applies them itself: cargo-deny is not part of a stock toolchain.

use anyhow::{Context, Result};
use serde::Deserialize;

/// What `deny.toml` says.
#[derive(Debug, Deserialize)]
pub(super) struct Rules {
    pub(super) licenses: Licenses,
    pub(super) bans: Bans,
}

/// Licences.
#[derive(Debug, Deserialize)]
pub(super) struct Licenses {
    /// Those that a dependency may have.
    pub(super) allow: Vec<String>,
}

/// Duplicates.
#[derive(Debug, Deserialize)]
pub(super) struct Bans {
    /// Crates that may come in several versions.
    pub(super) skip: Vec<Skip>,
}

/// An exception.
#[derive(Debug, Deserialize)]
pub(super) struct Skip {
    #[serde(rename = "crate")]
    pub(super) name: String,
    /// Why it cannot be helped from here.
    pub(super) reason: String,
}

/// Reads the text of `deny.toml`.
pub(super) fn parse(text: &str) -> Result<Rules> {
    toml::from_str(text).context("deny.toml cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_are_those_of_the_file() {
        let rules = parse(
            "[licenses]\nallow = [\"MIT\"]\n[bans]\nskip = [{ crate = \"syn\", reason = \"moving\" }]\n",
        );
        let rules = rules.unwrap();
        assert_eq!(rules.licenses.allow, ["MIT"]);
        assert_eq!(
            (rules.bans.skip[0].name.as_str(), rules.bans.skip[0].reason.as_str()),
            ("syn", "moving")
        );
        assert!(
            parse("[bans]\nskip = []\n").is_err(),
            "a list that is missing is no list that allows nothing"
        );
    }
}
