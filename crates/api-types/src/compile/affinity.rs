//! Affinities and spread constraints.

use std::sync::Arc;

use crate::affinity::{NodeAffinity, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm};
use crate::labels::Labels;
use crate::options::CompileOptions;
use crate::selector::{LabelSelector, NodeSelector, Requirement, SelectorError, preferred_terms};
use crate::topology::{NodeInclusionPolicy, TopologySpreadConstraint, WhenUnsatisfiable};
use crate::validation::FieldPath;
use crate::wire;

impl NodeAffinity {
    /// Compiles a pod's node affinity: required terms lazily, preferred ones strictly.
    pub fn from_wire(affinity: &wire::NodeAffinity) -> Self {
        Self {
            required: affinity.required.as_ref().map(NodeSelector::from_wire),
            preferred: affinity
                .preferred
                .as_ref()
                .map(|terms| preferred_terms(terms, &FieldPath::root())),
        }
    }

    /// Compiles strictly, as plugin arguments are: any error fails. `path` is where the affinity stands.
    ///
    /// # Errors
    /// Every field that is wrong, with its path.
    pub fn compile_strict(
        affinity: &wire::NodeAffinity,
        path: &FieldPath,
    ) -> Result<Self, SelectorError> {
        let mut errors = Vec::new();
        let mut keep = |error| match error {
            SelectorError::Fields(more) => {
                errors.extend(more);
                Ok(())
            }
            other => Err(other),
        };
        let mut compiled = Self::default();
        if let Some(required) = &affinity.required {
            let path = path.child("requiredDuringSchedulingIgnoredDuringExecution");
            match NodeSelector::compile_strict(required, &path) {
                Ok(selector) => compiled.required = Some(selector),
                Err(error) => keep(error)?,
            }
        }
        if let Some(preferred) = &affinity.preferred {
            let path = path.child("preferredDuringSchedulingIgnoredDuringExecution");
            match preferred_terms(preferred, &path) {
                Ok(terms) => compiled.preferred = Some(Ok(terms)),
                Err(error) => keep(error)?,
            }
        }
        if errors.is_empty() { Ok(compiled) } else { Err(SelectorError::Fields(errors)) }
    }
}

impl PodAffinity {
    /// Compiles the affinity of a pod in `namespace`. A list with a bad term becomes empty and its error is kept.
    pub fn from_wire(affinity: &wire::PodAffinity, namespace: &Arc<str>) -> Self {
        let required: Result<Arc<[_]>, _> = affinity
            .required
            .iter()
            .map(|term| PodAffinityTerm::from_wire(term, namespace))
            .collect();
        let preferred: Result<Arc<[_]>, _> = affinity
            .preferred
            .iter()
            .map(|term| {
                let weight = term.weight.unwrap_or(0);
                PodAffinityTerm::from_wire(&term.pod_affinity_term, namespace)
                    .map(|term| WeightedPodAffinityTerm { weight, term })
            })
            .collect();
        let (required, required_error) = list_or_error(required);
        let (preferred, preferred_error) = list_or_error(preferred);
        Self {
            required,
            preferred,
            n_required_given: affinity.required.len(),
            n_preferred_given: affinity.preferred.len(),
            required_error,
            preferred_error,
        }
    }
}

fn list_or_error<T>(
    list: Result<Arc<[T]>, SelectorError>,
) -> (Arc<[T]>, Option<Arc<SelectorError>>) {
    match list {
        Ok(list) => (list, None),
        Err(error) => (Arc::from([]), Some(Arc::new(error))),
    }
}

impl PodAffinityTerm {
    /// Compiles one term of a pod in `namespace`, which is the term's own if it names none and has no selector of namespaces.
    ///
    /// # Errors
    /// If a selector has an unknown operator, or values that do not fit its operator.
    pub fn from_wire(
        term: &wire::PodAffinityTerm,
        namespace: &Arc<str>,
    ) -> Result<Self, SelectorError> {
        let selector = term.label_selector.as_ref().map(LabelSelector::from_wire).transpose()?;
        let namespace_selector =
            term.namespace_selector.as_ref().map(LabelSelector::from_wire).transpose()?;
        let mut namespaces: Vec<Arc<str>> =
            term.namespaces.iter().map(|name| name.0.clone()).collect();
        if namespaces.is_empty() && namespace_selector.is_none() {
            namespaces.push(namespace.clone());
        }
        namespaces.sort_unstable();
        namespaces.dedup();
        Ok(Self {
            selector,
            namespaces: namespaces.into(),
            namespace_selector,
            topology_key: term.topology_key.0.clone(),
        })
    }
}

impl TopologySpreadConstraint {
    /// Compiles a constraint of a pod with these labels.
    pub fn from_wire(
        constraint: &wire::TopologySpreadConstraint,
        labels: &Labels,
        options: &CompileOptions,
    ) -> Self {
        let compiled = constraint.label_selector.as_ref().map(LabelSelector::from_wire).transpose();
        let (selector, selector_error) = match compiled {
            Ok(selector) => (selector, None),
            Err(error) => (None, Some(Arc::new(error))),
        };
        let match_label_keys: Arc<[Arc<str>]> =
            constraint.match_label_keys.iter().map(|key| key.0.clone()).collect();
        let selector = if options.spread_match_label_keys {
            selector.map(|selector| with_match_label_keys(selector, &match_label_keys, labels))
        } else {
            selector
        };
        Self {
            max_skew: constraint.max_skew.unwrap_or(0),
            topology_key: constraint.topology_key.0.clone(),
            when_unsatisfiable: match &*constraint.when_unsatisfiable {
                "DoNotSchedule" => WhenUnsatisfiable::DoNotSchedule,
                "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
                _ => WhenUnsatisfiable::Unknown,
            },
            selector,
            selector_error,
            min_domains: constraint.min_domains,
            node_affinity_policy: inclusion_policy(
                constraint.node_affinity_policy.as_deref(),
                "Honor",
            ),
            node_taints_policy: inclusion_policy(
                constraint.node_taints_policy.as_deref(),
                "Ignore",
            ),
            match_label_keys,
        }
    }
}

/// Any word but `Honor` acts as `Ignore`.
fn inclusion_policy(given: Option<&str>, default: &str) -> NodeInclusionPolicy {
    if given.unwrap_or(default) == "Honor" {
        NodeInclusionPolicy::Honor
    } else {
        NodeInclusionPolicy::Ignore
    }
}

/// Asks for the pod's own values of `keys` as well; keys the pod does not have are ignored. The selector of "nothing"
/// stays one, which is why this takes no `Option`.
fn with_match_label_keys(
    selector: LabelSelector,
    keys: &[Arc<str>],
    labels: &Labels,
) -> LabelSelector {
    let mut keys: Vec<&Arc<str>> = keys.iter().collect();
    keys.sort_unstable();
    keys.dedup();
    let more: Vec<Requirement> = keys
        .into_iter()
        .filter_map(|key| {
            let value = labels.get_shared(key)?.into_owned();
            Some(Requirement::equals(key.clone(), value))
        })
        .collect();
    if more.is_empty() { selector } else { selector.with(more) }
}
