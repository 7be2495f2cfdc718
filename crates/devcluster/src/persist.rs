//! The store as a file.
//!
//! One JSON object per line: first the format and the resource version, then every object. Invariant: the file is replaced
//! as a whole, so that a crash leaves either the old or the new state.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::files;
use crate::kinds::KindId;
use crate::object::{StoredObject, text_at};
use crate::store::{State, Store};

const FORMAT: &str = "devcluster/1";

/// Why a state file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PersistError {
    /// The file system reports an error.
    #[error("state file {path}")]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file has another format, or is damaged.
    #[error("state file {path}, line {line}: {why}")]
    Content {
        /// The path of the file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with the line.
        why: String,
    },
}

/// Writes everything in `store` to `path`. Only the owner can read the file: it contains secrets.
pub(crate) fn save(store: &Store, path: &Path) -> Result<(), PersistError> {
    let (version, objects) = store.read(|state| {
        let kinds = KindId::all().filter(|kind| kind.storage() == *kind);
        let objects: Vec<Arc<StoredObject>> =
            kinds.flat_map(|kind| state.objects(kind).cloned()).collect();
        (state.version(), objects)
    });
    let written = files::replace(path, |out| {
        writeln!(out, "{}", json!({"format": FORMAT, "resourceVersion": version}))?;
        for object in &objects {
            out.write_all(object.json())?;
            out.write_all(b"\n")?;
        }
        Ok(())
    });
    written.map_err(|source| PersistError::Io { path: path.to_owned(), source })
}

/// Reads `path` into an empty store; returns false if there is no such file.
pub(crate) fn load(store: &Store, path: &Path) -> Result<bool, PersistError> {
    let failed = |source| PersistError::Io { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(error)),
    };
    let mut objects = Vec::new();
    let mut version = 0;
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let wrong =
            |why: String| PersistError::Content { path: path.to_owned(), line: index + 1, why };
        let value: Value = serde_json::from_str(&line.map_err(failed)?)
            .map_err(|error| wrong(error.to_string()))?;
        if index == 0 {
            if text_at(&value, &["format"]) != FORMAT {
                return Err(wrong(format!("the format is not {FORMAT}")));
            }
            version = value.get("resourceVersion").and_then(Value::as_u64).unwrap_or(0);
            continue;
        }
        let (api_version, kind) = (text_at(&value, &["apiVersion"]), text_at(&value, &["kind"]));
        let id = KindId::by_manifest(api_version, kind)
            .ok_or_else(|| wrong(format!("kind {kind} of {api_version} is not served")))?;
        let own_version = text_at(&value, &["metadata", "resourceVersion"]).parse();
        let own_version =
            own_version.map_err(|_| wrong("metadata.resourceVersion is no number".to_owned()))?;
        objects.push((id, value, own_version));
    }
    let restore = |state: &mut State| {
        for (kind, value, own_version) in &objects {
            state.restore(*kind, value, *own_version);
        }
        state.resume_at(version);
        Ok(())
    };
    // The closure returns no error, so neither does the write.
    let _ = store.write(restore);
    Ok(true)
}
