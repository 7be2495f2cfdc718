//! The parts of an event: its message, and keys with values.
//!
//! Invariants: of an event that is an error, what went wrong comes first among the keys; in others the keys have the order in
//! which they were given. A text longer than [`LONGEST`] is cut, and says so.

use std::fmt::{self, Write as _};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// How many bytes of a text are printed. A whole configuration has less; an object that is made to fill logs has more.
const LONGEST: usize = 256 * 1024;

/// Keys whose values are lists. Rust prints lists of numbers and of plain texts as JSON does.
const LISTS: [&str; 7] = [
    "unschedulable plugins",
    "allocatableResource",
    "requestedResource",
    "missedNodes",
    "redundantNodes",
    "missedPods",
    "redundantPods",
];

/// The message and the fields of an event.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) message: String,
    pub(super) others: Vec<(&'static str, Value)>,
}

impl Fields {
    pub(super) fn of(event: &Event<'_>) -> Self {
        let mut fields = Self::default();
        event.record(&mut fields);
        if *event.metadata().level() == Level::ERROR {
            fields.others.sort_by_key(|(name, _)| *name != "err");
        }
        fields
    }

    fn add_text(&mut self, field: &Field, text: &str) {
        let text = match text.len() {
            0..=LONGEST => text.to_owned(),
            n_bytes => {
                let end = (0..=LONGEST).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
                format!("{}... ({n_bytes} bytes in total)", &text[..end])
            }
        };
        if field.name() == "message" {
            self.message = text;
        } else if LISTS.contains(&field.name()) {
            let list = serde_json::from_str(&text).unwrap_or(Value::String(text));
            self.add(field, list);
        } else {
            self.add(field, text.into());
        }
    }

    fn add(&mut self, field: &Field, value: Value) {
        let name = field.name();
        self.others.push((if name == "error" { "err" } else { name }, value));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // Writing to a string cannot fail; of a value that fails to print, the part before the failure is logged.
        let _ = write!(text, "{value:?}");
        self.add_text(field, &text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_text(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }
}
