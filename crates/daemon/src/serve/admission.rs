//! Which connections stay when there are more than there is room for.
//!
//! A connection counts as unauthenticated until its first authenticated request, and as a known caller's from then on. Each of
//! the two kinds has a limit of its own. Within it a new connection is always admitted: when the limit is reached, the oldest
//! connection of the address that has the most is closed. So a client that holds many connections displaces its own, and a probe,
//! which takes milliseconds, gets through.
//!
//! Invariants: the limits hold at any time; nothing waits here; addresses of one IPv6 network of 64 bits count as one, as a
//! single machine can have them all.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};

use kube_scheduler_api_types::lock;
use tokio::sync::Notify;

/// How many connections there is room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    /// Connections whose caller has not authenticated.
    pub(crate) unauthenticated: usize,
    /// Those of them that come from one address.
    pub(crate) unauthenticated_of_one_address: usize,
    /// Connections whose caller has authenticated.
    pub(crate) authenticated: usize,
}

/// The connections there are.
#[derive(Clone, Debug)]
pub(crate) struct Admission(Arc<Mutex<Connections>>);

/// A connection's place, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    number: u64,
    admission: Admission,
    evicted: Arc<Notify>,
}

#[derive(Debug)]
struct Connections {
    limits: ConnectionLimits,
    /// Numbers grow, so the order is that of age.
    all: BTreeMap<u64, Connection>,
    next: u64,
}

#[derive(Debug)]
struct Connection {
    address: IpAddr,
    is_authenticated: bool,
    evicted: Arc<Notify>,
}

impl Admission {
    pub(crate) fn new(limits: ConnectionLimits) -> Self {
        Self(Arc::new(Mutex::new(Connections { limits, all: BTreeMap::new(), next: 0 })))
    }

    /// Takes in a connection from this address, and says whether another had to go for it.
    pub(crate) fn admit(&self, address: IpAddr) -> (Place, bool) {
        let address = network(address);
        let mut connections = self.lock();
        let ConnectionLimits { unauthenticated, unauthenticated_of_one_address, .. } =
            connections.limits;
        let of_one = connections.make_room(unauthenticated_of_one_address, |connection| {
            !connection.is_authenticated && connection.address == address
        });
        let of_all =
            connections.make_room(unauthenticated, |connection| !connection.is_authenticated);
        let number = connections.next;
        connections.next += 1;
        let evicted = Arc::new(Notify::new());
        connections.all.insert(
            number,
            Connection { address, is_authenticated: false, evicted: evicted.clone() },
        );
        (Place { number, admission: self.clone(), evicted }, of_one || of_all)
    }

    /// How many connections there are whose caller has authenticated, and how many others.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let connections = self.lock();
        let known = connections.all.values().filter(|connection| connection.is_authenticated);
        let n_known = known.count();
        (n_known, connections.all.len() - n_known)
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        lock(&self.0)
    }
}

impl Connections {
    /// Makes room for one more connection of those for which `is_one` is true, of which there may be `limit`. Returns whether one had
    /// to go.
    fn make_room(&mut self, limit: usize, is_one: impl Fn(&Connection) -> bool) -> bool {
        // By address: how many, and which is the oldest.
        let mut by_address: BTreeMap<IpAddr, (usize, Reverse<u64>)> = BTreeMap::new();
        let mut n = 0;
        for (&number, connection) in self.all.iter().filter(|(_, connection)| is_one(connection)) {
            n += 1;
            by_address.entry(connection.address).or_insert((0, Reverse(number))).0 += 1;
        }
        if n < limit.max(1) {
            return false;
        }
        if let Some((_, Reverse(oldest))) = by_address.into_values().max()
            && let Some(connection) = self.all.remove(&oldest)
        {
            connection.evicted.notify_one();
        }
        true
    }
}

impl Place {
    /// Counts the connection as that of an authenticated caller from now on.
    pub(crate) fn mark_authenticated(&self) {
        let mut connections = self.admission.lock();
        if connections.all.get(&self.number).is_none_or(|connection| connection.is_authenticated) {
            return;
        }
        let limit = connections.limits.authenticated;
        connections.make_room(limit, |connection| connection.is_authenticated);
        if let Some(connection) = connections.all.get_mut(&self.number) {
            connection.is_authenticated = true;
        }
    }

    /// Waits until another connection needs the place.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.admission.lock().all.remove(&self.number);
    }
}

/// What counts as one address.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use futures::FutureExt;
    use proptest::prelude::*;

    use super::*;

    fn admission(
        unauthenticated: usize,
        unauthenticated_of_one_address: usize,
        authenticated: usize,
    ) -> Admission {
        Admission::new(ConnectionLimits {
            unauthenticated,
            unauthenticated_of_one_address,
            authenticated,
        })
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn is_evicted(place: &Place) -> bool {
        !place.admission.lock().all.contains_key(&place.number)
    }

    #[test]
    fn the_busiest_address_makes_room() {
        let admission = admission(4, 3, 4);
        let (probe, _) = admission.admit(address(1));
        let flood: Vec<Place> = (0..100).map(|_| admission.admit(address(2)).0).collect();
        assert!(!is_evicted(&probe), "the probe is older than all of the flood");
        let left: Vec<usize> = (0..100).filter(|&at| !is_evicted(&flood[at])).collect();
        assert_eq!(left, [97, 98, 99], "the newest stay");
        assert_eq!(flood[0].evicted().now_or_never(), Some(()));
        assert_eq!(flood[99].evicted().now_or_never(), None);
        // Another address finds a place at once.
        let (other, displaced) = admission.admit(address(3));
        assert!(displaced && is_evicted(&flood[97]) && !is_evicted(&other) && !is_evicted(&probe));
    }

    #[test]
    fn a_place_that_is_left_is_free() {
        let admission = admission(1, 1, 1);
        for _ in 0..10 {
            let (_place, displaced) = admission.admit(address(1));
            assert!(!displaced);
        }
    }

    #[test]
    fn known_callers_are_out_of_reach_of_strangers() {
        let admission = admission(2, 2, 2);
        let known: Vec<Place> = (0..3)
            .map(|_| {
                let (place, _) = admission.admit(address(1));
                place.mark_authenticated();
                place.mark_authenticated();
                place
            })
            .collect();
        assert_eq!(known.iter().map(is_evicted).collect::<Vec<_>>(), [true, false, false]);
        let _strangers: Vec<Place> = (0..10).map(|_| admission.admit(address(1)).0).collect();
        assert_eq!(known.iter().map(is_evicted).collect::<Vec<_>>(), [true, false, false]);
        // One that was evicted meanwhile does not come back.
        known[0].mark_authenticated();
        assert!(is_evicted(&known[0]));
        assert_eq!(known[0].admission.counts(), (2, 2));
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), address(1));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Admit(u8),
        Know(usize),
        Leave(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0_u8..4).prop_map(Step::Admit),
            1 => any::<usize>().prop_map(Step::Know),
            1 => any::<usize>().prop_map(Step::Leave),
        ]
    }

    proptest! {
        #[test]
        fn the_limits_hold_and_the_newest_stays(
            unauthenticated in 1_usize..6,
            of_one in 1_usize..6,
            known in 1_usize..4,
            steps in prop::collection::vec(step(), 1..60),
        ) {
            let admission = admission(unauthenticated, of_one, known);
            let mut places: Vec<Place> = Vec::new();
            for step in steps {
                match step {
                    Step::Admit(last) => {
                        places.push(admission.admit(address(last)).0);
                        prop_assert!(!is_evicted(&places[places.len() - 1]));
                    }
                    Step::Know(at) if !places.is_empty() => places[at % places.len()].mark_authenticated(),
                    Step::Leave(at) if !places.is_empty() => drop(places.swap_remove(at % places.len())),
                    Step::Know(_) | Step::Leave(_) => {}
                }
                let connections = admission.lock();
                let of = |is_one: &dyn Fn(&Connection) -> bool| connections.all.values().filter(|connection| is_one(connection)).count();
                prop_assert!(of(&|connection| !connection.is_authenticated) <= unauthenticated);
                prop_assert!(of(&|connection| connection.is_authenticated) <= known);
                for last in 0..4 {
                    prop_assert!(of(&|connection| !connection.is_authenticated && connection.address == address(last)) <= of_one);
                }
                // Every place is of a connection that is still there.
                let there: BTreeSet<u64> = places.iter().map(|place| place.number).collect();
                prop_assert!(connections.all.keys().all(|number| there.contains(number)));
            }
        }
    }
}
