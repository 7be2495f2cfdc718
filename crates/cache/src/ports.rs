//! Host ports in use on a node (`docs/spec/core.md` §15).
//!
//! Invariant: entries are sorted and distinct; the address is never empty and the protocol is never empty.

use std::sync::Arc;

use kube_scheduler_api_types::HostPort;

use crate::room::room_to_keep;

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

/// Of more ports than these, none is put into its place by itself: a tenant could have thousands move thousands of others.
const FEW: usize = 8;

fn normalised(port: &HostPort) -> HostPort {
    let or_default = |text: &Arc<str>, default: &str| {
        if text.is_empty() { default.into() } else { text.clone() }
    };
    HostPort {
        ip: or_default(&port.ip, ANY_ADDRESS),
        protocol: or_default(&port.protocol, DEFAULT_PROTOCOL),
        port: port.port,
    }
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

    /// Takes ports. Ports of zero and below are ignored. O(ports of the node) for more than a few, however they are ordered.
    pub fn insert(&mut self, ports: &[HostPort]) {
        let new = ports.iter().filter(|port| port.port > 0);
        if ports.len() > FEW {
            self.taken.extend(new.map(normalised));
            // What was there is sorted, so that this merges.
            self.taken.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
            self.taken.dedup();
            return;
        }
        for port in new {
            if let Err(at) = self.find(port) {
                self.taken.insert(at, normalised(port));
            }
        }
    }

    /// Frees ports, whatever the number of pods that use them. As [`insert`](Self::insert).
    pub fn remove(&mut self, ports: &[HostPort]) {
        if ports.len() > FEW {
            let mut gone: Vec<_> = ports.iter().map(sort_key).collect();
            gone.sort_unstable();
            self.taken.retain(|taken| gone.binary_search(&sort_key(taken)).is_err());
        } else {
            for port in ports {
                if let Ok(at) = self.find(port) {
                    self.taken.remove(at);
                }
            }
        }
        // Otherwise the memory of a pod with thousands of ports, or of a group with some each, would stay with every node that
        // it was ever tried on.
        if self.taken.is_empty() {
            self.taken = Vec::new();
        } else if let Some(room) = room_to_keep(self.taken.len(), self.taken.capacity()) {
            self.taken.shrink_to(room);
        }
    }

    fn find(&self, port: &HostPort) -> Result<usize, usize> {
        self.taken.binary_search_by(|taken| sort_key(taken).cmp(&sort_key(port)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn port(text: &str) -> HostPort {
        let mut parts = text.split('/');
        let mut next = || parts.next().unwrap_or_default();
        HostPort { ip: next().into(), protocol: next().into(), port: next().parse().unwrap() }
    }

    fn ports(list: &[&str]) -> HostPorts {
        let mut ports = HostPorts::new();
        ports.insert(&list.iter().map(|text| port(text)).collect::<Vec<_>>());
        ports
    }

    #[test]
    fn no_memory_is_kept_of_many_ports_that_are_free() {
        let many: Vec<HostPort> =
            (1..10_000).map(|at| port(&format!("10.0.0.1/TCP/{at}"))).collect();
        let mut ports = ports(&["/TCP/80", "10.0.0.2/TCP/81"]);
        ports.insert(&many);
        assert_eq!(ports.len(), 2 + many.len());
        ports.remove(&many);
        assert_eq!(ports.len(), 2);
        assert!(ports.taken.capacity() <= 4, "{}", ports.taken.capacity());
        // A few at a time, as of the members of a group.
        many.chunks(4).for_each(|few| ports.insert(few));
        many.chunks(4).for_each(|few| ports.remove(few));
        assert_eq!(ports.len(), 2);
        assert!(ports.taken.capacity() <= 12, "{}", ports.taken.capacity());
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
        taken.remove(&[port("10.0.0.1/TCP/80")]);
        assert!(!taken.conflicts(&port("10.0.0.1/TCP/80")));
        assert!(taken.conflicts(&port("10.0.0.2/TCP/80")));
    }

    proptest! {
        #![proptest_config(crate::tests::cases(64))]

        #[test]
        fn few_and_many_ports_behave_like_a_set(
            steps in prop::collection::vec((any::<bool>(), prop::collection::vec((0_i32..12, 0_usize..3, 0_usize..3), 0..20)), 1..12),
        ) {
            let (mut ports, mut model) = (HostPorts::new(), BTreeSet::new());
            for (comes, changed) in steps {
                let changed = changed.into_iter().map(|(number, protocol, ip)| {
                    let (protocol, ip) = (["", "TCP", "UDP"][protocol], ["", "0.0.0.0", "10.0.0.1"][ip]);
                    HostPort { ip: ip.into(), protocol: protocol.into(), port: number }
                });
                let changed: Vec<_> = changed.collect();
                for port in changed.iter().filter(|port| port.port > 0) {
                    let entry = (port.port, protocol(port).to_owned(), address(port).to_owned());
                    if comes { model.insert(entry) } else { model.remove(&entry) };
                }
                if comes { ports.insert(&changed) } else { ports.remove(&changed) }
                let found = ports.iter().map(|port| (port.port, port.protocol.to_string(), port.ip.to_string()));
                prop_assert!(found.eq(model.iter().cloned()));
            }
        }
    }
}
