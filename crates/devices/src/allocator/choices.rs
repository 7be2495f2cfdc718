//! All allocations of the claims of one pod on one node, for claims of several pods that are planned together.
//!
//! Devices that nothing in any of these claims tells apart are of one [kind](Kinds). While they are free, one is as good as the
//! other, for this pod and for what is left for the others, so of allocations that take the same kinds for the same claims only
//! the first is given. A device that several requests may have at once, or one that is had beside its user, is only ever
//! itself.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use kube_scheduler_api_types::{KeyedMap, KeyedSet};
use smallvec::SmallVec;

use crate::api::{
    Allocation, Attribute, DeviceClass, DeviceTaint, Request, ResourceClaim, ResourceSlice,
};
use crate::inventory::{DeviceRef, NodePools, PoolGeneration};

use super::likeness::{amounts, capacities};
use super::plan::Plan;
use super::solution::{ChosenDevice, Solution};
use super::{AllocationError, Allocator, Steps, likeness, outcome};

/// What tells devices apart for claims that are planned together.
#[derive(Clone, Debug, Default)]
pub struct Criteria {
    /// Selectors of classes and claims.
    expressions: BTreeSet<Arc<str>>,
    /// The attributes that constraints look at.
    attributes: BTreeSet<Arc<str>>,
    /// Whether requests ask for a part of a device's capacity.
    are_amounts_requested: bool,
    /// See [`n_added`](Self::n_added).
    n_added: u64,
}

impl Criteria {
    /// How many requests, selectors and constraints were added.
    pub const fn n_added(&self) -> u64 {
        self.n_added
    }

    /// Adds what a claim looks at. A class that `class` does not find looks at nothing.
    pub fn add_claim(
        &mut self,
        claim: &ResourceClaim,
        class: &mut dyn FnMut(&str) -> Option<Arc<DeviceClass>>,
    ) {
        let exact = claim.requests.iter().flat_map(|request| match &request.request {
            Request::Exactly(exact) => std::slice::from_ref(exact),
            Request::FirstAvailable(alternatives) => alternatives.as_slice(),
            Request::Unknown => &[],
        });
        for request in exact {
            self.n_added = self.n_added.saturating_add(1 + request.selectors.len() as u64);
            let selectors = request.selectors.iter();
            self.expressions.extend(selectors.filter_map(|selector| selector.expression.clone()));
            self.are_amounts_requested |= request.capacity.is_some();
            if let Some(class) = class(&request.device_class_name) {
                self.add_class(&class);
            }
        }
        self.n_added = self.n_added.saturating_add(claim.constraints.len() as u64);
        for constraint in &claim.constraints {
            let names = [&constraint.match_attribute, &constraint.distinct_attribute];
            self.attributes.extend(names.into_iter().flatten().map(|name| name.0.clone()));
        }
    }

    /// Adds what the selectors of a class look at.
    pub fn add_class(&mut self, class: &DeviceClass) {
        self.n_added = self.n_added.saturating_add(class.selectors.len() as u64);
        let selectors = class.selectors.iter();
        self.expressions.extend(selectors.filter_map(|selector| selector.expression.clone()));
    }
}

/// One way to allocate the claims of a pod.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The allocation of each claim, in the order of the claims.
    pub allocations: Vec<Arc<Allocation>>,
    /// Choices with equal marks, for the same claims on the same node, leave the same for all claims that are planned together, also
    /// if other things were chosen before. Claims that ask for the same, each in its place, have the same marks.
    pub mark: Arc<str>,
}

/// The ways to allocate the claims of a pod.
#[derive(Clone, Debug)]
pub struct Choices {
    /// Those that make a difference, in search order.
    pub list: Vec<Choice>,
    /// Whether there are no others. If false, the search ended early.
    pub are_all: bool,
}

/// The devices of a node by kind.
pub(super) struct Kinds(Vec<KindOf>);

/// What is known of one device.
struct KindOf {
    /// The place of the first device of its kind.
    kind: u32,
    /// See [`Reach::n_selecting`].
    n_selecting: usize,
}

/// All that may tell a device from another, apart from who holds it.
#[derive(PartialEq, Eq, Hash)]
struct Kind<'a> {
    pool: PoolGeneration,
    /// What each selector says; nothing where it fails.
    sights: SmallVec<[Option<bool>; 8]>,
    values: SmallVec<[Option<&'a Attribute>; 2]>,
    /// Key, value and effect of those that may keep requests away.
    taints: SmallVec<[[&'a str; 3]; 1]>,
    counters: likeness::Amounts,
    is_shareable: bool,
    capacity: Option<String>,
    /// Where it can be used, by number.
    reach: u32,
    binds_to_node: bool,
    has_conditions: bool,
}

impl Kind<'_> {
    /// Counts what it takes to write it down: its parts, and their texts.
    fn count(&self, steps: &Steps) -> Result<(), AllocationError> {
        let Self { values, taints, counters, capacity, .. } = self;
        steps.take((values.len() + taints.len() + counters.len()) as u64)?;
        let of_values: usize = values.iter().flatten().map(|value| n_bytes(value)).sum();
        let of_taints: usize = taints.iter().flatten().map(|text| text.len()).sum();
        let of_counters: usize = counters.iter().map(|(_, amount)| amount.len()).sum();
        let of_capacity = capacity.as_ref().map_or(0, String::len);
        steps.take_text(of_values + of_taints + of_counters + of_capacity)
    }
}

/// About how many bytes the value of an attribute has, where there may be any number of them.
fn n_bytes(value: &Attribute) -> usize {
    match value {
        Attribute::String(text) | Attribute::Version(text) => text.len(),
        Attribute::Strings(texts) | Attribute::Versions(texts) => {
            texts.iter().map(|text| 1 + text.len()).sum()
        }
        Attribute::Ints(numbers) => 8 * numbers.len(),
        Attribute::Bools(values) => values.len(),
        Attribute::Int(_) | Attribute::Bool(_) | Attribute::Unknown => 0,
    }
}

impl Kinds {
    /// Finds the kinds of all devices of a node.
    ///
    /// # Errors
    /// If that takes more steps than are left.
    pub(super) fn new(
        allocator: &Allocator,
        pools: &NodePools,
        criteria: &Criteria,
        steps: &Steps,
    ) -> Result<Self, AllocationError> {
        let inventory = allocator.inventory();
        let mut columns = Vec::with_capacity(criteria.expressions.len());
        steps.take_lookups(criteria.expressions.len())?;
        for expression in &criteria.expressions {
            let mut cost = 0;
            let table = allocator.state.selectors();
            columns.push(table.column(expression, &*allocator.compiler, &mut cost));
            steps.take_evaluation(cost)?;
        }
        let mut known: KeyedMap<Kind<'_>, u32> = KeyedMap::default();
        let mut kinds = Vec::with_capacity(pools.devices.len());
        let mut reaches = Reaches::default();
        for (idx, place) in pools.devices.iter().zip(0..) {
            let device = inventory.device(*idx);
            steps.take(1)?;
            steps.take_selectors(columns.len())?;
            let mut facts = device.facts();
            facts.allow_multiple_allocations &= !inventory.features().is_stable();
            let mut sights = SmallVec::new();
            for column in &columns {
                let mut cost = 0;
                sights.push(column.matches(device.shape(), facts, &mut cost).ok());
                steps.take_evaluation(cost)?;
            }
            let Reach { number, n_selecting } = reaches.of(device, steps)?;
            let kind = kind(device, (sights, number), criteria);
            kind.count(steps)?;
            kinds.push(KindOf { kind: *known.entry(kind).or_insert(place), n_selecting });
        }
        Ok(Self(kinds))
    }

    /// The kind of the device at `place`.
    pub(super) fn of(&self, place: usize) -> u32 {
        self.0[place].kind
    }
}

/// The steps for writing down where devices can be used, besides those for the length of the text.
const STEPS_OF_REACH: u64 = 32;

/// Where devices can be used.
#[derive(Clone, Copy)]
struct Reach {
    /// Equal for devices that can be used in the same places.
    number: u32,
    /// How many bytes it takes to say so where nodes are selected by their labels. An allocation says it again.
    n_selecting: usize,
}

/// Where devices can be used that were looked at before.
#[derive(Default)]
struct Reaches<'a> {
    /// The devices of the slice that was looked at last.
    last: Option<(&'a ResourceSlice, Reach)>,
    /// By what says so.
    numbers: KeyedMap<String, u32>,
}

impl<'a> Reaches<'a> {
    fn of(&mut self, device: DeviceRef<'a>, steps: &Steps) -> Result<Reach, AllocationError> {
        let slice = device.slice();
        if let Some((known, reach)) = self.last
            && std::ptr::eq(known, slice)
            && !slice.is_per_device()
        {
            return Ok(reach);
        }
        steps.take(STEPS_OF_REACH)?;
        let reach = slice.reach_of(device.device);
        let text = format!("{reach:?}");
        steps.take_text(text.len())?;
        let n_selecting = if reach.node_selector.is_some() { text.len() } else { 0 };
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(text).or_insert(next);
        let reach = Reach { number, n_selecting };
        self.last = Some((slice, reach));
        Ok(reach)
    }
}

fn kind<'a>(
    device: DeviceRef<'a>,
    (sights, reach): (SmallVec<[Option<bool>; 8]>, u32),
    criteria: &Criteria,
) -> Kind<'a> {
    let driver = &*device.slice().driver;
    let values = criteria.attributes.iter().map(|name| device.device.attribute(driver, name));
    let hard = device.device.taints.iter().filter(|taint| taint.is_hard());
    let shown = |taint: &'a DeviceTaint| [&*taint.key, &*taint.value, &*taint.effect];
    let conditions = device.device.binding_conditions.as_ref();
    Kind {
        pool: device.pool(),
        sights,
        values: values.collect(),
        taints: hard.map(shown).collect(),
        counters: amounts(device.consumption()),
        is_shareable: device.device.is_shareable(),
        capacity: capacities(device.device, criteria.are_amounts_requested),
        reach,
        binds_to_node: device.device.binds_to_node,
        has_conditions: conditions.is_some_and(|conditions| !conditions.is_empty()),
    }
}

/// The steps for each device in the mark of a solution, besides those for the length of the text.
const STEPS_OF_MARKED: u64 = 4;

/// Takes the solutions of a search.
pub(super) struct Collector<'a> {
    plan: &'a Plan<'a>,
    kinds: &'a Kinds,
    most: usize,
    steps: &'a Steps,
    marks: KeyedSet<Arc<str>>,
    pub(super) found: Vec<(Solution, Arc<str>)>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(plan: &'a Plan<'a>, kinds: &'a Kinds, most: usize, steps: &'a Steps) -> Self {
        Self { plan, kinds, most, steps, marks: KeyedSet::default(), found: Vec::new() }
    }

    /// Takes a solution, unless one that is as good was found before. Returns whether there are enough. The
    /// steps that it takes pay for making allocations of it, too.
    ///
    /// # Errors
    /// If the steps that are left are too few for the solution, which is not taken then.
    pub(super) fn add(
        &mut self,
        results: &[Vec<ChosenDevice>],
        alternatives: &[Vec<usize>],
    ) -> Result<bool, AllocationError> {
        let places = || results.iter().flatten().map(|chosen| chosen.place);
        self.steps.take(places().count() as u64 * STEPS_OF_MARKED)?;
        let mark = self.mark(results);
        self.steps.take_text(mark.len())?;
        if self.marks.insert(mark.clone()) {
            self.steps.take(outcome::n_steps(self.plan, results, alternatives))?;
            let kinds = &self.kinds.0;
            self.steps.take_text(places().map(|place| kinds[place].n_selecting).sum())?;
            let (results, alternatives) = (results.to_vec(), alternatives.to_vec());
            self.found.push((Solution { results, alternatives }, mark));
        }
        Ok(self.found.len() >= self.most)
    }

    /// What each claim gets, in their order: kinds, and where it matters which device it is, places. Without the names of claims, so
    /// that it does not matter which of several pods that ask for the same gets it.
    fn mark(&self, results: &[Vec<ChosenDevice>]) -> Arc<str> {
        let mut text = String::new();
        for chosen in results {
            let mut devices: Vec<String> = chosen.iter().map(|one| self.shown(one)).collect();
            devices.sort_unstable();
            write!(text, "{};", devices.join(",")).ok();
        }
        text.into()
    }

    fn shown(&self, chosen: &ChosenDevice) -> String {
        let ChosenDevice { request, place, share } = chosen;
        // What is had beside its users leaves them all that they have, and is no share for others.
        if self.plan.requests[*request].has_admin_access {
            return format!("a{place}");
        }
        match share {
            Some(amounts) => {
                let amounts = amounts.iter().map(|(name, n)| format!("{name:?}={}", n.canonical()));
                format!("p{place}[{}]", amounts.collect::<Vec<_>>().join(","))
            }
            None => format!("k{}", self.kinds.of(*place)),
        }
    }
}
