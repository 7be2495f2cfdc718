//! Rendering of field errors, pinned to texts seen from the reference.

use super::*;

#[test]
fn kinds_print_as_upstream_does() {
    let path = FieldPath::new("profiles").index(1);
    let cases = [
        (
            FieldError::required(path.child("schedulerName"), ""),
            "profiles[1].schedulerName: Required value",
        ),
        (
            FieldError::required(FieldPath::new("topologyKey"), "can not be empty"),
            "topologyKey: Required value: can not be empty",
        ),
        (
            FieldError::duplicate(path.child("schedulerName"), BadValue::verbatim("{}")),
            "profiles[1].schedulerName: Duplicate value: {}",
        ),
        (
            FieldError::invalid(FieldPath::new("parallelism"), -1, "should be positive"),
            "parallelism: Invalid value: -1: should be positive",
        ),
        (
            FieldError::unsupported(FieldPath::new("type"), "x\n", &["System", "List"]),
            "type: Unsupported value: \"x\\n\": supported values: \"System\", \"List\"",
        ),
        (
            FieldError::forbidden(FieldPath::new("a").key("b/c"), "must be nil"),
            "a[b/c]: Forbidden: must be nil",
        ),
        (
            FieldError::invalid(FieldPath::root(), BadValue::null(), "empty"),
            "<nil>: Invalid value: null: empty",
        ),
    ];
    for (error, text) in cases {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn aggregate_drops_repeats_and_brackets_only_several() {
    assert_eq!(aggregate::<&str>([]), "");
    assert_eq!(aggregate(["a", "a"]), "a");
    assert_eq!(aggregate(["b", "a", "b"]), "[b, a]");
}

#[test]
fn strings_are_quoted_on_one_line() {
    assert_eq!(quoted("a\"b\\\t\u{07}\u{1}\u{7f}é\u{ad}\u{e000}\u{301}\u{a0}"), {
        "\"a\\\"b\\\\\\t\\a\\x01\\x7fé\\u00ad\\ue000\u{301}\\u00a0\""
    });
    assert_eq!(quoted("\u{10ffff}🙂"), "\"\\U0010ffff🙂\"");
}

#[test]
fn json_escapes_markup() {
    assert_eq!(json_text(&["<a&b>"]), "[\"\\u003ca\\u0026b\\u003e\"]");
}
