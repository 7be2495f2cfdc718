//! Proxies that have recognised a caller themselves and say so in headers.
//!
//! Invariant: nothing in these headers counts unless the connection belongs to a proxy with a certificate by one of the
//! authorities.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;
use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode;

use super::trust::Authorities;
use crate::serve::identity::{User, subject_of};
use crate::serve::options::RequestHeaderOptions;

/// Which headers say what, and which proxies are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers {
    /// Common names of proxies; none means any.
    pub(crate) allowed_names: Vec<String>,
    pub(crate) username: Vec<String>,
    pub(crate) uid: Vec<String>,
    pub(crate) group: Vec<String>,
    pub(crate) extra_prefix: Vec<String>,
}

impl Headers {
    pub(crate) fn of(options: &RequestHeaderOptions) -> Self {
        Self {
            allowed_names: options.allowed_names.clone(),
            username: options.username_headers.clone(),
            uid: options.uid_headers.clone(),
            group: options.group_headers.clone(),
            extra_prefix: options.extra_header_prefixes.clone(),
        }
    }
}

/// The trusted proxies.
#[derive(Debug)]
pub(crate) struct FrontProxy {
    pub(crate) authorities: Authorities,
    pub(crate) headers: Headers,
}

impl FrontProxy {
    /// The user that a proxy with this certificate names in the headers; `None` if it names none.
    pub(crate) fn user(
        &self,
        headers: &HeaderMap,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
    ) -> Result<Option<User>, String> {
        self.authorities.verify(leaf, chain)?;
        let certificate = Certificate::from_der(leaf).map_err(|error| error.to_string())?;
        let name = subject_of(certificate.tbs_certificate().subject()).common_name;
        let allowed = &self.headers.allowed_names;
        if !allowed.is_empty() && !allowed.contains(&name) {
            return Err(format!("x509: subject with cn={name} is not in the allowed list"));
        }
        let Some(user) = first(headers, &self.headers.username) else { return Ok(None) };
        Ok(Some(User {
            name: user,
            uid: first(headers, &self.headers.uid).unwrap_or_default(),
            groups: all(headers, &self.headers.group),
            extra: extra(headers, &self.headers.extra_prefix),
        }))
    }

    /// Takes out what only proxies may say.
    pub(crate) fn clear(&self, headers: &mut HeaderMap) {
        let named = [&self.headers.username, &self.headers.uid, &self.headers.group];
        for name in named.into_iter().flatten() {
            headers.remove(name.as_str());
        }
        clear_prefixes(headers, &self.headers.extra_prefix);
    }
}

/// Takes out the headers that proxies use by convention.
pub(crate) fn clear_standard(headers: &mut HeaderMap) {
    for name in ["x-remote-user", "x-remote-uid", "x-remote-group"] {
        headers.remove(name);
    }
    clear_prefixes(headers, &["x-remote-extra-".to_owned()]);
}

fn clear_prefixes(headers: &mut HeaderMap, prefixes: &[String]) {
    let prefixes: Vec<String> = prefixes.iter().map(|prefix| prefix.to_ascii_lowercase()).collect();
    let found: Vec<HeaderName> = headers
        .keys()
        .filter(|name| prefixes.iter().any(|prefix| name.as_str().starts_with(prefix)))
        .cloned()
        .collect();
    for name in found {
        headers.remove(name);
    }
}

fn first(headers: &HeaderMap, names: &[String]) -> Option<String> {
    names
        .iter()
        .filter_map(|name| headers.get(name.as_str()))
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .find(|value| !value.is_empty())
}

fn all(headers: &HeaderMap, names: &[String]) -> Vec<String> {
    names
        .iter()
        .flat_map(|name| headers.get_all(name.as_str()))
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .filter(|value| !value.is_empty())
        .collect()
}

fn extra(headers: &HeaderMap, prefixes: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for prefix in prefixes {
        let prefix = prefix.to_ascii_lowercase();
        for (name, value) in headers {
            // Names of headers are in lower case already.
            let Some(key) = name.as_str().strip_prefix(&prefix) else { continue };
            let decoded = percent_decode_str(key).decode_utf8();
            let key = decoded.map_or_else(|_| key.to_owned(), |key| key.into_owned());
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            extra.entry(key).or_default().push(value);
        }
    }
    extra
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_attributes_are_decoded_and_gathered() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-remote-extra-scopes", "a"),
            ("x-remote-extra-scopes", "b"),
            ("x-remote-extra-acme.com%2fproject", "c"),
            ("x-remote-extra-bad%zz", "d"),
            ("x-remote-user", "jane"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        let found = extra(&headers, &["X-Remote-Extra-".to_owned()]);
        let expected = BTreeMap::from([
            ("acme.com/project".to_owned(), vec!["c".to_owned()]),
            ("bad%zz".to_owned(), vec!["d".to_owned()]),
            ("scopes".to_owned(), vec!["a".to_owned(), "b".to_owned()]),
        ]);
        assert_eq!(found, expected);
        clear_standard(&mut headers);
        assert!(headers.is_empty(), "{headers:?}");
    }
}
