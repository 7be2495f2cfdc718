//! `package`: packs the libraries as for a registry, and compiles programs outside of the workspace against the packages.
//!
//! The programs lie outside of the workspace, so that nothing reaches them but what is packaged: its features, its files
//! and the dependencies that it declares. Their text is the first example of a crate's documentation, or of a document.
//! Versions come from the workspace's `Cargo.lock` and profiles from its manifest, and everything is built in its target
//! directory: what the tests have built of other people's crates is used again where the features are the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::metadata::{self, Metadata, Package};
use crate::process::{self, ExitOutcome};

/// A program outside of the workspace that uses the packages.
struct Program {
    name: &'static str,
    /// Where its text stands, from the top of the repository: the first Rust example there.
    example: &'static str,
    /// The crates of ours that it needs.
    needs: &'static [&'static str],
    /// Crates that must not come with those.
    without: &'static [&'static str],
    /// Whether it is linked and run. Programs that need the daemon are only type-checked: optimising and linking it again would
    /// take long and find little more.
    runs: bool,
}

const PROGRAMS: [Program; 3] = [
    Program {
        name: "outside-quantities",
        example: "crates/api-types/src/lib.rs",
        needs: &["kube-scheduler-api-types"],
        without: &[],
        runs: true,
    },
    Program {
        name: "outside-queue",
        example: "crates/queue/src/lib.rs",
        needs: &["kube-scheduler-queue"],
        without: &["serde", "serde_json", "jiff"],
        runs: true,
    },
    Program {
        name: "outside-plugin",
        example: "docs/plugins.md",
        needs: &["kube-scheduler-framework", "kube-scheduler-rs"],
        without: &[],
        runs: false,
    },
];

/// Packs, unpacks, builds and runs.
pub(crate) fn run() -> Result<ExitOutcome> {
    let root = process::root()?;
    let metadata = metadata::load()?;
    let published = metadata::published(&metadata);
    let incomplete: Vec<String> = published.values().filter_map(|package| lacks(package)).collect();
    incomplete.iter().for_each(|problem| println!("{problem}"));
    if !incomplete.is_empty() {
        return Ok(ExitOutcome::Badly(1));
    }
    if let ExitOutcome::Badly(code) = process::run(&mut pack(&root, &metadata))? {
        return Ok(ExitOutcome::Badly(code));
    }
    let target = metadata.target_directory.as_std_path();
    let outside = target.join("outside");
    if outside.exists() {
        fs::remove_dir_all(&outside)
            .with_context(|| format!("cannot empty {}", outside.display()))?;
    }
    let crates = outside.join("crates");
    fs::create_dir_all(&crates).with_context(|| format!("cannot make {}", crates.display()))?;
    for package in published.values() {
        let file = format!("{}-{}.crate", package.name, package.version);
        let mut unpack = Command::new("tar");
        // Packages carry one and the same time for all files, by which a second run would take them for unchanged (-m).
        unpack.arg("-xzmf").arg(target.join("package").join(file)).arg("-C").arg(&crates);
        process::output(&mut unpack)?;
    }
    write_workspace(&root, &outside, published.values().copied())?;
    for program in &PROGRAMS {
        let reached = dependencies(program, &outside)?;
        if let Some(name) = program.without.iter().find(|name| reached.contains(**name)) {
            println!("package: {} needs {name}, of which it must be free", program.name);
            return Ok(ExitOutcome::Badly(1));
        }
        let mut command = process::cargo(if program.runs { "run" } else { "check" });
        command.args(["--quiet", "--package", program.name]);
        command.current_dir(&outside).env("CARGO_TARGET_DIR", target);
        println!("    {}", process::shown(&command));
        if let ExitOutcome::Badly(code) = process::run(&mut command)? {
            println!("package: {}, the first example of {}, failed", program.name, program.example);
            return Ok(ExitOutcome::Badly(code));
        }
    }
    println!("package: ok ({} packages, {} programs)", published.len(), PROGRAMS.len());
    Ok(ExitOutcome::Well)
}

/// The crates that a program is built of.
fn dependencies(program: &Program, outside: &Path) -> Result<BTreeSet<String>> {
    let mut command = process::cargo("tree");
    command.args(["--package", program.name, "--edges", "normal", "--prefix", "none"]);
    command.args(["--format", "{lib}"]).current_dir(outside);
    let listed = String::from_utf8(process::output(&mut command)?)?;
    Ok(listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect())
}

/// What a package lacks to be found and understood in a registry.
fn lacks(package: &Package) -> Option<String> {
    let readme = package.manifest_path.with_file_name("README.md");
    let missing = if package.description.is_none() {
        "description"
    } else if package.keywords.is_empty() {
        "keywords"
    } else if package.categories.is_empty() {
        "categories"
    } else if !readme.exists() {
        "README.md of its own"
    } else {
        return None;
    };
    Some(format!("{}: has no {missing}, which a published crate needs", package.manifest_path))
}

/// The command that packs the published crates. They are built below, as part of the programs.
fn pack(root: &Path, metadata: &Metadata) -> Command {
    let mut command = process::cargo("package");
    command.args(["--workspace", "--no-verify", "--allow-dirty", "--quiet"]).current_dir(root);
    let published = metadata::published(metadata);
    for name in metadata::members(metadata).into_keys().filter(|name| !published.contains_key(name))
    {
        command.args(["--exclude", name]);
    }
    command
}

/// Writes the programs, and the workspace around them.
fn write_workspace<'a>(
    root: &Path,
    outside: &Path,
    published: impl Iterator<Item = &'a Package>,
) -> Result<()> {
    let manifest = read(&root.join("Cargo.toml"))?;
    let mut text = format!(
        "[workspace]\nresolver = \"3\"\nmembers = {:?}\n\n",
        PROGRAMS.map(|program| program.name)
    );
    text += "[patch.crates-io]\n";
    for package in published {
        text += &format!("{0} = {{ path = \"crates/{0}-{1}\" }}\n", package.name, package.version);
    }
    text += &profiles(&manifest);
    write(&outside.join("Cargo.toml"), &text)?;
    write(&outside.join("Cargo.lock"), &read(&root.join("Cargo.lock"))?)?;
    for program in &PROGRAMS {
        let code = example(&read(&root.join(program.example))?)
            .with_context(|| format!("{} has no Rust example", program.example))?;
        let mut manifest = format!(
            "[package]\nname = \"{}\"\nedition = \"2024\"\n\n[dependencies]\n",
            program.name
        );
        program.needs.iter().for_each(|name| manifest += &format!("{name} = \"*\"\n"));
        write(&outside.join(program.name).join("Cargo.toml"), &manifest)?;
        write(&outside.join(program.name).join("src/main.rs"), &code)?;
    }
    Ok(())
}

/// The sections of a manifest that say how to compile.
fn profiles(manifest: &str) -> String {
    let mut inside = false;
    let lines = manifest.lines().filter(|line| {
        if line.starts_with('[') {
            inside = line.starts_with("[profile.");
        }
        inside
    });
    lines.fold(String::new(), |text, line| text + "\n" + line)
}

/// The first Rust example of a document or of a module's head, as a program of its own.
fn example(text: &str) -> Option<String> {
    let lines = text.lines().map(|line| line.strip_prefix("//!").map_or(line, str::trim_start));
    let (mut code, mut is_inside, mut is_rust) = (String::new(), false, false);
    for line in lines {
        if let Some(language) = line.strip_prefix("```") {
            if is_rust {
                let is_program = code.contains("fn main(");
                return Some(if is_program { code } else { format!("fn main() {{\n{code}}}\n") });
            }
            is_inside = !is_inside;
            is_rust = is_inside && (language.is_empty() || language.starts_with("rust"));
        } else if is_rust {
            // Lines that doc tests hide.
            code += line.strip_prefix("# ").unwrap_or(line);
            code.push('\n');
        }
    }
    None
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    let Some(directory) = path.parent() else { bail!("{} has no directory", path.display()) };
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_becomes_a_program() {
        let head = "//! Head.\n//!\n//! ```\n//! # use a::B;\n//! let b = B;\n//! ```\n//! ```\n//! other\n//! ```\n";
        assert_eq!(example(head).unwrap(), "fn main() {\nuse a::B;\nlet b = B;\n}\n");
        let document = "```console\nls\n```\n```rust,no_run\nfn main() {\n    f();\n}\n```\n";
        assert_eq!(example(document).unwrap(), "fn main() {\n    f();\n}\n");
        assert_eq!(example("```console\nls\n```\n"), None);
    }

    #[test]
    fn profiles_are_taken_over_whole() {
        let manifest = "[workspace]\na = 1\n[profile.dev]\ndebug = false\n\n[profile.dev.package.\"*\"]\nopt-level = 1\n[x]\nb = 2\n";
        assert_eq!(
            profiles(manifest),
            "\n[profile.dev]\ndebug = false\n\n[profile.dev.package.\"*\"]\nopt-level = 1"
        );
    }
}
