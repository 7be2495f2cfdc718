//! Named formats of texts.

use super::CallResult;
use crate::declarations::Function;
use crate::formats::FORMATS;
use crate::value::{Text, Value};

pub(super) fn call<'a>(function: Function, arguments: &[Value<'a>]) -> CallResult<'a> {
    Some(Ok(match (function, arguments) {
        (Function::NamedFormat(index), []) => Value::Format(FORMATS.get(usize::from(index))?),
        (Function::FormatNamed, [Value::String(name)]) => {
            let found = FORMATS
                .iter()
                .find(|format| format.function.strip_prefix("format.") == Some(&**name));
            found.map_or(Value::NONE, |format| Value::some(Value::Format(format)))
        }
        (Function::Validate, [Value::Format(format), Value::String(text)]) => {
            let problems = (format.problems)(text);
            if problems.is_empty() {
                return Some(Ok(Value::NONE));
            }
            let problems = problems.into_iter().map(|problem| Value::String(Text::from(problem)));
            Value::some(Value::list(problems.collect()))
        }
        _ => return None,
    }))
}
