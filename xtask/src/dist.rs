//! `dist`: what a release consists of, made from the tree as it is.
//!
//! `dist/NAME-VERSION-TARGET/` holds the stripped binary, completions and texts; beside it lie the tarball of that
//! directory and SHA256SUMS.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::artifact;
use crate::metadata::Metadata;
use crate::process::{self, Ended};

const PACKAGE: &str = "kube-scheduler-rs";
const TEXTS: [&str; 3] = ["README.md", "LICENSE", "CHANGELOG.md"];
const SHELLS: [(&str, &str); 3] = [
    ("bash", "kube-scheduler-rs.bash"),
    ("zsh", "_kube-scheduler-rs"),
    ("fish", "kube-scheduler-rs.fish"),
];

/// Builds and packs.
pub(crate) fn run() -> Result<Ended> {
    let root = process::root()?;
    for text in TEXTS {
        if !root.join(text).is_file() {
            bail!("{text} is missing at the top of the repository; a release contains it");
        }
    }
    let metadata = Metadata::load()?;
    let version =
        metadata.members().get(PACKAGE).context("no package kube-scheduler-rs")?.version.clone();
    let name = format!("{PACKAGE}-{version}-{}", host()?);

    let mut build = process::cargo("build");
    build.args([
        "--release",
        "--locked",
        "--package",
        PACKAGE,
        "--message-format",
        "json-render-diagnostics",
    ]);
    let messages = process::output(build.current_dir(&root))?;
    let built =
        artifact::executable(&messages, PACKAGE).context("cargo built no kube-scheduler-rs")?;

    let dist = root.join("dist");
    let stage = dist.join(&name);
    if stage.exists() {
        fs::remove_dir_all(&stage).with_context(|| format!("cannot empty {}", stage.display()))?;
    }
    let completions = stage.join("completions");
    fs::create_dir_all(&completions)
        .with_context(|| format!("cannot create {}", stage.display()))?;

    let binary = stage.join(PACKAGE);
    copy(&built, &binary)?;
    if !process::succeeds(Command::new("strip").arg(&binary)) {
        println!("dist: no working `strip`: the binary keeps its symbols");
    }
    for text in TEXTS {
        copy(&root.join(text), &stage.join(text))?;
    }
    write_completions(&binary, &completions)?;

    let tarball = format!("{name}.tar.gz");
    process::output(Command::new("tar").current_dir(&dist).args(["-czf", &tarball, &name]))?;
    let sums = process::output(Command::new("sha256sum").current_dir(&dist).arg(&tarball))?;
    fs::write(dist.join("SHA256SUMS"), &sums).context("cannot write dist/SHA256SUMS")?;
    println!("dist/{tarball}\ndist/SHA256SUMS");
    Ok(Ended::Well)
}

fn write_completions(binary: &Path, directory: &Path) -> Result<()> {
    if !process::succeeds(Command::new(binary).args(["completions", "--help"])) {
        println!("dist: the binary has no command `completions`: none are packed");
        return fs::remove_dir(directory)
            .context("cannot remove the empty directory of completions");
    }
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
}
