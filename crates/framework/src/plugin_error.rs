//! Why a plugin cannot be made, or its hint cannot answer.

/// A plugin cannot be made, because its arguments are not acceptable or something that it needs is missing, or its queueing hint
/// cannot answer. Displays one line; what is about arguments has the path of each field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct PluginError(pub(crate) Vec<String>);

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
