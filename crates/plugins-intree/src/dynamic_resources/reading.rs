//! Decodes claims and slices and makes pools when these objects arrive, so that the next attempt does not have to.

use std::sync::Arc;

use kube_scheduler_framework::ObjectReader;
use kube_scheduler_framework::api::Object;

use super::{DynamicResources, decoded, kinds};

impl ObjectReader for DynamicResources {
    fn reads(&self, group: &str, kind: &str) -> bool {
        group == kinds::GROUP && matches!(kind, kinds::CLAIM | kinds::SLICE)
    }

    fn read(&self, object: &Arc<Object>) {
        match &*object.kind {
            kinds::SLICE => drop(decoded::slice(object)),
            kinds::CLAIM => drop(decoded::claim(object)),
            _ => {}
        }
    }

    fn changed(&self, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) {
        if new.or(old).is_some_and(|object| *object.kind == *kinds::SLICE) {
            self.shared.devices.slice_changed(old, new);
        }
    }
}
