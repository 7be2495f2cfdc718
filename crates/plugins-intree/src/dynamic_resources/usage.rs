//! Which devices allocated claims hold, kept up to date from attempt to attempt (`docs/spec/plugins-dra.md` §5.3).
//!
//! Quirk: a device that two claims hold, which no API server should ever show, is free once one of them gives it back, as
//! in the reference. A claim that keeps being allocated counts with the devices that it had first.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_scheduler_devices::api::{Allocation, ResourceClaim};
use kube_scheduler_devices::{Features, Usage};
use kube_scheduler_framework::api::Object;

use super::decoded::Decoded;

/// The usage of the claims that there were last, by namespace and name.
#[derive(Default)]
pub(super) struct TrackedUsage {
    claims: Vec<Arc<Object>>,
    usage: Usage,
}

impl TrackedUsage {
    /// Follows the claims to what they are now. `claims` come in the order of namespace and name.
    pub(super) fn follow<'a>(
        &mut self,
        claims: impl Iterator<Item = &'a Arc<Object>>,
        decoded: &Decoded<ResourceClaim>,
        features: Features,
    ) {
        let mut known = std::mem::take(&mut self.claims).into_iter().peekable();
        let mut added: Vec<Arc<Object>> = Vec::new();
        let mut removed: Vec<Arc<Object>> = Vec::new();
        for claim in claims {
            while let Some(gone) = known.next_if(|old| order(old, claim) == Ordering::Less) {
                removed.push(gone);
            }
            match known.next_if(|old| order(old, claim) == Ordering::Equal) {
                Some(old) if Arc::ptr_eq(&old, claim) => {}
                Some(old) => {
                    let is_kept = old.uid == claim.uid && is_allocated(&old) && is_allocated(claim);
                    if !is_kept {
                        removed.push(old);
                        added.push(claim.clone());
                    }
                }
                None => added.push(claim.clone()),
            }
            self.claims.push(claim.clone());
        }
        removed.extend(known);
        let allocated = |object: &Arc<Object>, change: &mut dyn FnMut(&Allocation)| {
            if let Ok(claim) = decoded.get(object)
                && let Some(allocation) = &claim.status.allocation
            {
                change(allocation);
            }
        };
        // What one claim has given back, another one may have got since.
        for object in &removed {
            allocated(object, &mut |allocation| self.usage.remove(allocation, features));
        }
        for object in &added {
            allocated(object, &mut |allocation| self.usage.add(allocation, features));
        }
    }

    /// What the claims hold.
    pub(super) fn usage(&self) -> &Usage {
        &self.usage
    }
}

fn order(a: &Object, b: &Object) -> Ordering {
    (&*a.namespace, &*a.name).cmp(&(&*b.namespace, &*b.name))
}

fn is_allocated(claim: &Object) -> bool {
    !claim.json["status"]["allocation"].is_null()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube_scheduler_devices::DeviceName;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const N_DEVICES: usize = 6;

    fn claim(name: usize, uid: usize, devices: &[usize]) -> Arc<Object> {
        let results: Vec<Value> = devices
            .iter()
            .map(|device| json!({"driver": "d", "pool": "p", "device": device.to_string()}))
            .collect();
        let status = match &results[..] {
            [] => json!({}),
            results => json!({"allocation": {"devices": {"results": results}}}),
        };
        let json = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"namespace": "n", "name": name.to_string(), "uid": uid.to_string()},
            "status": status,
        });
        Arc::new(Object::from_value(json).unwrap())
    }

    fn held(usage: &Usage) -> Vec<bool> {
        let name = |device: usize| {
            DeviceName::new(&"d".into(), &"p".into(), &Arc::from(device.to_string()))
        };
        (0..N_DEVICES).map(|device| usage.holds(&name(device))).collect()
    }

    /// Turns of: a claim by name takes the device if it is free, or gives back what it has, or is deleted.
    fn turns() -> impl Strategy<Value = Vec<(usize, usize, u8)>> {
        prop::collection::vec((0..5_usize, 0..N_DEVICES, 0..4_u8), 0..40)
    }

    proptest! {
        #[test]
        fn following_changes_is_counting_all_claims(turns in turns()) {
            let decoded = Decoded::new(ResourceClaim::from_json);
            let features = Features::default();
            let mut tracked = TrackedUsage::default();
            let mut claims: BTreeMap<String, (Option<usize>, Arc<Object>)> = BTreeMap::new();
            for (at, (name, device, turn)) in turns.into_iter().enumerate() {
                let is_free = claims.values().all(|(held, _)| *held != Some(device));
                match turn {
                    0 => drop(claims.remove(&name.to_string())),
                    1 => drop(claims.insert(name.to_string(), (None, claim(name, at, &[])))),
                    _ if is_free && claims.get(&name.to_string()).is_none_or(|c| c.0.is_none()) => {
                        let object = claim(name, at, &[device]);
                        claims.insert(name.to_string(), (Some(device), object));
                    }
                    _ => {}
                }
                // Not every change is seen on its own.
                if at % 3 == 0 {
                    continue;
                }
                let objects = claims.values().map(|(_, object)| object);
                tracked.follow(objects, &decoded, features);
                let followed = held(tracked.usage());
                let mut counted = vec![false; N_DEVICES];
                claims.values().filter_map(|(held, _)| *held).for_each(|d| counted[d] = true);
                prop_assert_eq!(followed, counted);
            }
        }
    }
}
