//! How many pods of a group have to fit together, as its object says.

use kube_scheduler_api_types::{Object, PodGroup};
use kube_scheduler_framework::ObjectStore;

use crate::rehearsal::edited;

/// The PodGroup with a lower minimum; `None` if it is not there any more.
pub(super) fn with_min_count(
    objects: &ObjectStore,
    namespace: &str,
    name: &str,
    min_count: i64,
) -> Option<Object> {
    let (api_group, object) = PodGroup::foreign_parts(name).unwrap_or((PodGroup::GROUP, name));
    let object = objects.latest(api_group, PodGroup::KIND, namespace, object)?;
    edited(object, |json| match api_group {
        PodGroup::GROUP => json["spec"]["schedulingPolicy"]["gang"]["minCount"] = min_count.into(),
        _ => json["spec"]["minMember"] = min_count.into(),
    })
}
