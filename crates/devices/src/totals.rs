//! How many devices of a class a node has, for scores of extended resources (`docs/spec/plugins-node.md` §4.8.6).

use std::sync::Arc;

use crate::api::DeviceClass;
use crate::facts::DeviceFacts;
use crate::inventory::{Inventory, NodeRef};
use crate::selectors::{Column, SelectorCompiler};
use crate::state::DeviceState;

/// Devices of one class that can be used on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassTotals {
    /// How many there are, whatever the state of their pools.
    pub n_devices: i64,
    /// How many of them some claim holds, or holds a share of.
    pub n_held: i64,
}

impl DeviceState {
    /// The devices of `class` on `node`; `None` if that cannot be said because a selector of a node or of the class
    /// fails. Takes time proportional to the devices of the node.
    ///
    /// Parity: this is no count of what allocation would consider. Generations and completeness of pools play no part,
    /// a slice that does not say where its devices are counts everywhere, and selectors see every device as one that
    /// a single request may have.
    pub fn class_totals(
        &self,
        node: NodeRef<'_>,
        class: &DeviceClass,
        compiler: &dyn SelectorCompiler,
    ) -> Option<ClassTotals> {
        let expressions = class.selectors.iter().filter_map(|s| s.expression.as_ref());
        let column = |expression| self.selectors().column(expression, compiler, &mut 0);
        let columns: Vec<Arc<Column>> = expressions.map(column).collect();
        let inventory = self.inventory();
        let mut totals = ClassTotals::default();
        let mut failed = false;
        inventory.visit_devices_on(node, |device| {
            let Ok(device) = device else {
                failed = true;
                return;
            };
            let facts = DeviceFacts { allow_multiple_allocations: false, ..device.facts() };
            // Answers are kept for devices as they are.
            let is_as_seen = !device.facts().allow_multiple_allocations;
            for column in &columns {
                let answer = if is_as_seen {
                    column.matches(device.shape(), facts, &mut 0)
                } else {
                    column.evaluate(facts, &mut 0)
                };
                match answer {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(_) => {
                        failed = true;
                        return;
                    }
                }
            }
            totals.n_devices += 1;
            totals.n_held += i64::from(self.occupancy().is_held(device.key()));
        });
        (!failed).then_some(totals)
    }
}

impl Inventory {
    /// Visits the devices that say they can be used on a node, or that do not say where they can be used; an error for
    /// those that cannot say it.
    fn visit_devices_on<'a>(
        &'a self,
        node: NodeRef<'_>,
        mut visit: impl FnMut(Result<crate::inventory::DeviceRef<'a>, String>),
    ) {
        self.visit_slices_near(node, |slice, devices| {
            let (object, reach) = slice.object();
            let is_per_device = object.is_per_device();
            if !is_per_device && object.reach.is_given() && !object.reach.all_nodes {
                match reach.matches(node) {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(text) => {
                        visit(Err(text));
                        return;
                    }
                }
            }
            for device in devices {
                if is_per_device && device.device.all_nodes != Some(true) {
                    match device.reaches(node) {
                        Ok(true) => {}
                        Ok(false) => continue,
                        Err(text) => {
                            visit(Err(text));
                            continue;
                        }
                    }
                }
                visit(Ok(device));
            }
        });
    }
}
