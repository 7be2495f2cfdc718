//! Requests to the API server about other objects than the pod, as data.

use std::sync::Arc;

use kube_scheduler_api_types::{LazyJson, Object};
use kube_scheduler_cache::ObjectKey;

/// A request to the API server that a plugin wants to be carried out.
///
/// Requests for one pod are carried out one after the other, in the order in which they were asked for, and so is the
/// pod's binding.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ObjectWrite {
    /// Puts the object in place of the revision that it carries; a newer revision at the server is a conflict.
    Replace(Arc<Object>),
    /// Puts the `status` of the object in place of that of the revision that it carries.
    ReplaceStatus(Arc<Object>),
    /// Creates the object. One without a name gets one that starts with its `metadata.generateName`.
    Create(Arc<Object>),
    /// Changes `status` by a strategic merge patch. A `metadata.uid` in the patch must be that of the object. With a
    /// `metadata.resourceVersion` it changes this revision alone, so that it has no effect if it arrives late; when there is a
    /// conflict, it is tried again with the revision that the object has then, unless `is_final` forbids it.
    PatchStatus {
        /// Which object.
        object: ObjectKey,
        /// The patch, with `status` on top.
        patch: LazyJson,
        /// Whether a conflict is the end of it: what was changed since may be what another pod relies on.
        is_final: bool,
    },
    /// Deletes the object. If it is gone already, that is a success.
    Delete {
        /// The object in the revision that is known.
        object: Arc<Object>,
        /// A finalizer to take off the object first. Tried again with a fresh revision when there is a conflict.
        finalizer: Option<Arc<str>>,
    },
    /// Reads the current object, for example after a conflict.
    Get(ObjectKey),
}

impl ObjectWrite {
    /// The object that it is about. One that is to be created may have no name yet.
    pub fn key(&self) -> ObjectKey {
        match self {
            Self::PatchStatus { object, .. } | Self::Get(object) => object.clone(),
            Self::Replace(object)
            | Self::ReplaceStatus(object)
            | Self::Create(object)
            | Self::Delete { object, .. } => ObjectKey::from(&**object),
        }
    }

    /// The object that is sent or was known before, in full; `None` if there is only its key.
    pub const fn object(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Replace(object)
            | Self::ReplaceStatus(object)
            | Self::Create(object)
            | Self::Delete { object, .. } => Some(object),
            Self::PatchStatus { .. } | Self::Get(_) => None,
        }
    }

    /// The only revision that it can change: any other is a conflict. `None` if it names none.
    pub fn revision(&self) -> Option<&str> {
        match self {
            Self::Replace(object) | Self::ReplaceStatus(object) => Some(&object.resource_version),
            Self::PatchStatus { patch, is_final: true, .. } => {
                patch["metadata"]["resourceVersion"].as_str()
            }
            Self::PatchStatus { is_final: false, .. }
            | Self::Create(_)
            | Self::Delete { .. }
            | Self::Get(_) => None,
        }
    }

    /// The HTTP method of the request, or of the last one.
    pub const fn method(&self) -> &'static str {
        match self {
            Self::Replace(_) | Self::ReplaceStatus(_) => "PUT",
            Self::Create(_) => "POST",
            Self::PatchStatus { .. } => "PATCH",
            Self::Delete { .. } => "DELETE",
            Self::Get(_) => "GET",
        }
    }
}
