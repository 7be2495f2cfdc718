//! The worst cost an expression can have, as the API server estimates it (`docs/spec/cel.md` §8).

mod calls;
mod range;

use std::sync::Arc;

use crate::ast::{Comprehension, Expr, Literal, NodeId};
use crate::check::CheckedExpr;
use crate::cost;
use crate::types::{self, Type};
use range::Range;

/// Bounds on the sizes of what a device has (`docs/spec/plugins-dra.md` §3.3).
const MAX_ENTRIES: u64 = 32;
const MAX_DOMAIN_LENGTH: u64 = 63;
const MAX_ID_LENGTH: u64 = 32;
const MAX_DRIVER_LENGTH: u64 = 63;
const MAX_VALUE_LENGTH: u64 = 64;

/// The largest cost of the expression.
pub(crate) fn worst_cost(checked: &CheckedExpr) -> u64 {
    let count = checked.ast.len();
    let mut estimator = Estimator {
        checked,
        sizes: vec![None; count],
        entries: vec![None; count],
        places: vec![Place::Elsewhere; count],
        parts: Vec::new(),
        locals: Vec::new(),
    };
    estimator.cost(checked.root).max
}

/// What part of the device a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// None, or one whose size is not known.
    Elsewhere,
    Device,
    Driver,
    Flag,
    Attributes,
    Capacity,
    Domain,
    Map(DomainMap, PartOfMap),
    Part(PartOfMap),
}

/// The maps of one domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DomainMap {
    Attributes,
    Capacity,
}

/// Where [`Estimator::parts`] has what was last taken from a map of a domain. Quirk of the reference: everything that is
/// taken from one such map, keys and values of a loop as well, counts as that.
type PartOfMap = usize;

/// A part of a map of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Unknown,
    Attribute,
    Quantity,
    Id,
}

impl Part {
    fn max_size(self) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::Attribute => Some(MAX_VALUE_LENGTH),
            Self::Quantity => Some(0),
            Self::Id => Some(MAX_ID_LENGTH),
        }
    }
}

/// A way from a value to a part of it.
#[derive(Clone, Copy)]
enum Step<'s> {
    Field(&'s str),
    /// A value of a list or map.
    Element,
    Key,
    Index,
}

/// Sizes of the keys and values of a list or map.
#[derive(Clone, Copy, Debug)]
struct Entries {
    is_list: bool,
    key: Range,
    value: Range,
}

impl Entries {
    fn union(self, other: Self) -> Self {
        Self {
            is_list: self.is_list,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

struct LocalVariable {
    name: Arc<str>,
    place: Place,
    size: Option<Range>,
    entries: Option<Entries>,
}

struct Estimator<'a> {
    checked: &'a CheckedExpr,
    sizes: Vec<Option<Range>>,
    entries: Vec<Option<Entries>>,
    places: Vec<Place>,
    /// By [`PartOfMap`].
    parts: Vec<Part>,
    locals: Vec<LocalVariable>,
}

impl Estimator<'_> {
    fn local(&self, name: &str) -> Option<&LocalVariable> {
        self.locals.iter().rev().find(|local| *local.name == *name)
    }

    fn local_of(&self, node: NodeId) -> Option<&LocalVariable> {
        match self.checked.ast.expr(node) {
            Expr::Identifier(name) if self.checked.type_name(node).is_none() => self.local(name),
            _ => None,
        }
    }

    fn place(&self, node: NodeId) -> Place {
        self.local_of(node).map_or(self.places[node.index()], |local| local.place)
    }

    fn step(&mut self, from: Place, step: Step<'_>) -> Place {
        match (from, step) {
            (Place::Device, Step::Field("driver")) => Place::Driver,
            (Place::Device, Step::Field("allowMultipleAllocations")) => Place::Flag,
            (Place::Device, Step::Field("attributes")) => Place::Attributes,
            (Place::Device, Step::Field("capacity")) => Place::Capacity,
            (Place::Attributes | Place::Capacity, Step::Key) => Place::Domain,
            (Place::Attributes, Step::Element) => self.map_of_domain(DomainMap::Attributes),
            (Place::Capacity, Step::Element) => self.map_of_domain(DomainMap::Capacity),
            (Place::Map(map, at), step) => {
                self.parts[at] = match (map, step) {
                    (_, Step::Key) => Part::Id,
                    (DomainMap::Attributes, _) => Part::Attribute,
                    (DomainMap::Capacity, Step::Element) => Part::Quantity,
                    (DomainMap::Capacity, _) => Part::Unknown,
                };
                Place::Part(at)
            }
            _ => Place::Elsewhere,
        }
    }

    fn map_of_domain(&mut self, map: DomainMap) -> Place {
        self.parts.push(Part::Unknown);
        Place::Map(map, self.parts.len() - 1)
    }

    fn size_of_place(&self, place: Place) -> Option<Range> {
        let max = match place {
            Place::Elsewhere => return None,
            Place::Device => 0,
            Place::Flag => 1,
            Place::Driver => MAX_DRIVER_LENGTH,
            Place::Domain => MAX_DOMAIN_LENGTH,
            Place::Attributes | Place::Capacity | Place::Map(..) => MAX_ENTRIES,
            Place::Part(at) => self.parts[at].max_size()?,
        };
        Some(Range { min: 0, max })
    }

    /// The size, if anything is known of it.
    fn size(&mut self, node: NodeId) -> Option<Range> {
        if let Some(size) = self.sizes[node.index()] {
            return Some(size);
        }
        match self.checked.ast.expr(node) {
            Expr::Literal(literal) => return Some(Range::exactly(literal_size(literal))),
            Expr::List(elements) => return Some(Range::exactly(elements.len() as u64)),
            Expr::Map(entries) => return Some(Range::exactly(entries.len() as u64)),
            _ => {}
        }
        if let Some(size) = self.size_of_place(self.place(node)) {
            self.sizes[node.index()] = Some(size);
            return Some(size);
        }
        if self.checked.type_of(node).is_scalar() {
            return Some(Range::exactly(1));
        }
        self.local_of(node).and_then(|local| local.size)
    }

    fn size_or_unknown(&mut self, node: NodeId) -> Range {
        self.size(node).unwrap_or(Range::UNKNOWN)
    }

    fn entries(&self, node: NodeId) -> Option<Entries> {
        self.entries[node.index()].or_else(|| self.local_of(node).and_then(|local| local.entries))
    }

    fn set_size(&mut self, node: NodeId, size: Option<Range>) {
        if size.is_some() {
            self.sizes[node.index()] = size;
        }
    }

    fn set_entries(&mut self, node: NodeId, entries: Option<Entries>) {
        if entries.is_some() {
            self.entries[node.index()] = entries;
        }
    }

    fn cost(&mut self, node: NodeId) -> Range {
        let checked = self.checked;
        match checked.ast.expr(node) {
            Expr::Literal(_) => Range::exactly(0),
            Expr::Identifier(name) => {
                let place = match self.local(name) {
                    Some(local) => local.place,
                    None if name.trim_start_matches('.') == "device" => Place::Device,
                    None => Place::Elsewhere,
                };
                self.places[node.index()] = place;
                Range::exactly(1)
            }
            // The name of a type with dots in it.
            Expr::Select { .. } if checked.type_name(node).is_some() => Range::exactly(1),
            Expr::Select { operand, is_test: true, .. } => self.cost(*operand),
            Expr::Select { operand, field, .. } => {
                let cost = self.cost(*operand);
                self.places[node.index()] = self.step(self.place(*operand), Step::Field(field));
                let is_counted =
                    matches!(checked.type_of(*operand), Type::Map(_) | Type::Object(types::DEVICE));
                cost.plus(Range::exactly(u64::from(is_counted)))
            }
            Expr::And(terms) | Expr::Or(terms) => {
                let costs: Vec<_> = terms.iter().map(|term| self.cost(*term)).collect();
                let all = costs.iter().fold(Range::exactly(0), |sum, cost| sum.plus(*cost));
                Range { min: costs.first().map_or(0, |first| first.min), max: all.max }
            }
            Expr::List(elements) => {
                let mut size = Range::none_if(!elements.is_empty());
                let mut sum = Range::exactly(cost::LIST);
                for element in elements {
                    sum = sum.plus(self.cost(element.value));
                    size = size.union(self.size_or_unknown(element.value));
                }
                let entries = Entries { is_list: true, key: Range::exactly(1), value: size };
                self.set_entries(node, Some(entries));
                sum
            }
            Expr::Map(entries) => {
                let mut keys = Range::none_if(!entries.is_empty());
                let mut values = keys;
                let mut sum = Range::exactly(cost::MAP);
                for entry in entries {
                    sum = sum.plus(self.cost(entry.key)).plus(self.cost(entry.value));
                    keys = keys.union(self.size_or_unknown(entry.key));
                    values = values.union(self.size_or_unknown(entry.value));
                }
                self.set_entries(node, Some(Entries { is_list: false, key: keys, value: values }));
                sum
            }
            Expr::Comprehension(c) if checked.ast.is_bind(c) => self.bind(node, c),
            Expr::Comprehension(c) => self.comprehension(node, c),
            Expr::Call { receiver, arguments, .. } => self.call(node, *receiver, arguments),
        }
    }

    fn push_value(&mut self, name: &Arc<str>, value: NodeId) {
        let local = LocalVariable {
            name: Arc::clone(name),
            place: self.place(value),
            entries: self.entries(value),
            size: self.size(value),
        };
        self.locals.push(local);
    }

    fn push_iterated(&mut self, name: &Arc<str>, range: NodeId, step: Step<'_>) {
        let entries = self.entries(range);
        let size = entries.map(|entries| match step {
            Step::Element => entries.value,
            _ => entries.key,
        });
        let place = self.step(self.place(range), step);
        self.locals.push(LocalVariable { name: Arc::clone(name), place, size, entries: None });
    }

    fn bind(&mut self, node: NodeId, c: &Comprehension) -> Range {
        let before = self.cost(c.range).plus(self.cost(c.start));
        self.push_value(&c.accumulator, c.start);
        let sum = before.plus(self.cost(c.result));
        self.locals.pop();
        let (size, entries) = (self.size(c.result), self.entries(c.result));
        self.set_size(node, size);
        self.set_entries(node, entries);
        sum
    }

    fn comprehension(&mut self, node: NodeId, c: &Comprehension) -> Range {
        let before = self.cost(c.range).plus(self.cost(c.start));
        self.push_value(&c.accumulator, c.start);
        let outside = self.locals.len();
        let is_list = match self.entries(c.range) {
            Some(entries) => entries.is_list,
            None => matches!(self.checked.type_of(c.range), Type::List(_)),
        };
        match &c.second_variable {
            Some(second) => {
                self.push_iterated(
                    &c.variable,
                    c.range,
                    if is_list { Step::Index } else { Step::Key },
                );
                self.push_iterated(second, c.range, Step::Element);
            }
            None => {
                self.push_iterated(
                    &c.variable,
                    c.range,
                    if is_list { Step::Element } else { Step::Key },
                );
            }
        }
        let turn = self.cost(c.condition);
        let turn = self.cost(c.step).plus(turn);
        self.locals.truncate(outside);
        let sum = before.plus(self.cost(c.result));
        self.locals.pop();
        let turns = self.size_or_unknown(c.range);
        match self.checked.ast.expr(c.start) {
            Expr::Literal(_) => {
                let size = self.size(c.start);
                self.set_size(node, size);
            }
            Expr::List(_) | Expr::Map(_) => {
                self.set_size(node, Some(turns));
                let entries = self.entries(c.step);
                self.set_entries(node, entries);
            }
            _ => {}
        }
        sum.plus(turns.times(turn))
    }
}

fn literal_size(literal: &Literal) -> u64 {
    match literal {
        Literal::String(text) => crate::value::char_count(text) as u64,
        Literal::Bytes(bytes) => bytes.len() as u64,
        _ => 1,
    }
}
