//! How many services select pods, and by how many labels, by namespace: what it costs to find those that select a pod, and
//! whether they may tell pods apart that differ by their numbers alone.
//!
//! Invariant: namespaces without such services are not listed; assumed copies of services do not count.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::Object;
use kube_scheduler_api_types::well_known::is_numbering_label;

use super::ObjectStore;

pub(super) const SERVICES: (&str, &str) = ("", "Service");

/// The services of a namespace that select pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceSelectors {
    /// How many services of the namespace select pods.
    pub n_services: usize,
    /// How many labels all of them ask for, each as often as it is asked for.
    pub n_pairs: usize,
    /// How many of these are [labels that number pods](kube_scheduler_api_types::well_known::NUMBERING_LABELS).
    pub n_by_number: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct SelectorsByNamespace(BTreeMap<Arc<str>, ServiceSelectors>);

/// How many labels a service asks for, and how many of them number pods; nothing if it selects no pods.
fn asked_for(service: &Object) -> Option<(usize, usize)> {
    let selector = service.json["spec"]["selector"].as_object()?;
    let by_number = selector.iter().filter(|(key, _)| is_numbering_label(key));
    Some((selector.len(), by_number.count()))
}

impl SelectorsByNamespace {
    pub(super) fn applied(&mut self, old: Option<&Object>, new: &Object) {
        if let Some(old) = old {
            self.removed(old);
        }
        if let Some((n_pairs, n_by_number)) = asked_for(new) {
            let selectors = self.0.entry(new.namespace.clone()).or_default();
            selectors.n_services += 1;
            selectors.n_pairs += n_pairs;
            selectors.n_by_number += n_by_number;
        }
    }

    pub(super) fn removed(&mut self, old: &Object) {
        let Some((n_pairs, n_by_number)) = asked_for(old) else { return };
        let Some(selectors) = self.0.get_mut(&old.namespace) else { return };
        selectors.n_services -= 1;
        selectors.n_pairs -= n_pairs;
        selectors.n_by_number -= n_by_number;
        if selectors.n_services == 0 {
            self.0.remove(&old.namespace);
        }
    }
}

impl ObjectStore {
    /// The services of a namespace that select pods. O(log namespaces).
    pub fn service_selectors(&self, namespace: &str) -> ServiceSelectors {
        self.service_selectors.0.get(namespace).copied().unwrap_or_default()
    }

    /// All of them, with those found again by looking at every service.
    pub(crate) fn service_selectors_again(&self) -> [BTreeMap<Arc<str>, ServiceSelectors>; 2] {
        let mut again = SelectorsByNamespace::default();
        self.list(SERVICES.0, SERVICES.1).for_each(|service| again.applied(None, service));
        [again.0, self.service_selectors.0.clone()]
    }
}
