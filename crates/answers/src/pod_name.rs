//! Names of pods on command lines.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use kube_scheduler_api_types::Pod;

/// A pod by namespace and name. Parses `NAMESPACE/NAME`, or `NAME` in namespace `default`; with another namespace, use
/// [`parse_in`](Self::parse_in).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodName {
    /// The namespace of the pod.
    pub namespace: Arc<str>,
    /// The name of the pod in its namespace.
    pub name: Arc<str>,
}

/// A text that is not the name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a pod: expected NAMESPACE/NAME")]
pub struct PodNameError(String);

/// The name that a pod with only a `generateName` has in a question, as the `number`-th of those that get one.
pub fn generated_name(prefix: &str, number: usize) -> String {
    format!("{prefix}{number:05}")
}

impl PodName {
    /// Parses `NAMESPACE/NAME`, or `NAME` in `namespace`.
    ///
    /// # Errors
    /// If the text is neither.
    pub fn parse_in(namespace: &str, text: &str) -> Result<Self, PodNameError> {
        let (namespace, name) = text.split_once('/').unwrap_or((namespace, text));
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return Err(PodNameError(text.to_owned()));
        }
        Ok(Self { namespace: namespace.into(), name: name.into() })
    }
}

impl FromStr for PodName {
    type Err = PodNameError;

    fn from_str(text: &str) -> Result<Self, PodNameError> {
        Self::parse_in("default", text)
    }
}

impl From<&Pod> for PodName {
    fn from(pod: &Pod) -> Self {
        Self { namespace: pod.namespace.clone(), name: pod.name.clone() }
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_is_in_the_given_namespace() {
        let parsed = |text: &str| PodName::parse_in("shop", text).map(|name| name.to_string());
        assert_eq!(parsed("kube-system/dns"), Ok("kube-system/dns".to_owned()));
        assert_eq!(parsed("web"), Ok("shop/web".to_owned()));
        for text in ["", "/", "a/", "/b", "a/b/c"] {
            assert_eq!(parsed(text), Err(PodNameError(text.to_owned())));
        }
        assert_eq!("web".parse(), PodName::parse_in("default", "web"));
        assert_eq!("shop/web".parse(), PodName::parse_in("shop", "web"));
    }
}
