//! The kubectl plugin: an archive as krew unpacks it, and the manifest that it installs from.
//!
//! Krew unpacks regular files and directories only, so that the archive has the binary itself under the plugin's name and no
//! link.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// What kubectl calls for `kubectl scheduler`.
pub(super) const PLUGIN: &str = "kubectl-scheduler";
/// The plugin's name for krew, and that of the manifest.
const NAME: &str = "scheduler";
/// What the archive has beside the binary; krew asks for a licence.
const TEXTS: [&str; 2] = ["LICENSE", "THIRD-PARTY-LICENSES"];

/// Packs the plugin from a staged release; the archive's name.
pub(super) fn pack(dist: &Path, stage: &Path, release: &Release<'_>) -> Result<String> {
    let Release { version, target } = release;
    let archive = format!("{PLUGIN}-{version}-{target}.tar.gz");
    let files = stage.with_file_name(format!("{PLUGIN}-{version}-{target}"));
    if files.exists() {
        fs::remove_dir_all(&files).with_context(|| format!("cannot empty {}", files.display()))?;
    }
    fs::create_dir_all(&files).with_context(|| format!("cannot create {}", files.display()))?;
    super::copy(&stage.join(super::PACKAGE), &files.join(PLUGIN))?;
    for text in TEXTS {
        super::copy(&stage.join(text), &files.join(text))?;
    }
    let mut pack = Command::new("tar");
    pack.current_dir(&files).arg("-czf").arg(dist.join(&archive)).arg(PLUGIN).args(TEXTS);
    process::output(&mut pack)?;
    Ok(archive)
}

/// What is released.
#[derive(Clone, Copy, Debug)]
pub(super) struct Release<'a> {
    pub(super) version: &'a str,
    pub(super) target: &'a str,
}

/// The file name of the manifest and its text, for an archive with this digest that can be had below `url`.
pub(super) fn manifest(
    release: &Release<'_>,
    archive: &str,
    sha256: &str,
    url: Option<&str>,
) -> Result<(String, String)> {
    let Release { version, target } = release;
    let (os, arch) = platform(target).with_context(|| format!("krew does not know {target}"))?;
    let uri = match url {
        Some(url) => format!("{}/{archive}", url.trim_end_matches('/')),
        None => archive.to_owned(),
    };
    let text = format!(
        r#"apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: {NAME}
spec:
  version: "v{version}"
  shortDescription: Ask why pods are pending, and what would happen if
  description: |
    Answers questions about scheduling with the plugins of a scheduler:
    why a pod is where it is or fits nowhere, which pods would be evicted
    for it, what would happen after changes, whether nodes can be drained,
    how many more pods fit, what waits for what, and what is fragmented.
    Reads the cluster of the kubeconfig, or files; writes nothing.
  caveats: |
    Needs the right to list nodes and pods of all namespaces.
  platforms:
  - selector:
      matchLabels:
        os: "{os}"
        arch: "{arch}"
    uri: "{uri}"
    sha256: "{sha256}"
    bin: {PLUGIN}
"#
    );
    Ok((format!("{NAME}.yaml"), text))
}

/// The operating system and the processor of a target, in the words of Go.
fn platform(target: &str) -> Option<(&'static str, &'static str)> {
    let arch = match target.split('-').next()? {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        _ => return None,
    };
    let os = ["linux", "darwin", "windows"].into_iter().find(|os| target.contains(os))?;
    Some((os, arch))
}

/// The digest of a file in what `sha256sum` prints.
pub(super) fn digest_of<'s>(sums: &'s str, file: &str) -> Option<&'s str> {
    sums.lines().find_map(|line| {
        let (digest, name) = line.split_once(char::is_whitespace)?;
        (name.trim_start_matches([' ', '*']) == file).then_some(digest)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const RELEASE: Release<'_> = Release { version: "1.2.3", target: "x86_64-unknown-linux-musl" };

    fn read(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[test]
    fn the_manifest_has_what_krew_asks_for() {
        let digest = "0f".repeat(32);
        let url = Some("https://example.com/v1.2.3/");
        let (file, text) = manifest(&RELEASE, "a.tar.gz", &digest, url).unwrap();
        let manifest = read(&text);
        assert_eq!(file, "scheduler.yaml", "the file is named after the plugin");
        assert_eq!(manifest["apiVersion"], "krew.googlecontainertools.github.com/v1alpha2");
        assert_eq!(
            (&manifest["kind"], &manifest["metadata"]),
            (&json!("Plugin"), &json!({"name": "scheduler"}))
        );
        let spec = &manifest["spec"];
        assert_eq!(spec["version"], "v1.2.3", "with a v, as krew asks");
        let short = spec["shortDescription"].as_str().unwrap();
        assert!((1..=60).contains(&short.len()) && !short.contains('\n'), "{short}");
        assert_eq!(
            spec["platforms"],
            json!([{
                "selector": {"matchLabels": {"os": "linux", "arch": "amd64"}},
                "uri": "https://example.com/v1.2.3/a.tar.gz",
                "sha256": digest,
                "bin": "kubectl-scheduler",
            }])
        );
    }

    #[test]
    fn without_a_url_the_archive_is_named() {
        let (_, text) = manifest(&RELEASE, "a.tar.gz", "00", None).unwrap();
        assert_eq!(read(&text)["spec"]["platforms"][0]["uri"], "a.tar.gz");
        let other = Release { target: "riscv64gc-unknown-linux-gnu", ..RELEASE };
        assert!(manifest(&other, "a.tar.gz", "00", None).is_err());
    }

    #[test]
    fn digests_are_found_by_the_name_of_the_file() {
        let sums = "aa  kube.tar.gz\nbb *kubectl.tar.gz\n";
        assert_eq!(digest_of(sums, "kube.tar.gz"), Some("aa"));
        assert_eq!(digest_of(sums, "kubectl.tar.gz"), Some("bb"));
        assert_eq!(digest_of(sums, "tar.gz"), None);
    }

    #[test]
    fn the_archive_has_the_plugin_and_its_licence_as_files() {
        let dist = std::env::temp_dir().join(format!("krew-{}", std::process::id()));
        let stage = dist.join("staged");
        fs::create_dir_all(&stage).unwrap();
        for (file, text) in [("kube-scheduler-rs", "program"), ("LICENSE", "l"), (TEXTS[1], "t")] {
            fs::write(stage.join(file), text).unwrap();
        }
        let archive = pack(&dist, &stage, &RELEASE).unwrap();
        assert_eq!(archive, "kubectl-scheduler-1.2.3-x86_64-unknown-linux-musl.tar.gz");
        let listed = Command::new("tar").arg("-tvzf").arg(dist.join(&archive)).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        fs::remove_dir_all(&dist).unwrap();
        assert!(listed.lines().all(|line| line.starts_with('-')), "only regular files: {listed}");
        let names: Vec<&str> =
            listed.lines().filter_map(|line| line.split_whitespace().last()).collect();
        assert_eq!(names, ["kubectl-scheduler", "LICENSE", "THIRD-PARTY-LICENSES"]);
    }
}
