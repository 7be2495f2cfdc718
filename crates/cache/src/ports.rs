//! Host ports in use on a node (`docs/spec/core.md` §15).

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::HostPort;

/// The address that stands for all addresses.
const ANY_ADDRESS: &str = "0.0.0.0";

/// A set of (port, protocol, address).
///
/// Quirk: it is a set, not a multiset. When two pods hold the same triple, which no scheduler allows but a pod that
/// names its node can bring about, removing one of them frees it. Pinned by `one_of_two_holders_frees_the_port`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostPorts {
    /// A tree, because a tenant could have thousands of ports move thousands of others in a list.
    taken: BTreeSet<HostPort>,
}

impl HostPorts {
    /// An empty set: no port is in use.
    pub const fn new() -> Self {
        Self { taken: BTreeSet::new() }
    }

    /// Number of distinct triples of address, protocol and port.
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

    /// Whether exactly this triple of address, protocol and port is in use.
    pub fn contains(&self, port: &HostPort) -> bool {
        self.taken.contains(port)
    }

    /// Whether `port` cannot be taken: the address `0.0.0.0` conflicts with every address, any other with itself and
    /// `0.0.0.0`. O(log ports + holders of the number).
    pub fn conflicts(&self, port: &HostPort) -> bool {
        if self.taken.is_empty() {
            return false;
        }
        let HostPort { port: number, protocol, .. } = port;
        let first = HostPort { port: *number, protocol: protocol.clone(), ip: Arc::default() };
        let is_same = |taken: &&HostPort| taken.port == *number && taken.protocol == *protocol;
        let mut holders = self.taken.range(first..).take_while(is_same);
        *port.ip == *ANY_ADDRESS && holders.clone().next().is_some()
            || holders.any(|taken| taken.ip == port.ip || *taken.ip == *ANY_ADDRESS)
    }

    /// Takes ports. O(log ports of the node) for each.
    pub fn insert(&mut self, ports: &[HostPort]) {
        let ports = ports.iter().cloned();
        if self.taken.is_empty() {
            // In one go, which is several times as fast.
            self.taken = ports.collect();
        } else {
            self.taken.extend(ports);
        }
    }

    /// Frees ports, whatever the number of pods that use them. As [`insert`](Self::insert).
    pub fn remove(&mut self, ports: &[HostPort]) {
        for port in ports {
            self.taken.remove(port);
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
        ] {
            assert_eq!(
                ports(&[taken]).conflicts(&port(wanted)),
                expected,
                "{wanted} on a node with {taken}"
            );
        }
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
            steps in prop::collection::vec((any::<bool>(), prop::collection::vec((1_i32..12, 0_usize..2, 0_usize..2), 0..20)), 1..12),
        ) {
            let (mut ports, mut model) = (HostPorts::new(), BTreeSet::new());
            for (comes, changed) in steps {
                let changed = changed.into_iter().map(|(number, protocol, ip)| {
                    let (protocol, ip) = (["TCP", "UDP"][protocol], ["0.0.0.0", "10.0.0.1"][ip]);
                    HostPort { ip: ip.into(), protocol: protocol.into(), port: number }
                });
                let changed: Vec<_> = changed.collect();
                for port in &changed {
                    let entry = (port.port, port.protocol.to_string(), port.ip.to_string());
                    if comes { model.insert(entry) } else { model.remove(&entry) };
                }
                if comes { ports.insert(&changed) } else { ports.remove(&changed) }
                let found = ports.iter().map(|port| (port.port, port.protocol.to_string(), port.ip.to_string()));
                prop_assert!(found.eq(model.iter().cloned()));
            }
        }
    }
}
