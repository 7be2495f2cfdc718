//! Who has which devices at the end of a simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::well_known::RESOURCE_GROUP;
use kube_scheduler_api_types::{Fields, Json, Object, Quantity};
use kube_scheduler_framework::ObjectStore;

use crate::report::{ClaimAllocation, ClassUse, DeviceCounts, DeviceReport, DriverUse, PoolUse};

fn list(value: &Json) -> impl Iterator<Item = &Json> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}

/// Driver, pool and name of a device.
type DeviceKey<'a> = (&'a str, &'a str, &'a str);

/// Who has which devices; `None` if there are neither slices nor allocated claims.
pub(crate) fn report(objects: &ObjectStore) -> Option<DeviceReport> {
    let claims: Vec<&Arc<Object>> = objects.list(RESOURCE_GROUP, "ResourceClaim").collect();
    let mut used: BTreeSet<DeviceKey<'_>> = BTreeSet::new();
    let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
    let mut allocated = Vec::new();
    for claim in claims {
        let results = &claim.json["status"]["allocation"]["devices"]["results"];
        let mut devices = Vec::new();
        for result in list(results) {
            let key = (text(&result["driver"]), text(&result["pool"]), text(&result["device"]));
            devices.push(format!("{}/{}/{}", key.0, key.1, key.2));
            // Admin access watches devices and takes none.
            if result["adminAccess"] != true {
                used.insert(key);
                *classes
                    .entry(class_of(&claim.json["spec"], text(&result["request"])))
                    .or_default() += 1;
            }
        }
        if !claim.json["status"]["allocation"].is_null() {
            let consumers = list(&claim.json["status"]["reservedFor"]);
            let pods = consumers.map(|consumer| text(&consumer["name"]).to_owned()).collect();
            allocated.push(ClaimAllocation { claim: claim.key(), devices, pods });
        }
    }
    let pools = pools(objects, &used);
    if pools.is_empty() && allocated.is_empty() {
        return None;
    }
    allocated.sort_by(|a, b| a.claim.cmp(&b.claim));
    let class_use =
        |(class, allocated): (&str, usize)| ClassUse { class: class.to_owned(), allocated };
    Some(DeviceReport {
        drivers: drivers(&pools),
        classes: classes.into_iter().map(class_use).collect(),
        pools,
        claims: allocated,
    })
}

/// The class of a request, or of an alternative in it (`request/alternative`).
fn class_of<'a>(spec: &'a Json, request: &str) -> &'a str {
    let (name, alternative) = request.split_once('/').unwrap_or((request, ""));
    let named = |value: &&Json, name: &str| value["name"] == name;
    let Some(request) = list(&spec["devices"]["requests"]).find(|value| named(value, name)) else {
        return "";
    };
    let found = list(&request["firstAvailable"]).find(|value| named(value, alternative));
    text(&found.unwrap_or(&request["exactly"])["deviceClassName"])
}

/// All pools with their newest generation, by driver, node and name.
fn pools(objects: &ObjectStore, used: &BTreeSet<DeviceKey<'_>>) -> Vec<PoolUse> {
    let mut slices: BTreeMap<(&str, &str), Vec<&Json>> = BTreeMap::new();
    for slice in objects.list(RESOURCE_GROUP, "ResourceSlice") {
        let spec = &slice.json["spec"];
        slices.entry((text(&spec["driver"]), text(&spec["pool"]["name"]))).or_default().push(spec);
    }
    let mut pools: Vec<PoolUse> = Vec::new();
    for ((driver, pool), mut specs) in slices {
        let generation = |spec: &Json| spec["pool"]["generation"].as_i64().unwrap_or_default();
        let newest = specs.iter().map(|spec| generation(spec)).max();
        specs.retain(|spec| Some(generation(spec)) == newest);
        let is_used = |device: &Json| used.contains(&(driver, pool, text(&device["name"])));
        let left = counters_left(&specs, is_used);
        let mut by_node: BTreeMap<&str, DeviceCounts> = BTreeMap::new();
        for spec in &specs {
            for device in list(&spec["devices"]) {
                let node = if spec["perDeviceNodeSelection"] == true { device } else { *spec };
                let counts = by_node.entry(text(&node["nodeName"])).or_default();
                counts.devices += 1;
                if is_used(device) {
                    counts.used += 1;
                } else if !fits(device, &left) {
                    counts.blocked += 1;
                } else {
                    counts.free += 1;
                }
            }
        }
        pools.extend(by_node.into_iter().map(|(node, counts)| PoolUse {
            driver: driver.to_owned(),
            node: Some(node).filter(|node| !node.is_empty()).map(str::to_owned),
            pool: pool.to_owned(),
            counts,
        }));
    }
    pools.sort_by(|a, b| (&a.driver, &a.node, &a.pool).cmp(&(&b.driver, &b.node, &b.pool)));
    pools
}

/// Amounts by counter set and counter.
type Counters<'a> = BTreeMap<(&'a str, &'a str), Quantity>;

/// What a device takes of shared counters. Values that are no quantities count as nothing.
fn consumed(device: &Json) -> impl Iterator<Item = ((&str, &str), Quantity)> {
    list(&device["consumesCounters"]).flat_map(|set| {
        let counters = set["counters"].as_object().into_iter().flat_map(Fields::iter);
        counters.filter_map(|(name, counter)| {
            let amount = Quantity::from_json(&(&counter["value"]).into()).ok()?;
            Some(((text(&set["counterSet"]), name), amount))
        })
    })
}

/// What the used devices of a pool have left of its shared counters.
fn counters_left<'a>(specs: &[&'a Json], is_used: impl Fn(&Json) -> bool) -> Counters<'a> {
    let mut left = Counters::new();
    for set in specs.iter().flat_map(|spec| list(&spec["sharedCounters"])) {
        for (name, counter) in set["counters"].as_object().into_iter().flat_map(Fields::iter) {
            if let Ok(amount) = Quantity::from_json(&(&counter["value"]).into()) {
                left.insert((text(&set["name"]), name), amount);
            }
        }
    }
    for device in specs.iter().flat_map(|spec| list(&spec["devices"])).filter(|one| is_used(one)) {
        for (key, amount) in consumed(device) {
            if let Some(left) = left.get_mut(&key) {
                left.subtract(&amount);
            }
        }
    }
    left
}

/// Whether enough of the shared counters is left for a device.
fn fits(device: &Json, left: &Counters<'_>) -> bool {
    consumed(device).all(|(key, amount)| {
        left.get(&key).is_some_and(|left| {
            let mut rest = left.clone();
            rest.subtract(&amount);
            rest.sign() >= 0
        })
    })
}

/// Sums over the pools of each driver.
fn drivers(pools: &[PoolUse]) -> Vec<DriverUse> {
    let mut drivers: BTreeMap<&str, (DeviceCounts, BTreeMap<&str, usize>)> = BTreeMap::new();
    for pool in pools {
        let (sum, free) = drivers.entry(&pool.driver).or_default();
        sum.devices += pool.counts.devices;
        sum.used += pool.counts.used;
        sum.blocked += pool.counts.blocked;
        sum.free += pool.counts.free;
        // Devices without a node are in one place each pool.
        *free.entry(pool.node.as_deref().unwrap_or(&pool.pool)).or_default() += pool.counts.free;
    }
    let driver_use = |(driver, (counts, free)): (&str, (DeviceCounts, BTreeMap<&str, usize>))| {
        let most_free_together = free.into_values().max().unwrap_or(0);
        let share =
            if counts.free == 0 { 0.0 } else { most_free_together as f64 / counts.free as f64 };
        let fragmentation =
            if counts.free == 0 { 0.0 } else { ((1.0 - share) * 1e6).round() / 1e6 };
        DriverUse { driver: driver.to_owned(), counts, most_free_together, fragmentation }
    };
    drivers.into_iter().map(driver_use).collect()
}
