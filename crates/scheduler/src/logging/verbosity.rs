//! Which events are enabled: klog's verbosity, for all source files or for some.
//!
//! Invariant: whether an event is enabled depends only on its metadata, which is fixed, and on the verbosities; so the
//! answer is cached per place in the code until the verbosities change.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::flags::value::ModuleVerbosity;

/// Libraries for connections, by the first segment of the targets of their events.
const LIBRARIES: [&str; 17] = [
    "axum",
    "h2",
    "hyper",
    "hyper_rustls",
    "hyper_util",
    "kube",
    "kube_client",
    "kube_core",
    "kube_runtime",
    "mio",
    "rustls",
    "rustls_platform_verifier",
    "tokio",
    "tokio_rustls",
    "tokio_util",
    "tower",
    "tower_http",
];

/// The verbosity of errors, which are enabled even when nothing else is.
const OF_ERRORS: i32 = -1;

/// The verbosity for all source files, and those for some.
#[derive(Debug)]
pub(super) struct Verbosities {
    everywhere: AtomicI32,
    modules: RwLock<Vec<ModuleVerbosity>>,
}

impl Verbosities {
    pub(super) fn new(everywhere: i32, modules: Vec<ModuleVerbosity>) -> Self {
        Self { everywhere: AtomicI32::new(everywhere), modules: RwLock::new(modules) }
    }

    pub(super) fn only_errors() -> Self {
        Self::new(OF_ERRORS, Vec::new())
    }

    /// Changes how much is logged everywhere.
    pub(super) fn set(&self, verbosity: i32) {
        self.everywhere.store(verbosity, Ordering::Relaxed);
        tracing::callsite::rebuild_interest_cache();
    }

    fn is_on(&self, metadata: &Metadata<'_>) -> bool {
        let verbosity = of(metadata);
        if verbosity <= self.everywhere.load(Ordering::Relaxed) {
            return true;
        }
        let modules = self.modules.read().unwrap_or_else(PoisonError::into_inner);
        let path = metadata.file().unwrap_or_else(|| metadata.target());
        // As in klog, the first pattern that matches decides.
        let module = modules.iter().find(|module| matches_file(&module.pattern, path));
        module.is_some_and(|module| i64::from(verbosity) <= i64::from(module.verbosity.0))
    }

    /// The most detailed level that can be enabled.
    fn level(&self) -> LevelFilter {
        let has_modules = !self.modules.read().unwrap_or_else(PoisonError::into_inner).is_empty();
        match self.everywhere.load(Ordering::Relaxed) {
            verbosity if verbosity > 0 || has_modules => LevelFilter::TRACE,
            0 => LevelFilter::INFO,
            _ => LevelFilter::ERROR,
        }
    }
}

/// The lowest verbosity at which an event is enabled.
pub(super) fn of(metadata: &Metadata<'_>) -> i32 {
    let level = *metadata.level();
    let first = metadata.target().split(':').next().unwrap_or_default();
    let is_library = LIBRARIES.contains(&first);
    if let Some((verbosity, _)) = stated(metadata).filter(|_| level >= Level::INFO) {
        return verbosity;
    }
    match (level, is_library) {
        (Level::ERROR, false) => OF_ERRORS,
        (Level::WARN | Level::INFO, false) => 0,
        (Level::DEBUG, false) => 2,
        (_, false) => 5,
        // An error in a library is also reported by its caller, with more context.
        (Level::ERROR | Level::WARN, true) => 2,
        (Level::INFO, true) => 4,
        (Level::DEBUG, true) => 8,
        (_, true) => 11,
    }
}

/// Whether the message is printed without quotes.
pub(super) fn is_plain(metadata: &Metadata<'_>) -> bool {
    stated(metadata).is_some_and(|(_, is_plain)| is_plain)
}

/// The verbosity in a target such as `V3` or `V1f`, and whether the message is printed without quotes.
fn stated(metadata: &Metadata<'_>) -> Option<(i32, bool)> {
    let number = metadata.target().strip_prefix('V')?;
    let (number, is_plain) = match number.strip_suffix('f') {
        Some(number) => (number, true),
        None => (number, false),
    };
    Some((number.parse().ok()?, is_plain))
}

/// Whether a pattern matches the source file at `path`: its name without ending, with as many folders as the pattern has.
fn matches_file(pattern: &str, path: &str) -> bool {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let n_slashes = pattern.matches('/').count();
    let start = path.rmatch_indices(['/', '\\']).nth(n_slashes).map_or(0, |(slash, _)| slash + 1);
    matches(pattern.as_bytes(), &path.as_bytes()[start..])
}

/// Shell patterns as Go's `filepath.Match` knows them: `*`, `?`, `[a-z]`, `[^a-z]`, `\x`. A malformed one matches nothing.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let Some((&first, rest)) = pattern.split_first() else { return text.is_empty() };
    if first == b'*' {
        let within = text.iter().position(|&byte| byte == b'/').unwrap_or(text.len());
        return (0..=within).any(|n| matches(rest, &text[n..]));
    }
    let Some((&byte, after)) = text.split_first() else { return false };
    match first {
        b'?' => byte != b'/' && matches(rest, after),
        b'[' => match class(rest, byte) {
            Some((is_in, rest)) => is_in && matches(rest, after),
            None => false,
        },
        b'\\' => match rest.split_first() {
            Some((&escaped, rest)) => escaped == byte && matches(rest, after),
            None => false,
        },
        _ => first == byte && matches(rest, after),
    }
}

/// Whether `byte` is in the class at the start of `pattern`, and the rest of the pattern.
fn class(pattern: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let (is_negated, mut rest) = match pattern.split_first()? {
        (b'^', rest) => (true, rest),
        _ => (false, pattern),
    };
    let mut is_in = false;
    let mut is_first = true;
    loop {
        let (&low, after) = rest.split_first()?;
        rest = after;
        if low == b']' && !is_first {
            return Some((is_in != is_negated, rest));
        }
        is_first = false;
        let mut high = low;
        if let [b'-', end, after @ ..] = rest
            && *end != b']'
        {
            (high, rest) = (*end, after);
        }
        is_in |= (low..=high).contains(&byte);
    }
}

/// A layer that passes enabled events only.
#[derive(Debug)]
pub(super) struct Filter(Arc<Verbosities>);

impl Filter {
    pub(super) fn new(verbosities: Arc<Verbosities>) -> Self {
        Self(verbosities)
    }
}

impl<S: Subscriber> Layer<S> for Filter {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.0.is_on(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.0.is_on(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.0.level())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_filepath_match() {
        for (pattern, text, is_match) in [
            ("driver", "driver", true),
            ("dri*", "driver", true),
            ("*", "driver", true),
            ("*r", "driver", true),
            ("d?iver", "driver", true),
            ("[a-d]river", "driver", true),
            ("[^a-d]river", "driver", false),
            ("\\driver", "driver", true),
            ("driv", "driver", false),
            ("driver", "driv", false),
            ("[", "d", false),
            ("[a", "a", false),
            ("a\\", "a\\", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), is_match, "{pattern} {text}");
        }
        assert!(matches_file("driver", "crates/daemon/src/driver.rs"));
        assert!(matches_file("writes/*", "crates/daemon/src/writes/pods.rs"));
        assert!(!matches_file("pods", "crates/daemon/src/writes/pods2.rs"));
        assert!(!matches_file("serve/pods", "crates/daemon/src/writes/pods.rs"));
    }
}
