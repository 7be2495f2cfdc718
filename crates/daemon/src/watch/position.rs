//! How far a reflector is, for callers that must not act before it has passed a version.
//!
//! Invariant: a version is reported only after everything up to it was handed to the core.

use std::cmp::Ordering;
use std::sync::Arc;

use tokio::sync::{Notify, watch};

use crate::kinds::WatchedKind;

/// What a reflector has handed to the core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Milestone {
    /// Everything up to this version; empty before the first list is complete.
    version: String,
    /// Lists that are complete.
    n_lists: u64,
}

/// The reflector's side.
#[derive(Debug)]
pub(super) struct Place {
    kind: Arc<str>,
    path: Arc<str>,
    milestone: watch::Sender<Milestone>,
    wanted: Arc<Notify>,
}

/// The side of those who follow it.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    kind: Arc<str>,
    path: Arc<str>,
    milestone: watch::Receiver<Milestone>,
    wanted: Arc<Notify>,
    /// Lists that were complete when another one was wanted.
    n_lists: Option<u64>,
}

impl Place {
    pub(super) fn new(kind: &WatchedKind) -> Self {
        Self {
            kind: kind.name.as_str().into(),
            path: kind.path.as_str().into(),
            milestone: watch::Sender::default(),
            wanted: Arc::default(),
        }
    }

    pub(super) fn position(&self) -> Position {
        Position {
            kind: self.kind.clone(),
            path: self.path.clone(),
            milestone: self.milestone.subscribe(),
            wanted: self.wanted.clone(),
            n_lists: None,
        }
    }

    /// Everything up to `version` was handed on; `ends_list` if that completes a list.
    pub(super) fn report(&self, version: Option<&str>, ends_list: bool) {
        self.milestone.send_if_modified(|milestone| {
            let is_news = ends_list || version.is_some_and(|version| version != milestone.version);
            if let Some(version) = version.filter(|version| *version != milestone.version) {
                version.clone_into(&mut milestone.version);
            }
            milestone.n_lists += u64::from(ends_list);
            is_news
        });
    }

    /// Notified when everything is to be listed again.
    pub(super) fn wanted(&self) -> Arc<Notify> {
        self.wanted.clone()
    }
}

impl Position {
    /// The name of the kind.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    /// Where the kind is listed.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Has everything listed again, now.
    pub(crate) fn list_again(&mut self) {
        self.n_lists = Some(self.milestone.borrow().n_lists);
        self.wanted.notify_one();
    }

    /// Waits until everything up to `version` was handed to the core. Where versions are no numbers, the end of the list
    /// that was wanted stands for it.
    pub(crate) async fn reached(&mut self, version: &str) {
        let listed_before = self.n_lists;
        let is_reached = |milestone: &Milestone| match compare(&milestone.version, version) {
            Some(order) => order != Ordering::Less,
            None => listed_before.is_some_and(|before| milestone.n_lists > before),
        };
        // A reflector ends only together with the core.
        if self.milestone.wait_for(is_reached).await.is_err() {
            std::future::pending().await
        }
    }
}

/// Versions of one kind are decimal numbers of any length.
fn compare(one: &str, other: &str) -> Option<Ordering> {
    let is_number = |text: &str| {
        !text.is_empty() && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    (is_number(one) && is_number(other))
        .then(|| one.len().cmp(&other.len()).then_with(|| one.cmp(other)))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert_eq!(compare("9", "10"), Some(Ordering::Less));
        assert_eq!(compare("10", "10"), Some(Ordering::Equal));
        assert_eq!(
            compare("123456789012345678901", "99999999999999999999"),
            Some(Ordering::Greater)
        );
        for odd in ["", "0", "01", "a1", "-1"] {
            assert_eq!(compare(odd, "10"), None, "{odd:?}");
        }
    }

    #[test]
    fn a_version_is_reached_when_it_was_reported_or_passed() {
        let place = Place::new(&WatchedKind::pods());
        let mut position = place.position();
        assert_eq!(position.reached("5").now_or_never(), None);
        place.report(Some("4"), true);
        assert_eq!(position.reached("5").now_or_never(), None);
        place.report(Some("12"), false);
        assert_eq!(position.reached("5").now_or_never(), Some(()));
    }

    #[test]
    fn where_versions_are_no_numbers_another_list_counts() {
        let place = Place::new(&WatchedKind::pods());
        let mut position = place.position();
        place.report(Some("a"), true);
        assert_eq!(position.reached("b").now_or_never(), None);
        position.list_again();
        assert_eq!(place.wanted().notified().now_or_never(), Some(()));
        assert_eq!(position.reached("b").now_or_never(), None);
        place.report(Some("c"), true);
        assert_eq!(position.reached("b").now_or_never(), Some(()));
    }
}
