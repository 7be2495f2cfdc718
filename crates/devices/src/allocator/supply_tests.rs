//! What counting rules out, against a naive model that tries everything.

use kube_scheduler_api_types::Labels;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::{Case, allocator, claim_of, usage};
use super::*;
use crate::api::ResourceClaim;
use crate::state::Holder;

const DRIVER: &str = "gpu.example.com";
const STEPS: u64 = 100_000;

/// A device of a node, or of all nodes.
#[derive(Clone, Copy, Debug)]
struct Gpu {
    node: Option<usize>,
    /// Its place in [`MODELS`].
    model: usize,
    is_shareable: bool,
    is_taken: bool,
    is_tainted: bool,
}

const MODELS: [&str; 2] = ["a", "b"];

const PLAIN: Gpu =
    Gpu { node: None, model: 0, is_shareable: false, is_taken: false, is_tainted: false };

/// A number of devices, of one model if that matters.
#[derive(Clone, Copy, Debug)]
struct Want {
    count: usize,
    model: Option<usize>,
    sort: WantSort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WantSort {
    Exactly,
    /// In spite of taints.
    Tolerant,
    /// Of the first model, or else of the second one.
    EitherModel,
    Admin,
}

fn pool_of(gpu: &Gpu) -> String {
    gpu.node.map_or_else(|| "everywhere".to_owned(), |node| format!("p{node}"))
}

fn result_of(gpus: &[Gpu], at: usize) -> Value {
    json!({"request": "r", "driver": DRIVER, "pool": pool_of(&gpus[at]), "device": format!("d{at}")})
}

fn case(gpus: &[Gpu], n_nodes: usize) -> Case {
    let nodes = std::iter::once(None).chain((0..n_nodes).map(Some));
    let slices = nodes.map(|node| {
        let of_node = gpus.iter().enumerate().filter(|(_, gpu)| gpu.node == node);
        let devices = of_node.map(|(at, gpu)| {
            let model = json!({"model": {"string": MODELS[gpu.model]}});
            let mut device = json!({"name": format!("d{at}"), "attributes": model});
            if gpu.is_shareable {
                device["allowMultipleAllocations"] = json!(true);
            }
            if gpu.is_tainted {
                device["taints"] = json!([{"key": "broken", "effect": "NoSchedule"}]);
            }
            device
        });
        let devices: Vec<Value> = devices.collect();
        let pool = pool_of(&Gpu { node, ..PLAIN });
        let mut spec = json!({"driver": DRIVER, "devices": devices,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1}});
        match node {
            Some(node) => spec["nodeName"] = json!(format!("n{node}")),
            None => spec["allNodes"] = json!(true),
        }
        json!({"metadata": {"name": pool}, "spec": spec})
    });
    let taken = (0..gpus.len()).filter(|at| gpus[*at].is_taken).map(|at| result_of(gpus, at));
    Case { slices: slices.collect(), claims: Vec::new(), taken: taken.collect() }
}

fn request(want: Want, at: usize) -> Value {
    let exact = |model: Option<usize>| {
        let mut exact =
            json!({"deviceClassName": "any", "allocationMode": "ExactCount", "count": want.count});
        if let Some(model) = model {
            let text = format!("model={}", MODELS[model]);
            exact["selectors"] = json!([{"cel": {"expression": text}}]);
        }
        exact
    };
    let name = format!("r{at}");
    let mut exactly = exact(want.model);
    match want.sort {
        WantSort::Exactly => {}
        WantSort::Tolerant => exactly["tolerations"] = json!([{"operator": "Exists"}]),
        WantSort::Admin => exactly["adminAccess"] = json!(true),
        WantSort::EitherModel => {
            let (mut first, mut second) = (exact(Some(0)), exact(Some(1)));
            first["name"] = json!("x");
            second["name"] = json!("y");
            return json!({"name": name, "firstAvailable": [first, second]});
        }
    }
    json!({"name": name, "exactly": exactly})
}

fn claim(wants: &[Want]) -> ResourceClaim {
    let requests = wants.iter().enumerate().map(|(at, want)| request(*want, at));
    let requests: Vec<Value> = requests.collect();
    ResourceClaim::from_json(&claim_of(json!(requests), json!([])).into()).unwrap()
}

/// What is missing for so many of the pods.
fn shortfall(
    supply: &mut Supply,
    allocator: &Allocator,
    pods: &[Vec<Want>],
    (needed, n_nodes): (usize, usize),
) -> Option<Shortfall> {
    let mut sorts = Sorts::default();
    let mut needs_of = |wants: &Vec<Want>| sorts.needs_of([&claim(wants)]);
    let needs: Vec<Needs> = pods.iter().map(&mut needs_of).collect();
    let needs: Vec<&Needs> = needs.iter().collect();
    let labels = Labels::default();
    let names: Vec<String> = (0..n_nodes).map(|node| format!("n{node}")).collect();
    let node = |number: usize| Some(NodeRef { name: names.get(number)?, labels: &labels });
    let steps = Steps::new(STEPS);
    supply.count(allocator, &sorts, n_nodes, &node, &steps).unwrap();
    supply.shortfall(&sorts, (&needs[..], needed), &steps).unwrap()
}

fn shortfall_of(
    gpus: &[Gpu],
    pods: &[Vec<Want>],
    (needed, n_nodes): (usize, usize),
) -> Option<Shortfall> {
    let case = case(gpus, n_nodes);
    let allocator = allocator(&case, &usage(&case));
    shortfall(&mut Supply::default(), &allocator, pods, (needed, n_nodes))
}

/// One device for a request.
#[derive(Clone, Copy)]
struct Slot {
    model: Option<usize>,
    tolerates: bool,
    is_admin: bool,
}

/// The devices that a pod may ask for, by which alternatives it gets.
fn variants(wants: &[Want]) -> Vec<Vec<Slot>> {
    let mut all: Vec<Vec<Slot>> = vec![Vec::new()];
    for Want { count, model, sort } in wants {
        let models = match sort {
            WantSort::EitherModel => vec![Some(0), Some(1)],
            _ => vec![*model],
        };
        let (tolerates, is_admin) = (*sort == WantSort::Tolerant, *sort == WantSort::Admin);
        let extended = all.iter().flat_map(|slots| {
            models.iter().map(move |model| {
                let slot = Slot { model: *model, tolerates, is_admin };
                slots.iter().copied().chain(std::iter::repeat_n(slot, *count)).collect()
            })
        });
        all = extended.collect();
    }
    all
}

/// Whether the devices can be had on a node, and `then` is fine with what is in use afterwards.
fn serve(
    gpus: &[Gpu],
    (node, slots): (usize, &[Slot]),
    used: u64,
    then: &dyn Fn(u64) -> bool,
) -> bool {
    let Some((slot, rest)) = slots.split_first() else { return then(used) };
    let suits = |at: &usize| {
        let gpu = &gpus[*at];
        gpu.node.is_none_or(|of| of == node)
            && slot.model.is_none_or(|model| model == gpu.model)
            && (slot.tolerates || !gpu.is_tainted)
            && (slot.is_admin || !gpu.is_taken && used & (1 << *at) == 0)
    };
    let suitable: Vec<usize> = (0..gpus.len()).filter(suits).collect();
    // What is still there for others afterwards is as good as anything.
    if suitable.iter().any(|at| slot.is_admin || gpus[*at].is_shareable) {
        return serve(gpus, (node, rest), used, then);
    }
    suitable.iter().any(|at| serve(gpus, (node, rest), used | (1 << *at), then))
}

/// Whether so many of the pods can have their devices at once.
fn fits(gpus: &[Gpu], pods: &[Vec<Want>], (needed, n_nodes): (usize, usize), used: u64) -> bool {
    if needed == 0 || needed > pods.len() {
        return needed == 0;
    }
    let Some((pod, rest)) = pods.split_first() else { return false };
    let variants = variants(pod);
    let then = |used: u64| fits(gpus, rest, (needed - 1, n_nodes), used);
    let is_served =
        |node: usize| variants.iter().any(|slots| serve(gpus, (node, &slots[..]), used, &then));
    (0..n_nodes).any(is_served) || fits(gpus, rest, (needed, n_nodes), used)
}

const N_NODES: usize = 2;

fn any_gpu() -> impl Strategy<Value = Gpu> {
    let node = prop::option::weighted(0.7, 0..N_NODES);
    let marks = [prop::bool::weighted(0.1), prop::bool::weighted(0.2), prop::bool::weighted(0.1)];
    (node, 0..MODELS.len(), marks).prop_map(|(node, model, marks)| {
        let [is_shareable, is_taken, is_tainted] = marks;
        Gpu { node, model, is_shareable, is_taken, is_tainted }
    })
}

fn any_pod() -> impl Strategy<Value = Vec<Want>> {
    let sort = prop_oneof![
        6 => Just(WantSort::Exactly),
        1 => Just(WantSort::Tolerant),
        1 => Just(WantSort::EitherModel),
        1 => Just(WantSort::Admin),
    ];
    let want = (1..3_usize, prop::option::weighted(0.4, 0..MODELS.len()), sort)
        .prop_map(|(count, model, sort)| Want { count, model, sort });
    prop::collection::vec(want, 0..3)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_fits_is_not_ruled_out(
        gpus in prop::collection::vec(any_gpu(), 0..6),
        pods in prop::collection::vec(any_pod(), 1..5),
    ) {
        for needed in 1..=pods.len() {
            let found = shortfall_of(&gpus, &pods, (needed, N_NODES));
            let is_fitting = fits(&gpus, &pods, (needed, N_NODES), 0);
            prop_assert!(found.is_none() || !is_fitting, "{:?}", found);
        }
    }

    /// Where nothing but their number tells devices apart and each node has its own, counting tells all.
    #[test]
    fn equal_pods_on_nodes_with_equal_devices_are_counted_exactly(
        by_node in prop::collection::vec(0..4_usize, 1..4),
        count in 1..4_usize,
        n_pods in 1..5_usize,
    ) {
        let gpus = gpus(&by_node);
        let pods = pods(n_pods, count);
        let found = shortfall_of(&gpus, &pods, (n_pods, by_node.len()));
        prop_assert_eq!(found.is_none(), fits(&gpus, &pods, (n_pods, by_node.len()), 0));
    }

    #[test]
    fn what_is_followed_is_what_is_counted_anew(
        gpus in prop::collection::vec(any_gpu(), 1..6),
        pods in prop::collection::vec(any_pod(), 1..5),
        turns in prop::collection::vec((0..6_usize, any::<bool>()), 0..8),
    ) {
        let case = case(&gpus, N_NODES);
        let mut allocator = allocator(&case, &usage(&case));
        let mut followed = Supply::default();
        for (at, is_taken) in turns {
            if at < gpus.len() {
                let allocation = json!({"devices": {"results": [result_of(&gpus, at)]}});
                let holder = json!({"status": {"allocation": allocation}});
                let holder = ResourceClaim::from_json(&holder.into()).unwrap();
                let allocation = holder.status.allocation.unwrap();
                let state = Arc::make_mut(&mut allocator.state);
                if is_taken {
                    state.add(Holder::InFlight, &allocation);
                } else {
                    state.remove(Holder::InFlight, &allocation);
                }
            }
            for needed in 1..=pods.len() {
                let sizes = (needed, N_NODES);
                let anew = shortfall(&mut Supply::default(), &allocator, &pods, sizes);
                prop_assert_eq!(shortfall(&mut followed, &allocator, &pods, sizes), anew);
            }
        }
    }
}

/// The devices of some nodes, as many for each as is said in its place.
fn gpus(by_node: &[usize]) -> Vec<Gpu> {
    let of_node =
        |(node, n): (usize, &usize)| std::iter::repeat_n(Gpu { node: Some(node), ..PLAIN }, *n);
    by_node.iter().enumerate().flat_map(of_node).collect()
}

/// Pods that need so many devices each.
fn pods(n: usize, count: usize) -> Vec<Vec<Want>> {
    vec![vec![Want { count, model: None, sort: WantSort::Exactly }]; n]
}

/// What is missing for all of the pods on so many nodes.
fn lack(gpus: &[Gpu], pods: &[Vec<Want>], n_nodes: usize) -> Option<Lack> {
    shortfall_of(gpus, pods, (pods.len(), n_nodes)).map(|shortfall| shortfall.lack)
}

#[test]
fn devices_are_counted_in_sum_and_by_node() {
    let full = gpus(&[8; 10]);
    assert_eq!(lack(&full, &pods(80, 1), 10), None);
    assert_eq!(lack(&full, &pods(81, 1), 10), Some(Lack::Devices { needed: 81, free: 80 }));
    assert_eq!(lack(&full, &pods(20, 4), 10), None);
    assert_eq!(lack(&full, &pods(21, 4), 10), Some(Lack::Devices { needed: 84, free: 80 }));
    // Three devices of each node are of no use.
    let seven = gpus(&[7; 10]);
    assert_eq!(lack(&seven, &pods(10, 4), 10), None);
    assert_eq!(lack(&seven, &pods(11, 4), 10), Some(Lack::Pods { fitting: 10 }));
    assert_eq!(shortfall_of(&seven, &pods(11, 4), (10, 10)), None, "one may stay out");
    // Pods that need less have room beside, and the greater one has not.
    let different = [pods(2, 1), pods(1, 4)].concat();
    assert_eq!(lack(&gpus(&[3, 3]), &different, 2), Some(Lack::Pods { fitting: 2 }));
    assert_eq!(shortfall_of(&gpus(&[3, 3]), &different, (2, 2)), None);
    assert_eq!(lack(&gpus(&[4, 2]), &different, 2), None);
}

#[test]
fn devices_of_all_nodes_count_once_and_complete_what_nodes_have() {
    let near = |n_far: usize| [gpus(&[3, 3]), vec![PLAIN; n_far]].concat();
    assert_eq!(lack(&near(2), &pods(2, 4), 2), None);
    assert_eq!(lack(&near(1), &pods(2, 4), 2), Some(Lack::Devices { needed: 8, free: 7 }));
    assert_eq!(lack(&near(5), &pods(3, 4), 2), Some(Lack::Devices { needed: 12, free: 11 }));
    // Also with more nodes than devices are looked at from.
    assert_eq!(lack(&[PLAIN; 3], &pods(4, 1), 4), Some(Lack::Devices { needed: 4, free: 3 }));
    // One may have several users.
    let shareable = Gpu { is_shareable: true, ..PLAIN };
    assert_eq!(lack(&[vec![shareable], near(1)].concat(), &pods(9, 4), 2), None);
}

/// What is missing for so many pods that need so many devices each, on three nodes, where these are the slices of one pool.
fn lack_of_pool(slices: &[Value], (n_pods, count): (usize, usize)) -> Option<Lack> {
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": slices.len()});
    let slices = slices.iter().enumerate().map(|(at, spec)| {
        let mut spec = spec.clone();
        spec["driver"] = json!(DRIVER);
        spec["pool"] = pool.clone();
        json!({"metadata": {"name": format!("s{at}")}, "spec": spec})
    });
    let case = Case { slices: slices.collect(), claims: Vec::new(), taken: Vec::new() };
    let allocator = allocator(&case, &usage(&case));
    let pods = pods(n_pods, count);
    let found = shortfall(&mut Supply::default(), &allocator, &pods, (n_pods, 3));
    found.map(|shortfall| shortfall.lack)
}

#[test]
fn nodes_that_see_different_devices_of_a_pool_are_looked_at_one_by_one() {
    // Devices say by themselves where they can be used: one on each node, and one on all.
    let devices = json!([
        {"name": "d0", "nodeName": "n0"}, {"name": "d1", "nodeName": "n1"},
        {"name": "d2", "nodeName": "n2"}, {"name": "d3", "allNodes": true},
    ]);
    let of_devices = [json!({"perDeviceNodeSelection": true, "devices": devices})];
    assert_eq!(lack_of_pool(&of_devices, (4, 1)), None);
    let short = |needed, free| Some(Lack::Devices { needed, free });
    assert_eq!(lack_of_pool(&of_devices, (5, 1)), short(5, 4));
    assert_eq!(lack_of_pool(&of_devices, (1, 2)), None);
    assert_eq!(lack_of_pool(&of_devices, (2, 2)), Some(Lack::Pods { fitting: 1 }));
    // Slices do: two devices for the first node, and two for the last one.
    let slice = |node: &str, devices: [&str; 2]| {
        let devices = devices.map(|name| json!({"name": name}));
        let fields = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
        let selector = json!({"nodeSelectorTerms": [{"matchFields": fields}]});
        json!({"nodeSelector": selector, "devices": devices})
    };
    let of_slices = [slice("n0", ["d0", "d1"]), slice("n2", ["d2", "d3"])];
    assert_eq!(lack_of_pool(&of_slices, (4, 1)), None);
    assert_eq!(lack_of_pool(&of_slices, (5, 1)), short(5, 4));
    assert_eq!(lack_of_pool(&of_slices, (2, 2)), None);
    assert_eq!(lack_of_pool(&of_slices, (1, 3)), Some(Lack::Pods { fitting: 0 }));
}

#[test]
fn requests_for_some_and_for_any_devices_are_counted_together() {
    let of_model = |count, model| vec![Want { count, model, sort: WantSort::Exactly }];
    let b = Gpu { node: Some(0), model: 1, ..PLAIN };
    // Two of model a, and two of model b.
    let four = [gpus(&[2]), vec![b; 2]].concat();
    let mixed = [of_model(1, Some(0)), of_model(1, Some(0)), of_model(2, None)];
    assert_eq!(lack(&four, &mixed, 1), None);
    let more = [&mixed[..], &[of_model(1, None)]].concat();
    assert_eq!(lack(&four, &more, 1), Some(Lack::Devices { needed: 5, free: 4 }));
    let of_a = [&mixed[..], &[of_model(1, Some(0))]].concat();
    assert_eq!(lack(&four, &of_a, 1), Some(Lack::Devices { needed: 3, free: 2 }));
}

#[test]
fn only_what_is_taken_from_others_in_any_case_is_counted() {
    let mut sorts = Sorts::default();
    let mut is_counted = |change: fn(&mut Value)| {
        let mut requests = json!([{"name": "r", "exactly":
            {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}}]);
        change(&mut requests[0]);
        let claim = ResourceClaim::from_json(&claim_of(requests, json!([])).into()).unwrap();
        !sorts.needs_of([&claim]).is_empty()
    };
    assert!(is_counted(|_| {}));
    let changes: [fn(&mut Value); 5] = [
        |request| request["exactly"]["allocationMode"] = json!("All"),
        |request| request["exactly"]["adminAccess"] = json!(true),
        |request| request["exactly"]["capacity"] = json!({"requests": {"memory": "1"}}),
        |request| request["exactly"]["count"] = json!(0),
        |request| {
            let mut exact = request["exactly"].take();
            exact["name"] = json!("x");
            *request = json!({"name": "r", "firstAvailable": [exact]});
        },
    ];
    for (at, change) in changes.into_iter().enumerate() {
        assert!(!is_counted(change), "{at}");
    }
}
