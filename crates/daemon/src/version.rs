//! Which Kubernetes this scheduler stands in for, and on what it runs, in the words of Kubernetes.

/// A version of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KubernetesVersion {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The version in full, such as `v1.36.0`.
    pub git_version: &'static str,
}

/// The version of Kubernetes whose scheduler this one stands in for.
pub const KUBERNETES_VERSION: KubernetesVersion =
    KubernetesVersion { major: 1, minor: 36, git_version: "v1.36.0" };

/// The processor's name as Go has it.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
