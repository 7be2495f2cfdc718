//! One round: a cluster is filled, one program is started, and what it does is timed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use kube_scheduler_tests::control_plane::{Features, Process};

use super::figures::Figures;
use super::load;
use super::process_usage::Usage;
use super::progress::Progress;
use super::server::{Backend, Cluster};
use super::shape::Shape;
use super::watcher::{BoundPods, Watcher};

/// The program that is timed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Binds without deciding.
    Ceiling,
    /// A scheduler: program and arguments. `{kubeconfig}` in an argument stands for the path of the kubeconfig to use.
    Scheduler(Vec<OsString>),
}

/// What to do and how.
#[derive(Clone, Debug)]
pub struct Round {
    /// The API server.
    pub backend: Backend,
    /// How many nodes there are.
    pub n_nodes: usize,
    /// How many pods are pending when the program starts.
    pub n_pods: usize,
    /// What they ask for.
    pub shape: Shape,
    /// How long the program may take to bind them.
    pub timeout: Duration,
    /// How long to wait for the events afterwards.
    pub grace: Duration,
    /// This program: it is the devcluster and the ceiling too, in processes of their own.
    pub program: PathBuf,
    /// Where to keep what the timed program writes to standard output and error.
    pub log: Option<PathBuf>,
}

impl Round {
    /// Plays the round. What was created in a cluster that was there before is taken away again, also if the round fails
    /// or is interrupted.
    ///
    /// # Errors
    /// If the cluster does not start or refuses something, or if the program ends before all pods are bound.
    pub async fn play(&self, subject: &Subject) -> Result<Figures> {
        let cluster = Cluster::start(&self.backend, &self.program, Features::Default).await?;
        // No other round in the same cluster can have the name.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("blackbox-{:x}-{:x}", since.as_millis(), std::process::id());
        let figures = tokio::select! {
            figures = self.time(&cluster, &name, subject) => figures,
            error = interrupted() => Err(error),
        };
        if cluster.is_kept() {
            let emptied = load::empty(&cluster.api, &name, self.shape).await.context("clean up");
            // The first failure is the cause of the others.
            return figures.and_then(|figures| emptied.map(|()| figures));
        }
        figures
    }

    async fn time(&self, cluster: &Cluster, name: &str, subject: &Subject) -> Result<Figures> {
        load::fill(&cluster.api, name, self.n_nodes, self.n_pods, self.shape).await?;
        let mut watcher = Watcher::start(&cluster.api, name).await?;
        let servers = cluster.process_ids();
        let server_before = Usage::cpu_of(&servers);
        let command = self.command(cluster, name, subject);
        let (program, args) = command.split_first().context("there is no scheduler to start")?;
        let log = self.log.clone().unwrap_or_else(|| cluster.files().join("timed.log"));
        let start = Instant::now();
        let mut process = Process::start(program.as_ref(), args, &log)?;
        let id = process.id();

        let progress = Progress::start("pods bound", self.n_pods);
        // What a process used can be read as long as it lives only; the ceiling ends when it is done.
        let mut usage = Usage::default();
        let deadline = tokio::time::sleep(self.timeout);
        tokio::pin!(deadline);
        let mut sample = tokio::time::interval(Duration::from_millis(20));
        let is_complete = {
            let bound = watcher.until_bound(self.n_pods, |n| progress.show(n));
            tokio::pin!(bound);
            loop {
                tokio::select! {
                    bound = &mut bound => { bound?; break true; }
                    () = &mut deadline => break false,
                    _ = sample.tick() => {
                        usage = Usage::of(id).map_or(usage, |now| now.since(usage));
                        if let Some(status) = process.ended()
                            && !(status.success() && *subject == Subject::Ceiling)
                        {
                            bail!("the scheduler ended with {status}:\n{}", tail(&process.log()));
                        }
                    }
                }
            }
        };
        usage = Usage::of(id).map_or(usage, |now| now.since(usage));
        let server_cpu = Usage::cpu_of(&servers).saturating_sub(server_before);
        let seen = watcher.seen();
        progress.finish();
        let events = match subject {
            Subject::Scheduler(_) => Some(self.events(cluster, name, seen).await?),
            Subject::Ceiling => None,
        };
        let at_end = Usage::of(id).map_or(usage, |now| now.since(usage));
        if process.ended().is_none() {
            process.terminate().await?;
        }
        if !is_complete {
            eprintln!("not all pods were bound in {:?}", self.timeout);
        }
        let first_to_last = match (seen.first, seen.last) {
            (Some(first), Some(last)) => last - first,
            _ => Duration::ZERO,
        };
        Ok(Figures {
            subject: match subject {
                Subject::Ceiling => "ceiling".to_owned(),
                Subject::Scheduler(_) => program_name(program),
            },
            server: self.backend.name().to_owned(),
            shape: self.shape.name().to_owned(),
            nodes: self.n_nodes,
            pods: self.n_pods,
            bound: seen.n_bound,
            pods_per_second: rate(seen.n_bound, first_to_last),
            first_to_last_seconds: first_to_last.as_secs_f64(),
            first_bind_millis: seen.first.map(|first| (first - start).as_secs_f64() * 1e3),
            cpu_seconds: usage.cpu.as_secs_f64(),
            cpu_seconds_with_events: at_end.cpu.as_secs_f64(),
            peak_memory_bytes: at_end.peak_memory_bytes,
            scheduled_events: events,
            server_cpu_seconds: (!servers.is_empty()).then_some(server_cpu.as_secs_f64()),
        })
    }

    fn command(&self, cluster: &Cluster, name: &str, subject: &Subject) -> Vec<OsString> {
        let kubeconfig = cluster.scheduler_kubeconfig.as_os_str();
        match subject {
            Subject::Ceiling => vec![
                self.program.clone().into_os_string(),
                "bind-all".into(),
                kubeconfig.to_owned(),
                name.into(),
                self.n_nodes.to_string().into(),
                self.n_pods.to_string().into(),
                self.shape.name().into(),
            ],
            Subject::Scheduler(command) => command
                .iter()
                .map(|arg| match arg.to_str().zip(kubeconfig.to_str()) {
                    Some((arg, kubeconfig)) => arg.replace("{kubeconfig}", kubeconfig).into(),
                    None => arg.clone(),
                })
                .collect(),
        }
    }

    /// Waits until as many events are there as pods were bound, or until the grace period is over, and returns how many there
    /// are.
    async fn events(&self, cluster: &Cluster, name: &str, seen: BoundPods) -> Result<usize> {
        let give_up = Instant::now() + self.grace;
        loop {
            let n = load::scheduled_events(&cluster.api, name).await?;
            if n >= seen.n_bound || Instant::now() >= give_up {
                return Ok(n);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// Returns when this process is asked to end, so that what it started and created can be taken away first.
pub(crate) async fn interrupted() -> anyhow::Error {
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated => {}
    }
    anyhow::anyhow!("interrupted")
}

fn program_name(program: &OsString) -> String {
    let path = PathBuf::from(program);
    path.file_name().unwrap_or(program).to_string_lossy().into_owned()
}

/// `n` moments enclose `n - 1` stretches of time.
fn rate(n: usize, first_to_last: Duration) -> f64 {
    if first_to_last.is_zero() {
        return 0.0;
    }
    n.saturating_sub(1) as f64 / first_to_last.as_secs_f64()
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_two_bindings() {
        assert_eq!(rate(0, Duration::ZERO), 0.0);
        assert_eq!(rate(1, Duration::ZERO), 0.0);
        assert_eq!(rate(11, Duration::from_secs(2)), 5.0);
    }
}
