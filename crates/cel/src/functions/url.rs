//! Parts of URLs.

use std::collections::BTreeMap;

use super::{CallResult, Context};
use crate::declarations::Function;
use crate::error::Fault;
use crate::url::{Url, problem, unescaped};
use crate::value::{Entries, Value};

/// Values by key; pairs that cannot be read are left out.
fn query<'a>(query: &str, context: &Context<'_>) -> Result<Value<'a>, Fault> {
    let mut values: BTreeMap<String, Vec<Value<'a>>> = BTreeMap::new();
    let decoded = |text: &str| {
        let bytes = unescaped(&text.replace('+', " "), false).ok()?;
        String::from_utf8(bytes).ok()
    };
    for pair in query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Some(key), Some(value)) = (decoded(key), decoded(value)) {
            context.meter.allocate_elements(2)?;
            values.entry(key).or_default().push(Value::text(value));
        }
    }
    let mut entries = Entries::default();
    for (key, values) in values {
        entries.insert(&Value::text(key), Value::list(values))?;
    }
    Ok(entries.into())
}

pub(super) fn call<'a>(
    function: Function,
    arguments: &[Value<'a>],
    context: &Context<'_>,
) -> CallResult<'a> {
    use Function as F;
    let url = match (function, arguments) {
        (F::IsUrl, [Value::String(text)]) => return Some(Ok(Value::Bool(problem(text).is_none()))),
        (F::Url, [Value::String(text)]) => {
            let read = context.meter.allocate(2 * text.len() as u64).and_then(|()| {
                Url::parse(text).map_err(|why| {
                    Fault::text(format!("URL parse error during conversion from string: {why}"))
                })
            });
            return Some(read.map(|url| Value::Url(url.into())));
        }
        (_, [Value::Url(url)]) => url,
        _ => return None,
    };
    Some(Ok(Value::text(match function {
        F::UrlScheme => url.scheme.as_str(),
        F::UrlHost => url.host.as_str(),
        F::UrlHostname => url.hostname(),
        F::UrlPort => url.port(),
        F::UrlPath => url.path.as_str(),
        F::UrlQuery => return Some(query(&url.query, context)),
        _ => return None,
    })))
}
