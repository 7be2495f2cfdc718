//! No expression panics, however it is made, and no evaluation uses more than its budget by more than one operation.

use kube_scheduler_api_types::Quantity;
use kube_scheduler_cel::{AttributeValue, DeviceInput, Environment, EvalFailure, Options, Version};
use proptest::prelude::*;

/// What expressions are made of.
const TOKENS: &[&str] = &[
    "device",
    ".attributes",
    ".capacity",
    ".driver",
    "[\"gpu.example.com\"]",
    ".model",
    ".memory",
    ".version",
    ".tags",
    ".?big",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "?",
    ".",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "&&",
    "||",
    "==",
    "!=",
    "<",
    ">=",
    "in ",
    "1",
    "0",
    "2u",
    "1.5",
    "9223372036854775807",
    "\"a\"",
    "'süd'",
    "b'x'",
    "true",
    "false",
    "null",
    "x",
    "y",
    ".all(x, ",
    ".exists(x, ",
    ".map(x, ",
    ".filter(x, ",
    ".exists_one(x, ",
    ".transformMap(x, y, ",
    "cel.bind(x, ",
    "has(",
    ".optMap(x, ",
    ".sortBy(x, ",
    "lists.range(",
    "sets.contains(",
    "optional.of(",
    "optional.none()",
    ".orValue(",
    ".or(",
    ".size()",
    ".matches(",
    ".replace(",
    ".split(",
    ".join(",
    ".format(",
    ".substring(",
    ".indexOf(",
    ".flatten()",
    ".distinct()",
    ".sum()",
    ".max()",
    ".includes(",
    "quantity(",
    "semver(",
    "url(",
    "ip(",
    "cidr(",
    "duration(",
    "timestamp(",
    "int(",
    "string(",
    "dyn(",
    "type(",
    ".getHours(",
    ".isGreaterThan(",
    ".add(",
    ".value()",
    "format.uuid()",
    ".validate(",
    "\"(\"",
    "\"1.2.3\"",
];

/// Expressions that compile, to be changed.
const WHOLE: &[&str] = &[
    r#"device.attributes["gpu.example.com"].model == "a100" && device.capacity["gpu.example.com"].memory.compareTo(quantity("1Gi")) > 0"#,
    r#"cel.bind(a, device.attributes["gpu.example.com"], has(a.version) && a.version.isLessThan(semver("2.0.0")))"#,
    r#"lists.range(10).all(a, lists.range(10).exists(b, a + b == 9 || "x".matches("a.*")))"#,
    r#"[3, 1, 2].sortBy(x, -x).map(x, string(x)).join(",").split(",").filter(x, x != "1").size() == 2"#,
    r#""%s-%d|%x|%.2f|%b".format(["a", 1, 255, 1.5, 5]).replace("-", "").contains("a")"#,
    r#"url("https://a.b:80/p?q=1").getHost() == "a.b:80" ? ip("::1").isLoopback() : cidr("10.0.0.0/8").containsIP("10.0.0.1")"#,
    r#"{"a": [1, 2]}.transformMap(k, v, v.sum())["a"] == 3 && timestamp("2024-02-29T23:59:59Z").getHours("+05:30") == 5"#,
    r#"optional.of([[[1], [2]]]).optMap(x, x.flatten(2)).orValue([]).distinct().reverse() == [dyn(2), dyn(1)]"#,
    r#"device.attributes["gpu.example.com"].tags.exists(t, t.startsWith("f")) || device.attributes.exists(d, d.endsWith("com"))"#,
];

/// Well-formed expressions, mostly of fitting types; `dyn` hides types until run time.
fn well_formed() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(
        &[
            "1",
            "0",
            "-7",
            "9223372036854775807",
            "2u",
            "1.5",
            "\"a\"",
            "\"süd-ost\"",
            "\"1.2.3\"",
            "\"80Gi\"",
            "b'x'",
            "true",
            "[1, 2, 3]",
            "[]",
            "['b', 'a']",
            "{'k': 1}",
            "{}",
            "null",
            "dyn(1)",
            "dyn('a')",
            "dyn([1, 'a'])",
            "x",
            "optional.of(1)",
            "optional.none()",
            "device.attributes['gpu.example.com'].model",
            "device.attributes['gpu.example.com'].tags",
            "device.attributes['none'].?big",
            "device.capacity['gpu.example.com'].memory",
            "device.attributes",
            "device",
            "semver('1.0.0')",
            "quantity('1k')",
            "duration('1h')",
            "timestamp('2024-01-01T00:00:00Z')",
            "ip('::1')",
            "cidr('10.0.0.0/8')",
        ][..],
    );
    leaf.prop_map(str::to_owned).prop_recursive(5, 24, 3, |inner| {
        let unary = prop::sample::select(
            &[
                "(-#)",
                "(!#)",
                "size(#)",
                "dyn(#)",
                "string(#)",
                "int(#)",
                "uint(#)",
                "double(#)",
                "type(#)",
                "#.size()",
                "[#]",
                "{'k': #}",
                "#.reverse()",
                "#.distinct()",
                "#.sort()",
                "#.sum()",
                "#.max()",
                "#.flatten()",
                "#.first()",
                "#.value()",
                "#.hasValue()",
                "#.trim()",
                "#.lowerAscii()",
                "strings.quote(#)",
                "'%s'.format([#])",
                "quantity(#)",
                "isSemver(#)",
                "url(#)",
                "isIP(#)",
                "optional.of(#)",
                "optional.ofNonZeroValue(#)",
                "#.map(x, x)",
                "#.exists(x, x == 1)",
                "#.k",
                "#.?k",
                "has(#.k)",
                "#[0]",
                "#.sortBy(x, x)",
                "#.transformList(i, x, i)",
                "#.transformMap(i, x, x)",
                "#.isSorted()",
                "#.asInteger()",
                "#.getHours()",
                "lists.range(#)",
                "bytes(#)",
                "duration(#)",
                "timestamp(#)",
                "#.unwrapOpt()",
                "#.join('-')",
                "#.family()",
            ][..],
        );
        let binary = prop::sample::select(
            &[
                "(# + @)",
                "(# - @)",
                "(# * @)",
                "(# / @)",
                "(# % @)",
                "(# == @)",
                "(# != @)",
                "(# < @)",
                "(# >= @)",
                "(# in @)",
                "(# && @)",
                "(# || @)",
                "#.contains(@)",
                "#.matches(@)",
                "#.split(@)",
                "#.indexOf(@)",
                "#.lastIndexOf(@)",
                "#.substring(@)",
                "#.includes(@)",
                "sets.contains(#, @)",
                "sets.equivalent(#, @)",
                "#.orValue(@)",
                "#.or(@)",
                "#[@]",
                "#[?@]",
                "#.slice(0, @)",
                "#.replace(@, 'xy')",
                "cel.bind(x, #, @)",
                "#.map(x, @)",
                "#.all(x, @)",
                "#.filter(x, @)",
                "#.exists_one(x, @)",
                "(true ? # : @)",
                "#.add(@)",
                "#.compareTo(@)",
                "#.optMap(x, @)",
                "#.charAt(@)",
                "[#, @]",
                "{#: @}",
                "#.findAll(@)",
            ][..],
        );
        prop_oneof![
            (unary, inner.clone()).prop_map(|(with, a)| with.replace('#', &a)),
            (binary, inner.clone(), inner).prop_map(|(with, a, b)| {
                let (before, after) = with.split_once('@').unwrap();
                format!("{}{b}{}", before.replace('#', &a), after.replace('#', &a))
            }),
        ]
    })
}

/// The largest single operation is one whose cost is known only after it was done: passing over all the memory there may be.
const ONE_OPERATION: u64 = 20_000_000;

fn evaluate(expression: &str, budget: u64) {
    let version = Version::parse("1.2.3").unwrap();
    let memory = Quantity::parse("80Gi").unwrap();
    let tags = ["fast", "new"];
    let attributes = [
        ("model", AttributeValue::String("a100")),
        ("big", AttributeValue::Int(i64::MIN)),
        ("version", AttributeValue::Version(&version)),
        ("tags", AttributeValue::Strings(&tags)),
    ];
    let device = DeviceInput {
        driver: "gpu.example.com",
        allow_multiple_allocations: false,
        attributes: &attributes,
        capacity: &[("memory", &memory)],
    };
    let mut options = Options::default();
    options.list_type_attributes = true;
    let Ok(program) = Environment::devices(options).compile(expression) else { return };
    match program.evaluate(&device, budget) {
        Ok(outcome) => {
            assert!(outcome.cost <= budget);
            assert_eq!(program.evaluate(&device, budget), Ok(outcome), "the same again");
        }
        Err(error) if error.reason == EvalFailure::CostLimit => {
            assert!(error.cost > budget);
            // `lists.range` is charged before anything is made, so its cost says nothing about work done.
            let is_charged_in_advance = expression.contains("lists.range");
            assert!(is_charged_in_advance || error.cost <= budget.saturating_add(ONE_OPERATION));
        }
        Err(error) => assert!(error.cost <= budget || error.reason != EvalFailure::CostLimit),
    }
}

/// Another expression: some bytes replaced, removed or repeated.
fn mutated(expression: &str, changes: &[(prop::sample::Index, u8, prop::sample::Index)]) -> String {
    let mut chars: Vec<char> = expression.chars().collect();
    for (place, kind, token) in changes {
        if chars.is_empty() {
            break;
        }
        let at = place.index(chars.len());
        match kind % 4 {
            0 => drop(chars.remove(at)),
            1 => chars.insert(at, chars[at]),
            2 => {
                let token = TOKENS[token.index(TOKENS.len())];
                chars.splice(at..at, token.chars());
            }
            _ => chars[at] = char::from(b' ' + (kind / 4) % 95),
        }
    }
    chars.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn random_tokens(tokens in prop::collection::vec(prop::sample::select(TOKENS), 1..40), budget in 0_u64..5_000) {
        evaluate(&tokens.concat(), budget);
    }

    #[test]
    fn random_text(text in "\\PC{0,60}") {
        evaluate(&text, 1_000);
    }

    /// Whatever the types are, something is asked of the value.
    #[test]
    fn well_formed_expressions(expression in well_formed(), budget in 0_u64..20_000) {
        evaluate(&format!("cel.bind(x, dyn(1), dyn({expression}) == x)"), budget);
        evaluate(&format!("cel.bind(x, 'a', string(dyn({expression})) != x || size(dyn({expression})) > 0)"), budget);
    }

    #[test]
    fn changed_expressions(
        expression in prop::sample::select(WHOLE),
        changes in prop::collection::vec(any::<(prop::sample::Index, u8, prop::sample::Index)>(), 1..5),
        budget in 0_u64..5_000,
    ) {
        evaluate(&mutated(expression, &changes), budget);
    }

    /// A smaller budget only makes a difference if it is used up.
    #[test]
    fn budgets(expression in prop::sample::select(WHOLE), budget in 0_u64..2_000) {
        evaluate(expression, budget);
    }
}

#[test]
fn the_expressions_to_change_compile() {
    for expression in WHOLE {
        let mut options = Options::default();
        options.list_type_attributes = true;
        Environment::devices(options).compile(expression).unwrap();
    }
}

#[test]
fn what_cannot_be_paid_is_not_made() {
    evaluate("{lists.range(9223372036854775807): 1}", 0);
}
