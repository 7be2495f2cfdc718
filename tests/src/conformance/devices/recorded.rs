//! The form in which claims are recorded: without what is different in every run.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Longer lists of reservations are recorded by their ends only.
const MAX_RECORDED: usize = 20;

/// Names for what is random.
pub(super) struct Normal {
    /// The whole case: what stands in it is not random.
    source: String,
    shares: BTreeMap<String, String>,
}

impl Normal {
    pub(super) fn new(case: &Value) -> Self {
        Self { source: case.to_string(), shares: BTreeMap::new() }
    }

    /// What is recorded of an allocation after Reserve.
    pub(super) fn allocation(&mut self, allocation: &Value) -> Map<String, Value> {
        let allocation = self.without_random(allocation);
        let mut entry = Map::new();
        entry.insert("devices".into(), allocation["devices"]["results"].clone());
        entry.insert("config".into(), allocation["devices"]["config"].clone());
        entry.insert("nodeSelector".into(), allocation["nodeSelector"].clone());
        entry
    }

    /// What is recorded of a claim's status.
    pub(super) fn status(&mut self, status: &Value) -> Value {
        let mut status = self.without_random(status);
        if let Some(reserved) = status["reservedFor"].as_array_mut()
            && reserved.len() > MAX_RECORDED
        {
            reserved.drain(2..reserved.len() - 2);
        }
        status
    }

    fn without_random(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let mut kept = Map::new();
                for (name, field) in fields {
                    let field = match (name.as_str(), field) {
                        ("shareID", Value::String(id)) => self.share(id).into(),
                        ("allocationTimestamp", Value::String(time)) => {
                            let is_given = self.source.contains(time.as_str());
                            let shown = if is_given { time } else { "2000-01-01T00:00:00Z" };
                            shown.into()
                        }
                        _ => self.without_random(field),
                    };
                    kept.insert(name.clone(), field);
                }
                Value::Object(kept)
            }
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.without_random(item)).collect())
            }
            other => other.clone(),
        }
    }

    /// Leaves the numbers out that the recording gave to shares which are not in flight here.
    pub(super) fn skip_shares(&mut self, recorded: &Value) {
        for device in recorded["devices"].as_array().into_iter().flatten() {
            if let Some(id) = device["shareID"].as_str() {
                let next = self.shares.len();
                if format!("share-{next}") == id {
                    self.shares.insert(format!("not in flight: {id}"), id.to_owned());
                }
            }
        }
    }

    /// Shares are numbered in the order in which they appear.
    fn share(&mut self, id: &str) -> String {
        if self.source.contains(id) {
            return id.to_owned();
        }
        let next = format!("share-{}", self.shares.len());
        self.shares.entry(id.to_owned()).or_insert(next).clone()
    }
}

/// `value` without null and empty fields: how they are written is not compared.
pub(super) fn pruned(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| (name.clone(), pruned(field)));
            let is_kept = |name: &str, field: &Value| match field {
                Value::Null => false,
                Value::Array(items) => !items.is_empty(),
                Value::Object(fields) => !fields.is_empty() || name == "allocation",
                _ => true,
            };
            Value::Object(fields.filter(|(name, field)| is_kept(name, field)).collect())
        }
        Value::Array(items) if items.is_empty() => Value::Null,
        Value::Array(items) => Value::Array(items.iter().map(pruned).collect()),
        other => other.clone(),
    }
}
