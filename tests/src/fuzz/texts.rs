//! What operators and tenants write as text.

use std::sync::LazyLock;

use kube_scheduler_api_types::{FieldSelector, LabelSelector, Labels, Quantity};
use kube_scheduler_cel::{
    AttributeValue, DeviceInput, Environment, MAX_EXPRESSION_BYTES, SELECTOR_COST_LIMIT, Version,
};
use kube_scheduler_config::{FeatureGates, decode_as_far_as_possible, load, to_yaml};
use kube_scheduler_simulator::{ClusterInput, ClusterObjects, Simulation, SimulationOptions};

/// More pods or nodes than this are parsed but not simulated: what is fuzzed is the input, not the engine.
const MAX_SIMULATED: usize = 30;

/// A quantity that can be read can be written, and means the same afterwards.
pub(super) fn quantity(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut halves = text.splitn(2, ' ');
    let Some(Ok(quantity)) = halves.next().map(Quantity::parse) else { return };
    // Larger ones lose their suffix, as in the reference.
    if quantity.approximate().abs() >= 1e21 {
        return;
    }
    let canonical = quantity.canonical();
    let again = Quantity::parse(&canonical).unwrap();
    assert_eq!(quantity, again, "{text} is written as {canonical}");
    assert_eq!(again.canonical(), canonical, "{text}");
    // How negative numbers are rounded, and what 64 bits do not hold, depends on how they are stored, as in the reference.
    if quantity.sign() >= 0 {
        if let Some(value) = quantity.checked_value() {
            assert_eq!((quantity.value(), again.value()), (value, value), "{text}");
        }
        if let Some(value) = quantity.checked_milli_value() {
            assert_eq!((quantity.milli_value(), again.milli_value()), (value, value), "{text}");
        }
    }
    assert!(quantity.is_zero() == (quantity.sign() == 0), "{text}");
    if let Some(Ok(other)) = halves.next().map(Quantity::parse) {
        let (mut sum, mut reversed) = (quantity.clone(), other.clone());
        sum.add(&other);
        reversed.add(&quantity);
        assert_eq!(sum, reversed, "{text}");
    }
}

/// A selector that can be read matches or does not; it selects what its requirements select.
pub(super) fn selector(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let labels: Labels = [("app", "web"), ("a", ""), ("x.y/z", "1")].into_iter().collect();
    if let Ok(selector) = LabelSelector::parse(text) {
        let each = selector.requirements().iter().all(|requirement| requirement.matches(&labels));
        assert_eq!(selector.matches(&labels), each, "{text}");
    }
    if let Ok(selector) = FieldSelector::parse(text) {
        let value_of = |path: &str| (path == "spec.nodeName").then_some("n");
        assert!(selector.matches(value_of) || !selector.is_empty(), "{text}");
    }
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(bytes)
        && let Ok(wire) = serde_json::from_value(value)
        && let Ok(selector) = LabelSelector::from_wire(&wire)
    {
        selector.matches(&labels);
    }
}

/// An expression that compiles ends within its budget.
pub(super) fn cel(bytes: &[u8]) {
    static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(Environment::default);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if text.len() > MAX_EXPRESSION_BYTES {
        return;
    }
    let Ok(program) = ENVIRONMENT.compile(text) else { return };
    let (version, memory) = (Version::parse("1.2.3").unwrap(), Quantity::parse("80Gi").unwrap());
    let device = DeviceInput {
        driver: "gpu.example.com",
        allow_multiple_allocations: false,
        attributes: &[
            ("version", AttributeValue::Version(&version)),
            ("model", AttributeValue::String("a100")),
            ("index", AttributeValue::Int(7)),
            ("healthy", AttributeValue::Bool(true)),
        ],
        capacity: &[("memory", &memory)],
    };
    if let Ok(outcome) = program.evaluate(&device, SELECTOR_COST_LIMIT) {
        assert!(outcome.cost <= SELECTOR_COST_LIMIT, "{text}");
        let again = program.evaluate(&device, SELECTOR_COST_LIMIT).unwrap();
        assert_eq!((again.value, again.cost), (outcome.value, outcome.cost), "{text}");
    }
}

/// A configuration that can be loaded can be written and loaded again, and is the same then.
pub(super) fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let gates = FeatureGates::default();
    let _ = decode_as_far_as_possible(text);
    if let Ok(config) = load(text, &gates) {
        let written = to_yaml(&config).unwrap();
        let again = load(&written, &gates).unwrap_or_else(|error| panic!("{error}\n{written}"));
        assert_eq!(again, config, "{written}");
    }
}

/// Manifests end in objects or errors; a small cluster is simulated to its end.
pub(super) fn manifests(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut input = ClusterInput::default();
    if input.add_manifests("f.yaml", text).is_ok()
        && let Ok(objects) = input.finish()
    {
        simulate(objects);
    }
}

/// Traces end in objects or errors, nodes before a blank line and pods after it.
pub(super) fn trace(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (nodes, pods) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut input = ClusterInput::default();
    if input.add_nodes_csv("nodes.csv", nodes).is_ok()
        && input.add_pods_csv("pods.csv", pods).is_ok()
        && let Ok(objects) = input.finish()
    {
        simulate(objects);
    }
}

fn simulate(objects: ClusterObjects) {
    if objects.nodes.len() > MAX_SIMULATED || objects.pods.len() > MAX_SIMULATED {
        return;
    }
    let mut simulation = Simulation::new(SimulationOptions::default()).unwrap();
    simulation.load(objects);
    // Not every cluster can be simulated, but every one ends in a report or an error.
    let _ = simulation.run();
}
