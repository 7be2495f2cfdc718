//! The compact form against `serde_json`, and its size.

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

use super::*;

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 4.0)),
        "[a-c\"\u{e9}]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-d]{0,2}", inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn it_is_what_serde_json_makes_of_the_same_text(value in any_value()) {
        let text = value.to_string();
        let json: Json = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&json, &value);
        prop_assert_eq!(&json, &Json::from(value.clone()));
        prop_assert_eq!(json.to_string(), text);
        prop_assert_eq!(Value::from(&json), value.clone());
        prop_assert_eq!(Value::deserialize(&json).unwrap(), value);
    }

    #[test]
    fn it_takes_less_than_sixteen_bytes_for_each_byte_of_its_text(value in any_value()) {
        let text = value.to_string();
        let json: Json = serde_json::from_str(&text).unwrap();
        prop_assert!(json.n_bytes() <= 16 * text.len(), "{text}");
    }
}

#[test]
fn the_worst_texts_take_less_than_sixteen_bytes_for_each_byte() {
    for item in ["1", "{}", "[]", "\"\"", "{\"a\":1}", "{\"\":1}", "{\"name\":\"p1\",\"port\":1}"] {
        let text = format!("[{}]", vec![item; 1000].join(","));
        let json: Json = serde_json::from_str(&text).unwrap();
        assert!(json.n_bytes() < 16 * text.len(), "{item}: {} of {}", json.n_bytes(), text.len());
    }
}

#[test]
fn of_fields_with_the_same_name_the_last_one_counts() {
    let json: Json = serde_json::from_str(r#"{"b":1,"a":2,"b":3,"a":null,"b":4}"#).unwrap();
    assert_eq!(json, json!({"a": null, "b": 4}));
}

#[test]
fn what_is_not_there_reads_as_null() {
    let json = Json::from(json!({"a": [{"b": "c"}], "n": null}));
    assert_eq!(json["a"][0]["b"], "c");
    for nothing in [&json["x"], &json["n"], &json["a"][1], &json["a"]["b"], &json["x"]["y"][0]] {
        assert!(nothing.is_null());
    }
    assert_eq!(json.get("x"), None);
    assert_eq!(json.get("n"), Some(&Json::Null));
}

#[test]
fn fields_can_be_set_and_taken_out() {
    let mut json = Json::from(json!({"b": 1, "a": {"c": "text"}}));
    json.set(&["a", "b"], json!([1]).into());
    json.set(&["b", "x", "y"], "z".into());
    assert_eq!(json, json!({"a": {"b": [1], "c": "text"}, "b": {"x": {"y": "z"}}}));
    assert_eq!(json.remove(&["a", "c"]), Some("text".into()));
    assert_eq!(json.remove(&["a", "c"]), None);
    assert_eq!(json.remove(&["b", "nothing", "y"]), None);
    assert_eq!(json, json!({"a": {"b": [1]}, "b": {"x": {"y": "z"}}}));
}

#[test]
fn types_are_read_from_it_as_from_text() {
    #[derive(Debug, Deserialize, PartialEq)]
    enum Kind {
        Plain,
        With { n: u8 },
    }
    #[derive(Debug, Deserialize, PartialEq)]
    struct Read {
        kinds: Vec<Kind>,
        rest: Option<String>,
        none: Option<u8>,
        number: f64,
    }
    let good = json!({"kinds": ["Plain", {"With": {"n": 3}}], "rest": "x", "none": null, "number": 1.5, "more": [{}]});
    let kinds = vec![Kind::Plain, Kind::With { n: 3 }];
    let read = Read { kinds, rest: Some("x".to_owned()), none: None, number: 1.5 };
    assert_eq!(Read::deserialize(&Json::from(good)).unwrap(), read);
    for bad in [json!({"kinds": 1}), json!({"kinds": [], "rest": 5, "number": 1}), json!("text")] {
        let expected = Read::deserialize(&bad).unwrap_err().to_string();
        assert_eq!(Read::deserialize(&Json::from(bad)).unwrap_err().to_string(), expected);
    }
}
