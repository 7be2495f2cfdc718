//! Why a plugin cannot be made, or its hint cannot answer.

use std::fmt;

/// A plugin cannot be made, because its arguments are not acceptable or something that it needs is missing, or its queueing hint
/// cannot answer. Displays one line; what is about arguments has the path of each field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginError(pub(crate) Vec<String>);

impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for PluginError {}

impl From<String> for PluginError {
    fn from(message: String) -> Self {
        Self(vec![message])
    }
}

impl From<&str> for PluginError {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}
