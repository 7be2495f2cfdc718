//! `NO_PROXY`: the hosts that are reached without a proxy, by the rules of Go's `golang.org/x/net/http/httpproxy`.

use std::net::IpAddr;

/// The hosts that are reached without a proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Exceptions {
    /// Whether `*` is among them.
    all: bool,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    /// Addresses that begin with these bits.
    Network { address: IpAddr, n_bits: u8 },
    /// An address.
    Address { address: IpAddr, port: Port },
    /// What ends with a name.
    Names { suffix: String, port: Port },
    /// A name, and what is below it.
    Tree { name: String, port: Port },
}

/// The port that an entry is about; empty for any.
type Port = String;

impl Exceptions {
    /// Reads a list that is separated by commas.
    pub(super) fn parse(list: &str) -> Self {
        let texts = || list.split(',').map(|text| text.trim().to_lowercase());
        if texts().any(|text| text == "*") {
            return Self { all: true, entries: Vec::new() };
        }
        Self { all: false, entries: texts().filter_map(|text| Entry::parse(&text)).collect() }
    }

    /// Whether this host, which may be an IPv6 address in brackets, is reached without a proxy at this port. Loopback always is.
    pub(super) fn cover(&self, host: &str, port: u16) -> bool {
        if host == "localhost" {
            return true;
        }
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let address: Option<IpAddr> =
            bare.parse().ok().map(|address: IpAddr| address.to_canonical());
        if self.all || address.is_some_and(|address| address.is_loopback()) {
            return true;
        }
        let (host, port) = (host.to_lowercase(), port.to_string());
        self.entries.iter().any(|entry| entry.covers(&host, address, &port))
    }
}

impl Entry {
    /// `None` for what covers nothing.
    fn parse(text: &str) -> Option<Self> {
        if let Some(network) = Self::network(text) {
            return Some(network);
        }
        let (host, port) = host_and_port(text);
        let port = port.to_owned();
        if let Ok(address) = host.parse::<IpAddr>() {
            return Some(Self::Address { address: address.to_canonical(), port });
        }
        let name = host.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(host);
        match name {
            "" => None,
            suffix if suffix.starts_with('.') => {
                Some(Self::Names { suffix: suffix.to_owned(), port })
            }
            name => Some(Self::Tree { name: name.to_owned(), port }),
        }
    }

    fn network(text: &str) -> Option<Self> {
        let (address, n_bits) = text.split_once('/')?;
        let (address, n_bits): (IpAddr, u8) = (address.parse().ok()?, n_bits.parse().ok()?);
        let longest = if address.is_ipv4() { 32 } else { 128 };
        (n_bits <= longest).then_some(Self::Network { address, n_bits })
    }

    fn covers(&self, host: &str, address: Option<IpAddr>, at: &str) -> bool {
        let is_at = |port: &Port| port.is_empty() || port == at;
        match (self, address) {
            (Self::Network { address: network, n_bits }, Some(address)) => {
                is_within(address, *network, *n_bits)
            }
            (Self::Address { address: known, port }, Some(address)) => {
                *known == address && is_at(port)
            }
            (Self::Names { suffix, port }, None) => host.ends_with(suffix) && is_at(port),
            (Self::Tree { name, port }, None) => {
                let above = host.strip_suffix(name.as_str());
                above.is_some_and(|above| above.is_empty() || above.ends_with('.')) && is_at(port)
            }
            // No name means an address, and the other way round.
            _ => false,
        }
    }
}

/// Whether the address begins as the network does.
fn is_within(address: IpAddr, network: IpAddr, n_bits: u8) -> bool {
    let n_bits = u32::from(n_bits);
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let differing = address.to_bits() ^ network.to_bits();
            differing.leading_zeros() >= n_bits
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let differing = address.to_bits() ^ network.to_bits();
            differing.leading_zeros() >= n_bits
        }
        _ => false,
    }
}

/// Splits off the port, which is empty if there is none. Of an address with colons only one in brackets has a port.
fn host_and_port(text: &str) -> (&str, &str) {
    if let Some(rest) = text.strip_prefix('[') {
        return rest.split_once("]:").unwrap_or((text, ""));
    }
    text.split_once(':').filter(|(_, port)| !port.contains(':')).unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(list: &str, host: &str, port: u16) -> bool {
        Exceptions::parse(list).cover(host, port)
    }

    #[test]
    fn names_cover_what_is_below_them() {
        for (entry, covers) in [
            ("example.com", [true, true, false]),
            (".example.com", [false, true, false]),
            ("*.example.com", [false, true, false]),
            (" Example.COM ", [true, true, false]),
            ("other.org,,example.com", [true, true, false]),
            ("ample.com", [false, false, false]),
            ("*", [true, true, true]),
            ("example.com, *", [true, true, true]),
            ("", [false, false, false]),
            // A star within an entry is no wildcard.
            ("*example.com", [false, false, false]),
        ] {
            let hosts = ["example.com", "api.Example.com", "notexample.com"];
            assert_eq!(hosts.map(|host| covered(entry, host, 443)), covers, "{entry}");
        }
    }

    #[test]
    fn ports_narrow_an_entry() {
        for (entry, host) in [
            ("example.com:443", "example.com"),
            (".example.com:443", "api.example.com"),
            ("10.0.0.1:443", "10.0.0.1"),
            ("[fd00::1]:443", "[fd00::1]"),
        ] {
            assert!(covered(entry, host, 443), "{entry}");
            assert!(!covered(entry, host, 6443), "{entry}");
        }
        assert!(covered("example.com:", "example.com", 443));
        assert!(!covered(":443", "example.com", 443));
    }

    #[test]
    fn addresses_and_networks_cover_addresses() {
        for (entry, host, is_covered) in [
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.10", false),
            ("fd00::1", "[fd00::1]", true),
            ("fd00::1", "[fd00:0:0::1]", true),
            ("10.96.0.0/12", "10.111.255.255", true),
            ("10.96.0.0/12", "10.112.0.0", false),
            ("10.96.3.4/12", "10.97.0.1", true),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("0.0.0.0/0", "[2001:db8::1]", false),
            ("192.0.2.1/32", "192.0.2.1", true),
            ("192.0.2.1/33", "192.0.2.1", false),
            ("fd00::/8", "[fdff::1]", true),
            ("fd00::/8", "[fe80::1]", false),
            ("::/0", "[2001:db8::1]", true),
            ("10.0.0.1", "[::ffff:10.0.0.1]", true),
            ("10.0.0.0/8", "[::ffff:10.0.0.1]", true),
            // A name that looks like the end of an address, or a network, is none of it.
            (".0.1", "10.0.0.1", false),
            ("10.0.0.0/8", "10.example.com", false),
        ] {
            assert_eq!(covered(entry, host, 443), is_covered, "{entry} {host}");
        }
    }

    #[test]
    fn loopback_is_always_covered() {
        for host in ["localhost", "127.0.0.1", "127.8.9.10", "[::1]", "[::ffff:127.0.0.1]"] {
            assert!(covered("", host, 6443), "{host}");
        }
        for host in ["localhost.example.com", "128.0.0.1", "[::2]"] {
            assert!(!covered("", host, 6443), "{host}");
        }
    }
}
