//! `config migrate`: the v1 form of a file for an older version, as far as it can be said.
//!
//! Invariants: what is printed can be decoded; whatever is left out or means something else now is reported, with its path.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use kube_scheduler_config::{
    ConfigDecodeError, DecodeOutcome, RetiredKind, decode_as_far_as_possible, retired, to_yaml,
};
use serde_json::{Map, Value, json};

use super::read_or_stdin;
use crate::commands::print;

const V1: &str = "kubescheduler.config.k8s.io/v1";
const KIND: &str = "KubeSchedulerConfiguration";

/// Write the v1 form of a configuration file or policy of an older version.
///
/// The file goes to standard output; what could not be carried over, or means something else now, is reported on standard error.
/// Ends with 0 when everything was carried over, with 1 when something was not, with 2 when the file cannot be read.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The file, at most 16 MiB; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let migrated = read_or_stdin(&args.file)
        .and_then(|text| migrate(&text).with_context(|| args.file.display().to_string()));
    let Migration { text, remarks } = match migrated {
        Ok(migrated) => migrated,
        Err(error) => {
            crate::failure::report(&error);
            return Ok(ExitCode::from(2));
        }
    };
    print(&text)?;
    for remark in &remarks {
        eprintln!("not carried over: {remark}");
    }
    Ok(if remarks.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Debug)]
struct Migration {
    text: String,
    /// What is left out or means something else now.
    remarks: Vec<String>,
}

fn migrate(text: &str) -> Result<Migration> {
    let value: Value = serde_saphyr::from_str(text).context("not YAML or JSON")?;
    let Value::Object(mut old) = value else { bail!("expected an object at the top") };
    let kind = old.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let version = old.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut remarks = Vec::new();
    let new = match kind.as_str() {
        "Policy" => from_policy(&old, &mut remarks),
        KIND if version == V1 || retired(RetiredKind::ApiVersion, &version).is_some() => {
            from_configuration(&mut old, &version, &mut remarks);
            old
        }
        _ => bail!("no configuration of any version: kind {kind:?}, apiVersion {version:?}"),
    };
    let mut new = Value::Object(new);
    new["apiVersion"] = V1.into();
    new["kind"] = KIND.into();
    let DecodeOutcome { configuration, errors } = decode_as_far_as_possible(&new.to_string());
    for error in errors {
        match error {
            // Fields that are gone are reported with what replaces them, and are left out by writing what was read.
            ConfigDecodeError::Strict(complaints) => remarks.extend(
                complaints
                    .into_iter()
                    .map(|complaint| ConfigDecodeError::Strict(vec![complaint]).to_string()),
            ),
            other => remarks.push(other.to_string()),
        }
    }
    let configuration = configuration.ok_or_else(|| anyhow!("{}", remarks.join("; ")))?;
    Ok(Migration { text: to_yaml(&configuration)?, remarks })
}

/// Turns a configuration of an older version into one of v1, in place.
fn from_configuration(config: &mut Map<String, Value>, version: &str, remarks: &mut Vec<String>) {
    let mut profile = Map::new();
    // Before profiles there was one set of plugins, at the top.
    for field in ["schedulerName", "plugins", "pluginConfig"] {
        if let Some(value) = config.remove(field) {
            profile.insert(field.to_owned(), value);
        }
    }
    if let Some(weight) = config.remove("hardPodAffinitySymmetricWeight") {
        set_arg(&mut profile, "InterPodAffinity", "hardPodAffinityWeight", weight);
    }
    if let Some(seconds) = config.remove("bindTimeoutSeconds") {
        set_arg(&mut profile, "VolumeBinding", "bindTimeoutSeconds", seconds);
    }
    if config.remove("disablePreemption") == Some(Value::Bool(true)) {
        list(&mut profile, "postFilter", "disabled").push(json!({"name": "DefaultPreemption"}));
    }
    if !profile.is_empty() {
        let profiles = config.entry("profiles").or_insert_with(|| json!([]));
        if let Some(profiles) = profiles.as_array_mut() {
            profiles.insert(0, profile.into());
        }
    }
    for field in ["healthzBindAddress", "metricsBindAddress", "algorithmSource"] {
        let is_set = config.remove(field).is_some_and(|value| !is_empty(&value));
        if let (true, Some(gone)) = (is_set, retired(RetiredKind::Field, field)) {
            remarks.push(format!("{field}, {gone}"));
        }
    }
    let profiles = config.get_mut("profiles").and_then(Value::as_array_mut);
    for (index, profile) in profiles.into_iter().flatten().enumerate() {
        if let Some(profile) = profile.as_object_mut() {
            let path = format!("profiles[{index}]");
            plugins_of_today(profile, &path, remarks);
            args_of_today(profile, &path, remarks);
        }
    }
    if version.contains("alpha") || version.ends_with("v1beta1") || version.ends_with("v1beta2") {
        remarks.push(
            "the default weights of older versions: InterPodAffinity and NodeAffinity have 2 now instead of 1, \
             TaintToleration 3; give weights to keep them"
                .to_owned(),
        );
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_str() == Some("")
}

/// Puts the plugins of today in the place of those that are gone.
fn plugins_of_today(profile: &mut Map<String, Value>, path: &str, remarks: &mut Vec<String>) {
    let Some(plugins) = profile.get_mut("plugins").and_then(Value::as_object_mut) else { return };
    if plugins.remove("unreserve").is_some_and(|set| !set.is_null()) {
        remarks.push(format!("{path}.plugins.unreserve, gone since v1.19: reserve does both"));
    }
    for (point, set) in plugins.iter_mut() {
        for half in ["enabled", "disabled"] {
            let Some(list) = set.get_mut(half).and_then(Value::as_array_mut) else { continue };
            let mut kept: Vec<Value> = Vec::new();
            for mut plugin in std::mem::take(list) {
                let name = plugin["name"].as_str().unwrap_or_default().to_owned();
                if let Some(gone) = retired(RetiredKind::Plugin, &name) {
                    remarks.push(format!("{path}.plugins.{point}.{half}: {name}, {gone}"));
                    match gone.plugins {
                        // Disabling what is gone must not disable what does more than its work.
                        [now] if half == "enabled" => plugin["name"] = (*now).into(),
                        _ => continue,
                    }
                }
                if kept.iter().all(|other| other["name"] != plugin["name"]) {
                    kept.push(plugin);
                }
            }
            *list = kept;
        }
    }
}

/// Gives arguments the version of today, and those of plugins that are gone to the plugins that do their work.
fn args_of_today(profile: &mut Map<String, Value>, path: &str, remarks: &mut Vec<String>) {
    let Some(configs) = profile.get_mut("pluginConfig").and_then(Value::as_array_mut) else {
        return;
    };
    let mut kept: Vec<Value> = Vec::new();
    for (number, mut config) in std::mem::take(configs).into_iter().enumerate() {
        let name = config["name"].as_str().unwrap_or_default().to_owned();
        if let Some(args) = config.get_mut("args").and_then(Value::as_object_mut)
            && args.contains_key("apiVersion")
        {
            args.insert("apiVersion".to_owned(), V1.into());
        }
        let strategy = match name.as_str() {
            "NodeResourcesLeastAllocated" => Some("LeastAllocated"),
            "NodeResourcesMostAllocated" => Some("MostAllocated"),
            "RequestedToCapacityRatio" => Some("RequestedToCapacityRatio"),
            _ => None,
        };
        if let Some(strategy) = strategy {
            let mut scoring = json!({"type": strategy});
            if let Some(resources) = config["args"].get("resources") {
                scoring["resources"] = resources.clone();
            }
            if let Some(shape) = config["args"].get("shape") {
                scoring["requestedToCapacityRatio"] = json!({"shape": shape});
            }
            config = json!({"name": "NodeResourcesFit", "args": {"scoringStrategy": scoring}});
        } else if let Some(gone) = retired(RetiredKind::Plugin, &name) {
            remarks.push(format!("{path}.pluginConfig[{number}]: {name}, {gone}"));
            continue;
        }
        let is_same = |other: &&mut Value| other.is_object() && other["name"] == config["name"];
        match kept.iter_mut().find(is_same) {
            Some(other) => {
                let more = config["args"].as_object().cloned().unwrap_or_default();
                let args = object(&mut other["args"]);
                more.into_iter().for_each(|(field, value)| args[field] = value);
            }
            None => kept.push(config),
        }
    }
    *configs = kept;
}

/// The profile that does what a policy asked for.
fn from_policy(policy: &Map<String, Value>, remarks: &mut Vec<String>) -> Map<String, Value> {
    let mut profile = Map::new();
    let points = [
        ("predicates", RetiredKind::Predicate, "filter"),
        ("priorities", RetiredKind::Priority, "score"),
    ];
    for (field, kind, point) in points {
        // A policy without the list means the default ones, an empty list means none.
        let Some(names) = policy.get(field).and_then(Value::as_array) else { continue };
        list(&mut profile, point, "disabled").push(json!({"name": "*"}));
        for (at, entry) in names.iter().enumerate() {
            let name = entry["name"].as_str().unwrap_or_default();
            let Some(gone) = retired(kind, name).filter(|gone| !gone.plugins.is_empty()) else {
                let why =
                    retired(kind, name).map_or_else(|| "unknown".to_owned(), ToString::to_string);
                remarks.push(format!("{field}[{at}]: {name}, {why}"));
                continue;
            };
            if entry.get("argument").is_some_and(|argument| !argument.is_null()) {
                remarks.push(format!("{field}[{at}].argument: give args to the plugin of {name}"));
            }
            for plugin in gone.plugins {
                let mut entry_of_today = json!({"name": plugin});
                if let Some(weight) = entry.get("weight") {
                    entry_of_today["weight"] = weight.clone();
                }
                let enabled = list(&mut profile, point, "enabled");
                if enabled.iter().all(|other| other["name"] != *plugin) {
                    enabled.push(entry_of_today);
                }
            }
            if name == "MostRequestedPriority" {
                let strategy = json!({"type": "MostAllocated"});
                set_arg(&mut profile, "NodeResourcesFit", "scoringStrategy", strategy);
            }
        }
    }
    if let Some(weight) = policy.get("hardPodAffinitySymmetricWeight") {
        set_arg(&mut profile, "InterPodAffinity", "hardPodAffinityWeight", weight.clone());
    }
    if policy.get("alwaysCheckAllPredicates") == Some(&Value::Bool(true)) {
        remarks.push("alwaysCheckAllPredicates: a node is rejected by its first plugin".to_owned());
    }
    let mut config = Map::new();
    profile.insert("schedulerName".to_owned(), "default-scheduler".into());
    config.insert("profiles".to_owned(), json!([profile]));
    if let Some(extenders) = policy.get("extenders") {
        config.insert("extenders".to_owned(), extenders.clone());
    }
    config
}

/// The same value, as an object whatever it was: other values take no fields.
fn object(value: &mut Value) -> &mut Value {
    if !value.is_object() {
        *value = json!({});
    }
    value
}

/// One of the two lists of plugins at a point of a profile.
fn list<'a>(profile: &'a mut Map<String, Value>, point: &str, half: &str) -> &'a mut Vec<Value> {
    let plugins = object(profile.entry("plugins").or_insert_with(|| json!({})));
    let list = &mut object(&mut plugins[point])[half];
    if !list.is_array() {
        *list = json!([]);
    }
    match list {
        Value::Array(list) => list,
        _ => unreachable!("just made one"),
    }
}

/// Sets one field of a plugin's arguments, unless it is set.
fn set_arg(profile: &mut Map<String, Value>, plugin: &str, field: &str, value: Value) {
    let configs = profile.entry("pluginConfig").or_insert_with(|| json!([]));
    let Some(configs) = configs.as_array_mut() else { return };
    if configs.iter().all(|config| config["name"] != plugin) {
        configs.push(json!({"name": plugin, "args": {}}));
    }
    let Some(config) = configs.iter_mut().find(|config| config["name"] == plugin) else { return };
    let args = object(&mut config["args"]);
    if args.get(field).is_none() {
        args[field] = value;
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_config::{FeatureGates, load};

    use super::*;

    fn migrated(text: &str) -> (Value, Vec<String>) {
        let Migration { text, remarks } = migrate(text).unwrap();
        load(&text, &FeatureGates::default()).unwrap();
        (serde_saphyr::from_str(&text).unwrap(), remarks)
    }

    #[test]
    fn a_file_of_v1beta3_only_changes_its_version() {
        let (config, remarks) = migrated(
            "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: a\n  \
             pluginConfig:\n  - name: InterPodAffinity\n    args: {apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: \
             InterPodAffinityArgs, hardPodAffinityWeight: 7}\n",
        );
        assert_eq!(remarks, Vec::<String>::new());
        assert_eq!(config["apiVersion"], V1);
        assert_eq!(config["profiles"][0]["pluginConfig"][0]["args"]["hardPodAffinityWeight"], 7);
    }

    #[test]
    fn fields_and_plugins_of_the_first_versions_find_their_places() {
        let (config, remarks) = migrated(
            "apiVersion: kubescheduler.config.k8s.io/v1alpha1\nkind: KubeSchedulerConfiguration\nschedulerName: old\n\
             hardPodAffinitySymmetricWeight: 5\nbindTimeoutSeconds: 60\nhealthzBindAddress: 0.0.0.0:10251\nplugins:\n  score:\n    \
             enabled: [{name: NodeResourcesMostAllocated, weight: 4}, {name: NodeLabel}]\n  filter:\n    disabled: [{name: \
             EBSLimits}]\npluginConfig:\n- name: NodeResourcesMostAllocated\n  args: {resources: [{name: cpu, weight: 2}]}\n",
        );
        let profile = &config["profiles"][0];
        assert_eq!(profile["schedulerName"], "old");
        let score = &profile["plugins"]["score"]["enabled"];
        assert_eq!(*score, json!([{"name": "NodeResourcesFit", "weight": 4}]));
        let args = |plugin: &str| {
            let configs = profile["pluginConfig"].as_array().unwrap();
            configs.iter().find(|config| config["name"] == plugin).unwrap()["args"].clone()
        };
        assert_eq!(args("NodeResourcesFit")["scoringStrategy"]["type"], "MostAllocated");
        assert_eq!(args("NodeResourcesFit")["scoringStrategy"]["resources"][0]["weight"], 2);
        assert_eq!(args("InterPodAffinity")["hardPodAffinityWeight"], 5);
        assert_eq!(args("VolumeBinding")["bindTimeoutSeconds"], 60);
        for reported in ["healthzBindAddress", "NodeLabel", "EBSLimits", "default weights"] {
            assert!(
                remarks.iter().any(|remark| remark.contains(reported)),
                "{reported}: {remarks:?}"
            );
        }
    }

    #[test]
    fn a_policy_becomes_a_profile() {
        let (config, remarks) = migrated(
            r#"{"kind": "Policy", "apiVersion": "v1",
                "predicates": [{"name": "GeneralPredicates"}, {"name": "PodToleratesNodeTaints"}, {"name": "NoSuch"}],
                "priorities": [{"name": "MostRequestedPriority", "weight": 3}, {"name": "NodePreferAvoidPodsPriority"}],
                "extenders": [{"urlPrefix": "http://x", "filterVerb": "filter"}],
                "hardPodAffinitySymmetricWeight": 10}"#,
        );
        let plugins = &config["profiles"][0]["plugins"];
        assert_eq!(plugins["filter"]["disabled"][0]["name"], "*");
        let names: Vec<&str> = plugins["filter"]["enabled"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|plugin| plugin["name"].as_str())
            .collect();
        let expected =
            ["NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity", "TaintToleration"];
        assert_eq!(names, expected);
        assert_eq!(plugins["score"]["enabled"], json!([{"name": "NodeResourcesFit", "weight": 3}]));
        assert_eq!(config["extenders"][0]["filterVerb"], "filter");
        assert_eq!(remarks.len(), 2, "{remarks:?}");
        assert!(remarks[0].starts_with("predicates[2]: NoSuch, unknown"), "{remarks:?}");
        assert!(remarks[1].contains("PreferNoSchedule"), "{remarks:?}");
    }

    #[test]
    fn nonsense_is_reported_and_no_reason_to_break_down() {
        for fields in [
            "plugins: 3\ndisablePreemption: true",
            "plugins: {postFilter: 3}\ndisablePreemption: true",
            "pluginConfig: [3, a, b, {name: InterPodAffinity, args: 3}]\nhardPodAffinitySymmetricWeight: 1",
            "pluginConfig: [{name: A, args: 1}, {name: A, args: {b: 1}}, {name: NodeResourcesMostAllocated}]",
            "profiles: 3\nschedulerName: a",
            "profiles: [3, {plugins: {score: {enabled: [3, a]}}}]",
            "profiles: [{plugins: {score: 3}}]\nbindTimeoutSeconds: {}",
        ] {
            let head = "apiVersion: kubescheduler.config.k8s.io/v1alpha1\nkind: KubeSchedulerConfiguration\n";
            // Either it has a v1 form, or there is an error.
            let _ = migrate(&format!("{head}{fields}\n"));
            let _ = migrate(&format!(
                "apiVersion: v1\nkind: Policy\npredicates: 3\npriorities: [3, {{name: 3}}]\n{fields}\n"
            ));
        }
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        for text in ["", "[]", "kind: Pod\napiVersion: v1\n", "kind: KubeSchedulerConfiguration\n"]
        {
            assert!(migrate(text).is_err(), "{text:?}");
        }
    }
}
