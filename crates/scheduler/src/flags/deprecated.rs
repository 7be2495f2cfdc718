//! Flags that a configuration file replaces. With `--config` they do nothing, all but one.

use kube_scheduler_config::{Configuration, Duration};

use super::{Flags, section};

section! {
    /// What a configuration file says better.
    Deprecated {
        /// Whether profiles of the process can be fetched.
        profiling: bool = true, "profiling",
            "DEPRECATED: enable profiling via web interface host:port/debug/pprof/. This parameter is ignored if a \
             config file is specified in --config.";
        /// Whether lock contention is profiled too.
        contention_profiling: bool = true, "contention-profiling",
            "DEPRECATED: enable block profiling, if profiling is enabled. This parameter is ignored if a config file is \
             specified in --config.";
        /// Where the API server is and who we are.
        kubeconfig: String = String::new(), "kubeconfig",
            "DEPRECATED: path to kubeconfig file with authorization and master location information. This parameter is \
             ignored if a config file is specified in --config.";
        /// The media type of request bodies.
        kube_api_content_type: String = "application/vnd.kubernetes.protobuf".to_owned(), "kube-api-content-type",
            "DEPRECATED: content type of requests sent to apiserver. This parameter is ignored if a config file is \
             specified in --config.";
        /// Requests per second.
        kube_api_qps: f32 = 50.0, "kube-api-qps",
            "DEPRECATED: QPS to use while talking with kubernetes apiserver. This parameter is ignored if a config file \
             is specified in --config.";
        /// Requests at once after a pause.
        kube_api_burst: i32 = 100, "kube-api-burst",
            "DEPRECATED: burst to use while talking with kubernetes apiserver. This parameter is ignored if a config \
             file is specified in --config.";
        /// How long a pod may stay unschedulable before it is tried again without any reason. Counts with `--config` too.
        pod_max_in_unschedulable_pods_duration: Duration = Duration::from_secs(300),
            "pod-max-in-unschedulable-pods-duration",
            "DEPRECATED: the maximum time a pod can stay in unschedulablePods. If a pod stays in unschedulablePods for \
             longer than this value, the pod will be moved from unschedulablePods to backoffQ or activeQ. This flag is \
             deprecated and will be removed in a future version.";
    }
}

/// Those that are passed over when there is a configuration file.
const IGNORED_WITH_FILE: [&str; 6] = [
    "contention-profiling",
    "kube-api-burst",
    "kube-api-content-type",
    "kube-api-qps",
    "kubeconfig",
    "profiling",
];

/// The flags that were given and that the configuration file overrules.
pub(crate) fn overruled(flags: &Flags) -> Vec<&'static str> {
    IGNORED_WITH_FILE.into_iter().filter(|name| flags.is_given(name)).collect()
}

/// Puts what was given into a configuration that no file has filled.
pub(crate) fn apply(flags: &Flags, config: &mut Configuration) {
    let given = &flags.deprecated;
    if flags.is_given("profiling") {
        config.enable_profiling = Some(given.profiling);
    }
    if flags.is_given("contention-profiling") {
        config.enable_contention_profiling = Some(given.contention_profiling);
    }
    let connection = &mut config.client_connection;
    if flags.is_given("kubeconfig") {
        connection.kubeconfig.clone_from(&given.kubeconfig);
    }
    if flags.is_given("kube-api-content-type") {
        connection.content_type.clone_from(&given.kube_api_content_type);
    }
    if flags.is_given("kube-api-qps") {
        connection.qps = given.kube_api_qps;
    }
    if flags.is_given("kube-api-burst") {
        connection.burst = given.kube_api_burst;
    }
}
