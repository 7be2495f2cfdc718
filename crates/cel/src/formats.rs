//! Named formats of texts.

use kube_scheduler_api_types::validation;

use crate::time::Timestamp;
use crate::url;

/// A format and what is wrong with texts that do not have it.
#[derive(Debug)]
pub(crate) struct NamedFormat {
    /// The function that gives it: `format.` and its name.
    pub(crate) function: &'static str,
    pub(crate) name: &'static str,
    /// Length of the pattern that costs are counted by.
    pub(crate) pattern_size: u64,
    pub(crate) problems: fn(&str) -> Vec<String>,
}

/// What an estimate takes for the length of any pattern.
pub(crate) const LONGEST_PATTERN: u64 = 128;

const fn format(
    function: &'static str,
    name: &'static str,
    pattern_size: u64,
    problems: fn(&str) -> Vec<String>,
) -> NamedFormat {
    NamedFormat { function, name, pattern_size, problems }
}

pub(crate) static FORMATS: [NamedFormat; 13] = [
    format("format.dns1123Label", "DNS1123Label", 30, validation::dns1123_label_messages),
    format(
        "format.dns1123Subdomain",
        "DNS1123Subdomain",
        60,
        validation::dns1123_subdomain_messages,
    ),
    format("format.dns1035Label", "DNS1035Label", 30, dns1035_label),
    format("format.qualifiedName", "QualifiedName", 60, validation::label_key_messages),
    format("format.dns1123LabelPrefix", "DNS1123LabelPrefix", 30, |text| {
        validation::dns1123_label_messages(&without_dash(text))
    }),
    format("format.dns1123SubdomainPrefix", "DNS1123SubdomainPrefix", 60, |text| {
        validation::dns1123_subdomain_messages(&without_dash(text))
    }),
    format("format.dns1035LabelPrefix", "DNS1035LabelPrefix", 30, |text| {
        dns1035_label(&without_dash(text))
    }),
    format("format.labelValue", "LabelValue", 40, validation::label_value_messages),
    format("format.uri", "URI", 1103, |text| url::problem(text).into_iter().collect()),
    format("format.uuid", "uuid", 70, |text| {
        unless(is_uuid(text), "does not match the UUID format")
    }),
    format("format.byte", "byte", 84, |text| unless(is_base64(text), "invalid base64")),
    format("format.date", "date", 71, |text| unless(is_date(text), "invalid date")),
    format("format.datetime", "datetime", 71, |text| {
        unless(is_date_time(text), "invalid datetime")
    }),
];

fn unless(is_fine: bool, message: &str) -> Vec<String> {
    if is_fine { Vec::new() } else { vec![message.to_owned()] }
}

/// A prefix may end with a dash, because something follows.
fn without_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(prefix) if !prefix.is_empty() => format!("{prefix}a"),
        _ => text.to_owned(),
    }
}

fn dns1035_label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push("must be no more than 63 bytes".to_owned());
    }
    let bytes = text.as_bytes();
    let is_label = bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.last().is_some_and(|byte| *byte != b'-')
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-');
    if !is_label {
        problems.push(
            "a DNS-1035 label has lower case letters, digits and '-', begins with a letter and ends with a \
             letter or digit"
                .to_owned(),
        );
    }
    problems
}

fn is_uuid(text: &str) -> bool {
    // Hyphens may be left out, each by itself.
    let mut rest = text;
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        match rest.get(..length) {
            Some(part) if part.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                rest = &rest[length..]
            }
            _ => return false,
        }
    }
    rest.is_empty()
}

fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    text.len().is_multiple_of(4)
        && !text.is_empty()
        && text.len() - digits.len() <= 2
        && digits.bytes().all(is_digit)
}

fn is_date(text: &str) -> bool {
    // Formats know the year 0, timestamps do not; every fourth century is the same.
    let text =
        text.strip_prefix("0000-").map_or_else(|| text.to_owned(), |day| format!("0400-{day}"));
    text.len() == 10 && Timestamp::parse(&format!("{text}T00:00:00Z")).is_ok()
}

/// A date, `T` and a time with an offset; the case of letters does not matter.
fn is_date_time(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    let Some((date, time)) = text.split_once('T') else { return false };
    let offset = time.strip_suffix('Z').or_else(|| {
        let start = time.len().checked_sub(6)?;
        let (time, offset) = (time.get(..start)?, time.get(start..)?);
        let has_digits = [1, 2, 4, 5].iter().all(|at| offset.as_bytes()[*at].is_ascii_digit());
        (has_digits && offset.starts_with(['+', '-']) && offset.as_bytes()[3] == b':')
            .then_some(time)
    });
    is_date(date)
        && offset.is_some_and(|time| Timestamp::parse(&format!("2000-01-01T{time}Z")).is_ok())
}
