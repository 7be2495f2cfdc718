//! Drivers that publish devices. A pool has one or two slices, which come one after the other: until the last is there, the
//! pool is incomplete, or what is left of it belongs to an older generation.

use anyhow::Result;
use serde_json::{Value, json};

use super::claims::Part;
use super::devices::{API_VERSION, DRIVER};
use super::server::Key;
use super::simulation::Simulation;

const SLICE: &str = "ResourceSlice";
/// How many nodes have devices, and how many devices a slice has at most.
const MAX_POOLS: u64 = 8;
const MAX_DEVICES: u64 = 2;

fn key(node: &str, at: u64) -> Key {
    (String::new(), format!("{node}-gpu-{at}"))
}

/// The slice of a pool at this place, with this many devices.
fn slice(node: &str, at: u64, n_devices: u64, generation: u64, n_slices: u64) -> Value {
    let devices: Vec<Value> = (0..n_devices)
        .map(|device| {
            let is_fast = at == 0 && device == 0;
            let name = format!("gpu-{}", at * MAX_DEVICES + device);
            json!({"name": name, "attributes": {"fast": {"bool": is_fast}}})
        })
        .collect();
    json!({
        "apiVersion": API_VERSION, "kind": SLICE, "metadata": {"name": key(node, at).1},
        "spec": {
            "driver": DRIVER, "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": n_slices},
        },
    })
}

impl Simulation {
    /// A driver goes on with what it has started, changes the devices of a slice, or starts a new generation of its pool.
    pub(super) fn publish(&mut self) -> Result<()> {
        let has_begun = !self.devices.unpublished.is_empty();
        if has_begun && !self.devices.numbers.one_in(4) {
            return self.publish_part().map(drop);
        }
        let numbers = &mut self.devices.numbers;
        let node = format!("node-{}", numbers.below(MAX_POOLS));
        let (n_devices, is_next) = (1 + numbers.below(MAX_DEVICES), numbers.one_in(2));
        let n_slices = 1 + u64::from(numbers.one_in(3));
        let first = self.server.get(SLICE, &key(&node, 0));
        let pool = first.map(|first| &first["spec"]["pool"]);
        let number = |field: &str| pool.and_then(|pool| pool[field].as_u64());
        let (generation, n_former) = (number("generation"), number("resourceSliceCount"));
        let parts = &mut self.devices.unpublished;
        if let (Some(generation), Some(n_former), false) = (generation, n_former, is_next) {
            let slice = slice(&node, 0, n_devices, generation, n_former);
            parts.push_front(Part { key: key(&node, 0), node, slice: Some(slice) });
        } else {
            // What was started of an older generation is given up.
            parts.retain(|part| part.node != node);
            let generation = generation.unwrap_or(0) + 1;
            for at in (0..2).rev() {
                let slice = slice(&node, at, n_devices, generation, n_slices);
                let slice = Some(slice).filter(|_| at < n_slices);
                parts.push_front(Part { node: node.clone(), key: key(&node, at), slice });
            }
        }
        self.publish_part().map(drop)
    }

    /// The next thing that a driver has started; false when there is none.
    pub(super) fn publish_part(&mut self) -> Result<bool> {
        let Some(Part { node, key, slice }) = self.devices.unpublished.pop_front() else {
            return Ok(false);
        };
        let Some(mut slice) = slice else {
            self.server.delete(SLICE, &key);
            return Ok(true);
        };
        for device in slice["spec"]["devices"].as_array().into_iter().flatten() {
            let name = device["name"].as_str().unwrap_or_default().to_owned();
            self.devices.published.insert([DRIVER.to_owned(), node.clone(), name]);
        }
        slice["metadata"]["uid"] = self.devices.next_uid("slice").into();
        self.server.update(SLICE, slice).map(|_| true)
    }

    /// A driver takes its devices back, at times not all at once.
    pub(super) fn withdraw(&mut self) -> Result<()> {
        let numbers = &mut self.devices.numbers;
        let node = format!("node-{}", numbers.below(MAX_POOLS));
        let is_slow = numbers.one_in(3);
        let parts = &mut self.devices.unpublished;
        parts.retain(|part| part.node != node);
        self.server.delete(SLICE, &key(&node, 0));
        let rest = key(&node, 1);
        if is_slow {
            parts.push_back(Part { node, key: rest, slice: None });
        } else {
            self.server.delete(SLICE, &rest);
        }
        Ok(())
    }
}
