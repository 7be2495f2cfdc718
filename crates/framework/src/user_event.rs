//! Events of the API that report to users about a pod.

/// Whether an event is good or bad news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Good news.
    Normal,
    /// Bad news.
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
