//! `fuzz`: runs the fuzz targets under libFuzzer and reports the results.
//!
//! The targets are in the package of the workspace tests; `fuzz/` is the program around one of them. It is built for each, with LLVM's
//! coverage instrumentation, which the stable compiler has (without sanitizers, which it has not). What the fuzzer learns
//! stays in `target/fuzz`, so that the next run goes on from there.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::{self, ExitOutcome};

/// What makes the compiler count which edges of the program an input takes.
const INSTRUMENTATION: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";
/// An input that takes longer than this, in seconds, is a finding.
const TIMEOUT: u32 = 10;
/// So is one that takes more memory than this, in MiB.
const MEMORY: u32 = 2048;
/// The longest input that is tried, in bytes, unless it is one of the kept ones.
const MAX_LEN: u32 = 4096;
/// How often to look whether a target has ended.
const POLL: Duration = Duration::from_millis(200);

/// How to fuzz.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long to fuzz, over all targets
    #[arg(long, value_name = "N", default_value_t = 10)]
    minutes: u32,
    /// Only these targets: the folders in tests/data/fuzz
    #[arg(long = "target", value_name = "NAME", value_delimiter = ',')]
    targets: Vec<String>,
    /// How many targets to run at once
    #[arg(long, value_name = "N", default_value_t = processors())]
    workers: usize,
    /// Add to tests/data/fuzz the inputs that reach what no kept input reaches
    #[arg(long)]
    keep: bool,
    /// Look for objects of a tenant that cost the core too much instead: work, memory, and what is left of them
    #[arg(long, conflicts_with_all = ["targets", "workers", "keep"])]
    cost: bool,
    /// Which inputs --cost tries
    #[arg(long, value_name = "S", default_value_t = 1, requires = "cost")]
    seed: u64,
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Where things are.
struct Folders {
    /// What is kept, a folder per target.
    kept: PathBuf,
    /// What is learned and found.
    work: PathBuf,
}

/// The result of one target.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    target: String,
    executions: u64,
    /// Edges of the program that were taken.
    coverage: u64,
    findings: Vec<PathBuf>,
}

struct RunningTarget {
    target: String,
    child: Child,
    started: Instant,
}

/// Builds the program, runs the targets and prints a line for each.
pub(crate) fn run(args: &Args) -> Result<ExitOutcome> {
    if args.cost {
        return cost(args);
    }
    let root = process::root()?;
    let folders = Folders { kept: root.join("tests/data/fuzz"), work: root.join("target/fuzz") };
    let known = targets(&folders.kept)?;
    for name in &args.targets {
        if !known.contains(name) {
            bail!("there is no target \"{name}\"; targets are: {}", known.join(", "));
        }
    }
    let chosen = if args.targets.is_empty() { known } else { args.targets.clone() };
    build(&root, &folders, &chosen)?;
    let workers = args.workers.clamp(1, chosen.len());
    let rounds = u32::try_from(chosen.len().div_ceil(workers))?;
    let seconds = (args.minutes * 60 / rounds).max(1);
    println!("{} targets, {seconds} s each, {workers} at once", chosen.len());

    let mut waiting: VecDeque<String> = chosen.into();
    let (mut running, mut outcomes): (Vec<RunningTarget>, Vec<Outcome>) = (Vec::new(), Vec::new());
    while !(waiting.is_empty() && running.is_empty()) {
        while running.len() < workers
            && let Some(target) = waiting.pop_front()
        {
            println!("{target}: started");
            running.push(start(&folders, target, seconds)?);
        }
        std::thread::sleep(POLL);
        let mut at = 0;
        while let Some(one) = running.get_mut(at) {
            if one.child.try_wait()?.is_some() {
                let ended = running.swap_remove(at);
                let took = ended.started.elapsed();
                let outcome = outcome(&folders, ended.target)?;
                println!("{}", line(&outcome, took));
                outcomes.push(outcome);
            } else {
                at += 1;
            }
        }
    }
    if args.keep {
        for outcome in &outcomes {
            keep(&folders, &outcome.target)?;
        }
    }
    let executions: u64 = outcomes.iter().map(|outcome| outcome.executions).sum();
    let n_findings: usize = outcomes.iter().map(|outcome| outcome.findings.len()).sum();
    println!("{executions} executions, {n_findings} findings");
    Ok(if n_findings == 0 { ExitOutcome::Well } else { ExitOutcome::Badly(1) })
}

/// The cost fuzzer is a program of its own: what guides it is what it measures, not coverage.
fn cost(args: &Args) -> Result<ExitOutcome> {
    let mut command = process::cargo("run");
    command.args(["--quiet", "--release", "--package", "kube-scheduler-tests", "--bin", "cost"]);
    command.args(["--", "--minutes", &args.minutes.to_string(), "--seed", &args.seed.to_string()]);
    process::run(&mut command)
}

/// Builds the programs of these targets with instrumentation; their dependencies' build scripts are built without.
fn build(root: &Path, folders: &Folders, targets: &[String]) -> Result<()> {
    let host = host()?;
    let built = folders.work.join("build");
    for target in targets {
        println!("{target}: building");
        let mut command = process::cargo("build");
        command
            .args(["--quiet", "--release", "--locked", "--manifest-path"])
            .arg(root.join("fuzz/Cargo.toml"))
            .args(["--target", &host, "--target-dir"])
            .arg(&built)
            .env("RUSTFLAGS", INSTRUMENTATION)
            .env("FUZZ_TARGET", target);
        if let ExitOutcome::Badly(code) = process::run(&mut command)? {
            bail!("`{}` ended with exit code {code}", process::shown(&command));
        }
        let program = folders.program(target);
        fs::create_dir_all(folders.work.join("programs"))?;
        fs::copy(built.join(&host).join("release/kube-scheduler-fuzz"), &program)
            .with_context(|| format!("cannot write {}", program.display()))?;
    }
    Ok(())
}

impl Folders {
    fn program(&self, target: &str) -> PathBuf {
        self.work.join("programs").join(target)
    }
}

/// The triple of this machine.
fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = process::output(Command::new(rustc).arg("-vV"))?;
    let version = String::from_utf8(version).context("rustc -vV")?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}

/// The names of all targets: a test makes sure that each has a folder.
fn targets(kept: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(kept).with_context(|| kept.display().to_string())? {
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

fn start(folders: &Folders, target: String, seconds: u32) -> Result<RunningTarget> {
    let learned = folders.work.join("corpus").join(&target);
    let findings = folders.work.join("findings").join(&target);
    for folder in [&learned, &findings, &folders.work.join("logs")] {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let log = File::create(log_of(folders, &target)).context("the log")?;
    let child = fuzzer(folders, &target)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={TIMEOUT}"))
        .arg(format!("-rss_limit_mb={MEMORY}"))
        .arg(format!("-max_len={MAX_LEN}"))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .arg("-print_final_stats=1")
        // What is learned goes to the first folder.
        .arg(&learned)
        .arg(folders.kept.join(&target))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start the program of {target}"))?;
    Ok(RunningTarget { target, child, started: Instant::now() })
}

fn fuzzer(folders: &Folders, target: &str) -> Command {
    let mut command = Command::new(folders.program(target));
    // A target may write to the working directory by mistake; that is not the repository.
    command.current_dir(&folders.work).stdin(Stdio::null());
    command
}

fn log_of(folders: &Folders, target: &str) -> PathBuf {
    folders.work.join("logs").join(format!("{target}.log"))
}

fn outcome(folders: &Folders, target: String) -> Result<Outcome> {
    let log = fs::read(log_of(folders, &target)).context("the log")?;
    let (executions, coverage) = counts(&String::from_utf8_lossy(&log));
    let mut findings = Vec::new();
    for entry in fs::read_dir(folders.work.join("findings").join(&target))? {
        findings.push(entry?.path());
    }
    findings.sort();
    Ok(Outcome { target, executions, coverage, findings })
}

/// Executions and coverage, from the last lines of libFuzzer's log that have them.
fn counts(log: &str) -> (u64, u64) {
    let last = |name: &str| {
        let number = |line: &str| {
            let (_, rest) = line.split_once(name)?;
            rest.split_whitespace().next()?.parse().ok()
        };
        log.lines().rev().find_map(number)
    };
    // A run that ends with a finding has no statistics, but a line with its number at each step.
    let steps = log
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix('#')?.split_whitespace().next()?.parse().ok());
    let executions = last("stat::number_of_executed_units:").or(steps);
    (executions.unwrap_or(0), last(" cov: ").unwrap_or(0))
}

fn line(outcome: &Outcome, took: Duration) -> String {
    let Outcome { target, executions, coverage, findings } = outcome;
    let mut line = format!(
        "{target}: {executions} executions in {:.0} s, {coverage} edges, {} findings",
        took.as_secs_f64(),
        findings.len()
    );
    for path in findings {
        line += &format!("\n  {}", path.display());
    }
    line
}

/// Copies what adds coverage to the kept inputs.
fn keep(folders: &Folders, target: &str) -> Result<()> {
    let mut command = fuzzer(folders, target);
    command
        .arg("-set_cover_merge=1")
        .arg(folders.kept.join(target))
        .arg(folders.work.join("corpus").join(target))
        .stderr(Stdio::null());
    match process::run(&mut command)? {
        ExitOutcome::Well => Ok(()),
        ExitOutcome::Badly(code) => {
            bail!("merging the inputs of {target} ended with exit code {code}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_logs() {
        let ended = "#8192\tpulse  cov: 300 ft: 900 corp: 40/1Kb\n#9000\tDONE   cov: 312 ft: 950\n\
                     stat::number_of_executed_units: 9000\nstat::peak_rss_mb: 40\n";
        assert_eq!(counts(ended), (9000, 312));
        let broke_off = "#2\tINITED cov: 7 ft: 8\n#512\tNEW    cov: 9 ft: 12\npanicked at x\n";
        assert_eq!(counts(broke_off), (512, 9));
        assert_eq!(counts(""), (0, 0));
    }

    #[test]
    fn findings_are_listed_below_their_target() {
        let outcome = Outcome {
            target: "pod".to_owned(),
            executions: 7,
            coverage: 3,
            findings: vec!["target/fuzz/findings/pod/crash-1".into()],
        };
        let line = line(&outcome, Duration::from_secs(2));
        assert_eq!(
            line,
            "pod: 7 executions in 2 s, 3 edges, 1 findings\n  target/fuzz/findings/pod/crash-1"
        );
    }
}
