//! What rustdoc knows of our libraries, as JSON.
//!
//! The JSON form is unstable, so rustdoc gives it only when `RUSTC_BOOTSTRAP` is set. That variable must reach no build
//! script: several look at it, and every crate above them would be compiled again. So cargo is given this program in the
//! place of rustdoc, which sets the variable for rustdoc alone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{self, ExitOutcome};

/// Set for the call in which this program stands for rustdoc.
const STAND_IN: &str = "XTASK_STANDS_FOR_RUSTDOC";

/// Runs rustdoc with unstable options if cargo called this program for it; `None` if this is a call of its own.
pub(crate) fn stand_in() -> Option<Result<ExitOutcome>> {
    std::env::var_os(STAND_IN)?;
    let arguments = std::env::args_os().skip(1);
    Some(process::run(Command::new("rustdoc").args(arguments).env("RUSTC_BOOTSTRAP", "1")))
}

/// Documents the libraries of the workspace; gives the directory in which `CRATE_NAME.json` lie.
///
/// Features and packages are those of `cargo doc` in `ci`, so that both share one build of the dependencies.
pub(super) fn documents(target: &Path) -> Result<PathBuf> {
    let this = std::env::current_exe().context("cannot find this program")?;
    let mut command = process::cargo("doc");
    command
        .args(["--workspace", "--no-deps", "--lib", "--all-features"])
        .env("RUSTDOC", this)
        .env("RUSTDOCFLAGS", "-Z unstable-options --output-format json")
        .env(STAND_IN, OsString::from("1"))
        .current_dir(process::root()?);
    if process::run(&mut command)? != ExitOutcome::Well {
        bail!("`{}` failed", process::shown(&command));
    }
    Ok(target.join("doc"))
}
