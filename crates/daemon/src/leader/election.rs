//! The rules of leader election as a state machine: no clock, no network, no randomness of its own.
//!
//! The owner of an [`Election`] asks it what to do ([`next`](Election::next)), does that, and reports the answer
//! ([`take`](Election::take)). Time is an argument; only differences between times of the same process count, so that
//! the clocks of two machines need to run at about the same speed but need not agree.
//!
//! Invariants:
//! - A lease that names another holder is touched only after it was seen unchanged for as long as it says it lasts.
//! - [`writes_until`](Election::writes_until) lies before the moment at which any other candidate that follows these rules
//!   can take the lease: it counts from before the last renewal was sent, others count from after they saw it.
//! - Whatever is lost, late or refused, there is always a next try or an end, and never more than one request at a time.

use std::time::Duration;

use kube_scheduler_api_types::Timestamp;

use super::record::Record;

/// How much longer than a retry period the pause between two tries for another's lease may get.
const JITTER: f64 = 1.2;

/// The times of leader election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    /// How long others wait after the last renewal. Leases hold whole seconds of it.
    pub(crate) lease_duration: Duration,
    /// How long the leader tries to renew before it stops leading.
    pub(crate) renew_deadline: Duration,
    /// The pause between two tries.
    pub(crate) retry_period: Duration,
}

/// The present, by two clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// A clock that never jumps: what waits are measured by.
    pub(crate) at: Timestamp,
    /// What is written into the lease, for people.
    pub(crate) wall: Timestamp,
}

/// A request about the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeaseRequest {
    /// Read it.
    Read,
    /// Create it.
    Create(Record),
    /// Replace the version that was read or written last.
    Update(Record),
}

/// What to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Todo {
    /// Send this request, and report the answer. No later than at the time given it counts as failed.
    Ask(LeaseRequest, Option<Timestamp>),
    /// Nothing before this time.
    Wait(Timestamp),
    /// It is over: the lease could not be renewed in time.
    GiveUp,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The lease says this.
    Found(Record),
    /// There is no lease.
    Missing,
    /// What was to be written is written.
    Written,
    /// Anything else; the request may have been carried out nevertheless.
    Failed,
}

/// What changed with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The lease is ours.
    Acquired,
    /// The lease goes on being ours.
    Renewed,
    /// The try failed; there will be another one.
    NotAcquired,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Standby,
    /// `deadline` is when the round of tries under way has failed, if one is.
    Leading {
        deadline: Option<Timestamp>,
    },
    Over,
}

/// The request under way.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LeaseRequestState {
    Nothing,
    /// Replacing what we wrote last without looking.
    Optimistic(Record, Timestamp),
    Reading,
    Writing(Record, Timestamp),
}

/// What a candidate knows and does.
#[derive(Debug)]
pub(crate) struct Election {
    identity: String,
    timing: Timing,
    phase: Phase,
    trying: LeaseRequestState,
    next_try: Timestamp,
    observed: Record,
    /// When `observed` was first seen, or written by us.
    observed_at: Option<Timestamp>,
    /// When the last write that succeeded was sent.
    held_since: Option<Timestamp>,
    n_slow: u64,
}

impl Election {
    /// A candidate that makes its first try at once.
    pub(crate) const fn new(identity: String, timing: Timing, now: Timestamp) -> Self {
        Self {
            identity,
            timing,
            phase: Phase::Standby,
            trying: LeaseRequestState::Nothing,
            next_try: now,
            observed: Record {
                holder: String::new(),
                duration_seconds: 0,
                acquired: None,
                renewed: None,
                transitions: 0,
            },
            observed_at: None,
            held_since: None,
            n_slow: 0,
        }
    }

    /// Who this is.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// Who held the lease when it was last seen.
    pub(crate) fn observed_holder(&self) -> &str {
        &self.observed.holder
    }

    /// Whether the lease is ours and not given up.
    pub(crate) const fn is_leading(&self) -> bool {
        matches!(self.phase, Phase::Leading { .. })
    }

    /// Whether the request under way replaces the lease without having read it.
    pub(crate) const fn is_optimistic(&self) -> bool {
        matches!(self.trying, LeaseRequestState::Optimistic(..))
    }

    /// Until when the leader may change the cluster, if it leads.
    pub(crate) fn writes_until(&self) -> Option<Timestamp> {
        if !self.is_leading() {
            return None;
        }
        let lasts = Duration::from_secs(self.timing.lease_duration.as_secs());
        self.held_since.map(|since| since + lasts.min(self.timing.renew_deadline))
    }

    /// How often the lease had to be read before it was renewed.
    pub(crate) const fn n_slow(&self) -> u64 {
        self.n_slow
    }

    /// What to do now. After [`Todo::Ask`], [`take`](Self::take) must follow first.
    pub(crate) fn next(&mut self, now: Moment) -> Todo {
        match self.phase {
            Phase::Over => return Todo::GiveUp,
            Phase::Leading { deadline: Some(deadline) } if deadline <= now.at => {
                self.phase = Phase::Over;
                return Todo::GiveUp;
            }
            Phase::Leading { .. } | Phase::Standby => {}
        }
        if now.at < self.next_try {
            let deadline = match self.phase {
                Phase::Leading { deadline: Some(deadline) } => deadline,
                _ => self.next_try,
            };
            return Todo::Wait(self.next_try.min(deadline));
        }
        let mut give_up = None;
        if let Phase::Leading { deadline } = &mut self.phase {
            // Counts from the first try since the last renewal. Later tries keep it: they must not give the leader more time.
            let deadline = *deadline.get_or_insert(now.at + self.timing.renew_deadline);
            self.next_try = now.at + self.timing.retry_period;
            give_up = Some(deadline);
        }
        let ask = if self.is_ours() && self.is_valid(now.at) {
            let record = self.renewed(&self.observed, now);
            self.trying = LeaseRequestState::Optimistic(record.clone(), now.at);
            LeaseRequest::Update(record)
        } else {
            self.trying = LeaseRequestState::Reading;
            LeaseRequest::Read
        };
        Todo::Ask(ask, give_up)
    }

    /// What follows from an answer: another request at once, or news. `share`, from 0 to 1, spreads the next try.
    pub(crate) fn take(
        &mut self,
        answer: Answer,
        now: Moment,
        share: f64,
    ) -> Result<News, LeaseRequest> {
        match (std::mem::replace(&mut self.trying, LeaseRequestState::Nothing), answer) {
            (
                LeaseRequestState::Optimistic(record, sent)
                | LeaseRequestState::Writing(record, sent),
                Answer::Written,
            ) => Ok(self.written(record, sent, now.at)),
            // Another candidate may have the lease, or the write has succeeded and only its answer is lost. Reading tells.
            (LeaseRequestState::Optimistic(..), _) => {
                self.trying = LeaseRequestState::Reading;
                Err(LeaseRequest::Read)
            }
            (LeaseRequestState::Reading, Answer::Missing) => {
                let record = Record { acquired: Some(now.wall), transitions: 0, ..self.fresh(now) };
                self.trying = LeaseRequestState::Writing(record.clone(), now.at);
                Err(LeaseRequest::Create(record))
            }
            (LeaseRequestState::Reading, Answer::Found(found)) => {
                // Before `observe`, which replaces the record that this compares with.
                if self.is_leading() && self.was_taken(&found) {
                    self.phase = Phase::Over;
                }
                self.observe(found, now.at);
                if self.phase == Phase::Over {
                    return Ok(News::NotAcquired);
                }
                // Whether it is valid is counted from when it was first seen, not by the times in it: clocks of other machines
                // may differ.
                if !self.observed.holder.is_empty() && self.is_valid(now.at) && !self.is_ours() {
                    return Ok(self.failed(now.at, share));
                }
                let record = if self.is_ours() {
                    self.n_slow += 1;
                    self.renewed(&self.observed, now)
                } else {
                    let transitions = self.observed.transitions.saturating_add(1);
                    Record { acquired: Some(now.wall), transitions, ..self.fresh(now) }
                };
                self.trying = LeaseRequestState::Writing(record.clone(), now.at);
                Err(LeaseRequest::Update(record))
            }
            (
                LeaseRequestState::Reading
                | LeaseRequestState::Writing(..)
                | LeaseRequestState::Nothing,
                _,
            ) => Ok(self.failed(now.at, share)),
        }
    }

    /// The lease was seen by chance. A standby uses it to be there when the lease falls free; what it does then begins
    /// with reading the lease, so that old news do no harm.
    pub(crate) fn glimpse(&mut self, record: Record, now: Timestamp) {
        if self.phase != Phase::Standby || self.trying != LeaseRequestState::Nothing {
            return;
        }
        if self.observe(record, now) {
            if self.observed.holder.is_empty() {
                self.next_try = now;
            } else {
                self.be_there(now);
            }
        }
    }

    fn written(&mut self, record: Record, sent: Timestamp, now: Timestamp) -> News {
        self.observed = record;
        self.observed_at = Some(now);
        self.held_since = Some(sent);
        self.next_try = now + self.timing.retry_period;
        match std::mem::replace(&mut self.phase, Phase::Leading { deadline: None }) {
            Phase::Leading { .. } => News::Renewed,
            Phase::Standby | Phase::Over => News::Acquired,
        }
    }

    fn failed(&mut self, now: Timestamp, share: f64) -> News {
        if self.phase == Phase::Standby {
            self.next_try = now + self.timing.retry_period.mul_f64(1.0 + JITTER * share);
            self.be_there(now);
        }
        News::NotAcquired
    }

    /// Makes the next try no later than when the current holder's lease runs out.
    fn be_there(&mut self, now: Timestamp) {
        if let Some(end) = self.end_of_observed()
            && !self.observed.holder.is_empty()
            && end > now
        {
            self.next_try = self.next_try.min(end);
        }
    }

    /// Whether it is news.
    fn observe(&mut self, record: Record, now: Timestamp) -> bool {
        let is_news = self.observed_at.is_none() || self.observed != record;
        if is_news {
            self.observed = record;
            self.observed_at = Some(now);
        }
        is_news
    }

    /// Whether another candidate leads, or has led since our last write. What they did has not been waited for.
    fn was_taken(&self, found: &Record) -> bool {
        let is_others = !found.holder.is_empty() && found.holder != self.identity;
        is_others || found.transitions != self.observed.transitions
    }

    fn is_ours(&self) -> bool {
        self.observed_at.is_some() && self.observed.holder == self.identity
    }

    fn end_of_observed(&self) -> Option<Timestamp> {
        let seconds = u64::try_from(self.observed.duration_seconds).unwrap_or(0);
        self.observed_at.map(|since| since + Duration::from_secs(seconds))
    }

    fn is_valid(&self, now: Timestamp) -> bool {
        self.end_of_observed().is_some_and(|end| end > now)
    }

    fn renewed(&self, held: &Record, now: Moment) -> Record {
        Record { acquired: held.acquired, transitions: held.transitions, ..self.fresh(now) }
    }

    fn fresh(&self, now: Moment) -> Record {
        Record {
            holder: self.identity.clone(),
            duration_seconds: i32::try_from(self.timing.lease_duration.as_secs())
                .unwrap_or(i32::MAX),
            acquired: None,
            renewed: Some(now.wall),
            transitions: 0,
        }
    }
}

/// What a lease says once its holder has given it back.
pub(crate) fn released(held: &Record, wall: Timestamp) -> Record {
    Record {
        holder: String::new(),
        duration_seconds: 1,
        acquired: Some(wall),
        renewed: Some(wall),
        transitions: held.transitions,
    }
}

#[cfg(test)]
mod tests;
