//! Every reason to wake up without an input, with its time: one table for the whole engine.
//!
//! Each part enters its own deadlines and takes them out when they no longer hold; [`take_due`](Deadlines::take_due) gives
//! what is due. A deadline that was taken is removed, so handling due deadlines ends even if a part forgets to clear one.

use std::collections::BTreeSet;

use kube_scheduler_api_types::Timestamp;

use crate::binding::Serial;

/// Why the engine wakes up. Of several reasons that are due at once, the one that stands first here is handled first,
/// however long the others have been due: a wait that ended must not be saved by a task that runs late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeUp {
    /// The first wait on Permit of this binding has lasted as long as it may.
    PermitEnds(Serial),
    /// A PreBind task of this binding asked to go on at this time.
    TaskGoesOn(Serial),
    /// Members of a group have been held back for so long that they say why.
    GroupIsMissed,
    /// A gang has held room for as long as it may.
    HoldEnds,
    /// A pod's backoff is over, or a pod has been unschedulable for too long.
    QueueMoves,
}

type Times = BTreeSet<(Timestamp, Serial)>;

/// All deadlines. Within a kind the earliest comes first; of several at the same time, the one of the binding that began first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines {
    permits: Times,
    tasks: Times,
    groups: Option<Timestamp>,
    hold: Option<Timestamp>,
    queue: Option<Timestamp>,
}

impl Deadlines {
    /// Wakes the engine up at `at`. The queue has one deadline, which this replaces, and so have groups and what is held; bindings may
    /// have several.
    pub(crate) fn set(&mut self, wake_up: WakeUp, at: Timestamp) {
        match wake_up {
            WakeUp::PermitEnds(serial) => {
                self.permits.insert((at, serial));
            }
            WakeUp::TaskGoesOn(serial) => {
                self.tasks.insert((at, serial));
            }
            WakeUp::GroupIsMissed => self.groups = Some(at),
            WakeUp::HoldEnds => self.hold = Some(at),
            WakeUp::QueueMoves => self.queue = Some(at),
        }
    }

    /// Takes a deadline back.
    pub(crate) fn clear(&mut self, wake_up: WakeUp, at: Timestamp) {
        match wake_up {
            WakeUp::PermitEnds(serial) => {
                self.permits.remove(&(at, serial));
            }
            WakeUp::TaskGoesOn(serial) => {
                self.tasks.remove(&(at, serial));
            }
            WakeUp::GroupIsMissed => self.groups = None,
            WakeUp::HoldEnds => self.hold = None,
            WakeUp::QueueMoves => self.queue = None,
        }
    }

    /// The first deadline of all.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let first = |times: &Times| times.first().map(|(at, _)| *at);
        [first(&self.permits), first(&self.tasks), self.groups, self.hold, self.queue]
            .into_iter()
            .flatten()
            .min()
    }

    /// Takes out what is to be handled next at `now`.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Option<WakeUp> {
        let take = |times: &mut Times| {
            times.first().is_some_and(|(at, _)| *at <= now).then(|| times.pop_first()).flatten()
        };
        if let Some((_, serial)) = take(&mut self.permits) {
            return Some(WakeUp::PermitEnds(serial));
        }
        if let Some((_, serial)) = take(&mut self.tasks) {
            return Some(WakeUp::TaskGoesOn(serial));
        }
        if self.groups.take_if(|at| *at <= now).is_some() {
            return Some(WakeUp::GroupIsMissed);
        }
        if self.hold.take_if(|at| *at <= now).is_some() {
            return Some(WakeUp::HoldEnds);
        }
        self.queue.take_if(|at| *at <= now).map(|_| WakeUp::QueueMoves)
    }

    /// The tables with their numbers of entries. The queue's deadline is counted with the queue.
    pub(crate) fn table_sizes(&self) -> [(&'static str, usize); 2] {
        [
            ("ends of waits on Permit", self.permits.len()),
            ("times at which tasks wake up", self.tasks.len()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn kinds_come_in_their_order_and_times_in_theirs() {
        let mut deadlines = Deadlines::default();
        deadlines.set(WakeUp::QueueMoves, at(1));
        deadlines.set(WakeUp::HoldEnds, at(1));
        deadlines.set(WakeUp::GroupIsMissed, at(1));
        deadlines.set(WakeUp::TaskGoesOn(1), at(2));
        deadlines.set(WakeUp::PermitEnds(3), at(4));
        deadlines.set(WakeUp::PermitEnds(2), at(4));
        deadlines.set(WakeUp::PermitEnds(4), at(3));
        deadlines.set(WakeUp::PermitEnds(5), at(9));
        assert_eq!(deadlines.next(), Some(at(1)));
        let due: Vec<_> = std::iter::from_fn(|| deadlines.take_due(at(5))).collect();
        let permits = [4, 2, 3].map(WakeUp::PermitEnds);
        assert_eq!(due[..3], permits);
        let others =
            [WakeUp::TaskGoesOn(1), WakeUp::GroupIsMissed, WakeUp::HoldEnds, WakeUp::QueueMoves];
        assert_eq!(due[3..], others);
        assert_eq!(deadlines.next(), Some(at(9)));
    }

    #[test]
    fn what_is_cleared_does_not_come() {
        let mut deadlines = Deadlines::default();
        deadlines.set(WakeUp::TaskGoesOn(1), at(2));
        deadlines.set(WakeUp::TaskGoesOn(1), at(3));
        deadlines.set(WakeUp::QueueMoves, at(2));
        deadlines.clear(WakeUp::TaskGoesOn(1), at(2));
        deadlines.clear(WakeUp::QueueMoves, at(2));
        assert_eq!(deadlines.take_due(at(2)), None);
        assert_eq!(deadlines.next(), Some(at(3)));
    }
}
