//! Laws that hold for every configuration: printing and decoding are inverse, defaulting and merging settle at once.

use kube_scheduler_config::{
    ALL_PLUGINS, Configuration, FeatureGates, Gate, KubeSchedulerProfile, PluginSet, Plugins,
    PluginsField, WeightedPlugin, decode, default, default_plugins, named_plugins,
    overridden_defaults, to_json_value, to_yaml,
};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::test_runner::RngSeed;

const NAMES: [&str; 8] = [
    "SchedulingGates",
    "TaintToleration",
    "NodeAffinity",
    "DefaultPreemption",
    "ImageLocality",
    "Custom",
    "other-plugin",
    "yes",
];

/// Plugins of distinct names in any order, with weights.
fn plugins() -> impl Strategy<Value = Vec<WeightedPlugin>> {
    (subsequence(NAMES.to_vec(), 0..=5).prop_shuffle(), prop::collection::vec(0..5_i32, 5))
        .prop_map(|(names, weights)| {
            names
                .into_iter()
                .zip(weights)
                .map(|(name, weight)| WeightedPlugin::new(name, weight))
                .collect()
        })
}

fn plugin_set() -> impl Strategy<Value = PluginSet> {
    (plugins(), plugins(), any::<bool>()).prop_map(|(enabled, mut disabled, is_all)| {
        if is_all {
            disabled.push(WeightedPlugin::new(ALL_PLUGINS, 0));
        }
        PluginSet { enabled, disabled }
    })
}

fn sets() -> impl Strategy<Value = Plugins> {
    (plugin_set(), plugin_set(), select(PluginsField::ALL.to_vec())).prop_map(
        |(multi, set, point)| {
            let sets = serde_json::json!({ "multiPoint": multi, point.as_str(): set });
            serde_json::from_value(sets).unwrap_or_else(|error| panic!("{error}"))
        },
    )
}

/// Fields and values as they may stand in a file, as JSON text fragments.
fn field() -> impl Strategy<Value = (&'static str, String)> {
    let numbers = || prop_oneof![-3..200_i64, Just(0)].prop_map(|n| n.to_string());
    let durations =
        select(vec!["\"15s\"", "\"0s\"", "\"-1m30s\"", "\"500ms\""]).prop_map(str::to_owned);
    let texts = || "[ -~é\\n]{0,12}".prop_map(|text| serde_json::Value::from(text).to_string());
    prop_oneof![
        numbers().prop_map(|n| ("parallelism", n)),
        numbers().prop_map(|n| ("percentageOfNodesToScore", n)),
        numbers().prop_map(|n| ("podInitialBackoffSeconds", n)),
        any::<bool>().prop_map(|b| ("enableProfiling", b.to_string())),
        any::<bool>().prop_map(|b| ("delayCacheUntilActive", b.to_string())),
        durations.prop_map(|d| ("leaderElection", format!("{{\"leaseDuration\":{d}}}"))),
        (any::<f32>().prop_filter("finite", |f| f.is_finite()))
            .prop_map(|f| ("clientConnection", format!("{{\"qps\":{f}}}"))),
        texts().prop_map(|t| ("extenders", format!("[{{\"urlPrefix\":{t},\"filterVerb\":{t},\"weight\":3}}]"))),
        (texts(), texts(), args()).prop_map(|(name, other, args)| {
            ("profiles", format!("[{{\"schedulerName\":{name},\"pluginConfig\":[{args},{{\"name\":{other},\"args\":[{other},1.5]}}]}}]"))
        }),
    ]
}

fn args() -> impl Strategy<Value = String> {
    select(vec![
        "{\"name\":\"NodeResourcesFit\",\"args\":{\"scoringStrategy\":{\"type\":\"X\",\"resources\":[{\"name\":\"cpu\"}]}}}",
        "{\"name\":\"VolumeBinding\",\"args\":{\"bindTimeoutSeconds\":-1,\"shape\":[{\"utilization\":3,\"score\":4}]}}",
        "{\"name\":\"DynamicResources\",\"args\":{\"filterTimeout\":\"1s\"}}",
        "{\"name\":\"NodeAffinity\",\"args\":{\"addedAffinity\":{\"preferredDuringSchedulingIgnoredDuringExecution\":[{\"weight\":1,\"preference\":{\"matchFields\":[{\"key\":\"a\",\"operator\":\"In\",\"values\":[\"no\",\"1\"]}]}}]}}}",
        "{\"name\":\"PodTopologySpread\",\"args\":{\"defaultConstraints\":[{\"maxSkew\":1,\"topologyKey\":\"z\",\"whenUnsatisfiable\":\"x\",\"labelSelector\":{}}]}}",
        "{\"name\":\"Custom\"}",
    ])
    .prop_map(str::to_owned)
}

fn configuration() -> impl Strategy<Value = Configuration> {
    (prop::collection::btree_map(0..9_u8, field(), 0..5), prop::option::of(sets())).prop_map(|(fields, sets)| {
        let mut text =
            "{\"apiVersion\":\"kubescheduler.config.k8s.io/v1\",\"kind\":\"KubeSchedulerConfiguration\"".to_owned();
        let mut used = std::collections::BTreeSet::new();
        for (name, value) in fields.values() {
            if used.insert(*name) {
                text.push_str(&format!(",\"{name}\":{value}"));
            }
        }
        text.push('}');
        let mut config = decode(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        if let Some(profile) = config.profiles.first_mut() {
            profile.plugins = sets;
        }
        config
    })
}

/// What defaulting makes of a profile's plugins.
fn defaulted(user: Plugins, gates: &FeatureGates) -> Plugins {
    let profile = KubeSchedulerProfile { plugins: Some(user), ..KubeSchedulerProfile::default() };
    let mut config = Configuration { profiles: vec![profile], ..Configuration::default() };
    default(&mut config, gates);
    config.profiles.remove(0).plugins.unwrap_or_default()
}

/// The same for a profile that only has the set `user` in `multiPoint`.
fn merged(user: &PluginSet) -> PluginSet {
    let plugins = Plugins { multi_point: user.clone(), ..Plugins::default() };
    defaulted(plugins, &FeatureGates::default()).multi_point
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, rng_seed: RngSeed::Fixed(36), failure_persistence: None,  ..ProptestConfig::default() })]

    #[test]
    fn printed_configurations_read_back(config in configuration()) {
        let json = to_json_value(&config).unwrap().to_string();
        let yaml = to_yaml(&config).unwrap();
        prop_assert_eq!(&decode(&json).unwrap(), &config, "{}", json);
        prop_assert_eq!(&decode(&yaml).unwrap(), &config, "{}", yaml);
    }

    #[test]
    fn defaulting_twice_changes_nothing(config in configuration()) {
        let gates = FeatureGates::default();
        let mut once = config;
        default(&mut once, &gates);
        let mut twice = once.clone();
        default(&mut twice, &gates);
        prop_assert_eq!(&once, &twice);
        let printed = to_yaml(&once).unwrap();
        prop_assert_eq!(decode(&printed).unwrap(), once);
    }

    #[test]
    fn merging_keeps_what_the_user_enabled_and_drops_what_is_disabled(user in plugin_set()) {
        let defaults = default_plugins(&FeatureGates::default()).multi_point;
        let merged = merged(&user);
        for plugin in &user.enabled {
            prop_assert_eq!(merged.enabled.iter().filter(|found| found.name == plugin.name).count(), 1);
            prop_assert!(merged.enabled.contains(plugin), "with the user's weight");
        }
        let is_disabled = |name: &str| user.disabled.iter().any(|plugin| plugin.name == name || plugin.name == ALL_PLUGINS);
        for default in &defaults.enabled {
            let is_kept = merged.enabled.iter().any(|plugin| plugin.name == default.name);
            let is_user = user.enabled.iter().any(|plugin| plugin.name == default.name);
            prop_assert_eq!(is_kept, is_user || !is_disabled(&default.name));
        }
        // Default plugins that the user's set does not name keep their order.
        let order = |plugins: &[WeightedPlugin]| -> Vec<String> {
            let untouched = |name: &str| {
                !is_disabled(name)
                    && !user.enabled.iter().any(|plugin| plugin.name == name)
                    && defaults.enabled.iter().any(|plugin| plugin.name == name)
            };
            plugins.iter().filter(|plugin| untouched(&plugin.name)).map(|plugin| plugin.name.clone()).collect()
        };
        prop_assert_eq!(order(&merged.enabled), order(&defaults.enabled));
        prop_assert_eq!(&self::merged(&merged), &merged);
    }

    #[test]
    fn merging_nothing_gives_the_defaults(alpha in any::<bool>()) {
        let gates = FeatureGates::default()
            .with(Gate::GangScheduling, alpha)
            .with(Gate::TopologyAwareWorkloadScheduling, alpha);
        let defaults = default_plugins(&gates);
        prop_assert_eq!(defaulted(Plugins::default(), &gates), defaults);
    }

    #[test]
    fn any_text_ends_in_a_result(text in "[-a-z0-9:{}\\[\\]&*!|>'\"%@,\\n\\t #~?]{0,80}") {
        let _ = decode(&text);
        let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        let _ = decode(&format!("{head}{text}"));
    }
}

#[test]
fn gated_plugins_join_the_defaults_in_their_places() {
    let names = |gates: &FeatureGates| -> Vec<String> {
        default_plugins(gates)
            .multi_point
            .enabled
            .iter()
            .map(|plugin| plugin.name.clone())
            .collect()
    };
    let current = names(&FeatureGates::default());
    assert_eq!(current.len(), 20);
    assert_eq!(current[14..16], ["DynamicResources", "DefaultPreemption"]);
    assert_eq!(current.last().map(String::as_str), Some("NodeDeclaredFeatures"));
    let all = FeatureGates::default()
        .with(Gate::GangScheduling, true)
        .with(Gate::TopologyAwareWorkloadScheduling, true);
    assert_eq!(
        names(&all)[20..],
        ["GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"]
    );
    let older = FeatureGates::emulating("1.34").unwrap();
    assert_eq!(names(&older), current[..19]);
}

#[test]
fn a_plugin_named_twice_keeps_its_first_mention_for_the_profile_builder_to_refuse() {
    let twice =
        vec![WeightedPlugin::new("ImageLocality", 2), WeightedPlugin::new("ImageLocality", 3)];
    let merged = merged(&PluginSet { enabled: twice, disabled: Vec::new() });
    let found: Vec<i32> = merged
        .enabled
        .iter()
        .filter(|plugin| plugin.name == "ImageLocality")
        .map(|plugin| plugin.weight)
        .collect();
    assert_eq!(found, [3, 2]);
}

#[test]
fn what_a_user_names_is_reported_with_its_place() {
    let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: a\n- \
                plugins:\n    score: {enabled: [{name: ImageLocality}, {name: InterPodAffinity}], disabled: [{name: VolumeZone}]}\n    \
                multiPoint: {enabled: [{name: TaintToleration}]}\n  pluginConfig: [{name: VolumeBinding}]\n";
    let config = decode(text).unwrap();
    let named: Vec<String> = named_plugins(&config)
        .iter()
        .map(|plugin| format!("{} {}", plugin.path, plugin.name))
        .collect();
    assert_eq!(
        named,
        [
            "profiles[1].plugins.score.enabled[0] ImageLocality",
            "profiles[1].plugins.score.enabled[1] InterPodAffinity",
            "profiles[1].plugins.multiPoint.enabled[0] TaintToleration",
        ]
    );
    let defaults = default_plugins(&FeatureGates::default());
    let user = config.profiles[1].plugins.clone().unwrap();
    assert_eq!(
        overridden_defaults(&defaults, &user),
        [(PluginsField::MultiPoint, "TaintToleration")]
    );
}
