//! Selectors against a direct reading of their definition.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::kinds::PODS;

#[derive(Debug, Clone)]
enum Term {
    Equal(u8, u8),
    NotEqual(u8, u8),
    In(u8, Vec<u8>),
    NotIn(u8, Vec<u8>),
    Exists(u8),
    Absent(u8),
    Greater(u8, u8),
    Less(u8, u8),
}

fn term() -> impl Strategy<Value = Term> {
    let values = || prop::collection::vec(0u8..4, 1..4);
    prop_oneof![
        (0u8..4, 0u8..4).prop_map(|(k, v)| Term::Equal(k, v)),
        (0u8..4, 0u8..4).prop_map(|(k, v)| Term::NotEqual(k, v)),
        (0u8..4, values()).prop_map(|(k, v)| Term::In(k, v)),
        (0u8..4, values()).prop_map(|(k, v)| Term::NotIn(k, v)),
        (0u8..4).prop_map(Term::Exists),
        (0u8..4).prop_map(Term::Absent),
        (0u8..4, 0u8..4).prop_map(|(k, v)| Term::Greater(k, v)),
        (0u8..4, 0u8..4).prop_map(|(k, v)| Term::Less(k, v)),
    ]
}

fn text(term: &Term, gap: &str) -> String {
    let list = |values: &[u8]| {
        values.iter().map(u8::to_string).collect::<Vec<_>>().join(&format!(",{gap}"))
    };
    match term {
        Term::Equal(k, v) => format!("k{k}{gap}={gap}{v}"),
        Term::NotEqual(k, v) => format!("k{k}{gap}!={gap}{v}"),
        Term::In(k, v) => format!("k{k} in {gap}({gap}{}{gap})", list(v)),
        Term::NotIn(k, v) => format!("k{k} notin{gap}({})", list(v)),
        Term::Exists(k) => format!("k{k}{gap}"),
        Term::Absent(k) => format!("!{gap}k{k}"),
        Term::Greater(k, v) => format!("k{k}{gap}>{gap}{v}"),
        Term::Less(k, v) => format!("k{k}<{v}{gap}"),
    }
}

fn holds(term: &Term, labels: &BTreeMap<u8, u8>) -> bool {
    match term {
        Term::Equal(k, v) => labels.get(k) == Some(v),
        Term::NotEqual(k, v) => labels.get(k) != Some(v),
        Term::In(k, v) => labels.get(k).is_some_and(|own| v.contains(own)),
        Term::NotIn(k, v) => labels.get(k).is_none_or(|own| !v.contains(own)),
        Term::Exists(k) => labels.contains_key(k),
        Term::Absent(k) => !labels.contains_key(k),
        Term::Greater(k, v) => labels.get(k).is_some_and(|own| own > v),
        Term::Less(k, v) => labels.get(k).is_some_and(|own| own < v),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn label_selectors_mean_what_they_say(
        terms in prop::collection::vec(term(), 0..4),
        labels in prop::collection::btree_map(0u8..4, 0u8..4, 0..4),
        wide in any::<bool>(),
    ) {
        let gap = if wide { " " } else { "" };
        let written = terms.iter().map(|term| text(term, gap)).collect::<Vec<_>>().join(&format!("{gap},{gap}"));
        let selector = LabelSelector::parse(&written).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let own: BTreeMap<String, String> = labels.iter().map(|(k, v)| (format!("k{k}"), v.to_string())).collect();
        let expected = terms.iter().all(|term| holds(term, &labels));
        prop_assert_eq!(selector.matches(|key| own.get(key).map(String::as_str)), expected, "{}", written);
    }

    #[test]
    fn parsing_never_panics(text in "[ka-c=!,()<>in \\-\\./\\\\]{0,24}") {
        let _ = LabelSelector::parse(&text);
        let _ = FieldSelector::parse(PODS.get(), &text);
    }
}

#[test]
fn malformed_label_selectors_are_refused() {
    for text in [
        "a=b,", ",a", "a in b", "a in (b", "a b", "=b", "!", "a==!b", "-a=b", "a=b c", "a>x",
        "x/y/z=1",
    ] {
        assert!(LabelSelector::parse(text).is_err(), "{text}");
    }
}

#[test]
fn keys_named_like_operators_are_keys() {
    let selector = LabelSelector::parse("in in (in),notin notin (x)").expect("valid");
    let label = |key: &str| (key == "in").then_some("in");
    assert!(selector.matches(label));
}

#[test]
fn field_selectors_escape_and_negate() {
    let pod = serde_json::json!({"metadata": {"name": "a,b=c"}, "status": {"phase": "Running"}});
    let object = Object::freeze(PODS, &pod, 1);
    let matches =
        |text: &str| FieldSelector::parse(PODS.get(), text).expect("valid").matches(&object);
    assert!(matches("metadata.name=a\\,b\\=c"));
    assert!(matches("status.phase!=Failed,spec.nodeName="));
    assert!(!matches("status.phase==Failed"));
    assert!(FieldSelector::parse(PODS.get(), "status.phase").is_err());
    assert!(FieldSelector::parse(PODS.get(), "involvedObject.name=a").is_err());
}
