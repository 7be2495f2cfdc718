//! A kube-apiserver and its etcd, as processes.
//!
//! The programs come from the directory that `KUBEBUILDER_ASSETS` names, as for the test environments of other projects.
//! Invariants: both keep their ports and their data over a restart of the API server; what the audit log says about the
//! scheduler is everything that a ready server refused to it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube_scheduler_devcluster::{Authority, User};
use serde_json::{Value, json};

use super::api::Api;
use super::ports;
use super::process::Process;

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Assets {
    directory: PathBuf,
}

impl Assets {
    /// What `KUBEBUILDER_ASSETS` names; nothing when it is unset or empty.
    ///
    /// # Errors
    /// If a program is missing: setting the variable means that the tests have to run.
    pub fn from_environment() -> Result<Option<Self>> {
        let Some(directory) =
            std::env::var_os("KUBEBUILDER_ASSETS").filter(|path| !path.is_empty())
        else {
            return Ok(None);
        };
        Self::of_directory(directory.into()).context("KUBEBUILDER_ASSETS").map(Some)
    }

    /// The programs in a directory.
    ///
    /// # Errors
    /// If one is not there.
    pub fn of_directory(directory: PathBuf) -> Result<Self> {
        let assets = Self { directory };
        for name in ["etcd", "kube-apiserver"] {
            let path = assets.program(name);
            anyhow::ensure!(path.is_file(), "there is no {}", path.display());
        }
        Ok(assets)
    }

    /// The stock kube-scheduler, if it is there too.
    pub fn scheduler(&self) -> Option<PathBuf> {
        Some(self.program("kube-scheduler")).filter(|path| path.is_file())
    }

    fn program(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// How to run an API server.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// Whether requests of the scheduler are written to an audit log, so that refused ones can be found.
    pub audits: bool,
    /// Which features it has.
    pub features: Features,
}

/// What an API server serves and validates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Features {
    /// What is on by default.
    #[default]
    Default,
    /// Pod groups, claims of groups and device taint rules as well: what schedulers can use, and is off by default.
    Gated,
    /// The default features, and every version of the API that they have, also those that are off by default.
    AllVersions,
}

impl Features {
    /// Flags of kube-apiserver v1.36.
    fn args(self) -> Vec<String> {
        match self {
            Self::Default => Vec::new(),
            Self::AllVersions => vec!["--runtime-config=api/all=true".to_owned()],
            Self::Gated => vec![
                "--feature-gates=GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true,\
                 WorkloadAwarePreemption=true,DRAWorkloadResourceClaims=true,DRADeviceTaintRules=true"
                    .to_owned(),
                "--runtime-config=scheduling.k8s.io/v1alpha2=true,resource.k8s.io/v1beta2=true".to_owned(),
            ],
        }
    }
}

/// A kube-apiserver with an etcd of its own.
pub struct RealServer {
    program: PathBuf,
    args: Vec<String>,
    files: PathBuf,
    url: String,
    server: Option<Process>,
    etcd: Process,
    audit_log: PathBuf,
    /// What to leave out of the audit log, in bytes.
    starts: Vec<Range<usize>>,
    authority: Authority,
}

impl RealServer {
    /// Starts both in a directory that is theirs alone, and waits until the API server is ready.
    ///
    /// # Errors
    /// If one of them cannot be started, or does not get ready in three minutes.
    pub async fn start(assets: &Assets, files: &Path, options: ServerOptions) -> Result<Self> {
        let mut failure = None;
        // A port may be taken between the choice and the start.
        for attempt in 0..3 {
            let files = files.join(format!("attempt-{attempt}"));
            std::fs::create_dir_all(&files)?;
            match Self::try_start(assets, &files, options).await {
                Ok(server) => return Ok(server),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(|| anyhow::anyhow!("kube-apiserver was not tried")))
    }

    async fn try_start(assets: &Assets, files: &Path, options: ServerOptions) -> Result<Self> {
        let [etcd_port, peer_port, port] = ports::free()?;
        let authority = Authority::generate("e2e-ca")?;
        let front_proxy = Authority::generate("e2e-front-proxy-ca")?;
        let serving = authority.server(&["localhost", "127.0.0.1"])?;
        let accounts = authority.server(&["service-accounts"])?;
        let proxy = front_proxy.client(&User::new("front-proxy-client"))?;
        let file = |name: &str, text: &str| -> Result<String> {
            let path = files.join(name);
            std::fs::write(&path, text)?;
            Ok(path.display().to_string())
        };
        let audit_log = files.join("audit.log");
        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let etcd = Process::start(
            &assets.program("etcd"),
            [
                "--data-dir".to_owned(),
                files.join("etcd").display().to_string(),
                format!("--listen-client-urls={etcd_url}"),
                format!("--advertise-client-urls={etcd_url}"),
                format!("--listen-peer-urls=http://127.0.0.1:{peer_port}"),
                "--unsafe-no-fsync".to_owned(),
                "--quota-backend-bytes=4294967296".to_owned(),
            ],
            &files.join("etcd.log"),
        )?;
        let mut args = vec![
            format!("--etcd-servers={etcd_url}"),
            format!("--tls-cert-file={}", file("serving.crt", &serving.certificate)?),
            format!("--tls-private-key-file={}", file("serving.key", &serving.key)?),
            format!("--client-ca-file={}", file("ca.crt", &authority.pem())?),
            format!(
                "--requestheader-client-ca-file={}",
                file("front-proxy-ca.crt", &front_proxy.pem())?
            ),
            "--requestheader-allowed-names=front-proxy-client".to_owned(),
            format!("--proxy-client-cert-file={}", file("proxy.crt", &proxy.certificate)?),
            format!("--proxy-client-key-file={}", file("proxy.key", &proxy.key)?),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!(
                "--service-account-key-file={}",
                file("accounts.crt", &accounts.certificate)?
            ),
            format!("--service-account-signing-key-file={}", file("accounts.key", &accounts.key)?),
            "--authorization-mode=RBAC".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            // These wait for controllers that are not here.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection"
                .to_owned(),
        ];
        args.extend(options.features.args());
        if options.audits {
            args.push(format!("--audit-policy-file={}", file("audit.yaml", AUDIT_POLICY)?));
            args.push(format!("--audit-log-path={}", audit_log.display()));
        }
        let mut server = Self {
            program: assets.program("kube-apiserver"),
            args,
            files: files.to_owned(),
            url: format!("https://127.0.0.1:{port}"),
            server: None,
            etcd,
            audit_log,
            starts: Vec::new(),
            authority,
        };
        server.start_api_server().await?;
        Ok(server)
    }

    /// Process ids of the API server, unless it is being started again, and of etcd.
    pub fn ids(&self) -> Vec<u32> {
        self.server.iter().chain([&self.etcd]).map(Process::id).collect()
    }

    /// Kills the API server, leaves it down for a while, and starts it again on the same data and port.
    ///
    /// # Errors
    /// If it does not get ready again in three minutes.
    pub async fn restart(&mut self, downtime: Duration) -> Result<()> {
        if let Some(server) = self.server.take() {
            server.kill();
        }
        tokio::time::sleep(downtime).await;
        // An API server that has not read its roles yet refuses everything to everyone.
        let begin = self.audited();
        self.start_api_server().await?;
        self.starts.push(begin..self.audited());
        Ok(())
    }

    /// A kubeconfig with a certificate of `user`.
    ///
    /// # Errors
    /// If the certificate cannot be made or written.
    pub fn kubeconfig_for(&self, user: &User) -> Result<String> {
        let identity = self.authority.client(user)?;
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "e2e",
            "clusters": [{"name": "e2e", "cluster": {"server": self.url,
                "certificate-authority": self.files.join("ca.crt")}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
            "users": [{"name": "e2e", "user": {
                "client-certificate": self.write(user, "crt", &identity.certificate)?,
                "client-key": self.write(user, "key", &identity.key)?}}],
        });
        // JSON is YAML.
        Ok(kubeconfig.to_string())
    }

    /// What was refused to the scheduler, one line each; empty unless requests are written down.
    ///
    /// # Errors
    /// If there is no audit log.
    pub fn denied(&self) -> Result<Vec<String>> {
        let log = std::fs::read_to_string(&self.audit_log).context("audit log")?;
        let mut denied = Vec::new();
        let mut at = 0;
        for line in log.split_inclusive('\n') {
            let begin = at;
            at += line.len();
            if self.starts.iter().any(|start| start.contains(&begin)) {
                continue;
            }
            // The last line may be half written.
            let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
            let is_forbidden = entry["annotations"]["authorization.k8s.io/decision"] == "forbid";
            if is_forbidden || entry["responseStatus"]["code"] == 401 {
                denied.push(format!("{} {}", entry["verb"], entry["requestURI"]));
            }
        }
        Ok(denied)
    }

    /// How long the audit log is.
    fn audited(&self) -> usize {
        let length = std::fs::metadata(&self.audit_log).map_or(0, |file| file.len());
        usize::try_from(length).unwrap_or(usize::MAX)
    }

    fn write(&self, user: &User, suffix: &str, text: &str) -> Result<PathBuf> {
        let path = self.files.join(format!("{}.{suffix}", user.name.replace(':', "-")));
        std::fs::write(&path, text)?;
        Ok(path)
    }

    async fn start_api_server(&mut self) -> Result<()> {
        let log = self.files.join("kube-apiserver.log");
        let mut server = Process::start(&self.program, &self.args, &log)?;
        let admin = Api::of_kubeconfig(&self.kubeconfig_for(&User::administrator())?).await?;
        let ready = async {
            // Made by the server itself, some time after it begins to answer.
            while admin.text("/readyz").await.is_err()
                || !matches!(admin.get("Namespace", "default").await, Ok(Some(_)))
                || !matches!(admin.get("PriorityClass", "system-node-critical").await, Ok(Some(_)))
                || !matches!(
                    admin.get("ClusterRoleBinding", "system:volume-scheduler").await,
                    Ok(Some(_))
                )
            {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let ended = async {
            while server.ended().is_none() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            () = ready => {}
            () = ended => bail!("kube-apiserver ended:\n{}", tail(&server.log())),
            () = tokio::time::sleep(Duration::from_secs(180)) => {
                bail!("kube-apiserver does not get ready:\n{}", tail(&server.log()))
            }
        }
        self.server = Some(server);
        Ok(())
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Only the scheduler's requests, once each.
const AUDIT_POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
  "rules": [{"level": "Metadata", "users": ["system:kube-scheduler"]}, {"level": "None"}]
}"#;
