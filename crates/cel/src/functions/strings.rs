//! Functions on texts. Places and lengths count characters.

use super::{CallResult, Context};
use crate::declarations::Function;
use crate::error::Fault;
use crate::quote;
use crate::value::{Text, Value, char_count};

pub(super) fn call<'a>(
    function: Function,
    arguments: &[Value<'a>],
    context: &Context<'_>,
) -> CallResult<'a> {
    use Function as F;
    if let (F::Join, [Value::List(_), ..]) = (function, arguments) {
        return join(arguments, context);
    }
    let [Value::String(text), rest @ ..] = arguments else { return None };
    Some(match (function, rest) {
        (F::Contains, [Value::String(part)]) => {
            context.meter.step(text.len() as u64 / 64).map(|()| Value::Bool(text.contains(&**part)))
        }
        (F::StartsWith, [Value::String(part)]) => Ok(Value::Bool(text.starts_with(&**part))),
        (F::EndsWith, [Value::String(part)]) => Ok(Value::Bool(text.ends_with(&**part))),
        (F::CharAt, [Value::Int(at)]) => char_at(text, *at),
        (F::IndexOf, [Value::String(part), rest @ ..]) => {
            let offset = offset(rest, || 0)?;
            index_of(text, part, offset).map(Value::Int)
        }
        (F::LastIndexOf, [Value::String(part), rest @ ..]) => last_index_of(text, part, rest)?,
        (F::LowerAscii, []) => owned(text.to_ascii_lowercase(), context),
        (F::UpperAscii, []) => owned(text.to_ascii_uppercase(), context),
        (F::Trim, []) => {
            let trimmed = text.trim();
            let start = trimmed.as_ptr() as usize - text.as_ptr() as usize;
            Ok(Value::String(text.part(start..start + trimmed.len())))
        }
        (F::Quote, []) => context
            .meter
            .allocate(2 * text.len() as u64)
            .map(|()| Value::text(quote::quoted_for_cel(text))),
        (F::Replace, [Value::String(from), Value::String(to), rest @ ..]) => {
            let count = offset(rest, || -1)?;
            replace(text, from, to, count, context)
        }
        (F::Split, [Value::String(separator), rest @ ..]) => {
            let count = offset(rest, || -1)?;
            split(text, separator, count, context)
        }
        (F::Substring, [Value::Int(start)]) => substring(text, *start, char_count(text) as i64),
        (F::Substring, [Value::Int(start), Value::Int(end)]) => {
            if start > end {
                return Some(Err(Fault::text(format!(
                    "invalid substring range. start: {start}, end: {end}"
                ))));
            }
            substring(text, *start, *end)
        }
        _ => return None,
    })
}

fn owned<'a>(text: String, context: &Context<'_>) -> Result<Value<'a>, Fault> {
    context.meter.allocate(text.len() as u64).map(|()| Value::text(text))
}

/// The one number in `rest`, or what stands for it if there is none.
fn offset(rest: &[Value<'_>], default: impl FnOnce() -> i64) -> Option<i64> {
    match rest {
        [] => Some(default()),
        [Value::Int(number)] => Some(*number),
        _ => None,
    }
}

fn out_of_range(at: i64) -> Fault {
    Fault::text(format!("index out of range: {at}"))
}

/// The byte where the character at that place begins; the end counts as a place.
fn byte_at(text: &str, at: i64) -> Option<usize> {
    let at = usize::try_from(at).ok()?;
    if text.is_ascii() {
        return (at <= text.len()).then_some(at);
    }
    text.char_indices().map(|(byte, _)| byte).chain([text.len()]).nth(at)
}

fn char_at<'a>(text: &Text<'a>, at: i64) -> Result<Value<'a>, Fault> {
    let start = byte_at(text, at).ok_or_else(|| out_of_range(at))?;
    let length = text[start..].chars().next().map_or(0, char::len_utf8);
    Ok(Value::String(text.part(start..start + length)))
}

fn substring<'a>(text: &Text<'a>, start: i64, end: i64) -> Result<Value<'a>, Fault> {
    let from = byte_at(text, start).ok_or_else(|| out_of_range(start))?;
    let to = byte_at(text, end).ok_or_else(|| out_of_range(end))?;
    Ok(Value::String(text.part(from..to)))
}

fn index_of(text: &str, part: &str, offset: i64) -> Result<i64, Fault> {
    if part.is_empty() {
        return Ok(offset);
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let Some(start) = byte_at(text, offset) else { return Ok(-1) };
    Ok(match text[start..].find(part) {
        Some(at) => char_count(&text[..start + at]) as i64,
        None => -1,
    })
}

fn last_index_of<'a>(text: &str, part: &str, rest: &[Value<'a>]) -> CallResult<'a> {
    let count = char_count(text) as i64;
    let offset = match rest {
        [] if part.is_empty() => count,
        // There is nothing before the first character.
        [] if text.len() < part.len() => return Some(Ok(Value::Int(-1))),
        _ => offset(rest, || count - 1)?,
    };
    if part.is_empty() {
        return Some(Ok(Value::Int(offset)));
    }
    if offset < 0 {
        return Some(Err(out_of_range(offset)));
    }
    if offset >= count {
        return Some(Ok(Value::Int(-1)));
    }
    // A match may begin at the offset, so its end lies further on.
    let end = offset.saturating_add(char_count(part) as i64).min(count);
    let end = byte_at(text, end).unwrap_or(text.len());
    Some(Ok(Value::Int(match text[..end].rfind(part) {
        Some(at) => char_count(&text[..at]) as i64,
        None => -1,
    })))
}

fn replace<'a>(
    text: &str,
    from: &str,
    to: &str,
    count: i64,
    context: &Context<'_>,
) -> Result<Value<'a>, Fault> {
    let places = if from.is_empty() { char_count(text) + 1 } else { text.len() / from.len() };
    let most = usize::try_from(count).map_or(places, |count| count.min(places));
    context.meter.allocate(text.len() as u64 + (most as u64).saturating_mul(to.len() as u64))?;
    Ok(Value::text(match usize::try_from(count) {
        Ok(count) => text.replacen(from, to, count),
        Err(_) => text.replace(from, to),
    }))
}

fn split<'a>(
    text: &Text<'a>,
    separator: &str,
    count: i64,
    context: &Context<'_>,
) -> Result<Value<'a>, Fault> {
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    if most == 0 {
        return Ok(Value::list(Vec::new()));
    }
    let mut parts = Vec::new();
    let mut start = 0;
    let mut push = |range: std::ops::Range<usize>| {
        context.meter.allocate_elements(1)?;
        context.meter.allocate(range.len() as u64)?;
        parts.push(Value::String(text.part(range)));
        Ok::<_, Fault>(parts.len())
    };
    let mut pushed = 0;
    if separator.is_empty() {
        for c in text.chars() {
            if pushed + 1 >= most {
                break;
            }
            pushed = push(start..start + c.len_utf8())?;
            start += c.len_utf8();
        }
        if start < text.len() {
            push(start..text.len())?;
        }
        return Ok(Value::list(parts));
    }
    while pushed + 1 < most
        && let Some(at) = text[start..].find(separator)
    {
        pushed = push(start..start + at)?;
        start += at + separator.len();
    }
    push(start..text.len())?;
    Ok(Value::list(parts))
}

fn join<'a>(arguments: &[Value<'a>], context: &Context<'_>) -> CallResult<'a> {
    let (list, separator) = match arguments {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return None,
    };
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        let Value::String(text) = item else {
            // Of which type a list is follows from its first element.
            let fault = || Fault::text(format!("join: invalid input: {}", item.shown()));
            return (index > 0).then(|| Err(fault()));
        };
        let separator = if index == 0 { "" } else { separator };
        if let Err(stop) = context.meter.allocate((separator.len() + text.len()) as u64) {
            return Some(Err(stop));
        }
        joined.push_str(separator);
        joined.push_str(&text);
    }
    Some(Ok(Value::text(joined)))
}
