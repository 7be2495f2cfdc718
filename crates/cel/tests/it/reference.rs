//! Single expressions as the reference answers them: results, messages, costs and estimates that no documentation has.

use kube_scheduler_api_types::Quantity;
use kube_scheduler_cel::{
    AttributeValue, DeviceInput, Environment, Options, Program, SELECTOR_COST_LIMIT, Version,
};

fn compiled(expression: &str) -> Result<Program, String> {
    let mut options = Options::default();
    options.list_type_attributes = true;
    Environment::devices(options).compile(expression).map_err(|error| error.to_string())
}

/// The result or the message, and the cost.
fn outcome(expression: &str) -> (Result<bool, String>, u64) {
    let program = match compiled(expression) {
        Ok(program) => program,
        Err(why) => return (Err(why), 0),
    };
    let (version, memory) = (Version::parse("1.2.3").unwrap(), Quantity::parse("80Gi").unwrap());
    let attributes = [
        ("model", AttributeValue::String("a100")),
        ("numa", AttributeValue::Int(1)),
        ("shared", AttributeValue::Bool(true)),
        ("version", AttributeValue::Version(&version)),
    ];
    let device = DeviceInput {
        driver: "d",
        allow_multiple_allocations: false,
        attributes: &attributes,
        capacity: &[("memory", &memory)],
    };
    match program.evaluate(&device, SELECTOR_COST_LIMIT) {
        Ok(outcome) => (Ok(outcome.value), outcome.cost),
        Err(error) => (Err(error.to_string()), error.cost),
    }
}

#[track_caller]
fn all_true(expressions: &[&str]) {
    for expression in expressions {
        assert_eq!(outcome(expression).0, Ok(true), "{expression}");
    }
}

#[track_caller]
fn all_fail(cases: &[(&str, &str)]) {
    for (expression, why) in cases {
        assert_eq!(outcome(expression).0, Err((*why).to_owned()), "{expression}");
    }
}

#[test]
fn exists_one_has_its_newer_name_with_two_variables_only() {
    all_true(&[
        "[1].existsOne(i, v, v == 1) && [1].exists_one(i, v, v == 1) && [1].exists_one(v, v == 1)",
    ]);
    let why = compiled("[1].existsOne(v, v == 1)").unwrap_err();
    assert!(why.contains("undeclared reference"), "{why}");
}

#[test]
fn equality_of_kubernetes_types_costs_one() {
    for (expression, cost) in [
        ("quantity('1') == quantity('1')", 3),
        ("ip('::1') == ip('::1')", 3),
        ("ip('::1') != ip('::1')", 4),
        ("cidr('::/0') == cidr('::/0')", 3),
        ("cidr('::/0') != cidr('::/0')", 2),
        ("cidr('::1/128') == cidr('::1/128')", 3),
    ] {
        assert_eq!(outcome(expression).1, cost, "{expression}");
    }
}

#[test]
fn parts_of_a_map_of_a_domain_have_the_size_of_the_last_one() {
    for (expression, estimate) in [
        ("device.capacity['d'].exists(k, v, k == 'memory')", 164),
        ("device.capacity['d'].exists(k, k == 'memory')", 196),
        ("device.capacity.all(d, m, m.exists(k, v, k == 'a'))", 5283),
        ("cel.bind(v, device.attributes['d'], v.all(k, v.a == k))", 431),
        ("cel.bind(v, device.attributes['d'], v.all(k, k == v.a))", 335),
        ("cel.bind(v, device.capacity['d'], v.all(k, v.exists(j, w, w == w) && k == 'a'))", 7375),
    ] {
        assert_eq!(compiled(expression).unwrap().estimated_cost(), estimate, "{expression}");
    }
}

#[test]
fn what_go_cannot_hash_is_not_looked_for() {
    const SEMVER: &str = "internal error: runtime error: hash of unhashable type cel.Semver";
    const BYTES: &str = "internal error: runtime error: hash of unhashable type types.Bytes";
    all_fail(&[
        ("device.attributes['d'].version in ['1.2.3']", SEMVER),
        ("device.attributes['d'].version in [1, 2] || true", SEMVER),
        ("dyn(b'a') in ['a']", BYTES),
        ("{semver('1.2.3'): 1}.size() == 1", SEMVER),
        ("dyn(semver('1.2.3')) in {1: 1}", SEMVER),
        ("[1].transformMapEntry(i, v, {semver('1.2.3'): v}).size() == 1", SEMVER),
        (
            "{format.uuid(): 1}.size() == 1",
            "internal error: runtime error: hash of unhashable type cel.Format",
        ),
        (
            "{b'a': 1}.size() == 1",
            "program instantiation failed: types.Bytes can be no key of a map",
        ),
    ]);
    all_true(&[
        "!(device.attributes['d'].version in [])",
        "device.attributes['d'].version in [semver('1.2.3')]",
        "!(dyn([1]) in [1]) && !(dyn(quantity('1')) in ['1']) && !(dyn(b'a') in device.attributes)",
    ]);
}

#[test]
fn keys_can_be_of_other_types() {
    all_true(&[
        "{device.capacity['d'].memory: 1}.size() == 1 && {[1]: 1}.size() == 1 && {dyn({1: 2}): 1}.size() == 1",
        "{ip('::1'): 1, ip('::1'): 2}.size() == 1 && {cidr('::1/1'): 1, cidr('::1/1'): 2}.size() == 1",
        "{url('http://a'): 1}.size() == 1 && {optional.none(): 1, optional.none(): 2}.size() == 1",
        // Values in pointers only equal themselves.
        "{quantity('1'): 1, quantity('1'): 2}.size() == 2 && {optional.of(1): 1} != {optional.of(1): 1}",
        "cel.bind(q, quantity('1'), {q: 1, q: 2}.size() == 1 && q in {q: 1}) && {[1]: 1, [1]: 2}.size() == 2",
        "device.capacity['d'].memory in {device.capacity['d'].memory: 1}",
        "{quantity('2'): 2, quantity('1'): 1}.all(k, v, k == quantity('2') ? v == 2 : v == 1)",
        "cel.bind(m, {quantity('1'): 1}, m == m)",
    ]);
    all_fail(&[
        ("{ip('::1'): 1}[ip('::1')] == 1", "invalid qualifier type: cel.IP"),
        ("{1: 1}[?dyn(semver('1.2.3'))].hasValue()", "invalid qualifier type: cel.Semver"),
        (
            "{dyn([1]): 1}[dyn([1])] == 1",
            "program instantiation failed: invalid qualifier type: *types.baseList",
        ),
        ("{int: 1}[int] == 1", "program instantiation failed: invalid qualifier type: *types.Type"),
        (
            "[1e6, 1e6].transformMapEntry(i, v, {v: i}) == {}",
            "insert failed: key 1e+06 already exists",
        ),
    ]);
}

#[test]
fn ranges_are_named_as_in_go() {
    for (value, go_type) in [
        ("null", "types.Null"),
        ("true", "types.Bool"),
        ("1", "types.Int"),
        ("1u", "types.Uint"),
        ("1.5", "types.Double"),
        ("'a'", "types.String"),
        ("b'a'", "types.Bytes"),
        ("duration('1s')", "types.Duration"),
        ("timestamp(0)", "types.Timestamp"),
        ("int", "*types.Type"),
        ("optional.none()", "*types.Optional"),
        ("quantity('1')", "cel.Quantity"),
        ("quantity('1').add(1)", "*cel.Quantity"),
        ("semver('1.2.3')", "cel.Semver"),
        ("url('http://a')", "cel.URL"),
        ("ip('::1')", "cel.IP"),
        ("cidr('::1/1')", "cel.CIDR"),
        ("format.uuid()", "cel.Format"),
    ] {
        all_fail(&[
            (
                &format!("dyn({value}).all(x, true)"),
                &format!("got '{go_type}', expected iterable type"),
            ),
            (
                &format!("dyn({value}).all(x, y, true)"),
                &format!("unsupported comprehension range type: {go_type}"),
            ),
        ]);
    }
}

#[test]
fn addresses_that_cannot_be_read() {
    const IP: &str = "parse error during conversion from string: ParseAddr";
    let cidr = |text: &str, why: &str| {
        let twice = "network address parse error during conversion from string: ".repeat(2);
        (
            format!("cidr('{text}') == cidr('::/0')"),
            format!("{twice}netip.ParsePrefix(\"{text}\"): {why}"),
        )
    };
    for (expression, why) in [
        (
            "ip('1..2.3').family() == 4".to_owned(),
            format!(
                "IP Address \"1..2.3\" {IP}(\"1..2.3\"): IPv4 field must have at least one digit (at \".2.3\")"
            ),
        ),
        (
            "ip.isCanonical('1:2z')".to_owned(),
            format!(
                "IP Address \"1:2z\" {IP}(\"1:2z\"): unexpected character, want colon (at \"z\")"
            ),
        ),
        (
            "ip('fe80::1%eth0').family() == 4".to_owned(),
            "IP address \"fe80::1%eth0\" with zone value is not allowed".to_owned(),
        ),
        cidr("::", "no '/'"),
        cidr(
            "http://a b",
            "ParseAddr(\"http:/\"): each colon-separated field must have at least one digit (at \"http:/\")",
        ),
        cidr("fe80::1%a/64", "IPv6 zones cannot be present in a prefix"),
        cidr("::/300", "prefix length out of range"),
        cidr("::/08", "bad bits after slash: \"08\""),
    ] {
        assert_eq!(outcome(&expression).0, Err(why), "{expression}");
    }
}

#[test]
fn calls_of_values_of_the_wrong_type() {
    all_fail(&[
        ("device.attributes['d'].numa.matches('a')", "no such overload"),
        ("device.attributes['d'].numa.find('x') == ''", "no such overload"),
        ("device.attributes['d'].numa.findAll('x', 1) == []", "no such overload"),
        (
            "device.attributes['d'].numa.matches(device.attributes['d'].model)",
            "no such overload: matches",
        ),
        (
            "device.attributes['d'].numa.find(device.attributes['d'].model) == ''",
            "no such overload: find(int, string)",
        ),
        ("device.attributes['d'].shared.flatten() == []", "no such overload: bool.flatten()"),
        (
            "device.attributes['d'].version.flatten(1) == []",
            "no such overload: kubernetes.Semver.flatten(int)",
        ),
        ("[dyn([1])].max() == 1", "no such overload: max(list)"),
        ("[dyn(quantity('1'))].min() == 1", "no such overload: min(list)"),
        ("[dyn(null)].isSorted()", "no such overload: isSorted(list)"),
        ("[dyn(1), dyn([1])].max() == 1", "no such overload"),
        ("[dyn(1)].join(',') == '1'", "no such overload: join(list, string)"),
        ("[dyn('a'), dyn(1)].join() == ''", "join: invalid input: 1"),
        ("size(dyn(ip('::1'))) == 1", "no such overload: size"),
        ("dyn(cidr('::1/64')).size() == 1", "no such overload: size"),
    ]);
}

#[test]
fn small_matters_of_text() {
    all_true(&[
        "double('0x1p4') == 16.0 && double('1_0') == 10.0",
        "'%e'.format([double('nan')]) == '   NaN' && '%.3e'.format([double('-inf')]) == ' -∞'",
        "'%.0e'.format(['Infinity']) == '∞' && '%f'.format(['NaN']) == 'NaN'",
        "[format.date().validate('0000-02-29'), format.date().validate('0000-02-30')].map(v, v.hasValue()) == [false, true]",
        "timestamp(0).getHours('US/Pacific') == 16 && timestamp(0).getHours('UTC') == 0",
    ]);
    all_fail(&[
        ("timestamp(0).getHours('../x') == 0", "time: invalid location name"),
        ("timestamp(0).getHours('/x') == 0", "time: invalid location name"),
        (r"timestamp(0).getHours('\\a') == 0", "time: invalid location name"),
        (r"timestamp(0).getHours('a\\b') == 0", r"unknown time zone a\b"),
        ("timestamp(0).getHours('us/pacific') == 0", "unknown time zone us/pacific"),
        (
            "dyn(int)",
            "CEL result of type type could not be converted to bool: type conversion not supported for 'type'",
        ),
        (
            "dyn(optional.of(format.uuid()))",
            "CEL result of type optional_type could not be converted to bool: type conversion error from \
             'Format' to 'bool'",
        ),
    ]);
}
