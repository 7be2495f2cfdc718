//! Small cases per library function. Expected values follow the language definition and the documentation of the
//! Kubernetes libraries.

use kube_scheduler_api_types::Quantity;
use kube_scheduler_cel::{
    AttributeValue, CompileError, DeviceInput, Environment, EvalFailure, Options,
    SELECTOR_COST_LIMIT, Version,
};

fn environment(has_lists: bool) -> Environment {
    let mut options = Options::default();
    options.list_type_attributes = has_lists;
    Environment::devices(options)
}

/// The outcome of an expression for one device that has a bit of everything.
fn outcome(expression: &str) -> Result<bool, String> {
    let program = environment(true).compile(expression).map_err(|error| error.to_string())?;
    let (version, memory) = (Version::parse("1.2.3").unwrap(), Quantity::parse("80Gi").unwrap());
    let tags = ["fast", "new"];
    let attributes = [
        ("model", AttributeValue::String("a100")),
        ("cores", AttributeValue::Int(64)),
        ("shared", AttributeValue::Bool(true)),
        ("version", AttributeValue::Version(&version)),
        ("tags", AttributeValue::Strings(&tags)),
        ("sizes", AttributeValue::Ints(&[1, 2, 3])),
        ("other.example.com/rack", AttributeValue::String("r1")),
    ];
    let device = DeviceInput {
        driver: "gpu.example.com",
        allow_multiple_allocations: true,
        attributes: &attributes,
        capacity: &[("memory", &memory)],
    };
    program
        .evaluate(&device, SELECTOR_COST_LIMIT)
        .map(|outcome| outcome.value)
        .map_err(|error| error.to_string())
}

#[track_caller]
fn all_true(expressions: &[&str]) {
    for expression in expressions {
        assert_eq!(outcome(expression), Ok(true), "{expression}");
    }
}

#[track_caller]
fn all_fail(cases: &[(&str, &str)]) {
    for (expression, why) in cases {
        assert_eq!(outcome(expression), Err((*why).to_owned()), "{expression}");
    }
}

#[test]
fn devices() {
    all_true(&[
        r#"device.driver == "gpu.example.com" && device.allowMultipleAllocations"#,
        r#"device.attributes["gpu.example.com"].model == "a100""#,
        r#"device.attributes["other.example.com"].rack == "r1""#,
        r#"device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.0.0"))"#,
        r#"device.capacity["gpu.example.com"].memory.compareTo(quantity("64Gi")) > 0"#,
        r#"!("none.example.com" in device.attributes) && size(device.attributes["none.example.com"]) == 0"#,
        r#"!has(device.attributes["none.example.com"].model)"#,
        r#"device.attributes["gpu.example.com"].shared"#,
        r#"device.attributes["gpu.example.com"].?missing.orValue(7) == 7"#,
        r#"device.attributes.exists(d, d == "other.example.com")"#,
        r#"device.attributes["gpu.example.com"].tags.includes("fast")"#,
        r#"device.attributes["gpu.example.com"].model.includes("a100")"#,
        r#"device.attributes["gpu.example.com"].sizes.all(s, s < 4)"#,
        r#"device.attributes["gpu.example.com"].sizes[1] == 2"#,
    ]);
    all_fail(&[
        (r#"device.attributes["gpu.example.com"].missing == 1"#, "no such key: missing"),
        (r#"device.attributes["gpu.example.com"].sizes[5] == 1"#, "index out of bounds: 5"),
        (
            r#"device.attributes["gpu.example.com"].model"#,
            "CEL result of type string could not be converted to bool: unsupported native conversion from string \
             to 'bool'",
        ),
        (
            "lists.range(49).includes(99)",
            "'includes' function cannot be applied to lists longer than 48 values",
        ),
    ]);
}

#[test]
fn operators_and_literals() {
    all_true(&[
        "1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && 7 % 4 == 3 && -7 / 2 == -3",
        "0x1F == 31 && 1.5e3 == 1500.0 && .5 == 0.5 && 10u / 3u == 3u",
        "2 < 2.5 && 3u > 2 && -1 < 0u && dyn(1) == 1.0",
        r#""a\tb" == 'a	b' && r"\n" == "\\n" && "\u00fc" == "ü" && "\101" == "A" && b"\xff".size() == 1"#,
        "\"\"\"two\nlines\"\"\".size() == 9",
        "// a comment\n true",
        "[1, 2] + [3] == [1, 2, 3] && {'a': 1}['a'] == 1 && 2 in [1, 2] && 'a' in {'a': 1}",
        "(true ? 1 : 2) == 1 && (1/0 == 1 || true) && !(false && 1/0 == 1)",
        "null == null && type(1) == int && type([1]) == list && type(type) == type",
        "[1, ?optional.none(), ?optional.of(2)] == [1, 2] && {?'a': optional.none()}.size() == 0",
    ]);
    all_fail(&[
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("1u - 2u == 0u", "unsigned integer overflow"),
        ("{'a': 1}['b'] == 1", "no such key: b"),
    ]);
}

#[test]
fn macros() {
    all_true(&[
        "[1, 2, 3].all(x, x > 0) && [1, 2].exists(x, x == 2) && [1, 2, 2].exists_one(x, x == 1)",
        "[1, 2].map(x, x * 2) == [2, 4] && [1, 2, 3].map(x, x > 1, x * x) == [4, 9]",
        "[1, 2, 3].filter(x, x != 2) == [1, 3] && {'a': 1}.all(k, k == 'a')",
        "[5, 6].all(i, v, v == i + 5) && {'a': 1}.exists(k, v, v == 1) && [1].existsOne(i, v, v == 1)",
        "[5, 6].transformList(i, v, i + v) == [5, 7] && [5, 6].transformList(i, v, i > 0, v) == [6]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "['x', 'y'].transformMapEntry(i, v, {v: i}) == {'x': 0, 'y': 1}",
        "cel.bind(x, 2, cel.bind(y, x + 1, x * y)) == 6",
        "[3, 1, 2].sortBy(x, -x) == [3, 2, 1]",
        "optional.of(1).optMap(x, x + 1).value() == 2 && optional.of(1).optFlatMap(x, optional.of(x)).hasValue()",
        "[[1, 2], [3]].map(l, l.map(x, x + 1)) == [[2, 3], [4]]",
    ]);
    all_fail(&[(
        "['x', 'x'].transformMapEntry(i, v, {v: i}).size() == 1",
        "insert failed: key x already exists",
    )]);
}

#[test]
fn strings() {
    all_true(&[
        "'tacocat'.charAt(3) == 'o' && 'hello mellow'.indexOf('ello') == 1 && 'hello mellow'.lastIndexOf('ello') == 7",
        "'hello mellow'.indexOf('ello', 2) == 7 && 'hello mellow'.lastIndexOf('ello', 6) == 1 && 'a'.indexOf('') == 0",
        "['hello', 'mellow'].join(' ') == 'hello mellow' && ['a', 'b'].join() == 'ab' && [].join('-') == ''",
        "'TacoCat'.lowerAscii() == 'tacocat' && 'TacoCÆt'.upperAscii() == 'TACOCÆT'",
        "'hello hello'.replace('he', 'we') == 'wello wello' && 'hello hello'.replace('he', 'we', 1) == 'wello hello'",
        "'a b c'.split(' ') == ['a', 'b', 'c'] && 'a b c'.split(' ', 2) == ['a', 'b c'] && 'ab'.split('') == ['a', 'b']",
        "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco' && 'ta©o©αT'.substring(2, 6) == '©o©α'",
        "'  trim \\n'.trim() == 'trim' && strings.quote('a\\n\"') == '\"a\\\\n\\\\\"\"'",
        "'%s is %d, %.2f, %x and %b %%'.format(['a', 5, 1.5, 255, 5]) == 'a is 5, 1.50, ff and 101 %'",
        "'%s'.format([[1, 'a', 2.5]]) == '[1, \"a\", 2.500000]' && '%s'.format([{'b': 1, 'a': true}]) == '{\"a\":true, \"b\":1}'",
        "'%.1f'.format([1234567.25]) == '1,234,567.2' && '%X'.format(['hi']) == '6869'",
        "'abc'.contains('b') && 'abc'.startsWith('ab') && 'abc'.endsWith('bc') && 'abc'.matches('^[a-c]+$')",
        "size('süd') == 3 && 'a' < 'b' && 'a1b22'.find('[0-9]+') == '1' && 'a1b22'.findAll('[0-9]+') == ['1', '22']",
        "'a1b22'.findAll('[0-9]+', 1) == ['1']",
    ]);
    all_fail(&[
        ("'abc'.charAt(4) == ''", "index out of range: 4"),
        ("'abc'.substring(3, 1) == ''", "invalid substring range. start: 3, end: 1"),
    ]);
}

#[test]
fn lists_and_sets() {
    all_true(&[
        "[1, 2, 3, 4].slice(1, 3) == [2, 3] && [[1], [2, 3]].flatten() == [1, 2, 3]",
        "[[[1], [2]], [[3]]].flatten(2) == [1, 2, 3] && lists.range(3) == [0, 1, 2] && [1, 2].reverse() == [2, 1]",
        "[dyn(1), dyn(1.0), dyn(2)].distinct().size() == 2",
        "[1, 2, 1].distinct() == [1, 2] && [3, 1, 2].sort() == [1, 2, 3]",
        "[1, 2].first().value() == 1 && [1, 2].last().value() == 2 && ![].first().hasValue()",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && sets.intersects([1], [1, 2])",
        "[1, 2].isSorted() && [1, 2].sum() == 3 && [1, 2].max() == 2 && [2, 1].min() == 1",
        "[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && [duration('1s')].sum() == duration('1s')",
        "optional.unwrap([optional.of(1), optional.none()]) == [1] && [optional.of(1)].unwrapOpt() == [1]",
        "optional.none().or(optional.of(1)).value() == 1 && !optional.ofNonZeroValue('').hasValue()",
        "[1, 2][?5].orValue(9) == 9 && {'a': 1}[?'a'].value() == 1",
    ]);
    all_fail(&[
        ("[1].slice(0, 2) == [1]", "cannot slice(0, 2), list is length 1"),
        ("lists.range(0).max() == 1", "max called on empty list"),
        ("optional.none().value() == 1", "optional.none() dereference"),
    ]);
}

#[test]
fn conversions_and_times() {
    all_true(&[
        "int('12') == 12 && int(1.9) == 1 && uint(3) == 3u && double('1.5') == 1.5 && string(1.5) == '1.5'",
        "bool('true') && bytes('ü').size() == 2 && string(b'ab') == 'ab' && string(1e21) == '1e+21'",
        "duration('1h30m').getMinutes() == 90 && duration('1.5s').getMilliseconds() == 1500 && string(duration('90s')) == '90s'",
        "timestamp('2024-02-29T23:59:59Z').getDayOfYear() == 59 && timestamp('2024-02-29T23:59:59Z').getMonth() == 1",
        "timestamp('2024-02-29T23:59:59Z').getDayOfMonth() == 28 && timestamp('2024-02-29T23:59:59Z').getDate() == 29",
        "timestamp('2024-02-29T23:59:59Z').getHours('+05:30') == 5 && timestamp('2024-02-29T23:59:59Z').getDayOfWeek() == 4",
        "timestamp('2024-07-01T00:00:00Z').getHours('Europe/Berlin') == 2",
        "timestamp('2024-01-01T00:00:00Z') + duration('1h') == timestamp('2024-01-01T01:00:00Z')",
        "timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('24h')",
        "string(timestamp('1999-12-31T00:00:00+02:00')) == '1999-12-31T00:00:00+02:00' && timestamp(0).getFullYear() == 1970",
        "timestamp('2024-05-06T07:08:09.123Z').getMilliseconds() == 123 && int(timestamp('1970-01-01T00:01:00Z')) == 60",
    ]);
}

#[test]
fn kubernetes_libraries() {
    all_true(&[
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('1k').asInteger() == 1000 && isQuantity('1.5')",
        "quantity('50k').add(quantity('20k')).compareTo(quantity('70k')) == 0 && quantity('5').sub(7).isLessThan(quantity('0'))",
        "!quantity('1500m').isInteger() && quantity('1500m').asApproximateFloat() == 1.5 && sign(quantity('-1')) == -1",
        "isSemver('1.2.3') && !isSemver('v1.2') && isSemver('v1.2', true) && semver('1.2.3').minor() == 2",
        "semver('1.0.0-alpha.1').isLessThan(semver('1.0.0-alpha.beta')) && semver('01.1', true).major() == 1",
        "url('https://example.com:80/p%20q?a=1&a=2').getHost() == 'example.com:80' && !isURL('nope')",
        "cel.bind(u, url('https://u@[::1]:80/a b?x=y'), u.getHostname() == '::1' && u.getPort() == '80' && u.getEscapedPath() == '/a%20b')",
        "url('/path?k=v&k=w').getQuery() == {'k': ['v', 'w']} && url('HTTP://a/').getScheme() == 'http'",
        "ip('10.0.0.1').family() == 4 && ip('::1').isLoopback() && isIP('fe80::1') && !isIP('10.0.0.256') && !ip.isCanonical('::0001')",
        "ip('fe80::1').isLinkLocalUnicast() && ip('224.0.0.1').isLinkLocalMulticast() && ip('8.8.8.8').isGlobalUnicast()",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !isCIDR('10.0.0.0')",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('::/0').prefixLength() == 0 && string(cidr('10.1.2.3/8').ip()) == '10.1.2.3'",
        "!format.dns1123Label().validate('abc').hasValue() && format.dns1123Label().validate('A_').hasValue()",
        "format.named('uuid').value().validate('x').hasValue() && !format.named('nope').hasValue()",
        "!format.date().validate('2024-02-29').hasValue() && format.byte().validate('a').hasValue()",
    ]);
    all_fail(&[
        (
            "ip('300.1.1.1').family() == 4",
            "IP Address \"300.1.1.1\" parse error during conversion from string: ParseAddr(\"300.1.1.1\"): IPv4 \
             field has value >255",
        ),
        (
            "url('nope').getHost() == ''",
            "URL parse error during conversion from string: parse \"nope\": invalid URI for request",
        ),
        ("semver('1.2').minor() == 2", "No Major.Minor.Patch elements found"),
        ("quantity('1500m').asInteger() == 1", "cannot convert value to integer"),
    ]);
}

#[test]
fn what_is_refused() {
    let refused = |expression: &str| environment(false).compile(expression).unwrap_err();
    let message = |expression: &str| match refused(expression) {
        CompileError::Invalid { message, .. } => message,
        other => other.to_string(),
    };
    for expression in [
        "",
        "1 +",
        "device.in",
        "'a",
        "a ? b",
        "[1, 2",
        "1 == 1 extra",
        "as",
        "-!true",
        "f(",
        "`a`",
    ] {
        assert!(matches!(refused(expression), CompileError::Invalid { .. }), "{expression}");
    }
    assert!(
        message("1 == 'a'").contains("no matching overload for '_==_' applied to '(int, string)'")
    );
    assert!(message("device.nothing").contains("undefined field 'nothing'"));
    assert!(message("unknown").contains("undeclared reference to 'unknown'"));
    assert!(message("[1, 'a'].size() == 2").contains("expected type 'int' but found 'string'"));
    assert!(message("'a'.matches('(')").contains("invalid matches argument"));
    assert!(message("duration('x') == duration('1s')").contains("invalid duration argument"));
    assert!(message("has(1)").contains("invalid argument to has() macro"));
    assert_eq!(message("1"), "must evaluate to bool or the unknown type, not int");
    assert_eq!(
        message("int('x') == 1"),
        "program instantiation failed: type conversion error from 'string' to 'int'"
    );
    assert_eq!(
        refused("true &&\n  1 == ''"),
        CompileError::Invalid {
            line: 2,
            column: 5,
            message: "found no matching overload for '_==_' applied to '(int, string)'".to_owned()
        }
    );
}

#[test]
fn everything_is_bounded() {
    let device = DeviceInput {
        driver: "d",
        allow_multiple_allocations: false,
        attributes: &[],
        capacity: &[],
    };
    let reason = |expression: &str| {
        let program = environment(false).compile(expression).unwrap();
        program.evaluate(&device, SELECTOR_COST_LIMIT).unwrap_err().reason
    };
    assert_eq!(reason("lists.range(1000000000000).size() == 1"), EvalFailure::CostLimit);
    let nested =
        "lists.range(100).all(a, lists.range(100).all(b, lists.range(100).all(c, a + b + c >= 0)))";
    assert_eq!(reason(nested), EvalFailure::CostLimit);
    // Each step doubles a list at the cost of one unit.
    let doubled =
        (0..40).fold("a.size() == 1".to_owned(), |inner, _| format!("cel.bind(a, a + a, {inner})"));
    assert_eq!(reason(&format!("cel.bind(a, [1], {doubled})")), EvalFailure::MemoryLimit);
    // Comparing costs as much as the outer list is long.
    let copies = "[a, a, a, a, a, a, a, a, a, a]";
    let deep = (0..9).fold("a == b".to_owned(), |inner, _| {
        format!("cel.bind(a, {copies}, cel.bind(b, {}, {inner}))", copies.replace('a', "b"))
    });
    assert_eq!(
        reason(&format!("cel.bind(a, [1], cel.bind(b, [1], {deep}))")),
        EvalFailure::StepLimit
    );

    let long = format!("'{}' == ''", "a".repeat(20_000));
    let parens = format!("{}true{}", "(".repeat(4_000), ")".repeat(4_000));
    let chain = format!("{}1 == 1", "1 + ".repeat(2_000));
    let copied = format!("optional.of(1){}.hasValue()", ".optMap(x, x)".repeat(40));
    let typed =
        (0..40).fold("true".to_owned(), |inner, _| format!("cel.bind(a, {{a: a}}, {inner})"));
    for expression in [long, parens, chain, copied, format!("cel.bind(a, 1, {typed})")] {
        let error = environment(false).compile(&expression).unwrap_err();
        assert!(matches!(error, CompileError::Invalid { .. }), "{error}");
    }
}

/// What is just within the limits is evaluated on the stack of a thread of the test harness.
#[test]
fn deep_expressions_are_evaluated() {
    let parens = format!("{}true{}", "(".repeat(240), ")".repeat(240));
    let lists = format!(
        "{}1{} == {}1{}",
        "[".repeat(240),
        "]".repeat(240),
        "[".repeat(240),
        "]".repeat(240)
    );
    let sum = format!("{}1 == 245", "1 + ".repeat(244));
    let binds = (0..240).fold("a == 1".to_owned(), |inner, _| format!("cel.bind(a, a, {inner})"));
    let loops = (0..80).fold("true".to_owned(), |inner, _| format!("[1].all(a, {inner})"));
    let conditions = format!("{}true", "false ? false : ".repeat(240));
    let selections = format!("!has(device{}.a)", ".?attributes".repeat(200));
    for expression in
        [parens, lists, sum, format!("cel.bind(a, 1, {binds})"), loops, conditions, selections]
    {
        assert_eq!(outcome(&expression), Ok(true), "{expression}");
    }
}
