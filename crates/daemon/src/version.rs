//! Which Kubernetes this scheduler stands in for, and on what it runs, in the words of Kubernetes.

/// The version of Kubernetes whose scheduler this one stands in for: major, minor, and in full.
pub const KUBERNETES_VERSION: (u32, u32, &str) = (1, 36, "v1.36.0");

/// The processor's name as Go has it.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
