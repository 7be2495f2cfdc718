//! The API server of a round: one that is there already, or one of our own, as processes of their own.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube_scheduler_devcluster::{DevCluster, User};
use kube_scheduler_tests::control_plane::{
    Api, Assets, Features, Process, RealServer, ServerOptions,
};
use tempfile::TempDir;
use tokio::time::Instant;

/// Which API server to use.
#[derive(Clone, Debug)]
pub enum Backend {
    /// The one that a kubeconfig names. It is left as it was found.
    Given(PathBuf),
    /// The one in memory, with TLS and roles as a control plane has them or without.
    Devcluster {
        /// Whether it does without TLS and roles.
        is_plain: bool,
    },
    /// kube-apiserver and etcd.
    Real(Assets),
}

impl Backend {
    /// For the table of results.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Given(_) => "given",
            Self::Devcluster { .. } => "devcluster",
            Self::Real(_) => "kube-apiserver",
        }
    }
}

enum Server {
    Given,
    Devcluster(Process),
    Real(Box<RealServer>),
}

/// An API server that answers.
pub struct Cluster {
    server: Server,
    /// The API as the administrator.
    pub api: Api,
    /// How a scheduler gets there.
    pub scheduler_kubeconfig: PathBuf,
    files: TempDir,
}

impl Cluster {
    /// Starts the server if it is one of our own. `program` is this program, which serves the devcluster in a process of
    /// its own when it is called with `serve-devcluster`; see [`ServeDevcluster`].
    ///
    /// # Errors
    /// If the server does not start, or a kubeconfig cannot be read.
    pub async fn start(backend: &Backend, program: &Path) -> Result<Self> {
        Self::start_with(backend, program, Features::Default).await
    }

    /// The same with more features of kube-apiserver, if that is what is started.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with(backend: &Backend, program: &Path, features: Features) -> Result<Self> {
        let files = tempfile::tempdir()?;
        let scheduler = files.path().join("scheduler.kubeconfig");
        let (server, administrator, scheduler) = match backend {
            Backend::Given(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("read {}", path.display()))?;
                (Server::Given, text, path.clone())
            }
            Backend::Devcluster { is_plain } => {
                let administrator = files.path().join("administrator.kubeconfig");
                let mut args = vec![
                    SERVE.into(),
                    administrator.clone().into_os_string(),
                    scheduler.clone().into_os_string(),
                ];
                if *is_plain {
                    args.push("--plain".into());
                }
                let log = files.path().join("devcluster.log");
                let mut process = Process::start(program, args, &log)?;
                until_written(&mut process, &scheduler).await?;
                let text = std::fs::read_to_string(&administrator)?;
                (Server::Devcluster(process), text, scheduler)
            }
            Backend::Real(assets) => {
                let options = ServerOptions { audits: false, features };
                let server = RealServer::start(assets, files.path(), options).await?;
                std::fs::write(&scheduler, server.kubeconfig_for(&User::kube_scheduler())?)?;
                let text = server.kubeconfig_for(&User::administrator())?;
                (Server::Real(Box::new(server)), text, scheduler)
            }
        };
        let api = Api::of_kubeconfig(&administrator).await?;
        Ok(Self { server, api, scheduler_kubeconfig: scheduler, files })
    }

    /// Whether the cluster outlives the round, so that what was created must be taken away.
    pub fn is_kept(&self) -> bool {
        matches!(self.server, Server::Given)
    }

    /// A directory that goes with the cluster.
    pub fn files(&self) -> &Path {
        self.files.path()
    }

    /// The server's processes, those of the API server and of its store; none if it was there already.
    pub fn process_ids(&self) -> Vec<u32> {
        match &self.server {
            Server::Given => Vec::new(),
            Server::Devcluster(process) => vec![process.id()],
            Server::Real(server) => server.ids(),
        }
    }
}

/// The argument that makes a program a devcluster.
const SERVE: &str = "serve-devcluster";

async fn until_written(process: &mut Process, path: &Path) -> Result<()> {
    let give_up = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        if let Some(status) = process.ended() {
            bail!("the devcluster ended with {status}:\n{}", process.log());
        }
        if Instant::now() > give_up {
            bail!("the devcluster does not start:\n{}", process.log());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Serves an empty devcluster without kubelets, volumes or controllers until standard input ends, which it does when
/// the parent process is gone. Writes the administrator's kubeconfig first and the scheduler's last.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeDevcluster {
    /// Where to write the administrator's kubeconfig
    administrator: PathBuf,
    /// Where to write the scheduler's kubeconfig
    scheduler: PathBuf,
    /// Do without TLS and roles
    #[arg(long)]
    plain: bool,
}

impl ServeDevcluster {
    /// Serves until standard input ends.
    ///
    /// # Errors
    /// If the cluster does not start, or a file cannot be written.
    pub async fn run(self) -> Result<()> {
        let builder = DevCluster::builder()
            .hollow(None)
            .volumes(None)
            .disruption_controller(false)
            .events(1_000_000, Duration::from_secs(3600))
            .tls(!self.plain)
            .rbac(!self.plain);
        let cluster = builder.start().await?;
        let write = |path: &Path, text: String| -> Result<()> {
            // A process that waits for the file must not see half of it.
            let new = path.with_extension("new");
            std::fs::write(&new, text)?;
            std::fs::rename(&new, path).with_context(|| path.display().to_string())
        };
        write(&self.administrator, cluster.kubeconfig_for(&User::administrator())?)?;
        write(&self.scheduler, cluster.kubeconfig_for(&User::kube_scheduler())?)?;
        let ended =
            tokio::task::spawn_blocking(|| std::io::stdin().lock().read_to_end(&mut Vec::new()));
        ended.await?.context("standard input")?;
        cluster.shutdown().await?;
        Ok(())
    }
}
