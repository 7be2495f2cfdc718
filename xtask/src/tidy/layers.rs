//! The layer rules: which crate may know which, and what must never be linked into the core.
//!
//! The table below is the rule. An edge is allowed when it is listed; a crate that is not listed has no place yet.

use std::fmt;

use super::Finding;
use crate::metadata::{self, DependencyKind, Metadata};

/// A crate's place.
struct Layer {
    /// Package name without the common prefix.
    name: &'static str,
    /// What its code may use.
    may_use: AllowedCrates,
    /// What its tests may use besides.
    tests_may_use: &'static [&'static str],
    /// Whether it must stay free of IO: no crate of [`IO_CRATES`], directly or through others.
    is_pure: bool,
}

/// Which of our crates another one may use.
enum AllowedCrates {
    Only(&'static [&'static str]),
    AllBut(&'static [&'static str]),
}

impl AllowedCrates {
    fn allows(&self, name: &str) -> bool {
        match self {
            Self::Only(names) => names.contains(&name),
            Self::AllBut(names) => !names.contains(&name),
        }
    }
}

impl fmt::Display for AllowedCrates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only([]) => f.write_str("none of ours"),
            Self::Only(names) => f.write_str(&names.join(", ")),
            Self::AllBut(names) => write!(f, "all but {}", names.join(", ")),
        }
    }
}

impl Layer {
    const fn with_tests(self, tests_may_use: &'static [&'static str]) -> Self {
        Self { tests_may_use, ..self }
    }
}

/// A crate without IO.
const fn pure(name: &'static str, may_use: &'static [&'static str]) -> Layer {
    Layer { name, may_use: AllowedCrates::Only(may_use), tests_may_use: &[], is_pure: true }
}

/// A crate that may do IO.
const fn shell(name: &'static str, may_use: AllowedCrates) -> Layer {
    Layer { name, may_use, tests_may_use: &[], is_pure: false }
}

const PREFIX: &str = "kube-scheduler-";

const LAYERS: &[Layer] = &[
    pure("primitives", &[]),
    pure("api-types", &["primitives"]),
    // What controllers create, for the API server in memory and for simulations.
    pure("workloads", &["api-types"]),
    pure("cel", &["api-types"]),
    pure("config", &["api-types"]),
    pure("cache", &["api-types"]),
    pure("queue", &["primitives"]),
    // Claims and devices, apart from everything that schedules.
    pure("devices", &["api-types", "cel"]),
    pure("framework", &["api-types", "cache", "queue"]),
    pure("runtime", &["api-types", "cache", "queue", "framework", "config"]),
    // Of the runtime it uses the registry alone.
    pure("plugins-intree", &["api-types", "devices", "framework", "runtime", "config"])
        .with_tests(&["cache"]),
    pure("engine", &["api-types", "cache", "queue", "framework", "runtime", "config"]),
    // Questions about an engine; which plugins it runs is the caller's business.
    pure("answers", &["api-types", "cache", "framework", "engine", "workloads"])
        .with_tests(&["config", "plugins-intree"]),
    // The writes of a daemon without its IO, so that the fault simulation runs the same.
    pure("writes", &["api-types", "framework", "engine"]),
    pure(
        "simulator",
        &[
            "api-types",
            "workloads",
            "config",
            "cache",
            "framework",
            "runtime",
            "engine",
            "answers",
            "plugins-intree",
        ],
    ),
    shell(
        "daemon",
        AllowedCrates::Only(&[
            "api-types",
            "config",
            "framework",
            "runtime",
            "engine",
            "answers",
            "writes",
        ]),
    )
    .with_tests(&["plugins-intree", "devcluster"]),
    shell("devcluster", AllowedCrates::Only(&["api-types", "workloads"])),
    // What devices are selected by is the business of `devices`.
    shell("rs", AllowedCrates::AllBut(&["cel", "rs", "examples", "tests", "benches", "xtask"])),
    // Examples use what users have: the public API, and in tests an API server.
    shell("examples", AllowedCrates::Only(&["framework", "rs"]))
        .with_tests(&["daemon", "devcluster"]),
    shell("tests", AllowedCrates::AllBut(&["tests", "benches", "xtask"])),
    // Besides, the control plane that the end-to-end tests start.
    shell("benches", AllowedCrates::AllBut(&["cel", "examples", "benches", "xtask"])),
    shell("xtask", AllowedCrates::Only(&[])),
];

/// Crates that do IO or run tasks. A trailing `*` stands for any ending; our own packages are never meant.
const IO_CRATES: [&str; 10] =
    ["tokio", "tokio-*", "hyper", "hyper-*", "kube", "kube-*", "axum", "reqwest", "mio", "socket2"];

/// Compares the workspace with the table.
pub(super) fn check(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    let members = metadata::members(metadata);
    for (&package_name, package) in &members {
        let Some(layer) = LAYERS.iter().find(|layer| layer.name == short(package_name)) else {
            findings.push(Finding::new(
                package_name,
                "has no layer: give it a line in xtask/src/tidy/layers.rs",
            ));
            continue;
        };
        for dependency in
            package.dependencies.iter().filter(|d| members.contains_key(d.name.as_str()))
        {
            let target = short(&dependency.name);
            let is_dev = dependency.kind == DependencyKind::Development;
            let in_tests =
                is_dev && (layer.tests_may_use.contains(&target) || target == layer.name);
            if !layer.may_use.allows(target) && !in_tests {
                let kind = if is_dev { "dev-dependency" } else { "dependency" };
                let message = format!(
                    "{kind} on {} breaks its layer; it may use: {}",
                    dependency.name, layer.may_use
                );
                findings.push(Finding::new(package_name, message));
            }
        }
        if layer.is_pure {
            for (reached, chain) in
                metadata::reachable(metadata, package).into_iter().filter(|(name, _)| does_io(name))
            {
                let message = format!("reaches {reached}, which does IO: {}", chain.join(" -> "));
                findings.push(Finding::new(package_name, message));
            }
        }
    }
    findings
}

/// Whether a package lies below the daemon: no clock, no IO, no environment, no threads, no random hash order.
pub(super) fn is_below_daemon(package: &str) -> bool {
    LAYERS
        .iter()
        .any(|layer| layer.is_pure && layer.name != "simulator" && layer.name == short(package))
}

fn short(package: &str) -> &str {
    package.strip_prefix(PREFIX).unwrap_or(package)
}

fn does_io(package: &str) -> bool {
    !package.starts_with(PREFIX)
        && IO_CRATES.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => package.starts_with(start),
            None => package == *pattern,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::fixture::graph;

    fn messages(text: &str) -> Vec<String> {
        check(&graph(text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn edges_of_the_table_are_allowed() {
        let found = messages(
            "kube-scheduler-cache -> kube-scheduler-api-types
             kube-scheduler-framework -> kube-scheduler-cache
             kube-scheduler-runtime -> kube-scheduler-framework
             kube-scheduler-engine -> kube-scheduler-runtime
             kube-scheduler-daemon -> kube-scheduler-engine
             kube-scheduler-daemon -> kube-scheduler-devcluster dev
             kube-scheduler-daemon -> kube
             kube -> tokio
             kube-scheduler-rs -> kube-scheduler-devcluster
             kube-scheduler-tests -> kube-scheduler-rs
             kube-scheduler-queue -> kube-scheduler-queue dev
             xtask -> clap",
        );
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn an_upward_edge_fails() {
        assert_eq!(
            messages("kube-scheduler-cache -> kube-scheduler-queue"),
            [
                "kube-scheduler-cache: dependency on kube-scheduler-queue breaks its layer; it may use: api-types"
            ]
        );
    }

    #[test]
    fn the_engine_knows_no_plugin_even_in_tests() {
        let found = messages("kube-scheduler-engine -> kube-scheduler-plugins-intree dev");
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("dev-dependency on kube-scheduler-plugins-intree"), "{found:?}");
    }

    #[test]
    fn what_only_tests_may_use_fails_in_code() {
        assert_eq!(messages("kube-scheduler-daemon -> kube-scheduler-devcluster").len(), 1);
        assert_eq!(messages("kube-scheduler-daemon -> kube-scheduler-devcluster build").len(), 1);
    }

    #[test]
    fn the_build_system_depends_on_none_of_ours() {
        assert_eq!(messages("xtask -> kube-scheduler-config").len(), 1);
    }

    #[test]
    fn an_io_crate_below_the_daemon_fails_with_its_chain() {
        let found = messages("kube-scheduler-engine -> helper\nhelper -> tokio\ntokio -> mio");
        assert_eq!(
            found,
            [
                "kube-scheduler-engine: reaches mio, which does IO: kube-scheduler-engine -> helper -> tokio -> mio",
                "kube-scheduler-engine: reaches tokio, which does IO: kube-scheduler-engine -> helper -> tokio",
            ]
        );
    }

    #[test]
    fn io_crates_in_tests_of_the_core_are_not_shipped() {
        assert_eq!(messages("kube-scheduler-engine -> tokio dev"), Vec::<String>::new());
    }

    #[test]
    fn a_new_crate_needs_a_place() {
        let found = messages("kube-scheduler-oracle");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("kube-scheduler-oracle: has no layer"), "{found:?}");
    }

    #[test]
    fn the_core_is_below_the_daemon() {
        for name in [
            "api-types",
            "config",
            "cache",
            "queue",
            "framework",
            "runtime",
            "plugins-intree",
            "engine",
        ] {
            assert!(is_below_daemon(&format!("{PREFIX}{name}")), "{name}");
        }
        for name in ["daemon", "devcluster", "simulator", "rs", "tests"] {
            assert!(!is_below_daemon(&format!("{PREFIX}{name}")), "{name}");
        }
    }

    #[test]
    fn our_own_prefix_is_not_taken_for_kube() {
        assert!(!does_io("kube-scheduler-cache"));
        assert!(does_io("kube-client"));
        assert!(does_io("tokio-util"));
        assert!(!does_io("tokiox"));
    }
}
