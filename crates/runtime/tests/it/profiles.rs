//! Which plugins a profile has at which point, and what keeps it from being built.

use std::sync::Arc;

use kube_scheduler_config::{ConfiguredArgs, KubeSchedulerProfile, PluginConfig};
use kube_scheduler_framework::Handle;
use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::testing;
use kube_scheduler_runtime::{ExtensionPoint, Profile, Timer};
use serde_json::json;

use crate::toy::{Toy, build, config, names, registry};

use ExtensionPoint::{Bind, Filter, Permit, PreFilter, QueueSort, Score};

/// The points every profile must have, and three plugins that score, one of which filters too.
fn toys() -> Vec<Toy> {
    vec![
        Toy::at("Base", &[QueueSort, Bind]),
        Toy::at("N", &[Filter, Score]),
        Toy::at("S", &[Score]),
        Toy::at("T", &[Score]),
        Toy::at("X", &[Score]),
    ]
}

fn score_order(multi_point: &str, score: &str) -> Result<Vec<String>, String> {
    let config = config(&format!("Base {multi_point}"), &[(Score, score)]);
    let profile = build(toys(), &config).map_err(|error| error.to_string())?;
    Ok(names(&profile, Score).into_iter().map(str::to_owned).collect())
}

#[test]
fn multi_point_is_expanded_around_what_is_named_explicitly() {
    let cases = [
        ("nothing explicit", "N T S", "", "N T S"),
        (
            "overrides first, then the rest of MultiPoint, then additions",
            "N T S",
            "X S T",
            "S T N X",
        ),
        ("disabled at the point only", "N T S", "-T", "N S"),
        ("everything of MultiPoint disabled", "N T S", "X -*", "X"),
        ("everything disabled, one enabled again", "N T S", "T -*", "T"),
        (
            "named and disabled at the point: the explicit entry stays, last",
            "N T S",
            "T -T",
            "N S T",
        ),
        ("disabled without being there", "N", "-Nobody", "N"),
        ("MultiPoint's own disabled list has been used up before", "N T -T", "", "N T"),
        ("an override may be repeated in MultiPoint", "S T S", "S", "S T"),
    ];
    for (why, multi_point, score, order) in cases {
        let expected: Vec<String> = order.split_whitespace().map(str::to_owned).collect();
        assert_eq!(score_order(multi_point, score), Ok(expected), "{why}");
    }
}

#[test]
fn plugins_are_only_where_they_implement_something() {
    let profile = build(toys(), &config("Base N S", &[])).unwrap();
    assert_eq!(names(&profile, Filter), ["N"]);
    assert_eq!(names(&profile, Score), ["N", "S"]);
    assert_eq!(names(&profile, PreFilter), Vec::<&str>::new());
    assert_eq!(names(&profile, Bind), ["Base"]);
}

/// A timer that stands still.
#[derive(Debug)]
struct NoTime;

impl Timer for NoTime {
    fn nanos(&self) -> u64 {
        0
    }
}

#[test]
fn plugins_for_groups_alone_are_asked_about_pods_without_a_group_only_to_measure_them() {
    let toys = vec![
        Toy::at("Base", &[QueueSort, Bind]),
        Toy::at("P", &[Permit]),
        Toy::at("G", &[Permit]).for_groups(),
        Toy::at("Q", &[Permit]),
    ];
    let mut profile = build(toys, &config("Base P G Q", &[])).unwrap();
    let (alone, grouped) =
        (testing::pod("p"), json!({"spec": {"schedulingGroup": {"podGroupName": "g"}}}));
    let [alone, member] = [alone.clone().build(), alone.with(grouped).build()];
    let asked = |profile: &Profile, pod: &Pod| {
        profile.permit_about(pod).map(|(_, name, _)| name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(asked(&profile, &alone), ["P", "Q"]);
    assert_eq!(asked(&profile, &member), ["P", "G", "Q"]);
    assert_eq!(names(&profile, Permit), ["P", "G", "Q"]);

    profile.measure(Arc::new(NoTime));
    let mut seen = [0; 2];
    for _ in 0..100 {
        profile.meter().unwrap().begin_cycle();
        let is_sampled = profile.plugin_start().is_some();
        seen[usize::from(is_sampled)] += 1;
        assert_eq!(asked(&profile, &alone).contains(&"G".to_owned()), is_sampled);
        assert_eq!(asked(&profile, &member), ["P", "G", "Q"]);
    }
    assert!(seen.iter().all(|n| *n > 0), "{seen:?}");
}

#[test]
fn what_is_wrong_with_a_list_is_said_in_the_known_words() {
    let cases = [
        ("T T", "", "plugin \"T\" already registered as \"ScorePlugin\""),
        ("", "T T", "plugin \"T\" already registered as \"ScorePlugin\""),
        ("", "Nobody", "ScorePlugin \"Nobody\" does not exist"),
        ("Nobody", "", "PreFilterPlugin \"Nobody\" does not exist"),
        ("", "Base", "plugin \"Base\" does not extend ScorePlugin plugin"),
        // What is named explicitly is checked before MultiPoint is.
        ("Nobody", "Base", "plugin \"Base\" does not extend ScorePlugin plugin"),
    ];
    for (multi_point, score, error) in cases {
        assert_eq!(score_order(multi_point, score), Err(error.to_owned()), "{multi_point}/{score}");
    }
}

#[test]
fn multi_point_is_not_looked_at_where_it_is_disabled() {
    let all_off: Vec<_> = ExtensionPoint::ALL
        .iter()
        .map(|point| (*point, if matches!(point, QueueSort | Bind) { "Base -*" } else { "-*" }))
        .collect();
    let profile = build(toys(), &config("Nobody", &all_off)).unwrap();
    assert_eq!(names(&profile, Score), Vec::<&str>::new());
}

#[test]
fn a_profile_needs_one_order_and_a_way_to_bind() {
    let sorters = || {
        vec![
            Toy::at("Sort", &[QueueSort]),
            Toy::at("Other", &[QueueSort]),
            Toy::at("Bind", &[Bind]),
        ]
    };
    let error = |multi_point| build(sorters(), &config(multi_point, &[])).unwrap_err().to_string();
    let count = |n| {
        format!(
            "only one queue sort plugin required for profile with scheduler name \"s\", but got {n}"
        )
    };
    assert_eq!(error("Bind"), count(0));
    assert_eq!(error("Sort Other Bind"), count(2));
    assert_eq!(
        error("Sort"),
        "at least one bind plugin is needed for profile with scheduler name \"s\""
    );
    assert!(build(sorters(), &config("Sort Bind", &[])).is_ok());
}

fn given(plugin: &str, args: serde_json::Value) -> PluginConfig {
    PluginConfig { name: plugin.into(), args: ConfiguredArgs::Raw(args) }
}

#[test]
fn arguments_reach_the_factory_and_come_once() {
    let mut registry = registry(toys());
    registry
        .register("Picky", |args, handle| {
            Err(format!("{args} under {}", handle.scheduler_name).into())
        })
        .unwrap();
    let with = |plugin_config| KubeSchedulerProfile { plugin_config, ..config("Base Picky", &[]) };
    let error = |config: &KubeSchedulerProfile| {
        let built = Profile::build(config, "profiles[0]", &registry, &Handle::default());
        built.unwrap_err().to_string()
    };
    assert_eq!(error(&with(vec![])), "initializing plugin \"Picky\": null under s");
    let given = given("Picky", json!({"a": 1}));
    assert_eq!(
        error(&with(vec![given.clone()])),
        "initializing plugin \"Picky\": {\"a\":1} under s"
    );
    assert_eq!(error(&with(vec![given.clone(), given])), "repeated config for plugin Picky");
}

#[test]
fn only_what_is_named_is_made_and_only_once() {
    let log = crate::toy::Log::default();
    let mut registry = registry(toys());
    for name in ["Used", "Unused"] {
        let log = log.clone();
        let made = move |_: &_, _: &_| {
            log.lock().unwrap().push(name.to_owned());
            let plugin: Arc<dyn kube_scheduler_framework::Plugin> =
                Arc::new(Toy::at("Used", &[Score, Permit]));
            Ok(plugin)
        };
        registry.register(name, made).unwrap();
    }
    let config = config("Base Used", &[(Score, "Used"), (Permit, "Used")]);
    let profile = Profile::build(&config, "profiles[0]", &registry, &Handle::default()).unwrap();
    assert_eq!(crate::toy::calls(&log), ["Used"]);
    assert_eq!(names(&profile, Permit), ["Used"]);
}

#[test]
fn a_registry_holds_a_name_once() {
    let mut all = registry(toys());
    let error = all.merge(registry(vec![Toy::at("N", &[Score])])).unwrap_err();
    assert_eq!(error.to_string(), "a plugin named N already exists");
}

#[test]
fn an_unknown_plugin_is_refused_at_every_point() {
    for point in ExtensionPoint::ALL {
        let error = build(toys(), &config("Base", &[(point, "Nobody")])).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{}Plugin \"Nobody\" does not exist", point.as_str())
        );
    }
    let error =
        build(toys(), &config("Base", &[(ExtensionPoint::PlacementScore, "Base")])).unwrap_err();
    assert_eq!(error.to_string(), "plugin \"Base\" does not extend PlacementScorePlugin plugin");
}

#[test]
fn errors_in_arguments_name_their_place_in_the_configuration() {
    #[derive(Debug, serde::Deserialize)]
    struct Args {
        #[serde(rename = "n")]
        _n: u32,
    }
    let mut registry = registry(toys());
    registry
        .register("Picky", |args, handle| {
            handle.args::<Args>(args)?;
            Err(handle.invalid_arg("n", "must not be there"))
        })
        .unwrap();
    let error = |args: &[serde_json::Value]| {
        let other = given("Other", json!({}));
        let given = args.iter().map(|args| given("Picky", args.clone()));
        let plugin_config = std::iter::once(other).chain(given).collect();
        let config = KubeSchedulerProfile { plugin_config, ..config("Base Picky", &[]) };
        let built = Profile::build(&config, "profiles[2]", &registry, &Handle::default());
        built.unwrap_err().to_string()
    };
    let start = "initializing plugin \"Picky\": profiles[2].pluginConfig";
    assert_eq!(error(&[]), format!("{start}[name=Picky].args: missing field `n`"));
    assert_eq!(
        error(&[json!({"n": -1})]),
        format!("{start}[1].args.n: invalid value: integer `-1`, expected u32")
    );
    assert_eq!(
        error(&[json!({"n": 1, "m": 1})]),
        format!("{start}[1].args: unknown field \"m\", known are \"n\"")
    );
    assert_eq!(error(&[json!({"n": 1})]), format!("{start}[1].args.n: must not be there"));
}

#[test]
fn a_plugin_is_replaced_only_where_there_is_one() {
    let mut all = registry(toys());
    let factory = |_: &_, _: &_| Err("replaced".into());
    assert_eq!(
        all.replace("Nobody", factory).unwrap_err().to_string(),
        "no plugin named Nobody exists"
    );
    all.replace("Base", factory).unwrap();
    let config = config("Base", &[]);
    let error = Profile::build(&config, "profiles[0]", &all, &Handle::default()).unwrap_err();
    assert_eq!(error.to_string(), "initializing plugin \"Base\": replaced");
}
