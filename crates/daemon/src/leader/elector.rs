//! Carries out what an [`Election`] wants, and publishes the result.
//!
//! Invariants: the fence is closed before it is published that leadership is lost, and before the lease is given back;
//! an elector that is dropped gives nothing back, as after a crash; a lease held in our name is given back only if it is
//! still ours.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_writes::Jitter;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::election::{Answer, Election, LeaseRequest, Moment, News, Todo, released};
use super::lease::LeaseClient;
use super::record::{Lease, Record};
use crate::clock::Clock;
use crate::fence::FenceKeeper;
use crate::metrics::Metrics;

/// How long the last event may take, which only delays a process that wants to end.
const LAST_EVENT: Duration = Duration::from_secs(1);

/// Where a scheduler stands in leader election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leadership {
    /// Another scheduler leads, or none.
    Standby,
    /// This scheduler leads.
    Leading,
    /// It led, and could not renew the lease in time, or its core hung.
    Lost,
    /// It ended in order.
    Ended,
}

/// Keeps trying to lead.
pub(crate) struct Elector {
    pub(crate) election: Election,
    pub(crate) lease: LeaseClient,
    pub(crate) clock: Clock,
    pub(crate) fence: FenceKeeper,
    pub(crate) leadership: watch::Sender<Leadership>,
    pub(crate) metrics: Arc<Metrics>,
    /// Whether the core thread hangs, so that leading would be pointless.
    pub(crate) core_hangs: watch::Receiver<bool>,
    /// Who events are from.
    pub(crate) component: String,
    /// How long to wait for an answer.
    pub(crate) timeout: Duration,
    /// How long to try to give the lease back.
    pub(crate) release_within: Duration,
    /// The lease as it was read or written last.
    pub(crate) held: Option<Lease>,
    /// Whether something was sent that may have made the lease ours.
    pub(crate) has_written: bool,
    pub(crate) jitter: Jitter,
}

/// The request to end has arrived.
struct StopSignal;

impl Elector {
    /// Contends, leads, and ends when leadership is lost or `stop` becomes true.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        tracing::info!(lock = self.lease.describe(), "Attempting to acquire leader lease...");
        let (seen, mut sightings) = watch::channel(None);
        let mut follower = Some(Follower(tokio::spawn(self.lease.clone().follow(seen))));
        loop {
            if *self.core_hangs.borrow_and_update() {
                if self.election.is_leading() {
                    break self.lose("the scheduling core hangs");
                }
                // Another scheduler can decide, so it should lead instead.
                tokio::select! {
                    biased;
                    _ = stop.wait_for(|stop| *stop) => break,
                    // A watchdog that has ended will not take it back.
                    moves = self.core_hangs.wait_for(|hangs| !hangs) => if moves.is_err() { break },
                }
            }
            match self.election.next(self.now()) {
                Todo::GiveUp => break self.lose("context deadline exceeded"),
                Todo::Wait(until) => {
                    let until = Instant::now() + self.clock.until(until);
                    tokio::select! {
                        biased;
                        _ = stop.wait_for(|stop| *stop) => break,
                        Ok(()) = sightings.changed() => {
                            let sighting = sightings.borrow_and_update().clone();
                            self.glimpse(sighting);
                        }
                        // An error means that nothing watches any more, as when everything ends.
                        Ok(()) = self.core_hangs.changed() => {}
                        () = tokio::time::sleep_until(until) => {}
                    }
                }
                Todo::Ask(ask, give_up) => {
                    let limit = give_up.map(|at| Instant::now() + self.clock.until(at));
                    if let Err(StopSignal) = self.attempt(ask, limit, &mut stop).await {
                        break;
                    }
                    if self.election.is_leading() {
                        follower = None;
                    }
                }
            }
        }
        drop(follower);
        self.end().await;
    }

    fn now(&self) -> Moment {
        Moment { at: self.clock.now(), wall: Clock::wall() }
    }

    fn glimpse(&mut self, record: Option<Record>) {
        if let Some(record) = record {
            self.election.glimpse(record, self.clock.now());
        }
    }

    /// One try, which may take several requests.
    async fn attempt(
        &mut self,
        mut ask: LeaseRequest,
        limit: Option<Instant>,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(), StopSignal> {
        loop {
            let answer = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return Err(StopSignal),
                answer = self.carry_out(&ask, limit) => answer,
            };
            let was_leading = self.election.is_leading();
            let n_slow = self.election.n_slow();
            let found = matches!(answer, Answer::Found(_));
            let step = self.election.take(answer, self.now(), self.jitter.next_share());
            if self.election.n_slow() > n_slow {
                self.metrics.count_slow_renewal();
            }
            let news = match step {
                Err(next) => {
                    ask = next;
                    continue;
                }
                Ok(news) => news,
            };
            // Leadership that was found to be another's closes it; a renewal moves it.
            self.fence.open_until(self.election.writes_until());
            let lock = self.lease.describe();
            match news {
                News::Acquired => {
                    tracing::info!(lock, "Successfully acquired lease");
                    self.metrics.set_leading(true);
                    self.record_event("became leader", self.timeout);
                    self.leadership.send_replace(Leadership::Leading);
                }
                News::Renewed => tracing::debug!(target: "V5", lock, "Successfully renewed lease"),
                News::NotAcquired => {
                    if found {
                        let holder = self.election.observed_holder();
                        tracing::debug!(target: "V4", lock, holder, "Lease is held by and has not yet expired");
                    }
                    if !was_leading {
                        tracing::debug!(target: "V4", lock, "Failed to acquire lease");
                    }
                    if found && !was_leading {
                        tokio::select! {
                            biased;
                            _ = stop.wait_for(|stop| *stop) => return Err(StopSignal),
                            () = self.announce_standby() => {}
                        }
                    }
                }
            }
            return Ok(());
        }
    }

    /// Lets clients know this standby, in the lease as it was just found. It does without where that fails, as when the holder has
    /// renewed it meanwhile, and tries again with the next look at the lease.
    async fn announce_standby(&mut self) {
        let Some(held) = &self.held else { return };
        let (identity, now) = (self.election.identity(), Clock::wall());
        match self.lease.announce_standby(held, identity, now, self.timeout).await {
            Ok(None) => {}
            Ok(announced) => self.held = announced,
            Err(error) => {
                let lock = self.lease.describe();
                tracing::debug!(target: "V4", lock, err = %error, "Standby was not announced");
            }
        }
    }

    async fn carry_out(&mut self, ask: &LeaseRequest, limit: Option<Instant>) -> Answer {
        let left = limit.map(|limit| limit.saturating_duration_since(Instant::now()));
        let timeout = left.map_or(self.timeout, |left| left.min(self.timeout));
        let lock = self.lease.describe();
        let result = match ask {
            LeaseRequest::Read => self.lease.read(timeout).await,
            LeaseRequest::Create(record) => {
                self.has_written = true;
                self.lease.create(record, timeout).await
            }
            LeaseRequest::Update(record) => {
                self.has_written = true;
                // Nothing is updated before it was read or created.
                let Some(held) = self.held.clone() else { return Answer::Failed };
                self.lease.replace(held, record, timeout).await
            }
        };
        match (ask, result) {
            (LeaseRequest::Read, Ok(lease)) => {
                let record = lease.record();
                self.held = Some(lease);
                Answer::Found(record)
            }
            (LeaseRequest::Create(_) | LeaseRequest::Update(_), Ok(lease)) => {
                self.held = Some(lease);
                Answer::Written
            }
            (LeaseRequest::Read, Err(error)) if error.code() == Some(404) => Answer::Missing,
            (LeaseRequest::Read, Err(error)) => {
                tracing::error!(err = %error, lock, "Error retrieving lease lock");
                Answer::Failed
            }
            (LeaseRequest::Create(_), Err(error)) => {
                tracing::error!(err = %error, lock, "Error initially creating lease lock");
                Answer::Failed
            }
            (LeaseRequest::Update(_), Err(error)) if self.election.is_optimistic() => {
                tracing::debug!(lock, err = %error, "Failed to update lease optimistically, falling back to slow path");
                Answer::Failed
            }
            (LeaseRequest::Update(_), Err(error)) => {
                tracing::error!(err = %error, lock, "Failed to update lease");
                Answer::Failed
            }
        }
    }

    /// The lease could not be renewed in time, or must not be.
    fn lose(&mut self, why: &str) {
        self.fence.give_up();
        self.metrics.set_leading(false);
        let lock = self.lease.describe();
        tracing::info!(lock, err = why, "Failed to renew lease");
        self.leadership.send_replace(Leadership::Lost);
    }

    /// Gives the lease back if it is ours.
    async fn end(mut self) {
        self.fence.give_up();
        let was_leading = self.held.is_some() && *self.leadership.borrow() != Leadership::Standby;
        if self.has_written {
            let give_up = Instant::now() + self.release_within;
            if tokio::time::timeout_at(give_up, self.release()).await.is_err() {
                let lock = self.lease.describe();
                tracing::error!(err = "context deadline exceeded", lock, "Failed to release lease");
            }
        }
        self.metrics.set_leading(false);
        let last_event =
            was_leading.then(|| self.record_event("stopped leading", LAST_EVENT)).flatten();
        self.leadership.send_if_modified(|leadership| {
            let is_lost = *leadership == Leadership::Lost;
            if !is_lost {
                *leadership = Leadership::Ended;
            }
            !is_lost
        });
        if let Some(event) = last_event {
            // It is bounded in time, and its failure was logged.
            let _ = event.await;
        }
    }

    async fn release(&mut self) {
        let lock = self.lease.describe();
        let lease = match self.lease.read(self.timeout).await {
            Ok(lease) => lease,
            Err(error) if error.code() == Some(404) => {
                return tracing::info!(lock, "lease lock not found");
            }
            Err(error) => {
                return tracing::error!(err = %error, lock, "error retrieving resource lock");
            }
        };
        // Parity: the reference goes by what it saw last, and so may take the lease away from its successor.
        let record = lease.record();
        if record.holder != self.election.identity() {
            return;
        }
        let free = released(&record, Clock::wall());
        if let Err(error) = self.lease.replace(lease, &free, self.timeout).await {
            tracing::error!(err = %error, lock, "Failed to release lease");
        }
    }

    fn record_event(&self, what: &str, timeout: Duration) -> Option<JoinHandle<()>> {
        let held = self.held.clone()?;
        let (lease, component) = (self.lease.clone(), self.component.clone());
        let message = format!("{} {what}", self.election.identity());
        Some(tokio::spawn(async move {
            lease.record_event(&held, &component, &message, Clock::wall(), timeout).await;
        }))
    }
}

/// Ends with its owner.
struct Follower(JoinHandle<()>);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}
