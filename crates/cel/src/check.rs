//! The type checker: gives every node a type and every call its overloads (`docs/spec/cel.md` §3).

use std::sync::Arc;

use crate::ast::{Ast, Comprehension, Element, Entry, Expr, Literal, NodeId};
use crate::declarations::{self, FunctionDeclaration};
use crate::parser::SyntaxError;
use crate::types::{self, Substitution, Type, most_general};

/// A type made of more parts than this is refused.
const MAX_TYPE_PARTS: usize = 300;

/// What a call calls.
#[derive(Clone)]
pub(crate) struct ResolvedCall {
    pub(crate) declaration: &'static FunctionDeclaration,
    /// Places of the overloads that fit; which one is decided at run time if there are several.
    pub(crate) overloads: Vec<usize>,
    /// False if what stands before the dot is part of the function's name.
    pub(crate) has_receiver: bool,
}

impl ResolvedCall {
    /// The overload, if it is known.
    pub(crate) fn overload(&self) -> Option<&'static str> {
        match self.overloads.as_slice() {
            [only] => Some(self.declaration.overloads[*only].name),
            _ => None,
        }
    }

    pub(crate) fn overload_names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.overloads.iter().map(|index| self.declaration.overloads[*index].name)
    }
}

/// An expression with types.
pub(crate) struct CheckedExpr {
    pub(crate) ast: Ast,
    pub(crate) root: NodeId,
    types: Vec<Type>,
    calls: Vec<Option<ResolvedCall>>,
    /// Nodes that name a type.
    type_names: Vec<Option<&'static str>>,
}

impl CheckedExpr {
    pub(crate) fn type_of(&self, node: NodeId) -> &Type {
        &self.types[node.index()]
    }

    pub(crate) fn call(&self, node: NodeId) -> Option<&ResolvedCall> {
        self.calls[node.index()].as_ref()
    }

    pub(crate) fn type_name(&self, node: NodeId) -> Option<&'static str> {
        self.type_names[node.index()]
    }
}

pub(crate) fn check(
    ast: Ast,
    root: NodeId,
    lists_are_attributes: bool,
) -> Result<CheckedExpr, SyntaxError> {
    let count = ast.len();
    let mut checker = Checker {
        ast: &ast,
        lists_are_attributes,
        substitution: Substitution::default(),
        scope: Vec::new(),
        types: vec![Type::Error; count],
        calls: vec![None; count],
        type_names: vec![None; count],
    };
    checker.check(root)?;
    let types = checker.types.iter().map(|is| checker.substitution.apply(is, true)).collect();
    let (calls, type_names) = (checker.calls, checker.type_names);
    Ok(CheckedExpr { types, calls, type_names, ast, root })
}

struct Checker<'a> {
    ast: &'a Ast,
    lists_are_attributes: bool,
    substitution: Substitution,
    /// Variables of loops, innermost last.
    scope: Vec<(Arc<str>, Type)>,
    types: Vec<Type>,
    calls: Vec<Option<ResolvedCall>>,
    type_names: Vec<Option<&'static str>>,
}

/// The type of one value of a device's map of attributes.
pub(crate) fn attribute_type(lists_are_attributes: bool) -> Type {
    if lists_are_attributes { Type::Dyn } else { Type::Any }
}

fn device_field(field: &str, lists_are_attributes: bool) -> Option<Type> {
    let by_domain = |value| Type::map(Type::String, Type::map(Type::String, value));
    Some(match field {
        "driver" => Type::String,
        "allowMultipleAllocations" => Type::Bool,
        "attributes" => by_domain(attribute_type(lists_are_attributes)),
        "capacity" => by_domain(Type::Object(types::QUANTITY)),
        _ => return None,
    })
}

/// The type of that name.
fn named_type(name: &str) -> Option<Type> {
    let variable = || Type::Dyn;
    Some(match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "null_type" => Type::Null,
        "list" => Type::list(variable()),
        "map" => Type::map(variable(), variable()),
        "type" => Type::Type(None),
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        types::IP => Type::Opaque(types::IP, Arc::from([])),
        types::CIDR => Type::Opaque(types::CIDR, Arc::from([])),
        types::OPTIONAL => Type::optional(variable()),
        _ => return None,
    })
}

type Checks<T = ()> = Result<T, SyntaxError>;

impl Checker<'_> {
    fn error<T>(&self, node: NodeId, message: impl Into<String>) -> Checks<T> {
        Err(SyntaxError::new(self.ast.node(node).offset as usize, message))
    }

    fn type_of(&self, node: NodeId) -> &Type {
        &self.types[node.index()]
    }

    fn known_type(&self, node: NodeId) -> Type {
        self.substitution.apply(self.type_of(node), false)
    }

    fn set(&mut self, node: NodeId, is: Type) -> Checks {
        if parts(&is, MAX_TYPE_PARTS) > MAX_TYPE_PARTS {
            return self.error(node, "type has too many parts");
        }
        self.types[node.index()] = is;
        Ok(())
    }

    fn check(&mut self, node: NodeId) -> Checks {
        let ast = self.ast;
        match ast.expr(node) {
            Expr::Literal(literal) => self.set(node, literal_type(literal)),
            Expr::Identifier(name) => {
                let name = name.strip_prefix('.').unwrap_or(name);
                if self.check_name(node, name)? {
                    return Ok(());
                }
                self.error(node, format!("undeclared reference to '{name}' (in container '')"))
            }
            Expr::Select { operand, field, is_test } => {
                self.check_select(node, *operand, field, *is_test)
            }
            Expr::Call { function, receiver, arguments } => {
                self.check_call(node, function, *receiver, arguments)
            }
            Expr::And(terms) | Expr::Or(terms) => {
                for term in terms {
                    self.check(*term)?;
                }
                for term in terms {
                    self.require(*term, &Type::Bool)?;
                }
                self.set(node, Type::Bool)
            }
            Expr::List(elements) => self.check_list(node, elements),
            Expr::Map(entries) => self.check_map(node, entries),
            Expr::Comprehension(comprehension) => self.check_comprehension(node, comprehension),
        }
    }

    /// Whether `name` is something; if so the node has its type now.
    fn check_name(&mut self, node: NodeId, name: &str) -> Checks<bool> {
        let local = self.scope.iter().rev().find(|(local, _)| **local == *name);
        if let Some((_, is)) = local {
            let is = is.clone();
            self.set(node, is)?;
            return Ok(true);
        }
        if name == "device" {
            self.set(node, Type::Object(types::DEVICE))?;
            return Ok(true);
        }
        let Some(named) = named_type(name) else { return Ok(false) };
        self.type_names[node.index()] = Some(named.name());
        let named = match named {
            // Fresh variables, as lists of anything are lists.
            Type::List(_) => Type::list(self.substitution.fresh()),
            Type::Map(_) => Type::map(self.substitution.fresh(), self.substitution.fresh()),
            other => other,
        };
        self.set(node, Type::type_of(named))?;
        Ok(true)
    }

    fn check_select(
        &mut self,
        node: NodeId,
        operand: NodeId,
        field: &str,
        is_test: bool,
    ) -> Checks {
        if let Some(name) = self.ast.qualified_name(node)
            && self.check_name(node, &name)?
        {
            return Ok(());
        }
        let selected = self.field_type(node, operand, field, false)?;
        let is = if is_test { Type::Bool } else { self.substitution.apply(&selected, false) };
        self.set(node, is)
    }

    fn field_type(
        &mut self,
        node: NodeId,
        operand: NodeId,
        field: &str,
        is_optional: bool,
    ) -> Checks<Type> {
        self.check(operand)?;
        let operand_type = self.known_type(operand);
        let target = operand_type.in_optional().unwrap_or(&operand_type);
        let found = match target {
            Type::Map(entry) => entry.1.clone(),
            Type::Object(types::DEVICE) => match device_field(field, self.lists_are_attributes) {
                Some(found) => found,
                None => return self.error(node, format!("undefined field '{field}'")),
            },
            Type::Variable(_) => {
                self.substitution.unify(&Type::Dyn, target);
                Type::Dyn
            }
            other if other.is_dyn_or_error() => Type::Dyn,
            other => {
                let name = other.in_message();
                return self.error(node, format!("type '{name}' does not support field selection"));
            }
        };
        let is_optional = is_optional || operand_type.in_optional().is_some();
        Ok(if is_optional { Type::optional(found) } else { found })
    }

    fn check_call(
        &mut self,
        node: NodeId,
        function: &str,
        receiver: Option<NodeId>,
        arguments: &[NodeId],
    ) -> Checks {
        if function == "_?._" {
            return self.check_optional_select(node, arguments);
        }
        for argument in arguments {
            self.check(*argument)?;
        }
        let Some(receiver) = receiver else {
            return match declarations::find(function) {
                Some(declaration) => self.resolve(node, declaration, None, arguments),
                None => self.undeclared(node, function),
            };
        };
        if let Some(prefix) = self.ast.qualified_name(receiver)
            && let Some(declaration) = declarations::find(&format!("{prefix}.{function}"))
        {
            return self.resolve(node, declaration, None, arguments);
        }
        let declaration = declarations::find(function);
        self.check(receiver)?;
        match declaration {
            Some(declaration) => self.resolve(node, declaration, Some(receiver), arguments),
            None => self.undeclared(node, function),
        }
    }

    fn undeclared(&self, node: NodeId, function: &str) -> Checks {
        self.error(node, format!("undeclared reference to '{function}' (in container '')"))
    }

    fn check_optional_select(&mut self, node: NodeId, arguments: &[NodeId]) -> Checks {
        let &[operand, field] = arguments else {
            return self.error(node, "an optional field selection has two arguments");
        };
        let Expr::Literal(Literal::String(name)) = self.ast.expr(field) else {
            return self.error(field, "an optional field selection needs the name of a field");
        };
        let selected = self.field_type(node, operand, name, true)?;
        self.set(field, Type::String)?;
        let declaration = declarations::find("_?._");
        self.calls[node.index()] = declaration.map(|declaration| ResolvedCall {
            declaration,
            overloads: vec![0],
            has_receiver: false,
        });
        let is = self.substitution.apply(&selected, false);
        self.set(node, is)
    }

    fn resolve(
        &mut self,
        node: NodeId,
        declaration: &'static FunctionDeclaration,
        receiver: Option<NodeId>,
        arguments: &[NodeId],
    ) -> Checks {
        let given: Vec<_> = receiver
            .iter()
            .chain(arguments)
            .map(|argument| self.type_of(*argument).clone())
            .collect();
        let mut overloads = Vec::new();
        let mut result: Option<Type> = None;
        for (index, overload) in declaration.overloads.iter().enumerate() {
            if overload.is_member != receiver.is_some() {
                continue;
            }
            let (wanted, gives) = overload.instantiate(&mut self.substitution);
            if !self.substitution.unify_all(&given, &wanted) {
                continue;
            }
            overloads.push(index);
            let gives = self.substitution.apply(&gives, false);
            result = Some(match result {
                None => gives,
                Some(result) if result.is_dyn() || result == gives => result,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            let mut given: Vec<_> =
                given.iter().map(|is| self.substitution.apply(is, true).in_message()).collect();
            let name = declaration.name;
            let style =
                if receiver.is_some() { format!("{}.", given.remove(0)) } else { String::new() };
            let given = given.join(", ");
            return self.error(
                node,
                format!("found no matching overload for '{name}' applied to '{style}({given})'"),
            );
        };
        let has_receiver = receiver.is_some();
        self.calls[node.index()] = Some(ResolvedCall { declaration, overloads, has_receiver });
        self.set(node, result)
    }

    fn check_list(&mut self, node: NodeId, elements: &[Element]) -> Checks {
        let mut joined = None;
        for element in elements {
            self.check(element.value)?;
            let is = self.element_type(element.value, element.is_optional)?;
            joined = Some(self.join(joined, is));
        }
        let element = joined.unwrap_or_else(|| self.substitution.fresh());
        self.set(node, Type::list(element))
    }

    fn check_map(&mut self, node: NodeId, entries: &[Entry]) -> Checks {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.check(entry.key)?;
            let key = self.type_of(entry.key).clone();
            keys = Some(self.join(keys, key));
            self.check(entry.value)?;
            let value = self.element_type(entry.value, entry.is_optional)?;
            values = Some(self.join(values, value));
        }
        let key = keys.unwrap_or_else(|| self.substitution.fresh());
        let value = values.unwrap_or_else(|| self.substitution.fresh());
        self.set(node, Type::map(key, value))
    }

    /// The type of an element, of what is in it if it is an optional one.
    fn element_type(&self, value: NodeId, is_optional: bool) -> Checks<Type> {
        let is = self.type_of(value);
        if !is_optional {
            return Ok(is.clone());
        }
        match is.in_optional() {
            Some(inner) => Ok(inner.clone()),
            None if is.is_dyn() => Ok(is.clone()),
            None => self.error(
                value,
                format!("expected type 'optional_type({0})' but found '{0}'", is.in_message()),
            ),
        }
    }

    /// The type of elements of which some were of type `before`. Mixed ones are refused after the check, except for
    /// `format`.
    fn join(&mut self, before: Option<Type>, is: Type) -> Type {
        match before {
            None => is,
            Some(before) if self.substitution.unify(&before, &is) => most_general(&before, &is),
            Some(_) => Type::Dyn,
        }
    }

    fn require(&mut self, node: NodeId, wanted: &Type) -> Checks {
        let is = self.type_of(node).clone();
        if self.substitution.unify(wanted, &is) {
            return Ok(());
        }
        let wanted = self.substitution.apply(wanted, true).in_message();
        let is = self.substitution.apply(&is, true).in_message();
        self.error(node, format!("expected type '{wanted}' but found '{is}'"))
    }

    fn check_comprehension(&mut self, node: NodeId, c: &Comprehension) -> Checks {
        self.check(c.range)?;
        self.check(c.start)?;
        let range = self.known_type(c.range);
        let start = self.type_of(c.start).clone();
        let (first, second) = match &range {
            Type::List(element) if c.second_variable.is_some() => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Error),
            Type::Map(entry) => (entry.0.clone(), entry.1.clone()),
            Type::Dyn | Type::Error | Type::Variable(_) => {
                self.substitution.unify(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let name = other.in_message();
                return self.error(
                    c.range,
                    format!(
                        "expression of type '{name}' cannot be range of a comprehension (must be list, map, \
                         or dynamic)"
                    ),
                );
            }
        };
        self.scope.push((Arc::clone(&c.accumulator), start.clone()));
        let outside = self.scope.len();
        self.scope.push((Arc::clone(&c.variable), first));
        if let Some(name) = &c.second_variable {
            self.scope.push((Arc::clone(name), second));
        }
        self.check(c.condition)?;
        self.require(c.condition, &Type::Bool)?;
        self.check(c.step)?;
        self.require(c.step, &start)?;
        self.scope.truncate(outside);
        self.check(c.result)?;
        self.scope.pop();
        let result = self.known_type(c.result);
        self.set(node, result)
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// How many parts a type has; counting stops beyond `limit`.
fn parts(of: &Type, limit: usize) -> usize {
    let mut count = 1;
    for part in of.parameters() {
        if count > limit {
            break;
        }
        count += parts(part, limit - count.min(limit));
    }
    count
}
