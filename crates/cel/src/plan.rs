//! From a checked tree to what is evaluated: names become slots, constants are computed, patterns compiled
//! (`docs/spec/cel.md` §5). The shapes follow the reference's, because costs are counted by them.

mod constants;

use std::sync::Arc;

use crate::ast::{Comprehension, Expr, Literal, NodeId};
use crate::check::{CheckedExpr, ResolvedCall};
use crate::cost::Rule;
use crate::declarations::Function;
use crate::error::{CompileError, Fault};
use crate::eval::unusable_key;
use crate::functions::pattern::{Patterns, Regex};
use crate::value::{List, Text, Value};

#[derive(Debug)]
pub(crate) enum Plan {
    Constant(Value<'static>),
    /// A variable or another value, and what is selected from it. Costs one unit.
    Attribute(Box<Attribute>),
    /// `has(…)`. Costs what the selections cost.
    Test(Box<Attribute>),
    And(Box<[Plan]>),
    Or(Box<[Plan]>),
    Equal(Box<[Plan; 2]>),
    NotEqual(Box<[Plan; 2]>),
    /// `in` a constant list: costs nothing.
    InConstant(Box<Plan>, List<'static>),
    OptionalOr(Box<[Plan; 2]>),
    OptionalOrValue(Box<[Plan; 2]>),
    /// A call whose result does not depend on the device: it was made before, and costs what it costs.
    ConstantCall(Box<ConstantCall>),
    Call(Box<Call>),
    List(Box<[PlannedElement]>),
    Map(Box<[PlannedEntry]>),
    Fold(Box<Fold>),
}

#[derive(Debug)]
pub(crate) struct PlannedElement {
    pub(crate) value: Plan,
    pub(crate) is_optional: bool,
}

#[derive(Debug)]
pub(crate) struct PlannedEntry {
    pub(crate) key: Plan,
    pub(crate) value: Plan,
    pub(crate) is_optional: bool,
}

#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) root: Root,
    pub(crate) qualifiers: Vec<Qualifier>,
}

#[derive(Debug)]
pub(crate) enum Root {
    Device,
    /// A variable of a loop, by slot.
    Slot(usize),
    Value(Plan),
    /// `condition ? if_true : if_false`. Itself and the branches' variables cost nothing.
    Conditional(Box<(Plan, Attribute, Attribute)>),
}

/// One selection. Costs one unit.
#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) key: QualifierKey,
    pub(crate) is_optional: bool,
    /// Only asks whether the field is there.
    pub(crate) is_test: bool,
}

#[derive(Debug)]
pub(crate) enum QualifierKey {
    Constant(Value<'static>),
    /// A variable: its own unit is not counted.
    Attribute(Box<Attribute>),
    Computed(Box<Plan>),
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: Function,
    pub(crate) name: &'static str,
    pub(crate) rule: Rule,
    /// Whether evaluation ends with the first argument that fails, and the call costs nothing then.
    pub(crate) stops_early: bool,
    pub(crate) arguments: Box<[Plan]>,
    /// The pattern, if it is a constant.
    pub(crate) pattern: Option<Regex>,
    /// The slot of the list or map that the call extends, if there is no other reference to it.
    pub(crate) extends: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct ConstantCall {
    pub(crate) units: u64,
    pub(crate) result: Result<Value<'static>, Fault>,
}

#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) range: Plan,
    /// Evaluated when it is first used.
    pub(crate) start: Plan,
    pub(crate) condition: Plan,
    pub(crate) step: Plan,
    pub(crate) result: Plan,
    /// The accumulator's slot; the loop's variables have the next ones.
    pub(crate) slot: usize,
    pub(crate) has_second: bool,
}

/// What is evaluated, and how many slots that needs.
pub(crate) fn plan(
    checked: &CheckedExpr,
    patterns: &mut Patterns,
) -> Result<(Plan, usize), CompileError> {
    let (scope, accumulators) = (Vec::new(), Vec::new());
    let mut planner = Planner { checked, patterns, scope, accumulators, slots: 0 };
    let plan = planner.plan(checked.root)?;
    Ok((plan, planner.slots))
}

struct Planner<'a> {
    checked: &'a CheckedExpr,
    patterns: &'a mut Patterns,
    /// Names in scope with their slots; `None` where a slot has no name.
    scope: Vec<(Option<Arc<str>>, usize)>,
    /// Slots of accumulators that begin as an empty list or map of a macro.
    accumulators: Vec<usize>,
    slots: usize,
}

type PlanResult<T = Plan> = Result<T, CompileError>;

impl Planner<'_> {
    fn plan(&mut self, node: NodeId) -> PlanResult {
        let checked = self.checked;
        match checked.ast.expr(node) {
            Expr::Literal(literal) => Ok(Plan::Constant(constant(literal))),
            Expr::Identifier(_) | Expr::Select { .. } if checked.type_name(node).is_some() => {
                Ok(Plan::Constant(Value::Type(checked.type_name(node).unwrap_or("type"))))
            }
            Expr::Identifier(name) => {
                let name = name.strip_prefix('.').unwrap_or(name);
                let slot = self.scope.iter().rev().find(|(is, _)| is.as_deref() == Some(name));
                let root = slot.map_or(Root::Device, |(_, slot)| Root::Slot(*slot));
                Ok(Plan::Attribute(Box::new(Attribute { root, qualifiers: Vec::new() })))
            }
            Expr::Select { operand, field, is_test } => {
                let mut attribute = self.attribute(*operand)?;
                let key = QualifierKey::Constant(Value::String(Text::Owned(Arc::clone(field))));
                attribute.qualifiers.push(Qualifier { key, is_optional: false, is_test: *is_test });
                Ok(if *is_test { Plan::Test(attribute) } else { Plan::Attribute(attribute) })
            }
            Expr::And(terms) => Ok(Plan::And(self.plan_all(terms)?)),
            Expr::Or(terms) => Ok(Plan::Or(self.plan_all(terms)?)),
            Expr::List(elements) => {
                let planned: Box<[_]> = elements
                    .iter()
                    .map(|element| {
                        let value = self.plan(element.value)?;
                        Ok(PlannedElement { value, is_optional: element.is_optional })
                    })
                    .collect::<PlanResult<_>>()?;
                constants::list(planned)
            }
            Expr::Map(entries) => {
                let planned: Box<[_]> = entries
                    .iter()
                    .map(|entry| {
                        let (key, value) = (self.plan(entry.key)?, self.plan(entry.value)?);
                        Ok(PlannedEntry { key, value, is_optional: entry.is_optional })
                    })
                    .collect::<PlanResult<_>>()?;
                constants::map(planned)
            }
            Expr::Comprehension(comprehension) => self.fold(comprehension),
            Expr::Call { receiver, arguments, .. } => self.call(node, *receiver, arguments),
        }
    }

    fn plan_all(&mut self, nodes: &[NodeId]) -> PlanResult<Box<[Plan]>> {
        nodes.iter().map(|node| self.plan(*node)).collect()
    }

    /// The node as something to select from.
    fn attribute(&mut self, node: NodeId) -> PlanResult<Box<Attribute>> {
        Ok(match self.plan(node)? {
            Plan::Attribute(attribute) => attribute,
            other => Box::new(Attribute { root: Root::Value(other), qualifiers: Vec::new() }),
        })
    }

    fn call(&mut self, node: NodeId, receiver: Option<NodeId>, arguments: &[NodeId]) -> PlanResult {
        let Some(call) = self.checked.call(node) else {
            return Err(CompileError::Constant("a call was not resolved".to_owned()));
        };
        let receiver = receiver.filter(|_| call.has_receiver);
        let nodes: Vec<_> = receiver.into_iter().chain(arguments.iter().copied()).collect();
        match (call.declaration.function, nodes.as_slice()) {
            (Function::Equal, [a, b]) => {
                Ok(Plan::Equal(Box::new([self.plan(*a)?, self.plan(*b)?])))
            }
            (Function::NotEqual, [a, b]) => {
                Ok(Plan::NotEqual(Box::new([self.plan(*a)?, self.plan(*b)?])))
            }
            (Function::OptionalOr, [a, b]) => {
                Ok(Plan::OptionalOr(Box::new([self.plan(*a)?, self.plan(*b)?])))
            }
            (Function::OptionalOrValue, [a, b]) => {
                Ok(Plan::OptionalOrValue(Box::new([self.plan(*a)?, self.plan(*b)?])))
            }
            (Function::Conditional, [condition, if_true, if_false]) => {
                let condition = self.plan(*condition)?;
                let (if_true, if_false) = (self.attribute(*if_true)?, self.attribute(*if_false)?);
                let root = Root::Conditional(Box::new((condition, *if_true, *if_false)));
                Ok(Plan::Attribute(Box::new(Attribute { root, qualifiers: Vec::new() })))
            }
            (Function::Index, [operand, key]) => self.index(*operand, *key, false),
            (Function::OptionalIndex | Function::OptionalSelect, [operand, key]) => {
                self.index(*operand, *key, true)
            }
            _ => self.plain_call(call, &nodes),
        }
    }

    fn index(&mut self, operand: NodeId, key: NodeId, is_optional: bool) -> PlanResult {
        let mut attribute = self.attribute(operand)?;
        let key = match self.plan(key)? {
            Plan::Constant(value) => match unusable_key(&value) {
                Some(why) => return Err(CompileError::Constant(why)),
                None => QualifierKey::Constant(value),
            },
            Plan::Attribute(attribute) => QualifierKey::Attribute(attribute),
            other => QualifierKey::Computed(Box::new(other)),
        };
        attribute.qualifiers.push(Qualifier { key, is_optional, is_test: false });
        Ok(Plan::Attribute(attribute))
    }

    fn plain_call(&mut self, call: &ResolvedCall, nodes: &[NodeId]) -> PlanResult {
        let function = call.declaration.function;
        let overload = call.overload();
        let arguments = self.plan_all(nodes)?;
        if let [Plan::Constant(value)] = &*arguments
            && constants::is_conversion(function)
        {
            return constants::converted(function, call.declaration.name, value);
        }
        let pattern = match (function, &*arguments) {
            (
                Function::Matches | Function::Find | Function::FindAll,
                [_, Plan::Constant(Value::String(text)), ..],
            ) => {
                let compiled = self.patterns.get(text);
                Some(compiled.map_err(|why| CompileError::Constant(why.to_string()))?)
            }
            _ => None,
        };
        let is_in_list = function == Function::In && overload == Some("in_list");
        let arguments = match constants::in_list(is_in_list, arguments) {
            Ok(plan) => return Ok(plan),
            Err(arguments) => arguments,
        };
        if constants::is_reader(function)
            && let Some(known) =
                constants::known(function, overload, call.declaration.name, &arguments)
        {
            return Ok(Plan::ConstantCall(Box::new(known)));
        }
        let is_dispatched = overload.is_none() && !call.declaration.is_singleton();
        let extends = match (function, arguments.first()) {
            (Function::Add | Function::MapInsert, Some(Plan::Attribute(attribute))) => {
                match attribute.root {
                    Root::Slot(slot) if attribute.qualifiers.is_empty() => {
                        Some(slot).filter(|slot| self.accumulators.contains(slot))
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        Ok(Plan::Call(Box::new(Call {
            function,
            name: call.declaration.name,
            rule: Rule::of(function, overload),
            stops_early: arguments.len() > 2
                || pattern.is_some()
                || is_dispatched
                || function == Function::Format,
            arguments,
            pattern,
            extends,
        })))
    }

    fn fold(&mut self, c: &Comprehension) -> PlanResult {
        let start = self.plan(c.start)?;
        let range = self.plan(c.range)?;
        let slot = self.scope.len();
        let is_growing = &*c.accumulator == crate::parser::ACCUMULATOR
            && matches!(self.checked.ast.expr(c.start), Expr::List(_) | Expr::Map(_));
        if is_growing {
            self.accumulators.push(slot);
        }
        self.scope.push((Some(Arc::clone(&c.accumulator)), slot));
        let names = [Some(&c.variable), c.second_variable.as_ref()];
        for (offset, name) in (1..).zip(names) {
            self.scope.push((name.cloned(), slot + offset));
        }
        self.slots = self.slots.max(self.scope.len());
        let condition = self.plan(c.condition)?;
        let step = self.plan(c.step)?;
        self.scope.truncate(slot + 1);
        // The loop's variables are gone, but their slots are not used again inside.
        self.scope.extend([(None, slot + 1), (None, slot + 2)]);
        let result = self.plan(c.result)?;
        self.scope.truncate(slot);
        if is_growing {
            self.accumulators.pop();
        }
        let has_second = c.second_variable.is_some();
        Ok(Plan::Fold(Box::new(Fold { range, start, condition, step, result, slot, has_second })))
    }
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::String(Text::Owned(Arc::clone(text))),
        Literal::Bytes(bytes) => Value::Bytes(Arc::clone(bytes)),
    }
}
