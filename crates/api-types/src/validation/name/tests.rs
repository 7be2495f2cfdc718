//! Valid and invalid names, and the exact words for the latter.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

#[test]
fn label_keys_accept_what_clusters_use() {
    for key in [
        "a",
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "nvidia.com/gpu",
        "1-num.2-num/3_num",
        "A_b.C-9",
    ] {
        assert_eq!(label_key_messages(key), Vec::<String>::new(), "{key}");
    }
    assert!(label_key_messages(&"a".repeat(63)).is_empty());
    assert!(label_key_messages(&format!("{}/b", "a".repeat(63))).is_empty());
}

#[test]
fn label_keys_name_every_broken_rule() {
    let name_form = format!("name part {LABEL_KEY_NAME_FORM}");
    assert_eq!(label_key_messages(""), ["name part must be non-empty", &name_form]);
    assert_eq!(
        label_key_messages("/"),
        ["prefix part must be non-empty", "name part must be non-empty", &name_form]
    );
    assert_eq!(label_key_messages("bad name"), std::slice::from_ref(&name_form));
    assert_eq!(
        label_key_messages("-bad/name"),
        [
            "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
             must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        ]
    );
    assert_eq!(
        label_key_messages(&format!("{}-", "é".repeat(40))),
        ["name part must be no more than 63 bytes", &name_form]
    );
    let three_parts = label_key_messages("a/b/c");
    assert_eq!(three_parts.len(), 1);
    assert!(three_parts[0].starts_with("a valid label key must consist of"));
    assert!(three_parts[0].ends_with("prefix and '/' (e.g. 'example.com/MyName')"));
}

#[test]
fn label_values_may_be_empty_but_not_odd() {
    assert!(label_value_messages("").is_empty());
    assert!(label_value_messages("a_b-c.d").is_empty());
    assert_eq!(label_value_messages("-a"), [LABEL_VALUE_FORM]);
    assert_eq!(label_value_messages(&"a".repeat(64)), ["must be no more than 63 bytes"]);
    assert_eq!(label_value_messages("a/b"), [LABEL_VALUE_FORM]);
}

#[test]
fn dns_names() {
    assert!(dns1123_subdomain_messages("a.b-c.0").is_empty());
    assert!(!dns1123_subdomain_messages("a..b").is_empty());
    assert!(!dns1123_subdomain_messages("").is_empty());
    assert_eq!(dns1123_subdomain_messages(&"a".repeat(254)), ["must be no more than 253 bytes"]);
    assert!(dns1123_label_messages("a-b").is_empty());
    assert_eq!(dns1123_label_messages("a.b"), ["must not contain dots"]);
    assert_eq!(dns1123_label_messages("A"), [DNS1123_LABEL_FORM]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, rng_seed: RngSeed::Fixed(36), ..ProptestConfig::default() })]

    #[test]
    fn generated_valid_keys_pass(prefix in "[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]{0,5}[a-z0-9])?){0,3}",
                                 name in "([A-Za-z0-9][-A-Za-z0-9_.]{0,20})?[A-Za-z0-9]") {
        prop_assert!(label_key_messages(&name).is_empty());
        let full = format!("{prefix}/{name}");
        prop_assert!(label_key_messages(&full).is_empty());
        prop_assert!(label_value_messages(&name).is_empty());
    }

    #[test]
    fn a_forbidden_character_is_never_accepted(head in "[A-Za-z0-9]{0,5}", odd in "[^-A-Za-z0-9_./]", tail in "[A-Za-z0-9]{0,5}") {
        let text = format!("{head}{odd}{tail}");
        prop_assert!(!label_key_messages(&text).is_empty());
        prop_assert!(!label_value_messages(&text).is_empty());
        prop_assert!(!dns1123_subdomain_messages(&text).is_empty());
    }
}
