//! DeviceTaintRules: taints that an administrator sets on devices.

use std::sync::Arc;

use kube_scheduler_api_types::{Json, wire};
use serde::Deserialize;

use super::decode::{ObjectError, Parts, decode, or_default};
use super::device::DeviceTaint;
use super::slice::ResourceSlice;

/// A DeviceTaintRule: a taint for all devices that it selects.
#[derive(Clone, Debug, Default)]
pub struct DeviceTaintRule {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// The devices that get the taint.
    pub devices: TaintedDevices,
    /// The taint that they get.
    pub taint: DeviceTaint,
}

/// Which devices a rule means: those that have all the given names; without any name all devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TaintedDevices {
    /// Name of the driver.
    pub driver: Option<wire::Text>,
    /// Name of the pool.
    pub pool: Option<wire::Text>,
    /// Name of the device.
    pub device: Option<wire::Text>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "or_default")]
    device_selector: TaintedDevices,
    #[serde(deserialize_with = "or_default")]
    taint: DeviceTaint,
}

impl DeviceTaintRule {
    /// Reads a DeviceTaintRule.
    ///
    /// # Errors
    /// If a field has the wrong type.
    pub fn from_json(json: &Json) -> Result<Self, ObjectError> {
        let Parts::<Spec> { metadata, spec } = decode("DeviceTaintRule", json)?;
        Ok(Self { name: metadata.name.0, devices: spec.device_selector, taint: spec.taint })
    }
}

impl TaintedDevices {
    fn may_mean(&self, slice: &ResourceSlice) -> bool {
        is_meant(self.driver.as_ref(), &slice.driver) && is_meant(self.pool.as_ref(), &slice.pool)
    }
}

fn is_meant(wanted: Option<&wire::Text>, name: &str) -> bool {
    wanted.is_none_or(|wanted| **wanted == *name)
}

impl ResourceSlice {
    /// Appends the taints of rules, in the order of the rules, to the devices that they mean
    /// (`docs/spec/plugins-dra.md` §14). Gives the slice itself back where no rule means any of its devices.
    pub fn with_rules<'a>(
        self: &Arc<Self>,
        rules: impl IntoIterator<Item = &'a DeviceTaintRule>,
    ) -> Arc<Self> {
        let mut slice = self.clone();
        for rule in rules.into_iter().filter(|rule| rule.devices.may_mean(self)) {
            let is_meant = |device: &str| is_meant(rule.devices.device.as_ref(), device);
            if !self.devices.iter().any(|device| is_meant(&device.name)) {
                continue;
            }
            for device in &mut Arc::make_mut(&mut slice).devices {
                if is_meant(&device.name) {
                    device.taints.push(rule.taint.clone());
                }
            }
        }
        slice
    }
}
