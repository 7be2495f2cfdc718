//! Devices: users that claim them, and the controller that makes, frees and deletes claims. Drivers are in
//! [`pools`](super::pools).
//!
//! It draws from numbers of its own, so that nothing else changes when this fault is left out. Two things are left out,
//! since no scheduler could bear them: the API has no write that depends on two claims. A leader that does not wait until
//! it has caught up would give away devices that it does not know to be taken, and so would any while writes of its
//! predecessor are still on their way. Such simulations have no devices, and such writes are lost.

use anyhow::Result;
use serde_json::{Value, json};

use super::claims::{self, CLAIM};
use super::server::{KINDS, Key, N_PLAIN_KINDS};
use super::simulation::Simulation;
use crate::history::shapes;

pub(super) const DRIVER: &str = "gpu.example.com";
pub(super) const API_VERSION: &str = "resource.k8s.io/v1";
/// How many claims of all pods there are in each namespace.
const MAX_SHARED: u64 = 2;
/// One in how many pods claims devices.
const CLAIMING_ONE_IN: u64 = 2;

impl Simulation {
    /// The kinds that schedulers follow here.
    pub(super) fn kinds(&self) -> &'static [&'static str] {
        if self.devices.are_there { &KINDS } else { &KINDS[..N_PLAIN_KINDS] }
    }

    /// Device classes, devices, and claims that several pods share.
    pub(super) fn populate_devices(&mut self) -> Result<()> {
        if !self.devices.are_there {
            return Ok(());
        }
        let of_driver = format!("device.driver == '{DRIVER}'");
        let is_fast = format!("{of_driver} && device.attributes['{DRIVER}'].fast");
        for (name, expression) in [("gpu", of_driver), ("fast", is_fast)] {
            let mut class = json!({
                "apiVersion": API_VERSION, "kind": "DeviceClass",
                "metadata": {"name": name, "uid": format!("class-{name}")},
                "spec": {"selectors": [{"cel": {"expression": expression}}]},
            });
            if name == "gpu" {
                class["spec"]["extendedResourceName"] = claims::RESOURCE.into();
            }
            self.server.put("DeviceClass", class)?;
        }
        for _ in 0..12 {
            self.publish()?;
            self.put_shared_claim()?;
        }
        Ok(())
    }

    /// One thing that drivers, users or the controller do.
    pub(super) fn disturb_devices(&mut self) -> Result<()> {
        if !self.devices.are_there {
            return Ok(());
        }
        match self.devices.numbers.below(10) {
            0 => self.publish(),
            1 if self.devices.numbers.one_in(3) => self.withdraw(),
            2 if self.devices.numbers.one_in(2) => self.put_shared_claim(),
            3 if self.devices.numbers.one_in(4) => self.delete_shared_claim(),
            4..=8 => self.control_devices().map(drop),
            _ => Ok(()),
        }
    }

    fn shared_claim(&mut self) -> Key {
        let numbers = &mut self.devices.numbers;
        let namespace = numbers.pick(&shapes::NAMESPACES).to_owned();
        (namespace, format!("shared-{}", numbers.below(MAX_SHARED)))
    }

    fn put_shared_claim(&mut self) -> Result<()> {
        let key = self.shared_claim();
        if self.server.get(CLAIM, &key).is_some() {
            return Ok(());
        }
        let claim = self.new_claim(&key);
        self.server.put(CLAIM, claim).map(drop)
    }

    fn delete_shared_claim(&mut self) -> Result<()> {
        let key = self.shared_claim();
        self.server.delete_claim(&key, &self.now.floor_to_second().to_string())
    }

    fn new_claim(&mut self, (namespace, name): &Key) -> Value {
        let numbers = &mut self.devices.numbers;
        let mut request = json!({
            "deviceClassName": if numbers.one_in(4) { "fast" } else { "gpu" },
            "allocationMode": "ExactCount", "count": 1 + u64::from(numbers.one_in(4)),
        });
        if numbers.one_in(8) {
            request["allocationMode"] = "All".into();
            request["count"] = Value::Null;
        }
        if numbers.one_in(16) {
            request["adminAccess"] = true.into();
        }
        let mut claim = json!({
            "apiVersion": API_VERSION, "kind": CLAIM,
            "metadata": {
                "namespace": namespace, "name": name, "uid": self.devices.next_uid("claim"),
            },
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": request}]}},
            "status": {},
        });
        self.make_object_evil(&mut claim, self.devices.n_made);
        claim
    }

    /// Lets a pod that is about to be created claim devices, or not.
    pub(super) fn add_claims(&mut self, pod: &mut Value) {
        if !self.devices.are_there {
            return;
        }
        let may_claim = self.add_extended_resources(pod);
        let numbers = &mut self.devices.numbers;
        if !numbers.one_in(CLAIMING_ONE_IN) || !may_claim {
            return;
        }
        let own = json!({"name": "own", "resourceClaimTemplateName": "gpu"});
        let shared = format!("shared-{}", numbers.below(MAX_SHARED));
        let shared = json!({"name": "shared", "resourceClaimName": shared});
        pod["spec"]["resourceClaims"] = match numbers.below(6) {
            0..=2 => json!([own]),
            3 | 4 => json!([shared]),
            _ => json!([own, shared]),
        };
    }

    /// One thing that the controller of claims does; false when there is nothing to be done.
    pub(super) fn control_devices(&mut self) -> Result<bool> {
        if !self.devices.are_there {
            return Ok(false);
        }
        Ok(self.is_healing && self.publish_part()?
            || self.make_claim()?
            || self.free_claim()?
            || self.reserve_for_running()?
            || self.delete_made_claim()?)
    }

    /// Makes the claim that a pod wants for itself.
    fn make_claim(&mut self) -> Result<bool> {
        let lacks_claim = |pod: &Value| {
            !claims::has_ended(pod) && claims::claim_names(pod).any(|name| name.is_none())
        };
        let Some((key, pod)) = self.server.all("Pod").find(|(_, pod)| lacks_claim(pod)) else {
            return Ok(false);
        };
        let (key, metadata) = (key.clone(), pod["metadata"].clone());
        let name = format!("{}-own-{}", key.1, self.devices.n_made);
        let mut claim = self.new_claim(&(key.0.clone(), name.clone()));
        claim["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "Pod", "controller": true,
            "name": metadata["name"], "uid": metadata["uid"],
        }]);
        self.server.put(CLAIM, claim)?;
        self.server.change("Pod", &key, |pod| {
            pod["status"]["resourceClaimStatuses"] =
                json!([{"name": "own", "resourceClaimName": name}]);
        })
    }

    /// Takes reservations of pods away that are gone or have ended, and the devices with the last one.
    fn free_claim(&mut self) -> Result<bool> {
        let is_left_over = |(key, claim): &(&Key, &Value)| {
            let is_unused = |consumer| !self.server.is_used(&key.0, consumer);
            let is_leaving = !claim["metadata"]["deletionTimestamp"].is_null();
            claims::reservations(claim).any(is_unused)
                || (is_leaving && claims::reservations(claim).next().is_none())
        };
        let Some((key, claim)) = self.server.all(CLAIM).find(is_left_over) else {
            return Ok(false);
        };
        let (key, mut claim) = (key.clone(), claim.clone());
        let left = claims::reservations(&claim).filter(|it| self.server.is_used(&key.0, it));
        let left: Vec<Value> = left.cloned().collect();
        if !left.is_empty() {
            claim["status"]["reservedFor"] = left.into();
            return self.server.update(CLAIM, claim).map(|_| true);
        }
        claims::free(&mut claim);
        if !claim["metadata"]["deletionTimestamp"].is_null() {
            return Ok(self.server.delete(CLAIM, &key));
        }
        self.server.update(CLAIM, claim).map(|_| true)
    }

    /// Reserves claims for pods that run without: their scheduler took a binding for failed that stands.
    fn reserve_for_running(&mut self) -> Result<bool> {
        let mut found = None;
        for (key, pod) in self.server.all("Pod") {
            if pod["spec"]["nodeName"].is_null() || claims::has_ended(pod) {
                continue;
            }
            let names = claims::claim_names(pod).flatten();
            let claims = names.filter_map(|name| self.server.get(CLAIM, &(key.0.clone(), name)));
            let lacks_reservation = |claim: &&Value| {
                !claim["status"]["allocation"].is_null()
                    && claim["metadata"]["deletionTimestamp"].is_null()
                    && claims::is_owned_by(claim, pod)
                    && !claims::is_reserved_for(claim, &pod["metadata"]["uid"])
            };
            if let Some(claim) = { claims }.find(lacks_reservation) {
                found = Some((claim.clone(), claims::reservation(pod)));
                break;
            }
        }
        let Some((mut claim, reservation)) = found else { return Ok(false) };
        let reserved = claims::reservations(&claim).cloned().chain([reservation]).collect();
        claim["status"]["reservedFor"] = reserved;
        self.server.update(CLAIM, claim).map(|_| true)
    }

    /// Deletes a claim that was made for a pod that is gone or has ended.
    fn delete_made_claim(&mut self) -> Result<bool> {
        let is_left_over = |(key, claim): &(&Key, &Value)| {
            let owner = &claim["metadata"]["ownerReferences"][0];
            !owner.is_null()
                && claim["metadata"]["deletionTimestamp"].is_null()
                && !self.server.is_used(&key.0, owner)
        };
        let Some((key, _)) = self.server.all(CLAIM).find(is_left_over) else { return Ok(false) };
        let key = key.clone();
        self.server.delete_claim(&key, &self.now.floor_to_second().to_string())?;
        Ok(true)
    }

    /// What must hold of devices after each step.
    pub(super) fn check_devices(&self) -> Result<()> {
        self.server.check_allocations(&self.devices.published)
    }
}
