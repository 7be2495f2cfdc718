//! Inputs of a tenant, as short descriptions that can be changed a little: which parts there are, and how much of each.
//!
//! Invariant: what comes out passes the API server's validation as far as it counts or names things (names are unique where
//! they have to be, lists are no longer than it allows), so that a finding is one that a tenant can cause.

use kube_scheduler_api_types::numbers::Numbers;
use serde_json::{Map, Value, json};

/// The most of anything in one part.
const MAX_N: usize = 40_000;
/// The most texts that one selector lists: more than are kept of one.
const MAX_LISTED: usize = 2_200;
/// The most texts that all of a part list together: more are longer than any input may be.
const MAX_ALL_LISTED: usize = 300_000;
/// The most pods of one input.
const MAX_PODS: usize = 12;
/// The most parts of one input.
const MAX_GENES: usize = 8;
/// The most bytes of an expression.
const MAX_EXPRESSION: usize = 10 * 1024;
const NAMESPACE: &str = "tenant";
const KNOWN_KEYS: [&str; 2] = ["zone", "kubernetes.io/hostname"];

/// One part of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gene {
    /// Which, as a position in [`PARTS`].
    pub(super) part: usize,
    /// How many.
    pub(super) n: usize,
    /// How many texts each of them lists.
    pub(super) listed: usize,
    /// Which form of it.
    pub(super) style: usize,
}

/// What a tenant writes at once: some pods that differ by little, and objects around them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Genome {
    pub(super) n_pods: usize,
    pub(super) genes: Vec<Gene>,
}

/// An object in the making: one pod, and what comes before it.
pub(super) struct Draft {
    pod: Value,
    objects: Vec<Value>,
}

pub(super) type Part = (&'static str, fn(&mut Draft, &Gene, usize));

pub(super) const PARTS: [Part; 21] = [
    ("spread constraints", spread),
    ("pod affinity terms", pod_affinity),
    ("nodeSelector", node_selector),
    ("node affinity terms", node_affinity),
    ("tolerations", tolerations),
    ("labels", labels),
    ("annotations", annotations),
    ("resources", resources),
    ("containers", containers),
    ("host ports", ports),
    ("volumes", volumes),
    ("resource claims", resource_claims),
    ("scheduling gates", gates),
    ("owners", owners),
    ("pod group", pod_group),
    ("services", services),
    ("a replica set", replica_set),
    ("claims", claims),
    ("disruption budgets", budgets),
    ("a node of its own choice", running),
    ("priority and size", priority),
];

impl Genome {
    /// A pod with nothing to it.
    pub(super) const fn plain() -> Self {
        Self { n_pods: 1, genes: Vec::new() }
    }

    /// A pod with a claim that selects by an expression.
    pub(super) fn with_claim() -> Self {
        let part = PARTS.iter().position(|(known, _)| *known == "resource claims").unwrap_or(0);
        Self { n_pods: 1, genes: vec![Gene { part, n: 1, listed: 1, style: 28 }] }
    }

    /// One part alone, of the size that comes by chance.
    pub(super) fn of_part(part: usize, numbers: &mut Numbers) -> Self {
        let genes = vec![Gene::random(part % PARTS.len(), numbers)];
        Self { n_pods: 1 + below(numbers, 2), genes }
    }

    /// How many parts there are.
    pub(super) const N_PARTS: usize = PARTS.len();

    /// The same with a change, or with a part of `other`.
    pub(super) fn mutated(&self, other: &Self, numbers: &mut Numbers) -> Self {
        let mut changed = self.clone();
        for _ in 0..1 + below(numbers, 3) {
            let at = below(numbers, changed.genes.len());
            let has_room = changed.genes.len() < MAX_GENES;
            match (below(numbers, 9), changed.genes.get_mut(at)) {
                (0, _) => changed.n_pods = 1 + below(numbers, MAX_PODS),
                (1, _) if has_room => {
                    changed.genes.push(Gene::random(below(numbers, PARTS.len()), numbers));
                }
                (2, _) if has_room => {
                    let taken = below(numbers, other.genes.len());
                    changed.genes.extend(other.genes.get(taken).cloned());
                }
                (3, Some(_)) => drop(changed.genes.remove(at)),
                (4, Some(gene)) => gene.style = below(numbers, 64),
                (5, Some(gene)) => gene.listed = size(numbers, MAX_LISTED),
                (6, Some(gene)) => gene.n = (gene.n / 2).max(1),
                (7, Some(gene)) => gene.n = (gene.n * 2).min(MAX_N),
                (_, Some(gene)) => gene.n = size(numbers, MAX_N),
                (_, None) => {}
            }
        }
        changed
    }

    /// What it is made of, for a report.
    pub(super) fn describe(&self) -> String {
        let part = |gene: &Gene| {
            let Gene { part, n, listed, style } = gene;
            format!("{n} {} (lists {listed}, form {style})", PARTS[*part].0)
        };
        let parts: Vec<_> = self.genes.iter().map(part).collect();
        format!("{} pods with {}", self.n_pods, parts.join(", "))
    }

    /// What [`describe`](Self::describe) says of an input; `None` for any other text.
    pub(super) fn described(text: &str) -> Option<Self> {
        let (n_pods, parts) = text.split_once(" pods with ")?;
        let gene = |text: &str| {
            let (n, rest) = text.split_once(' ')?;
            let (name, rest) = rest.split_once(" (lists ")?;
            let (listed, style) = rest.strip_suffix(')')?.split_once(", form ")?;
            let part = PARTS.iter().position(|(known, _)| *known == name)?;
            let number = |text: &str| text.parse().ok();
            Some(Gene { part, n: number(n)?, listed: number(listed)?, style: number(style)? })
        };
        let parts =
            parts.split("), ").map(|part| gene(&format!("{})", part.trim_end_matches(')'))));
        Some(Self { n_pods: n_pods.parse().ok()?, genes: parts.collect::<Option<_>>()? })
    }

    /// The objects as JSON, in the order in which they come; pods last. `None` if they are longer than `max_size` together: no
    /// more is made of them then than the pod with which they are.
    pub(super) fn objects(&self, max_size: usize) -> Option<Vec<String>> {
        let (mut pods, mut objects, mut size) = (Vec::new(), Vec::new(), 0);
        for at in 0..self.n_pods {
            let name = format!("t{at}");
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"namespace": NAMESPACE, "name": name, "uid": name},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            });
            let mut draft = Draft { pod, objects: Vec::new() };
            for gene in &self.genes {
                let listed = gene.listed.min(MAX_ALL_LISTED / gene.n.max(1));
                PARTS[gene.part].1(&mut draft, &Gene { listed, ..gene.clone() }, at);
            }
            let first = objects.len();
            objects.extend(draft.objects.iter().map(Value::to_string));
            pods.push(draft.pod.to_string());
            size += objects[first..].iter().chain(pods.last()).map(String::len).sum::<usize>();
            if size > max_size {
                return None;
            }
        }
        objects.append(&mut pods);
        Some(objects)
    }
}

impl Gene {
    fn random(part: usize, numbers: &mut Numbers) -> Self {
        let (n, listed) = (size(numbers, MAX_N), size(numbers, MAX_LISTED));
        Self { part, n, listed, style: below(numbers, 64) }
    }

    /// Whether the form has this bit.
    const fn has(&self, bit: u32) -> bool {
        self.style & (1 << bit) != 0
    }

    /// A selector in one of a few forms.
    fn selector(&self, at: usize) -> Value {
        match self.style % 4 {
            0 => json!({}),
            1 => json!({"matchLabels": {"app": format!("a{at}")}}),
            2 => {
                let values = list(self.listed, |value| format!("a{}", value + at).into());
                json!({"matchExpressions": [{"key": "app", "operator": "In", "values": values}]})
            }
            _ => {
                let requirement =
                    |key: usize| json!({"key": format!("k{key}"), "operator": "DoesNotExist"});
                json!({"matchExpressions": list(self.listed, requirement)})
            }
        }
    }
}

fn below(numbers: &mut Numbers, n: usize) -> usize {
    usize::try_from(numbers.below(n as u64)).unwrap_or(0)
}

/// From 1 to `max`, small ones as likely as large ones.
fn size(numbers: &mut Numbers, max: usize) -> usize {
    let limit = 2_usize << below(numbers, max.ilog2() as usize + 1);
    (1 + below(numbers, limit)).min(max)
}

fn list(n: usize, one: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..n).map(one).collect()
}

/// Adds to a list that may not be there yet.
fn append(place: &mut Value, more: Vec<Value>) {
    match place.as_array_mut() {
        Some(known) => known.extend(more),
        None => *place = more.into(),
    }
}

/// Adds to a map that may not be there yet.
fn insert(place: &mut Value, more: impl Iterator<Item = (String, Value)>) {
    match place.as_object_mut() {
        Some(known) => known.extend(more),
        None => *place = more.collect::<Map<_, _>>().into(),
    }
}

/// Each pair of key and consequence once.
fn spread(draft: &mut Draft, gene: &Gene, pod: usize) {
    if !draft.pod["spec"]["topologySpreadConstraints"].is_null() {
        return;
    }
    let constraint = |at: usize| {
        let key = KNOWN_KEYS.get(at / 2).map(|key| (*key).to_owned());
        let own = || if gene.has(4) { format!("k{at}") } else { format!("k{pod}-{at}") };
        let consequence = if at.is_multiple_of(2) { "DoNotSchedule" } else { "ScheduleAnyway" };
        let policy = if gene.has(3) { "Honor" } else { "Ignore" };
        json!({"maxSkew": 1, "topologyKey": key.unwrap_or_else(own), "whenUnsatisfiable": consequence,
            "labelSelector": gene.selector(at), "nodeTaintsPolicy": policy})
    };
    draft.pod["spec"]["topologySpreadConstraints"] = list(gene.n, constraint).into();
}

fn pod_affinity(draft: &mut Draft, gene: &Gene, pod: usize) {
    let side = if gene.has(2) { "podAffinity" } else { "podAntiAffinity" };
    let term = |at: usize| {
        let key = match gene.has(4) {
            true => KNOWN_KEYS[at % 2].to_owned(),
            false => format!("k{pod}-{at}"),
        };
        let mut term = json!({"topologyKey": key, "labelSelector": gene.selector(at)});
        if gene.has(5) {
            term["namespaces"] = list(gene.listed, |at| format!("n{at}").into()).into();
        } else if gene.n.is_multiple_of(3) {
            term["namespaceSelector"] = gene.selector(at + 1);
        }
        term
    };
    let preferred = |at: usize| json!({"weight": 1 + at % 100, "podAffinityTerm": term(at)});
    let affinity = &mut draft.pod["spec"]["affinity"][side];
    if gene.has(3) {
        let place = &mut affinity["requiredDuringSchedulingIgnoredDuringExecution"];
        append(place, list(gene.n, term));
    } else {
        let place = &mut affinity["preferredDuringSchedulingIgnoredDuringExecution"];
        append(place, list(gene.n, preferred));
    }
}

fn node_selector(draft: &mut Draft, gene: &Gene, pod: usize) {
    let pair = |at: usize| -> (String, Value) {
        match at {
            0 if gene.has(1) => ("zone".to_owned(), "z1".into()),
            _ => (format!("k{}-{at}", if gene.has(0) { pod } else { 0 }), "x".into()),
        }
    };
    insert(&mut draft.pod["spec"]["nodeSelector"], (0..gene.n).map(pair));
}

fn node_affinity(draft: &mut Draft, gene: &Gene, pod: usize) {
    let values = || match gene.has(2) {
        true => Value::from(list(gene.listed, |at| format!("n{at}").into())),
        false => json!([format!("n{pod}")]),
    };
    let term = |at: usize| {
        let key = if gene.has(0) { KNOWN_KEYS[at % 2].to_owned() } else { format!("k{at}") };
        match gene.style % 3 {
            0 => json!({"matchExpressions": [{"key": key, "operator": "Exists"}]}),
            1 => {
                json!({"matchExpressions": [{"key": key, "operator": "NotIn", "values": values()}]})
            }
            _ => {
                let field =
                    json!({"key": "metadata.name", "operator": "In", "values": [format!("n{at}")]});
                json!({"matchFields": [field]})
            }
        }
    };
    let affinity = &mut draft.pod["spec"]["affinity"]["nodeAffinity"];
    if gene.has(3) {
        let required = &mut affinity["requiredDuringSchedulingIgnoredDuringExecution"];
        append(&mut required["nodeSelectorTerms"], list(gene.n, term));
    } else {
        let preferred = |at: usize| json!({"weight": 1 + at % 100, "preference": term(at)});
        let place = &mut affinity["preferredDuringSchedulingIgnoredDuringExecution"];
        append(place, list(gene.n, preferred));
    }
}

fn tolerations(draft: &mut Draft, gene: &Gene, pod: usize) {
    let toleration = |at: usize| match gene.style % 3 {
        0 => json!({"operator": "Exists"}),
        1 => json!({"key": format!("t{pod}-{at}"), "operator": "Exists"}),
        _ => json!({"key": "dedicated", "value": format!("t{at}"), "effect": "NoSchedule"}),
    };
    append(&mut draft.pod["spec"]["tolerations"], list(gene.n, toleration));
}

fn pairs(gene: &Gene, pod: usize) -> impl Iterator<Item = (String, Value)> {
    let own = if gene.has(0) { pod } else { 0 };
    (0..gene.n).map(move |at| (format!("l{own}-{at}"), "".into()))
}

fn labels(draft: &mut Draft, gene: &Gene, pod: usize) {
    insert(&mut draft.pod["metadata"]["labels"], pairs(gene, pod));
    draft.pod["metadata"]["labels"]["app"] = format!("a{pod}").into();
}

/// The API server allows 256 KiB of them.
fn annotations(draft: &mut Draft, gene: &Gene, pod: usize) {
    insert(&mut draft.pod["metadata"]["annotations"], pairs(gene, pod).take(20_000));
}

/// Requests for resources that are none of Kubernetes' own equal their limits.
fn resources(draft: &mut Draft, gene: &Gene, pod: usize) {
    let own = if gene.has(0) { pod } else { 0 };
    let amounts: Map<_, _> =
        (0..gene.n).map(|at| (format!("x.y/r{own}-{at}"), "1".into())).collect();
    let kind = if gene.has(1) { "initContainers" } else { "containers" };
    let container =
        json!({"name": "r", "image": "i", "resources": {"requests": amounts, "limits": amounts}});
    if draft.pod["spec"][kind]
        .as_array()
        .is_none_or(|known| known.iter().all(|it| it["name"] != "r"))
    {
        append(&mut draft.pod["spec"][kind], vec![container]);
    }
}

fn containers(draft: &mut Draft, gene: &Gene, _: usize) {
    let kind = if gene.has(0) { "initContainers" } else { "containers" };
    let container = |at: usize| {
        let mut one = json!({"name": format!("c{at}"), "image": format!("i{}", at % 7)});
        if gene.has(1) {
            one["resources"] = json!({"requests": {"cpu": "1m"}});
        }
        one
    };
    if draft.pod["spec"][kind].as_array().is_none_or(|known| known.len() < 2) {
        append(&mut draft.pod["spec"][kind], list(gene.n, container));
    }
}

fn ports(draft: &mut Draft, gene: &Gene, pod: usize) {
    let port = |at: usize| {
        let number = 1 + (pod * gene.n + at) % 65_535;
        let mut port = json!({"hostPort": number, "containerPort": number});
        if gene.has(0) {
            port["hostIP"] = format!("10.0.{}.{}", at / 250 % 250, at % 250).into();
        }
        port
    };
    draft.pod["spec"]["containers"][0]["ports"] = list(gene.n.min(65_535), port).into();
}

fn volumes(draft: &mut Draft, gene: &Gene, pod: usize) {
    let volume = |at: usize| {
        let name = format!("v{at}");
        match gene.style % 4 {
            0 => json!({"name": name, "emptyDir": {}}),
            3 => json!({"name": name, "gcePersistentDisk": {"pdName": format!("d{at}")}}),
            1 => {
                json!({"name": name, "persistentVolumeClaim": {"claimName": format!("c{pod}-{at}")}})
            }
            _ => json!({"name": name, "csi": {"driver": format!("d{at}")}}),
        }
    };
    if draft.pod["spec"]["volumes"].is_null() {
        draft.pod["spec"]["volumes"] = list(gene.n, volume).into();
    }
}

/// A claim has 32 requests at most.
fn resource_claims(draft: &mut Draft, gene: &Gene, pod: usize) {
    if !draft.pod["spec"]["resourceClaims"].is_null() {
        return;
    }
    let n = gene.n.min(2_000);
    let claim =
        |at: usize| json!({"name": format!("d{at}"), "resourceClaimName": format!("d{pod}-{at}")});
    draft.pod["spec"]["resourceClaims"] = list(n, claim).into();
    if gene.has(0) {
        return;
    }
    draft.objects.extend(list(n.min(40), |at| {
        let request = |at: usize| {
            let expression = match gene.has(1) {
                true => patterns(at, gene.n),
                false => format!("device.driver == 'd{at}'"),
            };
            let selector = json!({"cel": {"expression": expression}});
            let selectors = vec![selector; gene.listed.min(32)];
            json!({"name": format!("r{at}"), "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount",
                "count": 1, "selectors": selectors}})
        };
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"namespace": NAMESPACE, "name": format!("d{pod}-{at}"), "uid": format!("d{pod}-{at}")},
            "spec": {"devices": {"requests": list(1 + gene.style % 32, request)}}})
    }));
}

/// An expression of `n` patterns, or of as many as it may have.
fn patterns(number: usize, n: usize) -> String {
    let pattern = |at| format!("device.driver.matches(r'^{number}-{at}-\\p{{L}}{{20}}')");
    let mut expression = pattern(0);
    for pattern in (1..n).map(pattern) {
        if expression.len() + 2 + pattern.len() > MAX_EXPRESSION {
            break;
        }
        expression.push_str("||");
        expression.push_str(&pattern);
    }
    expression
}

fn gates(draft: &mut Draft, gene: &Gene, _: usize) {
    draft.pod["spec"]["schedulingGates"] =
        list(gene.n, |at| json!({"name": format!("g{at}")})).into();
}

fn owners(draft: &mut Draft, gene: &Gene, _: usize) {
    let owner = |at: usize| {
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("o{at}"), "uid": format!("o{at}"),
            "controller": at == 0})
    };
    draft.pod["metadata"]["ownerReferences"] = list(gene.n, owner).into();
}

fn pod_group(draft: &mut Draft, gene: &Gene, pod: usize) {
    draft.pod["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
    if pod > 0 {
        return;
    }
    let policy = match gene.has(0) {
        true => json!({"gang": {"minCount": 1 + gene.n % MAX_PODS}}),
        false => json!({"basic": {}}),
    };
    let constraints = gene.has(1).then(|| json!({"topology": [{"key": KNOWN_KEYS[gene.n % 2]}]}));
    draft.objects.push(json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"namespace": NAMESPACE, "name": "g", "uid": "g"},
        "spec": {"schedulingPolicy": policy, "schedulingConstraints": constraints},
    }));
}

/// Services, whose selectors count for spreading by default if they select the pod.
fn services(draft: &mut Draft, gene: &Gene, pod: usize) {
    if gene.has(1) {
        let labels = (0..gene.listed).map(|key| (format!("l{key}"), "".into()));
        insert(&mut draft.pod["metadata"]["labels"], labels);
    }
    let port = |at: usize| json!({"name": format!("p{at}"), "port": 1 + at % 65_535});
    let service = |at: usize| {
        let selector: Map<_, _> =
            (0..gene.listed).map(|key| (format!("l{key}"), "".into())).collect();
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"namespace": NAMESPACE, "name": format!("s{pod}-{at}")},
            "spec": {"selector": selector, "ports": list(if gene.has(0) { gene.n } else { 1 }, port)}})
    };
    draft.objects.extend(list(if gene.has(0) { 1 } else { gene.n.min(300) }, service));
}

/// Owns all pods; its selector counts for spreading by default, and its template for nothing.
fn replica_set(draft: &mut Draft, gene: &Gene, pod: usize) {
    draft.pod["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}]);
    if pod > 0 {
        return;
    }
    let variable = |at: usize| json!({"name": format!("E{at}"), "value": ""});
    let n_variables = if gene.has(4) { gene.n } else { 0 };
    let container = json!({"name": "c", "image": "i", "env": list(n_variables, variable)});
    draft.objects.push(json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"namespace": NAMESPACE, "name": "r", "uid": "r"},
        "spec": {"selector": gene.selector(0), "template": {"spec": {"containers": [container]}}}}));
}

fn claims(draft: &mut Draft, gene: &Gene, pod: usize) {
    let claim = |at: usize| {
        let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"namespace": NAMESPACE, "name": format!("c{pod}-{at}"), "uid": format!("c{pod}-{at}")},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "local",
                "resources": {"requests": {"storage": "1Gi"}}}});
        if gene.has(0) {
            let selector: Map<_, _> =
                (0..gene.listed).map(|key| (format!("l{key}"), "".into())).collect();
            claim["spec"]["selector"] = json!({"matchLabels": selector});
        }
        claim
    };
    draft.objects.extend(list(gene.n.min(300), claim));
}

fn budgets(draft: &mut Draft, gene: &Gene, pod: usize) {
    let budget = |at: usize| {
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"namespace": NAMESPACE, "name": format!("b{pod}-{at}")},
            "spec": {"selector": gene.selector(at)}, "status": {"disruptionsAllowed": 0}})
    };
    draft.objects.extend(list(gene.n.min(300), budget));
}

/// Names a node, one that there is or one that there is not.
fn running(draft: &mut Draft, gene: &Gene, pod: usize) {
    let node = if gene.has(0) { format!("n{}", gene.n % 50) } else { format!("gone-{pod}") };
    draft.pod["spec"]["nodeName"] = node.into();
}

/// Fits nowhere, and not without others either.
fn priority(draft: &mut Draft, gene: &Gene, _: usize) {
    draft.pod["spec"]["priority"] = 1000.into();
    let cpu = if gene.has(0) { "62" } else { "100" };
    draft.pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
}
