//! Which devices cannot be distinguished by a search, and what can be ruled out without one.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::api::Attribute;
use crate::inventory::{Consumption, PoolGeneration};

use super::constraints::is_comparable;
use super::plan::RequestPlan;
use super::search::{Search, is_tainted};

/// The devices of one node in classes. Two devices of a class that are both unused in the attempt can be exchanged in any
/// solution.
pub(super) struct Likeness {
    /// By place.
    classes: Vec<u32>,
    is_hopeless: bool,
}

/// What a device takes of its pool's counters, amounts as text.
type Amounts = SmallVec<[(u32, String); 1]>;

/// How a request sees a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Sight {
    Selected,
    /// Selected, but a taint keeps the request away.
    Tainted,
    NotSelected,
    /// The selectors fail on the device.
    Error,
}

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
    /// The place, for devices that are like no other.
    singular: Option<usize>,
}

impl Likeness {
    pub(super) fn new(search: &Search<'_>) -> Self {
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
            // A request for all takes its devices in a fixed order, and ends with an error at the first one that a constraint
            // forbids. So it matters which of them others have taken.
            are_all_singular: has_constrained_all(search),
            needs_capacity: requests.iter().any(|request| request.exact.capacity.is_some()),
        };
        let mut numbers: FxHashMap<Key<'_>, u32> = FxHashMap::default();
        let mut prospects = Prospects::new(requests);
        let mut classes = Vec::with_capacity(search.pools.devices.len());
        for place in 0..search.pools.devices.len() {
            let key = key(search, place, &context);
            prospects.note(requests, &key);
            let next = numbers.len() as u32;
            classes.push(*numbers.entry(key).or_insert(next));
        }
        Self { classes, is_hopeless: prospects.is_hopeless(search) }
    }

    /// The class of the device at `place`.
    pub(super) fn class(&self, place: usize) -> u32 {
        self.classes[place]
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
    are_all_singular: bool,
    needs_capacity: bool,
}

/// Whether a claim with constraints requests all devices of some kind.
fn has_constrained_all(search: &Search<'_>) -> bool {
    let claims = &search.plan.claims;
    search
        .plan
        .requests
        .iter()
        .any(|request| request.all.is_some() && !claims[request.claim].claim.constraints.is_empty())
}

fn key<'a>(search: &Search<'a>, place: usize, context: &Context<'_>) -> Key<'a> {
    let device = search.device(place);
    let sights = search.plan.requests.iter().map(|request| sight(search, request, place));
    let driver = &*device.slice().driver;
    let values: SmallVec<_> =
        context.attributes.iter().map(|name| device.device.attribute(driver, name)).collect();
    let is_shareable = device.device.is_shareable();
    let capacities = &device.device.capacity;
    let capacity_matters = context.needs_capacity
        || is_shareable
        || capacities.iter().any(|(_, capacity)| capacity.request_policy.is_some());
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
        capacity: capacity_matters.then(|| format!("{capacities:?}")),
        singular: is_singular.then_some(place),
    }
}

fn amounts(consumption: &Consumption) -> Amounts {
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

/// How many devices every request can have at best.
struct Prospects {
    n_available: Vec<usize>,
    /// How many devices any request can have.
    n_total: usize,
    /// Whether a device may serve more than one request.
    may_share: bool,
    has_errors: bool,
}

impl Prospects {
    fn new(requests: &[RequestPlan<'_>]) -> Self {
        Self {
            n_available: vec![0; requests.len()],
            n_total: 0,
            may_share: requests.iter().any(|request| request.has_admin_access),
            has_errors: false,
        }
    }

    fn note(&mut self, requests: &[RequestPlan<'_>], key: &Key<'_>) {
        self.may_share |= key.is_shareable;
        self.n_total += usize::from(!key.is_dedicated && key.sights.contains(&Sight::Selected));
        let counts = self.n_available.iter_mut();
        for ((count, request), sight) in counts.zip(requests).zip(&key.sights) {
            self.has_errors |= *sight == Sight::Error;
            let is_free = request.has_admin_access || !key.is_dedicated;
            *count += usize::from(*sight == Sight::Selected && is_free);
        }
    }

    /// Whether some request can never get its devices, and nothing on the way there can be an error.
    fn is_hopeless(&self, search: &Search<'_>) -> bool {
        let claims = &search.plan.claims;
        let may_fail = self.has_errors || has_constrained_all(search);
        let is_short = |at: usize| {
            let request = &search.plan.requests[at];
            request.all.as_ref().is_some_and(Vec::is_empty)
                || self.n_available[at] < request.n_needed
        };
        let mut requests = claims.iter().flat_map(|claim| &claim.requests);
        let n_least = requests.clone().map(|alternatives| {
            let needed = search.plan.requests[alternatives.range.clone()].iter();
            needed.map(|request| request.n_needed).min().unwrap_or(0)
        });
        let are_too_few = !self.may_share && n_least.fold(0, usize::saturating_add) > self.n_total;
        !may_fail
            && (are_too_few
                || requests.any(|alternatives| alternatives.range.clone().all(is_short)))
    }
}
