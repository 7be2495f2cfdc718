//! The version of Kubernetes that this program stands for.

use kube_scheduler_daemon::KUBERNETES_VERSION;

/// The version of kube-scheduler whose behaviour this program has, such as `v1.36.0`.
pub(crate) const KUBERNETES: &str = KUBERNETES_VERSION.git_version;
