//! Selectors against a direct reading of their definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_primitives::KeyedSet;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use super::*;
use crate::affinity::{node_satisfies_required_affinity, required_node_affinity_matches};
use crate::labels::Labels;
use crate::node::Node;
use crate::pod::Pod;
use crate::validation::{FieldPath, label_key_messages, label_value_messages};
use crate::wire;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().copied().collect()
}

fn label_selector(json: Value) -> Result<LabelSelector, SelectorError> {
    LabelSelector::from_wire(&serde_json::from_value(json).unwrap())
}

fn node_selector(terms: Value) -> NodeSelector {
    NodeSelector::from_wire(&wire_node_selector(terms))
}

fn wire_node_selector(terms: Value) -> wire::NodeSelector {
    serde_json::from_value(json!({ "nodeSelectorTerms": terms })).unwrap()
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

fn error_of(terms: Value) -> String {
    node_selector(terms).matches_or_error(&Labels::default(), "n").unwrap_err().to_string()
}

#[test]
fn absent_keys_satisfy_only_the_negative_operators() {
    for (operator, values, expected) in [
        ("In", &["a"][..], false),
        ("NotIn", &["a"], true),
        ("Exists", &[], false),
        ("DoesNotExist", &[], true),
    ] {
        let selector =
            label_selector(json!({"matchExpressions": [expression("k", operator, values)]}))
                .unwrap();
        assert_eq!(selector.matches(&Labels::default()), expected, "{operator}");
    }
    for operator in ["Gt", "Lt"] {
        let selector =
            node_selector(json!([{"matchExpressions": [expression("k", operator, &["1"])]}]));
        assert!(!selector.matches(&Labels::default(), "n"));
    }
}

#[test]
fn gt_and_lt_compare_strictly_and_only_numbers() {
    let gt = node_selector(json!([{"matchExpressions": [expression("k", "Gt", &["007"])]}]));
    let lt = node_selector(json!([{"matchExpressions": [expression("k", "Lt", &["7"])]}]));
    for (value, above, below) in [
        ("7", false, false),
        ("8", true, false),
        ("+8", true, false),
        ("-3", false, true),
        ("6", false, true),
        ("x", false, false),
        ("", false, false),
        ("9223372036854775808", false, false),
    ] {
        let labels = labels(&[("k", value)]);
        assert_eq!((gt.matches(&labels, "n"), lt.matches(&labels, "n")), (above, below), "{value}");
    }
}

#[test]
fn errors_read_as_the_reference_writes_them() {
    let term = |expressions: Value| json!([{ "matchExpressions": expressions }]);
    let cases = [
        (
            term(json!([expression("k", "Gt", &["-1"])])),
            "nodeSelectorTerms[0].matchExpressions[0].values[0][k]: Invalid value: \"-1\": a valid label must be an empty \
             string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
             character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
        (
            term(json!([expression("k", "Gt", &["x"])])),
            "nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value \
             must be an integer",
        ),
        (
            term(json!([expression("k", "Lt", &["1", "2"])])),
            "nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: [\"1\",\"2\"]: for 'Gt', 'Lt' operators, \
             exactly one value is required",
        ),
        (
            term(json!([expression("k", "In", &[])])),
            "nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: []: for 'in', 'notin' operators, values set \
             can't be empty",
        ),
        (
            term(json!([{"key": "k", "operator": "NotIn"}])),
            "nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: null: for 'in', 'notin' operators, values set \
             can't be empty",
        ),
        (
            term(json!([expression("k", "Exists", &["v"])])),
            "nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: [\"v\"]: values set must be empty for exists \
             and does not exist",
        ),
        (
            term(json!([expression("k", "Like", &["v"])])),
            "nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: \"Like\": supported values: \"In\", \
             \"NotIn\", \"Exists\", \"DoesNotExist\", \"Gt\", \"Lt\"",
        ),
        (
            json!([{"matchFields": [expression("metadata.name", "In", &["a", "b"])]}]),
            "nodeSelectorTerms[0].matchFields[0].values: Invalid value: [\"a\",\"b\"]: must have one element",
        ),
        (
            json!([{"matchFields": [expression("metadata.name", "Exists", &[])]}]),
            "nodeSelectorTerms[0].matchFields[0].operator: Unsupported value: \"Exists\": supported values: \"In\", \
             \"NotIn\"",
        ),
        (
            json!([{}, {"matchExpressions": [expression("k", "In", &[]), expression("k", "In", &[])]}]),
            "[nodeSelectorTerms[1].matchExpressions[0].values: Invalid value: []: for 'in', 'notin' operators, values set \
             can't be empty, nodeSelectorTerms[1].matchExpressions[1].values: Invalid value: []: for 'in', 'notin' \
             operators, values set can't be empty]",
        ),
    ];
    for (terms, expected) in cases {
        assert_eq!(error_of(terms.clone()), expected);
        let strict = NodeSelector::compile_strict(&wire_node_selector(terms), &FieldPath::root());
        assert_eq!(strict.unwrap_err().to_string(), expected);
    }
    assert_eq!(
        label_selector(json!({"matchExpressions": [expression("k", "Gt", &["1"])]}))
            .unwrap_err()
            .to_string(),
        "\"Gt\" is not a valid label selector operator"
    );
    assert_eq!(
        label_selector(json!({"matchExpressions": [expression("k", "In", &[])]}))
            .unwrap_err()
            .to_string(),
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    );
    assert!(
        label_selector(json!({"matchLabels": {"k": "a b"}}))
            .unwrap_err()
            .to_string()
            .starts_with("values[0][k]: Invalid value: \"a b\": a valid label must be")
    );
}

#[test]
fn an_invalid_value_spoils_even_a_negative_requirement() {
    let selector =
        node_selector(json!([{"matchExpressions": [expression("k", "NotIn", &["a b"])]}]));
    assert!(!selector.matches(&labels(&[("k", "other")]), "n"));
    assert!(selector.matches_or_error(&Labels::default(), "n").is_err());
}

#[test]
fn a_term_in_error_does_not_spoil_the_others() {
    let bad = json!({"matchExpressions": [expression("k", "In", &[])]});
    let good = json!({"matchExpressions": [expression("k", "Exists", &[])]});
    for terms in [json!([bad, good]), json!([good, bad])] {
        let selector = node_selector(terms.clone());
        assert_eq!(selector.matches_or_error(&labels(&[("k", "")]), "n"), Ok(true));
        assert!(selector.matches_or_error(&Labels::default(), "n").is_err());
        assert!(
            NodeSelector::compile_strict(&wire_node_selector(terms), &FieldPath::new("x")).is_err()
        );
    }
}

#[test]
fn empty_terms_match_nothing() {
    let some = labels(&[("k", "v")]);
    for terms in
        [json!([]), json!([{}]), json!([{}, {"matchExpressions": [], "matchFields": null}])]
    {
        let selector = node_selector(terms);
        assert_eq!(selector.matches_or_error(&some, "n"), Ok(false));
        assert!(selector.terms().is_empty());
    }
    let selector =
        node_selector(json!([{}, {"matchExpressions": [expression("k", "Exists", &[])]}]));
    assert!(selector.matches(&some, "n"));
    assert_eq!(selector.n_terms_given(), 2);
}

#[test]
fn fields_other_than_the_name_read_as_empty_and_nameless_nodes_skip_them() {
    let field = |key: &str, operator: &str, value: &str| {
        node_selector(json!([{"matchFields": [expression(key, operator, &[value])]}]))
    };
    let none = Labels::default();
    assert!(field("metadata.name", "In", "a").matches(&none, "a"));
    assert!(!field("metadata.name", "In", "a").matches(&none, "b"));
    assert!(field("metadata.name", "NotIn", "a").matches(&none, "b"));
    assert!(field("metadata.name", "In", "a").matches(&none, ""));
    assert!(!field("metadata.uid", "In", "a").matches(&none, "a"));
    assert!(field("metadata.uid", "In", "").matches(&none, "a"));
}

#[test]
fn node_names_narrow_as_pre_filter_wants_them() {
    let names = |terms: Value| node_selector(terms).node_names().clone();
    let field = |operator: &str, values: &[&str]| expression("metadata.name", operator, values);
    let some = |names: &[&str]| {
        NodeNames::Names(names.iter().map(|name| Arc::from(*name)).collect::<BTreeSet<_>>())
    };
    assert_eq!(names(json!([])), NodeNames::NotNarrowed);
    assert_eq!(names(json!([{}])), NodeNames::NotNarrowed);
    assert_eq!(names(json!([{"matchFields": [field("In", &["a"])]}, {}])), NodeNames::NotNarrowed);
    assert_eq!(names(json!([{"matchFields": [field("NotIn", &["a"])]}])), NodeNames::NotNarrowed);
    assert_eq!(
        names(json!([{"matchFields": [expression("metadata.uid", "In", &["a"])]}])),
        NodeNames::NotNarrowed
    );
    assert_eq!(
        names(json!([{"matchFields": [field("In", &["a"]), field("In", &["b"])]}])),
        some(&[])
    );
    let two_values = json!([{"matchFields": [field("In", &["b", "a"])]}]);
    assert_eq!(names(two_values.clone()), some(&["a", "b"]));
    assert!(!node_selector(two_values).matches(&Labels::default(), "a"));
    assert_eq!(
        names(
            json!([{"matchFields": [field("In", &["a"])]}, {"matchFields": [field("In", &["b"])]}])
        ),
        some(&["a", "b"])
    );
}

#[test]
fn required_affinity_is_the_node_selector_and_the_terms() {
    let node =
        Node { name: "n".into(), labels: labels(&[("a", "1"), ("b", "2")]), ..Node::default() };
    let check = |spec: Value| {
        let pod = Pod::from_value(&json!({ "spec": spec })).unwrap();
        let answer = required_node_affinity_matches(&pod, &node);
        assert_eq!(answer == Ok(true), node_satisfies_required_affinity(&pod, &node));
        answer.map_err(|_| ())
    };
    let required = |terms: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    let matching = required(json!([{"matchExpressions": [expression("b", "In", &["2"])]}]));
    let bad = required(json!([{"matchExpressions": [expression("b", "In", &[])]}]));
    assert_eq!(check(json!({})), Ok(true));
    assert_eq!(check(json!({"nodeSelector": {}})), Ok(true));
    assert_eq!(check(json!({"nodeSelector": {"a": "1"}, "affinity": matching})), Ok(true));
    assert_eq!(check(json!({"nodeSelector": {"a": "2"}, "affinity": matching})), Ok(false));
    assert_eq!(check(json!({"nodeSelector": {"a": "not a label value"}})), Ok(false));
    assert_eq!(check(json!({ "affinity": bad })), Err(()));
    assert_eq!(check(json!({"nodeSelector": {"a": "2"}, "affinity": bad})), Ok(false));
    assert_eq!(check(json!({ "affinity": required(json!([])) })), Ok(false));
    assert_eq!(check(json!({"affinity": {"nodeAffinity": {}}})), Ok(true));
}

#[test]
fn preferred_terms_are_strict_but_weight_zero_is_never_read() {
    let bad = json!({"matchExpressions": [expression("k", "In", &[])]});
    let good = json!({"matchExpressions": [expression("k", "Exists", &[])]});
    let compile = |terms: Value| {
        let terms: Vec<wire::PreferredSchedulingTerm> = serde_json::from_value(terms).unwrap();
        preferred_terms(&terms, &FieldPath::root())
            .map(|terms| terms.iter().map(|term| term.weight).collect::<Vec<_>>())
    };
    assert_eq!(
        compile(
            json!([{"weight": 0, "preference": bad}, {"weight": 5, "preference": {}}, {"weight": 7, "preference": good}])
        ),
        Ok(vec![7])
    );
    let error =
        compile(json!([{"weight": 1, "preference": good}, {"weight": 2, "preference": bad}]))
            .unwrap_err();
    assert_eq!(
        error.to_string(),
        "[1].matchExpressions[0].values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
    );
}

#[test]
fn text_form_of_label_selectors() {
    let ok = |text: &str, pairs: &[(&str, &str)], expected: bool| {
        assert_eq!(
            LabelSelector::parse(text).unwrap().matches(&labels(pairs)),
            expected,
            "{text} {pairs:?}"
        );
    };
    ok("", &[], true);
    ok("  ", &[("a", "b")], true);
    ok("a=b", &[("a", "b")], true);
    ok("a==b,c!=d", &[("a", "b"), ("c", "d")], false);
    ok("a!=b", &[], true);
    ok("a in (x, y),!f", &[("a", "y")], true);
    ok("a in (x,y),!f", &[("a", "y"), ("f", "")], false);
    ok("a notin (x,y)", &[("a", "z")], true);
    ok("a", &[("a", "")], true);
    ok("a>1, b<5", &[("a", "2"), ("b", "4")], true);
    ok("a=", &[("a", "")], true);
    ok("a in ()", &[("a", "")], true);
    ok("a in (,x)", &[("a", "")], true);
    ok("example.com/a = b", &[("example.com/a", "b")], true);
    ok("in in (in)", &[("in", "in")], true);
    for text in [
        "a=b,",
        ",",
        "a b",
        "a in x",
        "a in (x",
        "!a=b",
        "=b",
        "a in (x y)",
        "a=b c",
        "(",
        "a/b/c",
        "a=-",
        "a>b",
    ] {
        assert!(LabelSelector::parse(text).is_err(), "{text}");
    }
    assert_eq!(
        LabelSelector::parse("a in x").unwrap_err().to_string(),
        "unable to parse requirement: found \"x\", expected '('"
    );
}

#[test]
fn text_form_of_field_selectors() {
    let fields = BTreeMap::from([("metadata.name", "a,b"), ("spec.nodeName", "")]);
    let ok = |text: &str| {
        FieldSelector::parse(text).unwrap().matches(|field| fields.get(field).copied())
    };
    assert!(ok(""));
    assert!(ok("spec.nodeName="));
    assert!(ok("metadata.name=a\\,b,spec.nodeName!=n"));
    assert!(ok("metadata.name==a\\,b"));
    assert!(!ok("metadata.name!=a\\,b"));
    assert!(ok("status.phase="));
    for text in ["x", "=a", "a!b", "a=\\x", "a=b=c", "a=\\"] {
        assert!(FieldSelector::parse(text).is_err(), "{text}");
    }
    assert_eq!(FieldSelector::parse("a=b").unwrap().comparisons().len(), 1);
}

/// The definition, read aloud: `None` where the requirement cannot be built.
fn by_definition(
    key: &str,
    operator: &str,
    values: &[String],
    label: Option<&str>,
) -> Option<bool> {
    let valid = label_key_messages(key).is_empty()
        && values.iter().all(|value| label_value_messages(value).is_empty());
    let number = |text: &str| text.parse::<i64>().ok();
    let bound = match values {
        [only] => number(only),
        _ => None,
    };
    let listed = |label: &str| values.iter().any(|value| value == label);
    let answer = match operator {
        "In" if !values.is_empty() => label.is_some_and(listed),
        "NotIn" if !values.is_empty() => !label.is_some_and(listed),
        "Exists" if values.is_empty() => label.is_some(),
        "DoesNotExist" if values.is_empty() => label.is_none(),
        "Gt" => {
            label.and_then(number).is_some_and(|label| bound.is_some_and(|bound| label > bound))
        }
        "Lt" => {
            label.and_then(number).is_some_and(|label| bound.is_some_and(|bound| label < bound))
        }
        _ => return None,
    };
    let has_bound = !matches!(operator, "Gt" | "Lt") || bound.is_some();
    (valid && has_bound).then_some(answer)
}

fn requirement_json() -> impl Strategy<Value = (String, &'static str, Vec<String>)> {
    let key = prop_oneof![9 => "[a-c]", 1 => "[-a/ ]{0,3}"];
    let operator =
        prop::sample::select(vec!["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like", ""]);
    let value = prop_oneof![6 => "[0-3x]{0,2}", 1 => "[-+]?[0-9]", 1 => "[ -~]{0,4}"];
    (key, operator, prop::collection::vec(value, 0..3))
}

/// A pod has few labels; what many requirements say about others is not looked at.
#[test]
fn labels_are_looked_up_among_many_requirements() {
    let absent = |at: usize| Requirement {
        key: format!("k{at}").into(),
        operator: Operator::DoesNotExist,
        values: Arc::from([]),
    };
    let is_app = Requirement::equals("app".into(), "a".into());
    let selector = LabelSelector::new((0..2000).map(absent).chain([is_app]).collect::<Vec<_>>());
    let own = labels(&[("app", "a"), ("tier", "b")]);
    for _ in 0..100 {
        assert!(selector.matches(&own));
    }
    let before = selector.n_compared();
    assert!(selector.matches(&own));
    assert_eq!(selector.n_compared() - before, 1);
    assert!(!selector.matches(&labels(&[("tier", "b")])));
    assert!(!selector.matches(&labels(&[("app", "a"), ("k1999", "")])));
    // There is one for each term of each pod.
    let of_few = size_of::<Arc<[Requirement]>>() + size_of::<u64>();
    assert_eq!(size_of::<LabelSelector>(), of_few);
    assert_eq!(size_of::<Option<LabelSelector>>(), of_few, "an optional one");
}

/// Those that labels may fulfil without being there are more likely.
fn any_requirement() -> impl Strategy<Value = Requirement> {
    let operator = prop_oneof![
        4 => Just(Operator::DoesNotExist),
        4 => Just(Operator::NotIn),
        2 => Just(Operator::In),
        2 => Just(Operator::Exists),
        1 => (-1..3_i64).prop_map(Operator::Gt),
    ];
    let values = prop::collection::btree_set("[0-3]", 1..4);
    ("[a-p]", operator, values).prop_map(|(key, operator, values)| Requirement {
        key: key.into(),
        operator,
        values: values.iter().map(|value| Arc::from(value.as_str())).collect(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn node_selectors_match_by_definition(
        terms in prop::collection::vec(prop::collection::vec(requirement_json(), 0..3), 0..3),
        given in prop::collection::btree_map("[a-c]", "[-+]?[0-3x]{0,2}", 0..3),
    ) {
        let json = terms.iter().map(|term| {
            let expressions: Vec<Value> = term
                .iter()
                .map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}))
                .collect();
            json!({ "matchExpressions": expressions })
        });
        let selector = node_selector(json.collect());
        let labels: Labels = given.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let answers: Vec<Option<bool>> = terms
            .iter()
            .filter(|term| !term.is_empty())
            .map(|term| {
                let answer = |(key, operator, values): &(String, &str, Vec<String>)| {
                    by_definition(key, operator, values, given.get(key).map(String::as_str))
                };
                let all: Option<Vec<bool>> = term.iter().map(answer).collect();
                Some(all?.into_iter().all(|holds| holds))
            })
            .collect();
        let matches = answers.contains(&Some(true));
        prop_assert_eq!(selector.matches(&labels, "n"), matches);
        let answer = selector.matches_or_error(&labels, "n");
        prop_assert_eq!(answer.is_err(), !matches && answers.contains(&None));
        prop_assert_eq!(answer.unwrap_or(false), matches);
    }

    #[test]
    fn label_selectors_match_by_definition(
        pairs in prop::collection::btree_map("[a-c]", "[0-3 ]{0,2}", 0..2),
        requirements in prop::collection::vec(requirement_json(), 0..3),
        given in prop::collection::btree_map("[a-c]", "[0-3x]{0,2}", 0..3),
    ) {
        let expressions: Vec<Value> = requirements
            .iter()
            .map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}))
            .collect();
        let labels: Labels = given.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let expected: Option<Vec<bool>> = pairs
            .iter()
            .map(|(key, value)| (key.clone(), "In", vec![value.clone()]))
            .chain(requirements)
            .map(|(key, operator, values)| {
                let is_known = !matches!(operator, "Gt" | "Lt");
                is_known.then(|| by_definition(&key, operator, &values, given.get(&key).map(String::as_str)))?
            })
            .collect();
        let compiled = label_selector(json!({"matchLabels": pairs, "matchExpressions": expressions}));
        prop_assert_eq!(compiled.ok().map(|selector| selector.matches(&labels)), expected.map(|all| all.into_iter().all(|holds| holds)));
    }

    /// Equal selectors have equal hashes: two that were read apart find the same entry of a table.
    #[test]
    fn equal_selectors_have_equal_hashes(
        one in prop::collection::vec(requirement_json(), 0..3),
        other in prop::collection::vec(requirement_json(), 0..3),
    ) {
        let selector = |all: &[(String, &str, Vec<String>)]| {
            let expressions: Vec<Value> = all
                .iter()
                .map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}))
                .collect();
            label_selector(json!({"matchExpressions": expressions}))
        };
        if let (Ok(first), Ok(again), Ok(second)) = (selector(&one), selector(&one), selector(&other)) {
            let table: KeyedSet<LabelSelector> = [first.clone()].into_iter().collect();
            prop_assert!(first == again && table.contains(&again));
            prop_assert_eq!(first == second, first.requirements() == second.requirements());
            prop_assert_eq!(table.contains(&second), first == second);
        }
        prop_assert_eq!(LabelSelector::default(), LabelSelector::new([]));
        let table: KeyedSet<LabelSelector> = [LabelSelector::default()].into_iter().collect();
        prop_assert!(table.contains(&LabelSelector::new([])));
    }

    #[test]
    fn many_requirements_are_matched_as_one_after_the_other(
        requirements in prop::collection::vec(any_requirement(), 0..40),
        n_broken in 0..3_usize,
        given in prop::collection::btree_map("[a-p]", "[0-3]", 0..12),
    ) {
        let labels: Labels = given.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let (holding, broken): (Vec<Requirement>, Vec<Requirement>) =
            requirements.into_iter().partition(|requirement| requirement.matches(&labels));
        let is_match = n_broken == 0 || broken.is_empty();
        let absent = |at: usize| Requirement {
            key: format!("z{at}").into(),
            operator: Operator::DoesNotExist,
            values: Arc::from([]),
        };
        let broken = broken.into_iter().take(n_broken);
        let all: Vec<Requirement> =
            holding.into_iter().chain(broken).chain((0..17).map(absent)).collect();
        let n_about_one = all.iter().map(|one| all.iter().filter(|other| other.key == one.key).count());
        let most_about_one = n_about_one.max();
        let selector = LabelSelector::new(all);
        // One after the other at first, then looked up.
        for _ in 0..40 {
            prop_assert_eq!(selector.matches(&labels), is_match);
        }
        prop_assert_eq!(Some(selector.most_about_one_label()), most_about_one);
    }

    #[test]
    fn no_text_panics(text in "[-a-c=!<>(), \\\\in]{0,20}") {
        let _ = (LabelSelector::parse(&text), FieldSelector::parse(&text));
    }
}
