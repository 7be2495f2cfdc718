//! Which devices cannot be distinguished by a search, and what can be ruled out without one.

use std::num::NonZeroU32;

use kube_scheduler_api_types::KeyedMap;
use smallvec::SmallVec;

use crate::api::{Attribute, Device};
use crate::inventory::{Consumption, PoolGeneration};

use super::AllocationError;
use super::constraints::is_comparable;
use super::plan::{RequestPlan, is_tainted};
use super::prospects::{Prospects, Sight, has_constrained_all};
use super::search::Search;

/// The number of choices that must fail before all devices are looked at to see whether the search can still succeed. From the first
/// failure on, `bench core --workload DevicesOfAllNodes` takes 2.7 times as many instructions with 50 nodes. If they are never looked at, and what
/// is free is not counted beforehand ([`Prospects`]), `--workload DevicesOneOf32Short` takes six percent more.
const MIN_FAILURES: u32 = 4;
/// The number of devices that count as one step when they are put into classes.
const CLASSIFIED_BY_STEP: usize = 8;

/// The devices of one node in classes. Two devices of a class that are both unused in the attempt can be exchanged in any
/// solution. The class of a device is found out when it is asked for: most searches end after a look at a few of many devices.
pub(super) struct Likeness<'a> {
    context: Context<'a>,
    numbers: KeyedMap<Key<'a>, Class>,
    /// By place; absent where none was asked for.
    classes: Vec<Option<NonZeroU32>>,
    n_classified: usize,
    n_failures: u32,
    is_hopeless: bool,
}

/// A class, by its number.
pub(super) type Class = NonZeroU32;

/// What a device takes of its pool's counters, amounts as text.
pub(super) type Amounts = SmallVec<[(u32, String); 1]>;

#[derive(PartialEq, Eq, Hash)]
struct Key<'a> {
    sights: SmallVec<[Sight; 8]>,
    /// The values that constraints look at.
    values: SmallVec<[Option<&'a Attribute>; 2]>,
    counters: Option<(PoolGeneration, Amounts)>,
    is_dedicated: bool,
    is_shareable: bool,
    /// The capacities, where they matter.
    capacity: Option<String>,
    /// See [`Search::kinds`].
    kind: Option<u32>,
    /// The place, for devices that are like no other.
    singular: Option<usize>,
}

impl<'a> Likeness<'a> {
    pub(super) fn new(search: &Search<'a>) -> Self {
        let requests = &search.plan.requests;
        let mut attributes: Vec<&str> = search
            .plan
            .claims
            .iter()
            .flat_map(|claim| &claim.claim.constraints)
            .filter_map(|c| c.match_attribute.as_ref().or(c.distinct_attribute.as_ref()))
            .map(|name| &**name)
            .collect();
        attributes.sort_unstable();
        attributes.dedup();
        let context = Context {
            attributes,
            // A request for all devices takes them in a fixed order, and fails at the first one that a constraint forbids. Which one
            // that is depends on which ones others have taken, so that no device can stand for another.
            are_all_singular: has_constrained_all(search.plan),
            needs_capacity: requests.iter().any(|request| request.exact.capacity.is_some()),
        };
        Self {
            context,
            numbers: KeyedMap::default(),
            classes: vec![None; search.pools.devices.len()],
            n_classified: 0,
            n_failures: 0,
            is_hopeless: false,
        }
    }

    /// Notes that a choice has failed. After some failures all devices are looked at.
    ///
    /// # Errors
    /// If that takes more steps than are left.
    pub(super) fn note_failure(&mut self, search: &Search<'a>) -> Result<(), AllocationError> {
        self.n_failures = self.n_failures.saturating_add(1);
        if self.n_failures != MIN_FAILURES {
            return Ok(());
        }
        let requests = &search.plan.requests;
        let mut prospects = Prospects::new(requests);
        for place in 0..self.classes.len() {
            let key = key(search, place, &self.context);
            prospects.note(requests, &key.sights, 1, key.is_dedicated, key.is_shareable);
            self.put(search, place, key)?;
        }
        self.is_hopeless = prospects.are_hopeless(search.plan);
        Ok(())
    }

    /// The class of the device at `place`.
    ///
    /// # Errors
    /// If no step is left to find it out.
    pub(super) fn class(
        &mut self,
        search: &Search<'a>,
        place: usize,
    ) -> Result<Class, AllocationError> {
        match self.classes[place] {
            Some(class) => Ok(class),
            None => self.put(search, place, key(search, place, &self.context)),
        }
    }

    fn put(
        &mut self,
        search: &Search<'a>,
        place: usize,
        key: Key<'a>,
    ) -> Result<Class, AllocationError> {
        self.n_classified += 1;
        if self.n_classified.is_multiple_of(CLASSIFIED_BY_STEP) {
            search.steps.take(1)?;
        }
        let next = NonZeroU32::MIN.saturating_add(self.numbers.len() as u32);
        let class = *self.numbers.entry(key).or_insert(next);
        self.classes[place] = Some(class);
        Ok(class)
    }

    /// Whether there is certainly no solution, and no error on the way to finding that out.
    pub(super) fn is_hopeless(&self) -> bool {
        self.is_hopeless
    }
}

/// What of the claims decides which devices are alike.
struct Context<'a> {
    /// The attributes that constraints look at.
    attributes: Vec<&'a str>,
    /// Whether each device is a class of its own.
    are_all_singular: bool,
    /// Whether requests ask for a part of a device's capacity.
    needs_capacity: bool,
}

fn key<'a>(search: &Search<'a>, place: usize, context: &Context<'a>) -> Key<'a> {
    let device = search.device(place);
    let sights = search.plan.requests.iter().map(|request| sight(search, request, place));
    let driver = &*device.slice().driver;
    let values: SmallVec<_> =
        context.attributes.iter().map(|name| device.device.attribute(driver, name)).collect();
    let is_shareable = device.device.is_shareable();
    // How much is left of a device in use, and values that constraints cannot compare, are not in the key.
    let is_singular = context.are_all_singular
        || search.allocator.state.occupancy().consumed(device.key()).is_some()
        || values.iter().flatten().any(|value: &&Attribute| !is_comparable(value));
    Key {
        sights: sights.collect(),
        values,
        counters: (!device.device.consumes_counters.is_empty())
            .then(|| (device.pool(), amounts(device.consumption()))),
        is_dedicated: search.allocator.state.occupancy().is_dedicated(device.key()),
        is_shareable,
        capacity: capacities(device.device, context.needs_capacity),
        kind: search.kinds.map(|kinds| kinds.of(place)),
        singular: is_singular.then_some(place),
    }
}

/// The capacities of a device as text, where they matter. Its length is counted as work, with the names of the types in it:
/// another name moves the limit of a search.
pub(super) fn capacities(device: &Device, are_requested: bool) -> Option<String> {
    let all = &device.capacity;
    let matter = are_requested
        || device.is_shareable()
        || all.iter().any(|(_, capacity)| capacity.request_policy.is_some());
    matter.then(|| format!("{all:?}"))
}

pub(super) fn amounts(consumption: &Consumption) -> Amounts {
    consumption.iter().map(|(place, amount)| (*place, amount.canonical())).collect()
}

fn sight(search: &Search<'_>, request: &RequestPlan<'_>, place: usize) -> Sight {
    let claim = search.plan.claims[request.claim].claim;
    let idx = search.pools.devices[place];
    match request.selects(search.allocator, search.node, claim, idx, search.steps) {
        Err(_) => Sight::Error,
        Ok(false) => Sight::NotSelected,
        Ok(true) if is_tainted(search.allocator, request, search.device(place)) => Sight::Tainted,
        Ok(true) => Sight::Selected,
    }
}
