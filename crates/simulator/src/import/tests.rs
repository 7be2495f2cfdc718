//! Texts in, objects or one exact error out.

mod manifests;
mod traces;

use super::{ClusterInput, ClusterObjects, ImportError};

pub(crate) fn manifests(files: &[(&str, &str)]) -> Result<ClusterObjects, ImportError> {
    let mut input = ClusterInput::default();
    for (file, text) in files {
        input.add_manifests(file, text)?;
    }
    input.finish()
}

pub(crate) fn refusal(text: &str) -> String {
    match manifests(&[("f", text)]) {
        Ok(objects) => panic!("accepted: {objects:?}"),
        Err(error) => error.to_string(),
    }
}
