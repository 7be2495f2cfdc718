//! Where an API server is found: what kubeconfig files say, or the cluster around.

use std::path::{Path, PathBuf};

use super::kubeconfig::{self, Choice};
use super::{ConnectError, Endpoint};

/// Where a pod finds the token of its service account.
const SERVICE_ACCOUNT_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

impl Endpoint {
    /// What files say, or else the surrounding cluster, if there is one.
    pub(super) fn from_files(
        paths: &[&Path],
        context: Option<&str>,
        master: Option<http::Uri>,
        around: impl FnOnce() -> Option<Result<Self, ConnectError>>,
    ) -> Result<Self, ConnectError> {
        let refused = |path: &Path, why: String| ConnectError::Kubeconfig {
            path: path.to_owned(),
            source: why.into(),
        };
        let read = kubeconfig::read(paths).map_err(|(path, why)| refused(path, why))?;
        // As the variable lists them. A path that could not stand there is given by itself.
        let path =
            std::env::join_paths(paths).map_or_else(|_| paths.iter().collect(), PathBuf::from);
        match kubeconfig::choose(read, context, master).map_err(|why| refused(&path, why))? {
            Choice::Server(config, files) => {
                let origin = format!("(from kubeconfig {})", path.display());
                Ok(Self { files, ..Self::new(*config, origin) })
            }
            Choice::Nothing(why) => around().unwrap_or_else(|| Err(refused(&path, why))),
        }
    }

    /// The cluster that this process runs in, where a kubeconfig leaves it at that; `None` outside of a pod with a service account.
    pub(super) fn around() -> Option<Result<Self, ConnectError>> {
        let has_token = Path::new(SERVICE_ACCOUNT_TOKEN).is_file();
        match Self::in_cluster() {
            Err(ConnectError::NotConfigured) => None,
            found => has_token.then_some(found),
        }
    }
}
