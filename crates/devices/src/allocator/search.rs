//! The search: depth first, the first complete solution wins (`docs/spec/plugins-dra.md` §8.4 and §8.6).
//!
//! A position is a claim, a request, an alternative and a device of it. Once choices turn out to lead nowhere, the
//! search looks at what devices have in common (`likeness.rs`) and leaves out what must fail for the same reason: a device that
//! is like one that failed at the same place, and requests for which too few devices are left. Neither changes which
//! solution is found first, nor which error: what is left out would visit only devices that were visited without error.

use rustc_hash::FxHashMap;

use crate::inventory::{DeviceRef, NodePools, NodeRef, PoolGeneration};

use super::capacity::{self, Amounts};
use super::choices::{Collector, Kinds};
use super::constraints::ConstraintState;
use super::counters::{ChosenCounters, CounterRefund};
use super::likeness::{Class, Likeness};
use super::plan::{MAX_RESULTS, Plan, RequestPlan, is_tainted};
use super::solution::{ChosenDevice, Solution};
use super::{AllocationError, Allocator, Steps, Thoroughness};

/// What a visit came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Found,
    No,
    /// The claim would get more devices than it can hold.
    TooMany,
}

#[derive(Clone, Copy)]
struct Position {
    claim: usize,
    request: usize,
    alternative: Option<usize>,
    /// How many devices the request has got.
    device: usize,
    /// From where in the search order the next one is looked for.
    start: usize,
}

impl Position {
    /// Where a request begins.
    fn of(claim: usize, request: usize) -> Self {
        Self { claim, request, alternative: None, device: 0, start: 0 }
    }
}

/// What the search does next.
enum SearchAction {
    Visit(Position),
    /// The visit before has led to this.
    Return(Outcome),
}

/// What a visit is made for, and where to go on afterwards.
enum Frame {
    /// The rest after a claim.
    Claim,
    Alternatives(AlternativesFrame),
    /// One of all devices.
    All {
        claim: usize,
        undo: Undo,
    },
    /// One of a number of devices.
    Exact(ExactFrame, Undo),
}

struct AlternativesFrame {
    at: Position,
    /// The alternative after the one that is tried.
    next: usize,
    all_too_many: bool,
}

struct ExactFrame {
    at: Position,
    /// The request, as a place in the plan.
    index: usize,
    /// The place after the one that is tried.
    next: usize,
    /// Classes of devices that have failed here.
    failed: Vec<Class>,
}

/// Counters of a pool as they were before.
pub(super) type TakenCounters = (PoolGeneration, CounterRefund);

/// How to give a device back.
struct Undo {
    counters: Option<TakenCounters>,
    /// What was chosen of a shared device before.
    amounts: Option<Option<Amounts>>,
}

pub(super) struct Search<'a> {
    pub(super) allocator: &'a Allocator,
    pub(super) node: NodeRef<'a>,
    pub(super) pools: &'a NodePools,
    pub(super) plan: &'a Plan<'a>,
    /// By claim.
    constraints: Vec<Vec<ConstraintState<'a>>>,
    results: Vec<Vec<ChosenDevice>>,
    alternatives: Vec<Vec<usize>>,
    /// By place: how often the device was chosen, shared ones not counted.
    n_chosen: Vec<u32>,
    /// What was chosen of shared devices, by place.
    amounts: FxHashMap<usize, Amounts>,
    counters: ChosenCounters,
    pub(super) steps: &'a Steps,
    thoroughness: Thoroughness,
    /// Made when a choice has failed.
    likeness: Option<Likeness<'a>>,
    /// Devices of different kinds are not alike, where more than the first solution is looked for.
    pub(super) kinds: Option<&'a Kinds>,
    /// Takes solutions until it has enough; without it the first one is.
    pub(super) collector: Option<Collector<'a>>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        allocator: &'a Allocator,
        node: NodeRef<'a>,
        pools: &'a NodePools,
        plan: &'a Plan<'a>,
        steps: &'a Steps,
        thoroughness: Thoroughness,
    ) -> Self {
        let constraints = plan
            .claims
            .iter()
            .map(|claim| claim.claim.constraints.iter().map(ConstraintState::new).collect());
        Self {
            allocator,
            node,
            pools,
            plan,
            constraints: constraints.collect(),
            results: vec![Vec::new(); plan.claims.len()],
            alternatives: plan.claims.iter().map(|claim| vec![0; claim.requests.len()]).collect(),
            n_chosen: vec![0; pools.devices.len()],
            amounts: FxHashMap::default(),
            counters: ChosenCounters::default(),
            steps,
            thoroughness,
            likeness: None,
            kinds: None,
            collector: None,
        }
    }

    pub(super) fn run(&mut self) -> Result<Option<Solution>, AllocationError> {
        let start = Position::of(0, 0);
        // A stack of its own: how deep a search goes is up to the objects.
        let mut frames: Vec<Frame> = Vec::new();
        let mut next = SearchAction::Visit(start);
        let outcome = loop {
            next = match next {
                SearchAction::Visit(at) => self.visit(at, &mut frames)?,
                SearchAction::Return(outcome) => match frames.pop() {
                    Some(frame) => self.resume(frame, outcome, &mut frames)?,
                    None => break outcome,
                },
            };
        };
        Ok((outcome == Outcome::Found).then(|| Solution {
            results: std::mem::take(&mut self.results),
            alternatives: std::mem::take(&mut self.alternatives),
        }))
    }

    pub(super) fn device(&self, place: usize) -> DeviceRef<'a> {
        self.allocator.inventory().device(self.pools.devices[place])
    }

    fn visit(
        &mut self,
        at: Position,
        frames: &mut Vec<Frame>,
    ) -> Result<SearchAction, AllocationError> {
        self.steps.take(1)?;
        let plan = self.plan;
        let Some(claim) = plan.claims.get(at.claim) else {
            return Ok(SearchAction::Return(self.complete()?));
        };
        let Some(alternatives) = claim.requests.get(at.request) else {
            frames.push(Frame::Claim);
            return Ok(SearchAction::Visit(Position::of(at.claim + 1, 0)));
        };
        // Without an alternative yet, these are tried in turn; the visit comes back here with each.
        if alternatives.is_list && at.alternative.is_none() {
            let frame = AlternativesFrame { at, next: 0, all_too_many: true };
            return Ok(self.next_alternative(frame, frames));
        }
        let index = alternatives.range.start + at.alternative.unwrap_or(0);
        let request = &plan.requests[index];
        if request.all.as_ref().is_some_and(Vec::is_empty) {
            return Ok(SearchAction::Return(Outcome::No));
        }
        if at.device >= request.n_needed {
            return Ok(SearchAction::Visit(Position::of(at.claim, at.request + 1)));
        }
        let n_missing = request.n_needed - at.device;
        // Before a device is taken: with other devices it would be too many as well.
        if self.results[at.claim].len().saturating_add(n_missing) > MAX_RESULTS {
            return Ok(SearchAction::Return(Outcome::TooMany));
        }
        match &request.all {
            Some(all) => self.visit_all(at, index, all, frames),
            None => self.visit_exact(at, index, n_missing, frames),
        }
    }

    /// What a complete solution comes to: one that is not enough is as good as none.
    fn complete(&mut self) -> Result<Outcome, AllocationError> {
        let Self { collector, results, alternatives, .. } = self;
        let Some(collector) = collector else { return Ok(Outcome::Found) };
        let is_enough = collector.add(results, alternatives)?;
        Ok(if is_enough { Outcome::Found } else { Outcome::No })
    }

    /// Goes on where a visit has led to `outcome`.
    fn resume(
        &mut self,
        frame: Frame,
        outcome: Outcome,
        frames: &mut Vec<Frame>,
    ) -> Result<SearchAction, AllocationError> {
        match frame {
            // Fewer devices for a claim do not help the next one.
            Frame::Claim if outcome == Outcome::TooMany => Ok(SearchAction::Return(Outcome::No)),
            Frame::Claim => Ok(SearchAction::Return(outcome)),
            Frame::Alternatives(_) if outcome == Outcome::Found => {
                Ok(SearchAction::Return(outcome))
            }
            Frame::Alternatives(mut frame) => {
                frame.all_too_many &= outcome == Outcome::TooMany;
                Ok(self.next_alternative(frame, frames))
            }
            Frame::All { claim, undo } => {
                if outcome != Outcome::Found {
                    self.give_back(claim, undo);
                }
                Ok(SearchAction::Return(outcome))
            }
            Frame::Exact(mut frame, undo) => {
                if outcome == Outcome::Found {
                    return Ok(SearchAction::Return(outcome));
                }
                self.give_back(frame.at.claim, undo);
                if outcome == Outcome::TooMany {
                    return Ok(SearchAction::Return(outcome));
                }
                self.note_failure(frame.next - 1, &mut frame.failed)?;
                if self.likeness.as_ref().is_some_and(Likeness::is_hopeless) {
                    return Ok(SearchAction::Return(Outcome::No));
                }
                self.next_candidate(frame, frames)
            }
        }
    }

    fn next_alternative(
        &mut self,
        mut frame: AlternativesFrame,
        frames: &mut Vec<Frame>,
    ) -> SearchAction {
        let at = frame.at;
        if frame.next >= self.plan.claims[at.claim].requests[at.request].range.len() {
            let outcome = if frame.all_too_many { Outcome::TooMany } else { Outcome::No };
            return SearchAction::Return(outcome);
        }
        let alternative = Some(frame.next);
        self.alternatives[at.claim][at.request] = frame.next;
        frame.next += 1;
        frames.push(Frame::Alternatives(frame));
        SearchAction::Visit(Position { alternative, ..at })
    }

    fn visit_all(
        &mut self,
        at: Position,
        index: usize,
        all: &[usize],
        frames: &mut Vec<Frame>,
    ) -> Result<SearchAction, AllocationError> {
        let Some(undo) = self.take(at.claim, index, all[at.device], true)? else {
            return Ok(SearchAction::Return(Outcome::No));
        };
        frames.push(Frame::All { claim: at.claim, undo });
        Ok(SearchAction::Visit(Position { device: at.device + 1, ..at }))
    }

    fn visit_exact(
        &mut self,
        at: Position,
        index: usize,
        n_missing: usize,
        frames: &mut Vec<Frame>,
    ) -> Result<SearchAction, AllocationError> {
        let plan = self.plan;
        if self.likeness.is_some() {
            let n_left = (self.pools.devices.len() - at.start) as u64;
            self.steps.take(n_left / 32)?;
            if self.likeness.as_ref().is_some_and(Likeness::is_hopeless)
                || !self.has_enough(at, &plan.requests[index], n_missing)
            {
                return Ok(SearchAction::Return(Outcome::No));
            }
        }
        let frame = ExactFrame { at, index, next: at.start, failed: Vec::new() };
        self.next_candidate(frame, frames)
    }

    /// Chooses the next device for a request that can be had.
    fn next_candidate(
        &mut self,
        mut frame: ExactFrame,
        frames: &mut Vec<Frame>,
    ) -> Result<SearchAction, AllocationError> {
        let at = frame.at;
        let plan = self.plan;
        let request = &plan.requests[frame.index];
        while frame.next < self.pools.devices.len() {
            let place = frame.next;
            frame.next += 1;
            // Of what is like a device that failed it is known that no selector fails on it.
            if self.is_in_use(at.claim, request, place)
                || self.is_like(place, &frame.failed)?
                || !self.is_suitable(at.claim, request, place)?
            {
                continue;
            }
            let Some(undo) = self.take(at.claim, frame.index, place, false)? else { continue };
            frames.push(Frame::Exact(frame, undo));
            return Ok(SearchAction::Visit(Position {
                device: at.device + 1,
                start: place + 1,
                ..at
            }));
        }
        Ok(SearchAction::Return(Outcome::No))
    }

    /// Whether the device is like one that has failed at the same position.
    fn is_like(&mut self, place: usize, failed: &[Class]) -> Result<bool, AllocationError> {
        if failed.is_empty() || !self.is_untouched(place) {
            return Ok(false);
        }
        let class = self.with_likeness(|search, likeness| likeness.class(search, place))?;
        Ok(failed.contains(&class))
    }

    /// Remembers that `place` failed, so that its likes need not be tried at the same position.
    fn note_failure(
        &mut self,
        place: usize,
        failed: &mut Vec<Class>,
    ) -> Result<(), AllocationError> {
        if self.thoroughness != Thoroughness::Direct {
            return Ok(());
        }
        self.with_likeness(|search, likeness| likeness.note_failure(search))?;
        if self.is_untouched(place) {
            failed.push(self.with_likeness(|search, likeness| likeness.class(search, place))?);
        }
        Ok(())
    }

    /// Asks about classes of devices, which are there from the first time on.
    fn with_likeness<R>(&mut self, ask: impl FnOnce(&Self, &mut Likeness<'a>) -> R) -> R {
        let mut likeness = self.likeness.take().unwrap_or_else(|| Likeness::new(self));
        let answer = ask(self, &mut likeness);
        self.likeness = Some(likeness);
        answer
    }

    /// Whether no part of the device was chosen in this attempt.
    fn is_untouched(&self, place: usize) -> bool {
        self.n_chosen[place] == 0 && !self.amounts.contains_key(&place)
    }

    /// Whether there are enough devices for the rest of a request, as far as can be said without trying.
    fn has_enough(&self, at: Position, request: &RequestPlan<'_>, n_missing: usize) -> bool {
        let mut n_found = 0;
        for place in at.start..self.pools.devices.len() {
            match self.is_candidate(at.claim, request, place) {
                // The search itself has to run into the error.
                Err(_) => return true,
                Ok(false) => {}
                Ok(true) => {
                    let device = self.device(place);
                    let is_accepted = self.would_be_accepted(at.claim, request, device);
                    n_found +=
                        usize::from(is_accepted && !is_tainted(self.allocator, request, device));
                    if n_found >= n_missing {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Whether a device is not in use, is selected, and has the capacity.
    fn is_candidate(
        &self,
        claim: usize,
        request: &RequestPlan<'_>,
        place: usize,
    ) -> Result<bool, AllocationError> {
        Ok(!self.is_in_use(claim, request, place) && self.is_suitable(claim, request, place)?)
    }

    /// Whether the request selects a device, and it has the capacity.
    fn is_suitable(
        &self,
        claim: usize,
        request: &RequestPlan<'_>,
        place: usize,
    ) -> Result<bool, AllocationError> {
        let idx = self.pools.devices[place];
        let object = self.plan.claims[claim].claim;
        if !request.selects(self.allocator, self.node, object, idx, self.steps)? {
            return Ok(false);
        }
        Ok(self.has_capacity(request, place))
    }

    pub(super) fn is_in_use(&self, claim: usize, request: &RequestPlan<'_>, place: usize) -> bool {
        if request.has_admin_access {
            let is_this = |chosen: &ChosenDevice| chosen.place == place && chosen.share.is_none();
            return self.n_chosen[place] > 0 && self.results[claim].iter().any(is_this);
        }
        self.n_chosen[place] > 0
            || self.allocator.state.occupancy().is_dedicated(self.device(place).key())
    }

    pub(super) fn has_capacity(&self, request: &RequestPlan<'_>, place: usize) -> bool {
        let device = self.device(place);
        !self.allocator.inventory().features().consumable_capacity
            || capacity::fits(
                device.device,
                request.exact.capacity.as_ref(),
                self.allocator.state.occupancy().consumed(device.key()),
                self.amounts.get(&place),
            )
    }

    /// Chooses a device, if it can be had. With `must` it is an error if a constraint forbids it.
    fn take(
        &mut self,
        claim: usize,
        index: usize,
        place: usize,
        must: bool,
    ) -> Result<Option<Undo>, AllocationError> {
        self.steps.take(1)?;
        let (allocator, plan) = (self.allocator, self.plan);
        let request = &plan.requests[index];
        let device = self.device(place);
        if self.is_in_use(claim, request, place)
            || !allocator.supports(device)
            || is_tainted(allocator, request, device)
        {
            return Ok(None);
        }
        // Of many devices a constraint leaves few, and to ask it is cheaper than to take counters.
        if !must && !self.would_be_accepted(claim, request, device) {
            return Ok(None);
        }
        let Some(counters) = self.take_counters(place) else { return Ok(None) };
        let mut undo = Undo { counters, amounts: None };
        if !self.add_to_constraints(claim, request, device) {
            self.give_back_parts(place, undo);
            if must {
                let text = format!(
                    "claim {}, request {}: cannot add device {} because a claim constraint would not be satisfied",
                    plan.claims[claim].claim.key(),
                    request.name(),
                    device.name()
                );
                return Err(AllocationError::Failed(text));
            }
            return Ok(None);
        }
        if !self.has_capacity(request, place) {
            self.remove_from_constraints(claim, request);
            self.give_back_parts(place, undo);
            return Ok(None);
        }
        let is_shared = self.allocator.is_shared(device);
        let share = is_shared.then(|| {
            let share = capacity::consumed(device.device, request.exact.capacity.as_ref());
            undo.amounts = Some(self.amounts.get(&place).cloned());
            let sums = self.amounts.entry(place).or_default();
            for (name, amount) in &share {
                sums.entry(name.clone()).or_default().add(amount);
            }
            share
        });
        if !is_shared {
            self.n_chosen[place] += 1;
        }
        self.results[claim].push(ChosenDevice { request: index, place, share });
        Ok(Some(undo))
    }

    /// Takes what a device consumes of the counters of its pool, and says how to undo it; `None` if that much is not left. A
    /// shared device has consumed it once it has its first share.
    pub(super) fn take_counters(&mut self, place: usize) -> Option<Option<TakenCounters>> {
        let device = self.device(place);
        let state = &self.allocator.state;
        let is_charged = self.allocator.is_shared(device)
            && (state.occupancy().consumed(device.key()).is_some()
                || self.amounts.contains_key(&place));
        if device.device.consumes_counters.is_empty() || is_charged {
            return Some(None);
        }
        let pool = device.pool();
        let totals = device.counter_totals();
        let before = self.counters.take(pool, device.consumption(), state.counters(), totals)?;
        Some(Some((pool, before)))
    }

    pub(super) fn put_back_counters(&mut self, (pool, before): TakenCounters) {
        self.counters.put_back(pool, before);
    }

    /// Gives back the device that the claim got last.
    fn give_back(&mut self, claim: usize, undo: Undo) {
        let Some(chosen) = self.results[claim].pop() else { return };
        if chosen.share.is_none() {
            self.n_chosen[chosen.place] -= 1;
        }
        self.remove_from_constraints(claim, &self.plan.requests[chosen.request]);
        self.give_back_parts(chosen.place, undo);
    }

    fn give_back_parts(&mut self, place: usize, undo: Undo) {
        if let Some(taken) = undo.counters {
            self.put_back_counters(taken);
        }
        match undo.amounts {
            Some(Some(before)) => {
                self.amounts.insert(place, before);
            }
            Some(None) => {
                self.amounts.remove(&place);
            }
            None => {}
        }
    }

    /// Whether a constraint of its claim is about the request.
    pub(super) fn is_constrained(&self, request: &RequestPlan<'_>) -> bool {
        self.constraints[request.claim].iter().any(|constraint| constraint.applies_to(request))
    }

    /// Whether no constraint of the claim forbids the device now.
    fn would_be_accepted(
        &self,
        claim: usize,
        request: &RequestPlan<'_>,
        device: DeviceRef<'a>,
    ) -> bool {
        let mut constraints = self.constraints[claim].iter();
        constraints.all(|constraint| constraint.would_accept(request, device))
    }

    pub(super) fn add_to_constraints(
        &mut self,
        claim: usize,
        request: &RequestPlan<'_>,
        device: DeviceRef<'a>,
    ) -> bool {
        let constraints = &mut self.constraints[claim];
        let refusing =
            constraints.iter_mut().position(|constraint| !constraint.add(request, device));
        let Some(refusing) = refusing else { return true };
        for constraint in &mut constraints[..refusing] {
            constraint.remove_last(request);
        }
        false
    }

    pub(super) fn remove_from_constraints(&mut self, claim: usize, request: &RequestPlan<'_>) {
        for constraint in &mut self.constraints[claim] {
            constraint.remove_last(request);
        }
    }
}
