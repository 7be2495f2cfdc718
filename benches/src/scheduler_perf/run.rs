//! One workload from start to end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use super::cluster::{ScheduledCluster, gates, scheduler_config};
use super::data_items::DataItem;
use super::definition::{Definitions, Settings, TestCase, Workload};
use super::execute::{Executor, State, unroll};
use super::op::Op;
use super::params::Params;
use crate::blackbox::{Backend, Progress, interrupted};

/// How to run workloads.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The API server.
    pub backend: Backend,
    /// This program, which serves the devcluster in a process of its own.
    pub program: PathBuf,
    /// Which of several thresholds to compare with; empty for files that have one each.
    pub topic: String,
    /// How long an operation waits for its pods.
    pub patience: Duration,
    /// How long a workload may take.
    pub timeout: Duration,
    /// The scheduler's seed; other than 0 it draws one of several equally good nodes.
    pub seed: u64,
    /// Feature gates beside those of the definitions, and instead of what these say of them.
    pub gates: BTreeMap<String, bool>,
}

/// What came out of a workload.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The results.
    pub items: Vec<DataItem>,
    /// Thresholds that were missed, in words.
    pub missed: Vec<String>,
}

/// Runs a workload of a file.
///
/// # Errors
/// If there is no such workload, if an operation fails or takes too long, or if the cluster breaks down; names test case,
/// workload and operation.
pub async fn run_workload(
    definitions: &Definitions,
    test_case: &str,
    workload: &str,
    options: &RunOptions,
) -> Result<Outcome> {
    let place = format!("{test_case}/{workload}");
    let case = definitions.test_cases.iter().find(|case| case.settings.name == test_case);
    let case = case.with_context(|| format!("there is no test case {test_case}"))?;
    let found = case.settings.workloads.iter().find(|own| own.name == workload);
    let found =
        found.with_context(|| format!("test case {test_case} has no workload {workload}"))?;
    let state =
        run(definitions, case, found, &place, options).await.with_context(|| place.clone())?;
    Ok(Outcome { items: state.items, missed: state.missed })
}

async fn run(
    definitions: &Definitions,
    case: &TestCase,
    workload: &Workload,
    place: &str,
    options: &RunOptions,
) -> Result<State> {
    let mut params = Params::new(workload.params.clone());
    let ops = unroll(&case.ops, &mut params)?;
    let settings = &case.settings;
    let wanted: BTreeMap<String, bool> = settings
        .feature_gates
        .iter()
        .chain(&workload.feature_gates)
        .chain(&options.gates)
        .map(|(gate, on)| (gate.clone(), *on))
        .collect();
    let config = scheduler_config(&definitions.directory, &settings.scheduler_config_path)?;
    let mut cluster = ScheduledCluster::start(
        &options.backend,
        &options.program,
        &config,
        gates(&wanted)?,
        options.seed,
    )
    .await?;
    let hands = cluster.hands();
    let done = {
        // The cluster is watched while operations run in it, so they see a copy of the parts that they need.
        let parts = cluster.parts();
        let executor = Executor {
            cluster: &parts,
            hands,
            settings,
            directory: definitions.directory.clone(),
            params,
            gates: wanted,
            name: format!("BenchmarkPerfScheduling/{place}"),
            threshold: workload.threshold.of_topic(&options.topic),
            selector: selector(settings, workload),
            patience: options.patience,
            state: State::default(),
        };
        tokio::select! {
            done = all(executor, &ops, place) => done,
            error = cluster.breakdown() => Err(error),
            () = tokio::time::sleep(options.timeout) => {
                Err(anyhow::anyhow!("it is not done after {:?}", options.timeout))
            }
            error = interrupted() => Err(error),
        }
    };
    let ended = cluster.end().await.context("clean up");
    // The first failure is the cause of the others.
    done.and_then(|state| ended.map(|()| state))
}

async fn all(mut executor: Executor<'_>, ops: &[Op], place: &str) -> Result<State> {
    let progress = Progress::start(&format!("ops of {place}"), ops.len());
    for (index, op) in ops.iter().enumerate() {
        executor.run(index, op).await.with_context(|| format!("op {index}: {}", op.opcode()))?;
        progress.step();
    }
    progress.finish();
    executor.finish()
}

fn selector(settings: &Settings, workload: &Workload) -> super::definition::MetricSelector {
    let own = workload.threshold_metric_selector.as_ref();
    own.or(settings.default_threshold_metric_selector.as_ref()).cloned().unwrap_or_default()
}
