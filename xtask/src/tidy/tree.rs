//! The packages of the workspace with all their Rust files, read once for all rules.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::scan::Source;
use crate::metadata::{self, DependencyKind, Metadata};
use crate::process;

/// A package of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    /// Its full name.
    pub(crate) name: String,
    /// Its manifest's path from the top of the repository.
    pub(super) manifest_place: String,
    /// Its manifest's text.
    pub(super) manifest: String,
    /// What its manifest asks for, ours and others'.
    pub(super) dependencies: Vec<Dependency>,
    /// Its Rust files, sorted by path.
    pub(crate) files: Vec<File>,
}

/// A declared dependency.
#[derive(Debug)]
pub(super) struct Dependency {
    /// The package it asks for.
    pub(super) package: String,
    /// Its name in code.
    pub(super) ident: String,
    /// Whether only tests see it.
    pub(super) is_dev: bool,
}

/// A Rust file.
#[derive(Debug)]
pub(crate) struct File {
    /// Its path from the top of the repository.
    pub(crate) place: String,
    /// Its text, taken apart.
    pub(crate) source: Source,
    /// Whether it is compiled into tests or benchmarks only.
    pub(super) is_test: bool,
}

/// Reads all packages of the workspace.
pub(crate) fn packages(root: &Path, metadata: &Metadata) -> Result<Vec<Package>> {
    let members = metadata::members(metadata);
    let directories: BTreeSet<&Path> =
        members.values().filter_map(|member| member.manifest_path.as_std_path().parent()).collect();
    let mut packages = Vec::new();
    for (name, member) in members {
        let manifest = member.manifest_path.as_std_path();
        let directory = manifest.parent().context("a manifest without a directory")?;
        let mut paths = Vec::new();
        rust_files(directory, &directories, &mut paths)?;
        paths.sort();
        let mut files = Vec::new();
        for path in paths {
            let source = Source::new(read(&path)?);
            let within = path.strip_prefix(directory).unwrap_or(&path);
            let is_test = is_test_path(within) || source.is_all_test;
            files.push((path, File { place: String::new(), source, is_test }));
        }
        mark_test_modules(&mut files);
        packages.push(Package {
            name: name.to_owned(),
            manifest_place: place(root, manifest),
            manifest: read(manifest)?,
            dependencies: dependencies(member),
            files: files
                .into_iter()
                .map(|(path, file)| File { place: place(root, &path), ..file })
                .collect(),
        });
    }
    Ok(packages)
}

fn dependencies(member: &metadata::Package) -> Vec<Dependency> {
    member
        .dependencies
        .iter()
        .map(|dependency| Dependency {
            package: dependency.name.clone(),
            ident: dependency.rename.as_ref().unwrap_or(&dependency.name).replace('-', "_"),
            is_dev: dependency.kind == DependencyKind::Development,
        })
        .collect()
}

/// All files of the repository that git tracks or would, from its top.
pub(crate) fn all_files(root: &Path) -> Result<Vec<String>> {
    let mut list = Command::new("git");
    list.args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]).current_dir(root);
    let listed = String::from_utf8(process::output(&mut list)?).context("a path is not UTF-8")?;
    let files = listed.split_terminator('\0').filter(|path| root.join(path).exists());
    Ok(files.map(str::to_owned).collect())
}

/// The text of a file.
pub(crate) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn place(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

/// Collects the Rust files below a directory, other packages and build output left out.
fn rust_files(
    directory: &Path,
    packages: &BTreeSet<&Path>,
    found: &mut Vec<PathBuf>,
) -> Result<()> {
    for entry in
        fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?
    {
        let path = entry.with_context(|| format!("cannot list {}", directory.display()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            let is_output = name.starts_with('.') || name == "target";
            if !is_output && !packages.contains(path.as_path()) {
                rust_files(&path, packages, found)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// Whether a path within its package says that the file is test code.
fn is_test_path(path: &Path) -> bool {
    let in_test_directory = path.parent().is_some_and(|parent| {
        parent.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "benches")
    });
    in_test_directory || path.file_name().is_some_and(|name| name == "tests.rs")
}

/// Marks files that another file declares as `#[cfg(test)] mod name;`, and all below them.
fn mark_test_modules(files: &mut [(PathBuf, File)]) {
    let mut roots: Vec<PathBuf> = Vec::new();
    for (path, file) in files.iter() {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let directory = path.parent().unwrap_or(path);
        let children = match stem.as_ref() {
            "lib" | "main" | "mod" => directory.to_owned(),
            stem => directory.join(stem),
        };
        roots.extend(file.source.test_modules.iter().map(|module| children.join(module)));
    }
    for (path, file) in files {
        let without_extension = path.with_extension("");
        file.is_test |= roots.iter().any(|root| without_extension.starts_with(root));
    }
}

/// Packages made of text, for the tests of the rules.
#[cfg(test)]
pub(crate) mod fixture {
    use super::*;

    /// A package with one shipped file, `src/lib.rs`.
    pub(in crate::tidy) fn package(name: &str, text: &str) -> Package {
        let place = format!("crates/{name}/src/lib.rs");
        Package {
            name: format!("kube-scheduler-{name}"),
            manifest_place: format!("crates/{name}/Cargo.toml"),
            manifest: String::new(),
            dependencies: Vec::new(),
            files: vec![File { place, source: Source::new(text.to_owned()), is_test: false }],
        }
    }

    /// A package with shipped files, each named without its ending.
    pub(crate) fn with_files(name: &str, files: &[(&str, &str)]) -> Package {
        let file = |(path, text): &(&str, &str)| File {
            place: format!("crates/{name}/src/{path}.rs"),
            source: Source::new((*text).to_owned()),
            is_test: false,
        };
        Package { files: files.iter().map(file).collect(), ..package(name, "") }
    }

    impl Package {
        pub(in crate::tidy) fn with_dependency(mut self, name: &str, is_dev: bool) -> Self {
            self.dependencies.push(Dependency {
                package: name.to_owned(),
                ident: name.replace('-', "_"),
                is_dev,
            });
            self
        }

        pub(in crate::tidy) fn into_test(mut self) -> Self {
            self.files[0].is_test = true;
            self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> (PathBuf, File) {
        let is_test = is_test_path(Path::new(path));
        (
            path.into(),
            File { place: path.to_owned(), source: Source::new(text.to_owned()), is_test },
        )
    }

    #[test]
    fn test_files_are_known_by_path_or_by_declaration() {
        let mut files = [
            file("src/lib.rs", "#[cfg(test)]\nmod model;\nmod heap;\n"),
            file("src/heap.rs", "#[cfg(test)]\nmod props;\n"),
            file("src/heap/props.rs", ""),
            file("src/heap/sift.rs", ""),
            file("src/model.rs", ""),
            file("src/model/naive.rs", ""),
            file("src/queue/tests.rs", ""),
            file("tests/end_to_end.rs", ""),
            file("src/models.rs", ""),
        ];
        mark_test_modules(&mut files);
        let test: Vec<_> = files
            .iter()
            .filter(|(_, file)| file.is_test)
            .map(|(_, file)| file.place.as_str())
            .collect();
        let expected = [
            "src/heap/props.rs",
            "src/model.rs",
            "src/model/naive.rs",
            "src/queue/tests.rs",
            "tests/end_to_end.rs",
        ];
        assert_eq!(test, expected);
    }
}
