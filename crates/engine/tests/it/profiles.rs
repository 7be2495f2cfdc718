//! Several profiles, and pods that belong to none.

use kube_scheduler_config::{ConfiguredArgs, KubeSchedulerProfile, PluginConfig, WeightedPlugin};
use kube_scheduler_framework::Status;
use kube_scheduler_queue::Place;
use serde_json::json;

use crate::toy::Toy;
use crate::toy_scheduler::{ToyScheduler, pod, profile};

fn of(scheduler: &str, name: &str) -> std::sync::Arc<kube_scheduler_framework::api::Pod> {
    pod(&format!("{name} scheduler={scheduler}"))
}

fn two_profiles() -> ToyScheduler {
    let toys = vec![
        Toy::new("A").filter(|_, _| Status::unschedulable("a")),
        Toy::new("B").filter(|_, _| Status::unschedulable("b")),
    ];
    let mut scheduler = ToyScheduler::configured(toys, |config, _| {
        config.profiles = vec![profile("s", &["A", "Base"]), profile("t", &["Base", "B"])];
    });
    scheduler.node("n1");
    scheduler
}

#[test]
fn every_pod_is_judged_by_its_own_profile() {
    let mut scheduler = two_profiles();
    assert_eq!(scheduler.try_pod(&of("t", "q")), "unschedulable 0/1 nodes are available: 1 b.");
    assert_eq!(scheduler.try_pod(&of("s", "p")), "unschedulable 0/1 nodes are available: 1 a.");
    assert_eq!(scheduler.calls(), ["B.Filter(q)", "A.Filter(p)"]);
    let counts = scheduler.engine.profile_counts();
    assert_eq!((counts[0].unschedulable, counts[1].unschedulable), (1, 1));
    let reporters: Vec<String> = scheduler
        .raw_effects()
        .into_iter()
        .filter_map(|effect| match effect {
            kube_scheduler_engine::Effect::RecordEvent { reporting, .. } => {
                Some(reporting.to_string())
            }
            _ => None,
        })
        .collect();
    assert_eq!(reporters, ["t", "s"]);
}

#[test]
fn foreign_pods_count_only_where_they_run() {
    let mut scheduler = two_profiles();
    let foreign = of("nobody", "f");
    scheduler.apply(&foreign);
    assert_eq!((scheduler.place("f"), scheduler.attempt()), (None, "nobody".to_owned()));
    scheduler.apply(&pod("f version=2 scheduler=nobody label:a=b"));
    assert_eq!(scheduler.place("f"), None);
    let bound = pod("f version=3 scheduler=nobody node=n1");
    scheduler.apply(&bound);
    assert_eq!(scheduler.engine.cluster().all_pods().count(), 1);
    scheduler.delete(&bound);
    assert_eq!(scheduler.engine.cluster().all_pods().count(), 0);
    assert_eq!(scheduler.effects(), Vec::<String>::new());
}

#[test]
fn profiles_that_do_not_go_together_are_refused() {
    let error = |profiles: Vec<KubeSchedulerProfile>| {
        let built =
            ToyScheduler::build(vec![Toy::sorter("Other")], |config, _| config.profiles = profiles);
        built.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(error(vec![]), "at least one profile is required");
    assert_eq!(
        error(vec![profile("s", &["Base"]), profile("s", &["Base"])]),
        "initializing profiles: duplicate profile with scheduler name \"s\""
    );
    assert_eq!(
        error(vec![profile("", &["Base"])]),
        "initializing profiles: scheduler name is needed"
    );
    let mut other = profile("t", &["Other", "Base"]);
    if let Some(plugins) = &mut other.plugins {
        plugins.queue_sort.disabled = vec![WeightedPlugin::new("Base", 0)];
    }
    assert_eq!(
        error(vec![profile("s", &["Base"]), other]),
        "initializing profiles: different queue sort plugins for profile \"t\": \"Other\", first: \"Base\""
    );
    let with_args = |name: &str, args: serde_json::Value| {
        let args = ConfiguredArgs::Raw(args);
        let plugin_config = vec![PluginConfig { name: "Base".into(), args }];
        KubeSchedulerProfile { plugin_config, ..profile(name, &["Base"]) }
    };
    assert_eq!(error(vec![with_args("s", json!(null)), profile("t", &["Base"])]), "");
    assert_eq!(error(vec![profile("s", &["Base"]), with_args("t", json!(null))]), "");
    assert_eq!(error(vec![with_args("s", json!({"a": 1})), with_args("t", json!({"a": 1}))]), "");
    assert_eq!(
        error(vec![with_args("s", json!({"a": 1})), profile("t", &["Base"])]),
        "initializing profiles: different queue sort plugin args for profile \"t\""
    );
    assert_eq!(
        error(vec![profile("s", &["Base", "Nobody"])]),
        "initializing profiles: creating profile for scheduler name s: \
         PreFilterPlugin \"Nobody\" does not exist"
    );
}

#[test]
fn a_pod_deleted_before_its_turn_may_come_again() {
    let mut scheduler = two_profiles();
    scheduler.apply(&pod("p"));
    scheduler.delete(&pod("p"));
    assert_eq!(scheduler.place("p"), None);
    scheduler.apply(&pod("p"));
    assert_eq!(scheduler.place("p"), Some(Place::Active));
}
