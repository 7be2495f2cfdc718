//! Semantic versions, as the reference's library reads and orders them (`docs/spec/cel.md` §5).

use std::cmp::Ordering;
use std::fmt;

use crate::quote::quoted;

/// A semantic version. Build metadata is checked and dropped; comparisons ignore it.
///
/// ```
/// use kube_scheduler_cel::Version;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// assert!(Version::parse("1.10.0")? > Version::parse("1.9.9")?);
/// assert!(Version::parse("1.0.0-rc.1")? < Version::parse("1.0.0+build.5")?);
/// assert_eq!(Version::parse("v1.0.0").unwrap_err().to_string(), "Invalid character(s) found in major number \"v1\"");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    numbers: [u64; 3],
    /// Empty: a release.
    prerelease: Vec<Identifier>,
}

/// One of the dot-separated parts of a prerelease.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(Box<str>),
}

/// A text is no semantic version, in the reference's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VersionError(String);

fn has_leading_zero(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_alphanumeric(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn unsigned(text: &str) -> Result<u64, VersionError> {
    text.parse().map_err(|_| {
        let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        VersionError(format!("strconv.ParseUint: parsing {}: {why}", quoted(text)))
    })
}

fn number(text: &str, which: &str) -> Result<u64, VersionError> {
    let lower = which.to_lowercase();
    if !is_digits(text) {
        return Err(VersionError(format!(
            "Invalid character(s) found in {lower} number {}",
            quoted(text)
        )));
    }
    if has_leading_zero(text) {
        return Err(VersionError(format!(
            "{which} number must not contain leading zeroes {}",
            quoted(text)
        )));
    }
    unsigned(text)
}

impl Version {
    /// Reads `major.minor.patch`, perhaps with `-prerelease` and `+build`.
    ///
    /// # Errors
    /// If the text is no such version, in the words of the library that the reference uses.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if text.is_empty() {
            return Err(VersionError("Version string empty".to_owned()));
        }
        let parts: Vec<_> = text.splitn(3, '.').collect();
        let &[major, minor, rest] = parts.as_slice() else {
            return Err(VersionError("No Major.Minor.Patch elements found".to_owned()));
        };
        let (major, minor) = (number(major, "Major")?, number(minor, "Minor")?);
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, prerelease) = match rest.split_once('-') {
            Some((patch, prerelease)) => (patch, Some(prerelease)),
            None => (rest, None),
        };
        let patch = number(patch, "Patch")?;
        let prerelease = prerelease
            .map(|parts| parts.split('.').map(identifier).collect::<Result<Vec<_>, _>>())
            .transpose()?
            .unwrap_or_default();
        for part in build.iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err(VersionError("Build meta data is empty".to_owned()));
            }
            if !is_alphanumeric(part) {
                let part = quoted(part);
                return Err(VersionError(format!(
                    "Invalid character(s) found in build meta data {part}"
                )));
            }
        }
        Ok(Self { numbers: [major, minor, patch], prerelease })
    }

    /// As [`parse`](Self::parse), but a leading `v`, leading zeros and absent numbers are allowed.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_tolerantly(text: &str) -> Result<Self, VersionError> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text
            .splitn(3, '.')
            .map(|part| {
                if part.len() <= 1 {
                    return part.to_owned();
                }
                let trimmed = part.trim_start_matches('0');
                let zero = if trimmed.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "0" };
                format!("{zero}{trimmed}")
            })
            .collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err(VersionError(
                "short version cannot contain PreRelease/Build meta data".to_owned(),
            ));
        }
        parts.resize(3, "0".to_owned());
        Self::parse(&parts.join("."))
    }

    /// Major, minor and patch number.
    pub(crate) fn numbers(&self) -> [u64; 3] {
        self.numbers
    }
}

fn identifier(text: &str) -> Result<Identifier, VersionError> {
    if text.is_empty() {
        return Err(VersionError("Prerelease is empty".to_owned()));
    }
    if is_digits(text) {
        if has_leading_zero(text) {
            let text = quoted(text);
            return Err(VersionError(format!(
                "Numeric PreRelease version must not contain leading zeroes {text}"
            )));
        }
        return unsigned(text).map(Identifier::Number);
    }
    if is_alphanumeric(text) {
        return Ok(Identifier::Text(text.into()));
    }
    Err(VersionError(format!("Invalid character(s) found in prerelease {}", quoted(text))))
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A release comes after its prereleases.
impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| self.prerelease.is_empty().cmp(&other.prerelease.is_empty()))
            .then_with(|| self.prerelease.cmp(&other.prerelease))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        for (index, part) in self.prerelease.iter().enumerate() {
            f.write_str(if index == 0 { "-" } else { "." })?;
            match part {
                Identifier::Number(number) => write!(f, "{number}")?,
                Identifier::Text(text) => f.write_str(text)?,
            }
        }
        Ok(())
    }
}
