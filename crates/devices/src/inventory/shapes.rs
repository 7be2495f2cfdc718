//! Devices that look alike to selectors.

use std::sync::Arc;

use kube_scheduler_api_types::KeyedMap;

use crate::api::{Attribute, Device, Map, ResourceSlice};

/// Numbers for everything that selectors read of a device.
#[derive(Debug, Default)]
pub(super) struct Shapes(KeyedMap<Shape, u32>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Shape {
    driver: Arc<str>,
    is_shareable: bool,
    attributes: Map<Attribute>,
    /// Amounts as written: selectors compare them by value, so at worst equal devices get two numbers.
    capacity: Vec<(Arc<str>, String)>,
}

impl Shapes {
    /// The numbers of the devices of a slice, in order.
    pub(super) fn of_slice(&mut self, slice: &ResourceSlice) -> Vec<u32> {
        slice.devices.iter().map(|device| self.of(&slice.driver, device)).collect()
    }

    fn of(&mut self, driver: &Arc<str>, device: &Device) -> u32 {
        let capacity = device.capacity.iter();
        let shape = Shape {
            driver: driver.clone(),
            is_shareable: device.is_shareable(),
            attributes: device.attributes.clone(),
            capacity: capacity.map(|(name, c)| (name.clone(), c.value.canonical())).collect(),
        };
        let next = self.0.len() as u32;
        *self.0.entry(shape).or_insert(next)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
