//! Versions, cipher suites and curves under the reference's names.
//!
//! Invariants: a name or number that the reference refuses is refused in its words; what it knows and our TLS library
//! lacks is left out with a warning, unless nothing would be left.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::version::{TLS12, TLS13};
use rustls::{NamedGroup, SupportedCipherSuite, SupportedProtocolVersion};

use crate::serve::error::ServeError;
use crate::serve::options::ServingOptions;

/// Names of cipher suites for TLS 1.2 that there is code for.
const SUITES: [(&str, SupportedCipherSuite); 8] = {
    use ring::cipher_suite as suites;
    [
        (
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            suites::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        ),
        (
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            suites::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        ),
        (
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        ),
        (
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
            suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        ),
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", suites::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", suites::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
        (
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            suites::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        ),
        (
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
            suites::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        ),
    ]
};

/// Suites of TLS 1.3: always on, whatever is chosen, as in the reference.
const SUITES_13: [&str; 3] =
    ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

/// Names that the reference accepts and that stand for suites that should not be used.
const WEAK_SUITES: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// Numbers of key exchanges that the reference knows, and our name where there is code for it.
const CURVES: [(i32, Option<NamedGroup>); 7] = [
    (23, Some(NamedGroup::secp256r1)),
    (24, Some(NamedGroup::secp384r1)),
    (25, None),
    (29, Some(NamedGroup::X25519)),
    (4587, None),
    (4588, None),
    (4589, None),
];

/// Versions, cipher suites and curves of the secure port.
pub(crate) struct Settings {
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static SupportedProtocolVersion>,
    protocols: Vec<Vec<u8>>,
}

impl Settings {
    pub(crate) fn parse(options: &ServingOptions) -> Result<Self, ServeError> {
        let mut provider = ring::default_provider();
        let mut versions: Vec<&'static SupportedProtocolVersion> = match options
            .tls_min_version
            .as_str()
        {
            "" | "VersionTLS12" => vec![&TLS13, &TLS12],
            "VersionTLS13" => vec![&TLS13],
            old @ ("VersionTLS10" | "VersionTLS11") => {
                tracing::warn!(
                    "--tls-min-version={old}: TLS before 1.2 is not served, so clients must speak 1.2 or later"
                );
                vec![&TLS13, &TLS12]
            }
            unknown => {
                return Err(ServeError::Setting(format!("unknown tls version {unknown:?}")));
            }
        };
        if !options.tls_cipher_suites.is_empty() {
            let chosen = suites(&options.tls_cipher_suites)?;
            if chosen.is_empty() {
                versions.retain(|version| version.version != TLS12.version);
                tracing::warn!(
                    "none of --tls-cipher-suites is there for TLS 1.2, so clients must speak TLS 1.3"
                );
            }
            provider
                .cipher_suites
                .retain(|suite| suite.tls13().is_some() || chosen.contains(suite));
        }
        if !options.tls_curve_preferences.is_empty() {
            let chosen = curves(&options.tls_curve_preferences)?;
            provider.kx_groups.retain(|group| chosen.contains(&group.name()));
        }
        let mut protocols = vec![b"http/1.1".to_vec()];
        if !options.disable_http2 {
            protocols.insert(0, b"h2".to_vec());
        }
        Ok(Self { provider: Arc::new(provider), versions, protocols })
    }

    pub(crate) fn provider(&self) -> &Arc<CryptoProvider> {
        &self.provider
    }

    pub(crate) fn versions(&self) -> &[&'static SupportedProtocolVersion] {
        &self.versions
    }

    /// What clients may agree on, the best first.
    pub(crate) fn protocols(&self) -> Vec<Vec<u8>> {
        self.protocols.clone()
    }
}

fn suites(names: &[String]) -> Result<Vec<SupportedCipherSuite>, ServeError> {
    let mut chosen = Vec::new();
    for name in names {
        if let Some((_, suite)) = SUITES.iter().find(|(known, _)| known == name) {
            chosen.push(*suite);
        } else if WEAK_SUITES.contains(&name.as_str()) {
            tracing::warn!("--tls-cipher-suites: {name} is known to be weak and is not served");
        } else if !SUITES_13.contains(&name.as_str()) {
            return Err(ServeError::Setting(format!(
                "Cipher suite {name} not supported or doesn't exist"
            )));
        }
    }
    Ok(chosen)
}

fn curves(numbers: &[i32]) -> Result<Vec<NamedGroup>, ServeError> {
    let mut seen = BTreeSet::new();
    let mut chosen = Vec::new();
    for &number in numbers {
        if u16::try_from(number).is_err() || number == 0 {
            let text = format!("curve preference {number} is out of range (must be 1-65535)");
            return Err(ServeError::Setting(text));
        }
        if !seen.insert(number) {
            return Err(ServeError::Setting(format!("duplicate curve preference {number}")));
        }
        match CURVES.iter().find(|(known, _)| *known == number) {
            Some((_, Some(group))) => chosen.push(*group),
            Some((_, None)) => tracing::warn!(
                "--tls-curve-preferences: {number} is not served; known here are 23, 24 and 29"
            ),
            None => {
                let text =
                    format!("curve preference {number} is not supported by the current Go version");
                return Err(ServeError::Setting(text));
            }
        }
    }
    if chosen.is_empty() {
        let text =
            "--tls-curve-preferences: none of the curves is served; choose among 23, 24 and 29";
        return Err(ServeError::Setting(text.to_owned()));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(change: impl FnOnce(&mut ServingOptions)) -> Result<Settings, String> {
        let mut options = ServingOptions::default();
        change(&mut options);
        Settings::parse(&options).map_err(|error| error.to_string())
    }

    fn refusal(change: impl FnOnce(&mut ServingOptions)) -> String {
        parsed(change).map(|_| ()).unwrap_err()
    }

    #[test]
    fn unknown_names_are_refused_in_the_known_words() {
        assert_eq!(
            refusal(|options| options.tls_min_version = "TLS12".to_owned()),
            "unknown tls version \"TLS12\""
        );
        assert_eq!(
            refusal(|options| options.tls_cipher_suites = vec!["TLS_FOO".to_owned()]),
            "Cipher suite TLS_FOO not supported or doesn't exist"
        );
        for (numbers, text) in [
            (vec![0], "curve preference 0 is out of range (must be 1-65535)"),
            (vec![70_000], "curve preference 70000 is out of range (must be 1-65535)"),
            (vec![23, 23], "duplicate curve preference 23"),
            (vec![1], "curve preference 1 is not supported by the current Go version"),
        ] {
            assert_eq!(refusal(|options| options.tls_curve_preferences = numbers), text);
        }
        let text = refusal(|options| options.tls_curve_preferences = vec![25]);
        assert!(text.contains("choose among"), "{text}");
    }

    #[test]
    fn choices_narrow_what_is_offered() {
        let settings = parsed(|options| {
            options.tls_cipher_suites = vec![
                "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305".to_owned(),
                "TLS_RSA_WITH_RC4_128_SHA".to_owned(),
                "TLS_AES_128_GCM_SHA256".to_owned(),
            ];
            options.tls_curve_preferences = vec![25, 24];
            options.disable_http2 = true;
        })
        .unwrap();
        let old = settings.provider.cipher_suites.iter().filter(|suite| suite.tls13().is_none());
        assert_eq!(old.count(), 1);
        assert_eq!(settings.provider.kx_groups.len(), 1);
        assert_eq!(settings.versions.len(), 2);
        assert_eq!(settings.protocols, [b"http/1.1".to_vec()]);
    }

    #[test]
    fn only_weak_suites_leave_tls_13() {
        let settings = parsed(|options| {
            options.tls_cipher_suites = vec!["TLS_RSA_WITH_RC4_128_SHA".to_owned()]
        })
        .unwrap();
        assert_eq!(settings.versions.len(), 1);
        for old in ["VersionTLS10", "VersionTLS11"] {
            let settings = parsed(|options| options.tls_min_version = old.to_owned()).unwrap();
            assert_eq!(settings.versions.len(), 2);
        }
    }
}
