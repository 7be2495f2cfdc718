//! Several workloads, several runs, and what memory they take.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;

use crate::figures::Figures;
use crate::measure::{Conditions, Run, run};
use crate::memory::{Detail, Memory};
use crate::workload::Workload;

/// What to run how often.
#[derive(Clone, Copy, Debug)]
pub struct Campaign<'a> {
    /// In this order.
    pub workloads: &'a [&'a Workload],
    /// How often each; figures are medians.
    pub n_runs: usize,
    /// How.
    pub conditions: Conditions,
    /// Whether every workload is run a second time with the class cache turned off (or on, if it was off), and the decisions
    /// compared.
    pub verifies: bool,
}

impl Campaign<'_> {
    /// Runs everything. Fails if pods were not placed that must be, or if equal runs decided differently.
    pub fn figures(&self) -> Result<Vec<Figures>> {
        let rounds = self.n_runs + usize::from(self.verifies);
        let total: usize =
            self.workloads.iter().map(|workload| self.n_pods(workload) * rounds).sum();
        let bar = ProgressBar::new(total as u64);
        let style = "{msg:<46} {bar:30} {human_pos}/{human_len} pods, {elapsed}";
        bar.set_style(ProgressStyle::with_template(style)?);
        let mut runs: Vec<Vec<Run>> = self.workloads.iter().map(|_| Vec::new()).collect();
        // Round by round: what else the machine does then hits all workloads alike.
        for _ in 0..self.n_runs {
            for (workload, runs) in self.workloads.iter().zip(&mut runs) {
                runs.push(self.run(workload, &self.conditions, &bar)?);
            }
        }
        let mut all = Vec::new();
        for (workload, runs) in self.workloads.iter().zip(runs) {
            let Some(mut figures) = Figures::of(workload, &self.conditions, &runs) else {
                continue;
            };
            let differs =
                |a: &Run, b: &Run| a.n_measured == b.n_measured && a.decisions != b.decisions;
            if runs.windows(2).any(|pair| differs(&pair[0], &pair[1])) {
                bail!("{}: two equal runs decided differently", workload.name);
            }
            if self.verifies {
                let uses_class_cache = !self.conditions.uses_class_cache;
                let other = Conditions { uses_class_cache, ..self.conditions };
                let other = self.run(workload, &other, &bar)?;
                figures.verified = Some(runs.iter().all(|run| run.decisions == other.decisions));
            }
            all.push(figures);
        }
        bar.finish_and_clear();
        Ok(all)
    }

    fn run(&self, workload: &Workload, conditions: &Conditions, bar: &ProgressBar) -> Result<Run> {
        bar.set_message(workload.name);
        let end = bar.position() + self.n_pods(workload) as u64;
        let run = run(workload, conditions, &|| bar.inc(1))?;
        // A limit may have ended it early.
        bar.set_position(end);
        if bar.is_hidden() {
            let Conditions { n_nodes, .. } = conditions;
            eprintln!("{} on {n_nodes} nodes: {:.0} pods/s", workload.name, run.pods_per_second);
        }
        if run.is_complete && !workload.outcome.allows(run.n_bound, run.n_measured) {
            let (bound, measured) = (run.n_bound, run.n_measured);
            bail!(
                "{}: {bound} of {measured} pods bound, {:?} expected",
                workload.name,
                workload.outcome
            );
        }
        Ok(run)
    }

    fn n_pods(&self, workload: &Workload) -> usize {
        let Conditions { n_nodes, init_factor, max_init, .. } = self.conditions;
        (workload.n_init(n_nodes) * init_factor).min(max_init) + workload.n_measured(n_nodes)
    }
}

/// A line of `bench-memory`.
#[derive(Deserialize)]
struct Line {
    workload: String,
    #[serde(flatten)]
    memory: Memory,
}

/// Asks `bench-memory`, which counts allocations and lies beside this program.
pub fn memories(
    workloads: &[&Workload],
    n_nodes: usize,
    detail: Detail,
) -> Result<BTreeMap<String, Memory>> {
    let program = std::env::current_exe().context("find this program")?;
    let program = program.parent().unwrap_or_else(|| Path::new(".")).join("bench-memory");
    let mut command = Command::new(&program);
    command.args(["--nodes", &n_nodes.to_string()]).stderr(Stdio::inherit());
    if detail == Detail::Real {
        command.arg("--real");
    }
    for workload in workloads {
        command.args(["--workload", workload.name]);
    }
    let output = command.output().with_context(|| {
        format!(
            "start {}: `cargo build --profile dist -p kube-scheduler-benches --bin bench-memory` builds it",
            program.display()
        )
    })?;
    if !output.status.success() {
        bail!("{} failed", program.display());
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| {
            let Line { workload, memory } =
                serde_json::from_str(line).context("read memory figures")?;
            Ok((workload, memory))
        })
        .collect()
}
