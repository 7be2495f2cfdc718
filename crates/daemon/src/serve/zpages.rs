//! `/flagz` and `/statusz`: the flags and versions of this process, and when it started.
//!
//! Invariants: clients that accept text or anything get text; structure goes only to those that name its version and kind;
//! the first acceptable form in the order of the Accept header is the one given.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;

use http::header::{ACCEPT, CONTENT_TYPE, WARNING};
use http::{HeaderMap, HeaderValue, StatusCode};
use jiff::Timestamp;
use kube_scheduler_api_types::lock;
use kube_scheduler_writes::Jitter;
use serde::Serialize;

use super::options::Introspection;
use super::reply::{self, Reply};
use crate::backoff::random_jitter;

const COMPONENT: &str = "kube-scheduler";
const GROUP: &str = "config.k8s.io";
const ACCEPTED: &str = "application/json, application/yaml, text/plain";
const TEXT: &str = "text/plain; charset=utf-8";
const NOTICE: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
                      guarantees and is for debugging purposes only.";
/// One of these stands between keys and values, so that no client comes to rely on any.
const DELIMITERS: [&str; 4] = [":", ": ", "=", " "];
const FLAGZ: &str = "/flagz";
/// What `/statusz` lists: the first folder of every path that is served and not for debugging.
const PATHS: [&str; 6] = ["/configz", FLAGZ, "/healthz", "/livez", "/metrics", "/readyz"];

/// The pages.
#[derive(Debug)]
pub(crate) struct ZPages {
    introspection: Introspection,
    /// When the process started, in whole seconds since the epoch.
    started_at: i64,
    jitter: Mutex<Jitter>,
    /// Chosen once, as the reference keeps this page once it is made.
    flagz_delimiter: &'static str,
}

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Flagz,
    Statusz,
}

impl Page {
    const fn kind(self) -> &'static str {
        match self {
            Self::Flagz => "Flagz",
            Self::Statusz => "Statusz",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Flagz => "flagz",
            Self::Statusz => "statusz",
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Flagz<'a> {
    kind: &'a str,
    api_version: &'a str,
    metadata: Metadata,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    flags: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Statusz<'a> {
    kind: &'a str,
    api_version: &'a str,
    metadata: Metadata,
    start_time: String,
    uptime_seconds: i64,
    go_version: &'a str,
    binary_version: &'a str,
    emulation_version: &'a str,
    paths: &'a [&'a str],
}

#[derive(Serialize)]
struct Metadata {
    name: &'static str,
}

impl ZPages {
    pub(crate) fn new(introspection: Introspection, started_at: f64) -> Self {
        let mut jitter = random_jitter();
        let flagz_delimiter = delimiter(&mut jitter);
        Self {
            introspection,
            started_at: started_at as i64,
            jitter: Mutex::new(jitter),
            flagz_delimiter,
        }
    }

    /// Whether there is such a page.
    pub(crate) fn has(&self, page: Page) -> bool {
        match page {
            Page::Flagz => self.introspection.flags.is_some(),
            Page::Statusz => self.introspection.statusz,
        }
    }

    fn paths(&self) -> Vec<&'static str> {
        PATHS.into_iter().filter(|&path| path != FLAGZ || self.has(Page::Flagz)).collect()
    }

    /// The page in the form that is wanted. `is_pretty` is what the query says.
    pub(crate) fn reply(&self, page: Page, asked: &HeaderMap, is_pretty: Option<bool>) -> Reply {
        let accept = asked.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        let Some(wanted) = negotiate(accept, page.kind()) else {
            return reply::not_acceptable(asked, ACCEPTED);
        };
        let now = Timestamp::now().as_second();
        let ReplyForm { format, version, is_pretty: asks_pretty } = wanted;
        let api_version = format!("{GROUP}/{version}");
        let is_pretty = asks_pretty || is_pretty.unwrap_or_else(|| reply::is_for_people(asked));
        let body = match (format, page) {
            (Format::Text, Page::Flagz) => self.flagz_text(),
            (Format::Text, Page::Statusz) => self.statusz_text(now),
            (_, Page::Flagz) => {
                let none = BTreeMap::new();
                let flags = self.introspection.flags.as_ref().unwrap_or(&none);
                let (kind, api_version) = (page.kind(), api_version.as_str());
                let metadata = Metadata { name: COMPONENT };
                structured(format, is_pretty, &Flagz { kind, api_version, metadata, flags })
            }
            (_, Page::Statusz) => {
                let page = Statusz {
                    kind: page.kind(),
                    api_version: &api_version,
                    metadata: Metadata { name: COMPONENT },
                    start_time: rfc3339(self.started_at),
                    uptime_seconds: (now - self.started_at).max(0),
                    go_version: &self.introspection.toolchain,
                    binary_version: &self.introspection.binary_version,
                    emulation_version: &self.introspection.emulation_version,
                    paths: &self.paths(),
                };
                structured(format, is_pretty, &page)
            }
        };
        let mut reply = reply::typed(StatusCode::OK, TEXT, body);
        if let Some(media_type) = format.media_type() {
            let full = format!("{media_type};g={GROUP};v={version};as={}", page.kind());
            if let Ok(full) = HeaderValue::from_str(&full) {
                reply.headers_mut().insert(CONTENT_TYPE, full);
            }
            if version == "v1alpha1" {
                let text = format!(
                    "299 - \"This version of the {} endpoint is deprecated. Please use a newer version.\"",
                    page.name()
                );
                if let Ok(text) = HeaderValue::from_str(&text) {
                    reply.headers_mut().insert(WARNING, text);
                }
            }
        }
        reply
    }

    fn flagz_text(&self) -> String {
        let mut text = format!("\n{COMPONENT} flagz\n{NOTICE}\n");
        for (flag, value) in self.introspection.flags.iter().flatten() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{flag}{}{value}", self.flagz_delimiter);
        }
        text
    }

    fn statusz_text(&self, now: i64) -> String {
        let d = delimiter(&mut lock(&self.jitter));
        let up = (now - self.started_at).max(0);
        let started = Timestamp::from_second(self.started_at).unwrap_or_default();
        let started = started.strftime("%a %b %e %H:%M:%S UTC %Y");
        let introspection = &self.introspection;
        format!(
            "\n{COMPONENT} statusz\n{NOTICE}\n\nStarted{d} {started}\nUp{d} {} hr {:02} min {:02} sec\n\
             Go version{d} {}\nBinary version{d} {}\nEmulation version{d} {}\nPaths{d} {}\n",
            up / 3600,
            (up / 60) % 60,
            up % 60,
            introspection.toolchain,
            introspection.binary_version,
            introspection.emulation_version,
            self.paths().join(" "),
        )
    }
}

fn delimiter(jitter: &mut Jitter) -> &'static str {
    let at = (jitter.next_share() * DELIMITERS.len() as f64) as usize;
    DELIMITERS.get(at).copied().unwrap_or(":")
}

fn rfc3339(seconds: i64) -> String {
    Timestamp::from_second(seconds).map(|at| at.to_string()).unwrap_or_default()
}

fn structured(format: Format, is_pretty: bool, page: &impl Serialize) -> String {
    match format {
        Format::Yaml => serde_json::to_value(page)
            .ok()
            .and_then(|value| serde_saphyr::to_string(&value).ok())
            .unwrap_or_default(),
        Format::Json | Format::Text => reply::json(page, is_pretty),
    }
}

/// How a page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Yaml,
    Text,
}

impl Format {
    /// In the order in which a wildcard takes them.
    const ALL: [Self; 3] = [Self::Json, Self::Yaml, Self::Text];

    const fn media_type(self) -> Option<&'static str> {
        match self {
            Self::Json => Some("application/json"),
            Self::Yaml => Some("application/yaml"),
            Self::Text => None,
        }
    }

    fn is_meant_by(self, clause: &Clause<'_>) -> bool {
        let (kind, subkind) = match self {
            Self::Json => ("application", "json"),
            Self::Yaml => ("application", "yaml"),
            Self::Text => ("text", "plain"),
        };
        (clause.kind == kind && (clause.subkind == subkind || clause.subkind == "*"))
            || (clause.kind == "*" && clause.subkind == "*")
    }
}

/// What a client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReplyForm {
    format: Format,
    version: &'static str,
    is_pretty: bool,
}

/// One entry of an Accept header.
#[derive(Clone, Debug)]
struct Clause<'a> {
    kind: &'a str,
    subkind: &'a str,
    quality: f64,
    parameters: BTreeMap<&'a str, &'a str>,
}

impl Clause<'_> {
    /// Whether this entry goes before `other`, by the reference's rule.
    fn precedes(&self, other: &Self) -> bool {
        self.quality > other.quality
            || (self.kind != "*" && other.kind == "*")
            || (self.subkind != "*" && other.subkind == "*")
    }

    /// What this entry gives in `format`, if that is allowed.
    fn wanted(&self, format: Format, kind: &str) -> Option<ReplyForm> {
        let parameter = |name: &str| self.parameters.get(name).copied();
        let is_set = |name: &str| parameter(name).is_some_and(|value| !value.is_empty());
        if is_set("stream") || is_set("sv") {
            return None;
        }
        let is_pretty = parameter("pretty") == Some("1");
        let names_a_kind = ["as", "g", "v"].iter().any(|name| parameter(name).is_some());
        if format == Format::Text {
            return (!names_a_kind).then_some(ReplyForm { format, version: "v1beta1", is_pretty });
        }
        let version = match parameter("v") {
            Some("v1beta1") => "v1beta1",
            Some("v1alpha1") => "v1alpha1",
            _ => return None,
        };
        (parameter("as") == Some(kind) && parameter("g") == Some(GROUP)).then_some(ReplyForm {
            format,
            version,
            is_pretty,
        })
    }
}

/// The form that an Accept header asks for, `None` if there is no such form.
fn negotiate(accept: &str, kind: &str) -> Option<ReplyForm> {
    if accept.trim().is_empty() {
        return Some(ReplyForm { format: Format::Text, version: "v1beta1", is_pretty: false });
    }
    let mut clauses: Vec<Clause<'_>> = accept.split(',').filter_map(parse_clause).collect();
    // The rule is no order, so the result depends on the way of sorting: by insertion, as the reference does with the
    // few entries that such headers have.
    for end in 1..clauses.len() {
        let mut at = end;
        while at > 0 && clauses[at].precedes(&clauses[at - 1]) {
            clauses.swap(at, at - 1);
            at -= 1;
        }
    }
    clauses.iter().find_map(|clause| {
        Format::ALL
            .into_iter()
            .filter(|format| format.is_meant_by(clause))
            .find_map(|format| clause.wanted(format, kind))
    })
}

fn parse_clause(text: &str) -> Option<Clause<'_>> {
    let mut parts = text.trim_matches(' ').split(';');
    let full = parts.next()?;
    let (kind, subkind) = match full.split_once('/') {
        Some((_, subkind)) if subkind.contains('/') => return None,
        Some((kind, subkind)) => (kind.trim_matches(' '), subkind.trim_matches(' ')),
        None if full.trim_matches(' ') == "*" => ("*", "*"),
        None => return None,
    };
    let mut quality = 1.0;
    let mut parameters = BTreeMap::new();
    for part in parts {
        let Some((name, value)) = part.split_once('=') else { continue };
        if value.is_empty() || value.contains('=') {
            continue;
        }
        match name.trim_matches(' ') {
            "q" => quality = value.parse().unwrap_or(0.0),
            name => drop(parameters.insert(name, value.trim_matches(' '))),
        }
    }
    Some(Clause { kind, subkind, quality, parameters })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiated(accept: &str) -> Option<(Format, &'static str)> {
        negotiate(accept, "Flagz").map(|wanted| (wanted.format, wanted.version))
    }

    #[test]
    fn only_full_names_get_structure() {
        let beta = "v=v1beta1;g=config.k8s.io;as=Flagz";
        let alpha = "v=v1alpha1;g=config.k8s.io;as=Flagz";
        let text = Some((Format::Text, "v1beta1"));
        for (accept, expected) in [
            (String::new(), text),
            ("  ".to_owned(), text),
            ("text/plain".to_owned(), text),
            ("text/*".to_owned(), text),
            ("*/*".to_owned(), text),
            ("*".to_owned(), text),
            ("text/html, */*;q=0.8".to_owned(), text),
            ("application/json".to_owned(), None),
            ("application/*".to_owned(), None),
            ("text/html".to_owned(), None),
            ("application/vnd.kubernetes.protobuf".to_owned(), None),
            (format!("application/json;{beta}"), Some((Format::Json, "v1beta1"))),
            (format!("application/yaml; {beta}"), Some((Format::Yaml, "v1beta1"))),
            (format!("application/json;{alpha}"), Some((Format::Json, "v1alpha1"))),
            (format!("*/*;{beta}"), Some((Format::Json, "v1beta1"))),
            (format!("text/plain;{beta}"), None),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Statusz".to_owned(), None),
            ("application/json;v=v1;g=config.k8s.io;as=Flagz".to_owned(), None),
            ("application/json;v=v1beta1;as=Flagz".to_owned(), None),
            (format!("application/json;{beta};stream=watch"), None),
            (
                format!("application/json;{alpha},application/json;{beta}"),
                Some((Format::Json, "v1alpha1")),
            ),
            (
                format!("application/json;{beta},application/json;{alpha}"),
                Some((Format::Json, "v1beta1")),
            ),
            (
                format!("application/json;q=0.5;{alpha},application/yaml;q=0.9;{beta}"),
                Some((Format::Yaml, "v1beta1")),
            ),
            (format!("application/json, text/plain;q=0.1, application/yaml;{beta};q=0.05"), text),
            ("application/json/x, nonsense".to_owned(), None),
        ] {
            assert_eq!(negotiated(&accept), expected, "{accept:?}");
        }
    }

    #[test]
    fn statusz_tells_of_times_and_versions() {
        let introspection = Introspection {
            toolchain: "rustc 1.95.0".to_owned(),
            flags: Some(BTreeMap::new()),
            ..Introspection::default()
        };
        let pages = ZPages::new(introspection, 1_732_190_405.7);
        let text = pages.statusz_text(1_732_190_405 + 90_061);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..3], ["", "kube-scheduler statusz", NOTICE]);
        assert!(lines[4].ends_with("Thu Nov 21 12:00:05 UTC 2024"), "{text}");
        assert!(lines[5].ends_with("25 hr 01 min 01 sec"), "{text}");
        assert!(lines[9].ends_with(" /configz /flagz /healthz /livez /metrics /readyz"), "{text}");
        let without_flags = ZPages::new(Introspection::default(), 0.0).statusz_text(1);
        assert!(
            without_flags.ends_with("/configz /healthz /livez /metrics /readyz\n"),
            "{without_flags}"
        );
    }
}
