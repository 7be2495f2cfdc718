//! `dist`: what a release consists of, made from the tree as it is.
//!
//! `dist/NAME-VERSION-TARGET/` holds the stripped binary, completions, manual pages, manifests, the Helm chart, the texts
//! and the licences of everything linked in; beside it lie the tarball of that directory, the packed chart, the kubectl plugin
//! with its manifest for krew, and SHA256SUMS of all three archives.
//!
//! Invariants: the binary is for musl, and so depends on no other file, where the toolchain has that target, else for the
//! host's C library; a licence without a text is named; licences, sources and duplicates are checked by cargo-deny where
//! it is installed, and a release that it refuses is not made.

mod krew;
mod licences;
#[cfg(test)]
mod packaging;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::artifact;
use crate::metadata;
use crate::process::{self, ExitOutcome};

/// How cargo builds what is shipped, and what is measured.
pub(crate) const PROFILE: &str = "dist";
const PACKAGE: &str = "kube-scheduler-rs";
const TEXTS: [&str; 3] = ["README.md", "LICENSE", "CHANGELOG.md"];
const SHELLS: [(&str, &str); 4] = [
    ("bash", "kube-scheduler-rs.bash"),
    ("zsh", "_kube-scheduler-rs"),
    ("fish", "kube-scheduler-rs.fish"),
    ("powershell", "_kube-scheduler-rs.ps1"),
];
const MANIFESTS: &str = "packaging/manifests";
const CHART: &str = "packaging/helm/kube-scheduler-rs";

/// How to make a release.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the archives will be found, for the manifest of the kubectl plugin; without it, that names the archive alone, for
    /// `kubectl krew install --manifest FILE --archive FILE`.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

/// Builds and packs.
pub(crate) fn run(args: &Args) -> Result<ExitOutcome> {
    let root = process::root()?;
    for text in TEXTS {
        if !root.join(text).is_file() {
            bail!("{text} is missing at the top of the repository; a release contains it");
        }
    }
    if let ExitOutcome::Badly(code) = deny(&root)? {
        return Ok(ExitOutcome::Badly(code));
    }
    let metadata = metadata::load()?;
    let package =
        *metadata::members(&metadata).get(PACKAGE).context("no package kube-scheduler-rs")?;
    let version = package.version.clone();
    let host = host()?;
    let target = target(&host);
    let name = format!("{PACKAGE}-{version}-{target}");
    println!("dist: building for {target}");

    let built = build(&root, (target != host).then_some(&*target))?;
    let dist = root.join("dist");
    let stage = dist.join(&name);
    if stage.exists() {
        fs::remove_dir_all(&stage).with_context(|| format!("cannot empty {}", stage.display()))?;
    }
    fs::create_dir_all(&stage).with_context(|| format!("cannot create {}", stage.display()))?;

    let binary = stage.join(PACKAGE);
    copy(&built, &binary)?;
    if !process::succeeds(Command::new("strip").arg(&binary)) {
        println!("dist: no working `strip`: the binary keeps its symbols");
    }
    report_libraries(&binary);
    for text in TEXTS {
        copy(&root.join(text), &stage.join(text))?;
    }
    write_completions(&binary, &stage.join("completions"))?;
    process::output(Command::new(&binary).arg("man").arg("--out").arg(stage.join("man")))?;
    copy_all(&root.join(MANIFESTS), &stage.join("manifests"))?;
    copy_all(&root.join(CHART), &stage.join("helm").join(PACKAGE))?;
    let report = licences::report(&metadata, package);
    fs::write(stage.join("THIRD-PARTY-LICENSES"), report).context("cannot write the licences")?;

    let tarball = format!("{name}.tar.gz");
    process::output(Command::new("tar").current_dir(&dist).args(["-czf", &tarball, &name]))?;
    let chart = format!("{PACKAGE}-{version}.tgz");
    let mut pack = Command::new("tar");
    pack.current_dir(stage.join("helm")).arg("-czf").arg(dist.join(&chart)).arg(PACKAGE);
    process::output(&mut pack)?;
    let release = krew::Release { version: &version.to_string(), target: &target };
    let plugin = krew::pack(&dist, &stage, &release)?;
    let mut sums = Command::new("sha256sum");
    let sums = process::output(sums.current_dir(&dist).args([&tarball, &chart, &plugin]))?;
    fs::write(dist.join("SHA256SUMS"), &sums).context("cannot write dist/SHA256SUMS")?;
    let sums = String::from_utf8_lossy(&sums);
    let digest = krew::digest_of(&sums, &plugin).context("sha256sum left the plugin out")?;
    let (file, manifest) = krew::manifest(&release, &plugin, digest, args.url.as_deref())?;
    fs::write(dist.join(&file), manifest).with_context(|| format!("cannot write dist/{file}"))?;
    println!("dist/{tarball}\ndist/{chart}\ndist/{plugin}\ndist/{file}\ndist/SHA256SUMS");
    Ok(ExitOutcome::Well)
}

/// Checks licences, sources and duplicates with the rules of deny.toml, and advisories where a database of them is on this
/// machine: nothing is fetched here.
fn deny(root: &Path) -> Result<ExitOutcome> {
    if !process::succeeds(process::cargo("deny").arg("--version")) {
        println!(
            "dist: cargo-deny is not installed: `cargo xtask tidy` alone checks licences and duplicates"
        );
        return Ok(ExitOutcome::Well);
    }
    let mut deny = process::cargo("deny");
    deny.args(["--offline", "check", "licenses", "bans", "sources"]);
    if advisory_databases().is_some_and(|path| path.is_dir()) {
        deny.arg("advisories");
    } else {
        println!(
            "dist: advisories are not checked, as there is no database of them: `cargo deny fetch db` brings one"
        );
    }
    process::run(deny.current_dir(root))
}

/// Where cargo-deny keeps them.
fn advisory_databases() -> Option<std::path::PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(std::path::PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")))?;
    Some(home.join("advisory-dbs"))
}

/// Builds the binary and returns its path.
fn build(root: &Path, target: Option<&str>) -> Result<std::path::PathBuf> {
    let mut build = process::cargo("build");
    build.args(["--profile", PROFILE, "--locked", "--package", PACKAGE]);
    build.args(["--message-format", "json-render-diagnostics"]);
    if let Some(target) = target {
        build.args(["--target", target]);
    }
    let messages = process::output(build.current_dir(root))?;
    artifact::executable(&messages, PACKAGE).context("cargo built no kube-scheduler-rs")
}

/// Prints which shared libraries the binary needs where it runs.
fn report_libraries(binary: &Path) {
    let listed = Command::new("ldd").arg(binary).output();
    let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let names: Vec<String> = listed.map_or_else(|_| Vec::new(), |listed| libraries(&listed));
    if names.is_empty() {
        println!("dist: the binary needs no shared library");
    } else {
        println!("dist: the binary needs {}", names.join(", "));
    }
}

/// The names in what `ldd` prints.
fn libraries(listed: &str) -> Vec<String> {
    let lines = listed.lines().filter_map(|line| line.split_whitespace().next());
    lines
        .filter(|name| name.contains(".so") && !name.contains("vdso"))
        .map(|name| name.rsplit('/').next().unwrap_or(name).to_owned())
        .collect()
}

fn write_completions(binary: &Path, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    for (shell, file) in SHELLS {
        let script = process::output(Command::new(binary).args(["completions", shell]))?;
        fs::write(directory.join(file), script).with_context(|| format!("cannot write {file}"))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// Copies a directory with all that is in it.
fn copy_all(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", from.display()))?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_all(&path, &to)?;
        } else {
            copy(&path, &to)?;
        }
    }
    Ok(())
}

/// The platform to build for: the host's with musl in place of its C library, if the compiler can.
fn target(host: &str) -> String {
    let musl = host.replace("-gnu", "-musl");
    if musl == host || !has_target(&musl) {
        return host.to_owned();
    }
    musl
}

fn has_target(target: &str) -> bool {
    let mut ask = Command::new("rustc");
    let answer = ask.args(["--print", "target-libdir", "--target", target]).output();
    answer.is_ok_and(|output| {
        output.status.success()
            && Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir()
    })
}

/// The platform that the compiler builds for by default.
fn host() -> Result<String> {
    let answer = process::output(Command::new("rustc").arg("-vV"))?;
    host_of(&String::from_utf8_lossy(&answer)).context("`rustc -vV` names no host")
}

fn host_of(answer: &str) -> Option<String> {
    answer.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_read_from_the_compiler() {
        let answer =
            "rustc 1.95.0\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\n";
        assert_eq!(host_of(answer).as_deref(), Some("x86_64-unknown-linux-gnu"));
        assert_eq!(host_of("rustc 1.95.0"), None);
    }

    #[test]
    fn libraries_are_read_from_ldd() {
        let listed = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibgcc_s.so.1 => /lib/libgcc_s.so.1 (0x00007f)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(libraries(listed), ["libgcc_s.so.1", "ld-linux-x86-64.so.2"]);
        assert!(libraries("\tstatically linked\n").is_empty());
    }

    #[test]
    fn a_target_that_is_not_installed_is_not_chosen() {
        assert!(!has_target("no-such-target"));
        assert_eq!(target("riscv64-nowhere-none-elf"), "riscv64-nowhere-none-elf");
    }
}
