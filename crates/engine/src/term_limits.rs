//! Limits how many affinity terms the running pods of a namespace may impose on other pods.
//!
//! Each term of a running pod is kept for as long as the pod is there, and every pending pod is compared with those that may
//! select it. Terms about their own namespace are found by namespace; terms about other namespaces may select any pod, so
//! their number determines what they cost all pods. Each namespace therefore has room for so many terms of either kind. Those of
//! further pods are ignored for all other pods: the pod enters the cluster state without them. An event about the pod says so;
//! it is recorded at the next attempt, because of several running schedulers only the leader makes attempts and writes. Pods
//! with a usual number of such terms are not counted.
//!
//! Invariant: a pod counts with the same terms as long as it is there, so what is added is what is taken away.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::{KeyedMap, Pod, PodAffinity, PodAffinityTerm};

/// What terms are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Pods of other namespaces, too.
    Far,
    /// Pods of their own namespace, or none.
    Near,
}

impl Reach {
    const BOTH: [Self; 2] = [Self::Far, Self::Near];

    /// That of a term of a pod in `namespace`. A far term is left out as a whole, so if it names its own namespace as well, it
    /// does not count there either.
    fn of(term: &PodAffinityTerm, namespace: &Arc<str>) -> Self {
        let names_another = || term.namespaces.iter().any(|named| named != namespace);
        let is_far =
            term.selector.is_some() && (term.namespace_selector.is_some() || names_another());
        if is_far { Self::Far } else { Self::Near }
    }

    /// A pod with at most this many terms is not counted. Nobody writes that many by hand.
    fn usual(self) -> usize {
        match self {
            Self::Far => 8,
            Self::Near => 64,
        }
    }

    /// What such terms are about, in the text of events.
    fn description(self) -> &'static str {
        match self {
            Self::Far => "other namespaces",
            Self::Near => "its own namespace",
        }
    }
}

/// The limit for a namespace, for terms of either reach: the sum over its pods that have more than the usual number of them.
/// Taking in 3,000 on a pod cost the core 4.9 ms (`bench tenants`, RunningTopologyKeys, before this limit).
const MOST: usize = 500;

/// The terms of one pod that have the same reach.
#[derive(Clone, Copy, Debug, Default)]
struct Terms {
    n: usize,
    /// Whether they count for other pods.
    count: bool,
}

/// Running pods with many terms.
#[derive(Clone, Debug, Default)]
pub(crate) struct TermLimits {
    /// Pods with more than the usual number of terms of any reach, by UID.
    carriers: KeyedMap<Arc<str>, [Terms; 2]>,
    /// How many terms of such pods count, by namespace.
    counted: KeyedMap<Arc<str>, [usize; 2]>,
    /// Pods whose terms are ignored and for which no event was recorded yet, each with the text of the event; by UID.
    unreported: BTreeMap<Arc<str>, (Arc<Pod>, String)>,
}

impl TermLimits {
    /// Takes in a running pod that was added or changed. Returns the form in which the cluster state has to know it: without
    /// terms that are ignored. O(its terms).
    pub(crate) fn admit(&mut self, pod: &Arc<Pod>) -> Arc<Pod> {
        if !pod.has_pod_affinity() && self.carriers.is_empty() {
            return pod.clone();
        }
        let n = n_terms(pod);
        let terms = match self.carriers.get(&pod.uid) {
            Some(known) if known.map(|terms| terms.n) == n => *known,
            _ => {
                self.forget(pod);
                self.register(pod, n)
            }
        };
        let ignored = |reach: Reach| !terms[reach as usize].count;
        if Reach::BOTH.into_iter().any(ignored) { without(pod, ignored) } else { pod.clone() }
    }

    /// Takes in a pod with `n` terms of each reach that is not among the carriers, and says which of them count.
    fn register(&mut self, pod: &Arc<Pod>, n: [usize; 2]) -> [Terms; 2] {
        let mut terms = n.map(|n| Terms { n, count: true });
        let many = |reach: &Reach| n[*reach as usize] > reach.usual();
        if !Reach::BOTH.iter().any(many) {
            return terms;
        }
        let mut notes = Vec::new();
        for reach in Reach::BOTH.into_iter().filter(many) {
            let at = reach as usize;
            let counted = self.counted.get(&pod.namespace).map_or(0, |counted| counted[at]);
            if counted + n[at] <= MOST {
                self.counted.entry(pod.namespace.clone()).or_default()[at] += n[at];
            } else {
                terms[at].count = false;
                notes.push(format!(
                    "{} pod affinity terms about {} do not count for any other pod: with {counted} of other pods of this \
                     namespace they are more than {MOST}",
                    n[at],
                    reach.description()
                ));
            }
        }
        if !notes.is_empty() {
            self.unreported.insert(pod.uid.clone(), (pod.clone(), notes.join("; ")));
        }
        self.carriers.insert(pod.uid.clone(), terms);
        terms
    }

    /// The pods whose terms are ignored and for which no event was recorded yet, each with the text of the event.
    pub(crate) fn take_unreported(&mut self) -> impl Iterator<Item = (Arc<Pod>, String)> + use<> {
        std::mem::take(&mut self.unreported).into_values()
    }

    /// Forgets a pod that is gone, or whose terms have changed.
    pub(crate) fn forget(&mut self, pod: &Pod) {
        self.unreported.remove(&pod.uid);
        let Some(terms) = self.carriers.remove(&pod.uid) else { return };
        let Some(counted) = self.counted.get_mut(&pod.namespace) else { return };
        for reach in Reach::BOTH {
            let at = reach as usize;
            if terms[at].count && terms[at].n > reach.usual() {
                counted[at] -= terms[at].n;
            }
        }
        if *counted == [0; 2] {
            self.counted.remove(&pod.namespace);
        }
    }

    /// How many pods have more terms than usual.
    pub(crate) fn len(&self) -> usize {
        self.carriers.len()
    }
}

/// How many terms of each reach a pod has.
fn n_terms(pod: &Pod) -> [usize; 2] {
    let mut n = [0; 2];
    for term in pod.spec.affinity_terms() {
        n[Reach::of(term, &pod.namespace) as usize] += 1;
    }
    n
}

/// The pod without the terms that are `ignored`.
fn without(pod: &Arc<Pod>, ignored: impl Fn(Reach) -> bool) -> Arc<Pod> {
    let mut pod = Pod::clone(pod);
    let namespace = &pod.namespace;
    let spec = Arc::make_mut(&mut pod.spec);
    for affinity in [&mut spec.pod_affinity, &mut spec.pod_anti_affinity].into_iter().flatten() {
        let stays = |term: &PodAffinityTerm| !ignored(Reach::of(term, namespace));
        let PodAffinity { required, preferred, .. } = &**affinity;
        let required = required.iter().filter(|term| stays(term)).cloned().collect();
        let preferred =
            preferred.iter().filter(|weighted| stays(&weighted.term)).cloned().collect();
        let affinity = Arc::make_mut(affinity);
        (affinity.required, affinity.preferred) = (required, preferred);
    }
    Arc::new(pod)
}

#[cfg(test)]
mod tests {
    use kube_scheduler_api_types::Pod;
    use serde_json::{Value, json};

    use super::*;

    fn term(at: usize, far: bool) -> Value {
        let mut term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": format!("a{at}")}}});
        if far {
            term["namespaceSelector"] = json!({});
        }
        term
    }

    fn pod(namespace: &str, name: &str, n_far: usize, n_near: usize) -> Arc<Pod> {
        let terms: Vec<Value> = (0..n_far + n_near).map(|at| term(at, at < n_far)).collect();
        let weighted: Vec<Value> =
            terms.iter().map(|term| json!({"weight": 1, "podAffinityTerm": term})).collect();
        let json = json!({"metadata": {"namespace": namespace, "name": name, "uid": name}, "spec": {
            "nodeName": "n", "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": &terms[..n_far / 2]},
                "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": &weighted[n_far / 2..]}}}});
        Arc::new(Pod::from_value(&json).unwrap())
    }

    #[test]
    fn a_namespace_has_room_for_so_many_terms_about_others() {
        let mut far = TermLimits::default();
        // As people write them: not even counted.
        for at in 0..1000 {
            let usual = pod("a", &format!("u{at}"), Reach::Far.usual(), 3);
            assert!(Arc::ptr_eq(&far.admit(&usual), &usual));
        }
        assert_eq!(far.len(), 0);
        let pods: Vec<_> = (0..7).map(|at| pod("a", &format!("p{at}"), 100, 10)).collect();
        let admitted: Vec<_> = pods.iter().map(|pod| far.admit(pod)).collect();
        for (at, pod) in admitted.iter().enumerate() {
            assert_eq!(n_terms(pod)[0], if at < MOST / 100 { 100 } else { 0 }, "{at}");
            let near =
                pod.spec.pod_affinity.as_ref().unwrap().preferred.len() - n_terms(pod)[0] / 2;
            assert_eq!(near, 10, "terms about its own namespace stay");
        }
        let said: Vec<_> = far.take_unreported().collect();
        assert!(said.iter().map(|(pod, _)| &pod.uid).eq(pods[5..].iter().map(|pod| &pod.uid)));
        let note = &said[0].1;
        assert!(
            note.starts_with("100 pod affinity terms") && note.contains("with 500 of other"),
            "{note}"
        );
        // The event is sent once, and an ignored pod stays ignored when there is room later.
        assert_eq!(n_terms(&far.admit(&pods[6]))[0], 0);
        far.forget(&pods[0]);
        assert_eq!(n_terms(&far.admit(&pods[6]))[0], 0);
        assert_eq!(far.take_unreported().count(), 0);
        far.forget(&pods[6]);
        assert_eq!(n_terms(&far.admit(&pods[6]))[0], 100);
        // Others have room of their own.
        assert_eq!(n_terms(&far.admit(&pod("b", "q", 400, 0)))[0], 400);
        // Of what is gone before anything could be said, nothing is.
        assert_eq!(n_terms(&far.admit(&pod("b", "r", 200, 0)))[0], 0);
        far.forget(&pod("b", "r", 200, 0));
        assert_eq!(far.take_unreported().count(), 0);
        pods.iter().for_each(|pod| far.forget(pod));
        far.forget(&pod("b", "q", 400, 0));
        assert!(far.carriers.is_empty() && far.counted.is_empty());
    }

    #[test]
    fn a_namespace_has_room_for_so_many_terms_about_itself() {
        let mut limits = TermLimits::default();
        let usual = Reach::Near.usual();
        for at in 0..100 {
            let pod = pod("a", &format!("u{at}"), 3, usual);
            assert!(Arc::ptr_eq(&limits.admit(&pod), &pod));
        }
        assert_eq!(limits.len(), 0);
        let pods: Vec<_> = (0..3).map(|at| pod("a", &format!("p{at}"), 100, 200)).collect();
        let admitted: Vec<_> = pods.iter().map(|pod| n_terms(&limits.admit(pod))).collect();
        assert_eq!(admitted, [[100, 200], [100, 200], [100, 0]], "room for far ones is not taken");
        let said: Vec<_> = limits.take_unreported().collect();
        let [(pod, note)] = &*said else { unreachable!("{said:?}") };
        assert_eq!(pod.uid, pods[2].uid);
        assert!(note.starts_with("200 pod affinity terms about its own namespace"), "{note}");
        assert_eq!(n_terms(&limits.admit(&pods[2])), [100, 0], "the same as before");
        pods.iter().for_each(|pod| limits.forget(pod));
        assert!(limits.carriers.is_empty() && limits.counted.is_empty());
        assert_eq!(n_terms(&limits.admit(&pods[2])), [100, 200]);
    }

    #[test]
    fn a_pod_that_changes_its_terms_is_looked_at_again() {
        let mut far = TermLimits::default();
        assert_eq!(n_terms(&far.admit(&pod("a", "p", 600, 0)))[0], 0);
        assert_eq!(n_terms(&far.admit(&pod("a", "p", 300, 0)))[0], 300);
        assert_eq!(far.counted["a"], [300, 0]);
        assert_eq!(n_terms(&far.admit(&pod("a", "p", 2, 0)))[0], 2);
        assert!(far.carriers.is_empty() && far.counted.is_empty() && far.unreported.is_empty());
    }
}
