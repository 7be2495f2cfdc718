//! JSON that is made when it is first read.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

/// A JSON value that is made when it is first read, so that code that requests a write need not spend time on it. Clones share
/// it.
#[derive(Clone)]
pub struct LazyJson(Arc<LazyLock<Value, Box<dyn FnOnce() -> Value + Send>>>);

impl LazyJson {
    /// The value that `make` returns, which must not panic.
    pub fn new(make: impl FnOnce() -> Value + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(make))))
    }
}

impl From<Value> for LazyJson {
    fn from(value: Value) -> Self {
        Self::new(|| value)
    }
}

impl Deref for LazyJson {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl PartialEq for LazyJson {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for LazyJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for LazyJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}
