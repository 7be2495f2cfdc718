//! Flags that a configuration file replaces. With `--config` only one of them has an effect.

use kube_scheduler_config::Duration;

use super::section::section;

section! {
    /// Flags that fields of the configuration file replace.
    Deprecated {
        /// Whether profiles of the process can be fetched.
        profiling: bool = true, "profiling",
            "DEPRECATED: enable profiling via web interface host:port/debug/pprof/. This parameter is ignored if a \
             config file is specified in --config.";
        /// Whether lock contention is profiled too.
        contention_profiling: bool = true, "contention-profiling",
            "DEPRECATED: enable block profiling, if profiling is enabled. This parameter is ignored if a config file is \
             specified in --config.";
        /// The kubeconfig with the address of the API server and the scheduler's credentials.
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
        /// How many requests may be sent at once after a pause.
        kube_api_burst: i32 = 100, "kube-api-burst",
            "DEPRECATED: burst to use while talking with kubernetes apiserver. This parameter is ignored if a config \
             file is specified in --config.";
        /// How long a pod may stay unschedulable before it is retried without an event. Has an effect with `--config` too.
        pod_max_in_unschedulable_pods_duration: Duration = Duration::from_secs(300),
            "pod-max-in-unschedulable-pods-duration",
            "DEPRECATED: the maximum time a pod can stay in unschedulablePods. If a pod stays in unschedulablePods for \
             longer than this value, the pod will be moved from unschedulablePods to backoffQ or activeQ. This flag is \
             deprecated and will be removed in a future version.";
    }
}
