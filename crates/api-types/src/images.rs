//! Image names as ImageLocality compares them (`docs/spec/plugins-node.md` §4.10).

use std::sync::Arc;

/// The name with `:latest` appended if it has neither tag nor digest after its last slash.
pub(crate) fn normalized_image_name(name: &Arc<str>) -> Arc<str> {
    let has_tag = match (name.rfind(':'), name.rfind('/')) {
        (Some(colon), Some(slash)) => colon > slash,
        (Some(_), None) => true,
        (None, _) => false,
    };
    if has_tag { name.clone() } else { format!("{name}:latest").into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_a_tag_unless_they_have_one() {
        for (name, expected) in [
            ("root", "root:latest"),
            ("root:v1", "root:v1"),
            ("gcr.io:5000/root", "gcr.io:5000/root:latest"),
            ("gcr.io:5000/root:v1", "gcr.io:5000/root:v1"),
            ("root@sha256:ab", "root@sha256:ab"),
            ("", ":latest"),
            ("/", "/:latest"),
            (":", ":"),
        ] {
            assert_eq!(&*normalized_image_name(&Arc::from(name)), expected);
        }
    }
}
