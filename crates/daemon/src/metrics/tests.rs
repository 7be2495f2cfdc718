//! What `/metrics` shows, after what; names and forms against the reference's.

use kube_scheduler_engine::{
    BoundPod, EndedPreemption, FailedBinding, Measurements, PendingCounts, PreemptionCounts,
    ProfileCounts, ProfileId,
};
use kube_scheduler_framework::Code;
use kube_scheduler_runtime::{
    Lengths, MeasuredPoint, MeteredPoint, POINT_BOUNDS, PluginCount, PluginIdx, Readings,
};

use super::*;

fn metrics(gates: &FeatureGates) -> Metrics {
    Metrics::new(1.0, MetricsOptions::default(), gates)
}

fn expect(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|printed| printed == *line), "{line} is missing in\n{text}");
    }
}

#[test]
fn what_the_core_brings_in_is_printed() {
    let metrics = metrics(&FeatureGates::default());
    let numbers = CoreNumbers {
        attempts: vec![(
            "default-scheduler".to_owned(),
            ProfileCounts { scheduled: 3, unschedulable: 0, error: 1 },
        )],
        pending: PendingCounts { active: 1, backoff: 2, unschedulable: 3, gated: 4 },
        incoming: vec![("NodeAdd".to_owned(), "active", 5)],
        in_flight: vec![("NodeAdd".to_owned(), 2)],
        n_binding: 7,
        ..CoreNumbers::default()
    };
    metrics.publish(&numbers);
    metrics.observe_cycle(Duration::from_millis(3), Some(("default-scheduler", "error")));
    let bound = BoundPod {
        profile: ProfileId::from_index(0),
        attempts: 16,
        attempt: Duration::from_millis(20),
        since_first_attempt: Some(Duration::from_secs(1)),
        was_flushed: true,
    };
    metrics.observe_bound([("default-scheduler", bound)]);
    let text = metrics.text();
    expect(
        &text,
        &[
            "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"scheduled\"} 3",
            "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"error\"} 1",
            "scheduler_pending_pods{queue=\"gated\"} 4",
            "scheduler_queue_incoming_pods_total{event=\"NodeAdd\",queue=\"active\"} 5",
            "scheduler_scheduling_attempt_duration_seconds_bucket{profile=\"default-scheduler\",result=\"error\",le=\"0.004\"} 1",
            "scheduler_pod_scheduling_sli_duration_seconds_count{attempts=\"15+\"} 1",
            "scheduler_pod_scheduling_attempts_bucket{le=\"16\"} 1",
            "scheduler_pod_scheduled_after_flush_total 1",
            "scheduler_inflight_events{event=\"NodeAdd\"} 2",
            "scheduler_goroutines{operation=\"binding\"} 7",
            "process_start_time_seconds 1",
            "version_info{binary=\"1.36.0\",component=\"kube\",emulation=\"1.36\",min_compat=\"1.35\"} 1",
            "kubernetes_feature_enabled{name=\"SchedulerQueueingHints\",stage=\"\"} 1",
        ],
    );
    assert!(!text.contains("result=\"unschedulable\"}"), "no series before its first event");
    assert!(!text.contains("async_api_call"), "its feature is off");
    // Totals are reported again and again, and counters start over on request.
    metrics.publish(&CoreNumbers { in_flight: Vec::new(), ..numbers.clone() });
    expect(
        &metrics.text(),
        &[
            "scheduler_queue_incoming_pods_total{event=\"NodeAdd\",queue=\"active\"} 5",
            "scheduler_inflight_events{event=\"NodeAdd\"} 0",
        ],
    );
    metrics.reset();
    assert!(!metrics.text().contains("scheduler_queue_incoming_pods_total"));
    let more = vec![("NodeAdd".to_owned(), "active", 6)];
    metrics.publish(&CoreNumbers { incoming: more, ..numbers });
    expect(
        &metrics.text(),
        &["scheduler_queue_incoming_pods_total{event=\"NodeAdd\",queue=\"active\"} 1"],
    );
}

#[test]
fn the_versions_that_are_stood_in_for_are_those_of_the_flags() {
    for (emulated, compatible, expected) in [
        ("1.36", Some(34), "emulation=\"1.36\",min_compat=\"1.34\""),
        ("1.34", None, "emulation=\"1.34\",min_compat=\"1.33\""),
        // There is nothing before it.
        ("1.33", None, "emulation=\"1.33\",min_compat=\"1.33\""),
    ] {
        let mut gates = FeatureGates::emulating(emulated).unwrap();
        if let Some(minor) = compatible {
            gates = gates.compatible_with(minor).unwrap();
        }
        let line = format!("version_info{{binary=\"1.36.0\",component=\"kube\",{expected}}} 1");
        expect(&metrics(&gates).text(), &[&line]);
    }
}

#[test]
fn metrics_of_pod_groups_have_the_references_texts() {
    let metrics = metrics(&FeatureGates::default().with(Gate::GenericWorkload, true));
    metrics.observe_group_cycle("p", "error", Duration::ZERO, Duration::ZERO);
    expect(
        &metrics.text(),
        &[
            "# HELP scheduler_podgroup_schedule_attempts_total [ALPHA] Number of attempts to schedule pod group, by the result. 'unschedulable' means a pod group could not be scheduled, while 'error' means an internal scheduler problem.",
            "# HELP scheduler_podgroup_scheduling_attempt_duration_seconds [ALPHA] Pod group scheduling attempt latency in seconds (scheduling algorithm + binding)",
            "# HELP scheduler_podgroup_scheduling_algorithm_duration_seconds [ALPHA] Pod group scheduling algorithm latency in seconds",
        ],
    );
}

#[test]
fn what_was_measured_is_printed() {
    let metrics = metrics(&FeatureGates::default());
    let names = [PluginNames {
        profile: "p".to_owned(),
        plugins: vec!["NodeName".to_owned(), "VolumeBinding".to_owned()],
        counted: vec![
            (PluginIdx::from_index(0), MeteredPoint::Filter),
            (PluginIdx::from_index(1), MeteredPoint::Filter),
        ],
    }];
    metrics.prepare(names.to_vec());
    let mut lengths = Lengths::new(POINT_BOUNDS);
    lengths.add(150_000);
    let count = |plugin, point, n| PluginCount { plugin: PluginIdx::from_index(plugin), point, n };
    let measured = Measurements {
        permit_waits: vec![(Code::Unschedulable, Duration::from_secs(2))],
        failed_bindings: vec![FailedBinding {
            profile: ProfileId::from_index(0),
            is_rejected: true,
            length: Duration::from_secs(1),
        }],
        profiles: vec![Readings {
            points: vec![MeasuredPoint {
                point: MeteredPoint::Filter,
                code: Code::Success,
                lengths,
            }],
            calls: vec![count(0, MeteredPoint::Filter, 3)],
            errors: vec![
                count(1, MeteredPoint::PreBind, 2),
                count(1, MeteredPoint::PreScore, 1),
                count(0, MeteredPoint::PreBind, 1),
            ],
            ..Readings::default()
        }],
        ..Measurements::default()
    };
    metrics.observe_measurements(&measured, &names);
    metrics.observe_preemptions(PreemptionCounts {
        n_attempts: 2,
        victims: vec![3],
        ended: vec![EndedPreemption { is_error: true, length: Duration::from_secs(1) }],
    });
    let text = metrics.text();
    expect(
        &text,
        &[
            "scheduler_framework_extension_point_duration_seconds_bucket{extension_point=\"Filter\",profile=\"p\",status=\"Success\",le=\"0.0001\"} 0",
            "scheduler_framework_extension_point_duration_seconds_bucket{extension_point=\"Filter\",profile=\"p\",status=\"Success\",le=\"0.0002\"} 1",
            "scheduler_framework_extension_point_duration_seconds_sum{extension_point=\"Filter\",profile=\"p\",status=\"Success\"} 0.00015",
            "scheduler_plugin_evaluation_total{extension_point=\"Filter\",plugin=\"NodeName\",profile=\"p\"} 3",
            "scheduler_plugin_evaluation_total{extension_point=\"Filter\",plugin=\"VolumeBinding\",profile=\"p\"} 0",
            "scheduler_volume_scheduling_stage_error_total{operation=\"bind\"} 2",
            "scheduler_permit_wait_duration_seconds_count{result=\"Unschedulable\"} 1",
            "scheduler_scheduling_attempt_duration_seconds_count{profile=\"p\",result=\"unschedulable\"} 1",
            "scheduler_preemption_attempts_total 2",
            "scheduler_preemption_victims_bucket{le=\"4\"} 1",
            "scheduler_preemption_goroutines_execution_total{result=\"error\"} 1",
        ],
    );
    assert!(!text.contains("operation=\"predicate\""));
    assert!(!text.contains("scheduler_volume_binder_cache_requests_total"), "no series, no family");
}

#[test]
fn group_cycles_are_reported_when_groups_are_on() {
    let millis = Duration::from_millis;
    let observed = |gates: &FeatureGates| {
        let metrics = metrics(gates);
        metrics.observe_group_cycle("p", "waiting_on_preemption", millis(3), millis(5));
        metrics.text()
    };
    expect(
        &observed(&FeatureGates::default().with(Gate::GenericWorkload, true)),
        &[
            "scheduler_podgroup_schedule_attempts_total{profile=\"p\",result=\"waiting_on_preemption\"} 1",
            "scheduler_podgroup_scheduling_attempt_duration_seconds_sum{profile=\"p\",result=\"waiting_on_preemption\"} 0.005",
            "scheduler_podgroup_scheduling_algorithm_duration_seconds_sum 0.003",
        ],
    );
    assert!(!observed(&FeatureGates::default()).contains("scheduler_podgroup"));
}

#[test]
fn asynchronous_calls_are_reported_when_the_feature_is_on() {
    let gates = FeatureGates::default().with(Gate::SchedulerAsyncAPICalls, true);
    let metrics = metrics(&gates);
    metrics.observe_async_call("pod_binding", true, Duration::from_millis(3));
    metrics.set_pending_async_calls("pod_status_patch", 4);
    expect(
        &metrics.text(),
        &[
            "scheduler_async_api_call_execution_total{call_type=\"pod_binding\",result=\"success\"} 1",
            "scheduler_async_api_call_execution_duration_seconds_bucket{call_type=\"pod_binding\",result=\"success\",le=\"0.004\"} 1",
            "scheduler_pending_async_api_calls{call_type=\"pod_status_patch\"} 4",
        ],
    );
}

#[test]
fn requests_are_reported_by_host_and_method() {
    let metrics = metrics(&FeatureGates::default());
    let call = RestCall {
        method: "POST",
        host: "api:6443",
        code: Some(201),
        length: Duration::from_millis(20),
        request_bytes: 300,
    };
    metrics.observe_rest_call(call);
    metrics.observe_rest_call(RestCall { code: None, ..call });
    metrics.observe_rest_answer("POST", "api:6443", 100);
    metrics.count_rest_retry("POST", "api:6443", Some(429));
    expect(
        &metrics.text(),
        &[
            "rest_client_requests_total{code=\"201\",host=\"api:6443\",method=\"POST\"} 1",
            "rest_client_requests_total{code=\"<error>\",host=\"api:6443\",method=\"POST\"} 1",
            "rest_client_request_duration_seconds_bucket{host=\"api:6443\",verb=\"POST\",le=\"0.025\"} 2",
            "rest_client_request_size_bytes_bucket{host=\"api:6443\",verb=\"POST\",le=\"512\"} 2",
            "rest_client_response_size_bytes_count{host=\"api:6443\",verb=\"POST\"} 1",
            "rest_client_request_retries_total{code=\"429\",host=\"api:6443\",verb=\"POST\"} 1",
        ],
    );
}
