//! Writes of an allocation without an answer: the connection broke, time was up, or the server failed.
//!
//! Parity: the reference takes such a write for failed and gives the devices to the next pod. If the write was carried out,
//! two claims have the same devices until the watch reports it. Here the claim stays in flight until it is clear.
//!
//! Invariant: a claim that is read unchanged proves nothing, since the write may arrive later. Then the same revision is
//! written again: only one of both writes can succeed, and reading the claim again shows which.

use std::time::Duration;

use kube_scheduler_devices::api::Allocation;
use kube_scheduler_framework::api::Object;

use super::{kinds, writes};

/// How often a claim is read, and how long after each other.
const MAX_LOOKS: u32 = 30;
const PAUSE: Duration = Duration::from_secs(1);

/// A write for which it is not known whether it was carried out.
pub(super) struct UnclearWrite {
    /// The error text if that remains so.
    pub(super) text: String,
    n_looks: u32,
}

impl UnclearWrite {
    pub(super) fn new(text: String) -> Self {
        Self { text, n_looks: 0 }
    }

    /// How long to wait before the claim is read; `None` if it was read often enough.
    pub(super) fn next_look(&mut self) -> Option<Duration> {
        let is_first = self.n_looks == 0;
        self.n_looks += 1;
        (self.n_looks <= MAX_LOOKS).then_some(if is_first { Duration::ZERO } else { PAUSE })
    }
}

/// What a claim shows of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteEvidence {
    /// It was carried out.
    Ours,
    /// The claim is as it was before.
    Nothing,
    /// Another client has changed the claim, so the write is refused if it arrives.
    Other,
}

impl WriteEvidence {
    /// What `read` shows of the write that gave `before` the allocation, or none, and reserved it for the consumer with this UID.
    pub(super) fn of(
        read: &Object,
        before: &Object,
        allocation: Option<&Allocation>,
        consumer_uid: &str,
    ) -> Self {
        if read.resource_version == before.resource_version {
            return Self::Nothing;
        }
        let is_reserved = writes::is_reserved_for(read, consumer_uid);
        let is_allocated = match allocation {
            Some(allocation) => writes::has_allocation(read, allocation),
            None => kinds::is_allocated(read),
        };
        if is_reserved && is_allocated { Self::Ours } else { Self::Other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_read_at_once_and_then_every_second() {
        let mut unclear = UnclearWrite::new("no answer".to_owned());
        assert_eq!(unclear.next_look(), Some(Duration::ZERO));
        for _ in 1..MAX_LOOKS {
            assert_eq!(unclear.next_look(), Some(PAUSE));
        }
        assert_eq!(unclear.next_look(), None);
    }
}
