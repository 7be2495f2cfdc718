//! `config diff`: the differences between two files, after defaults are filled in.
//!
//! Invariants: two files with the same meaning have no differences, however they are written; profiles are matched by name
//! and plugins by extension point; swapping the files swaps the two sides of every difference.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use kube_scheduler_config::{Configuration, FeatureGates, load, to_json_value};
use kube_scheduler_runtime::{ExtensionPoint, PluginIdx, Profile, Registry};
use serde::Serialize;
use serde_json::Value;

use super::{Form, GateArgs, build, print_tree, read_or_stdin};
use crate::commands::print;

/// Print the differences between two configuration files, with all defaults filled in.
///
/// Per profile it compares which plugins run at which extension point, in which order and with which weights, and their
/// args. Exits with 0 when there are no differences, with 1 when there are, with 2 when one of the files is not valid.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The first file; - for standard input
    #[arg(value_name = "A")]
    a: PathBuf,

    /// The second file
    #[arg(value_name = "B")]
    b: PathBuf,

    #[command(flatten)]
    gates: GateArgs,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    output: Form,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    path: String,
    /// The value in the first file; `None` if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    a: Option<Value>,
    /// The value in the second file.
    #[serde(skip_serializing_if = "Option::is_none")]
    b: Option<Value>,
}

#[derive(Debug, Serialize)]
struct Answer {
    same: bool,
    differences: Vec<Difference>,
}

pub(super) fn run(args: Args, registry: &Registry) -> Result<ExitCode> {
    let compared = args.gates.gates().and_then(|gates| {
        let a = Meaning::of(&args.a, registry, &gates)?;
        let b = Meaning::of(&args.b, registry, &gates)?;
        Ok(differences(&a, &b))
    });
    let differences = match compared {
        Ok(differences) => differences,
        Err(error) => {
            crate::failure::report(&error);
            return Ok(ExitCode::from(2));
        }
    };
    let same = differences.is_empty();
    match args.output {
        Form::Text => print(&text_of(&differences))?,
        form => print_tree(form, &Answer { same, differences })?,
    }
    Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The content of a file with defaults filled in.
pub(super) struct Meaning {
    /// Everything but the profiles.
    rest: Value,
    profiles: Vec<ProfileMeaning>,
}

/// A plugin that runs at an extension point.
struct EnabledPlugin {
    name: String,
    /// `None` where plugins have no weights.
    weight: Option<i64>,
}

/// The plugins that run at an extension point, in order.
struct PointPlugins {
    point: &'static str,
    plugins: Vec<EnabledPlugin>,
}

struct ProfileMeaning {
    name: String,
    /// Everything but plugins and their args.
    rest: Value,
    points: Vec<PointPlugins>,
    /// The args of the plugins that run, by plugin.
    args: BTreeMap<String, Value>,
}

impl Meaning {
    fn of(path: &Path, registry: &Registry, gates: &FeatureGates) -> Result<Self> {
        let text = read_or_stdin(path)?;
        Self::read(&text, registry, gates).with_context(|| path.display().to_string())
    }

    pub(super) fn read(text: &str, registry: &Registry, gates: &FeatureGates) -> Result<Self> {
        let config = load(text, gates)?;
        let engine = build(&config, registry, gates)?;
        let mut rest = to_json_value(&config)?;
        if let Some(fields) = rest.as_object_mut() {
            fields.remove("profiles");
        }
        let profiles = config
            .profiles
            .iter()
            .filter_map(|profile| {
                let name = profile.scheduler_name.as_deref()?;
                let built =
                    engine.profiles().iter().find(|built| &*built.scheduler_name == name)?;
                Some(ProfileMeaning::of(name, &config, profile, built))
            })
            .collect::<Result<_>>()?;
        Ok(Self { rest, profiles })
    }
}

impl Meaning {
    fn profile(&self, name: &str) -> Option<&ProfileMeaning> {
        self.profiles.iter().find(|profile| profile.name == name)
    }
}

impl ProfileMeaning {
    fn of(
        name: &str,
        config: &Configuration,
        profile: &kube_scheduler_config::KubeSchedulerProfile,
        built: &Profile,
    ) -> Result<Self> {
        let plugins_at = |point: ExtensionPoint| {
            let entry = |idx: &PluginIdx| {
                let weight = (point == ExtensionPoint::Score).then(|| built.weight(*idx));
                let name = built.plugin(*idx)?.name.to_string();
                Some(EnabledPlugin { name, weight })
            };
            let plugins = built.at(point).iter().filter_map(entry).collect();
            PointPlugins { point: point.as_str(), plugins }
        };
        let runs: BTreeSet<&str> = built.plugins().iter().map(|entry| &*entry.name).collect();
        let mut args = BTreeMap::new();
        for plugin_config in
            profile.plugin_config.iter().filter(|config| runs.contains(&*config.name))
        {
            let value = serde_json::to_value(plugin_config)?;
            let value = value.get("args").cloned().unwrap_or_default();
            args.insert(plugin_config.name.clone(), value);
        }
        let percentage =
            profile.percentage_of_nodes_to_score.or(config.percentage_of_nodes_to_score);
        Ok(Self {
            name: name.to_owned(),
            rest: serde_json::json!({"percentageOfNodesToScore": percentage}),
            points: ExtensionPoint::ALL.into_iter().map(plugins_at).collect(),
            args,
        })
    }
}

/// All differences, in the order of the file.
pub(super) fn differences(a: &Meaning, b: &Meaning) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", Some(&a.rest), Some(&b.rest), &mut found);
    let names: Vec<&str> = a
        .profiles
        .iter()
        .map(|profile| &*profile.name)
        .chain(
            b.profiles
                .iter()
                .map(|profile| &*profile.name)
                .filter(|name| a.profiles.iter().all(|profile| profile.name != **name)),
        )
        .collect();
    for name in names {
        let path = format!("profiles[{name}]");
        match (a.profile(name), b.profile(name)) {
            (Some(a), Some(b)) => compare_profiles(&path, a, b, &mut found),
            (a, b) => found.push(Difference {
                path,
                a: a.map(|_| "present".into()),
                b: b.map(|_| "present".into()),
            }),
        }
    }
    found
}

fn compare_profiles(
    path: &str,
    a: &ProfileMeaning,
    b: &ProfileMeaning,
    found: &mut Vec<Difference>,
) {
    compare(path, Some(&a.rest), Some(&b.rest), found);
    for (of_a, of_b) in a.points.iter().zip(&b.points) {
        compare_plugins(&format!("{path}.{}", of_a.point), &of_a.plugins, &of_b.plugins, found);
    }
    // Plugins that run in one of the two only have been reported above, so their args are not compared.
    for (name, of_a) in &a.args {
        if let Some(of_b) = b.args.get(name) {
            compare(&format!("{path}.pluginConfig[{name}]"), Some(of_a), Some(of_b), found);
        }
    }
}

/// Plugins that were added or removed, or have another position or weight.
fn compare_plugins(
    path: &str,
    a: &[EnabledPlugin],
    b: &[EnabledPlugin],
    found: &mut Vec<Difference>,
) {
    let find = |list: &'_ [EnabledPlugin], name: &str| list.iter().any(|one| one.name == name);
    let names = |list: &[EnabledPlugin], other: &[EnabledPlugin]| -> Vec<String> {
        list.iter().map(|one| one.name.clone()).filter(|name| find(other, name)).collect()
    };
    for EnabledPlugin { name, weight } in a {
        match b.iter().find(|other| other.name == *name) {
            None => {
                let path = format!("{path}[{name}]");
                found.push(Difference { path, a: Some(enabled(*weight)), b: None });
            }
            Some(other) if other.weight != *weight => found.push(Difference {
                path: format!("{path}[{name}].weight"),
                a: weight.map(Value::from),
                b: other.weight.map(Value::from),
            }),
            Some(_) => {}
        }
    }
    for EnabledPlugin { name, weight } in b.iter().filter(|one| !find(a, &one.name)) {
        let path = format!("{path}[{name}]");
        found.push(Difference { path, a: None, b: Some(enabled(*weight)) });
    }
    let (order_a, order_b) = (names(a, b), names(b, a));
    if order_a != order_b {
        let path = format!("{path} (order)");
        found.push(Difference { path, a: Some(order_a.into()), b: Some(order_b.into()) });
    }
}

fn enabled(weight: Option<i64>) -> Value {
    weight.map_or_else(|| "enabled".into(), |weight| format!("enabled, weight {weight}").into())
}

/// Compares trees down to the smallest part that differs.
fn compare(path: &str, a: Option<&Value>, b: Option<&Value>, found: &mut Vec<Difference>) {
    let dotted = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (a, b) {
        (Some(Value::Object(of_a)), Some(Value::Object(of_b))) => {
            let keys: BTreeSet<&String> = of_a.keys().chain(of_b.keys()).collect();
            for key in keys {
                compare(&dotted(key), of_a.get(key), of_b.get(key), found);
            }
        }
        (Some(Value::Array(of_a)), Some(Value::Array(of_b))) if of_a.len() == of_b.len() => {
            for (index, (a, b)) in of_a.iter().zip(of_b).enumerate() {
                compare(&format!("{path}[{index}]"), Some(a), Some(b), found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(Difference { path: path.to_owned(), a: a.cloned(), b: b.cloned() }),
    }
}

fn text_of(differences: &[Difference]) -> String {
    if differences.is_empty() {
        return "the same\n".to_owned();
    }
    let mut text = String::new();
    for Difference { path, a, b } in differences {
        match (a, b) {
            (Some(a), Some(b)) => {
                text.push_str(&format!("~ {path}: {} -> {}\n", shown(a), shown(b)))
            }
            (Some(a), None) => text.push_str(&format!("- {path}: {}\n", shown(a))),
            (None, Some(b)) => text.push_str(&format!("+ {path}: {}\n", shown(b))),
            (None, None) => {}
        }
    }
    text
}

fn shown(value: &Value) -> String {
    match value {
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            items.join(", ")
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
