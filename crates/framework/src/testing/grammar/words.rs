//! What the words of a statement do to its object.

use kube_scheduler_api_types::well_known::{HOSTNAME, REGION, ZONE};
use kube_scheduler_api_types::{
    CPU, EPHEMERAL_STORAGE, LabelSelector, MEMORY, Operator, PODS, Quantity, Requirement,
    TaintEffect, Timestamp, is_scalar_resource,
};
use serde_json::{Map, Value, json};

use super::kinds::{COMMON, Kind};
use crate::testing::json::{merge, place, push};

type Path = &'static [&'static str];
type Problem = String;

/// One word of a kind.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) name: &'static str,
    /// What follows the name, for errors; its first character is what separates the two.
    pub(super) takes: &'static str,
    rule: Rule,
}

/// A word as the tables of kinds write it.
pub(super) const fn word(name: &'static str, takes: &'static str, rule: Rule) -> Word {
    Word { name, takes, rule }
}

/// Where a word's operand goes.
#[derive(Debug)]
pub(super) enum Rule {
    /// Becomes the string there.
    Text(Path),
    /// The same, if it is a quantity.
    Quantity(Path),
    /// The same, if it is a time.
    Time(Path),
    /// Becomes the number there.
    Number(Path),
    /// Becomes what the function makes of it.
    Value(Path, fn(&str) -> Result<Value, Problem>),
    /// Adds `KEY=VALUE` to the map there.
    Map(Path),
    /// Adds an item to the list there.
    Item(Path, fn(&str) -> Result<Value, Problem>),
    /// The same for items that need a name of their own: `v0`, `v1`, …
    Named(Path, fn(&str) -> Result<Value, Problem>),
    /// Takes no operand and sets what is there to true.
    Flag(Path),
    /// Merges what the function makes of it into the object.
    Merge(fn(&str) -> Value),
}

/// Carries one word out.
pub(super) fn apply(
    kind: &Kind,
    object: &mut Value,
    text: &str,
    json: Option<Value>,
) -> Result<(), Problem> {
    // JSON that stands alone has no name to look up: it is merged into the API object.
    if text.is_empty() {
        return match json {
            Some(json @ Value::Object(_)) => {
                merge(object, json);
                Ok(())
            }
            _ => Err("an empty word".into()),
        };
    }
    let end = text.find([':', '=']).unwrap_or(text.len());
    let (name, operand) = text.split_at(end);
    let word = kind.words.iter().chain(COMMON).find(|word| word.name == name);
    let separator = word.map_or("=", |word| word.takes.get(..1).unwrap_or_default());
    // Words come first, so that a resource cannot hide one; any other name may be a resource, such as `example.com/gpu`.
    let is_resource = word.is_none() && kind.resources.is_some() && is_resource(name);
    if word.is_none() && !is_resource {
        return Err(format!("unknown; {} takes {}", kind.word, allowed(kind)));
    }
    if let Some(json) = json {
        return match word.filter(|_| operand == "=") {
            Some(word) => word.rule.take_json(object, json),
            None => Err("takes no JSON".into()),
        };
    }
    let Some(operand) = operand.strip_prefix(separator).filter(|_| !separator.is_empty()) else {
        return match word {
            Some(Word { rule: Rule::Flag(path), .. }) if operand.is_empty() => {
                *place(object, path) = true.into();
                Ok(())
            }
            Some(word) => Err(format!("the form is {}{}", word.name, word.takes)),
            None => Err(format!("the form is {name}=QUANTITY")),
        };
    };
    match (word, kind.resources) {
        (Some(word), _) => word.rule.take(object, operand),
        (None, Some(path)) => {
            let path: Vec<&str> = path.iter().copied().chain([name]).collect();
            set(object, &path, operand, quantity)
        }
        (None, None) => Ok(()),
    }
}

fn is_resource(name: &str) -> bool {
    matches!(name, CPU | MEMORY | PODS | EPHEMERAL_STORAGE) || is_scalar_resource(name)
}

fn allowed(kind: &Kind) -> String {
    let resources = kind.resources.map(|_| "RESOURCE=QUANTITY".to_owned());
    let words = kind.words.iter().chain(COMMON);
    let words = words.map(|word| format!("{}{}", word.name, word.takes));
    resources.into_iter().chain(words).collect::<Vec<_>>().join(", ")
}

/// Puts what `read` makes of the operand at the path, or removes what is there if the operand is `-`.
fn set(
    object: &mut Value,
    path: &[&str],
    operand: &str,
    read: impl Fn(&str) -> Result<Value, Problem>,
) -> Result<(), Problem> {
    let Some((last, parent)) = path.split_last() else { return Ok(()) };
    if operand == "-" {
        if let Value::Object(map) = place(object, parent) {
            map.remove(*last);
        }
    } else {
        *place(place(object, parent), &[*last]) = read(operand)?;
    }
    Ok(())
}

impl Rule {
    fn take(&self, object: &mut Value, operand: &str) -> Result<(), Problem> {
        match self {
            Self::Text(path) => set(object, path, operand, text_item)?,
            Self::Quantity(path) => set(object, path, operand, quantity)?,
            Self::Time(path) => set(object, path, operand, time)?,
            Self::Number(path) => set(object, path, operand, |text| Ok(number(text)?.into()))?,
            Self::Value(path, read) => set(object, path, operand, read)?,
            Self::Map(path) => {
                let Some((key, value)) = operand.split_once('=') else {
                    return Err("the form is KEY=VALUE".into());
                };
                let path: Vec<&str> = path.iter().copied().chain([key]).collect();
                set(object, &path, value, text_item)?;
            }
            Self::Item(path, read) => push(place(object, path), read(operand)?),
            Self::Named(path, read) => push_named(object, path, read(operand)?),
            Self::Merge(read) => merge(object, read(operand)),
            Self::Flag(_) => return Err("takes nothing".into()),
        }
        Ok(())
    }

    fn take_json(&self, object: &mut Value, json: Value) -> Result<(), Problem> {
        match self {
            Self::Value(path, _) => *place(object, path) = json,
            Self::Item(path, _) => push(place(object, path), json),
            Self::Named(path, _) => push_named(object, path, json),
            _ => return Err("takes no JSON".into()),
        }
        Ok(())
    }
}

fn push_named(object: &mut Value, path: Path, mut item: Value) {
    let list = place(object, path);
    let n = list.as_array().map_or(0, Vec::len);
    if item.get("name").is_none() {
        *place(&mut item, &["name"]) = format!("v{n}").into();
    }
    push(list, item);
}

/// The text as a string.
pub(super) fn text_item(text: &str) -> Result<Value, Problem> {
    Ok(text.into())
}

fn quantity(text: &str) -> Result<Value, Problem> {
    parsed_quantity(text)?;
    Ok(text.into())
}

fn parsed_quantity(text: &str) -> Result<Quantity, Problem> {
    Quantity::parse(text).map_err(|error| error.to_string())
}

fn time(text: &str) -> Result<Value, Problem> {
    match Timestamp::parse(text) {
        Some(_) => Ok(text.into()),
        None => Err("a time is like 2026-01-31T23:59:59Z".into()),
    }
}

fn number(text: &str) -> Result<i64, Problem> {
    text.parse().map_err(|_| format!("{text:?} is no whole number"))
}

fn requirements(text: &str) -> Result<Vec<Requirement>, Problem> {
    let selector = LabelSelector::parse(text).map_err(|error| error.to_string())?;
    Ok(selector.requirements().to_vec())
}

fn expression(requirement: &Requirement) -> Value {
    let Requirement { key, operator, values } = requirement;
    let mut expression = json!({"key": **key, "operator": operator.as_str()});
    if !values.is_empty() {
        expression["values"] = values.iter().map(|value| Value::from(&**value)).collect();
    }
    expression
}

fn expressions<'r>(requirements: impl Iterator<Item = &'r Requirement>) -> Value {
    requirements.map(expression).collect()
}

/// `matchLabels` for what asks for one value, `matchExpressions` for the rest.
pub(super) fn label_selector(text: &str) -> Result<Value, Problem> {
    let requirements = requirements(text)?;
    let is_label = |r: &&Requirement| {
        let n_of_key = requirements.iter().filter(|other| other.key == r.key).count();
        r.operator == Operator::In && r.values.len() == 1 && n_of_key == 1
    };
    let labels = requirements.iter().filter(is_label);
    let labels: Map<String, Value> =
        labels.map(|r| (r.key.to_string(), Value::from(&*r.values[0]))).collect();
    let mut selector = Map::new();
    if labels.len() < requirements.len() {
        let rest = requirements.iter().filter(|requirement| !is_label(requirement));
        selector.insert("matchExpressions".into(), expressions(rest));
    }
    if !labels.is_empty() {
        selector.insert("matchLabels".into(), labels.into());
    }
    Ok(selector.into())
}

pub(super) fn node_term(text: &str) -> Result<Value, Problem> {
    Ok(json!({"matchExpressions": expressions(requirements(text)?.iter())}))
}

fn in_two<'t>(text: &'t str, form: &str) -> Result<(&'t str, &'t str), Problem> {
    text.split_once(':').ok_or_else(|| format!("the form is {form}"))
}

fn set_if_given(object: &mut Value, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        object[key] = value.into();
    }
}

fn topology_key(text: &str) -> Result<&str, Problem> {
    match text {
        "" => Err("a topology key is zone, region, host or the key of a node label".into()),
        "zone" => Ok(ZONE),
        "region" => Ok(REGION),
        "host" => Ok(HOSTNAME),
        key => Ok(key),
    }
}

fn effect(text: &str) -> Result<&str, Problem> {
    let effects = [TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule, TaintEffect::NoExecute];
    if effects.iter().any(|effect| effect.as_str() == text) {
        return Ok(text);
    }
    Err(format!("{text:?} is no effect; allowed are NoSchedule, PreferNoSchedule and NoExecute"))
}

pub(super) fn taint(text: &str) -> Result<Value, Problem> {
    let Some((taint, taint_effect)) = text.rsplit_once(':') else {
        return Err("the form is KEY[=VALUE]:EFFECT".into());
    };
    let (key, value) = taint.split_once('=').unwrap_or((taint, ""));
    Ok(json!({"key": key, "value": value, "effect": effect(taint_effect)?}))
}

pub(super) fn toleration(text: &str) -> Result<Value, Problem> {
    let (taint, taint_effect) = match text.rsplit_once(':') {
        Some((taint, word)) => (taint, Some(effect(word)?)),
        None => (text, None),
    };
    let mut toleration = match taint.split_once('=') {
        Some((key, value)) => json!({"key": key, "operator": "Equal", "value": value}),
        None if taint == "*" => json!({"operator": "Exists"}),
        None => json!({"key": taint, "operator": "Exists"}),
    };
    set_if_given(&mut toleration, "effect", taint_effect);
    Ok(toleration)
}

pub(super) fn image(text: &str) -> Result<Value, Problem> {
    let Some((name, size)) = text.rsplit_once('=') else { return Ok(json!({"names": [text]})) };
    Ok(json!({"names": [name], "sizeBytes": parsed_quantity(size)?.value()}))
}

pub(super) fn owner(uid: &str) -> Result<Value, Problem> {
    Ok(json!({"uid": uid, "controller": true}))
}

pub(super) fn preferred_node_term(text: &str) -> Result<Value, Problem> {
    let (weight, selector) = in_two(text, "WEIGHT:SELECTOR")?;
    Ok(json!({"weight": number(weight)?, "preference": node_term(selector)?}))
}

pub(super) fn affinity_term(text: &str) -> Result<Value, Problem> {
    let (key, selector) = in_two(text, "TOPOLOGY:SELECTOR")?;
    Ok(json!({"topologyKey": topology_key(key)?, "labelSelector": label_selector(selector)?}))
}

pub(super) fn preferred_affinity_term(text: &str) -> Result<Value, Problem> {
    let (weight, term) = in_two(text, "WEIGHT:TOPOLOGY:SELECTOR")?;
    Ok(json!({"weight": number(weight)?, "podAffinityTerm": affinity_term(term)?}))
}

pub(super) fn hard_spread(text: &str) -> Result<Value, Problem> {
    spread(text, "DoNotSchedule")
}

pub(super) fn soft_spread(text: &str) -> Result<Value, Problem> {
    spread(text, "ScheduleAnyway")
}

fn spread(text: &str, when_unsatisfiable: &str) -> Result<Value, Problem> {
    let (key, rest) = in_two(text, "TOPOLOGY:SKEW[:SELECTOR]")?;
    let (skew, selector) = match rest.split_once(':') {
        Some((skew, selector)) => (skew, Some(label_selector(selector)?)),
        None => (rest, None),
    };
    let mut constraint = json!({
        "topologyKey": topology_key(key)?, "maxSkew": number(skew)?,
        "whenUnsatisfiable": when_unsatisfiable,
    });
    set_if_given(&mut constraint, "labelSelector", selector);
    Ok(constraint)
}

pub(super) fn port(text: &str) -> Result<Value, Problem> {
    let (address, protocol) = match text.split_once('/') {
        Some((address, protocol)) => (address, Some(protocol)),
        None => (text, None),
    };
    let (ip, port) = match address.rsplit_once(':') {
        Some((ip, port)) => (Some(ip), port),
        None => (None, address),
    };
    let port = number(port)?;
    let mut port = json!({"containerPort": port, "hostPort": port});
    set_if_given(&mut port, "hostIP", ip);
    set_if_given(&mut port, "protocol", protocol);
    Ok(port)
}

pub(super) fn claim(name: &str) -> Result<Value, Problem> {
    Ok(json!({"persistentVolumeClaim": {"claimName": name}}))
}

pub(super) fn ephemeral(name: &str) -> Result<Value, Problem> {
    Ok(json!({"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}))
}

pub(super) fn volume(_: &str) -> Result<Value, Problem> {
    Err("the form is volume={\"hostPath\": {...}}: a volume as the API has it".into())
}

pub(super) fn gate(name: &str) -> Result<Value, Problem> {
    Ok(json!({"name": name}))
}

/// The policy of a PodGroup that needs so many pods at once.
pub(super) fn gang(min_count: &str) -> Result<Value, Problem> {
    Ok(json!({"gang": {"minCount": number(min_count)?}}))
}

pub(super) fn topology(key: &str) -> Result<Value, Problem> {
    Ok(json!({"key": topology_key(key)?}))
}

pub(super) fn access_modes(text: &str) -> Result<Value, Problem> {
    Ok(text.split(',').map(Value::from).collect())
}

/// What makes a claim fully bound.
pub(super) fn bound_volume(name: &str) -> Value {
    json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": name}, "status": {"phase": "Bound"},
    })
}

pub(super) fn claim_reference(text: &str) -> Result<Value, Problem> {
    let (key, uid) = text.split_once(':').unwrap_or((text, ""));
    let (namespace, name) = key.split_once('/').unwrap_or(("default", key));
    let uid = if text.contains(':') { uid.to_owned() } else { format!("{name}-uid") };
    Ok(json!({"namespace": namespace, "name": name, "uid": uid}))
}

pub(super) fn csi_volume(text: &str) -> Result<Value, Problem> {
    Ok(match text.split_once(':') {
        Some((driver, handle)) => json!({"driver": driver, "volumeHandle": handle}),
        None => json!({"driver": text}),
    })
}

pub(super) fn csi_driver(text: &str) -> Result<Value, Problem> {
    Ok(match text.split_once(':') {
        Some((name, count)) => json!({"name": name, "allocatable": {"count": number(count)?}}),
        None => json!({"name": text}),
    })
}
