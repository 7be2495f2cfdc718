//! What plugins expect objects to become: the part of their requests that later plugins must already see.
//!
//! Invariant: a refused expectation changes nothing; it is noted, as the plugin could have known.

use kube_scheduler_framework::{ClusterState, Command, Commands};

/// Does what `asked` says about objects; gives what was refused, as lines for the log. Other requests are dropped.
pub(crate) fn expect_objects(
    cluster: &mut ClusterState,
    asked: impl IntoIterator<Item = Command>,
) -> Vec<String> {
    let mut refused = Vec::new();
    for command in asked {
        match command {
            Command::AssumeObject(object) => {
                if let Err(error) = cluster.objects_mut().assume(object) {
                    refused.push(format!("assume: {error}"));
                }
            }
            Command::RestoreObject(object) => {
                cluster.objects_mut().restore(&object);
            }
            _ => {}
        }
    }
    refused
}

/// Does what `asked` says about objects at once, and keeps all else for later.
pub(super) fn expect_at_once(
    cluster: &mut ClusterState,
    asked: Commands,
    later: &mut Commands,
) -> Vec<String> {
    if asked.is_empty() {
        return Vec::new();
    }
    let is_about_objects =
        |command: &Command| matches!(command, Command::AssumeObject(_) | Command::RestoreObject(_));
    let (at_once, others): (Vec<_>, Vec<_>) =
        asked.into_vec().into_iter().partition(is_about_objects);
    others.into_iter().for_each(|command| later.push(command));
    expect_objects(cluster, at_once)
}
