//! Where answers come from: a running scheduler, or this program with a cluster that is read from files or once from its API
//! server.

mod live;
mod missing;

use std::collections::BTreeMap;
use std::fs;
use std::mem::take;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::builder::NonEmptyStringValueParser;
use kube_scheduler_answers::{Format, Interrupt, PodName};
use kube_scheduler_api_types::{Node, Object, Pod, Timestamp};
use kube_scheduler_config::{Configuration, FeatureGates};
use kube_scheduler_daemon::{
    AskError, ClusterLists, ConnectError, Endpoint, LeaseName, RunningScheduler, Trust,
};
use kube_scheduler_engine::{Engine, Input};
use kube_scheduler_runtime::Registry;
use kube_scheduler_simulator::{ClusterInput, Simulation, SimulationOptions};
use serde_json::Value;
use tokio::time::timeout;

pub(crate) use self::live::{LiveCluster, Manifests};
use super::runtime;
use super::terminal::end_work;
use crate::settings::exact_gangs_in_vain;
use crate::text_file::{self, MAX_CONFIG, MAX_DUMP};

/// How long it may take to find a running scheduler.
const PATIENCE: Duration = Duration::from_secs(30);

/// The namespace of what names none, where no kubeconfig says another.
const DEFAULT_NAMESPACE: &str = "default";

/// The endings of files that are read from directories.
const MANIFEST_EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// The cluster that a question is about, and how to answer.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Source {
    /// The cluster as manifests or lists in YAML or JSON, such as a dump by `kubectl get nodes,pods,… -A -o json`. A directory
    /// stands for its *.yaml, *.yml and *.json files, `-` for standard input. May be repeated.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    filename: Vec<PathBuf>,

    /// Answer here, without asking a running scheduler.
    #[arg(long, conflicts_with_all = ["live", "server", "filename"])]
    local: bool,

    /// Let a running scheduler answer, and fail if there is none. Without this flag and --local, one is asked that is registered
    /// with the API server, or that holds --lease (docs/answers.md), and if there is none, the answer is given here.
    #[arg(long, conflicts_with = "filename")]
    live: bool,

    /// Ask the scheduler whose secure port this is, such as https://10.0.0.1:10259, with the credentials of the kubeconfig.
    #[arg(long, value_name = "URL", conflicts_with = "filename")]
    server: Option<String>,

    /// Ask the leader at its pod with a token or password, too. It goes to the holder of --lease, who could use it: do so where
    /// only the control plane may write the lease. A client certificate needs no such flag.
    #[arg(long, conflicts_with_all = ["local", "server", "filename"])]
    ask_leader: bool,

    /// Ends requests that are under way when it is set.
    #[arg(skip)]
    interrupt: Interrupt,

    /// Credential plugins get nothing of this process's standard input.
    #[arg(skip)]
    keeps_input: bool,

    /// The lease by which the running schedulers choose their leader; it is asked at its pod.
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "kube-system/kube-scheduler", value_parser = lease)]
    lease: LeaseName,

    /// The authority that has signed the certificate of --server; that of the kubeconfig without.
    #[arg(long, value_name = "FILE", requires = "server")]
    server_ca: Option<PathBuf>,

    /// Do not check the certificate of --server: what answers there gets the credentials of the kubeconfig.
    #[arg(long, requires = "server", conflicts_with = "server_ca")]
    insecure_skip_server_check: bool,

    /// Without --filename, the cluster is read with the rights of this file: those of $KUBECONFIG, merged as by kubectl, or
    /// ~/.kube/config by default. Nothing is written.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// The namespace of pods and manifests that name none: that of the kubeconfig's context by default, and `default` where it
    /// names none or the cluster is given by --filename.
    #[arg(short, long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    namespace: Option<String>,

    /// The KubeSchedulerConfiguration to answer with, here and not by a running scheduler; the default one without.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Feature gates, as in kube-scheduler, such as GenericWorkload=true,GangScheduling=true.
    #[arg(long, value_name = "GATE=BOOL", value_delimiter = ',', value_parser = gate)]
    feature_gates: Vec<(String, bool)>,

    /// Plan gangs as a whole, as the scheduler's flag of the same name does, in an answer that is given here. Needs the feature
    /// gate GangScheduling or the plugin Coscheduling.
    #[arg(long)]
    exact_gangs: bool,
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Output {
    /// Output format: table, wide, json or yaml.
    #[arg(short = 'o', long = "output", default_value = "table", value_name = "FORMAT")]
    pub(crate) format: Format,
}

/// A cluster that is ready to be asked.
#[derive(Debug)]
pub(crate) struct QueryableCluster {
    pub(crate) engine: Engine,
    pub(crate) now: Timestamp,
    /// What has the same cluster and another configuration, if that was asked for.
    pub(crate) other: Option<Engine>,
    /// Of pods that are asked about and name none.
    pub(crate) namespace: String,
    /// The newest revision of all objects, if the cluster was read from its API server.
    pub(crate) resource_version: Option<String>,
    /// Nodes, pods and pod groups that are asked about, beside the cluster.
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) pods: Vec<Arc<Pod>>,
    pub(crate) groups: Vec<Arc<Object>>,
    /// The same pods as an API server would store them.
    pub(crate) manifests: Vec<Value>,
    /// Whether workloads are asked about, and stand for no pod.
    pub(crate) stands_for_none: bool,
    /// Pods of the cluster that have ended, and their phases, as far as that was read.
    finished: BTreeMap<PodName, Arc<str>>,
}

impl QueryableCluster {
    /// Makes the groups that are asked about part of the cluster, where a question is about single pods.
    pub(crate) fn with_groups(mut self) -> Self {
        for group in take(&mut self.groups) {
            self.engine.handle(Input::ObjectApplied(group), self.now);
        }
        self
    }
}

/// Takes what the user should know of the source of an answer, one sentence at a time.
pub(crate) type Remarks<'a> = &'a mut dyn FnMut(String);

/// Prints a remark on standard error.
pub(crate) fn print_remark(text: String) {
    end_work();
    eprintln!("{text}");
}

impl Source {
    /// This source, with standard input left to this process.
    pub(crate) fn keeping_input(self) -> Self {
        Self { keeps_input: true, ..self }
    }

    /// This source, for a question that may be given up: what is being read then is given up, too.
    pub(crate) fn until(&self, interrupt: Interrupt) -> Self {
        Self { interrupt, ..self.clone() }
    }

    /// Whether the cluster is read from standard input.
    pub(crate) fn reads_stdin(&self) -> bool {
        self.filename.iter().any(|path| path.as_os_str() == "-")
    }

    /// The feature gates of an answer that is given here.
    pub(crate) fn gates(&self) -> Result<FeatureGates> {
        gates(&self.feature_gates)
    }

    /// The scheduler to ask; `None` if the answer is to be given here.
    pub(crate) fn running(&self, remarks: Remarks<'_>) -> Result<Option<LiveCluster>> {
        let is_own = self.is_own();
        let is_wanted = self.live || self.server.is_some();
        if !self.filename.is_empty() || self.local || (is_own && !is_wanted) {
            return Ok(None);
        }
        if is_own {
            bail!(
                "--config, --feature-gates and --exact-gangs are for answers that are given here, and not by a running scheduler"
            );
        }
        let paths = self.kubeconfigs();
        if paths.is_empty() {
            return if is_wanted { Err(anyhow!("give --kubeconfig FILE")) } else { Ok(None) };
        }
        let runtime = runtime()?;
        let endpoint = runtime.block_on(self.endpoint(&paths))?;
        // Clients begin tasks when they are made.
        let entered = runtime.enter();
        let scheduler = match &self.server {
            Some(url) => {
                let trust = match &self.server_ca {
                    Some(path) => Trust::Authority(path),
                    None if self.insecure_skip_server_check => Trust::Anybody,
                    None => Trust::AsApiServer,
                };
                Some(RunningScheduler::at(&endpoint, url, trust)?)
            }
            None => runtime
                .block_on(async {
                    let found = timeout(PATIENCE, self.found(&endpoint, remarks));
                    wanted(&self.interrupt, found).await
                })?
                .with_context(|| {
                    format!("{} has not answered within {PATIENCE:?}", endpoint.url())
                })??,
        };
        if scheduler.is_none() && is_wanted {
            let hint = match self.ask_leader || !endpoint.has_bearer_credentials() {
                true => "",
                false => "; the leader is asked with a token or password only with --ask-leader",
            };
            bail!(
                "no scheduler that answers questions is registered with {} or holds lease {}{hint}",
                endpoint.url(),
                self.lease
            );
        }
        drop(entered);
        let interrupt = self.interrupt.clone();
        let namespace = self.namespace_at(Some(&endpoint));
        let is_confined = self.namespace.is_some();
        let live = |scheduler| LiveCluster {
            runtime,
            endpoint,
            scheduler,
            interrupt,
            namespace,
            is_confined,
        };
        Ok(scheduler.map(live))
    }

    /// The namespace of what names none, where the cluster is read from this API server, if from any.
    fn namespace_at(&self, endpoint: Option<&Endpoint>) -> String {
        let given = self.namespace.as_deref();
        given.or(endpoint.map(Endpoint::namespace)).unwrap_or(DEFAULT_NAMESPACE).to_owned()
    }

    /// The namespace of what names none, as the kubeconfig has it now.
    pub(crate) async fn namespace(&self) -> Result<String> {
        let paths = if self.filename.is_empty() { self.kubeconfigs() } else { Vec::new() };
        let endpoint = match &paths[..] {
            [] => None,
            paths => Some(self.endpoint(paths).await?),
        };
        Ok(self.namespace_at(endpoint.as_ref()))
    }

    /// The kubeconfig that is given, or else what kubectl would read.
    fn kubeconfigs(&self) -> Vec<PathBuf> {
        self.kubeconfig.clone().map_or_else(usual_kubeconfigs, |path| vec![path])
    }

    async fn endpoint(&self, kubeconfigs: &[PathBuf]) -> Result<Endpoint, ConnectError> {
        let endpoint = Endpoint::from_context(kubeconfigs, self.context.as_deref()).await?;
        Ok(if self.keeps_input { endpoint.without_input() } else { endpoint })
    }

    /// The scheduler that is registered, else the one that leads. One that is there but cannot be reached is remarked upon, or an
    /// error with `--live`.
    async fn found(
        &self,
        endpoint: &Endpoint,
        remarks: Remarks<'_>,
    ) -> Result<Option<RunningScheduler>, AskError> {
        // Where one is registered, no other is asked, also if it is not reached.
        let found = match RunningScheduler::registered(endpoint).await {
            Ok(None) if self.ask_leader || !endpoint.has_bearer_credentials() => {
                RunningScheduler::leading(endpoint, &self.lease).await
            }
            Ok(None) => {
                if !self.live {
                    let lease = &self.lease;
                    remarks(format!(
                        "a holder of lease {lease} is not asked: that would send it the kubeconfig's token or password (--ask-leader)"
                    ));
                }
                Ok(None)
            }
            found => found,
        };
        match found {
            Err(error @ AskError::NotReached { .. }) if !self.live => {
                remarks(format!("warning: {error}"));
                Ok(None)
            }
            found => found,
        }
    }

    /// Reads the cluster, and the manifests of the `question`. The remarks say where the answers come from.
    pub(crate) fn load(
        &self,
        question: &[PathBuf],
        registry: Registry,
        remarks: Remarks<'_>,
    ) -> Result<QueryableCluster> {
        self.load_under(question, None, registry, remarks)
    }

    /// As [`load`](Self::load), and with another configuration for the same cluster, if there is one.
    pub(crate) fn load_under(
        &self,
        question: &[PathBuf],
        other: Option<&Path>,
        registry: Registry,
        remarks: Remarks<'_>,
    ) -> Result<QueryableCluster> {
        let files = self.filename.iter().chain(question);
        if files.filter(|path| path.as_os_str() == "-").count() > 1 {
            bail!(
                "standard input (-) can be read once: give the cluster or the question as a file"
            );
        }
        let (options, others) = self.all_options(other, registry, remarks)?;
        let others = other.zip(others).map(|(path, options)| {
            Simulation::new(options).with_context(|| path.display().to_string())
        });
        let others = others.transpose()?;
        let mut input = ClusterInput::under(&options.gates);
        let (from, namespace, resource_version) = if self.filename.is_empty() {
            let (endpoint, version) = self.read_cluster(&mut input, remarks)?;
            let as_of = version.as_deref().unwrap_or("unknown");
            let from = format!("{} as of resource version {as_of}", endpoint.url());
            (from, self.namespace_at(Some(&endpoint)), version)
        } else {
            add_files(&mut input, &self.filename)?;
            ("the given files".to_owned(), self.namespace_at(None), None)
        };
        self.begin_question(&mut input, &namespace);
        add_files(&mut input, question)?;
        let has_controllers = input.asks_about_controllers();
        let mut objects = input.finish()?;
        if objects.n_without_pods > 0 && !self.filename.is_empty() {
            remarks(without_pods(objects.n_without_pods));
        }
        let (nodes, pods) = (take(&mut objects.asked_nodes), take(&mut objects.asked_pods));
        let groups = take(&mut objects.asked_groups);
        let finished = take(&mut objects.finished);
        let mut manifests = take(&mut objects.asked_manifests);
        manifests.retain(|manifest| manifest["kind"] == "Pod");
        let others = others.map(|mut others| {
            others.load(objects.clone());
            others.engine()
        });
        let mut simulation = Simulation::new(options).with_context(|| self.name_of_config())?;
        simulation.load(objects);
        for warning in simulation.warnings() {
            remarks(format!("warning: {warning}"));
        }
        let (engine, now) = simulation.engine()?;
        remarks(self.answered_here(&from, other, now));
        let other = others.transpose()?.map(|(engine, _)| engine);
        let stands_for_none = has_controllers && pods.is_empty();
        Ok(QueryableCluster {
            engine,
            now,
            other,
            namespace,
            resource_version,
            nodes,
            pods,
            groups,
            manifests,
            stands_for_none,
            finished,
        })
    }

    /// Who has answered, from what, with which configuration, and as of when, if that is known.
    fn answered_here(&self, from: &str, other: Option<&Path>, now: Timestamp) -> String {
        let then = other.map(|path| format!(", then {}", path.display())).unwrap_or_default();
        let config = self.name_of_config() + &then;
        let why = match &self.filename[..] {
            [] if self.local || self.is_own() || other.is_some() => {
                "no running scheduler was asked"
            }
            [] => "no scheduler that answers questions was found by it",
            _ => "no running scheduler was asked",
        };
        let dated = match now {
            Timestamp::EPOCH => String::new(),
            now => format!("; the newest time in it is {now}"),
        };
        format!("answered here, from {from}, with {config}; {why}{dated}")
    }

    /// What is added from here on is asked about, in this namespace and, if the user has named it, in no other.
    fn begin_question(&self, input: &mut ClusterInput, namespace: &str) {
        input.begin_question(namespace);
        if self.namespace.is_some() {
            input.confine_question();
        }
    }

    /// How to answer, and how with the other configuration, if there is one; with a remark on flags that change nothing.
    fn all_options(
        &self,
        other: Option<&Path>,
        registry: Registry,
        remarks: Remarks<'_>,
    ) -> Result<(SimulationOptions, Option<SimulationOptions>)> {
        let others = other.map(|path| self.options(Some(path), registry.clone())).transpose()?;
        let options = self.options(self.config.as_deref(), registry)?;
        let configs = [Some(&options), others.as_ref()].into_iter().flatten();
        let configs: Vec<&Configuration> = configs.map(|options| &options.config).collect();
        let in_vain = exact_gangs_in_vain(&options.gates, &configs);
        if let Some(text) = in_vain.filter(|_| self.exact_gangs) {
            remarks(format!("warning: {text}"));
        }
        Ok((options, others))
    }

    fn options(&self, config: Option<&Path>, registry: Registry) -> Result<SimulationOptions> {
        let options = options(&self.feature_gates, config, registry)?;
        Ok(SimulationOptions { exact_gangs: self.exact_gangs, ..options })
    }

    /// Whether the flags say how to decide, so that the answer is computed here.
    fn is_own(&self) -> bool {
        self.config.is_some() || !self.feature_gates.is_empty() || self.exact_gangs
    }

    fn name_of_config(&self) -> String {
        match &self.config {
            Some(path) => path.display().to_string(),
            None => "the default configuration".to_owned(),
        }
    }

    /// Where the cluster was read from, and as of which revision.
    fn read_cluster(
        &self,
        input: &mut ClusterInput,
        remarks: Remarks<'_>,
    ) -> Result<(Endpoint, Option<String>)> {
        let paths = self.kubeconfigs();
        if paths.is_empty() {
            bail!("no cluster to ask about: give --filename FILE or --kubeconfig FILE");
        }
        let (found, endpoint) = runtime()?.block_on(async {
            let endpoint = self.endpoint(&paths).await?;
            let lists = wanted(&self.interrupt, ClusterLists::read(&endpoint)).await??;
            anyhow::Ok((lists, endpoint))
        })?;
        let version = found.resource_version();
        for kind in found.missing {
            remarks(format!(
                "warning: {kind} may not be listed by this user: the answer does without"
            ));
        }
        for (kind, text) in found.lists {
            input.add_manifests(&kind, &text)?;
        }
        Ok((endpoint, version))
    }
}

/// The warning about controllers of the cluster whose pods are missing.
fn without_pods(n: usize) -> String {
    let (controllers, have) = if n == 1 { ("controller", "has") } else { ("controllers", "have") };
    format!(
        "warning: {n} {controllers} in the given files {have} no pods there: controllers do not run; ask with --add or --pods"
    )
}

/// What comes of `work`, unless it is given up before.
async fn wanted<T>(interrupt: &Interrupt, work: impl Future<Output = T>) -> Result<T> {
    /// How often to look whether it is.
    const INTERVAL: Duration = Duration::from_millis(100);

    let given_up = async {
        while !interrupt.is_set() {
            tokio::time::sleep(INTERVAL).await;
        }
    };
    tokio::select! {
        outcome = work => Ok(outcome),
        () = given_up => bail!("the question was given up"),
    }
}

/// The files that kubectl would read: those of `$KUBECONFIG` that are there, or else the user's own.
fn usual_kubeconfigs() -> Vec<PathBuf> {
    let listed = std::env::var_os("KUBECONFIG");
    let listed = listed.iter().flat_map(std::env::split_paths);
    let listed: Vec<PathBuf> = listed.filter(|path| path.is_file()).collect();
    if !listed.is_empty() {
        return listed;
    }
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
    home.into_iter().filter(|path| path.is_file()).collect()
}

/// How to simulate, from flags.
pub(crate) fn options(
    feature_gates: &[(String, bool)],
    config: Option<&Path>,
    registry: Registry,
) -> Result<SimulationOptions> {
    let options = SimulationOptions { registry, ..SimulationOptions::default() };
    let options = options.with_gates(gates(feature_gates)?);
    let Some(path) = config else { return Ok(options) };
    let text = text_of(path, MAX_CONFIG)?;
    options.with_config_text(&text).with_context(|| path.display().to_string())
}

fn gates(flags: &[(String, bool)]) -> Result<FeatureGates> {
    let mut gates = FeatureGates::default();
    gates.set(&flags.iter().cloned().collect()).context("--feature-gates")?;
    Ok(gates)
}

/// Adds the manifests of files and directories, and of standard input for `-`.
pub(crate) fn add_files(input: &mut ClusterInput, paths: &[PathBuf]) -> Result<()> {
    for path in paths {
        if path.as_os_str() == "-" {
            let text = text_file::read_from(std::io::stdin(), MAX_DUMP);
            input.add_manifests("standard input", &text.context("standard input")?)?;
            continue;
        }
        for file in manifests(path)? {
            input.add_manifests(&file.display().to_string(), &text_of(&file, MAX_DUMP)?)?;
        }
    }
    Ok(())
}

fn lease(text: &str) -> Result<LeaseName, String> {
    let (namespace, name) = text.split_once('/').ok_or("expected NAMESPACE/NAME")?;
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        return Err("expected NAMESPACE/NAME".to_owned());
    }
    Ok(LeaseName { namespace: namespace.to_owned(), name: name.to_owned() })
}

/// A gate and its value.
pub(crate) fn gate(text: &str) -> Result<(String, bool), String> {
    let (name, value) = text.split_once('=').ok_or("expected GATE=true or GATE=false")?;
    let value = value.parse().map_err(|_| format!("{name}={value}: expected true or false"))?;
    Ok((name.to_owned(), value))
}

/// The file itself, or the manifests in a directory, sorted by name.
fn manifests(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
        let file = entry.with_context(|| path.display().to_string())?.path();
        let extension = file.extension().and_then(|extension| extension.to_str());
        if extension.is_some_and(|extension| MANIFEST_EXTENSIONS.contains(&extension))
            && file.is_file()
        {
            files.push(file);
        }
    }
    if files.is_empty() {
        bail!("{}: there is no *.yaml, *.yml or *.json file in this directory", path.display());
    }
    files.sort();
    Ok(files)
}

/// The text of a file of limited size.
pub(crate) fn text_of(path: &Path, max_bytes: u64) -> Result<String> {
    text_file::read(path, max_bytes).with_context(|| path.display().to_string())
}
