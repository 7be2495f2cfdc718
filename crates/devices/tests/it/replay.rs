//! One recorded scenario.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::validation::FieldPath;
use kube_scheduler_api_types::{
    Labels, NodeResourceClaim, NodeSelector, Quantity, Timestamp, is_dra_extended_resource,
};
use kube_scheduler_devices::api::{
    DeviceClass, DeviceTaintRule, Request, ResourceClaim, ResourceSlice,
};
use kube_scheduler_devices::{
    AllocationError, Allocator, CelSelectors, ContainerDemand, ExtendedClaim, ExtendedResources,
    Features, Inventory, NodeRef, NodeResourceError, PodClaims, Readiness, SelectorTable, Steps,
    Usage,
};
use serde_json::{Value, json};

/// Step limit; the reference's time-out never strikes in the recordings.
const MAX_STEPS: u64 = 1_000_000;

/// What was compared.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) n_steps: usize,
    pub(crate) n_nodes: usize,
    pub(crate) n_allocations: usize,
    pub(crate) differences: Vec<String>,
}

type Objects = BTreeMap<String, Value>;

/// The outcome on one node.
#[derive(Default)]
struct Answer {
    verdict: String,
    /// The allocations, as they are recorded.
    forms: Vec<Value>,
    node_resources: Vec<Value>,
    score: i64,
}

impl Answer {
    fn compare_forms(self, label: &str, expect: &Value, tally: &mut Tally) {
        let got = Value::Array(self.forms);
        let wanted = without_share_ids(&expect["allocations"]);
        if got != wanted {
            tally.differences.push(format!("{label}: {got}\nrecorded {wanted}"));
        }
        if expect["outcome"] == "BindFailed" {
            return;
        }
        let got = Value::Array(self.node_resources);
        let wanted = match &expect["nodeAllocatable"] {
            Value::Null => json!([]),
            recorded => recorded.clone(),
        };
        if got != wanted {
            tally.differences.push(format!("{label}: resources {got}, recorded are {wanted}"));
        }
    }
}

struct Node {
    labels: Labels,
    allocatable: Value,
}

pub(crate) struct Replay {
    features: Features,
    has_taint_rules: bool,
    selectors: CelSelectors,
    has_extended_resources: bool,
    has_node_resources: bool,
    binding_timeout: Duration,
    weight: i64,
    nodes: BTreeMap<String, Node>,
    extended: ExtendedResources,
    slices: Objects,
    classes: Objects,
    claims: Objects,
    rules: Objects,
    /// Allocations under way, by claim.
    in_flight: Objects,
    /// What allocated claims hold, followed change by change.
    usage: Usage,
}

impl Replay {
    pub(crate) fn run(case: &Value, tally: &mut Tally) {
        let gate = |name: &str| case["featureGates"][name].as_bool();
        let is_on = |name: &str| gate(name).unwrap_or(true);
        let features = Features {
            admin_access: true,
            prioritized_list: is_on("DRAPrioritizedList"),
            partitionable_devices: is_on("DRAPartitionableDevices"),
            device_taints: is_on("DRADeviceTaints"),
            consumable_capacity: is_on("DRAConsumableCapacity"),
            binding_conditions: is_on("DRADeviceBindingConditions"),
        };
        let cluster = &case["cluster"];
        let objects = |kind: &str| -> Objects {
            let all = cluster[kind].as_array().into_iter().flatten();
            all.map(|object| (key(object), object.clone())).collect()
        };
        let nodes = objects("nodes");
        let profile = &case["config"]["profiles"][0];
        let timeout = &profile["pluginConfig"][0]["args"]["bindingTimeout"];
        let new_node = |node: &Value| {
            let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
            let labels = labels.map(|(key, value)| (&**key, value.as_str().unwrap())).collect();
            Node { labels, allocatable: node["status"]["allocatable"].clone() }
        };
        let mut replay = Self {
            features,
            has_taint_rules: gate("DRADeviceTaintRules").unwrap_or(false),
            selectors: CelSelectors::new(gate("DRAListTypeAttributes").unwrap_or(false)),
            has_extended_resources: is_on("DRAExtendedResource"),
            has_node_resources: gate("DRANodeAllocatableResources").unwrap_or(false),
            binding_timeout: Duration::from_secs(if timeout == "1s" { 1 } else { 600 }),
            weight: profile["plugins"]["multiPoint"]["enabled"][0]["weight"].as_i64().unwrap_or(2),
            nodes: nodes.iter().map(|(name, node)| (name.clone(), new_node(node))).collect(),
            extended: ExtendedResources::default(),
            slices: objects("resourceSlices"),
            classes: Objects::new(),
            claims: Objects::new(),
            rules: objects("deviceTaintRules"),
            in_flight: Objects::new(),
            usage: Usage::default(),
        };
        for class in cluster["deviceClasses"].as_array().into_iter().flatten() {
            replay.set_class(&key(class), Some(class.clone()));
        }
        for claim in cluster["resourceClaims"].as_array().into_iter().flatten() {
            replay.set_claim(&key(claim), Some(claim.clone()));
        }
        let diverges = case["divergesFromStep"].as_u64().unwrap_or(u64::MAX);
        for (at, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            if at as u64 >= diverges {
                return;
            }
            replay.change(&step["changes"]);
            let label = format!("{} step {at}", case["name"].as_str().unwrap());
            replay.compare(&label, step, tally);
            replay.follow(step);
        }
    }

    fn change(&mut self, changes: &Value) {
        for change in changes.as_array().into_iter().flatten() {
            let object = &change["object"];
            let new = (change["op"] != "delete").then(|| object.clone());
            let objects = match change["kind"].as_str().unwrap() {
                "ResourceClaim" => {
                    self.set_claim(&key(object), new);
                    continue;
                }
                "ResourceSlice" => &mut self.slices,
                "DeviceClass" => {
                    self.set_class(&key(object), new);
                    continue;
                }
                "DeviceTaintRule" => &mut self.rules,
                other => panic!("unknown kind {other}"),
            };
            match new {
                None => objects.remove(&key(object)),
                Some(new) => objects.insert(key(object), new),
            };
        }
    }

    fn set_class(&mut self, key: &str, new: Option<Value>) {
        let class =
            |class: &Value| Arc::new(DeviceClass::from_json(&class.clone().into()).unwrap());
        let old = self.classes.get(key).map(class);
        match (&old, new) {
            (old, Some(new)) => {
                self.extended.apply(old.as_deref(), &class(&new));
                self.classes.insert(key.to_owned(), new);
            }
            (Some(old), None) => {
                self.extended.remove(old);
                self.classes.remove(key);
            }
            (None, None) => {}
        }
    }

    /// Changes a claim, or removes it. Only a claim that becomes allocated or ceases to be changes what is in use.
    fn set_claim(&mut self, key: &str, new: Option<Value>) {
        let allocation = |claim: &Value| {
            ResourceClaim::from_json(&claim.clone().into()).unwrap().status.allocation
        };
        let before = self.claims.get(key).and_then(allocation);
        let after = new.as_ref().and_then(allocation);
        match (&before, &after) {
            (None, Some(after)) => self.usage.add(after, self.features),
            (Some(before), None) => self.usage.remove(before, self.features),
            _ => {}
        }
        match new {
            Some(new) => self.claims.insert(key.to_owned(), new),
            None => self.claims.remove(key),
        };
    }

    fn compare(&mut self, label: &str, step: &Value, tally: &mut Tally) {
        let expect = &step["expect"];
        let Some(claims) = self.claims_of(step) else { return };
        let allocator = self.allocator();
        tally.n_steps += 1;
        let mut under_way = Vec::new();
        let mut scores = BTreeMap::new();
        for name in self.nodes.keys() {
            let rejection = &expect["filter"][name];
            let reason = rejection["reasons"][0].as_str();
            let mut feasible = expect["feasible"].as_array().into_iter().flatten();
            // Other plugins may have ruled the node out.
            let is_ours = match reason {
                Some(_) => rejection["plugin"] == "DynamicResources",
                None => feasible.any(|feasible| *feasible == **name),
            };
            if !is_ours {
                continue;
            }
            let answer = self.ask(step, name, &claims, &allocator);
            let wanted = reason.unwrap_or("found");
            if is_other_check(wanted) {
                continue;
            }
            if !is_same_text(&answer.verdict, wanted) {
                let got = answer.verdict;
                tally.differences.push(format!("{label} node {name}: {got}, recorded is {wanted}"));
                continue;
            }
            tally.n_nodes += 1;
            scores.insert(name.clone(), answer.score);
            // Where binding failed the node is left out; it was the first of the best ones.
            let is_chosen = expect["node"] == **name
                || (expect["outcome"] == "BindFailed" && expect["best"][0] == **name);
            if is_chosen && !answer.forms.is_empty() {
                tally.n_allocations += 1;
                // The oldest recordings say no more than where the pod went.
                if expect["allocations"].is_null() {
                    under_way = answer.forms;
                    continue;
                }
                answer.compare_forms(label, expect, tally);
            }
        }
        self.compare_scores(label, expect, &scores, tally);
        self.put_in_flight(step, &under_way);
    }

    /// What the allocator and what belongs to it say about a node.
    fn ask(
        &self,
        step: &Value,
        name: &str,
        claims: &[ResourceClaim],
        allocator: &Allocator,
    ) -> Answer {
        let node = &self.nodes[name];
        let is_open = |claim: &&ResourceClaim| claim.status.allocation.is_none();
        let mut open: Vec<ResourceClaim> = claims.iter().filter(is_open).cloned().collect();
        let special = match self.extended_claim_left(&step["pod"]) {
            Some(_) => None,
            None => self.extended_claim(&step["pod"], node),
        };
        open.extend(special.as_ref().map(|special| ResourceClaim {
            name: "<extended-resources>".into(),
            requests: special.requests.clone(),
            ..ResourceClaim::default()
        }));
        let mut answer = Answer::default();
        let mut n_shares = 0;
        let node_ref = NodeRef { name, labels: &node.labels };
        let open = PodClaims::new(open.into_iter().map(Arc::new));
        let found = match open.as_slice() {
            [] => Ok(Some(Vec::new())),
            _ => allocator.allocate(node_ref, &open, &Steps::new(MAX_STEPS), &mut || {
                n_shares += 1;
                format!("share {n_shares}").into()
            }),
        };
        let fatal = |error: &dyn std::fmt::Display| {
            format!("running \"DynamicResources\" filter plugin: {error}")
        };
        answer.verdict = match &found {
            Ok(Some(_)) => "found".to_owned(),
            Ok(None) => "cannot allocate all claims".to_owned(),
            Err(error @ AllocationError::Failed(_)) => fatal(error),
            Err(error) => error.to_string(),
        };
        let Ok(Some(allocations)) = found else { return answer };
        if self.has_node_resources {
            let pairs = open.as_slice().iter().map(|claim| &**claim).zip(&allocations);
            let containers = |claim: &str| containers_using(&step["pod"], claim);
            match allocator.inventory().node_resources(pairs, containers) {
                Ok(resources) => {
                    answer.node_resources = resources.iter().map(resource_form).collect()
                }
                Err(error @ NodeResourceError::Unreferenced(_)) => {
                    answer.verdict = error.to_string()
                }
                Err(error) => answer.verdict = fatal(&error),
            }
        }
        // The recordings look at a claim that was left only beside other claims.
        let left = self.extended_claim_left(&step["pod"]).filter(|_| !claims.is_empty());
        let mut used = claims.iter().chain(&left);
        if answer.verdict == "found" && !used.all(|claim| self.is_available(claim, node_ref)) {
            answer.verdict = "resourceclaim not available on the node".to_owned();
        }
        let mut fresh = allocations.iter();
        if !allocations.is_empty() && self.features.prioritized_list {
            for claim in claims {
                let stored = claim.status.allocation.as_ref();
                let allocation = stored.or_else(|| fresh.next());
                answer.score += claim.priority_score(allocation.unwrap());
            }
        }
        answer.forms = open
            .as_slice()
            .iter()
            .zip(&allocations)
            .map(|(claim, a)| recorded_form(claim, a))
            .collect();
        if let (Some(special), Some(last)) = (&special, answer.forms.last_mut()) {
            add_extended(special, last);
        }
        answer
    }

    /// Whether an allocated claim can be used on a node; others can.
    fn is_available(&self, claim: &ResourceClaim, node: NodeRef<'_>) -> bool {
        let Some(allocation) = &claim.status.allocation else { return true };
        let is_reached = allocation.node_selector.as_ref().is_none_or(|selector| {
            let selector = NodeSelector::compile_strict(selector, &FieldPath::root()).unwrap();
            selector.matches(node.labels, node.name)
        });
        let now = Timestamp::parse("2026-06-01T00:00:00Z").unwrap();
        let is_ready = !self.features.binding_conditions
            || match claim.readiness() {
                Readiness::Ready => true,
                Readiness::NotReady => !claim.is_binding_overdue(self.binding_timeout, now),
                Readiness::Failed(_) => false,
            };
        is_reached && is_ready
    }

    /// Scores go to 100 for the best node, times the plugin's weight.
    fn compare_scores(
        &self,
        label: &str,
        expect: &Value,
        scores: &BTreeMap<String, i64>,
        tally: &mut Tally,
    ) {
        let Some(recorded) = expect["scores"].as_object() else { return };
        let best = recorded.keys().filter_map(|name| scores.get(name)).max().copied().unwrap_or(0);
        for (name, recorded) in recorded {
            let Some(score) = scores.get(name) else { return };
            let score = if best == 0 { 0 } else { self.weight * (100 * score / best) };
            if recorded["plugins"]["DynamicResources"] != score {
                let recorded = &recorded["plugins"]["DynamicResources"];
                tally
                    .differences
                    .push(format!("{label} node {name}: score {score}, recorded is {recorded}"));
            }
        }
    }

    /// The allocated claim for the pod's extended resources that an earlier attempt has left, if any.
    fn extended_claim_left(&self, pod: &Value) -> Option<ResourceClaim> {
        let is_left = |claim: &Value| {
            let metadata = &claim["metadata"];
            metadata["annotations"]["resource.kubernetes.io/extended-resource-claim"] == "true"
                && metadata["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
                && claim["status"]["allocation"].is_object()
        };
        let left = self.claims.values().find(|claim| is_left(claim))?;
        Some(ResourceClaim::from_json(&left.clone().into()).unwrap())
    }

    /// What the pod needs of resources that only classes provide on the node; absent if it requests none that classes
    /// provide.
    fn extended_claim(&self, pod: &Value, node: &Node) -> Option<ExtendedClaim> {
        let containers = containers(pod);
        let mut names: Vec<&Arc<str>> =
            containers.iter().flat_map(|c| &c.requests).map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        let is_zero = |name: &str| {
            node.allocatable[name]
                .as_str()
                .is_none_or(|amount| Quantity::parse(amount).unwrap().is_zero())
        };
        let is_served = |name: &&Arc<str>| is_dra_extended_resource(name) && is_zero(name);
        let served: Vec<_> = names
            .into_iter()
            .filter(is_served)
            .filter_map(|name| Some((name, &**self.extended.class(name)?)))
            .collect();
        let claim = ExtendedClaim::new(&containers, served);
        (self.has_extended_resources && !claim.requests.is_empty()).then_some(claim)
    }

    /// The pod's claims, unless the step ends before they matter.
    fn claims_of(&self, step: &Value) -> Option<Vec<ResourceClaim>> {
        let expect = &step["expect"];
        let mut rejections = expect["filter"].as_object().into_iter().flatten();
        let has_errors = rejections.any(|(_, rejection)| rejection["code"] == "Error");
        // The oldest recordings do not say where an error came from.
        let is_unclear = expect["outcome"] == "Error" && !has_errors;
        if expect["preFilter"]["code"] != "Success" || is_unclear {
            return None;
        }
        let keys = claim_keys(&step["pod"]);
        let mut claims = Vec::new();
        for key in keys {
            claims.push(ResourceClaim::from_json(&self.claims.get(&key)?.clone().into()).unwrap());
        }
        Some(claims)
    }

    fn allocator(&self) -> Allocator {
        let classes: Vec<DeviceClass> = self
            .classes
            .values()
            .map(|class| DeviceClass::from_json(&class.clone().into()).unwrap())
            .collect();
        let rules: Vec<DeviceTaintRule> = self
            .rules
            .values()
            .map(|rule| DeviceTaintRule::from_json(&rule.clone().into()).unwrap())
            .collect();
        let rules = if self.has_taint_rules { &rules[..] } else { &[] };
        let slices = self.slices.values().map(|slice| {
            Arc::new(ResourceSlice::from_json(&slice.clone().into()).unwrap()).with_rules(rules)
        });
        let inventory = Arc::new(Inventory::new(slices, self.features));
        let mut usage = self.usage.clone();
        for claim in self.in_flight.values() {
            if let Some(allocation) =
                ResourceClaim::from_json(&claim.clone().into()).unwrap().status.allocation
            {
                usage.add(&allocation, self.features);
            }
        }
        let classes =
            classes.into_iter().map(|class| (class.name.clone(), Arc::new(class))).collect();
        let table = SelectorTable::new(inventory);
        Allocator::new(table, &usage, classes, Arc::new(self.selectors))
    }

    fn put_in_flight(&mut self, step: &Value, allocations: &[Value]) {
        let metadata = &step["pod"]["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap();
        for allocation in allocations {
            let name = allocation["claim"].as_str().unwrap();
            let mut key = format!("{namespace}/{name}");
            if name.starts_with('<') {
                key.push_str(metadata["uid"].as_str().unwrap());
            }
            let status = json!({"allocation": {"devices": {"results": allocation["devices"]},
                                               "nodeSelector": allocation["nodeSelector"]}});
            let claim = json!({"metadata": {"name": name}, "status": status});
            // Of a claim that a pod names twice the first allocation counts.
            self.in_flight.entry(key).or_insert(claim);
        }
    }

    /// Brings claims to where the recording goes on.
    fn follow(&mut self, step: &Value) {
        let expect = &step["expect"];
        let namespace = step["pod"]["metadata"]["namespace"].as_str().unwrap();
        if step["then"].is_null()
            && let Some(allocations) = expect["allocations"].as_array()
        {
            self.put_in_flight(step, allocations);
        }
        if expect["bind"].is_object() {
            self.change(&step["meanwhile"]);
        }
        for (name, after) in expect["claimAfter"].as_object().into_iter().flatten() {
            let claim_key = format!("{namespace}/{name}");
            if after["absent"] == true {
                self.set_claim(&claim_key, None);
                continue;
            }
            let known = self.claims.get(&claim_key).cloned();
            let mut object = known.unwrap_or_else(|| {
                json!({"metadata": {"name": name, "namespace": namespace},
                       "spec": {"devices": {"requests": after["requests"]}}})
            });
            object["status"] = after["status"].clone();
            self.set_claim(&claim_key, Some(object));
        }
        if let Some([only]) = expect["deallocations"].as_array().map(Vec::as_slice) {
            let claim_key = only.as_str().unwrap();
            let mut claim = self.claims[claim_key].clone();
            claim["status"] = json!({});
            self.set_claim(claim_key, Some(claim));
        }
        for deleted in expect["deletions"].as_array().into_iter().flatten() {
            self.set_claim(deleted.as_str().unwrap(), None);
        }
    }
}

/// `namespace/name`, or the name alone.
fn key(object: &Value) -> String {
    let metadata = &object["metadata"];
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{}", metadata["name"].as_str().unwrap()),
        None => metadata["name"].as_str().unwrap().to_owned(),
    }
}

/// The containers of a pod, init containers first.
fn containers(pod: &Value) -> Vec<ContainerDemand> {
    let demand = |container: &Value, is_init: bool| {
        let requests = container["resources"]["requests"].as_object().into_iter().flatten();
        let mut requests: Vec<(Arc<str>, Option<i64>)> = requests
            .map(|(name, amount)| {
                let amount = Quantity::from_json(amount).unwrap();
                (name.as_str().into(), amount.checked_value())
            })
            .collect();
        requests.sort();
        ContainerDemand {
            name: container["name"].as_str().unwrap().into(),
            is_short_lived: is_init && container["restartPolicy"] != "Always",
            requests,
        }
    };
    let all = |field: &str| pod["spec"][field].as_array().cloned().unwrap_or_default();
    let init = all("initContainers");
    let regular = all("containers");
    init.iter().map(|c| demand(c, true)).chain(regular.iter().map(|c| demand(c, false))).collect()
}

/// The containers that use a claim, once for every way in which they do.
fn containers_using(pod: &Value, claim: &str) -> Arc<[Arc<str>]> {
    let keys = claim_keys(pod);
    let names = keys.iter().map(|key| key.rsplit('/').next().unwrap());
    let entries = pod["spec"]["resourceClaims"].as_array().unwrap();
    let entries: Vec<&Value> = entries
        .iter()
        .zip(names)
        .filter(|(_, name)| *name == claim)
        .map(|(entry, _)| &entry["name"])
        .collect();
    let all = |field: &str| pod["spec"][field].as_array().cloned().unwrap_or_default();
    let mut found: Vec<Arc<str>> = Vec::new();
    for container in all("initContainers").iter().chain(&all("containers")) {
        for used in container["resources"]["claims"].as_array().into_iter().flatten() {
            if entries.contains(&&used["name"]) {
                found.push(container["name"].as_str().unwrap().into());
            }
        }
    }
    found.into()
}

fn resource_form(claim: &NodeResourceClaim) -> Value {
    let resources = claim.resources.iter();
    let resources = resources.map(|(name, amount)| (name.to_string(), json!(amount.canonical())));
    json!({"resourceClaimName": *claim.claim,
           "containers": claim.containers.iter().map(|name| &**name).collect::<Vec<_>>(),
           "resources": Value::Object(resources.collect())})
}

fn add_extended(special: &ExtendedClaim, form: &mut Value) {
    let requests = special.requests.iter().map(|request| {
        let Request::Exactly(exact) = &request.request else { panic!("not exact") };
        json!({"name": *request.name, "exactly": {
            "allocationMode": exact.allocation_mode.as_str(), "count": exact.count,
            "deviceClassName": *exact.device_class_name,
        }})
    });
    form["requests"] = requests.collect();
    let mappings = special.mappings.iter().map(|mapping| {
        json!({"containerName": *mapping.container_name, "resourceName": *mapping.resource_name,
               "requestName": *mapping.request_name})
    });
    form["mappings"] = mappings.collect();
}

fn claim_keys(pod: &Value) -> Vec<String> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap();
    let claims = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
    let names = claims.filter_map(|claim| match claim["resourceClaimName"].as_str() {
        Some(name) => Some(name),
        None => {
            let statuses = pod["status"]["resourceClaimStatuses"].as_array().into_iter().flatten();
            let mut statuses = statuses.filter(|status| status["name"] == claim["name"]);
            statuses.next()?["resourceClaimName"].as_str()
        }
    });
    names.map(|name| format!("{namespace}/{name}")).collect()
}

/// Whether a node was rejected for something that is not replayed here.
fn is_other_check(reason: &str) -> bool {
    const STARTS: [&str; 5] = [
        "node allocatable resource claim",
        "Insufficient",
        "pod level request",
        "cannot schedule extended",
        "cannot fit resource",
    ];
    STARTS.iter().any(|start| reason.starts_with(start))
}

/// What follows `compilation failed:` is free.
fn is_same_text(a: &str, b: &str) -> bool {
    let cut = |text: &str| text.split("compilation failed:").next().unwrap().to_owned();
    cut(a) == cut(b)
}

fn recorded_form(
    claim: &ResourceClaim,
    allocation: &kube_scheduler_devices::api::Allocation,
) -> Value {
    let json = allocation.to_json();
    let mut form = json!({"claim": *claim.name});
    let devices = &json["devices"];
    form["devices"] = devices["results"].clone();
    let parts = [("config", &devices["config"]), ("nodeSelector", &json["nodeSelector"])];
    for (name, part) in parts {
        if !part.is_null() {
            form[name] = part.clone();
        }
    }
    without_share_ids(&json!([form]))[0].clone()
}

fn without_share_ids(allocations: &Value) -> Value {
    let mut allocations = allocations.clone();
    for allocation in allocations.as_array_mut().unwrap() {
        for device in allocation["devices"].as_array_mut().into_iter().flatten() {
            if device["shareID"].is_string() {
                device["shareID"] = json!("some");
            }
        }
        // An empty list and an absent one are the same here.
        if allocation["devices"].is_null() {
            allocation["devices"] = json!([]);
        }
    }
    allocations
}
