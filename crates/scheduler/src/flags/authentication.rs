//! Authentication on the secure port: client certificates, request headers of a front proxy, token reviews.

use kube_scheduler_config::{Duration, FeatureGates, Gate};

use super::section::section;

section! {
    /// How the users of requests are identified.
    Authentication {
        /// Where token reviews go; empty for the surrounding cluster, if there is one.
        kubeconfig: String = String::new(), "authentication-kubeconfig",
            "kubeconfig file pointing at the 'core' kubernetes server with enough rights to create \
             tokenreviews.authentication.k8s.io. This is optional. If empty, all token requests are considered to be \
             anonymous and no client CA is looked up in the cluster.";
        /// How long the result of a token review is cached.
        token_webhook_cache_ttl: Duration = Duration::from_secs(10), "authentication-token-webhook-cache-ttl",
            "The duration to cache responses from the webhook token authenticator.";
        /// Authorities of client certificates; empty to look it up in the cluster.
        client_ca_file: String = String::new(), "client-ca-file",
            "If set, any request presenting a client certificate signed by one of the authorities in the client-ca-file \
             is authenticated with an identity corresponding to the CommonName of the client certificate.";
        /// Headers that name the user.
        requestheader_username_headers: Vec<String> = vec!["x-remote-user".to_owned()],
            "requestheader-username-headers",
            "List of request headers to inspect for usernames. X-Remote-User is common.";
        /// Headers that give the user's UID.
        requestheader_uid_headers: Vec<String> = Vec::new(), "requestheader-uid-headers",
            "List of request headers to inspect for UIDs. X-Remote-Uid is suggested. Requires the RemoteRequestHeaderUID \
             feature to be enabled.";
        /// Headers that name groups.
        requestheader_group_headers: Vec<String> = vec!["x-remote-group".to_owned()], "requestheader-group-headers",
            "List of request headers to inspect for groups. X-Remote-Group is suggested.";
        /// Prefixes of headers with extra attributes of the user.
        requestheader_extra_headers_prefix: Vec<String> = vec!["x-remote-extra-".to_owned()],
            "requestheader-extra-headers-prefix",
            "List of request header prefixes to inspect. X-Remote-Extra- is suggested.";
        /// Authorities of front proxies; empty to look it up in the cluster.
        requestheader_client_ca_file: String = String::new(), "requestheader-client-ca-file",
            "Root certificate bundle to use to verify client certificates on incoming requests before trusting \
             usernames in headers specified by --requestheader-username-headers. WARNING: generally do not depend on \
             authorization being already done for incoming requests.";
        /// Common names of front proxies; empty for any.
        requestheader_allowed_names: Vec<String> = Vec::new(), "requestheader-allowed-names",
            "List of client certificate common names to allow to provide usernames in headers specified by \
             --requestheader-username-headers. If empty, any client certificate validated by the authorities in \
             --requestheader-client-ca-file is allowed.";
        /// Whether to look up nothing in the cluster.
        skip_lookup: bool = false, "authentication-skip-lookup",
            "If false, the authentication-kubeconfig will be used to lookup missing authentication configuration from \
             the cluster.";
        /// Whether to continue when the look-up fails.
        tolerate_lookup_failure: bool = true, "authentication-tolerate-lookup-failure",
            "If true, failures to look up missing authentication configuration from the cluster are not considered \
             fatal. Note that this can result in authentication that treats all requests as anonymous.";
    }
}

impl Authentication {
    /// The errors of the reference's validation.
    pub(super) fn validate(&self, gates: &FeatureGates) -> Vec<String> {
        let mut errors = Vec::new();
        let mut refuse_blank = |flag: &str, names: &[String]| {
            if names.iter().any(|name| name.trim().is_empty()) {
                errors.push(format!("empty value in {flag:?}"));
            }
        };
        refuse_blank("requestheader-username-headers", &self.requestheader_username_headers);
        refuse_blank("requestheader-group-headers", &self.requestheader_group_headers);
        refuse_blank(
            "requestheader-extra-headers-prefix",
            &self.requestheader_extra_headers_prefix,
        );
        refuse_blank("requestheader-allowed-names", &self.requestheader_allowed_names);
        let uid_headers = &self.requestheader_uid_headers;
        if gates.is_enabled(Gate::RemoteRequestHeaderUID) {
            refuse_blank("requestheader-uid-headers", uid_headers);
            if !uid_headers.is_empty() && !has(uid_headers, "X-Remote-Uid") {
                errors.push(format!(
                    "--requestheader-uid-headers is {}",
                    without_standard("X-Remote-Uid header")
                ));
            }
        } else if !uid_headers.is_empty() {
            errors.push(
                "--requestheader-uid-headers requires the \"RemoteRequestHeaderUID\" feature to be enabled".to_owned(),
            );
        }
        errors
    }

    /// The warnings that the reference logs.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let standard = [
            (
                "requestheader-username-headers",
                &self.requestheader_username_headers,
                "X-Remote-User",
                "header",
            ),
            (
                "requestheader-group-headers",
                &self.requestheader_group_headers,
                "X-Remote-Group",
                "header",
            ),
            (
                "requestheader-extra-headers-prefix",
                &self.requestheader_extra_headers_prefix,
                "X-Remote-Extra-",
                "header prefix",
            ),
        ];
        let unusual =
            standard.iter().filter(|(_, names, name, _)| !names.is_empty() && !has(names, name));
        unusual
            .map(|(flag, _, name, what)| {
                format!("--{flag} is {}", without_standard(&format!("{name} {what}")))
            })
            .collect()
    }
}

fn without_standard(what: &str) -> String {
    format!("set without specifying the standard {what} - API aggregation will not work")
}

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|candidate| candidate.eq_ignore_ascii_case(name))
}
