//! Proxies: which one leads to a URL, as the environment or a kubeconfig says.
//!
//! The variables mean what they mean to programs in Go, because those of a control plane are set for such: `HTTPS_PROXY` and
//! `HTTP_PROXY` by the scheme of the URL, `NO_PROXY` for what is reached directly, each in small letters, too. Loopback never has
//! a proxy. hyper-util has a reader of these variables as well; it follows curl (`ALL_PROXY`, no ports in `NO_PROXY`, loopback
//! through the proxy), and needs two crates more.
//!
//! Invariant: neither the user nor the password of a proxy is in any message, or shown of a [`Proxy`].

mod dialer;
mod exceptions;

use std::fmt;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use percent_encoding::percent_decode_str;

use super::kubeconfig::has_possible_port;
pub(crate) use dialer::Dialer;
use exceptions::Exceptions;

/// A proxy that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {reason}")]
pub(crate) struct ProxyError {
    origin: &'static str,
    reason: String,
}

/// The proxies that the environment names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proxies {
    http: Option<Result<Proxy, ProxyError>>,
    https: Option<Result<Proxy, ProxyError>>,
    exceptions: Exceptions,
    /// Whether this process answers a request as a CGI script: then a client could set `HTTP_PROXY` with a header.
    is_cgi: bool,
}

impl Proxies {
    /// Those of this process's environment, which is read once.
    pub(crate) fn of_environment() -> Arc<Self> {
        static PROXIES: OnceLock<Arc<Proxies>> = OnceLock::new();
        PROXIES.get_or_init(|| Arc::new(Self::read(|name| std::env::var(name).ok()))).clone()
    }

    /// Those that the variables name whose values `lookup` gives.
    pub(crate) fn read(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let proxy = |names: [&'static str; 2]| {
            let (name, text) =
                names.into_iter().find_map(|name| value(name).map(|text| (name, text)))?;
            match Proxy::parse(&text, name) {
                Err(ProxyUrlError::NoUrl(error)) => {
                    // Without effect in Go as well, which says nothing.
                    tracing::warn!(%error, "A variable of the environment is ignored");
                    None
                }
                Err(ProxyUrlError::Scheme(error)) => Some(Err(error)),
                Ok(proxy) => Some(Ok(proxy)),
            }
        };
        let exceptions = value("NO_PROXY").or_else(|| value("no_proxy")).unwrap_or_default();
        Self {
            http: proxy(["HTTP_PROXY", "http_proxy"]),
            https: proxy(["HTTPS_PROXY", "https_proxy"]),
            exceptions: Exceptions::parse(&exceptions),
            is_cgi: value("REQUEST_METHOD").is_some(),
        }
    }

    /// The proxy through which a URL is reached; `None` if it is reached directly.
    ///
    /// # Errors
    /// If there is one that cannot be used.
    pub(crate) fn to(&self, url: &Uri) -> Result<Option<Proxy>, ProxyError> {
        let (proxy, usual_port) = match url.scheme_str() {
            Some("https") => (&self.https, 443),
            Some("http") => (&self.http, 80),
            _ => return Ok(None),
        };
        let (Some(proxy), Some(host)) = (proxy, url.host()) else { return Ok(None) };
        if self.is_cgi && url.scheme_str() == Some("http") {
            let reason = "is not used where REQUEST_METHOD is set, as for a CGI script: a client could have set it with a \
                          header";
            return Err(ProxyError { origin: "HTTP_PROXY", reason: reason.to_owned() });
        }
        if self.exceptions.cover(host, url.port_u16().unwrap_or(usual_port)) {
            return Ok(None);
        }
        proxy.clone().map(Some)
    }
}

/// How a proxy is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http,
    Https,
    Socks5,
}

/// Why a text names no proxy that can be used.
pub(crate) enum ProxyUrlError {
    /// It is no URL.
    NoUrl(ProxyError),
    /// It is one of something else.
    Scheme(ProxyError),
}

impl From<ProxyUrlError> for ProxyError {
    fn from(error: ProxyUrlError) -> Self {
        match error {
            ProxyUrlError::NoUrl(error) | ProxyUrlError::Scheme(error) => error,
        }
    }
}

/// A proxy.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    protocol: Protocol,
    /// Scheme, host and port.
    address: Uri,
    user_and_password: Option<(String, String)>,
    /// What names it.
    origin: &'static str,
}

impl Proxy {
    /// The proxy that a URL means, or a host and a port, which mean plain HTTP. `origin` is what names it.
    pub(crate) fn parse(text: &str, origin: &'static str) -> Result<Self, ProxyUrlError> {
        let text = text.trim();
        let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let no_url = || {
            let reason = "is not the URL of a proxy; expected is SCHEME://HOST[:PORT]".to_owned();
            ProxyUrlError::NoUrl(ProxyError { origin, reason })
        };
        let uri: Uri = full.parse().map_err(|_| no_url())?;
        let (protocol, port) = match uri.scheme_str() {
            Some("http") => (Protocol::Http, 80),
            Some("https") => (Protocol::Https, 443),
            Some("socks5" | "socks5h") => (Protocol::Socks5, 1080),
            other => {
                let scheme = other.unwrap_or_default();
                let reason = format!(
                    "unsupported scheme {scheme:?}; possible are http, https, socks5 and socks5h"
                );
                return Err(ProxyUrlError::Scheme(ProxyError { origin, reason }));
            }
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(no_url)?;
        if !has_possible_port(&uri) {
            return Err(no_url());
        }
        // hyper's connector speaks plain TCP whatever the scheme is; only https makes another difference here.
        let scheme = if protocol == Protocol::Https { "https" } else { "http" };
        let port = uri.port_u16().unwrap_or(port);
        let address = format!("{scheme}://{host}:{port}/").parse().map_err(|_| no_url())?;
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let user_and_password = authority.rsplit_once('@').map(|(user, _)| {
            let (user, password) = user.split_once(':').unwrap_or((user, ""));
            let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
            (decoded(user), decoded(password))
        });
        Ok(Self { protocol, address, user_and_password, origin })
    }

    /// What shows a proxy that is spoken to in HTTP who we are; `None` for others, which would pass it on.
    pub(crate) fn authorization(&self) -> Option<HeaderValue> {
        let user_and_password = self.user_and_password.as_ref();
        let (user, password) = user_and_password.filter(|_| self.protocol != Protocol::Socks5)?;
        let value = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        let mut value = HeaderValue::try_from(value).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Host and port.
    pub(crate) fn host_and_port(&self) -> &str {
        self.address.authority().map_or("", |authority| authority.as_str())
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.protocol {
            Protocol::Http => "http",
            Protocol::Https => "https",
            Protocol::Socks5 => "socks5",
        };
        write!(f, "proxy {scheme}://{} ({})", self.host_and_port(), self.origin)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        Proxies::read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    /// Through which proxy a URL is reached: nothing for none, else the proxy or what is wrong with it.
    fn way(variables: &[(&str, &str)], url: &str) -> String {
        match proxies(variables).to(&url.parse().unwrap()) {
            Ok(proxy) => proxy.map(|proxy| proxy.to_string()).unwrap_or_default(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_scheme_of_the_url_says_which_variable_counts() {
        let both = [("HTTPS_PROXY", "http://s:1"), ("HTTP_PROXY", "p")];
        assert_eq!(way(&both, "https://api.example"), "proxy http://s:1 (HTTPS_PROXY)");
        assert_eq!(way(&both, "http://api.example"), "proxy http://p:80 (HTTP_PROXY)");
        assert_eq!(way(&both[1..], "https://api.example"), "");
        assert_eq!(way(&both[..1], "http://api.example"), "");
        // The variable in capitals counts more, unless it is empty.
        let small = [("https_proxy", "https://small"), ("HTTPS_PROXY", "capital")];
        assert_eq!(way(&small, "https://api.example"), "proxy http://capital:80 (HTTPS_PROXY)");
        let small = [("https_proxy", "https://small"), ("HTTPS_PROXY", "")];
        assert_eq!(way(&small, "https://api.example"), "proxy https://small:443 (https_proxy)");
        // What curl knows besides.
        assert_eq!(way(&[("ALL_PROXY", "http://p")], "https://api.example"), "");
    }

    #[test]
    fn what_no_proxy_lists_and_loopback_are_reached_directly() {
        let with = |exceptions| [("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", exceptions)];
        let is_direct = |exceptions, url| way(&with(exceptions), url).is_empty();
        assert!(is_direct("10.96.0.0/12", "https://10.96.0.1:443"));
        assert!(!is_direct("10.96.0.0/12", "https://10.112.0.1"));
        // Without a port in the URL it is that of the scheme.
        assert!(is_direct("api.example:443", "https://api.example"));
        assert!(!is_direct("api.example:443", "https://api.example:6443"));
        for loopback in ["https://127.0.0.1:6443", "https://localhost", "https://[::1]:6443"] {
            assert!(is_direct("", loopback), "{loopback}");
        }
        let small = [("https_proxy", "http://p:1"), ("no_proxy", "api.example")];
        assert_eq!(way(&small, "https://api.example"), "");
    }

    #[test]
    fn a_cgi_script_uses_no_http_proxy() {
        let cgi =
            [("HTTP_PROXY", "http://p"), ("HTTPS_PROXY", "http://p"), ("REQUEST_METHOD", "GET")];
        assert!(way(&cgi, "http://api.example").contains("REQUEST_METHOD"));
        assert_eq!(way(&cgi, "https://api.example"), "proxy http://p:80 (HTTPS_PROXY)");
    }

    #[test]
    fn what_is_no_proxy_is_ignored_or_refused() {
        let no_ports = ["http://p:abc", "http://me:secret@p:99999", "http://[fd00::1]:x"];
        for ignored in ["http://", "http://a b", "://", "http://:80"].into_iter().chain(no_ports) {
            assert_eq!(way(&[("HTTPS_PROXY", ignored)], "https://api.example"), "", "{ignored}");
        }
        let ftp = [("HTTPS_PROXY", "ftp://secret@p"), ("NO_PROXY", "direct.example")];
        assert_eq!(
            way(&ftp, "https://api.example"),
            "HTTPS_PROXY: unsupported scheme \"ftp\"; possible are http, https, socks5 and socks5h"
        );
        // It is not needed there.
        assert_eq!(way(&ftp, "https://direct.example"), "");
    }

    #[test]
    fn passwords_are_sent_and_not_shown() {
        let text = "http://us%40er:pass%3Aword@[fd00::1]:3128/path";
        let proxy = Proxy::parse(text, "proxy-url").ok().unwrap();
        assert_eq!(
            format!("{proxy} {proxy:?}"),
            "proxy http://[fd00::1]:3128 (proxy-url) ".repeat(2).trim()
        );
        let basic = format!("Basic {}", STANDARD.encode("us@er:pass:word"));
        let sent = proxy.authorization().unwrap();
        assert_eq!((sent.to_str().unwrap(), sent.is_sensitive()), (&*basic, true));
        // A SOCKS proxy would pass it on to the server.
        let proxy = Proxy::parse("socks5://me:secret@p", "proxy-url").ok().unwrap();
        assert_eq!(proxy.authorization(), None);
        let proxy = Proxy::parse("socks5h://p", "proxy-url").ok().unwrap();
        assert_eq!(proxy.to_string(), "proxy socks5://p:1080 (proxy-url)");
        assert_eq!(proxy.authorization(), None);
    }
}
