//! Members and the devices of their claims are planned together: a gang is placed whenever an exhaustive search over nodes and
//! devices finds a way, and its claims get devices that the search might have given them.
//!
//! The order of members makes no difference in the model: nothing but CPUs and devices counts, and every way to give devices to
//! claims is tried.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_engine::{Input, WorkLimits};
use kube_scheduler_tests::fixtures::{
    devices_applied, node_applied, object_applied, pod_applied, pod_group,
};
use kube_scheduler_tests::history::Numbers;
use serde_json::{Value, json};

use super::{
    DEVICES, Decision, N_ARRIVALS, N_GANGS, any_places, at, decide, decide_in, engine, exact, gang,
    member, number, says, shuffled, with_gates, with_limits,
};

const DRIVER: &str = "gpu.example.com";

/// What devices of a claim may have to agree in.
const ATTRIBUTES: [&str; 2] = ["numa", "link"];

/// A device of a node, or of a zone: those can be used from all nodes of the zone.
#[derive(Clone, Copy, Debug)]
struct Device {
    node: Option<usize>,
    zone: u64,
    model: u64,
    /// By attribute.
    values: [u64; 2],
}

/// A number of devices, of one model if that matters.
#[derive(Clone, Copy, Debug)]
struct Request {
    count: u64,
    model: Option<u64>,
}

/// A claim whose devices may have to agree in an attribute.
#[derive(Clone, Debug)]
struct Claim {
    requests: Vec<Request>,
    aligned_in: Option<usize>,
    of_zone: bool,
}

#[derive(Clone, Debug)]
struct Member {
    cpu: u64,
    /// Whether it shares the claims of the gang, by their numbers.
    shares: [bool; 2],
    own: Option<Claim>,
    /// Whether its own claim was made from a template.
    is_generated: bool,
}

/// A gang with claims of single members and with two that members share. The second one is for devices of a zone, so that all who
/// share it have to be in one.
#[derive(Clone, Debug)]
struct Case {
    /// CPUs and zones.
    machines: Vec<(u64, u64)>,
    devices: Vec<Device>,
    members: Vec<Member>,
    shared: [Claim; 2],
    /// Whether the shared claims belong to the group.
    are_of_group: bool,
    min_count: usize,
    /// A member whose own claim, for one device, has this one already.
    taken: Option<(usize, usize)>,
}

/// Devices of claims.
type Given = Vec<Vec<usize>>;

impl Device {
    fn random(numbers: &mut Numbers, (node, zone): (Option<usize>, u64), n_values: u64) -> Self {
        let model = numbers.below(2);
        Self { node, zone, model, values: [numbers.below(n_values), numbers.below(n_values)] }
    }
}

impl Claim {
    fn random(numbers: &mut Numbers, of_zone: bool) -> Self {
        let n_requests = if of_zone { 1 } else { 1 + u64::from(numbers.one_in(4)) };
        let request = |numbers: &mut Numbers| Request {
            count: if of_zone { 1 } else { 1 + u64::from(numbers.one_in(3)) },
            model: numbers.one_in(3).then(|| numbers.below(2)),
        };
        let requests = (0..n_requests).map(|_| request(numbers)).collect();
        let aligned_in = numbers.one_in(3).then_some(0);
        Self { requests, aligned_in, of_zone }
    }

    /// For so many devices of a node that agree in an attribute.
    fn aligned(count: u64, attribute: usize) -> Self {
        let requests = vec![Request { count, model: None }];
        Self { requests, aligned_in: Some(attribute), of_zone: false }
    }

    fn json(&self, name: &str) -> Value {
        let class = if self.of_zone { "of-zone" } else { "of-node" };
        let requests = self.requests.iter().enumerate().map(|(at, request)| {
            let selectors = request.model.map(|model| {
                let text = format!("device.attributes['{DRIVER}'].model == 'm{model}'");
                json!([{"cel": {"expression": text}}])
            });
            json!({"name": format!("r{at}"), "exactly": {
                "deviceClassName": class, "allocationMode": "ExactCount", "count": request.count, "selectors": selectors,
            }})
        });
        let requests: Vec<Value> = requests.collect();
        let constraints = self.aligned_in.map(|attribute| {
            let name = format!("{DRIVER}/{}", ATTRIBUTES[attribute]);
            json!([{"matchAttribute": name}])
        });
        json!({
            "apiVersion": DEVICES, "kind": "ResourceClaim", "metadata": {"namespace": "x", "name": name, "uid": name},
            "spec": {"devices": {"requests": requests, "constraints": constraints}}, "status": {},
        })
    }

    /// One entry for each device.
    fn slots(&self) -> Vec<Option<u64>> {
        let slots =
            self.requests.iter().flat_map(|request| (0..request.count).map(|_| request.model));
        slots.collect()
    }
}

impl Case {
    fn random(seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let n_machines = 2 + usize::try_from(numbers.below(3)).unwrap();
        let machines: Vec<(u64, u64)> =
            (0..n_machines).map(|_| (1 + numbers.below(6), numbers.below(2))).collect();
        let mut devices = Vec::new();
        for (node, (_, zone)) in machines.iter().enumerate() {
            let n_devices = 1 + numbers.below(4);
            let of_node = (Some(node), *zone);
            devices.extend((0..n_devices).map(|_| Device::random(&mut numbers, of_node, 2)));
        }
        devices.extend(Self::of_zones(&mut numbers));
        let n_members = 2 + numbers.below(3);
        let members = (0..n_members).map(|_| {
            let shares = [numbers.one_in(4), numbers.one_in(4)];
            let own = !numbers.one_in(5);
            let of_zone = numbers.one_in(5);
            let own = own.then(|| Claim::random(&mut numbers, of_zone));
            Member { cpu: 1 + numbers.below(2), shares, own, is_generated: false }
        });
        let members: Vec<Member> = members.collect();
        let min_count = if numbers.one_in(4) { members.len() - 1 } else { members.len() };
        let shared = [Claim::random(&mut numbers, false), Claim::random(&mut numbers, true)];
        let are_of_group = numbers.one_in(2);
        Self { machines, devices, members, shared, are_of_group, min_count, taken: None }
    }

    /// A gang of one or two kinds of members, each with a claim of its own, of which one may have a device already.
    fn alike(seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let n_machines = 2 + numbers.below(2);
        let machines: Vec<(u64, u64)> =
            (0..n_machines).map(|_| (2 + numbers.below(4), numbers.below(2))).collect();
        let mut devices = Vec::new();
        for (node, (_, zone)) in machines.iter().enumerate() {
            let n_devices = 2 + numbers.below(3);
            let of_node = (Some(node), *zone);
            devices.extend((0..n_devices).map(|_| Device::random(&mut numbers, of_node, 2)));
        }
        devices.extend(Self::of_zones(&mut numbers));
        let kind = |numbers: &mut Numbers| {
            let shares = [numbers.one_in(6), numbers.one_in(6)];
            let of_zone = numbers.one_in(6);
            let own = Some(Claim::random(numbers, of_zone));
            Member { cpu: 1 + numbers.below(2), shares, own, is_generated: numbers.one_in(2) }
        };
        let kinds = [kind(&mut numbers), kind(&mut numbers)];
        let n_members = 3 + numbers.below(2);
        // Most are of the first kind.
        let members = (0..n_members).map(|_| kinds[usize::from(numbers.one_in(4))].clone());
        let members: Vec<Member> = members.collect();
        let shared = [Claim::random(&mut numbers, false), Claim::random(&mut numbers, true)];
        let (are_of_group, leaves_one) = (numbers.one_in(2), numbers.one_in(4));
        let min_count = members.len() - usize::from(leaves_one);
        let mut case =
            Self { machines, devices, members, shared, are_of_group, min_count, taken: None };
        let member = usize::try_from(numbers.below(n_members)).unwrap();
        let suitable = case.devices_for_one(member);
        if numbers.one_in(3) && !suitable.is_empty() {
            let device = usize::try_from(numbers.below(suitable.len() as u64)).unwrap();
            case.taken = Some((member, suitable[device]));
        }
        case
    }

    /// The devices that a member's own claim may have, if it is for one.
    fn devices_for_one(&self, member: usize) -> Vec<usize> {
        let Some(own) = &self.members[member].own else { return Vec::new() };
        let [model] = own.slots()[..] else { return Vec::new() };
        (0..self.devices.len()).filter(|at| self.suits(own, &[], (&[], model), *at)).collect()
    }

    fn of_zones(numbers: &mut Numbers) -> Vec<Device> {
        let mut devices = Vec::new();
        for zone in 0..2 {
            let n_devices = numbers.below(3);
            devices.extend((0..n_devices).map(|_| Device::random(numbers, (None, zone), 2)));
        }
        devices
    }

    /// A gang that needs all devices there are, which there is usually one way to give to it.
    fn tight(seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let n_machines = 1 + numbers.below(2);
        let machines: Vec<(u64, u64)> = (0..n_machines).map(|_| (9, numbers.below(2))).collect();
        let mut by_node: Vec<Vec<Device>> = machines.iter().map(|_| Vec::new()).collect();
        let shares_zone = numbers.one_in(2);
        let n_members = 2 + numbers.below(2);
        let members = (0..n_members).map(|_| {
            let count = 2 + u64::from(numbers.one_in(4));
            let attribute = usize::try_from(numbers.below(2)).unwrap();
            let node = usize::try_from(numbers.below(n_machines)).unwrap();
            let value = numbers.below(3);
            for _ in 0..count {
                let mut device = Device::random(&mut numbers, (Some(node), machines[node].1), 3);
                device.values[attribute] = value;
                // Anywhere among the others.
                let at = numbers.below(by_node[node].len() as u64 + 1);
                by_node[node].insert(usize::try_from(at).unwrap(), device);
            }
            let own = Some(Claim::aligned(count, attribute));
            let shares = [false, shares_zone && numbers.one_in(2)];
            Member { cpu: 1, shares, own, is_generated: false }
        });
        let members: Vec<Member> = members.collect();
        let mut devices = by_node.concat();
        if numbers.one_in(2) {
            let at = usize::try_from(numbers.below(devices.len() as u64)).unwrap();
            devices[at].values[usize::try_from(numbers.below(2)).unwrap()] = numbers.below(3);
        }
        devices.extend(Self::of_zones(&mut numbers));
        let shared = [Claim::random(&mut numbers, false), Claim::random(&mut numbers, true)];
        let (are_of_group, min_count) = (numbers.one_in(2), members.len());
        Self { machines, devices, members, shared, are_of_group, min_count, taken: None }
    }

    fn inputs(&self) -> Vec<Input> {
        let mut inputs = Vec::new();
        for (at, (cpu, zone)) in self.machines.iter().enumerate() {
            let (name, zone) = (format!("n{at}"), format!("z{zone}"));
            inputs.push(node_applied(&json!({
                "metadata": {"name": name, "labels": {"zone": zone}},
                "status": {"allocatable": {"cpu": cpu.to_string(), "memory": "64Gi", "pods": "10"}},
            })));
        }
        for (class, is_of_zone) in [("of-node", false), ("of-zone", true)] {
            let text = format!("device.attributes['{DRIVER}'].zonal == {is_of_zone}");
            inputs.push(object_applied(json!({
                "apiVersion": DEVICES, "kind": "DeviceClass", "metadata": {"name": class},
                "spec": {"selectors": [{"cel": {"expression": text}}]},
            })));
        }
        let mut pools: BTreeMap<(Option<usize>, u64), Vec<Value>> = BTreeMap::new();
        for (at, device) in self.devices.iter().enumerate() {
            pools.entry((device.node, device.zone)).or_default().push(json!({
                "name": format!("d{at}"), "attributes": {
                    "model": {"string": format!("m{}", device.model)},
                    "numa": {"int": device.values[0]},
                    "link": {"int": device.values[1]},
                    "zonal": {"bool": device.node.is_none()},
                    // No two devices are the same, as it is with real ones.
                    "serial": {"string": format!("{at}")},
                },
            }));
        }
        for ((node, zone), devices) in pools {
            let (name, reach) = (pool_name(node, zone), reach(node, zone));
            let mut spec = json!({
                "driver": DRIVER, "devices": devices,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            });
            match node {
                Some(_) => spec["nodeName"] = json!(name),
                None => spec["nodeSelector"] = reach,
            }
            inputs.push(object_applied(json!({
                "apiVersion": DEVICES, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec,
            })));
        }
        let shared = ["s0", "s1"].map(|name| json!({"name": name, "resourceClaimName": name}));
        let of_group = if self.are_of_group { json!(shared) } else { json!([]) };
        let policy = json!({"gang": {"minCount": self.min_count}});
        let spec = json!({"schedulingPolicy": policy, "resourceClaims": of_group});
        inputs.push(object_applied(pod_group("g", spec)));
        for (at, claim) in self.shared.iter().enumerate() {
            inputs.push(object_applied(claim.json(&format!("s{at}"))));
        }
        for (at, of) in self.members.iter().enumerate() {
            let name = format!("m{at}");
            let used = shared.iter().zip(of.shares).filter(|(_, uses)| *uses);
            let mut claims: Vec<Value> = used.map(|(entry, _)| entry.clone()).collect();
            let mut pod = member(of.cpu).json(&name, None, Some("g"));
            if let Some(own) = &of.own {
                let mut claim = own.json(&name);
                if let Some((_, device)) = self.taken.filter(|(taken, _)| *taken == at) {
                    claim["status"]["allocation"] = self.allocation(device);
                }
                if of.is_generated {
                    generate(&mut claim, &mut pod);
                    claims.push(json!({"name": "own", "resourceClaimTemplateName": "own"}));
                } else {
                    claims.push(json!({"name": "own", "resourceClaimName": name}));
                }
                inputs.push(object_applied(claim));
            }
            pod["spec"]["resourceClaims"] = claims.into();
            inputs.push(pod_applied(&pod));
        }
        inputs
    }

    /// What stands in a claim that has one device.
    fn allocation(&self, device: usize) -> Value {
        let Device { node, zone, .. } = self.devices[device];
        let pool = pool_name(node, zone);
        let result = json!({"request": "r0", "driver": DRIVER, "pool": pool, "device": format!("d{device}")});
        json!({"devices": {"results": [result]}, "nodeSelector": reach(node, zone)})
    }

    /// The claims that members on these nodes use and that have no device yet, by name, each with the nodes of its users.
    fn claims(&self, places: &[Option<usize>]) -> BTreeMap<String, (&Claim, Vec<usize>)> {
        let mut claims: BTreeMap<String, (&Claim, Vec<usize>)> = BTreeMap::new();
        for (at, (of, place)) in self.members.iter().zip(places).enumerate() {
            let Some(node) = *place else { continue };
            for (number, claim) in self.shared.iter().enumerate() {
                if of.shares[number] {
                    let users = claims.entry(format!("s{number}")).or_insert((claim, Vec::new()));
                    users.1.push(node);
                }
            }
            let is_taken = self.taken.is_some_and(|(taken, _)| taken == at);
            if let Some(own) = of.own.as_ref().filter(|_| !is_taken) {
                claims.insert(format!("m{at}"), (own, vec![node]));
            }
        }
        claims
    }

    fn has_cpus(&self, places: &[Option<usize>]) -> bool {
        let mut used = vec![0; self.machines.len()];
        for (of, place) in self.members.iter().zip(places) {
            if let Some(node) = *place {
                used[node] += of.cpu;
            }
        }
        used.iter().zip(&self.machines).all(|(used, (cpu, _))| used <= cpu)
    }

    /// Whether a claim may have a device beside those that it has.
    fn suits(
        &self,
        claim: &Claim,
        users: &[usize],
        (had, model): (&[usize], Option<u64>),
        at: usize,
    ) -> bool {
        let device = &self.devices[at];
        let is_near = |node: &usize| match device.node {
            Some(of) => of == *node,
            None => device.zone == self.machines[*node].1,
        };
        let is_aligned = |attribute: usize| {
            let first = had.first().map(|first| self.devices[*first].values[attribute]);
            first.is_none_or(|first| first == device.values[attribute])
        };
        device.node.is_none() == claim.of_zone
            && model.is_none_or(|model| model == device.model)
            && users.iter().all(is_near)
            && claim.aligned_in.is_none_or(is_aligned)
    }

    /// Whether the claims from the one after those of `given` on, of which this one has `had`, can get devices that are not in
    /// `used`. If so, `given` has the devices of all, those that come first.
    fn can_serve(
        &self,
        claims: &[(&Claim, Vec<usize>)],
        (given, had): (&mut Given, &mut Vec<usize>),
        used: u64,
        tried: &mut BTreeSet<(usize, Vec<usize>, u64)>,
    ) -> bool {
        let Some((claim, users)) = claims.get(given.len()) else { return true };
        let Some(model) = claim.slots().get(had.len()).copied() else {
            given.push(had.clone());
            let found = self.can_serve(claims, (given, &mut Vec::new()), used, tried);
            if !found {
                given.pop();
            }
            return found;
        };
        if !tried.insert((given.len(), had.clone(), used)) {
            return false;
        }
        (0..self.devices.len()).any(|device| {
            if used & (1 << device) != 0 || !self.suits(claim, users, (had, model), device) {
                return false;
            }
            had.push(device);
            let found = self.can_serve(claims, (given, had), used | 1 << device, tried);
            had.pop();
            found
        })
    }

    /// The devices of claims that come first, beside those in `used`.
    fn first_devices(&self, claims: &[(&Claim, Vec<usize>)], used: u64) -> Option<Given> {
        let mut given = Vec::new();
        let state = (&mut given, &mut Vec::new());
        self.can_serve(claims, state, used, &mut BTreeSet::new()).then_some(given)
    }

    /// The device that is taken, as a bit; `None` if the member that has it cannot use it where it is.
    fn taken_device(&self, places: &[Option<usize>]) -> Option<u64> {
        let Some((member, device)) = self.taken else { return Some(0) };
        let own = self.members[member].own.as_ref()?;
        let users: Vec<usize> = places[member].into_iter().collect();
        self.suits(own, &users, (&[], own.slots()[0]), device).then_some(1 << device)
    }

    fn allows(&self, places: &[Option<usize>]) -> bool {
        let claims: Vec<_> = self.claims(places).into_values().collect();
        let has_devices =
            |taken: u64| self.has_cpus(places) && self.first_devices(&claims, taken).is_some();
        self.taken_device(places).is_some_and(has_devices)
    }

    /// Whether there is a way in some order of the members if each gets the devices that come first.
    fn fits_in_some_order(
        &self,
        places: &mut Vec<Option<usize>>,
        given: &BTreeMap<String, Vec<usize>>,
    ) -> bool {
        if places.iter().flatten().count() >= self.min_count {
            return true;
        }
        let used = given.values().flatten().fold(0, |used, device| used | 1 << device);
        for (at, node) in
            (0..places.len()).flat_map(|at| (0..self.machines.len()).map(move |n| (at, n)))
        {
            if places[at].is_some() {
                continue;
            }
            places[at] = Some(node);
            let claims = self.claims(places);
            let (known, new): (Vec<_>, Vec<_>) =
                claims.iter().partition(|(name, _)| given.contains_key(*name));
            let can_use = known.iter().all(|(name, (claim, users))| {
                given[*name].iter().all(|device| self.suits(claim, users, (&[], None), *device))
            });
            let wanted: Vec<_> = new.iter().map(|(_, wanted)| (*wanted).clone()).collect();
            let devices =
                self.first_devices(&wanted, used).filter(|_| can_use && self.has_cpus(places));
            let found = devices.is_some_and(|devices| {
                let names = new.iter().map(|(name, _)| (*name).clone());
                let mut given = given.clone();
                given.extend(names.zip(devices));
                self.fits_in_some_order(places, &given)
            });
            places[at] = None;
            if found {
                return true;
            }
        }
        false
    }

    fn is_satisfiable(&self) -> bool {
        let sizes = (self.members.len(), self.machines.len(), self.min_count);
        any_places(sizes, &mut Vec::new(), &|places| self.allows(places))
    }

    /// Asserts that each claim in use has devices that it may have, and no device is used twice.
    fn check_devices(&self, places: &[Option<usize>], allocated: &BTreeMap<String, Vec<usize>>) {
        let claims = self.claims(places);
        let names: Vec<&String> = claims.keys().collect();
        assert_eq!(allocated.keys().collect::<Vec<_>>(), names);
        assert!(self.taken_device(places).is_some(), "{places:?}");
        let mut used: BTreeSet<usize> = self.taken.iter().map(|(_, device)| *device).collect();
        for (name, devices) in allocated {
            let (claim, users) = &claims[name];
            let slots = claim.slots();
            assert_eq!(devices.len(), slots.len(), "{name}");
            for (at, device) in devices.iter().enumerate() {
                let had = (&devices[..at], slots[at]);
                assert!(self.suits(claim, users, had, *device), "{name} has d{device}");
                assert!(used.insert(*device), "{name} has d{device} of another");
            }
        }
    }
}

/// What the devices of a node, or of a zone, stand under.
fn pool_name(node: Option<usize>, zone: u64) -> String {
    node.map_or_else(|| format!("z{zone}"), |node| format!("n{node}"))
}

/// Where they can be used.
fn reach(node: Option<usize>, zone: u64) -> Value {
    let is_in =
        |key: &str, value: String| json!([{"key": key, "operator": "In", "values": [value]}]);
    let term = match node {
        Some(node) => json!({"matchFields": is_in("metadata.name", format!("n{node}"))}),
        None => json!({"matchExpressions": is_in("zone", format!("z{zone}"))}),
    };
    json!({"nodeSelectorTerms": [term]})
}

/// The claim was made from a template for the pod, which has the entry `own` for it.
fn generate(claim: &mut Value, pod: &mut Value) {
    let name = &pod["metadata"]["name"];
    claim["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"], "controller": true},
    ]);
    let generated = json!({"name": "own", "resourceClaimName": claim["metadata"]["name"]});
    pod["status"]["resourceClaimStatuses"] = json!([generated]);
}

/// What became of the members, and the devices of each claim that is about to be written.
fn decide_devices(inputs: Vec<Input>) -> (Decision, BTreeMap<String, Vec<usize>>) {
    let mut engine = with_gates(&["DRAWorkloadResourceClaims"], true);
    let decision = decide_in(inputs, &mut engine);
    let objects = engine.cluster().objects();
    let claims = objects.list_pending("resource.k8s.io", "ResourceClaim");
    let allocated = claims.map(|claim| {
        let results = &claim.json["status"]["allocation"]["devices"]["results"];
        let devices = results.as_array().into_iter().flatten();
        let devices = devices.map(|result| at(result["device"].as_str().unwrap()));
        (claim.name.to_string(), devices.collect())
    });
    let allocated = allocated.collect();
    (decision, allocated)
}

/// Asserts that the gang is placed if there is a way, with devices that its claims may have. The nodes of its members then.
fn placed_if_possible(case: &Case, seed: u64) -> Option<Vec<Option<usize>>> {
    let (decision, allocated) = decide_devices(case.inputs());
    let is_satisfiable = case.is_satisfiable();
    let n_placed = decision.placed.len();
    assert_eq!(n_placed >= case.min_count, is_satisfiable, "seed {seed}: {case:#?}, {decision:#?}");
    if !is_satisfiable {
        assert!(n_placed == 0 && allocated.is_empty(), "seed {seed}: by halves: {decision:#?}");
        // All was tried, and nothing less is said.
        let is_cut = says(&decision, "ended at its limit") || says(&decision, "found first");
        assert!(!is_cut, "seed {seed}: {decision:#?}");
        return None;
    }
    let mut places = vec![None; case.members.len()];
    for (member, node) in &decision.placed {
        places[*member] = Some(*node);
    }
    assert!(case.has_cpus(&places), "seed {seed}: {case:#?}, {decision:#?}");
    case.check_devices(&places, &allocated);
    Some(places)
}

#[test]
fn a_gang_with_claims_is_placed_whenever_there_is_a_way_with_any_devices() {
    let (mut n_satisfiable, mut n_beyond_orders, mut n_shared, mut n_refused) = (0, 0, 0, 0);
    for seed in 0..number("KUBE_SCHEDULER_GANGS", N_GANGS) {
        let case = if seed % 2 == 0 { Case::random(seed) } else { Case::tight(seed) };
        let Some(places) = placed_if_possible(&case, seed) else {
            n_refused += 1;
            continue;
        };
        n_satisfiable += 1;
        let mut nowhere = vec![None; case.members.len()];
        let is_simple = case.fits_in_some_order(&mut nowhere, &BTreeMap::new());
        n_beyond_orders += u64::from(!is_simple);
        n_shared += u64::from(case.claims(&places).values().any(|(_, users)| users.len() > 1));
    }
    assert!(
        n_satisfiable > 50 && n_beyond_orders > 5 && n_shared > 10 && n_refused > 50,
        "{n_satisfiable} satisfiable, {n_beyond_orders} of them in no order with the first devices, {n_shared} with claims \
         that are shared, {n_refused} not"
    );
}

/// Members whose claims ask for the same stand for each other in the search, and one whose claim has a device for itself alone.
#[test]
fn a_gang_of_members_that_are_alike_is_placed_whenever_there_is_a_way() {
    let (mut n_satisfiable, mut n_refused) = ([0, 0], [0, 0]);
    for seed in 0..number("KUBE_SCHEDULER_GANGS", N_GANGS) {
        let case = Case::alike(seed);
        let has_taken = usize::from(case.taken.is_some());
        match placed_if_possible(&case, seed) {
            Some(_) => n_satisfiable[has_taken] += 1,
            None => n_refused[has_taken] += 1,
        }
    }
    let are_enough = |[n_free, n_taken]: [u64; 2]| n_free > 50 && n_taken > 10;
    assert!(
        are_enough(n_satisfiable) && are_enough(n_refused),
        "without and with a claim that has a device: {n_satisfiable:?} satisfiable, {n_refused:?} not"
    );
}

#[test]
fn the_order_of_arrival_decides_nothing_about_other_devices() {
    let n_arrivals = number("KUBE_SCHEDULER_ARRIVALS", N_ARRIVALS);
    for seed in 0..number("KUBE_SCHEDULER_GANGS", N_GANGS / 3) {
        for case in [Case::tight(seed), Case::alike(seed)] {
            let mut numbers = Numbers::new(seed);
            let expected = decide_devices(case.inputs());
            for _ in 0..n_arrivals {
                let arrived = decide_devices(shuffled(case.inputs(), &mut numbers));
                assert_eq!(arrived, expected, "seed {seed}: in another order: {case:#?}");
            }
        }
    }
}

/// Devices with two attributes, and for each member a claim for two devices that agree in one of them.
fn aligned_in(devices: &[(&str, &str)], attributes: &[&str]) -> Vec<Input> {
    let members = vec![1; attributes.len()];
    let mut inputs = gang(&[8], &members).inputs();
    inputs.retain(|input| !matches!(input, Input::PodApplied(_)));
    inputs.push(object_applied(
        json!({"apiVersion": DEVICES, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}),
    ));
    let devices = devices.iter().enumerate().map(|(at, (a, b))| {
        json!({"name": format!("d{at}"), "attributes": {"a": {"string": a}, "b": {"string": b}}})
    });
    let devices: Vec<Value> = devices.collect();
    inputs.push(devices_applied("n0", &devices));
    for (at, attribute) in attributes.iter().enumerate() {
        let name = format!("m{at}");
        let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2});
        let constraint = json!({"matchAttribute": format!("{DRIVER}/{attribute}")});
        inputs.push(object_applied(json!({
            "apiVersion": DEVICES, "kind": "ResourceClaim", "metadata": {"namespace": "x", "name": name, "uid": name},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}], "constraints": [constraint]}},
            "status": {},
        })));
        let mut pod = member(1).json(&name, None, Some("g"));
        pod["spec"]["resourceClaims"] = json!([{"name": "own", "resourceClaimName": name}]);
        inputs.push(pod_applied(&pod));
    }
    inputs
}

/// Whichever of two members is first, the devices that are found first for it leave none for the other; other devices do.
#[test]
fn other_devices_are_tried_where_no_order_of_members_helps() {
    let devices = [("x", "x"), ("x", "y"), ("y", "x"), ("y", "z"), ("z", "y")];
    let decision = decide(aligned_in(&devices, &["a", "b"]), exact());
    assert_eq!(decision.placed.len(), 2, "{:#?}", decision.effects);
    // With one device less there is no way, whichever devices are taken.
    let decision = decide(aligned_in(&devices[..4], &["a", "b"]), exact());
    assert_eq!(decision.placed, [], "{:#?}", decision.effects);
    assert!(says(&decision, "no way to place 2 pods, in any order"), "{:#?}", decision.effects);
    assert!(!says(&decision, "found first"), "{:#?}", decision.effects);
}

/// That no claim looks at the only thing in which devices differ is noticed: there are too many ways to try all.
#[test]
fn devices_that_no_claim_tells_apart_are_tried_once() {
    let serials: Vec<String> = (0..15).map(|at| at.to_string()).collect();
    let mut devices: Vec<(&str, &str)> = serials.iter().map(|serial| ("x", &**serial)).collect();
    let decision = decide(aligned_in(&devices, &["a"; 7]), exact());
    assert_eq!(decision.placed.len(), 7, "{:#?}", decision.effects);
    // There are 14 devices, and one of them agrees with no other.
    devices[13].0 = "y";
    let decision = decide(aligned_in(&devices[..14], &["a"; 7]), exact());
    assert_eq!(decision.placed, [], "{:#?}", decision.effects);
    assert!(says(&decision, "no way to place 7 pods, in any order"), "{:#?}", decision.effects);
}

/// Nodes with so many CPUs and devices.
fn nodes_with_devices(sizes: &[(u64, usize)]) -> Vec<Input> {
    let cpus: Vec<u64> = sizes.iter().map(|(cpu, _)| *cpu).collect();
    let mut inputs = gang(&cpus, &[]).inputs();
    inputs.retain(|input| matches!(input, Input::NodeApplied(_)));
    inputs.push(object_applied(
        json!({"apiVersion": DEVICES, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}),
    ));
    for (node, (_, n_devices)) in sizes.iter().enumerate() {
        let name = format!("n{node}");
        let devices: Vec<Value> =
            (0..*n_devices).map(|at| json!({"name": format!("d{at}")})).collect();
        inputs.push(devices_applied(&name, &devices));
    }
    inputs
}

/// `n` pods that need one CPU each, and one device by a claim that was made from a template. If `without_device` is given, one more
/// pod needs that many CPUs and no device; it is the last one by name.
fn trainers(n: usize, without_device: Option<u64>, min_count: usize) -> Vec<Input> {
    let mut inputs = trainers_with(n, 1, min_count);
    let last = without_device.map(|cpu| member(cpu).json("m99", None, Some("g")));
    inputs.extend(last.map(|pod| pod_applied(&pod)));
    inputs
}

/// `n` pods that need one CPU each, and `n_devices` devices by a claim that was made from a template.
fn trainers_with(n: usize, n_devices: u64, min_count: usize) -> Vec<Input> {
    let policy = json!({"gang": {"minCount": min_count}});
    let mut inputs = vec![object_applied(pod_group("g", json!({"schedulingPolicy": policy})))];
    for at in 0..n {
        let name = format!("m{at}");
        let mut pod = member(1).json(&name, None, Some("g"));
        let exactly =
            json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": n_devices});
        let mut claim = json!({
            "apiVersion": DEVICES, "kind": "ResourceClaim", "metadata": {"namespace": "x", "name": name, "uid": name},
            "spec": {"devices": {"requests": [{"name": "r0", "exactly": exactly}]}}, "status": {},
        });
        generate(&mut claim, &mut pod);
        pod["spec"]["resourceClaims"] =
            json!([{"name": "own", "resourceClaimTemplateName": "own"}]);
        inputs.push(object_applied(claim));
        inputs.push(pod_applied(&pod));
    }
    inputs
}

/// With a tenth of the usual work: it does not matter which of the pods goes where.
#[test]
fn a_gang_of_equal_pods_with_a_device_each_takes_little_work() {
    let work = WorkLimits { base: 200_000, per_node: 0, refill_per_second: 0 };
    let inputs_on = |nodes: &[(u64, usize)], n: usize, without_device: Option<u64>| {
        let mut inputs = nodes_with_devices(nodes);
        let min_count = n + usize::from(without_device.is_some());
        inputs.extend(trainers(n, without_device, min_count));
        inputs
    };
    let inputs = |n, without_device| inputs_on(&[(16, 8), (16, 8)], n, without_device);
    let decision = decide(inputs(16, None), with_limits(&[], true, work));
    assert_eq!(decision.placed.len(), 16, "{decision:#?}");
    // There are devices for all, but not where the CPUs are.
    let decision = decide(inputs_on(&[(8, 9), (16, 8)], 17, None), with_limits(&[], true, work));
    let text = "cluster: no way to place 17 pods, in any order";
    assert!(says(&decision, text), "{decision:#?}");
    for text in ["ended at its limit", "found first"] {
        assert!(!says(&decision, text), "{decision:#?}");
    }
    // Only if eight of the others are on one node there is room for the last one on the other.
    let greedy = decide(inputs(12, Some(12)), engine(true, false, WorkLimits::default()));
    assert_eq!(greedy.placed, [], "{greedy:#?}");
    let decision = decide(inputs(12, Some(12)), with_limits(&[], true, work));
    assert_eq!(decision.placed.len(), 13, "{decision:#?}");
}

/// With a tenth of the usual work: however many nodes are full, it is counted how many devices are missing.
#[test]
fn a_gang_that_needs_one_device_more_than_there_are_is_refused_at_once() {
    let work = WorkLimits { base: 200_000, per_node: 0, refill_per_second: 0 };
    let short = |text: &str| Some(format!("cluster: devices for requests of class gpu: {text}"));
    for (of_node, of_pod, n_pods, reason) in [
        (8, 1, 80, None),
        (8, 1, 81, short("81 needed, 80 free")),
        (8, 4, 20, None),
        (8, 4, 21, short("84 needed, 80 free")),
        // What each node has beside four is of no use.
        (7, 4, 10, None),
        (7, 4, 11, short("room for at most 10 of 11 pods")),
    ] {
        let mut inputs = nodes_with_devices(&[(16, of_node); 10]);
        inputs.extend(trainers_with(n_pods, of_pod, n_pods));
        let Some(reason) = reason else {
            let decision = decide(inputs, exact());
            assert_eq!(decision.placed.len(), n_pods, "{:#?}", decision.effects);
            continue;
        };
        let decision = decide(inputs, with_limits(&[], true, work));
        assert!(says(&decision, &reason), "{reason}: {:#?}", decision.effects);
        assert!(!says(&decision, "ended at its limit"), "{:#?}", decision.effects);
    }
}

/// The claim of the first member has a device of a node that is gone, so that this one goes nowhere; the second asks for the same.
#[test]
fn a_member_whose_claim_has_a_device_is_like_no_other() {
    let mut inputs = nodes_with_devices(&[(2, 1), (1, 1)]);
    inputs.extend(trainers(2, Some(2), 2));
    let decision = decide(inputs.clone(), exact());
    assert_eq!(decision.placed.len(), 2, "two of three fit: {decision:#?}");
    let result = json!({"request": "r0", "driver": DRIVER, "pool": "n9", "device": "d0"});
    let allocation = json!({"devices": {"results": [result]}, "nodeSelector": reach(Some(9), 0)});
    for input in &mut inputs {
        if let Input::ObjectApplied(object) = input
            && *object.name == *"m0"
        {
            let status = json!({"allocation": allocation});
            Arc::make_mut(object).set_field(&["status"], status.into());
        }
    }
    let greedy = decide(inputs.clone(), engine(true, false, WorkLimits::default()));
    assert_eq!(greedy.placed, [], "{greedy:#?}");
    let decision = decide(inputs, exact());
    let places: BTreeMap<usize, usize> = decision.placed.iter().copied().collect();
    assert_eq!(places, BTreeMap::from([(1, 1), (99, 0)]), "{decision:#?}");
}
