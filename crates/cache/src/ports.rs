//! Host ports in use on a node (`docs/spec/core.md` §15).
//!
//! Invariant: the address is never empty and the protocol is never empty.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use kube_scheduler_api_types::HostPort;

/// The address that stands for all addresses.
static ANY_ADDRESS: LazyLock<Arc<str>> = LazyLock::new(|| "0.0.0.0".into());
/// The protocol when none is given.
static DEFAULT_PROTOCOL: LazyLock<Arc<str>> = LazyLock::new(|| "TCP".into());

/// A set of (address, protocol, port).
///
/// Quirk: it is a set, not a multiset. When two pods hold the same triple, which no scheduler allows but a pod that
/// names its node can bring about, removing one of them frees it. Pinned by `one_of_two_holders_frees_the_port`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostPorts {
    /// A tree, because a tenant could have thousands of ports move thousands of others in a list.
    taken: BTreeSet<Taken>,
}

/// A port in use; ordered by its number, then by protocol and address.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Taken(HostPort);

impl Taken {
    fn new(port: &HostPort) -> Self {
        Self(HostPort {
            ip: address(port).clone(),
            protocol: protocol(port).clone(),
            port: port.port,
        })
    }

    fn sort_key(&self) -> (i32, &str, &str) {
        (self.0.port, &self.0.protocol, &self.0.ip)
    }
}

impl Ord for Taken {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sort_key().cmp(&other.sort_key())
    }
}

impl PartialOrd for Taken {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn address(port: &HostPort) -> &Arc<str> {
    if port.ip.is_empty() { &ANY_ADDRESS } else { &port.ip }
}

fn protocol(port: &HostPort) -> &Arc<str> {
    if port.protocol.is_empty() { &DEFAULT_PROTOCOL } else { &port.protocol }
}

impl HostPorts {
    /// No ports.
    pub const fn new() -> Self {
        Self { taken: BTreeSet::new() }
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
        self.taken.iter().map(|taken| &taken.0)
    }

    /// Whether exactly this triple is in use.
    pub fn contains(&self, port: &HostPort) -> bool {
        self.taken.contains(&Taken::new(port))
    }

    /// Whether `port` cannot be taken: the address `0.0.0.0` conflicts with every address, any other with itself and
    /// `0.0.0.0`. Ports of zero and below never conflict. O(log ports + holders of the number).
    pub fn conflicts(&self, port: &HostPort) -> bool {
        if port.port <= 0 || self.taken.is_empty() {
            return false;
        }
        let (protocol, address) = (protocol(port), address(port));
        let first =
            Taken(HostPort { ip: Arc::default(), protocol: protocol.clone(), port: port.port });
        let is_same = |taken: &&Taken| taken.0.port == port.port && taken.0.protocol == *protocol;
        let mut holders = self.taken.range(first..).take_while(is_same);
        *address == *ANY_ADDRESS && holders.clone().next().is_some()
            || holders.any(|Taken(taken)| taken.ip == *address || taken.ip == *ANY_ADDRESS)
    }

    /// Takes ports. Ports of zero and below are ignored. O(log ports of the node) for each.
    pub fn insert(&mut self, ports: &[HostPort]) {
        self.taken.extend(ports.iter().filter(|port| port.port > 0).map(Taken::new));
    }

    /// Frees ports, whatever the number of pods that use them. As [`insert`](Self::insert).
    pub fn remove(&mut self, ports: &[HostPort]) {
        for port in ports {
            self.taken.remove(&Taken::new(port));
        }
        // An empty tree keeps half a kilobyte, on every node that a pod was ever tried on.
        if self.taken.is_empty() {
            self.taken = BTreeSet::new();
        }
    }
}

#[cfg(test)]
mod tests {
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
                    let entry = (port.port, protocol(port).to_string(), address(port).to_string());
                    if comes { model.insert(entry) } else { model.remove(&entry) };
                }
                if comes { ports.insert(&changed) } else { ports.remove(&changed) }
                let found = ports.iter().map(|port| (port.port, port.protocol.to_string(), port.ip.to_string()));
                prop_assert!(found.eq(model.iter().cloned()));
            }
        }
    }
}
