//! Label and field selectors of list, watch and deletecollection requests.
//!
//! Invariant: parsing accepts the grammar of `k8s.io/apimachinery/pkg/labels` and of field selectors, and nothing else.

use std::collections::BTreeSet;

use crate::kinds::{Kind, KindId};
use crate::object::Object;
use crate::status::ApiError;

/// Which objects of a kind a request means.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    pub(crate) namespace: Option<String>,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Selection {
    /// Everything, in all namespaces.
    pub fn all() -> Self {
        Self::default()
    }

    /// Restricts to one namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Restricts by a label selector.
    pub fn labels(mut self, selector: &str) -> Result<Self, ApiError> {
        self.labels = LabelSelector::parse(selector)?;
        Ok(self)
    }

    /// Restricts by a field selector of `kind`.
    pub fn fields(mut self, kind: KindId, selector: &str) -> Result<Self, ApiError> {
        self.fields = FieldSelector::parse(kind.get(), selector)?;
        Ok(self)
    }

    /// Whether `object` is meant.
    pub fn matches(&self, object: &Object) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| namespace == object.namespace())
            && self.fields.matches(object)
            && self.labels.matches(|key| object.label(key))
    }

    /// Whether every object is meant.
    pub(crate) fn is_everything(&self) -> bool {
        self.namespace.is_none() && self.fields.terms.is_empty() && self.labels.terms.is_empty()
    }
}

/// A parsed label selector: all terms must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    terms: Vec<LabelTerm>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct LabelTerm {
    key: String,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2`.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        let mut parser = Parser { rest: text.trim() };
        let mut terms = Vec::new();
        while !parser.rest.is_empty() {
            terms.push(parser.term().map_err(|why| {
                ApiError::bad_request(format!(
                    "unable to parse requirement: {why} in label selector {text:?}"
                ))
            })?);
        }
        Ok(Self { terms })
    }

    /// The selector of a `metav1.LabelSelector` object (matchLabels and matchExpressions).
    pub(crate) fn from_object(selector: &serde_json::Value) -> Self {
        let mut terms = Vec::new();
        if let Some(labels) = selector.get("matchLabels").and_then(|labels| labels.as_object()) {
            for (key, value) in labels {
                let values = value.as_str().map(str::to_owned).into_iter().collect();
                terms.push(LabelTerm { key: key.clone(), operator: Operator::In(values) });
            }
        }
        for expression in crate::object::list_at(selector, &["matchExpressions"]) {
            let values = || {
                crate::object::list_at(expression, &["values"])
                    .iter()
                    .filter_map(|value| value.as_str().map(str::to_owned))
                    .collect()
            };
            let operator = match crate::object::text_at(expression, &["operator"]) {
                "In" => Operator::In(values()),
                "NotIn" => Operator::NotIn(values()),
                "Exists" => Operator::Exists,
                _ => Operator::Absent,
            };
            terms.push(LabelTerm {
                key: crate::object::text_at(expression, &["key"]).to_owned(),
                operator,
            });
        }
        Self { terms }
    }

    /// Whether the labels behind `label` satisfy every term.
    pub fn matches<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.terms.iter().all(|term| {
            let value = label(&term.key);
            match &term.operator {
                Operator::In(values) => value.is_some_and(|value| values.contains(value)),
                Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Operator::Exists => value.is_some(),
                Operator::Absent => value.is_none(),
                Operator::Greater(bound) => number(value).is_some_and(|value| value > *bound),
                Operator::Less(bound) => number(value).is_some_and(|value| value < *bound),
            }
        })
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value.and_then(|value| value.parse().ok())
}

struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn term(&mut self) -> Result<LabelTerm, String> {
        if self.eat("!") {
            let key = self.key()?;
            self.end_of_term()?;
            return Ok(LabelTerm { key, operator: Operator::Absent });
        }
        let key = self.key()?;
        let operator = if self.eat("==") || self.eat("=") {
            Operator::In(BTreeSet::from([self.value()?]))
        } else if self.eat("!=") {
            Operator::NotIn(BTreeSet::from([self.value()?]))
        } else if self.eat(">") {
            Operator::Greater(self.bound()?)
        } else if self.eat("<") {
            Operator::Less(self.bound()?)
        } else if self.eat_word("in") {
            Operator::In(self.set()?)
        } else if self.eat_word("notin") {
            Operator::NotIn(self.set()?)
        } else {
            Operator::Exists
        };
        self.end_of_term()?;
        Ok(LabelTerm { key, operator })
    }

    fn end_of_term(&mut self) -> Result<(), String> {
        if self.rest.is_empty() {
            return Ok(());
        }
        if !self.eat(",") {
            return Err(format!("found {:?}, expected ',' or the end", self.rest));
        }
        if self.rest.is_empty() {
            Err("found the end, expected a key after ','".to_owned())
        } else {
            Ok(())
        }
    }

    fn key(&mut self) -> Result<String, String> {
        let key = self.word();
        if key.is_empty() {
            return Err(format!("found {:?}, expected a label key", self.rest));
        }
        crate::validation::qualified_name(key).map_err(|why| format!("key {key:?}: {why}"))?;
        Ok(key.to_owned())
    }

    fn value(&mut self) -> Result<String, String> {
        let value = self.word();
        crate::validation::label_value(value).map_err(|why| format!("value {value:?}: {why}"))?;
        Ok(value.to_owned())
    }

    fn bound(&mut self) -> Result<i64, String> {
        let value = self.word();
        value.parse().map_err(|_| {
            format!("value {value:?}: for 'Gt', 'Lt' operators, the value must be an integer")
        })
    }

    fn set(&mut self) -> Result<BTreeSet<String>, String> {
        if !self.eat("(") {
            return Err(format!("found {:?}, expected '('", self.rest));
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value()?);
            if self.eat(")") {
                return Ok(values);
            }
            if !self.eat(",") {
                return Err(format!("found {:?}, expected ',' or ')'", self.rest));
            }
        }
    }

    fn word(&mut self) -> &'t str {
        let end = self
            .rest
            .find(|c: char| {
                matches!(c, ',' | '=' | '!' | '(' | ')' | '<' | '>') || c.is_whitespace()
            })
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }

    fn eat(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let follows = |rest: &str| rest.starts_with(|c: char| c == '(' || c.is_whitespace());
        match self.rest.strip_prefix(word) {
            Some(rest) if follows(rest) => {
                self.rest = rest.trim_start();
                true
            }
            _ => false,
        }
    }
}

/// A parsed field selector: all terms must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldTerm {
    field: Field,
    value: String,
    equal: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
    Indexed(usize),
}

impl FieldSelector {
    /// Parses `metadata.name=a,status.phase!=b`; names that `kind` cannot select by are refused.
    pub fn parse(kind: &Kind, text: &str) -> Result<Self, ApiError> {
        let mut terms = Vec::new();
        for part in split_unescaped(text) {
            if part.is_empty() {
                continue;
            }
            let (name, value, equal) = if let Some((name, value)) = part.split_once("!=") {
                (name, value, false)
            } else if let Some((name, value)) = part.split_once("==") {
                (name, value, true)
            } else if let Some((name, value)) = part.split_once('=') {
                (name, value, true)
            } else {
                return Err(ApiError::bad_request(format!(
                    "invalid field selector: {text}; {part:?} has none of '=', '==', '!='"
                )));
            };
            let field = match name.trim() {
                "metadata.name" => Field::Name,
                "metadata.namespace" => Field::Namespace,
                other => Field::Indexed(kind.field_index(other).ok_or_else(|| {
                    ApiError::bad_request(format!("field label not supported: {other}"))
                })?),
            };
            terms.push(FieldTerm { field, value: unescape(value), equal });
        }
        Ok(Self { terms })
    }

    /// Whether `object` satisfies every term.
    pub fn matches(&self, object: &Object) -> bool {
        self.terms.iter().all(|term| {
            let value = match term.field {
                Field::Name => object.name(),
                Field::Namespace => object.namespace(),
                Field::Indexed(index) => object.field(index),
            };
            (value == term.value) == term.equal
        })
    }
}

fn split_unescaped(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        if c == ',' && !escaped {
            parts.push(&text[start..at]);
            start = at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    parts.push(&text[start..]);
    parts
}

fn unescape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut escaped = false;
    for c in value.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            out.push(c);
            escaped = false;
        }
    }
    out
}

#[cfg(test)]
mod tests;
