//! The secure port: address, certificates, TLS parameters.

use std::net::{IpAddr, Ipv4Addr};

use super::section::section;
use super::value::NamedCertificate;

/// Cipher suites of Go's `crypto/tls` that it calls secure, sorted.
const PREFERRED_CIPHERS: &str = "TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256, \
    TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, \
    TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, \
    TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305, TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, \
    TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, \
    TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA, TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, \
    TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305, TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256";

/// Cipher suites of Go's `crypto/tls` that it calls insecure, sorted.
const INSECURE_CIPHERS: &str = "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256, TLS_ECDHE_ECDSA_WITH_RC4_128_SHA, \
    TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA, TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256, TLS_ECDHE_RSA_WITH_RC4_128_SHA, \
    TLS_RSA_WITH_3DES_EDE_CBC_SHA, TLS_RSA_WITH_AES_128_CBC_SHA, TLS_RSA_WITH_AES_128_CBC_SHA256, \
    TLS_RSA_WITH_AES_128_GCM_SHA256, TLS_RSA_WITH_AES_256_CBC_SHA, TLS_RSA_WITH_AES_256_GCM_SHA384, \
    TLS_RSA_WITH_RC4_128_SHA";

section! {
    /// How the secure port is served.
    SecureServing {
        /// Where to listen; unspecified for all interfaces and both families.
        bind_address: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED), "bind-address",
            "The IP address on which to listen for the --secure-port port. The associated interface(s) must be reachable \
             by the rest of the cluster, and by CLI/web clients. If blank or an unspecified address (0.0.0.0 or ::), all \
             interfaces and IP address families will be used.";
        /// The port; 0 to serve nothing.
        secure_port: i64 = 10259, "secure-port",
            "The port on which to serve HTTPS with authentication and authorization. If 0, don't serve HTTPS at all.";
        /// Whether to offer HTTP/1.1 only.
        disable_http2_serving: bool = false, "disable-http2-serving",
            "If true, HTTP2 serving will be disabled [default=false]";
        /// Where `kube-scheduler.crt` and `.key` are read, or created; empty for a certificate in memory.
        cert_dir: String = String::new(), "cert-dir",
            "The directory where the TLS certs are located. If --tls-cert-file and --tls-private-key-file are provided, \
             this flag will be ignored.";
        /// The certificate; takes precedence over `cert_dir`.
        tls_cert_file: String = String::new(), "tls-cert-file",
            "File containing the default x509 Certificate for HTTPS. (CA cert, if any, concatenated after server cert). \
             If HTTPS serving is enabled, and --tls-cert-file and --tls-private-key-file are not provided, a self-signed \
             certificate and key are generated for the public address and saved to the directory specified by \
             --cert-dir.";
        /// Its key.
        tls_private_key_file: String = String::new(), "tls-private-key-file",
            "File containing the default x509 private key matching --tls-cert-file.";
        /// Names of cipher suites up to TLS 1.2; empty for the default.
        tls_cipher_suites: Vec<String> = Vec::new(), "tls-cipher-suites",
            format!(
                "Comma-separated list of cipher suites for the server. If omitted, the default Go cipher suites will be \
                 used. \nPreferred values: {PREFERRED_CIPHERS}. \nInsecure values: {INSECURE_CIPHERS}."
            );
        /// Numbers of key exchange groups; empty for the default.
        tls_curve_preferences: Vec<i32> = Vec::new(), "tls-curve-preferences",
            "Comma-separated list of numeric Go crypto/tls CurveID values, as the allowed key exchange mechanisms for \
             the server. The supported values depend on the Go version used. See \
             https://pkg.go.dev/crypto/tls#CurveID for values supported for each Go version. The order of the list is \
             ignored, and key exchange mechanisms are chosen by Go from this list using an internal preference order. \
             If omitted, the default Go curves will be used.";
        /// `VersionTLS10` to `VersionTLS13`; empty for 1.2.
        tls_min_version: String = String::new(), "tls-min-version",
            "Minimum TLS version supported. Possible values: VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13";
        /// Further certificates, by the server name that clients request.
        tls_sni_cert_key: Vec<NamedCertificate> = Vec::new(), "tls-sni-cert-key",
            "A pair of x509 certificate and private key file paths, optionally suffixed with a list of domain patterns \
             which are fully qualified domain names, possibly with prefixed wildcard segments. The domain patterns also \
             allow IP addresses, but IPs should only be used if the apiserver has visibility to the IP address requested \
             by a client. If no domain patterns are provided, the names of the certificate are extracted. Non-wildcard \
             matches trump over wildcard matches, explicit domain patterns trump over extracted names. For multiple \
             key/certificate pairs, use the --tls-sni-cert-key multiple times. Examples: \"example.crt,example.key\" or \
             \"foo.crt,foo.key:*.foo.com,foo.com\".";
        /// Streams per HTTP/2 connection; 0 for the server's default.
        http2_max_streams_per_connection: i64 = 0, "http2-max-streams-per-connection",
            "The limit that the server gives to clients for the maximum number of streams in an HTTP/2 connection. Zero \
             means to use golang's default.";
        /// Whether several processes may listen on the port.
        permit_port_sharing: bool = false, "permit-port-sharing",
            "If true, SO_REUSEPORT will be used when binding the port, which allows more than one instance to bind on \
             the same address and port. [default=false]";
        /// Whether to take the port while old connections linger.
        permit_address_sharing: bool = false, "permit-address-sharing",
            "If true, SO_REUSEADDR will be used when binding the port. This allows binding to wildcard IPs like 0.0.0.0 \
             and specific IPs in parallel, and it avoids waiting for the kernel to release sockets in TIME_WAIT state. \
             [default=false]";
    }
}

impl SecureServing {
    /// The errors of the reference's validation.
    pub(super) fn validate(&self) -> Vec<String> {
        if (0..=65535).contains(&self.secure_port) {
            return Vec::new();
        }
        vec![format!(
            "--secure-port {} must be between 0 and 65535, inclusive. 0 for turning off secure port",
            self.secure_port
        )]
    }

    /// Where to listen; `None` with port 0, which turns serving off.
    pub(crate) fn address(&self) -> Option<std::net::SocketAddr> {
        let port = u16::try_from(self.secure_port).ok().filter(|&port| port != 0)?;
        Some(std::net::SocketAddr::new(self.bind_address, port))
    }
}
