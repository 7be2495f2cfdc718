//! A scheduler against an API server, from start to stop.
//!
//! Invariants: whatever can be refused is refused by [`DaemonBuilder::start`] before anything was read from or written to
//! the cluster, beyond asking for its version; stopping first ends decisions, then writes, then reading; dropping a
//! [`Daemon`] ends all of it at once and loses nothing that the next scheduler could not see in the cluster.

mod error;
mod handle;
mod startup;
mod tasks;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_config::{Configuration, FeatureGates, to_json_value};
use kube_scheduler_engine::{Engine, EngineOptions, WorkLimits};
use kube_scheduler_framework::Handle;
use kube_scheduler_runtime::Registry;
use kube_scheduler_writes::RateLimit;
use serde_json::json;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

pub use self::error::{RunError, StartError};
pub use self::handle::DaemonHandle;
use self::startup::{
    Clients, FollowedObjects, Preparation, ReflectorSources, Reflectors, followed_kinds, lead,
    start_reflectors, start_tracing,
};
use self::tasks::{AbortOnDrop, QuitOnDrop, Server};
use crate::clock::{Clock, Stopwatch};
use crate::driver::{CorePanic, Driver, OutstandingWork};
use crate::extender::HttpExtenders;
use crate::inbox::{Inbox, Notice};
use crate::kinds::WatchedKind;
use crate::leader::{Candidacy, Candidate, LeaderElectionOptions, Leadership};
use crate::metrics::{Metrics, MetricsOptions};
use crate::newest::NewestRevision;
use crate::plugin_services::PluginServices;
use crate::progress::Progress;
use crate::serve::{SecurePort, ServingOptions, SiteSources};
use crate::spans::TracingOptions;
use crate::transport::Endpoint;
use crate::watch::Patience;
use crate::watchdog::{Heartbeat, Watchdog};
use crate::writes::{WriteLimits, Writer, hostname};

/// How long the API server may be silent at the start before that is logged.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

/// How long to wait for the answer to a write. kube-apiserver may work on one for 34 seconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(40);

/// Options of a scheduler; see [`Daemon::builder`].
#[derive(Debug)]
pub struct DaemonBuilder {
    endpoint: Endpoint,
    config: Configuration,
    registry: Registry,
    gates: FeatureGates,
    seed: u64,
    serving: Option<ServingOptions>,
    rate: Option<RateLimit>,
    max_in_unschedulable: Option<Duration>,
    work: WorkLimits,
    exact_gangs: bool,
    longest_hold: Duration,
    width: usize,
    grace: Duration,
    patience: Patience,
    leader_election: Option<LeaderElectionOptions>,
    metrics: MetricsOptions,
    tracing: Option<TracingOptions>,
    hang_timeout: Duration,
}

impl DaemonBuilder {
    /// How long the core thread may work on one thing, such as one attempt, before it counts as hanging: `/livez` fails
    /// then, the lease is given up, and a standby that hangs does not try to lead. Half a minute by default; zero means never.
    /// Waiting for an extender does not count.
    pub fn hang_timeout(mut self, timeout: Duration) -> Self {
        self.hang_timeout = timeout;
        self
    }

    /// Traces attempts for OpenTelemetry; off by default.
    pub fn tracing(mut self, options: Option<TracingOptions>) -> Self {
        self.tracing = options;
        self
    }

    /// Which metrics are shown; all by default.
    pub fn metrics(mut self, options: MetricsOptions) -> Self {
        self.metrics = options;
        self
    }

    /// The configuration, defaults filled in. Without one, the default profile runs.
    pub fn config(mut self, config: Configuration) -> Self {
        self.config = config;
        self
    }

    /// Feature gates; the defaults otherwise.
    pub fn gates(mut self, gates: FeatureGates) -> Self {
        self.gates = gates;
        self
    }

    /// What random choices between equal nodes follow from; 0 by default.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How to serve health, metrics and configuration over HTTPS; not at all by default.
    pub fn serving(mut self, serving: Option<ServingOptions>) -> Self {
        self.serving = serving;
        self
    }

    /// A fixed rate of requests. By default there is none: as fast as the server takes them, slower when it answers 429.
    pub fn rate_limit(mut self, rate: Option<RateLimit>) -> Self {
        self.rate = rate;
        self
    }

    /// How long a pod may stay unschedulable without any event before it is tried again; five minutes by default.
    pub fn max_in_unschedulable(mut self, limit: Duration) -> Self {
        self.max_in_unschedulable = Some(limit);
        self
    }

    /// How much work attempts may cost.
    pub fn work_limits(mut self, limits: WorkLimits) -> Self {
        self.work = limits;
        self
    }

    /// Whether gangs are planned as a whole instead of pod by pod; no by default. Needs the feature gate `GangScheduling`.
    pub fn exact_gangs(mut self, exact: bool) -> Self {
        self.exact_gangs = exact;
        self
    }

    /// How long one gang that is planned as a whole and does not fit may hold room at a time; an hour by default, zero for not
    /// at all.
    pub fn longest_hold(mut self, longest: Duration) -> Self {
        self.longest_hold = longest;
        self
    }

    /// Whether to wait for a lease before deciding anything; by default there is no election and decisions begin at once.
    pub fn leader_election(mut self, election: Option<LeaderElectionOptions>) -> Self {
        self.leader_election = election;
        self
    }

    /// How long to wait for lists and watches.
    pub fn patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// How many writes may be under way at once; 128 by default.
    pub fn concurrent_writes(mut self, n: usize) -> Self {
        self.width = n;
        self
    }

    /// How long writes under way may take after the scheduler was asked to stop; ten seconds by default.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Tries whether the configuration makes a scheduler, and does nothing else.
    ///
    /// # Errors
    /// If it does not.
    pub fn check(&self) -> Result<(), StartError> {
        let extenders = HttpExtenders::new(&self.config.extenders, &Heartbeat::default())?;
        self.engine(&extenders, Handle::default()).map(drop)
    }

    /// Builds the engine, takes the port, and starts. An API server that does not answer yet is waited for in the
    /// background.
    ///
    /// # Errors
    /// If any of that fails; nothing is left behind then.
    pub async fn start(self) -> Result<Daemon, StartError> {
        // Everything that can be refused is refused here. Behind it tasks and threads are started.
        let preparation = self.prepare().await?;
        self.launch(preparation)
    }

    async fn prepare(&self) -> Result<Preparation, StartError> {
        let clock = Clock::start();
        let heartbeat = Heartbeat::default();
        let (hangs, hangs_out) = watch::channel(false);
        let extenders = HttpExtenders::new(&self.config.extenders, &heartbeat)?;
        let started_at = clock.started_at().as_nanos() as f64 / 1e9;
        let metrics = Arc::new(Metrics::new(started_at, self.metrics.clone(), &self.gates));
        let services = PluginServices::default();
        let handle = Handle::default().with_services(Arc::new(services.clone()));
        let handle = handle.with_metrics(metrics.plugins().clone());
        let engine = self.engine(&extenders, handle)?;
        let configz = json!({"componentconfig": to_json_value(&self.config)?}).to_string().into();
        // Before the candidate is made, which announces the certificate of the port in the lease.
        let secure_port = match self.serving.clone() {
            Some(options) => Some(SecurePort::open(options, &metrics).await?),
            None => None,
        };
        let clients = Clients::new(&self.endpoint, self.leader_election.is_some(), &metrics)?;
        let candidacy = self.leader_election.clone().zip(clients.election.clone());
        let candidacy = candidacy.map(|(options, api)| {
            let first = engine.profiles().first();
            let component = first.map(|profile| profile.scheduler_name.to_string());
            let component = component.unwrap_or_default();
            let hangs = hangs_out.clone();
            let (candidacy, fence) =
                Candidacy::new(options, api, clock, metrics.clone(), hangs, &hostname(), component);
            let certificate = secure_port.as_ref().map(SecurePort::certificate);
            let candidacy = match certificate {
                Some(certificate) => candidacy.announcing(certificate),
                None => candidacy,
            };
            (candidacy, fence)
        });
        let (spans, exporter) = start_tracing(self.tracing.clone(), &metrics)?;
        let kinds = followed_kinds(&engine, &extenders, &self.gates);
        Ok(Preparation {
            clock,
            started_at,
            metrics,
            services,
            engine,
            kinds,
            configz,
            secure_port,
            clients,
            candidacy,
            spans,
            exporter,
            heartbeat,
            hangs,
        })
    }

    fn launch(self, preparation: Preparation) -> Result<Daemon, StartError> {
        let Preparation { clock, metrics, engine, kinds, clients, candidacy, .. } = preparation;
        let (candidacy, fence) = candidacy.unzip();
        let (inbox, inbox_out) = Inbox::open();
        // Before the core runs: what plugins ask for while nothing is connected is lost.
        preparation.services.connect(&clients.api, &inbox, REQUEST_TIMEOUT);
        let (effects, effects_out) = mpsc::unbounded_channel();
        let (progress, progress_out) = watch::channel(Progress::default());
        let (terminating, is_terminating) = watch::channel(false);

        let readers = engine.object_readers();
        let unsynced = (0..kinds.len()).collect();
        let core = Driver {
            engine,
            inbox: inbox_out,
            effects,
            clock,
            metrics: metrics.clone(),
            progress,
            heartbeat: preparation.heartbeat.clone(),
            may_decide: false,
            unsynced,
            outstanding: OutstandingWork::default(),
            names: Vec::new(),
            spans: preparation.spans,
            verbosity: 0,
            n_attempts: 0,
            newest: NewestRevision::default(),
        };
        // The last step that can fail. Tasks are started behind it, so that an error leaves none of them running.
        let core_end = core.spawn().map_err(StartError::Thread)?;

        // Only what the writer sends is behind the fence: a standby has to read as a leader does, to be ready when it leads.
        let fenced = clients.api.clone().behind(fence);
        let limits = self.write_limits();
        let writer =
            Writer::new(fenced, inbox.clone(), effects_out, metrics.clone(), clock, limits);
        let leadership = candidacy.as_ref().map(Candidacy::leadership);
        let core_hangs = preparation.hangs.subscribe();
        let watchdog = Watchdog::new(preparation.heartbeat, self.hang_timeout);
        let sources = ReflectorSources {
            api: clients.api,
            lists: clients.lists,
            inbox: inbox.clone(),
            metrics: metrics.clone(),
            patience: self.patience,
            readers,
        };
        let (mut readers, followed) =
            self.start_readers(kinds, sources, leadership.clone(), &progress_out);
        readers.spawn(watchdog.run(preparation.hangs));
        let address = preparation.secure_port.as_ref().map(SecurePort::address);
        let handle = DaemonHandle {
            metrics,
            progress: progress_out,
            address,
            inbox: inbox.clone(),
            followed,
        };
        let served = (preparation.configz, preparation.started_at);
        let sources =
            self.site_sources(&handle, served, is_terminating, core_hangs, leadership.is_some());
        let server = preparation.secure_port.map(|port| Server::start(port, sources));
        Ok(Daemon {
            handle,
            inbox: QuitOnDrop(inbox),
            core_end,
            writer: AbortOnDrop(tokio::spawn(writer.run())),
            exporter: preparation.exporter,
            readers,
            server,
            terminating,
            grace: self.grace,
            // Last, when all else runs: a lease that this scheduler holds keeps others from deciding.
            candidate: candidacy.map(Candidacy::begin),
        })
    }

    /// What is served of the scheduler that `handle` looks at; `served` is the text of its configuration, and when it was started.
    fn site_sources(
        &self,
        handle: &DaemonHandle,
        (configz, started_at): (Arc<str>, f64),
        is_terminating: watch::Receiver<bool>,
        core_hangs: watch::Receiver<bool>,
        elects: bool,
    ) -> SiteSources {
        SiteSources {
            metrics: handle.metrics.clone(),
            progress: handle.progress.clone(),
            configz,
            is_terminating,
            core_hangs,
            inbox: handle.inbox.clone(),
            started_at,
            elects,
            has_profiling: self.config.enable_profiling.unwrap_or(true),
            pod_options: self.gates.compile_options(),
        }
    }

    /// Starts everything that reads: the reflectors, and what waits for them, for leadership and for the server.
    fn start_readers(
        &self,
        kinds: Vec<WatchedKind>,
        sources: ReflectorSources,
        leadership: Option<watch::Receiver<Leadership>>,
        progress: &watch::Receiver<Progress>,
    ) -> (JoinSet<()>, FollowedObjects) {
        let delays_cache =
            self.leader_election.as_ref().is_some_and(LeaderElectionOptions::delays_cache);
        let held_back = leadership.clone().filter(|_| delays_cache);
        let Reflectors { mut tasks, positions, followed } =
            start_reflectors(kinds, &sources, held_back);
        let ReflectorSources { api, inbox, .. } = sources;
        tasks.spawn(self.endpoint.clone().watch_reachability(api.clone(), CONNECT_PATIENCE));
        let progress = progress.clone();
        tasks.spawn(lead(leadership, delays_cache, api, positions, inbox, progress));
        (tasks, followed)
    }

    const fn write_limits(&self) -> WriteLimits {
        WriteLimits { width: self.width, timeout: REQUEST_TIMEOUT, rate: self.rate }
    }

    fn engine(&self, extenders: &HttpExtenders, handle: Handle) -> Result<Engine, StartError> {
        let mut options = EngineOptions {
            seed: self.seed,
            gates: self.gates.clone(),
            keeps_bound: true,
            handle,
            extenders: extenders.extenders.clone(),
            timer: Some(Arc::new(Stopwatch::start())),
            work: self.work,
            plans_gangs_exactly: self.exact_gangs,
            longest_hold: self.longest_hold,
            ..EngineOptions::default()
        };
        if let Some(limit) = self.max_in_unschedulable {
            options.max_in_unschedulable = limit;
        }
        Ok(Engine::new(&self.config, &self.registry, options)?)
    }
}

/// A running scheduler. Dropping it ends it at once, as a crash would.
#[derive(Debug)]
pub struct Daemon {
    handle: DaemonHandle,
    inbox: QuitOnDrop,
    core_end: oneshot::Receiver<Result<(), CorePanic>>,
    writer: AbortOnDrop,
    exporter: Option<AbortOnDrop>,
    readers: JoinSet<()>,
    server: Option<Server>,
    terminating: watch::Sender<bool>,
    grace: Duration,
    candidate: Option<Candidate>,
}

impl Daemon {
    /// Options of a new scheduler with these plugins, against this API server.
    pub fn builder(endpoint: Endpoint, registry: Registry) -> DaemonBuilder {
        let mut config = Configuration::default();
        kube_scheduler_config::default(&mut config, &FeatureGates::default());
        DaemonBuilder {
            endpoint,
            config,
            registry,
            gates: FeatureGates::default(),
            seed: 0,
            serving: None,
            rate: None,
            max_in_unschedulable: None,
            work: WorkLimits::default(),
            exact_gangs: false,
            longest_hold: EngineOptions::default().longest_hold,
            width: 128,
            grace: Duration::from_secs(10),
            patience: Patience::default(),
            leader_election: None,
            metrics: MetricsOptions::default(),
            tracing: None,
            hang_timeout: Duration::from_secs(30),
        }
    }

    /// To look at it from elsewhere.
    pub fn handle(&self) -> DaemonHandle {
        self.handle.clone()
    }

    /// Schedules until `shutdown`, then ends in order: no more decisions, then writes under way within the grace period,
    /// then the lease is given back, and last the endpoints close.
    ///
    /// # Errors
    /// If the lease was lost, or the core broke down. Nothing is written any more then.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        let (candidate, server) = (self.candidate.take(), self.server.take());
        let (ended, candidate) = self.run_until(shutdown, candidate).await;
        if let Some(candidate) = candidate {
            candidate.end().await;
        }
        if let Some(mut server) = server {
            server.stop.send_replace(true);
            // The server ends within its own short grace period, and has logged it if it broke down.
            let _ = (&mut server.task.0).await;
        }
        ended
    }

    /// Everything of [`run`](Self::run) that the lease must be held for. Nothing is left when it returns.
    async fn run_until(
        mut self,
        shutdown: impl Future<Output = ()>,
        mut candidate: Option<Candidate>,
    ) -> (Result<(), RunError>, Option<Candidate>) {
        tokio::pin!(shutdown);
        tokio::select! {
            () = &mut shutdown => {}
            end = &mut self.core_end => return (Err(broken(end)), candidate),
            () = lost(&mut candidate) => return (Err(RunError::LeaseLost), candidate),
        }
        let stop = self.stop();
        tokio::pin!(stop);
        let ended = tokio::select! {
            ended = &mut stop => ended,
            () = lost(&mut candidate) => Err(RunError::LeaseLost),
        };
        (ended, candidate)
    }

    /// Ends in order.
    async fn stop(mut self) -> Result<(), RunError> {
        tracing::info!("Stopping: no more decisions");
        self.terminating.send_replace(true);
        let give_up = tokio::time::Instant::now() + self.grace;
        // Here and below, a send fails only when the core has ended, and then nothing has to be done.
        let _ = self.inbox.0.notify(Notice::Stop);
        let ended = match tokio::time::timeout_at(give_up, &mut self.core_end).await {
            Ok(end) => end.unwrap_or_else(|_| Err(CorePanic("it vanished".to_owned()))),
            Err(_) => {
                tracing::warn!(grace = ?self.grace, "Giving up on bindings under way");
                let _ = self.inbox.0.notify(Notice::Quit);
                Ok(())
            }
        };
        if tokio::time::timeout_at(give_up, &mut self.writer.0).await.is_err() {
            tracing::warn!(grace = ?self.grace, "Giving up on writes under way");
        }
        if let Some(exporter) = &mut self.exporter {
            // Waiting for the last spans is limited to less than the grace period.
            let _ = tokio::time::timeout(Duration::from_secs(1), &mut exporter.0).await;
        }
        self.readers.shutdown().await;
        ended.map_err(|CorePanic(text)| RunError::CoreBroke(text))
    }
}

/// Waits until leadership is lost; for ever without an election.
async fn lost(candidate: &mut Option<Candidate>) {
    match candidate {
        Some(candidate) => candidate.lost().await,
        None => std::future::pending().await,
    }
}

fn broken(end: Result<Result<(), CorePanic>, oneshot::error::RecvError>) -> RunError {
    RunError::CoreBroke(match end {
        Ok(Err(CorePanic(text))) => text,
        Ok(Ok(())) | Err(_) => "it ended by itself".to_owned(),
    })
}
