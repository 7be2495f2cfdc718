//! What questions about scheduling take, and what they cost the scheduler: one thread schedules, another one answers from copies
//! of its engine, as in the daemon.
//!
//! The API server is left out: what the engine wants written is reported as done at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use hdrhistogram::Histogram;
use kube_scheduler_answers::{API_VERSION, Answer, Inquiry, Interrupt, Question, QuestionKind};
use kube_scheduler_api_types::{CompileOptions, Node, Pod, Timestamp};
use kube_scheduler_config::{FeatureGates, load};
use kube_scheduler_engine::{AttemptResult, Effect, Engine, EngineOptions, Input};
use serde_json::{Value, json};

/// The default configuration with every node scored.
const CONFIG: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
";
const NAMESPACE: &str = "default";
/// Shapes of pods that run, and of those that come.
const N_SHAPES: usize = 20;
/// This many pods are ready when as many as possible are scheduled.
const BACKLOG: usize = 2_000;

/// How many nodes and pods there are.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Nodes of 32 CPUs.
    pub n_nodes: usize,
    /// Pods that run.
    pub n_pods: usize,
}

/// How many pods come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// This many each second.
    PerSecond(u32),
    /// As many as are scheduled.
    All,
}

/// What one kind of question took.
#[derive(Clone, Debug)]
pub struct Latency {
    /// How many were asked.
    pub n: u64,
    /// From the question to the answer, in microseconds: median, 99th percentile and longest.
    pub answer: [u64; 3],
    /// The part of it on the scheduling thread: the copy.
    pub copy: [u64; 3],
}

/// A question for the core, and where what it takes down goes.
struct Ask {
    question: Arc<Question>,
    reply: SyncSender<(Inquiry, Duration)>,
}

/// A scheduler on a thread of its own.
#[derive(Debug)]
pub struct Core {
    asks: SyncSender<Ask>,
    thread: JoinHandle<Result<SchedulingFigures>>,
}

/// What a core did.
#[derive(Clone, Debug)]
pub struct SchedulingFigures {
    /// Attempts.
    pub n_attempts: u64,
    /// Pods that came and got a node.
    pub n_placed: u64,
    /// In what time.
    pub took: Duration,
    /// From the time at which a pod was to come to its decision, in microseconds: median, 99th percentile and longest.
    pub latency: [u64; 3],
}

impl SchedulingFigures {
    /// Attempts per second.
    pub fn per_second(&self) -> f64 {
        self.n_attempts as f64 / self.took.as_secs_f64()
    }

    /// Pods that got a node per second.
    pub fn placed_per_second(&self) -> f64 {
        self.n_placed as f64 / self.took.as_secs_f64()
    }
}

/// The manifest of a pod that comes; of `N_SHAPES` shapes.
pub fn manifest(name: &str, shape: usize) -> Value {
    let cpu = 100 + 20 * (shape % N_SHAPES);
    json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("{name}-uid"),
                     "labels": {"app": format!("app-{}", shape % N_SHAPES)}},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "image": "web:1", "resources": {"requests": {
                "cpu": format!("{cpu}m"), "memory": "128Mi",
            }}}],
        },
    })
}

/// A question of a kind with this `spec`.
///
/// # Errors
/// If it is none.
pub fn question(kind: QuestionKind, spec: &Value) -> Result<Question> {
    let body = json!({"apiVersion": API_VERSION, "kind": kind.kind(), "spec": spec}).to_string();
    let namespace = if kind.is_namespaced() { NAMESPACE } else { "" };
    Ok(Question::from_json(kind, namespace, body.as_bytes(), &CompileOptions::default())?)
}

/// An engine with a cluster of this size, and a pod that fits nowhere by the name of `large`.
///
/// # Errors
/// If the configuration or a manifest is refused.
pub fn engine(size: Size) -> Result<(Engine, Timestamp)> {
    let config = load(CONFIG, &FeatureGates::default())?;
    let registry = kube_scheduler_plugins_intree::registry();
    let mut engine = Engine::new(&config, &registry, EngineOptions::default())?;
    let start = Timestamp::parse("2026-01-01T00:00:00Z").context("start time")?;
    for number in 0..size.n_nodes {
        let name = format!("node-{number}");
        let node = json!({
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("z{}", number % 3),
            }},
            "status": {"allocatable": {"cpu": "32", "memory": "256Gi", "pods": "250"}},
        });
        engine.handle(Input::NodeApplied(Arc::new(Node::from_value(&node)?)), start);
    }
    let mut templates = Templates::new()?;
    for number in 0..size.n_pods {
        let node: Arc<str> = format!("node-{}", number % size.n_nodes).into();
        let pod = templates.next("running");
        engine.handle(Input::PodApplied(Arc::new(pod.with_node_name(&node))), start);
    }
    let mut large = manifest("large", 0);
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("64");
    engine.handle(Input::PodApplied(Arc::new(Pod::from_value(&large)?)), start);
    Ok((engine, start))
}

/// Pods that come, one like a template after the other.
struct Templates {
    pods: Vec<Pod>,
    n: usize,
}

impl Templates {
    fn new() -> Result<Self> {
        let pods = (0..N_SHAPES).map(|shape| Ok(Pod::from_value(&manifest("template", shape))?));
        Ok(Self { pods: pods.collect::<Result<_>>()?, n: 0 })
    }

    fn next(&mut self, prefix: &str) -> Pod {
        self.n += 1;
        let name: Arc<str> = format!("{prefix}-{}", self.n).into();
        let uid = format!("{name}-uid").into();
        Pod { name, uid, resource_version: "1".into(), ..self.pods[self.n % N_SHAPES].clone() }
    }
}

impl Core {
    /// Starts scheduling, for as long as questions may come.
    pub fn start(engine: Engine, start: Timestamp, load: Load) -> Self {
        let (asks, asked) = sync_channel(64);
        let thread = std::thread::spawn(move || schedule(engine, start, load, &asked));
        Self { asks, thread }
    }

    /// Has a question taken down, and says what that took the core.
    fn take(&self, question: &Arc<Question>) -> Result<(Inquiry, Duration)> {
        let (reply, taken) = sync_channel(1);
        let ask = Ask { question: question.clone(), reply };
        self.asks.send(ask).map_err(|_| anyhow!("the core has ended"))?;
        taken.recv().context("the core has ended")
    }

    /// Asks a question.
    ///
    /// # Errors
    /// If it is refused.
    pub fn ask(&self, question: &Arc<Question>) -> Result<(Answer, Duration)> {
        let (inquiry, copy) = self.take(question)?;
        Ok((inquiry.answer(question, &Interrupt::default())?, copy))
    }

    /// Asks the same question `n` times at once, and holds the answers until all are there.
    ///
    /// # Errors
    /// If it is refused.
    pub fn ask_at_once(&self, question: &Arc<Question>, n: usize) -> Result<()> {
        std::thread::scope(|scope| {
            let asking: Vec<_> = (0..n).map(|_| scope.spawn(|| self.ask(question))).collect();
            let answers: Result<Vec<_>> = asking
                .into_iter()
                .map(|asking| asking.join().map_err(|_| anyhow!("a thread that asks panicked"))?)
                .collect();
            answers.map(drop)
        })
    }

    /// Asks the same question `n` times, with as much time between two as one takes and a millisecond.
    ///
    /// # Errors
    /// If it is refused.
    pub fn latency(&self, question: Question, n: u64) -> Result<Latency> {
        let question = Arc::new(question);
        let mut times = [Histogram::<u64>::new(3)?, Histogram::<u64>::new(3)?];
        for _ in 0..n {
            let start = Instant::now();
            let (_, copy) = self.ask(&question)?;
            let took = start.elapsed();
            for (histogram, time) in times.iter_mut().zip([took, copy]) {
                histogram.record(u64::try_from(time.as_micros())?)?;
            }
            std::thread::sleep(took.min(Duration::from_millis(100)) + Duration::from_millis(1));
        }
        let [answer, copy] = times.map(|histogram| quantiles(&histogram));
        Ok(Latency { n, answer, copy })
    }

    /// Asks the same question this many times a second for some time, as far as it is answered as fast as that, from a thread
    /// for each that the daemon would answer at once; how many there were. Without `computes`, only the copy is made that an
    /// answer is computed from.
    ///
    /// # Errors
    /// If it is refused.
    pub fn ask_for(
        &self,
        question: Question,
        per_second: u32,
        time: Duration,
        computes: bool,
    ) -> Result<u64> {
        let question = Arc::new(question);
        let n_threads = n_answered_at_once();
        let per_thread = f64::from(per_second) / n_threads as f64;
        std::thread::scope(|scope| {
            let ask = || self.ask_from_one_thread(&question, per_thread, time, computes);
            let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().try_fold(0, |n, thread| {
                Ok(n + thread.join().map_err(|_| anyhow!("a thread that asks panicked"))??)
            })
        })
    }

    fn ask_from_one_thread(
        &self,
        question: &Arc<Question>,
        per_second: f64,
        time: Duration,
        computes: bool,
    ) -> Result<u64> {
        let start = Instant::now();
        let mut n = 0;
        while start.elapsed() < time {
            if per_second * start.elapsed().as_secs_f64() < n as f64 {
                std::thread::sleep(Duration::from_micros(200));
                continue;
            }
            match computes {
                true => drop(self.ask(question)?),
                false => drop(self.take(question)?),
            }
            n += 1;
        }
        Ok(n)
    }

    /// Stops scheduling.
    ///
    /// # Errors
    /// If the core did not come to its end.
    pub fn stop(self) -> Result<SchedulingFigures> {
        drop(self.asks);
        self.thread.join().map_err(|_| anyhow!("the core panicked"))?
    }
}

/// How many questions the daemon answers at once: on half of the processors, and no more than it has places for.
fn n_answered_at_once() -> usize {
    let n_processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (n_processors / 2).clamp(1, 4)
}

fn quantiles(histogram: &Histogram<u64>) -> [u64; 3] {
    [histogram.value_at_quantile(0.5), histogram.value_at_quantile(0.99), histogram.max()]
}

/// Schedules until no question can come any more.
fn schedule(
    mut engine: Engine,
    start: Timestamp,
    load: Load,
    asked: &Receiver<Ask>,
) -> Result<SchedulingFigures> {
    let mut templates = Templates::new()?;
    let (began, mut n_attempts, mut n_created) = (Instant::now(), 0, 0_u64);
    // When the pods that wait were to come, in their order, which is that of the decisions.
    let mut due: VecDeque<Duration> = VecDeque::new();
    let (mut n_placed, mut latency) = (0, Histogram::<u64>::new(3)?);
    loop {
        let now = start + began.elapsed();
        match asked.try_recv() {
            Ok(Ask { question, reply }) => {
                let received = Instant::now();
                let inquiry = Inquiry::new(&question, &engine, now);
                // The caller may have ended with an error.
                let _ = reply.send((inquiry, received.elapsed()));
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => {
                let (took, latency) = (began.elapsed(), quantiles(&latency));
                return Ok(SchedulingFigures { n_attempts, n_placed, took, latency });
            }
        }
        let is_due = match load {
            Load::PerSecond(rate) => {
                f64::from(rate) * began.elapsed().as_secs_f64() >= n_created as f64
            }
            Load::All => engine.pending_counts().active < BACKLOG,
        };
        if is_due {
            due.push_back(match load {
                Load::PerSecond(rate) => Duration::from_secs(n_created) / rate.max(1),
                Load::All => began.elapsed(),
            });
            n_created += 1;
            engine.handle(Input::PodApplied(Arc::new(templates.next("new"))), now);
        }
        if let Some(turn) = engine.schedule_next(now) {
            n_attempts += 1;
            if n_attempts > 2_000_000 {
                bail!("pod {} is one too many for this cluster", turn.pod);
            }
            if matches!(turn.result, AttemptResult::Assumed(_))
                && let Some(due) = due.pop_front()
            {
                n_placed += 1;
                latency.record(u64::try_from(began.elapsed().saturating_sub(due).as_micros())?)?;
            }
            carry_out(&mut engine, now);
        } else if !is_due {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
}

/// Reports what the engine wants written as written.
fn carry_out(engine: &mut Engine, now: Timestamp) {
    let effects: Vec<Effect> = engine.drain_effects().collect();
    for effect in effects {
        let Effect::WriteBinding { token, pod, node } = effect else { continue };
        engine.handle(Input::BindingWritten { token, result: Ok(()) }, now);
        let known = engine.known_pod(&pod.namespace, &pod.name).cloned();
        if let Some(known) = known {
            let bound = Pod { resource_version: "2".into(), ..known.with_node_name(&node) };
            engine.handle(Input::PodApplied(Arc::new(bound)), now);
        }
    }
}
