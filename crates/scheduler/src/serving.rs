//! Makes the options of the secure port from flags.
//!
//! Invariant: no file is read here; invalid values are reported when serving starts.

use std::path::PathBuf;
use std::time::Duration;

use kube_scheduler_config::Gate;
use kube_scheduler_daemon::{
    AuthenticationOptions, AuthorizationOptions, Introspection, RequestHeaderOptions,
    ServingOptions, SniCertificate, VerbositySetter,
};

use crate::settings::Settings;
use crate::version::KUBERNETES;

/// The options of the secure port; `None` if the flags turn it off.
pub(crate) fn options(
    settings: &Settings,
    verbosity: Option<VerbositySetter>,
) -> Option<ServingOptions> {
    let flags = &settings.flags;
    let serving = &flags.serving;
    let authentication = &flags.authentication;
    let authorization = &flags.authorization;
    let gates = &settings.gates;
    let version = flags.reported_version().unwrap_or(KUBERNETES).trim_start_matches('v');
    // One field per flag, in the order of the flags. Flags that the server does not support are rejected by validation.
    let named = serving.tls_sni_cert_key.iter().map(|named| SniCertificate {
        cert_file: named.cert_file.clone().into(),
        key_file: named.key_file.clone().into(),
        names: named.names.clone(),
    });
    Some(ServingOptions {
        address: serving.address()?,
        cert_dir: path(&serving.cert_dir),
        tls_cert_file: path(&serving.tls_cert_file),
        tls_private_key_file: path(&serving.tls_private_key_file),
        tls_sni_cert_keys: named.collect(),
        tls_min_version: serving.tls_min_version.clone(),
        tls_cipher_suites: serving.tls_cipher_suites.clone(),
        tls_curve_preferences: serving.tls_curve_preferences.clone(),
        disable_http2: serving.disable_http2_serving,
        http2_max_streams: u32::try_from(serving.http2_max_streams_per_connection).unwrap_or(0),
        permit_port_sharing: serving.permit_port_sharing,
        permit_address_sharing: serving.permit_address_sharing,
        authentication: AuthenticationOptions {
            kubeconfig: path(&authentication.kubeconfig),
            token_cache_ttl: time(authentication.token_webhook_cache_ttl),
            client_ca_file: path(&authentication.client_ca_file),
            certificates_have_uids: gates.is_enabled(Gate::AllowParsingUserUIDFromCertAuth),
            request_header: RequestHeaderOptions {
                client_ca_file: path(&authentication.requestheader_client_ca_file),
                allowed_names: authentication.requestheader_allowed_names.clone(),
                username_headers: authentication.requestheader_username_headers.clone(),
                uid_headers: authentication.requestheader_uid_headers.clone(),
                group_headers: authentication.requestheader_group_headers.clone(),
                extra_header_prefixes: authentication.requestheader_extra_headers_prefix.clone(),
            },
            skip_lookup: authentication.skip_lookup,
            tolerate_lookup_failure: authentication.tolerate_lookup_failure,
        },
        authorization: AuthorizationOptions {
            kubeconfig: path(&authorization.kubeconfig),
            authorized_ttl: time(authorization.webhook_cache_authorized_ttl),
            unauthorized_ttl: time(authorization.webhook_cache_unauthorized_ttl),
            always_allow_paths: authorization.always_allow_paths.clone(),
        },
        introspection: Introspection {
            flags: gates.is_enabled(Gate::ComponentFlagz).then(|| {
                let values = flags.values().into_iter();
                values.map(|(name, value)| (name.to_owned(), value)).collect()
            }),
            statusz: gates.is_enabled(Gate::ComponentStatusz),
            binary_version: version.to_owned(),
            emulation_version: minor_version(version),
            verbosity,
            ..Introspection::default()
        },
        ..ServingOptions::default()
    })
}

/// `1.36` for `1.36.2`.
fn minor_version(version: &str) -> String {
    let parts: Vec<&str> = version.splitn(3, '.').take(2).collect();
    parts.join(".")
}

/// A path; `None` for the empty text, which means that the flag is not set.
fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| text.into())
}

/// A duration; negative ones count as zero.
fn time(length: kube_scheduler_config::Duration) -> Duration {
    length.to_std().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{CommandLine, Flags};

    #[test]
    fn a_gate_says_whether_certificates_have_uids() {
        let off = "--feature-gates=AllowParsingUserUIDFromCertAuth=false".to_owned();
        for (args, expected) in [(vec![], true), (vec![off], false)] {
            let parsed = Flags::parse(&args);
            let Ok(CommandLine::Flags(flags)) = parsed else { panic!("{parsed:?}") };
            let gates = flags.feature_gates.apply().unwrap();
            let settings = Settings::load(*flags, gates).unwrap();
            let options = options(&settings, None).unwrap();
            assert_eq!(options.authentication.certificates_have_uids, expected, "{args:?}");
        }
    }

    #[test]
    fn versions_are_shortened_to_their_minor() {
        for (full, short) in
            [("1.36.2", "1.36"), ("1.36", "1.36"), ("1.37.0-rc.1", "1.37"), ("x", "x")]
        {
            assert_eq!(minor_version(full), short);
        }
    }
}
