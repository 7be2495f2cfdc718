//! What a plugin answers: a code, the reasons behind it, and who said so.
//!
//! Invariants: success carries nothing and costs nothing; two statuses with equal code, reasons, error and plugin
//! are equal, so that a thousand nodes with the same answer can share one.
//!
//! Behaviour: `docs/spec/core.md` §9.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use kube_scheduler_api_types::named_enum;
use smallvec::SmallVec;

/// The name of a plugin, as configuration and messages write it.
pub type PluginName = Arc<str>;

named_enum! {
    /// The kinds of answer, in the reference's order, as metric labels and recorded data name them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
    all pub enum Code {
        /// The plugin accepts the pod, or has done what it was asked for.
        #[default]
        Success = "Success",
        /// The attempt failed through an error; no plugin counts as having rejected the pod, which is retried after a backoff.
        Error = "Error",
        /// The pod does not fit; preempting others may help.
        Unschedulable = "Unschedulable",
        /// The pod does not fit and preemption cannot help.
        UnschedulableAndUnresolvable = "UnschedulableAndUnresolvable",
        /// Permit only: wait before binding.
        Wait = "Wait",
        /// The plugin has nothing to say about this pod.
        Skip = "Skip",
        /// The pod does not fit until something outside the scheduler happens; no backoff once it has.
        Pending = "Pending",
    }
}

impl Code {
    /// Whether the code is a rejection of the pod, as opposed to acceptance or failure.
    #[inline]
    pub const fn is_rejected(self) -> bool {
        matches!(self, Self::Unschedulable | Self::UnschedulableAndUnresolvable | Self::Pending)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One reason, either a constant or a shared text. Compares by its text.
#[derive(Clone)]
pub struct Reason(ReasonText);

#[derive(Clone)]
enum ReasonText {
    Constant(&'static str),
    Shared(Arc<str>),
}

impl Reason {
    /// The text, as events and conditions show it.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            ReasonText::Constant(text) => text,
            ReasonText::Shared(text) => text,
        }
    }
}

impl From<&'static str> for Reason {
    fn from(text: &'static str) -> Self {
        Self(ReasonText::Constant(text))
    }
}

impl From<Arc<str>> for Reason {
    fn from(text: Arc<str>) -> Self {
        Self(ReasonText::Shared(text))
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self(ReasonText::Shared(text.into()))
    }
}

impl PartialEq for Reason {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Reason {}

impl std::hash::Hash for Reason {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Details {
    code: Code,
    reasons: SmallVec<[Reason; 1]>,
    error: Option<Arc<str>>,
    plugin: Option<PluginName>,
}

/// A plugin's answer. The default is success; cloning copies a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status(Option<Arc<Details>>);

impl Status {
    /// Success.
    pub const SUCCESS: Self = Self(None);

    #[inline]
    fn with_code(code: Code, reasons: SmallVec<[Reason; 1]>) -> Self {
        Self(Some(Arc::new(Details { code, reasons, error: None, plugin: None })))
    }

    /// A status of any code with any number of reasons. [`Code::Success`] with reasons keeps them.
    pub fn new(code: Code, reasons: impl IntoIterator<Item = Reason>) -> Self {
        Self::with_code(code, reasons.into_iter().collect())
    }

    /// The pod does not fit; preemption may help.
    pub fn unschedulable(reason: impl Into<Reason>) -> Self {
        Self::with_code(Code::Unschedulable, SmallVec::from_iter([reason.into()]))
    }

    /// The pod does not fit and preemption cannot help.
    pub fn unresolvable(reason: impl Into<Reason>) -> Self {
        Self::with_code(Code::UnschedulableAndUnresolvable, SmallVec::from_iter([reason.into()]))
    }

    /// The pod has to wait for something outside the scheduler.
    pub fn pending(reason: impl Into<Reason>) -> Self {
        Self::with_code(Code::Pending, SmallVec::from_iter([reason.into()]))
    }

    /// The plugin has nothing to say.
    pub fn skip() -> Self {
        /// Shared, because several plugins say so about every pod.
        static SKIP: LazyLock<Status> =
            LazyLock::new(|| Status::with_code(Code::Skip, SmallVec::new()));
        SKIP.clone()
    }

    /// The attempt failed through an error.
    pub fn error(message: impl Into<Arc<str>>) -> Self {
        let error = Some(message.into());
        Self(Some(Arc::new(Details { code: Code::Error, error, ..Details::default() })))
    }

    /// The same answer, attributed to `plugin`. Success stays anonymous.
    #[inline]
    pub fn from_plugin(self, plugin: &PluginName) -> Self {
        let Some(details) = self.0 else { return self };
        // Plugins that give one rejection for many nodes attribute it beforehand.
        if details.plugin.as_ref() == Some(plugin) {
            return Self(Some(details));
        }
        let mut details = Arc::unwrap_or_clone(details);
        details.plugin = Some(plugin.clone());
        Self(Some(Arc::new(details)))
    }

    /// The same answer with one more reason at the end.
    pub fn with_reason(self, reason: impl Into<Reason>) -> Self {
        let mut details = self.0.map_or_else(Details::default, Arc::unwrap_or_clone);
        details.reasons.push(reason.into());
        Self(Some(Arc::new(details)))
    }

    /// The kind of result, such as success, a rejection or an error.
    #[inline]
    pub fn code(&self) -> Code {
        self.0.as_ref().map_or(Code::Success, |details| details.code)
    }

    /// Whether this is plain success.
    #[inline]
    pub fn is_success(&self) -> bool {
        self.code() == Code::Success
    }

    /// Whether this is a rejection of the pod.
    #[inline]
    pub fn is_rejected(&self) -> bool {
        self.code().is_rejected()
    }

    /// Whether the plugin has nothing to say.
    #[inline]
    pub fn is_skip(&self) -> bool {
        self.code() == Code::Skip
    }

    /// Who answered, if it was not success.
    #[inline]
    pub fn plugin(&self) -> Option<&PluginName> {
        self.0.as_ref()?.plugin.as_ref()
    }

    /// The error text first, then the reasons.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        let details = self.0.as_deref();
        let error = details.and_then(|d| d.error.as_deref());
        error
            .into_iter()
            .chain(details.into_iter().flat_map(|d| d.reasons.iter().map(Reason::as_str)))
    }

    /// Why a pod fits on none of `n_nodes` nodes (`docs/spec/core.md` §17): each reason with the number of nodes that gave it.
    /// Nodes beyond those of `rejections` answered `absent`.
    pub fn fits_nowhere(n_nodes: usize, rejections: &[(Self, u32)], absent: &Self) -> String {
        let n_explicit: usize = rejections.iter().map(|(_, n)| *n as usize).sum();
        let n_absent = u32::try_from(n_nodes.saturating_sub(n_explicit)).unwrap_or(u32::MAX);
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for (status, n) in
            rejections.iter().map(|(status, n)| (status, *n)).chain([(absent, n_absent)])
        {
            for reason in status.reasons().filter(|_| n > 0) {
                *counts.entry(reason).or_default() += u64::from(n);
            }
        }
        let mut parts: Vec<String> =
            counts.into_iter().map(|(reason, n)| format!("{n} {reason}")).collect();
        parts.sort_unstable();
        let end = if parts.is_empty() { "" } else { "." };
        let space = if parts.is_empty() { "" } else { " " };
        format!("0/{n_nodes} nodes are available:{space}{}{end}", parts.join(", "))
    }

    /// All reasons, joined the way events and conditions show them.
    pub fn message(&self) -> String {
        let mut message = String::new();
        for (i, reason) in self.reasons().enumerate() {
            if i > 0 {
                message.push_str(", ");
            }
            message.push_str(reason);
        }
        message
    }

    /// The text of the error behind this status: the wrapped error, else the message.
    /// `None` for success, wait and skip, which are no errors.
    pub fn error_text(&self) -> Option<String> {
        match self.code() {
            Code::Success | Code::Wait | Code::Skip => None,
            _ => {
                let wrapped = self.0.as_ref().and_then(|details| details.error.clone());
                Some(wrapped.map_or_else(|| self.message(), |text| text.to_string()))
            }
        }
    }

    /// An error status `context: <text of this status>`, attributed to the same plugin.
    pub fn wrapped(&self, context: impl fmt::Display) -> Self {
        let text = self.error_text().unwrap_or_default();
        let wrapped = Self::error(format!("{context}: {text}"));
        match self.plugin() {
            Some(plugin) => wrapped.from_plugin(plugin),
            None => wrapped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_puts_the_error_first() {
        let status = Status::error("boom").with_reason("then this");
        assert_eq!(status.message(), "boom, then this");
        assert_eq!(status.error_text().as_deref(), Some("boom"));
    }

    #[test]
    fn success_is_no_error_and_has_no_plugin() {
        let status = Status::SUCCESS.from_plugin(&"A".into());
        assert!(status.is_success());
        assert_eq!(status.plugin(), None);
        assert_eq!(status.error_text(), None);
    }

    #[test]
    fn equal_content_is_equal_whatever_the_storage() {
        assert_eq!(Status::unschedulable("x"), Status::unschedulable(String::from("x")));
        assert_ne!(Status::unschedulable("x"), Status::unresolvable("x"));
    }
}
