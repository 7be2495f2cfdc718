//! One simulation under way: the server, the schedulers, the lease between them, and time.
//!
//! A step is one thing that users, controllers, the network or faults do, and then a little work of all schedulers. All of it
//! is a function of the seed; a fault that is left out draws its numbers nevertheless, so that what remains stays similar.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use kube_scheduler_api_types::Timestamp;
use kube_scheduler_engine::{Engine, Input};

use super::asking::Asking;
use super::audit::{self, Cause};
use super::chaos::Dial;
use super::claims::Devices;
use super::instance::{Instance, Role};
use super::requests::{Request, Stage};
use super::server::Server;
use super::setup::Setup;
use super::trace::Trace;
use super::{Counts, Fault, Options};
use crate::history::Numbers;

/// How long a lease is good.
const LEASE: Duration = Duration::from_secs(15);
/// How long a leader goes on without having renewed its lease.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often a leader renews.
const RENEW_EVERY: Duration = Duration::from_secs(2);
/// Steps between two complete recomputations.
const RECOMPUTE_EVERY: u64 = 16;
/// Decisions between two that are judged by another engine.
const JUDGE_EVERY: u64 = 8;

/// How often a question comes after a little work.
const ASKED_ONCE_IN: u64 = 4;

/// Who leads, as the server knows it.
#[derive(Debug, Default)]
struct Lease {
    holder: Option<(usize, u64)>,
    renewed: Option<Timestamp>,
}

/// A place for a scheduler, which lives there more than once.
#[derive(Debug)]
struct Seat {
    instance: Option<Instance>,
    life: u64,
    /// When the next life begins.
    back_at: Timestamp,
    /// Until when it cannot reach the lease.
    cut_off_until: Timestamp,
}

/// One simulation.
#[derive(Debug)]
pub(super) struct Simulation {
    pub(super) seed: u64,
    pub(super) numbers: Numbers,
    pub(super) now: Timestamp,
    pub(super) server: Server,
    pub(super) requests: Vec<Request>,
    pub(super) trace: Trace,
    pub(super) counts: Counts,
    pub(super) n_created: u64,
    /// How many objects were written that are no pods or nodes, and not about devices.
    pub(super) n_put: u64,
    /// Whether faults have ended.
    pub(super) is_healing: bool,
    pub(super) setup: Setup,
    pub(super) devices: Devices,
    pub(super) asking: Asking,
    dial: Arc<Dial>,
    without: BTreeSet<Fault>,
    seats: Vec<Seat>,
    lease: Lease,
    step: u64,
    merges_recreations: bool,
    lags: bool,
}

impl Simulation {
    pub(super) fn new(seed: u64, options: &Options) -> Result<Self> {
        let dial = Dial::new(seed);
        let mut numbers = Numbers::new(seed);
        let now = Timestamp::parse("2026-01-01T00:00:00Z").context("start time")?;
        let setup = Setup::new(seed, options.shares_evaluations, &dial)?;
        let n_seats = 1 + numbers.below(3);
        let seat = |_| Seat { instance: None, life: 0, back_at: now, cut_off_until: now };
        let server = Server::new(numbers.one_in(2));
        let (merges_recreations, lags) = (numbers.one_in(3), numbers.one_in(3));
        let has_devices = !lags && !options.without.contains(&Fault::Devices);
        let mut simulation = Self {
            seed,
            numbers,
            now,
            server,
            requests: Vec::new(),
            trace: Trace::new(options.keeps_trace),
            counts: Counts::default(),
            n_created: 0,
            n_put: 0,
            is_healing: false,
            setup,
            devices: Devices::new(seed, has_devices),
            asking: Asking::new(seed, options.asks_questions, &dial),
            dial,
            without: options.without.clone(),
            seats: (0..n_seats).map(seat).collect(),
            lease: Lease::default(),
            step: 0,
            merges_recreations,
            lags,
        };
        simulation.populate()?;
        simulation.start()?;
        Ok(simulation)
    }

    /// All schedulers start and see everything, and one of them leads.
    fn start(&mut self) -> Result<()> {
        self.keep_time()?;
        for seat in 0..self.seats.len() {
            for follower in 0..self.kinds().len() {
                while self.receive(seat, follower)? {}
            }
        }
        self.keep_time()
    }

    /// Whether a fault may happen. It never does while everything heals.
    pub(super) fn suffers(&self, fault: Fault) -> bool {
        !self.is_healing && !self.without.contains(&fault)
    }

    pub(super) fn n_seats(&self) -> usize {
        self.seats.len()
    }

    pub(super) fn instance(&mut self, seat: usize) -> Option<&mut Instance> {
        self.seats.get_mut(seat)?.instance.as_mut()
    }

    pub(super) fn instances(&self) -> impl Iterator<Item = &Instance> {
        self.seats.iter().filter_map(|seat| seat.instance.as_ref())
    }

    pub(super) fn life(&self, seat: usize) -> u64 {
        self.seats.get(seat).map_or(0, |seat| seat.life)
    }

    pub(super) fn lives(&self, seat: usize, life: u64) -> bool {
        self.seats.get(seat).is_some_and(|seat| seat.instance.is_some() && seat.life == life)
    }

    pub(super) fn is_frozen(&self, seat: usize) -> bool {
        let instance = self.seats.get(seat).and_then(|seat| seat.instance.as_ref());
        instance.is_some_and(|instance| instance.frozen_until.is_some())
    }

    pub(super) fn lease_is_held_by(&self, seat: usize) -> bool {
        self.lease.holder == Some((seat, self.life(seat)))
    }

    /// The engines of the schedulers, without anything else.
    pub(super) fn into_engines(self) -> Vec<Engine> {
        let instances = self.seats.into_iter().filter_map(|seat| seat.instance);
        instances.map(|instance| instance.engine).collect()
    }

    /// The scheduler that leads.
    pub(super) fn leader(&mut self) -> Option<&mut Instance> {
        let (seat, life) = self.lease.holder?;
        if !self.lives(seat, life) {
            return None;
        }
        self.instance(seat)
    }

    /// One step.
    pub(super) fn step(&mut self) -> Result<()> {
        self.step += 1;
        self.counts.n_steps += 1;
        self.dial.set_step(self.step);
        self.now = self.now + Duration::from_millis(self.numbers.below(400));
        let now = self.now;
        self.trace.add(format!("step {} at {now}", self.step));
        if self.numbers.one_in(3) {
            self.fail()?;
        } else {
            self.disturb()?;
        }
        self.disturb_devices()?;
        self.keep_time()?;
        for _ in 0..self.numbers.below(16) {
            self.work()?;
            self.ask_once_in(ASKED_ONCE_IN)?;
        }
        self.check()
    }

    fn check(&self) -> Result<()> {
        self.check_devices().with_context(|| format!("after step {}", self.step))?;
        for instance in self.instances() {
            let named = || format!("{} after step {}", instance.name, self.step);
            audit::tables(&instance.engine, &instance.shown).with_context(named)?;
            audit::sleepers(&instance.sleepers, &instance.shown).with_context(named)?;
            if self.step.is_multiple_of(RECOMPUTE_EVERY) {
                audit::recomputed(&instance.engine).with_context(named)?;
            }
        }
        Ok(())
    }

    /// A little work of one scheduler.
    fn work(&mut self) -> Result<()> {
        let n_seats = self.seats.len() as u64;
        let seat = usize::try_from(self.numbers.below(n_seats))?;
        let what = self.numbers.below(12);
        if self.is_frozen(seat) && what < 10 {
            return Ok(());
        }
        match what {
            0..=3 => {
                let at = usize::try_from(self.numbers.below(self.kinds().len() as u64))?;
                // Pods matter most.
                let at = if self.numbers.one_in(3) { 0 } else { at };
                let mut n_left = self.numbers.below(4);
                while self.receive(seat, at)? && n_left > 0 {
                    n_left -= 1;
                }
                Ok(())
            }
            4..=6 => {
                let mut n_left = self.numbers.below(3);
                // The leader is who it is about.
                let seat = self.lease.holder.map_or(seat, |(leader, _)| leader);
                while !self.is_frozen(seat) && self.decide(seat)? && n_left > 0 {
                    n_left -= 1;
                }
                Ok(())
            }
            7 | 8 => {
                let seat = self.lease.holder.map_or(seat, |(leader, _)| leader);
                if !self.is_frozen(seat) {
                    self.send(seat)?;
                }
                Ok(())
            }
            9 => self.end_work(seat).map(drop),
            _ => {
                self.progress_any_request()?;
                self.progress_any_request().map(drop)
            }
        }
    }

    /// Asks each scheduler something once in `n` times, whether it leads or not.
    pub(super) fn ask_once_in(&mut self, n: u64) -> Result<()> {
        let instances = self.seats.iter().filter_map(|seat| seat.instance.as_ref());
        for instance in instances {
            self.asking.once_in(n, &instance.engine, instance.now)?;
        }
        Ok(())
    }

    pub(super) fn receive(&mut self, seat: usize, follower: usize) -> Result<bool> {
        let Some(instance) = self.seats.get_mut(seat).and_then(|seat| seat.instance.as_mut())
        else {
            return Ok(false);
        };
        instance.receive(follower, &self.server, &mut self.numbers, &mut self.trace)
    }

    pub(super) fn decide(&mut self, seat: usize) -> Result<bool> {
        let holds_lease = self.lease_is_held_by(seat);
        let lags = self.lags && self.suffers(Fault::Leader);
        let Some(instance) = self.seats.get_mut(seat).and_then(|seat| seat.instance.as_mut())
        else {
            return Ok(false);
        };
        // A scheduler that does not wait until it has caught up must be right about what it knows nevertheless.
        if !holds_lease
            || !(instance.may_decide(&self.server)
                || (lags && instance.is_synced() && !instance.is_leaving))
        {
            return Ok(false);
        }
        instance.audit.has_caught_up = true;
        // What time alone undoes is undone before the decision.
        if instance.engine.next_deadline().is_some_and(|deadline| deadline <= instance.now) {
            instance.feed(Input::TimePassed, Cause::News, &mut self.trace)?;
        }
        let n = instance.audit.n_decisions;
        let is_judged = n.is_multiple_of(JUDGE_EVERY) && instance.engine.has_ready();
        let before = is_judged.then(|| super::verdict::Before::of(instance));
        let Some(turn) = instance.decide(&mut self.trace, &mut self.asking)? else {
            return Ok(false);
        };
        self.counts.count(&turn.result);
        if let Some(before) = before {
            before.judge(&turn, &self.setup, self.now)?;
            self.counts.n_judged += 1;
        }
        Ok(true)
    }

    pub(super) fn feed(&mut self, seat: usize, input: Input, cause: Cause) -> Result<()> {
        let Some(instance) = self.seats.get_mut(seat).and_then(|seat| seat.instance.as_mut())
        else {
            return Ok(());
        };
        instance.feed(input, cause, &mut self.trace)
    }

    /// Clocks, timers, the lease, and schedulers that come back.
    pub(super) fn keep_time(&mut self) -> Result<()> {
        for seat in 0..self.seats.len() {
            let now = self.now;
            if self.seats[seat].instance.is_none() && self.seats[seat].back_at <= now {
                self.begin(seat)?;
            }
            let Some(instance) = self.instance(seat) else { continue };
            if instance.frozen_until.is_some_and(|until| until > now) {
                continue;
            }
            instance.frozen_until = None;
            instance.now = now;
            self.elect(seat);
            let Some(instance) = self.instance(seat) else { continue };
            if instance.engine.next_deadline().is_some_and(|deadline| deadline <= now)
                && instance.role != Role::Standby
            {
                self.feed(seat, Input::TimePassed, Cause::News)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, seat: usize) -> Result<()> {
        let (engine, sleepers) = self.setup.engine()?;
        self.seats[seat].life += 1;
        let name = format!("s{seat}.{}", self.seats[seat].life);
        self.trace.add(format!("  {name} starts"));
        let outbox = self.setup.outbox(self.seats[seat].life, self.now);
        let dial = self.dial.clone();
        let mut instance = Instance::new(
            name,
            engine,
            outbox,
            dial,
            self.kinds(),
            self.merges_recreations,
            self.now,
        );
        instance.sleepers = sleepers;
        instance.audit.preempts_in_background = self.setup.preempts_in_background();
        self.seats[seat].instance = Some(instance);
        Ok(())
    }

    /// A scheduler ends without any ceremony.
    fn end(&mut self, seat: usize, why: &str) {
        let pause = Duration::from_millis(self.numbers.below(8_000));
        let back_at = if self.is_healing { self.now } else { self.now + pause };
        if let Some(instance) = self.seats[seat].instance.take() {
            self.trace.add(format!("  {} ends: {why}", instance.name));
            self.counts.n_ends += 1;
            self.seats[seat].back_at = back_at;
            self.orphan_requests(seat);
        }
    }

    /// Holds on to the lease, lets go of it, or takes it.
    fn elect(&mut self, seat: usize) {
        let me = (seat, self.seats[seat].life);
        let (now, revision) = (self.now, self.server.revision());
        let is_cut_off = !self.is_healing && self.seats[seat].cut_off_until > now;
        let Some(role) = self.seats[seat].instance.as_ref().map(|instance| instance.role) else {
            return;
        };
        match role {
            Role::Leader { renewed, barrier } => {
                let since = now.saturating_since(renewed);
                if self.lease.holder != Some(me) || since >= RENEW_DEADLINE {
                    return self.end(seat, "the lease is lost");
                }
                if self.is_done(seat) {
                    self.lease = Lease::default();
                    return self.end(seat, "it is done");
                }
                if since >= RENEW_EVERY && !is_cut_off {
                    self.lease.renewed = Some(now);
                    if let Some(instance) = self.instance(seat) {
                        instance.role = Role::Leader { renewed: now, barrier };
                    }
                }
            }
            Role::Standby => {
                let is_free = self.lease.holder.is_none()
                    || self.lease.renewed.is_none_or(|at| now.saturating_since(at) >= LEASE);
                let Some(instance) = self.instance(seat) else { return };
                if is_free && !is_cut_off && instance.is_synced() {
                    instance.role = Role::Leader { renewed: now, barrier: revision };
                    let name = instance.name.clone();
                    self.trace.add(format!("  {name} leads from revision {revision} on"));
                    self.counts.n_leaders += 1;
                    self.lease = Lease { holder: Some(me), renewed: Some(now) };
                }
            }
        }
    }

    /// Whether a scheduler that was asked to stop has got all its answers.
    fn is_done(&self, seat: usize) -> bool {
        let life = self.life(seat);
        let is_awaited = |request: &Request| {
            request.seat == seat && request.life == life && !matches!(request.stage, Stage::Late)
        };
        let instance = self.seats[seat].instance.as_ref();
        instance.is_some_and(|instance| {
            instance.is_leaving
                && !instance.outbox.has_pod_writes()
                && instance.works.is_empty()
                && instance.own_bindings.is_empty()
                && !self.requests.iter().any(is_awaited)
        })
    }

    /// A fault, such as a broken watch or a crash.
    fn fail(&mut self) -> Result<()> {
        let n_seats = self.seats.len() as u64;
        let seat = usize::try_from(self.numbers.below(n_seats))?;
        let kind = usize::try_from(self.numbers.below(self.kinds().len() as u64))?;
        let kind = if self.numbers.one_in(2) { 0 } else { kind };
        let amount = self.numbers.below(40);
        match self.numbers.below(16) {
            0 | 1 if self.suffers(Fault::Watches) => {
                if let Some(instance) = self.instance(seat)
                    && let Some(follower) = instance.followers.get_mut(kind)
                {
                    follower.interrupt();
                    self.trace.add(format!("  a watch of seat {seat} breaks off"));
                }
            }
            2 if self.suffers(Fault::Relists) => {
                self.server.forget_history(super::server::KINDS[kind]);
                self.trace.add("  the server forgets".to_owned());
            }
            3 | 4 if self.suffers(Fault::Duplicates) => {
                let mut inputs = Vec::new();
                if let Some(instance) = self.instance(seat)
                    && let Some(follower) = instance.followers.get_mut(kind)
                {
                    follower.repeat(&mut inputs);
                }
                for input in inputs {
                    self.feed(seat, input, Cause::News)?;
                }
            }
            5 if self.suffers(Fault::Crashes) && self.numbers.one_in(3) => {
                self.end(seat, "it crashes");
            }
            6 if self.suffers(Fault::Leader) => {
                self.seats[seat].cut_off_until = self.now + Duration::from_secs(amount);
            }
            7 if self.suffers(Fault::Leader) && self.numbers.one_in(3) => {
                if let Some(instance) = self.instance(seat)
                    && matches!(instance.role, Role::Leader { .. })
                {
                    instance.is_leaving = true;
                    self.trace.add(format!("  seat {seat} is asked to stop"));
                }
            }
            8 if self.suffers(Fault::Pauses) => {
                let until = self.now + Duration::from_millis(amount * 300);
                if let Some(instance) = self.instance(seat) {
                    instance.frozen_until = Some(until);
                }
            }
            9 | 10 if self.suffers(Fault::Clocks) => {
                let seconds = if self.numbers.one_in(6) { amount * 300 } else { amount };
                self.leap(Duration::from_secs(seconds));
            }
            11..=13 if self.suffers(Fault::Plugins) => {
                self.dial.set_once_in(self.numbers.pick(&["2", "4", "10", "30"]).parse()?);
            }
            _ => self.disturb()?,
        }
        Ok(())
    }

    /// Time makes a jump. The leader may have held on to its lease meanwhile.
    fn leap(&mut self, time: Duration) {
        self.now = self.now + time;
        let now = self.now;
        self.trace.add(format!("  the clock leaps to {now}"));
        if !self.numbers.one_in(4)
            && let Some(leader) = self.leader()
            && let Role::Leader { barrier, .. } = leader.role
        {
            leader.role = Role::Leader { renewed: now, barrier };
            self.lease.renewed = Some(now);
        }
    }

    /// Faults end: from here on everything works, and nothing new is done. Every node changes a little, so that
    /// pods that the failing plugin has rejected are tried again: it waits for any event.
    pub(super) fn heal(&mut self) -> Result<()> {
        self.is_healing = true;
        self.dial.set_once_in(0);
        self.trace.add("faults end".to_owned());
        if self.server.all("Node").next().is_none() {
            self.put_node()?;
        }
        let nodes: Vec<_> = self.server.all("Node").map(|(key, _)| key.clone()).collect();
        for node in nodes {
            self.server.change("Node", &node, |node| {
                node["metadata"]["labels"]["example.com/faults"] = "ended".into();
            })?;
        }
        // Work that waits for an object and for no time goes on.
        let services: Vec<_> = self.server.all("Service").map(|(key, _)| key.clone()).collect();
        for service in services {
            self.server.change("Service", &service, |service| {
                service["metadata"]["labels"]["example.com/faults"] = "ended".into();
            })?;
        }
        for seat in &mut self.seats {
            seat.back_at = seat.back_at.min(self.now);
            if let Some(instance) = &mut seat.instance {
                instance.frozen_until = None;
            }
        }
        Ok(())
    }

    /// Time passes, with the leader holding on to its lease.
    pub(super) fn let_pass(&mut self, time: Duration) {
        self.now = self.now + time;
        let now = self.now;
        if let Some(leader) = self.leader()
            && let Role::Leader { barrier, .. } = leader.role
        {
            leader.role = Role::Leader { renewed: now, barrier };
            self.lease.renewed = Some(now);
        }
    }
}
