//! The scheduler's own metrics: names, help texts, labels and buckets as the reference has them.
//!
//! Invariant: `ALL` is every description in this file.

use super::registry::{Buckets, Desc, Stability};

use Stability::{Alpha, Beta, Stable, Unmarked};

/// 1 ms doubled up to about 16 s.
const E2: Buckets = Buckets::Exponential(0.001, 2.0, 15);
/// 10 ms doubled up to about 88 min.
const E3: Buckets = Buckets::Exponential(0.01, 2.0, 20);
/// 0.1 ms doubled up to about 200 ms.
const E1: Buckets = Buckets::Exponential(0.0001, 2.0, 12);
/// 0.01 ms growing by half up to about 22 ms.
const E6: Buckets = Buckets::Exponential(0.000_01, 1.5, 20);

macro_rules! catalog {
    ($($name:ident = $desc:expr;)*) => {
        $(pub(crate) const $name: Desc = $desc;)*

        /// Every description.
        #[cfg(test)]
        pub(crate) const ALL: &[Desc] = &[$($name),*];
    };
}

catalog! {
    ATTEMPTS = Desc::counter(
        "scheduler_schedule_attempts_total", Stable, &["profile", "result"],
        "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while 'error' means an internal scheduler problem.",
    );
    EVENT_HANDLING = Desc::histogram(
        "scheduler_event_handling_duration_seconds", Alpha, &["event"], E1,
        "Event handling latency in seconds.",
    );
    ATTEMPT_DURATION = Desc::histogram(
        "scheduler_scheduling_attempt_duration_seconds", Stable, &["profile", "result"], E2,
        "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
    );
    ALGORITHM_DURATION = Desc::histogram(
        "scheduler_scheduling_algorithm_duration_seconds", Alpha, &[], E2,
        "Scheduling algorithm latency in seconds",
    );
    POD_GROUP_ATTEMPTS = Desc::counter(
        "scheduler_podgroup_schedule_attempts_total", Alpha, &["profile", "result"],
        "Number of attempts to schedule pod group, by the result. 'unschedulable' means a pod group could not be scheduled, while 'error' means an internal scheduler problem.",
    );
    POD_GROUP_ATTEMPT_DURATION = Desc::histogram(
        "scheduler_podgroup_scheduling_attempt_duration_seconds", Alpha, &["profile", "result"], E2,
        "Pod group scheduling attempt latency in seconds (scheduling algorithm + binding)",
    );
    POD_GROUP_ALGORITHM_DURATION = Desc::histogram(
        "scheduler_podgroup_scheduling_algorithm_duration_seconds", Alpha, &[], E2,
        "Pod group scheduling algorithm latency in seconds",
    );
    PREEMPTION_VICTIMS = Desc::histogram(
        "scheduler_preemption_victims", Stable, &[], Buckets::Exponential(1.0, 2.0, 7),
        "Number of selected preemption victims",
    );
    PREEMPTION_ATTEMPTS = Desc::counter(
        "scheduler_preemption_attempts_total", Stable, &[],
        "Total preemption attempts in the cluster till now",
    );
    PENDING_PODS = Desc::gauge(
        "scheduler_pending_pods", Stable, &["queue"],
        "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never attempted to schedule because they are gated.",
    );
    INFLIGHT_EVENTS = Desc::gauge(
        "scheduler_inflight_events", Alpha, &["event"],
        "Number of events currently tracked in the scheduling queue.",
    );
    GOROUTINES = Desc::gauge(
        "scheduler_goroutines", Beta, &["operation"],
        "Number of running goroutines split by the work they do such as binding.",
    );
    SLI_DURATION = Desc::histogram(
        "scheduler_pod_scheduling_sli_duration_seconds", Beta, &["attempts"], E3,
        "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might involve multiple scheduling attempts.",
    );
    POD_ATTEMPTS = Desc::histogram(
        "scheduler_pod_scheduling_attempts", Stable, &[], Buckets::Exponential(1.0, 2.0, 5),
        "Number of attempts to successfully schedule a pod.",
    );
    AFTER_FLUSH = Desc::counter(
        "scheduler_pod_scheduled_after_flush_total", Alpha, &[],
        "Number of pods that were successfully scheduled after being flushed from unschedulablePods due to timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues.",
    );
    EXTENSION_POINT_DURATION = Desc::histogram(
        "scheduler_framework_extension_point_duration_seconds", Stable,
        &["extension_point", "profile", "status"], E1,
        "Latency for running all plugins of a specific extension point.",
    );
    PLUGIN_DURATION = Desc::histogram(
        "scheduler_plugin_execution_duration_seconds", Alpha,
        &["extension_point", "plugin", "status"], E6,
        "Duration for running a plugin at a specific extension point.",
    );
    HINT_DURATION = Desc::histogram(
        "scheduler_queueing_hint_execution_duration_seconds", Alpha, &["event", "hint", "plugin"], E6,
        "Duration for running a queueing hint function of a plugin.",
    );
    QUEUE_INCOMING = Desc::counter(
        "scheduler_queue_incoming_pods_total", Stable, &["event", "queue"],
        "Number of pods added to scheduling queues by event and queue type.",
    );
    PERMIT_WAIT = Desc::histogram(
        "scheduler_permit_wait_duration_seconds", Beta, &["result"], E2,
        "Duration of waiting on permit.",
    );
    CACHE_SIZE = Desc::gauge(
        "scheduler_cache_size", Alpha, &["type"],
        "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
    );
    UNSCHEDULABLE_PODS = Desc::gauge(
        "scheduler_unschedulable_pods", Beta, &["plugin", "profile"],
        "The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for all plugins that caused it to not schedule and so this metric have meaning only when broken down by plugin.",
    );
    PLUGIN_EVALUATIONS = Desc::counter(
        "scheduler_plugin_evaluation_total", Beta, &["extension_point", "plugin", "profile"],
        "Number of attempts to schedule pods by each plugin and the extension point (available only in PreFilter, Filter, PreScore, and Score).",
    );
    PREEMPTION_DURATION = Desc::histogram(
        "scheduler_preemption_goroutines_duration_seconds", Alpha, &["result"], E3,
        "Duration in seconds for running goroutines for the preemption.",
    );
    PREEMPTION_EXECUTIONS = Desc::counter(
        "scheduler_preemption_goroutines_execution_total", Alpha, &["result"],
        "Number of preemption goroutines executed.",
    );
    ASYNC_CALLS = Desc::counter(
        "scheduler_async_api_call_execution_total", Alpha, &["call_type", "result"],
        "Total number of API calls executed by the async dispatcher.",
    );
    ASYNC_CALL_DURATION = Desc::histogram(
        "scheduler_async_api_call_execution_duration_seconds", Alpha, &["call_type", "result"], E2,
        "Duration in seconds for executing API call in the async dispatcher.",
    );
    ASYNC_PENDING = Desc::gauge(
        "scheduler_pending_async_api_calls", Alpha, &["call_type"],
        "Number of API calls currently pending in the async queue.",
    );
    VOLUME_STAGE_ERRORS = Desc::counter(
        "scheduler_volume_scheduling_stage_error_total", Alpha, &["operation"],
        "Volume scheduling stage error count",
    );
    VOLUME_CACHE_REQUESTS = Desc::counter(
        "scheduler_volume_binder_cache_requests_total", Alpha, &["operation"],
        "Total number for request volume binding cache",
    );
    BUILD_INFO = Desc::gauge(
        "kubernetes_build_info", Beta,
        &["build_date", "compiler", "git_commit", "git_tree_state", "git_version", "go_version", "major", "minor", "platform"],
        "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
    );
    FEATURE_ENABLED = Desc::gauge(
        "kubernetes_feature_enabled", Beta, &["name", "stage"],
        "This metric records the data about the stage and enablement of a k8s feature.",
    );
    VERSION_INFO = Desc::gauge(
        "version_info", Alpha, &["binary", "component", "emulation", "min_compat"],
        "Provides the compatibility version info of the component. The component label is the name of the component, usually kube, but is relevant for aggregated-apiservers.",
    );
    LEADS = Desc::gauge(
        "leader_election_master_status", Alpha, &["name"],
        "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
    );
    SLOW_RENEWALS = Desc::counter(
        "leader_election_slowpath_total", Alpha, &["name"],
        "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease. Please make sure to group by name.",
    );
    MALFORMED = Desc::counter(
        "kube_scheduler_rs_malformed_objects_total", Unmarked, &["kind"],
        "Objects of the API that could not be read and were skipped, by kind.",
    );
    EVENTS_DROPPED = Desc::counter(
        "kube_scheduler_rs_events_dropped_total", Unmarked, &[],
        "Events that were not written because too many waited, or after too many tries.",
    );
    SPANS_DROPPED = Desc::counter(
        "kube_scheduler_rs_spans_dropped_total", Unmarked, &[],
        "Spans that were not exported because too many waited or the collector did not take them.",
    );
    WRITES_WAITING = Desc::gauge(
        "kube_scheduler_rs_writes_waiting", Unmarked, &["class"],
        "Writes to the API that wait for their turn, by class.",
    );
    WRITES_UNDER_WAY = Desc::gauge(
        "kube_scheduler_rs_writes_under_way", Unmarked, &["class"],
        "Writes to the API that are under way, by class.",
    );
    WRITES_WIDTH = Desc::gauge(
        "kube_scheduler_rs_writes_width", Unmarked, &[],
        "How many writes may be under way at once at the moment.",
    );
    TABLE_ENTRIES = Desc::gauge(
        "kube_scheduler_rs_table_entries", Unmarked, &["table"],
        "How many entries the scheduler's tables have, by table.",
    );
    TABLE_BYTES = Desc::gauge(
        "kube_scheduler_rs_table_bytes", Unmarked, &["table"],
        "What the scheduler's tables take in memory, by table; those with a few words for each entry are left out.",
    );
    REST_DURATION = Desc::histogram(
        "rest_client_request_duration_seconds", Alpha, &["host", "verb"], REST_SECONDS,
        "Request latency in seconds. Broken down by verb, and host.",
    );
    REST_REQUEST_SIZE = Desc::histogram(
        "rest_client_request_size_bytes", Alpha, &["host", "verb"], REST_BYTES,
        "Request size in bytes. Broken down by verb and host.",
    );
    REST_RESPONSE_SIZE = Desc::histogram(
        "rest_client_response_size_bytes", Alpha, &["host", "verb"], REST_BYTES,
        "Response size in bytes. Broken down by verb and host.",
    );
    REST_LIMITER = Desc::histogram(
        "rest_client_rate_limiter_duration_seconds", Alpha, &["host", "verb"], REST_SECONDS,
        "Client side rate limiter latency in seconds. Broken down by verb, and host.",
    );
    REST_REQUESTS = Desc::counter(
        "rest_client_requests_total", Alpha, &["code", "host", "method"],
        "Number of HTTP requests, partitioned by status code, method, and host.",
    );
    REST_RETRIES = Desc::counter(
        "rest_client_request_retries_total", Alpha, &["code", "host", "verb"],
        "Number of request retries, partitioned by status code, verb, and host.",
    );
    CPU_SECONDS = Desc::counter(
        "process_cpu_seconds_total", Unmarked, &[],
        "Total user and system CPU time spent in seconds.",
    );
    MAX_FDS = Desc::gauge(
        "process_max_fds", Unmarked, &[], "Maximum number of open file descriptors.",
    );
    OPEN_FDS = Desc::gauge(
        "process_open_fds", Unmarked, &[], "Number of open file descriptors.",
    );
    RESIDENT_BYTES = Desc::gauge(
        "process_resident_memory_bytes", Unmarked, &[], "Resident memory size in bytes.",
    );
    START_TIME = Desc::gauge(
        "process_start_time_seconds", Unmarked, &[],
        "Start time of the process since unix epoch in seconds.",
    );
    VIRTUAL_BYTES = Desc::gauge(
        "process_virtual_memory_bytes", Unmarked, &[], "Virtual memory size in bytes.",
    );
    VIRTUAL_MAX_BYTES = Desc::gauge(
        "process_virtual_memory_max_bytes", Unmarked, &[],
        "Maximum amount of virtual memory available in bytes.",
    );
    NETWORK_IN = Desc::counter(
        "process_network_receive_bytes_total", Unmarked, &[],
        "Number of bytes received by the process over the network.",
    );
    AUTHENTICATED_USERS = Desc::counter(
        "authenticated_user_requests", Alpha, &["username"],
        "Counter of authenticated requests broken out by username.",
    );
    AUTHENTICATIONS = Desc::counter(
        "authentication_attempts", Alpha, &["result"], "Counter of authenticated attempts.",
    );
    AUTHENTICATION_DURATION = Desc::histogram(
        "authentication_duration_seconds", Alpha, &["result"], E2,
        "Authentication duration in seconds broken out by result.",
    );
    AUTHORIZATIONS = Desc::counter(
        "authorization_attempts_total", Alpha, &["result"],
        "Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' or 'error'.",
    );
    AUTHORIZATION_DURATION = Desc::histogram(
        "authorization_duration_seconds", Alpha, &["result"], E2,
        "Authorization duration in seconds broken out by result.",
    );
    CERTIFICATE_EXPIRATION = Desc::histogram(
        "apiserver_client_certificate_expiration_seconds", Alpha, &[], LIFETIMES,
        "Distribution of the remaining lifetime on the certificate used to authenticate a request.",
    );
    DELEGATED_AUTHN = Desc::counter(
        "apiserver_delegated_authn_request_total", Alpha, &["code"],
        "Number of HTTP requests partitioned by status code.",
    );
    DELEGATED_AUTHN_DURATION = Desc::histogram(
        "apiserver_delegated_authn_request_duration_seconds", Alpha, &["code"], DELEGATED_SECONDS,
        "Request latency in seconds. Broken down by status code.",
    );
    DELEGATED_AUTHZ = Desc::counter(
        "apiserver_delegated_authz_request_total", Alpha, &["code"],
        "Number of HTTP requests partitioned by status code.",
    );
    DELEGATED_AUTHZ_DURATION = Desc::histogram(
        "apiserver_delegated_authz_request_duration_seconds", Alpha, &["code"], DELEGATED_SECONDS,
        "Request latency in seconds. Broken down by status code.",
    );
    TOKEN_CACHE_REQUESTS = Desc::counter(
        "authentication_token_cache_request_total", Alpha, &["status"], "",
    );
    TOKEN_CACHE_DURATION = Desc::histogram(
        "authentication_token_cache_request_duration_seconds", Alpha, &["status"], USUAL_SECONDS, "",
    );
    TOKEN_CACHE_FETCHES = Desc::counter(
        "authentication_token_cache_fetch_total", Alpha, &["status"], "",
    );
    TOKEN_CACHE_ACTIVE = Desc::gauge(
        "authentication_token_cache_active_fetch_count", Alpha, &["status"], "",
    );
    NETWORK_OUT = Desc::counter(
        "process_network_transmit_bytes_total", Unmarked, &[],
        "Number of bytes sent by the process over the network.",
    );
}

const DELEGATED_SECONDS: Buckets = Buckets::Fixed(&[0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0]);
/// Those of the Prometheus libraries, for what names none.
const USUAL_SECONDS: Buckets =
    Buckets::Fixed(&[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]);
/// From nothing over hours, days and months to a year.
const LIFETIMES: Buckets = Buckets::Fixed(&[
    0.0,
    1_800.0,
    3_600.0,
    7_200.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
]);
const REST_SECONDS: Buckets =
    Buckets::Fixed(&[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0]);
const REST_BYTES: Buckets = Buckets::Fixed(&[
    64.0,
    256.0,
    512.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
]);
