//! What is free on a node, in one word: a scan that compares it with what a pod needs reads an eighth of the memory that
//! the exact amounts take.
//!
//! Invariants: every lane holds less than 2^15, so that the bit above it is set if a difference is below zero; what
//! is free is rounded down and what is needed up, so that [`Headroom::surely_has`] never says yes where the exact
//! amounts say no.

/// The bit above each lane.
const GUARDS: u64 = 0x8000_8000_8000_8000;
const LANE: u64 = 0x7FFF;
/// What one unit of a lane is: pods, milli-CPU, bytes of memory, bytes of ephemeral storage.
const UNITS: [i64; 4] = [1, 16, 32 << 20, 128 << 20];

/// Free room for pods, CPU, memory and ephemeral storage, each in units of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headroom(u64);

impl Default for Headroom {
    /// Nothing is free.
    fn default() -> Self {
        Self(GUARDS)
    }
}

/// What a pod needs, in the same units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequiredHeadroom(u64);

impl Headroom {
    /// What is `free`: pods, milli-CPU, bytes of memory, bytes of ephemeral storage. Nothing is free of what is
    /// over-committed.
    pub(crate) fn new(free: [i64; 4]) -> Self {
        let lanes = free.iter().zip(UNITS).map(|(free, unit)| (free.max(&0) / unit) as u64);
        Self(packed(lanes.map(|units| units.min(LANE))) | GUARDS)
    }

    /// `true` if one more pod with these requests certainly fits. `false` decides nothing: exact amounts have to be compared.
    #[inline]
    pub fn surely_has(self, needed: RequiredHeadroom) -> bool {
        self.0.wrapping_sub(needed.0) & GUARDS == GUARDS
    }

    /// Whether one more pod with these requests certainly fits on each of `nodes`.
    #[inline]
    pub fn all_have(nodes: &[Self], needed: RequiredHeadroom) -> bool {
        nodes.iter().fold(GUARDS, |all, free| all & free.0.wrapping_sub(needed.0)) == GUARDS
    }
}

impl RequiredHeadroom {
    /// One pod with these requests; zero and less is no request. `None` when an amount is too large for this form.
    pub fn new(milli_cpu: i64, memory: i64, ephemeral_storage: i64) -> Option<Self> {
        let amounts = [1, milli_cpu, memory, ephemeral_storage];
        let lanes = amounts.iter().zip(UNITS).map(|(amount, unit)| {
            let amount = amount.max(&0);
            (amount / unit + i64::from(amount % unit != 0)) as u64
        });
        let is_small = lanes.clone().all(|units| units <= LANE);
        is_small.then(|| Self(packed(lanes)))
    }
}

fn packed(lanes: impl Iterator<Item = u64>) -> u64 {
    lanes.enumerate().fold(0, |word, (at, units)| word | units << (16 * at))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amount(unit: i64) -> impl Strategy<Value = i64> {
        prop_oneof![-5_i64..5, Just(unit), 0..unit * 40, 0..unit << 17, any::<i64>()]
    }

    proptest! {
        #![proptest_config(crate::tests::cases(2_000))]

        #[test]
        fn yes_means_yes(
            free in (amount(1), amount(16), amount(32 << 20), amount(128 << 20)),
            needs in (amount(16), amount(32 << 20), amount(128 << 20)),
        ) {
            let headroom = Headroom::new([free.0, free.1, free.2, free.3]);
            let has = |free: i64, need: i64| need <= 0 || need <= free;
            let fits = free.0 >= 1 && has(free.1, needs.0) && has(free.2, needs.1) && has(free.3, needs.2);
            if let Some(needed) = RequiredHeadroom::new(needs.0, needs.1, needs.2) {
                prop_assert!(fits || !headroom.surely_has(needed));
                prop_assert_eq!(Headroom::all_have(&[headroom; 3], needed), headroom.surely_has(needed));
            }
        }

        /// Two units more than is needed are always enough to be sure.
        #[test]
        fn plenty_is_seen(cpu in 0_i64..100_000, memory in 0_i64..1 << 38) {
            let needed = RequiredHeadroom::new(cpu, memory, 0).unwrap();
            let free = [1, cpu + 32, memory + (64 << 20), 0];
            prop_assert!(Headroom::new(free).surely_has(needed));
            prop_assert!(!Headroom::default().surely_has(needed));
            prop_assert!(!Headroom::all_have(&[Headroom::new(free), Headroom::new([0; 4])], needed));
        }
    }
}
