//! Versions of the API of pod groups, which differ from release to release.
//!
//! The reference's definitions have the version of the release that they belong to. What they say of groups is the same in all
//! of them, so that objects are created in a version that the server has.

use std::borrow::Cow;
use std::collections::BTreeMap;

use anyhow::{Context, Result};
use kube_scheduler_tests::control_plane::{Api, code};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::OnceCell;

const GROUP: &str = "scheduling.k8s.io";
/// Kinds that moved from version to version, with their plurals.
const KINDS: [(&str, &str); 2] = [("PodGroup", "podgroups"), ("Workload", "workloads")];

/// Plurals of a version.
type Plurals = Vec<String>;

/// What a server has in each version of the group, in its order; asked once.
#[derive(Debug, Default)]
pub(crate) struct ServedVersions(OnceCell<Vec<(String, Plurals)>>);

#[derive(Deserialize)]
struct Group {
    versions: Vec<BTreeMap<String, Value>>,
}

#[derive(Deserialize)]
struct Resources {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
}

impl ServedVersions {
    /// The object in the first version that the server has of its kind, unless it has that of the object. Objects of other
    /// kinds are left as they are, and those of kinds that the server does not have.
    pub(crate) async fn as_served<'o>(
        &self,
        api: &Api,
        object: &'o Value,
    ) -> Result<Cow<'o, Value>> {
        let version = object["apiVersion"].as_str().and_then(|version| version.split_once('/'));
        let kind = KINDS.iter().find(|(kind, _)| object["kind"] == *kind);
        let (Some((GROUP, version)), Some((_, plural))) = (version, kind) else {
            return Ok(Cow::Borrowed(object));
        };
        let served = self.0.get_or_try_init(|| served(api)).await?;
        Ok(in_version_of(served, version, plural, object))
    }
}

fn in_version_of<'o>(
    served: &[(String, Plurals)],
    version: &str,
    plural: &str,
    object: &'o Value,
) -> Cow<'o, Value> {
    let has_kind = |(_, plurals): &&(String, Plurals)| plurals.iter().any(|known| known == plural);
    let mut versions = served.iter().filter(has_kind).map(|(version, _)| version);
    match versions.next() {
        Some(first) if first != version && !versions.any(|other| other == version) => {
            let mut object = object.clone();
            object["apiVersion"] = format!("{GROUP}/{first}").into();
            Cow::Owned(object)
        }
        _ => Cow::Borrowed(object),
    }
}

async fn served(api: &Api) -> Result<Vec<(String, Plurals)>> {
    let root = format!("/apis/{GROUP}");
    let text = match api.text(&root).await {
        Err(error) if code(&error) == Some(404) => return Ok(Vec::new()),
        text => text?,
    };
    let group: Group = serde_json::from_str(&text).context(root.clone())?;
    let mut served = Vec::new();
    for version in group.versions.iter().filter_map(|version| version.get("version")?.as_str()) {
        let path = format!("{root}/{version}");
        let text = api.text(&path).await?;
        let list: Resources = serde_json::from_str(&text).context(path)?;
        let plurals = list.resources.into_iter().map(|resource| resource.name).collect();
        served.push((version.to_owned(), plurals));
    }
    Ok(served)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_are_created_in_a_version_that_is_served() {
        let served = [
            ("v1".to_owned(), vec!["priorityclasses".to_owned()]),
            ("v1alpha3".to_owned(), vec!["podgroups".to_owned(), "podgroups/status".to_owned()]),
            ("v1alpha2".to_owned(), vec!["podgroups".to_owned()]),
        ];
        let version_of = |served: &[(String, Plurals)], version: &str| {
            let group = json!({"apiVersion": format!("{GROUP}/{version}"), "kind": "PodGroup"});
            let made = in_version_of(served, version, "podgroups", &group);
            made["apiVersion"].as_str().unwrap().to_owned()
        };
        assert_eq!(version_of(&served, "v1beta1"), "scheduling.k8s.io/v1alpha3");
        assert_eq!(version_of(&served, "v1alpha2"), "scheduling.k8s.io/v1alpha2");
        assert_eq!(version_of(&served[..1], "v1beta1"), "scheduling.k8s.io/v1beta1");
    }
}
