//! Authorization on the secure port: subject access reviews, and paths that need none.

use kube_scheduler_config::Duration;

use super::section::section;

section! {
    /// How requests are authorized.
    Authorization {
        /// Where access reviews go; empty for the surrounding cluster, if there is one.
        kubeconfig: String = String::new(), "authorization-kubeconfig",
            "kubeconfig file pointing at the 'core' kubernetes server with enough rights to create \
             subjectaccessreviews.authorization.k8s.io. This is optional. If empty, all requests not skipped by \
             authorization are forbidden.";
        /// How long a permission is cached.
        webhook_cache_authorized_ttl: Duration = Duration::from_secs(10),
            "authorization-webhook-cache-authorized-ttl",
            "The duration to cache 'authorized' responses from the webhook authorizer.";
        /// How long a rejection is cached.
        webhook_cache_unauthorized_ttl: Duration = Duration::from_secs(10),
            "authorization-webhook-cache-unauthorized-ttl",
            "The duration to cache 'unauthorized' responses from the webhook authorizer.";
        /// Paths that need no authorization, exact or with a `*` at the end.
        always_allow_paths: Vec<String> = ["/healthz", "/readyz", "/livez"].map(str::to_owned).to_vec(),
            "authorization-always-allow-paths",
            "A list of HTTP paths to skip during authorization, i.e. these are authorized without contacting the 'core' \
             kubernetes server.";
    }
}
