//! Events of the API that report to users about a pod.

use kube_scheduler_api_types::named_enum;

named_enum! {
    /// The type of an event, as the API has it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum EventKind {
        /// Something went as planned.
        Normal = "Normal",
        /// Something went wrong.
        Warning = "Warning",
    }
}
