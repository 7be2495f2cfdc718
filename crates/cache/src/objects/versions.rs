//! How often objects have changed, by what plugins read as one.

use kube_scheduler_api_types::{Object, PodGroup};

use kube_scheduler_api_types::well_known::RESOURCE_GROUP;

/// Kind of device classes.
const DEVICE_CLASS: &str = "DeviceClass";

/// Kinds of objects that plugins read as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectClass {
    /// Claims and slices. They change with every pod that has claims.
    Devices,
    /// They change rarely: plugins that look at no claim ask which class serves a resource.
    DeviceClasses,
    /// One comes with every few pods, and its status changes with them.
    PodGroups,
    /// Services, and the controllers that own pods and select them. Pods without constraints of their own are spread by these, and
    /// they do not change with volumes and their claims.
    PodSelectors,
    /// All other kinds.
    Others,
}

impl ObjectClass {
    pub(crate) const ALL: [Self; 5] =
        [Self::Devices, Self::DeviceClasses, Self::PodGroups, Self::PodSelectors, Self::Others];

    /// That of a kind of an API group.
    pub(crate) fn of(group: &str, kind: &str) -> Self {
        match (group, kind) {
            (RESOURCE_GROUP, DEVICE_CLASS) => Self::DeviceClasses,
            (RESOURCE_GROUP, _) => Self::Devices,
            (PodGroup::GROUP, _) => Self::PodGroups,
            _ if Object::selects_pods(group, kind) => Self::PodSelectors,
            _ => Self::Others,
        }
    }
}

/// How often the objects of a cluster have changed, by what plugins read as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectVersions([u64; ObjectClass::ALL.len()]);

impl ObjectVersions {
    pub(super) const fn count_change(&mut self, class: ObjectClass) {
        self.0[class as usize] += 1;
    }

    pub(crate) const fn of(&self, class: ObjectClass) -> u64 {
        self.0[class as usize]
    }

    /// Changes of all classes.
    pub(super) fn sum(&self) -> u64 {
        self.0.iter().sum()
    }
}
