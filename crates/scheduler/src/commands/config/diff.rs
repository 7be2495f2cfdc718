//! `config diff`: what two files mean differently, once both are completed with their defaults.
//!
//! Invariants: two files that mean the same have no differences, however they are written; profiles are matched by name
//! and plugins by extension point; what is told for one order of the files is told the other way round for the other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use kube_scheduler_config::{Configuration, FeatureGates, load, to_json_value};
use kube_scheduler_framework::{ExtensionPoint, Profile, Registry};
use serde::Serialize;
use serde_json::Value;

use super::{Form, GateArgs, build, print_tree, read_or_stdin};
use crate::commands::print;

/// Tell what two configuration files mean differently, with all defaults filled in.
///
/// Per profile it compares which plugins run at which extension point, in which order and with which weights, and their
/// args. Ends with 0 when they mean the same, with 1 when they do not, with 2 when one of them is not valid.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The one; - for standard input
    #[arg(value_name = "A")]
    a: PathBuf,

    /// The other
    #[arg(value_name = "B")]
    b: PathBuf,

    #[command(flatten)]
    gates: GateArgs,

    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    output: Form,
}

/// One thing that is different.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    path: String,
    /// What the first says; nothing if it has no such thing.
    #[serde(skip_serializing_if = "Option::is_none")]
    a: Option<Value>,
    /// What the second says.
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

/// A file, understood.
pub(super) struct Meaning {
    /// Everything but plugins and their args.
    rest: Value,
    /// Per profile its name, what it says beside plugins, and the plugins.
    profiles: Vec<ProfileMeaning>,
}

/// A plugin that runs at a point, and its weight where there are weights.
type Enabled = (String, Option<i64>);

struct ProfileMeaning {
    name: String,
    rest: Value,
    /// Per extension point the plugins in order, with weights where they are weighed.
    points: Vec<(&'static str, Vec<Enabled>)>,
    /// Args by plugin, of the plugins that run.
    args: Vec<(String, Value)>,
}

impl Meaning {
    fn of(path: &Path, registry: &Registry, gates: &FeatureGates) -> Result<Self> {
        let text = read_or_stdin(path)?;
        Self::read(&text, registry, gates).with_context(|| path.display().to_string())
    }

    pub(super) fn read(text: &str, registry: &Registry, gates: &FeatureGates) -> Result<Self> {
        let config = load(text, gates)?;
        let engine = build(&config, registry, gates).map_err(|error| anyhow!(error))?;
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

impl ProfileMeaning {
    fn of(
        name: &str,
        config: &Configuration,
        profile: &kube_scheduler_config::Profile,
        built: &Profile,
    ) -> Result<Self> {
        let plugins_at = |point: ExtensionPoint| {
            let entry = |idx: &usize| {
                let weight = (point == ExtensionPoint::Score).then(|| built.weight(*idx));
                built.plugins().get(*idx).map(|entry| (entry.name.to_string(), weight))
            };
            (point.as_str(), built.at(point).iter().filter_map(entry).collect())
        };
        let runs: BTreeSet<&str> = built.plugins().iter().map(|entry| &*entry.name).collect();
        let mut args = Vec::new();
        for plugin_config in
            profile.plugin_config.iter().filter(|config| runs.contains(&*config.name))
        {
            let value = serde_json::to_value(plugin_config)?;
            args.push((plugin_config.name.clone(), value.get("args").cloned().unwrap_or_default()));
        }
        args.sort_by(|a, b| a.0.cmp(&b.0));
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

/// All that is different, in the order of the file.
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
        let of =
            |meaning: &'_ Meaning| meaning.profiles.iter().position(|profile| profile.name == name);
        match (of(a).and_then(|i| a.profiles.get(i)), of(b).and_then(|i| b.profiles.get(i))) {
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
    for ((point, of_a), (_, of_b)) in a.points.iter().zip(&b.points) {
        compare_plugins(&format!("{path}.{point}"), of_a, of_b, found);
    }
    let names: BTreeSet<&str> =
        a.args.iter().chain(&b.args).map(|(name, _)| name.as_str()).collect();
    for name in names {
        let args = |of: &'_ ProfileMeaning| of.args.iter().position(|(plugin, _)| plugin == name);
        let of_a = args(a).and_then(|i| a.args.get(i)).map(|(_, args)| args);
        let of_b = args(b).and_then(|i| b.args.get(i)).map(|(_, args)| args);
        // That a plugin runs in one of them only has been told.
        if of_a.is_some() && of_b.is_some() {
            compare(&format!("{path}.pluginConfig[{name}]"), of_a, of_b, found);
        }
    }
}

/// Plugins that came, went, moved or weigh something else.
fn compare_plugins(path: &str, a: &[Enabled], b: &[Enabled], found: &mut Vec<Difference>) {
    let names = |list: &[Enabled], other: &[Enabled]| -> Vec<String> {
        let is_shared = |name: &String| other.iter().any(|(plugin, _)| plugin == name);
        list.iter().map(|(name, _)| name.clone()).filter(is_shared).collect()
    };
    for (name, weight) in a {
        match b.iter().find(|(other, _)| other == name) {
            None => {
                let path = format!("{path}[{name}]");
                found.push(Difference { path, a: Some(enabled(*weight)), b: None });
            }
            Some((_, other)) if other != weight => found.push(Difference {
                path: format!("{path}[{name}].weight"),
                a: weight.map(Value::from),
                b: other.map(Value::from),
            }),
            Some(_) => {}
        }
    }
    for (name, weight) in b.iter().filter(|(name, _)| a.iter().all(|(other, _)| other != name)) {
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
