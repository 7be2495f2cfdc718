//! Child processes that do not outlive the test that started them.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

/// A running program whose output goes to a file.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program`; the log is added to. Its standard input is a pipe that ends when this process does, so that a
    /// program that listens there can end too.
    ///
    /// # Errors
    /// If the log cannot be opened or the program cannot be started.
    pub fn start(
        program: &Path,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        log: &Path,
    ) -> Result<Self> {
        let out: File = OpenOptions::new().create(true).append(true).open(log)?;
        let child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| program.display().to_string())?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// What it wrote so far.
    pub fn log(&self) -> String {
        std::fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Ends it as a crash would.
    pub fn kill(mut self) {
        self.end();
    }

    /// Sends it a signal, such as `TERM`.
    ///
    /// # Errors
    /// If it has ended, or if there is no program `kill`.
    pub fn signal(&self, name: &str) -> Result<()> {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &pid]).status()?;
        anyhow::ensure!(status.success(), "kill -{name} {pid}: {status}");
        Ok(())
    }

    /// Asks it to end and waits for its exit code; `None` if a signal ended it.
    ///
    /// # Errors
    /// If it cannot be asked, or has not ended two minutes later.
    pub async fn terminate(mut self) -> Result<Option<i32>> {
        self.signal("TERM")?;
        self.wait().await
    }

    /// Waits for its exit code; `None` if a signal ended it.
    ///
    /// # Errors
    /// If it has not ended two minutes later.
    pub async fn wait(&mut self) -> Result<Option<i32>> {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(120);
        loop {
            if let Some(status) = self.ended() {
                return Ok(status.code());
            }
            anyhow::ensure!(
                tokio::time::Instant::now() < deadline,
                "it does not end; its log:\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn end(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
