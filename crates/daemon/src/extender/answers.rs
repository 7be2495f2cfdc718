//! What extenders answer, as the reference reads it.
//!
//! Invariants: names of fields match in any case, at every level; unknown fields are ignored; `null` is the same as nothing;
//! what follows the first value is not looked at; scores are whole numbers.

use std::collections::BTreeMap;
use std::fmt;

use kube_scheduler_runtime::{ExtenderFilterResult, ExtenderVictims, HostPriority};
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Defines a record whose fields are found whatever their case.
macro_rules! record {
    ($name:ident { $($field:ident $key:literal: $type:ty),* $(,)? }) => {
        #[derive(Debug, Default)]
        struct $name { $($field: $type),* }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Fields;

                impl<'de> Visitor<'de> for Fields {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(concat!("an object (", stringify!($name), ")"))
                    }

                    fn visit_unit<E>(self) -> Result<$name, E> {
                        Ok($name::default())
                    }

                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        let mut record = $name::default();
                        while let Some(key) = map.next_key::<String>()? {
                            $(if key.eq_ignore_ascii_case($key) {
                                let value = map.next_value::<Option<$type>>();
                                let value = value.map_err(|error| {
                                    A::Error::custom(format_args!("{}: {error}", $key))
                                })?;
                                record.$field = value.unwrap_or_default();
                                continue;
                            })*
                            map.next_value::<IgnoredAny>()?;
                        }
                        Ok(record)
                    }
                }

                deserializer.deserialize_any(Fields)
            }
        }
    };
}

record!(FilterResult {
    nodes "Nodes": Option<NodeList>,
    node_names "NodeNames": Option<Vec<String>>,
    failed "FailedNodes": BTreeMap<String, String>,
    failed_and_unresolvable "FailedAndUnresolvableNodes": BTreeMap<String, String>,
    error "Error": String,
});
record!(NodeList { items "items": Vec<Node> });
record!(Node { metadata "metadata": Metadata });
record!(Metadata { name "name": String });
record!(Priority { host "Host": String, score "Score": i64 });
record!(PreemptionResult { victims "NodeNameToMetaVictims": BTreeMap<String, MetaVictims> });
record!(MetaVictims { pods "Pods": Vec<MetaPod>, n_pdb_violations "NumPDBViolations": i64 });
record!(MetaPod { uid "UID": String });
record!(BindingResult { error "Error": String });

/// Which nodes pass. Names count only from an extender that was sent names.
pub(super) fn filter_result(
    body: &[u8],
    knows_nodes: bool,
) -> Result<ExtenderFilterResult, String> {
    let result: FilterResult = first_value(body)?;
    if !result.error.is_empty() {
        return Err(result.error);
    }
    let nodes = match (result.node_names, result.nodes) {
        (Some(names), _) if knows_nodes => names,
        (_, Some(list)) => list.items.into_iter().map(|node| node.metadata.name).collect(),
        (_, None) => Vec::new(),
    };
    let (failed, failed_and_unresolvable) = (result.failed, result.failed_and_unresolvable);
    Ok(ExtenderFilterResult { nodes, failed, failed_and_unresolvable })
}

/// Scores.
pub(super) fn priorities(body: &[u8]) -> Result<Vec<HostPriority>, String> {
    let priorities: Option<Vec<Priority>> = first_value(body)?;
    let priority = |Priority { host, score }| HostPriority { host, score };
    Ok(priorities.unwrap_or_default().into_iter().map(priority).collect())
}

/// Victims by node.
pub(super) fn victims(body: &[u8]) -> Result<BTreeMap<String, ExtenderVictims>, String> {
    let result: PreemptionResult = first_value(body)?;
    let victims = |MetaVictims { pods, n_pdb_violations }| ExtenderVictims {
        uids: pods.into_iter().map(|pod| pod.uid).collect(),
        n_pdb_violations,
    };
    Ok(result.victims.into_iter().map(|(node, meta)| (node, victims(meta))).collect())
}

/// Whether the pod is bound.
pub(super) fn binding_result(body: &[u8]) -> Result<(), String> {
    let result: BindingResult = first_value(body)?;
    if result.error.is_empty() { Ok(()) } else { Err(result.error) }
}

fn first_value<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    if body.trim_ascii().is_empty() {
        return Err("EOF".to_owned());
    }
    T::deserialize(&mut serde_json::Deserializer::from_slice(body)).map_err(|error| {
        let text = error.to_string();
        // An error within a record has been wrapped, so its kind can only be read from the text.
        if text.contains("EOF while parsing") {
            "unexpected EOF".to_owned()
        } else {
            format!("json: cannot unmarshal the answer: {text}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(body: &str, knows_nodes: bool) -> Result<Vec<String>, String> {
        filter_result(body.as_bytes(), knows_nodes).map(|result| result.nodes)
    }

    #[test]
    fn names_count_from_those_who_know_nodes_and_nodes_from_everybody() {
        let both = r#"{"NodeNames": ["a"], "Nodes": {"items": [{"metadata": {"name": "b"}}]}}"#;
        assert_eq!(filtered(both, true).unwrap(), ["a"]);
        assert_eq!(filtered(both, false).unwrap(), ["b"]);
        let no_names = r#"{"NodeNames": null, "Nodes": {"items": [{"metadata": {"name": "b"}}]}}"#;
        assert_eq!(filtered(no_names, true).unwrap(), ["b"]);
        for nothing in ["null", "{}", r#"{"NodeNames": []}"#, r#"{"nodes": null, "extra": [{}]}"#] {
            assert!(filtered(nothing, true).unwrap().is_empty(), "{nothing}");
        }
    }

    #[test]
    fn the_case_of_fields_does_not_matter_and_nothing_after_the_first_value_does() {
        let body = r#"{"nodes": {"ITEMS": [{"Metadata": {"NAME": "b", "labels": {}}, "spec": {"x": [1]}}]},
            "failednodes": {"c": "no"}, "failedAndUnresolvableNodes": {"D": "never"}, "error": ""} trailing"#;
        let result = filter_result(body.as_bytes(), false).unwrap();
        assert_eq!(result.nodes, ["b"]);
        assert_eq!(result.failed, BTreeMap::from([("c".to_owned(), "no".to_owned())]));
        assert_eq!(
            result.failed_and_unresolvable,
            BTreeMap::from([("D".to_owned(), "never".to_owned())])
        );
        let body =
            br#"[{"host": "a", "SCORE": -3}, {"Host": "b", "Score": 9223372036854775807}, null]"#;
        let scores: Vec<_> =
            priorities(body).unwrap().into_iter().map(|p| (p.host, p.score)).collect();
        let expected = [("a".to_owned(), -3), ("b".to_owned(), i64::MAX), (String::new(), 0)];
        assert_eq!(scores, expected);
        assert!(priorities(b"null").unwrap().is_empty());
    }

    #[test]
    fn victims_are_uids_by_node() {
        let body = br#"{"nodeNameToMetaVictims": {
            "a": {"pods": [{"uid": "1"}, {"UID": "2"}], "numPDBViolations": 3}, "b": {}, "c": null}}"#;
        let victims = victims(body).unwrap();
        let a = ExtenderVictims { uids: vec!["1".into(), "2".into()], n_pdb_violations: 3 };
        assert_eq!(victims["a"], a);
        assert_eq!((&victims["b"], &victims["c"]), (&Default::default(), &Default::default()));
    }

    #[test]
    fn errors_are_reported_in_their_own_words() {
        assert_eq!(filtered(r#"{"Error": "no licence"}"#, true), Err("no licence".into()));
        assert_eq!(binding_result(br#"{"error": "taken"}"#), Err("taken".into()));
        assert_eq!(binding_result(b"{}"), Ok(()));
    }

    #[test]
    fn garbage_is_an_error() {
        for (body, text) in [("", "EOF"), (" \n", "EOF"), (r#"{"NodeNames": ["#, "unexpected EOF")]
        {
            assert_eq!(filtered(body, true), Err(text.to_owned()));
        }
        let bodies = [
            "<html>",
            "[]",
            "7",
            "\"x\"",
            r#"{"NodeNames": "a"}"#,
            r#"{"NodeNames": [1]}"#,
            r#"{"FailedNodes": ["a"]}"#,
            r#"{"Nodes": {"items": {"a": 1}}}"#,
            "\u{0}\u{1}",
        ];
        for body in bodies {
            let error = filtered(body, true).unwrap_err();
            assert!(error.starts_with("json: cannot unmarshal the answer: "), "{body}: {error}");
        }
        let error = priorities(br#"[{"Host": "a", "Score": 1.5}]"#).unwrap_err();
        assert!(
            error.contains("Score: invalid type: floating point `1.5`, expected i64"),
            "{error}"
        );
        assert!(priorities(br#"[{"Host": "a", "Score": 9223372036854775808}]"#).is_err());
        assert!(filtered(&"[".repeat(100_000), true).is_err());
        assert!(priorities("[".repeat(100_000).as_bytes()).is_err());
    }
}
