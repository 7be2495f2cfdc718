//! What is checked of literals after the types (`docs/spec/cel.md` §3).

use crate::ast::{Expr, Literal, NodeId};
use crate::check::CheckedExpr;
use crate::functions::pattern::{PatternError, Patterns};
use crate::functions::{Clause, read_clauses};
use crate::parser::SyntaxError;
use crate::time::{self, Timestamp};
use crate::types::Type;

pub(crate) fn validate(checked: &CheckedExpr, patterns: &mut Patterns) -> Result<(), SyntaxError> {
    visit(checked, patterns, checked.root, false)
}

fn error<T>(checked: &CheckedExpr, node: NodeId, message: String) -> Result<T, SyntaxError> {
    Err(SyntaxError::new(checked.ast.node(node).offset as usize, message))
}

fn visit(
    checked: &CheckedExpr,
    patterns: &mut Patterns,
    node: NodeId,
    is_in_format: bool,
) -> Result<(), SyntaxError> {
    let expr = checked.ast.expr(node);
    let mut is_in_format = is_in_format;
    match expr {
        Expr::Call { function, receiver, arguments } => {
            is_in_format |= &**function == "format";
            literal_arguments(checked, patterns, function, arguments)?;
            if let (Some(receiver), "format", [values]) =
                (receiver, &**function, arguments.as_slice())
            {
                format_call(checked, node, *receiver, *values)?;
            }
        }
        Expr::List(elements) if !is_in_format => {
            let values = elements.iter().map(|element| (element.value, element.is_optional));
            same_types(checked, values)?;
        }
        Expr::Map(entries) if !is_in_format => {
            same_types(checked, entries.iter().map(|entry| (entry.key, false)))?;
            same_types(checked, entries.iter().map(|entry| (entry.value, entry.is_optional)))?;
        }
        _ => {}
    }
    let mut children = expr.children().into_iter();
    children.try_for_each(|child| visit(checked, patterns, child, is_in_format))
}

/// Constant arguments of `duration`, `timestamp` and `matches`.
fn literal_arguments(
    checked: &CheckedExpr,
    patterns: &mut Patterns,
    function: &str,
    arguments: &[NodeId],
) -> Result<(), SyntaxError> {
    let Some(first) = arguments.first() else { return Ok(()) };
    let Expr::Literal(literal) = checked.ast.expr(*first) else { return Ok(()) };
    let is_valid = match (function, literal) {
        ("duration", Literal::String(text)) => time::parse_duration(text).is_ok(),
        ("duration", Literal::Int(_)) => false,
        ("timestamp", Literal::String(text)) => Timestamp::parse(text).is_ok(),
        ("timestamp", Literal::Int(seconds)) => Timestamp::from_seconds(*seconds).is_ok(),
        // Also where the first argument is the text: the reference's check does not distinguish them.
        ("matches", Literal::String(text)) => match patterns.get(text) {
            Ok(_) => true,
            Err(PatternError::Invalid(_)) => false,
            Err(why @ PatternError::TooLarge) => return error(checked, *first, why.to_string()),
        },
        _ => true,
    };
    if is_valid { Ok(()) } else { error(checked, *first, format!("invalid {function} argument")) }
}

fn same_types(
    checked: &CheckedExpr,
    mut values: impl Iterator<Item = (NodeId, bool)>,
) -> Result<(), SyntaxError> {
    let type_of = |(node, is_optional): (NodeId, bool)| {
        let is = checked.type_of(node);
        if is_optional { is.in_optional().unwrap_or(is) } else { is }
    };
    let Some(first) = values.next() else { return Ok(()) };
    let wanted = type_of(first);
    for value in values {
        let is = type_of(value);
        if is != wanted {
            let (wanted, is) = (wanted.in_message(), is.in_message());
            return error(checked, value.0, format!("expected type '{wanted}' but found '{is}'"));
        }
    }
    Ok(())
}

/// A constant template with a list of values: their types must fit.
fn format_call(
    checked: &CheckedExpr,
    node: NodeId,
    receiver: NodeId,
    values: NodeId,
) -> Result<(), SyntaxError> {
    let (Expr::Literal(Literal::String(template)), Expr::List(elements)) =
        (checked.ast.expr(receiver), checked.ast.expr(values))
    else {
        return Ok(());
    };
    let used = read_clauses(
        template,
        elements.len(),
        |_| {},
        |index, clause| {
            let fits = elements.get(index).is_none_or(|element| {
                if clause == Clause::String {
                    can_be_text(checked, element.value)
                } else {
                    fits(clause, checked.type_of(element.value))
                }
            });
            let name =
                || elements.get(index).map_or("", |element| checked.type_of(element.value).name());
            if fits { Ok(String::new()) } else { Err(clause.refusal(name())) }
        },
    );
    match used {
        Err(message) => error(checked, node, message),
        Ok(used) if elements.len() > used => error(
            checked,
            node,
            format!(
                "too many arguments supplied to string.format (expected {used}, got {})",
                elements.len()
            ),
        ),
        Ok(_) => Ok(()),
    }
}

fn fits(clause: Clause, is: &Type) -> bool {
    match is {
        Type::Dyn => true,
        Type::Int | Type::Uint => !matches!(clause, Clause::Fixed(_) | Clause::Scientific(_)),
        Type::Bool => clause == Clause::Binary,
        Type::Double => matches!(clause, Clause::Fixed(_) | Clause::Scientific(_)),
        Type::String => {
            matches!(clause, Clause::Fixed(_) | Clause::Scientific(_) | Clause::Hex { .. })
        }
        Type::Bytes => matches!(clause, Clause::Hex { .. }),
        _ => false,
    }
}

fn can_be_text(checked: &CheckedExpr, node: NodeId) -> bool {
    let is_text = matches!(
        checked.type_of(node),
        Type::Dyn
            | Type::List(_)
            | Type::Map(_)
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::Bool
            | Type::String
            | Type::Timestamp
            | Type::Bytes
            | Type::Duration
            | Type::Type(_)
            | Type::Null
    );
    let expr = checked.ast.expr(node);
    let is_literal = matches!(expr, Expr::List(_) | Expr::Map(_));
    is_text && (!is_literal || expr.children().into_iter().all(|child| can_be_text(checked, child)))
}
