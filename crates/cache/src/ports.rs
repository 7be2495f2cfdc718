//! Host ports in use on a node (`docs/spec/core.md` §15).
//!
//! Invariant: entries are sorted and distinct; the address is never empty and the protocol is never empty.

use std::sync::Arc;

use kube_scheduler_api_types::HostPort;

/// The address that stands for all addresses.
const ANY_ADDRESS: &str = "0.0.0.0";
/// The protocol when none is given.
const DEFAULT_PROTOCOL: &str = "TCP";

/// A set of (address, protocol, port).
///
/// Quirk: it is a set, not a multiset. When two pods hold the same triple, which no scheduler allows but a pod that
/// names its node can bring about, removing one of them frees it. Pinned by `one_of_two_holders_frees_the_port`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostPorts {
    /// Sorted by port, then protocol, then address.
    taken: Vec<HostPort>,
}

fn address(port: &HostPort) -> &str {
    if port.ip.is_empty() { ANY_ADDRESS } else { &port.ip }
}

fn protocol(port: &HostPort) -> &str {
    if port.protocol.is_empty() { DEFAULT_PROTOCOL } else { &port.protocol }
}

fn sort_key(port: &HostPort) -> (i32, &str, &str) {
    (port.port, protocol(port), address(port))
}

impl HostPorts {
    /// No ports.
    pub const fn new() -> Self {
        Self { taken: Vec::new() }
    }

    /// Number of distinct triples.
    pub fn len(&self) -> usize {
        self.taken.len()
    }

    /// Whether no port is in use.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// All triples, sorted by port, protocol and address.
    pub fn iter(&self) -> impl Iterator<Item = &HostPort> {
        self.taken.iter()
    }

    /// Whether exactly this triple is in use.
    pub fn contains(&self, port: &HostPort) -> bool {
        self.find(port).is_ok()
    }

    /// Whether `port` cannot be taken: the address `0.0.0.0` conflicts with every address, any other with itself and
    /// `0.0.0.0`. Ports of zero and below never conflict. O(log ports + holders of the number).
    pub fn conflicts(&self, port: &HostPort) -> bool {
        if port.port <= 0 || self.taken.is_empty() {
            return false;
        }
        let wanted = (port.port, protocol(port));
        let first = self.taken.partition_point(|taken| (taken.port, &*taken.protocol) < wanted);
        let mut holders =
            self.taken[first..].iter().take_while(|taken| (taken.port, &*taken.protocol) == wanted);
        let address = address(port);
        address == ANY_ADDRESS && holders.clone().next().is_some()
            || holders.any(|taken| *taken.ip == *address || &*taken.ip == ANY_ADDRESS)
    }

    /// Takes a port. Ports of zero and below are ignored.
    pub fn insert(&mut self, port: &HostPort) {
        if port.port <= 0 {
            return;
        }
        if let Err(at) = self.find(port) {
            let or_default = |text: &Arc<str>, default: &str| {
                if text.is_empty() { default.into() } else { text.clone() }
            };
            let ip = or_default(&port.ip, ANY_ADDRESS);
            let protocol = or_default(&port.protocol, DEFAULT_PROTOCOL);
            self.taken.insert(at, HostPort { ip, protocol, port: port.port });
        }
    }

    /// Frees a port, whatever the number of pods that use it.
    pub fn remove(&mut self, port: &HostPort) {
        if let Ok(at) = self.find(port) {
            self.taken.remove(at);
        }
    }

    fn find(&self, port: &HostPort) -> Result<usize, usize> {
        self.taken.binary_search_by(|taken| sort_key(taken).cmp(&sort_key(port)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(text: &str) -> HostPort {
        let mut parts = text.split('/');
        let mut next = || parts.next().unwrap_or_default();
        HostPort { ip: next().into(), protocol: next().into(), port: next().parse().unwrap() }
    }

    fn ports(list: &[&str]) -> HostPorts {
        let mut ports = HostPorts::new();
        for text in list {
            ports.insert(&port(text));
        }
        ports
    }

    #[test]
    fn the_wildcard_conflicts_with_every_address() {
        for (taken, wanted, expected) in [
            ("127.0.0.1/TCP/80", "0.0.0.0/TCP/80", true),
            ("0.0.0.0/TCP/80", "127.0.0.1/TCP/80", true),
            ("127.0.0.1/TCP/80", "127.0.0.1/TCP/80", true),
            ("127.0.0.1/TCP/80", "127.0.0.2/TCP/80", false),
            ("0.0.0.0/TCP/80", "0.0.0.0/UDP/80", false),
            ("0.0.0.0/TCP/80", "0.0.0.0/TCP/81", false),
            ("//80", "10.0.0.1/TCP/80", true),
            ("10.0.0.1/TCP/80", "//80", true),
        ] {
            assert_eq!(
                ports(&[taken]).conflicts(&port(wanted)),
                expected,
                "{wanted} on a node with {taken}"
            );
        }
    }

    #[test]
    fn numbers_of_zero_and_below_take_nothing() {
        let taken = ports(&["//0", "//-1"]);
        assert!(taken.is_empty());
        assert!(!ports(&["//80"]).conflicts(&port("//0")));
    }

    #[test]
    fn one_of_two_holders_frees_the_port() {
        let mut taken = ports(&["10.0.0.1/TCP/80", "10.0.0.1/TCP/80", "10.0.0.2/TCP/80"]);
        assert_eq!(taken.len(), 2);
        taken.remove(&port("10.0.0.1/TCP/80"));
        assert!(!taken.conflicts(&port("10.0.0.1/TCP/80")));
        assert!(taken.conflicts(&port("10.0.0.2/TCP/80")));
    }
}
