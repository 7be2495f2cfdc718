//! What calls cost at worst.

use super::range::Range;
use super::{Entries, Estimator, Step};
use crate::ast::{Expr, Literal, NodeId};
use crate::check::ResolvedCall;
use crate::cost::{LIST, LONGEST_FORMAT_PATTERN};
use crate::declarations::Function;
use crate::limits;
use crate::types::{self, Type};

const PER_CHARACTER: f64 = 0.1;
const PER_PATTERN_CHARACTER: f64 = 0.25;

/// Cost without that of the arguments, and the size of the result if it is known.
struct Estimate {
    cost: Range,
    size: Option<Range>,
}

impl Estimate {
    fn new(cost: Range) -> Self {
        Self { cost, size: None }
    }

    const ONE: Self = Self { cost: Range::exactly(1), size: None };
}

impl Estimator<'_> {
    pub(super) fn call(
        &mut self,
        node: NodeId,
        receiver: Option<NodeId>,
        arguments: &[NodeId],
    ) -> Range {
        let Some(call) = self.checked.call(node).cloned() else { return Range::exactly(0) };
        if let (Function::Dyn, [argument]) = (call.declaration.function, arguments) {
            let cost = self.cost(*argument);
            let (size, entries) = (self.size(*argument), self.entries(*argument));
            self.set_size(node, size);
            self.set_entries(node, entries);
            return cost.plus(Range::exactly(1));
        }
        let costs: Vec<_> = arguments.iter().map(|argument| self.argument(*argument)).collect();
        let receiver = receiver.filter(|_| call.has_receiver);
        let receiver_cost = receiver.map_or(Range::exactly(0), |receiver| self.argument(receiver));
        let all = costs.iter().fold(Range::exactly(0), |sum, cost| sum.plus(*cost));
        let mut union = Range::none_if(true);
        let mut size: Option<Range> = None;
        for overload in call.overload_names() {
            let estimate = self.overload(node, &call, overload, receiver, arguments);
            let cost = match (overload, costs.as_slice()) {
                ("conditional", [condition, if_true, if_false]) => {
                    condition.plus(if_true.union(*if_false))
                }
                _ => estimate.cost.plus(all),
            };
            union = union.union(cost);
            size = match (size, estimate.size) {
                (Some(a), Some(b)) => Some(a.union(b)),
                (a, b) => a.or(b),
            };
            if let ("index_list" | "index_map", Some(indexed)) = (overload, arguments.first()) {
                size = self.entries(*indexed).map(|entries| entries.value);
                self.places[node.index()] = self.step(self.place(*indexed), Step::Element);
            }
            if size.is_none() {
                size = self.size(node);
            }
        }
        self.set_size(node, size);
        receiver_cost.plus(union)
    }

    /// The cost. Sets the size, which must be known before the next argument changes what is known of a map's parts.
    fn argument(&mut self, node: NodeId) -> Range {
        let cost = self.cost(node);
        self.size(node);
        cost
    }

    fn overload(
        &mut self,
        node: NodeId,
        call: &ResolvedCall,
        overload: &str,
        receiver: Option<NodeId>,
        arguments: &[NodeId],
    ) -> Estimate {
        let function = call.declaration.function;
        self.list_call(function, overload, receiver, arguments)
            .or_else(|| self.text_call(function, receiver, arguments))
            .or_else(|| self.kubernetes_call(function, overload, arguments))
            .or_else(|| self.standard_call(node, overload, receiver, arguments))
            .unwrap_or(Estimate::ONE)
    }

    /// The number that a literal is, for arguments that are counts.
    fn constant(&self, node: NodeId) -> Option<u64> {
        match self.checked.ast.expr(node) {
            Expr::Literal(Literal::Int(value)) => Some(u64::try_from(*value).unwrap_or(0)),
            _ => None,
        }
    }

    fn list_call(
        &mut self,
        function: Function,
        overload: &str,
        receiver: Option<NodeId>,
        arguments: &[NodeId],
    ) -> Option<Estimate> {
        use Function as F;
        let making = |per_element: f64, size: Range| {
            let cost = size.scaled(per_element).plus(Range::exactly(1 + LIST));
            Some(Estimate { cost, size: Some(size) })
        };
        match (function, receiver, arguments) {
            (F::Slice, Some(list), [start, end]) => {
                let most = self.size_or_unknown(list).max;
                let start = self.constant(*start).unwrap_or(0);
                let end = self.constant(*end).unwrap_or(most);
                making(1.0, Range::exactly(end.wrapping_sub(start)))
            }
            (F::Flatten, Some(list), depth) => {
                let depth =
                    depth.first().map_or(1, |depth| self.constant(*depth).unwrap_or(u64::MAX));
                let size = self.size_or_unknown(list);
                making(depth as f64, size)
            }
            (F::Range, None, [count]) => {
                making(1.0, Range::exactly(self.constant(*count).unwrap_or(u64::MAX)))
            }
            (F::Reverse, Some(list), []) => making(1.0, self.size_or_unknown(list)),
            (F::Distinct, Some(list), []) => {
                let size = self.size_or_unknown(list);
                making(2.0, size.times(size))
            }
            (F::Sort, Some(list), []) => self.sorting(overload, list),
            (F::SortByKeys, Some(_), [keys]) => self.sorting(overload, *keys),
            (F::SetsContains | F::SetsIntersects | F::SetsEquivalent, None, [a, b]) => {
                let factor = if function == F::SetsEquivalent { 2.0 } else { 1.0 };
                let pairs = self.size_or_unknown(*a).times(self.size_or_unknown(*b));
                Some(Estimate::new(pairs.scaled(factor).plus(Range::exactly(1))))
            }
            (F::Includes, Some(_), _) => {
                Some(Estimate::new(Range { min: 0, max: limits::MAX_INCLUDES_VALUES as u64 }))
            }
            _ => None,
        }
    }

    fn sorting(&mut self, overload: &str, keys: NodeId) -> Option<Estimate> {
        let is_text = overload.starts_with("list_string_") || overload.starts_with("list_bytes_");
        let size = self.size_or_unknown(keys);
        let pairs = size.times(size);
        let per_pair = if is_text { 2.0 + PER_CHARACTER } else { 2.0 };
        let cost = pairs.scaled(per_pair).plus(Range::exactly(1 + LIST));
        Some(Estimate { cost, size: Some(pairs) })
    }

    /// Type of a list's elements. What has a static list type is no part of a device, so their size is not known.
    fn element(&self, list: NodeId) -> Option<Type> {
        self.checked.type_of(list).parameters().first().map(|first| (*first).clone())
    }

    fn text_call(
        &mut self,
        function: Function,
        receiver: Option<NodeId>,
        arguments: &[NodeId],
    ) -> Option<Estimate> {
        use Function as F;
        let target = receiver?;
        let size = self.size_or_unknown(target);
        match function {
            F::IsSorted | F::Sum | F::Max | F::Min | F::IndexOf | F::LastIndexOf => {
                let Some(element) = self.element(target) else {
                    return Some(Estimate::new(size.scaled(PER_CHARACTER)));
                };
                let mut each = Range::exactly(1);
                if matches!(element, Type::String | Type::Bytes) {
                    each = each.plus(Range::UNKNOWN.scaled(PER_CHARACTER));
                }
                Some(Estimate::new(size.times(each)))
            }
            F::LowerAscii | F::UpperAscii | F::Substring | F::Trim => {
                Some(Estimate { cost: size.scaled(PER_CHARACTER), size: Some(size) })
            }
            F::Replace => {
                let [from, to, ..] = arguments else { return None };
                let (from, to) = (self.size_or_unknown(*from), self.size_or_unknown(*to));
                Some(Estimate {
                    cost: size.scaled(2.0 * PER_CHARACTER),
                    size: Some(replaced(size, from, to)),
                })
            }
            F::Split => {
                let limit =
                    arguments.get(1).and_then(|limit| match self.checked.ast.expr(*limit) {
                        Expr::Literal(Literal::Int(limit)) => Some(limit.cast_unsigned()),
                        _ => None,
                    });
                Some(Estimate {
                    cost: size.scaled(2.0 * PER_CHARACTER),
                    size: Some(Range { min: 0, max: limit.unwrap_or(size.max) }),
                })
            }
            F::Join => {
                let mut joined = Range::exactly(0);
                if self.element(target).is_some() {
                    joined = size.times(Range::UNKNOWN);
                }
                if let Some(separator) = arguments.first() {
                    let between =
                        Range { min: size.min.saturating_sub(1), max: size.max.saturating_sub(1) };
                    joined = joined.plus(self.size_or_unknown(*separator).times(between));
                }
                Some(Estimate { cost: joined.scaled(PER_CHARACTER), size: Some(joined) })
            }
            F::Find | F::FindAll => {
                let pattern = self.size_or_unknown(*arguments.first()?);
                Some(Estimate {
                    cost: pattern_cost(size, pattern),
                    size: Some(Range { min: 0, max: size.max }),
                })
            }
            _ => None,
        }
    }

    fn kubernetes_call(
        &mut self,
        function: Function,
        overload: &str,
        arguments: &[NodeId],
    ) -> Option<Estimate> {
        use Function as F;
        let first = arguments.first().map(|first| self.size_or_unknown(*first));
        Some(Estimate::new(match function {
            F::Url => return Some(Estimate { cost: first?.scaled(PER_CHARACTER), size: first }),
            F::Ip if overload == "cidr_ip" => Range::exactly(1),
            F::Cidr
            | F::IsIp
            | F::IsCidr
            | F::Ip
            | F::Quantity
            | F::IsQuantity
            | F::Semver
            | F::IsSemver => first?.scaled(PER_CHARACTER),
            F::IsCanonicalIp => first?.scaled(2.0 * PER_CHARACTER),
            F::ContainsIp | F::ContainsCidr => {
                let address = Range { min: 4, max: 16 };
                let mut cost = address.plus(address).scaled(PER_CHARACTER);
                if function == F::ContainsCidr {
                    cost = cost.plus(address.scaled(PER_CHARACTER)).plus(Range::exactly(1));
                }
                if overload.ends_with("_string") {
                    cost = cost.plus(first?.scaled(PER_CHARACTER));
                }
                cost
            }
            F::Validate => first?
                .scaled(PER_CHARACTER)
                .scaled(LONGEST_FORMAT_PATTERN as f64 * PER_PATTERN_CHARACTER),
            F::Equal => return self.equality(arguments),
            _ => return None,
        }))
    }

    /// Equality of types that Kubernetes added.
    fn equality(&mut self, arguments: &[NodeId]) -> Option<Estimate> {
        let &[a, b] = arguments else { return None };
        let (left, right) = (self.checked.type_of(a), self.checked.type_of(b));
        if left.name() != right.name() {
            return None;
        }
        Some(Estimate::new(match left {
            Type::Opaque(types::IP | types::CIDR, _)
            | Type::Object(types::QUANTITY | types::SEMVER) => Range::exactly(1),
            Type::Object(types::FORMAT) => Range { min: 1, max: 64 }.scaled(PER_CHARACTER),
            Type::Object(types::URL) => {
                let max = self.size(b).map_or(1, |size| size.max);
                Range { min: 1, max }.scaled(PER_CHARACTER)
            }
            _ => return None,
        }))
    }

    fn standard_call(
        &mut self,
        node: NodeId,
        overload: &str,
        receiver: Option<NodeId>,
        arguments: &[NodeId],
    ) -> Option<Estimate> {
        let target = receiver.map(|receiver| self.size_or_unknown(receiver));
        let mut size =
            |index: usize| arguments.get(index).map(|argument| self.size_or_unknown(*argument));
        let is_binary_text = overload.ends_with("_string") || overload.ends_with("_bytes");
        Some(match overload {
            "string_format" => Estimate::new(target?.scaled(PER_CHARACTER)),
            "string_to_bytes" => {
                let from = size(0)?;
                Estimate {
                    cost: from.scaled(PER_CHARACTER),
                    size: Some(Range { min: from.min, max: from.max.wrapping_mul(4) }),
                }
            }
            "bytes_to_string" => {
                let from = size(0)?;
                Estimate {
                    cost: from.scaled(PER_CHARACTER),
                    size: Some(Range { min: from.min / 4, max: from.max }),
                }
            }
            "strings_quote" => {
                let from = size(0)?;
                // Wraps around where the size is not known, as in the reference.
                let max = from.max.wrapping_mul(2).wrapping_add(2);
                Estimate {
                    cost: from.scaled(PER_CHARACTER),
                    size: Some(Range { min: from.min.wrapping_add(2), max }),
                }
            }
            "starts_with_string" | "ends_with_string" => {
                Estimate::new(size(0)?.scaled(PER_CHARACTER))
            }
            "in_list" => Estimate::new(size(1)?),
            "matches_string" => Estimate::new(pattern_cost(target?, size(0)?)),
            "contains_string" => {
                let text = target?.scaled(PER_CHARACTER);
                Estimate::new(text.times(size(0)?.scaled(PER_CHARACTER)))
            }
            "conditional" => {
                let union = size(1)?.union(size(2)?);
                let [_, if_true, if_false] = arguments else { return None };
                let both = self.entries(*if_true).zip(self.entries(*if_false));
                self.set_entries(node, both.map(|(a, b)| a.union(b)));
                Estimate { cost: Range::exactly(0), size: Some(union) }
            }
            "add_string" | "add_bytes" | "add_list" => {
                let sum = size(0)?.plus(size(1)?);
                let [a, b] = arguments else { return None };
                let both = self.entries(*a).zip(self.entries(*b));
                self.set_entries(node, both.map(|(a, b): (Entries, Entries)| a.union(b)));
                let is_list = overload == "add_list";
                let cost = if is_list { Range::exactly(1) } else { sum.scaled(PER_CHARACTER) };
                Estimate { cost, size: Some(sum) }
            }
            "equals" | "not_equals" => shorter(size(0)?, size(1)?),
            _ if is_binary_text
                && (overload.starts_with("less_") || overload.starts_with("greater_")) =>
            {
                shorter(size(0)?, size(1)?)
            }
            _ => return None,
        })
    }
}

fn shorter(a: Range, b: Range) -> Estimate {
    let max = a.max.min(b.max);
    Estimate::new(Range { min: u64::from(max > 0), max }.scaled(PER_CHARACTER))
}

fn pattern_cost(text: Range, pattern: Range) -> Range {
    text.plus(Range::exactly(1)).scaled(PER_CHARACTER).times(pattern.scaled(PER_PATTERN_CHARACTER))
}

/// The size of a text of size `text` after replacements.
fn replaced(text: Range, from: Range, to: Range) -> Range {
    let (mut count, mut kept) = (Range::exactly(0), Range::exactly(0));
    let ratio = |a: u64, b: u64| (a as f64 / b as f64).ceil() as u64;
    if from.min == 0 {
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if to.max <= from.min {
        kept.max = text.max;
    } else {
        count.max = ratio(text.max, from.min);
    }
    if from.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if from.max <= to.min {
        kept.min = text.min;
    } else {
        count.min = ratio(text.min, from.max);
    }
    count.times(to).plus(kept)
}
