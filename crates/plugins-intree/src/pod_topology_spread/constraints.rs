//! Which constraints a pod has, its own or the profile's (`docs/spec/plugins-topology.md` §2.2 and §2.3).

use std::hash::Hash;
use std::sync::Arc;

use kube_scheduler_framework::api::{
    LabelSelector, Labels, NodeInclusionPolicy, Pod, TopologySpreadConstraint, WhenUnsatisfiable,
};
use kube_scheduler_framework::counters::{
    CountedNodes, CountedPods, CounterSpec, PodTerm, PodTolerations, RequiredNodeAffinity,
};
use kube_scheduler_framework::{Context, SignatureWriter};

use super::args::Defaults;
use super::default_selector::default_selector;
use crate::signature::{node_selector, requirements, tolerations, write};

/// Whether a single pod with these labels is meant. Here the selector without requirements means every pod.
pub(super) fn selects(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    selector.is_some_and(|selector| selector.matches(labels))
}

/// The constraints of a pod with one action, as they were given: nothing is copied for each pod that is asked about.
pub(super) struct GivenConstraints<'a> {
    given: &'a [TopologySpreadConstraint],
    action: WhenUnsatisfiable,
    /// In the place of the selectors of constraints that are the profile's.
    selector: Option<LabelSelector>,
}

impl GivenConstraints<'_> {
    /// The constraints in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &TopologySpreadConstraint> {
        self.given.iter().filter(|given| given.when_unsatisfiable == self.action)
    }

    /// The selector of one of them; `None` matches nothing.
    pub(super) fn selector_of<'s>(
        &'s self,
        given: &'s TopologySpreadConstraint,
    ) -> Option<&'s LabelSelector> {
        self.selector.as_ref().or(given.selector.as_ref())
    }

    /// The topology keys, none twice.
    pub(super) fn keys(&self) -> Arc<[Arc<str>]> {
        let mut keys: Vec<Arc<str>> = self.iter().map(|given| given.topology_key.clone()).collect();
        keys.sort_unstable();
        keys.dedup();
        // A counter asks for its own key anyway, and so has the same specification however many constraints share it.
        if keys.len() <= 1 { Arc::default() } else { keys.into() }
    }

    /// The pods that one of them counts in bulk.
    ///
    /// Quirk: the selector without requirements counts none, although it matches every pod. Pinned by
    /// `an_empty_selector_counts_nothing_but_matches`.
    pub(super) fn counted_pods(&self, given: &TopologySpreadConstraint, pod: &Pod) -> CountedPods {
        let selector = self.selector_of(given).filter(|selector| !selector.is_empty());
        let term = selector.map(|selector| PodTerm {
            namespaces: Arc::from([pod.namespace.clone()]),
            namespace_selector: None,
            selector: selector.clone(),
        });
        CountedPods { terms: term.into_iter().collect(), counts_terminating: false }
    }

    /// What one of them counts for `pod`, on nodes that have all of `required_keys`.
    pub(super) fn spec(
        &self,
        given: &TopologySpreadConstraint,
        pod: &Pod,
        required_keys: &Arc<[Arc<str>]>,
        compares_numbers: bool,
    ) -> CounterSpec {
        let honors_affinity = given.node_affinity_policy == NodeInclusionPolicy::Honor;
        let honors_taints = given.node_taints_policy == NodeInclusionPolicy::Honor;
        let nodes = CountedNodes {
            required_keys: required_keys.clone(),
            affinity: honors_affinity.then(|| RequiredNodeAffinity::of(pod)).flatten(),
            tolerated: honors_taints.then(|| PodTolerations {
                tolerations: pod.spec.tolerations.clone(),
                compares_numbers,
            }),
            counts_unlabelled: false,
        };
        let topology_key = Some(given.topology_key.clone());
        CounterSpec { pods: self.counted_pods(given, pod), nodes, topology_key }
    }
}

impl Defaults {
    /// The constraints of `pod` with this action. The error says which of them cannot be read.
    pub(super) fn given_to<'a>(
        &'a self,
        cx: &Context<'_>,
        pod: &'a Pod,
        action: WhenUnsatisfiable,
    ) -> Result<GivenConstraints<'a>, String> {
        let own = &*pod.spec.topology_spread_constraints;
        if own.is_empty() {
            let selector = self.have(action).then(|| default_selector(cx, pod));
            let selector = selector.filter(|selector| !selector.is_empty());
            let given = if selector.is_some() { &*self.constraints } else { &[] };
            return Ok(GivenConstraints { given, action, selector });
        }
        let all = GivenConstraints { given: own, action, selector: None };
        let error = all.iter().find_map(|given| given.selector_error.as_ref());
        let Some(error) = error else { return Ok(all) };
        let kind = if action == WhenUnsatisfiable::DoNotSchedule { "hard" } else { "soft" };
        Err(format!("obtaining pod's {kind} topology spread constraints: {error}"))
    }

    /// Whether the profile has constraints with this action.
    pub(super) fn have(&self, action: WhenUnsatisfiable) -> bool {
        self.constraints.iter().any(|given| given.when_unsatisfiable == action)
    }
}

/// What to write of a constraint. `matchLabelKeys` are part of the selector already.
fn signed(constraint: &TopologySpreadConstraint) -> impl Hash {
    (
        (constraint.max_skew, &constraint.topology_key, constraint.when_unsatisfiable),
        requirements(constraint.selector.as_ref()),
        constraint.selector_error.as_ref().map(|error| format!("{error:?}")),
        (constraint.min_domains, constraint.node_affinity_policy, constraint.node_taints_policy),
    )
}

/// Writes everything of a pod that any answer of the plugin depends on.
pub(super) fn sign(defaults: &Defaults, pod: &Pod, signature: &mut SignatureWriter) {
    let own = &pod.spec.topology_spread_constraints;
    signature.len(own.len());
    if own.is_empty() && defaults.constraints.is_empty() {
        return;
    }
    signature.text(&pod.namespace);
    signature.selectable_labels(&pod.labels);
    if own.is_empty() {
        let controller = pod.controller.as_ref();
        write(controller.map(|it| (&it.api_version, &it.kind, &it.name)), signature);
    }
    own.iter().for_each(|constraint| write(signed(constraint), signature));
    write(tolerations(&pod.spec.tolerations), signature);
    write(&pod.spec.node_selector, signature);
    let required = pod.spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    write(node_selector(required), signature);
}
