//! The truth table of tolerations.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

fn taint(key: &str, value: &str, effect: &str) -> Taint {
    Taint { key: key.into(), value: value.into(), effect: effect.into() }
}

fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
    Toleration {
        key: key.into(),
        operator: operator.into(),
        value: value.into(),
        effect: (!effect.is_empty()).then(|| effect.into()),
        toleration_seconds: None,
    }
}

#[test]
fn truth_table() {
    let taint = taint("k", "v", "NoSchedule");
    for (key, operator, value, effect, expected) in [
        ("k", "Equal", "v", "NoSchedule", true),
        ("k", "", "v", "NoSchedule", true),
        ("k", "", "v", "", true),
        ("k", "", "", "", false),
        ("k", "Equal", "x", "", false),
        ("x", "Equal", "v", "", false),
        ("k", "Exists", "", "", true),
        ("k", "Exists", "ignored", "NoSchedule", true),
        ("k", "Exists", "", "NoExecute", false),
        ("k", "Exists", "", "PreferNoSchedule", false),
        ("", "Exists", "", "", true),
        ("", "Exists", "", "NoExecute", false),
        ("", "Equal", "v", "", true),
        ("", "", "x", "", false),
        ("k", "Like", "v", "", false),
        ("k", "Lt", "v", "", false),
    ] {
        let toleration = toleration(key, operator, value, effect);
        assert_eq!(toleration.tolerates(&taint, true), expected, "{toleration:?}");
    }
}

#[test]
fn unschedulable_taint_has_an_empty_value() {
    let cordon = taint("node.kubernetes.io/unschedulable", "", "NoSchedule");
    let tolerate = |operator, value| {
        toleration("node.kubernetes.io/unschedulable", operator, value, "NoSchedule")
    };
    assert!(tolerate("", "").tolerates(&cordon, false));
    assert!(!tolerate("", "x").tolerates(&cordon, false));
    assert!(!tolerate("Gt", "0").tolerates(&cordon, true));
}

#[test]
fn numbers_compare_strictly_and_only_in_canonical_spelling() {
    for (taint_value, operator, value, expected) in [
        ("800", "Gt", "950", false),
        ("951", "Gt", "950", true),
        ("950", "Gt", "950", false),
        ("949", "Lt", "950", true),
        ("950", "Lt", "950", false),
        ("-5", "Lt", "0", true),
        ("0", "Gt", "-1", true),
        ("high", "Gt", "1", false),
        ("+5", "Gt", "1", false),
        ("007", "Gt", "1", false),
        ("-0", "Gt", "-1", false),
        ("", "Gt", "-1", false),
        ("5", "Gt", "01", false),
        (" 5", "Gt", "1", false),
        ("9223372036854775808", "Gt", "1", false),
        ("-9223372036854775808", "Lt", "9223372036854775807", true),
    ] {
        let taint = taint("k", taint_value, "NoSchedule");
        let toleration = toleration("k", operator, value, "");
        assert_eq!(
            toleration.tolerates(&taint, true),
            expected,
            "{taint_value} {operator} {value}"
        );
        assert!(!toleration.tolerates(&taint, false), "the gate is off");
    }
}

#[test]
fn first_hard_taint_in_order_is_reported() {
    let taints = [
        taint("soft", "", "PreferNoSchedule"),
        taint("a", "", "NoExecute"),
        taint("b", "", "NoSchedule"),
        taint("c", "", "X"),
    ];
    assert_eq!(untolerated_taint(&taints, &[], false), Some(&taints[1]));
    assert_eq!(
        untolerated_taint(&taints, &[toleration("a", "Exists", "", "")], false),
        Some(&taints[2])
    );
    let both = [toleration("a", "Exists", "", ""), toleration("b", "", "", "NoSchedule")];
    assert_eq!(untolerated_taint(&taints, &both, false), None);
    let seconds = Toleration { toleration_seconds: Some(0), ..toleration("", "Exists", "", "") };
    assert_eq!(untolerated_taint(&taints, &[seconds], false), None);
}

#[test]
fn unknown_words_are_kept() {
    assert_eq!(TaintEffect::from("Later").as_str(), "Later");
    assert_eq!(TolerationOperator::from("Like").as_str(), "Like");
    assert_eq!(TolerationOperator::from("").as_str(), "Equal");
    assert!(
        TaintEffect::from("NoExecute").is_hard()
            && !TaintEffect::from("PreferNoSchedule").is_hard()
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn tolerations_follow_the_three_conditions(
        (key, value, effect) in ("[ab]", "[01x]?", prop::sample::select(vec!["NoSchedule", "NoExecute", "PreferNoSchedule"])),
        (t_key, t_value, t_effect) in ("[ab]?", "[01x]?", prop::sample::select(vec!["", "NoSchedule", "NoExecute"])),
        operator in prop::sample::select(vec!["", "Equal", "Exists", "Lt", "Gt", "Other"]),
    ) {
        let by_effect = t_effect.is_empty() || t_effect == effect;
        let by_key = t_key.is_empty() || t_key == key;
        let numbers = value.parse::<i64>().ok().zip(t_value.parse::<i64>().ok());
        let by_operator = match operator {
            "" | "Equal" => value == t_value,
            "Exists" => true,
            "Lt" => numbers.is_some_and(|(taint, bound)| taint < bound),
            "Gt" => numbers.is_some_and(|(taint, bound)| taint > bound),
            _ => false,
        };
        let toleration = toleration(&t_key, operator, &t_value, t_effect);
        prop_assert_eq!(toleration.tolerates(&taint(&key, &value, effect), true), by_effect && by_key && by_operator);
    }
}
