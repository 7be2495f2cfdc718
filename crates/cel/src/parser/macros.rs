//! Macros: calls that the parser replaces by another expression (`docs/spec/cel.md` §4).

use std::sync::Arc;

use super::{ACCUMULATOR, ParseResult, Parser, SyntaxError, too_large};
use crate::ast::{Comprehension, Element, Expr, Literal, NodeId, TooLarge};

/// Variable of a loop that binds none.
const UNUSED: &str = "#unused";
const SORTED: &str = "@__sortBy_input__";

/// What a loop keeps.
struct Loop {
    start: NodeId,
    condition: NodeId,
    step: NodeId,
    result: NodeId,
}

impl Parser<'_> {
    pub(super) fn call_or_macro(
        &mut self,
        name: &str,
        receiver: Option<NodeId>,
        arguments: Vec<NodeId>,
        offset: usize,
    ) -> ParseResult {
        let expanded = match receiver {
            None if name == "has" && arguments.len() == 1 => return self.has(arguments[0], offset),
            None => None,
            Some(receiver) => self.expand(name, receiver, &arguments, offset)?,
        };
        match expanded {
            Some(expanded) => Ok(expanded),
            None => self.add(Expr::Call { function: name.into(), receiver, arguments }, offset),
        }
    }

    fn has(&mut self, argument: NodeId, offset: usize) -> ParseResult {
        let Expr::Select { operand, field, .. } = self.ast.expr(argument) else {
            return Err(self.error_at(argument, "invalid argument to has() macro"));
        };
        let test = Expr::Select { operand: *operand, field: Arc::clone(field), is_test: true };
        self.add(test, offset)
    }

    fn expand(
        &mut self,
        name: &str,
        receiver: NodeId,
        arguments: &[NodeId],
        at: usize,
    ) -> ParseResult<Option<NodeId>> {
        let expanded = match (name, arguments) {
            ("all" | "exists" | "exists_one" | "existsOne", [variables @ .., predicate])
                // By its newer name it is only there with two variables.
                if variables.len() == 2 || variables.len() == 1 && name != "existsOne" =>
            {
                let (first, second) = self.variables(variables)?;
                let kept = self.quantifier(name, *predicate, at)?;
                self.comprehension(receiver, first, second, kept, at)?
            }
            ("map", [variable, rest @ ..]) if matches!(rest.len(), 1 | 2) => {
                let (first, second) = self.variables(&[*variable])?;
                let kept = self.transform_list(rest, at)?;
                self.comprehension(receiver, first, second, kept, at)?
            }
            ("filter", [variable, predicate]) => {
                let (first, second) = self.variables(&[*variable])?;
                let kept = self.transform_list(&[*predicate, *variable], at)?;
                self.comprehension(receiver, first, second, kept, at)?
            }
            ("transformList", [first, second, rest @ ..]) if matches!(rest.len(), 1 | 2) => {
                let (first, second) = self.variables(&[*first, *second])?;
                let kept = self.transform_list(rest, at)?;
                self.comprehension(receiver, first, second, kept, at)?
            }
            ("transformMap" | "transformMapEntry", [first, second, rest @ ..])
                if matches!(rest.len(), 1 | 2) =>
            {
                let key = (name == "transformMap").then_some(*first);
                let (first, second) = self.variables(&[*first, *second])?;
                let kept = self.transform_map(key, rest, at)?;
                self.comprehension(receiver, first, second, kept, at)?
            }
            ("bind", [variable, value, result]) if self.is_identifier(receiver, "cel") => {
                let variable = self.simple_name(*variable)?;
                self.bind(variable, *value, *result, at)?
            }
            ("optMap" | "optFlatMap", [variable, result]) => {
                self.optional_map(receiver, *variable, *result, name == "optMap", at)?
            }
            ("sortBy", [variable, key]) => self.sort_by(receiver, *variable, *key, at)?,
            _ => return Ok(None),
        };
        Ok(Some(expanded))
    }

    fn error_at(&self, node: NodeId, message: &str) -> SyntaxError {
        SyntaxError::new(self.ast.node(node).offset as usize, message)
    }

    fn is_identifier(&self, node: NodeId, name: &str) -> bool {
        matches!(self.ast.expr(node), Expr::Identifier(is) if &**is == name)
    }

    fn simple_name(&self, node: NodeId) -> ParseResult<Arc<str>> {
        match self.ast.expr(node) {
            Expr::Identifier(name) => Ok(Arc::clone(name)),
            _ => Err(self.error_at(node, "argument must be a simple name")),
        }
    }

    fn variables(&self, nodes: &[NodeId]) -> ParseResult<(Arc<str>, Option<Arc<str>>)> {
        let mut names = Vec::with_capacity(2);
        for node in nodes {
            let name = self.simple_name(*node)?;
            if &*name == ACCUMULATOR {
                return Err(
                    self.error_at(*node, "iteration variable overwrites accumulator variable")
                );
            }
            if names.contains(&name) {
                return Err(self.error_at(*node, &format!("duplicate variable name: {name}")));
            }
            names.push(name);
        }
        let second = names.get(1).cloned();
        Ok((names.swap_remove(0), second))
    }

    fn identifier_node(&mut self, name: &str, at: usize) -> ParseResult {
        self.add(Expr::Identifier(name.into()), at)
    }

    fn accumulated(&mut self, at: usize) -> ParseResult {
        self.identifier_node(ACCUMULATOR, at)
    }

    fn literal(&mut self, literal: Literal, at: usize) -> ParseResult {
        self.add(Expr::Literal(literal), at)
    }

    fn comprehension(
        &mut self,
        range: NodeId,
        variable: Arc<str>,
        second_variable: Option<Arc<str>>,
        kept: Loop,
        at: usize,
    ) -> ParseResult {
        let Loop { start, condition, step, result } = kept;
        let comprehension = Comprehension {
            variable,
            second_variable,
            range,
            accumulator: ACCUMULATOR.into(),
            start,
            condition,
            step,
            result,
        };
        self.add(Expr::Comprehension(Box::new(comprehension)), at)
    }

    fn quantifier(&mut self, name: &str, predicate: NodeId, at: usize) -> ParseResult<Loop> {
        let kept = self.accumulated(at)?;
        let kept_in_step = self.accumulated(at)?;
        let result = self.accumulated(at)?;
        Ok(match name {
            "all" => Loop {
                start: self.literal(Literal::Bool(true), at)?,
                condition: self.call("@not_strictly_false", vec![kept], at)?,
                step: self.add(Expr::And(vec![kept_in_step, predicate]), at)?,
                result,
            },
            "exists" => {
                let none_yet = self.call("!_", vec![kept], at)?;
                Loop {
                    start: self.literal(Literal::Bool(false), at)?,
                    condition: self.call("@not_strictly_false", vec![none_yet], at)?,
                    step: self.add(Expr::Or(vec![kept_in_step, predicate]), at)?,
                    result,
                }
            }
            _ => {
                let one = self.literal(Literal::Int(1), at)?;
                let more = self.call("_+_", vec![kept_in_step, one], at)?;
                let one = self.literal(Literal::Int(1), at)?;
                Loop {
                    start: self.literal(Literal::Int(0), at)?,
                    condition: self.literal(Literal::Bool(true), at)?,
                    step: self.call("_?_:_", vec![predicate, more, kept], at)?,
                    result: self.call("_==_", vec![result, one], at)?,
                }
            }
        })
    }

    /// `rest` is a transformation, perhaps after a condition.
    fn transform_list(&mut self, rest: &[NodeId], at: usize) -> ParseResult<Loop> {
        let [filter @ .., transform] = rest else { return Err(too_large(at)) };
        let start = self.add(Expr::List(Vec::new()), at)?;
        let kept = self.accumulated(at)?;
        let element = Element { value: *transform, is_optional: false };
        let added = self.add(Expr::List(vec![element]), at)?;
        let step = self.call("_+_", vec![kept, added], at)?;
        self.filtered(start, filter, step, at)
    }

    /// As [`Self::transform_list`]; `key` absent: the transformation gives whole entries.
    fn transform_map(
        &mut self,
        key: Option<NodeId>,
        rest: &[NodeId],
        at: usize,
    ) -> ParseResult<Loop> {
        let [filter @ .., transform] = rest else { return Err(too_large(at)) };
        let start = self.add(Expr::Map(Vec::new()), at)?;
        let kept = self.accumulated(at)?;
        let arguments = [kept].into_iter().chain(key).chain([*transform]).collect();
        let step = self.call("cel.@mapInsert", arguments, at)?;
        self.filtered(start, filter, step, at)
    }

    fn filtered(
        &mut self,
        start: NodeId,
        filter: &[NodeId],
        mut step: NodeId,
        at: usize,
    ) -> ParseResult<Loop> {
        if let [filter] = filter {
            let kept = self.accumulated(at)?;
            step = self.call("_?_:_", vec![*filter, step, kept], at)?;
        }
        let condition = self.literal(Literal::Bool(true), at)?;
        Ok(Loop { start, condition, step, result: self.accumulated(at)? })
    }

    fn bind(&mut self, name: Arc<str>, value: NodeId, result: NodeId, at: usize) -> ParseResult {
        let range = self.add(Expr::List(Vec::new()), at)?;
        let condition = self.literal(Literal::Bool(false), at)?;
        let step = self.identifier_node(&name, at)?;
        let comprehension = Comprehension {
            variable: UNUSED.into(),
            second_variable: None,
            range,
            accumulator: name,
            start: value,
            condition,
            step,
            result,
        };
        self.add(Expr::Comprehension(Box::new(comprehension)), at)
    }

    fn member_call(
        &mut self,
        receiver: NodeId,
        name: &str,
        arguments: Vec<NodeId>,
        at: usize,
    ) -> ParseResult {
        self.add(Expr::Call { function: name.into(), receiver: Some(receiver), arguments }, at)
    }

    fn optional_map(
        &mut self,
        receiver: NodeId,
        variable: NodeId,
        result: NodeId,
        wraps: bool,
        at: usize,
    ) -> ParseResult {
        let name = self.simple_name(variable)?;
        let copy = self.ast.copy(receiver).map_err(|TooLarge| too_large(at))?;
        let has_value = self.member_call(receiver, "hasValue", Vec::new(), at)?;
        let value = self.member_call(copy, "value", Vec::new(), at)?;
        let mut mapped = self.bind(name, value, result, at)?;
        if wraps {
            mapped = self.call("optional.of", vec![mapped], at)?;
        }
        let none = self.call("optional.none", Vec::new(), at)?;
        self.call("_?_:_", vec![has_value, mapped, none], at)
    }

    fn sort_by(
        &mut self,
        receiver: NodeId,
        variable: NodeId,
        key: NodeId,
        at: usize,
    ) -> ParseResult {
        if matches!(self.ast.expr(receiver), Expr::Literal(_) | Expr::Map(_)) {
            return Err(self.error_at(
                receiver,
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
            ));
        }
        let (variable, _) = self.variables(&[variable])?;
        let input = self.identifier_node(SORTED, at)?;
        let kept = self.transform_list(&[key], at)?;
        let keys = self.comprehension(input, variable, None, kept, at)?;
        let input = self.identifier_node(SORTED, at)?;
        let sorted = self.member_call(input, "@sortByAssociatedKeys", vec![keys], at)?;
        self.bind(SORTED.into(), receiver, sorted, at)
    }
}
