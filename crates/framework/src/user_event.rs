//! Events of the API that report to users about a pod.

/// The type of an event, as the API has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Something went as planned.
    Normal,
    /// Something went wrong.
    Warning,
}

impl EventKind {
    /// The name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}
