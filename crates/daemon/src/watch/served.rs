//! In which of several versions a server serves a kind.
//!
//! Kinds whose version differs from server to server are looked up before they are listed, and again whenever their path
//! is gone: a server may be upgraded while it is followed. Until it has said where they are now, the known objects stay.

use std::collections::BTreeSet;
use std::future::Future;

use serde::Deserialize;

use super::Reflector;
use super::interruption::Interruption;
use crate::inbox::CoreEnded;
use crate::kinds::WatchedKind;
use crate::transport::{ApiError, Call};

/// What is known of the version in which a kind is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionSearch {
    /// All servers serve it in the same one.
    Fixed,
    /// The server is to be asked.
    Sought,
    /// The server has named the one that is followed.
    Found,
    /// The server does not say. The one that was followed last is tried, at first the usual one.
    Guessed,
}

impl VersionSearch {
    pub(super) const fn of(kind: &WatchedKind) -> Self {
        if kind.versions.is_empty() { Self::Fixed } else { Self::Sought }
    }
}

impl Reflector {
    /// There is nothing where the kind is followed, or the server says that it serves the kind in no version.
    ///
    /// Only in the second case are there no objects of it. In the first they may be elsewhere, and what is known of them stays
    /// until the server has said where, or that it serves them no more. Either way the scheduler starts without them.
    pub(super) async fn not_served(&mut self) -> Result<(), CoreEnded> {
        self.log_not_served();
        let counts_as_empty = match self.version_search {
            VersionSearch::Fixed | VersionSearch::Sought => true,
            VersionSearch::Found | VersionSearch::Guessed => {
                self.version_search = VersionSearch::Sought;
                false
            }
        };
        let seen = counts_as_empty.then(BTreeSet::new);
        self.finish_list(seen.as_ref()).await?;
        if counts_as_empty {
            // What is there when the kind is served again may be older than the last version seen.
            self.forget_version();
        }
        Ok(())
    }

    fn log_not_served(&mut self) {
        let kind = &self.kind.name;
        let versions = self.kind.versions.join(", ");
        match self.version_search {
            VersionSearch::Sought if !self.has_said_not_served => {
                self.has_said_not_served = true;
                tracing::warn!(
                    kind,
                    versions,
                    "The server serves this kind in no version known here; it counts as empty"
                );
            }
            VersionSearch::Guessed if !self.has_said_not_served => {
                self.has_said_not_served = true;
                tracing::warn!(
                    kind,
                    path = self.kind.path,
                    versions,
                    "There is nothing at the path of this kind, and the server does not say in which version it serves it; \
                     what is known of it stays"
                );
            }
            VersionSearch::Found => {
                tracing::debug!(kind, "The server no longer serves this kind where it was followed")
            }
            _ => tracing::debug!(kind, "The server does not serve this kind"),
        }
    }

    /// Follows the kind in the version in which the server serves it.
    pub(super) async fn choose_version(&mut self) -> Result<(), Interruption> {
        let (api, limit) = (&self.lists, self.patience.answer);
        let get = async |path: String| {
            let call = Call::get(path).timeout(limit);
            api.call(&call).await.map(|body| body.to_vec())
        };
        let version = match version_of(&self.kind, get).await {
            Ok(Some(version)) => version,
            Ok(None) => return Err(Interruption::NotServed),
            // A user without the right to ask may still be allowed to list.
            Err(error) if matches!(error.code(), Some(401 | 403)) => {
                self.version_search = VersionSearch::Guessed;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        self.version_search = VersionSearch::Found;
        self.has_said_not_served = false;
        self.api.served_versions().set(&self.kind.name, version);
        let kind = self.kind.clone().in_version(version);
        if kind != self.kind {
            tracing::info!(kind = kind.name, version, "Following a kind in another version");
            self.kind = kind;
            self.place.move_to(&self.kind.path);
            self.forget_version();
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Group {
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
struct Resources {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
}

/// The first of the kind's versions in which the server serves it, `None` if it serves none of them. `get` reads a path.
///
/// # Errors
/// If the server does not say.
async fn version_of<G, A>(kind: &WatchedKind, get: G) -> Result<Option<&'static str>, ApiError>
where
    G: Fn(String) -> A,
    A: Future<Output = Result<Vec<u8>, ApiError>>,
{
    let (group, plural) = (kind.group(), kind.plural());
    let Some(known) = read::<Group>(get(format!("/apis/{group}")).await)? else { return Ok(None) };
    for wanted in kind.versions {
        if !known.versions.iter().any(|known| known.version == *wanted) {
            continue;
        }
        let resources = read::<Resources>(get(format!("/apis/{group}/{wanted}")).await)?;
        let mut resources = resources.iter().flat_map(|list| &list.resources);
        if resources.any(|resource| resource.name == plural) {
            return Ok(Some(wanted));
        }
    }
    Ok(None)
}

/// What an answer says; `None` where there is nothing at that path.
fn read<T: for<'a> Deserialize<'a>>(
    answer: Result<Vec<u8>, ApiError>,
) -> Result<Option<T>, ApiError> {
    match answer {
        Ok(body) => serde_json::from_slice(&body).map(Some).map_err(|error| {
            ApiError::unclear(format!("the answer is no list of versions or resources: {error}"))
        }),
        Err(error) if error.code() == Some(404) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks a server that answers from a table, and 404 to everything else.
    async fn ask(answers: &[(&str, &str)]) -> Result<Option<&'static str>, ApiError> {
        let kind = WatchedKind::all_for(["scheduling.k8s.io/PodGroup"]).pop().unwrap();
        let get = |path: String| {
            let found = answers.iter().find(|(at, _)| *at == path);
            let answer = found.map(|(_, body)| body.as_bytes().to_vec()).ok_or_else(|| status(404));
            std::future::ready(answer)
        };
        version_of(&kind, get).await
    }

    fn status(code: u16) -> ApiError {
        let (reason, message) = (String::new(), String::new());
        ApiError::Status { code, reason, message, retry_after: None }
    }

    const ROOT: &str = "/apis/scheduling.k8s.io";
    const ALPHA: (&str, &str) =
        ("/apis/scheduling.k8s.io/v1alpha2", r#"{"resources":[{"name":"podgroups"}]}"#);
    const BETA: (&str, &str) = (
        "/apis/scheduling.k8s.io/v1beta1",
        r#"{"resources":[{"name":"podgroups/status"},{"name":"podgroups"}]}"#,
    );

    #[tokio::test]
    async fn the_version_is_the_best_one_that_is_served() {
        let all = (
            ROOT,
            r#"{"versions":[{"version":"v1"},{"version":"v1alpha2"},{"version":"v1beta1"}]}"#,
        );
        assert_eq!(ask(&[all, ALPHA, BETA]).await, Ok(Some("v1beta1")));
        // Listed, but without the kind, as v1beta1 was when it held priority classes alone.
        let without = (BETA.0, r#"{"resources":[{"name":"priorityclasses"}]}"#);
        assert_eq!(ask(&[all, ALPHA, without]).await, Ok(Some("v1alpha2")));
        assert_eq!(ask(&[all, ALPHA]).await, Ok(Some("v1alpha2")));
    }

    #[tokio::test]
    async fn later_versions_are_preferred_where_they_have_the_kind() {
        let all = (
            ROOT,
            r#"{"versions":[{"version":"v1"},{"version":"v1beta1"},{"version":"v1alpha3"}]}"#,
        );
        let with = |version: &str, kind: &str| {
            let list = format!(r#"{{"resources":[{{"name":"{kind}"}}]}}"#);
            (format!("{ROOT}/{version}"), list)
        };
        // What Kubernetes 1.37 may serve, and what may follow: v1 has priority classes, and one day groups.
        for (groups_in, best) in [
            (&["v1", "v1beta1", "v1alpha3"][..], "v1"),
            (&["v1beta1", "v1alpha3"], "v1beta1"),
            (&["v1alpha3"], "v1alpha3"),
        ] {
            let lists = ["v1", "v1beta1", "v1alpha3"].map(|version| {
                let has_groups = groups_in.contains(&version);
                with(version, if has_groups { "podgroups" } else { "priorityclasses" })
            });
            let mut answers = vec![all];
            answers.extend(lists.iter().map(|(path, list)| (&**path, &**list)));
            assert_eq!(ask(&answers).await, Ok(Some(best)));
        }
    }

    #[tokio::test]
    async fn a_kind_may_be_served_in_no_version() {
        let stable = (ROOT, r#"{"versions":[{"version":"v1"}]}"#);
        assert_eq!(ask(&[stable, ALPHA]).await, Ok(None), "not among the group's versions");
        assert_eq!(ask(&[]).await, Ok(None));
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_an_error() {
        assert!(ask(&[(ROOT, "<html>")]).await.is_err());
        let kind = WatchedKind::all_for(["scheduling.k8s.io/PodGroup"]).pop().unwrap();
        let refused = version_of(&kind, |_| std::future::ready(Err(status(403)))).await;
        assert_eq!(refused.unwrap_err().code(), Some(403));
    }
}
