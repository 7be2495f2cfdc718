//! Signatures of pods, and the numbers that stand for them: pods of one number are of one class.

use std::num::NonZeroU64;
use std::sync::Arc;

use kube_scheduler_api_types::{KeyedMap, Pod};
use kube_scheduler_framework::groups::PlannedMember;
use kube_scheduler_framework::{Context, Plugin, SignatureWriter};
use kube_scheduler_queue::Signature;
use kube_scheduler_runtime::{PluginIdx, Profile};

/// What signatures that are remembered may take, in bytes. The ones unused for longest are forgotten beyond that.
const MAX_SIGNATURE_BYTES: usize = 16 << 20;
/// Pods with a longer signature are evaluated on their own. As people write them they have some hundred bytes.
const MAX_SIGNATURE: usize = 32 << 10;
/// Pods with more labels, resources, terms and similar parts are evaluated on their own, too. Each part takes at least 16 bytes.
/// A pod that has none is signed again whenever it has failed: that must be cheap.
const MAX_PARTS: usize = MAX_SIGNATURE / 16;
/// What signing a member of a group and each such part of it count as, in units of work.
const WORK_OF_POD: u64 = 50;
const WORK_OF_PART: u64 = 4;
/// What a signature takes in the table, beside its bytes.
const SIGNATURE_OVERHEAD: usize = 48;

/// Numbers for signatures. A number is never used for two signatures; one signature may get several over time.
///
/// Those in use stay however many others come: when the recent ones take half of what all may, they become the earlier ones,
/// and what was earlier and did not come up since is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Signatures {
    recent: KeyedMap<Box<[u8]>, u64>,
    earlier: KeyedMap<Box<[u8]>, u64>,
    /// What the recent ones take.
    n_bytes: usize,
    /// What the earlier ones take.
    n_earlier_bytes: usize,
    /// The number that was given last.
    latest: u64,
    /// Signatures with greater numbers are recent.
    latest_earlier: u64,
}

impl Signatures {
    /// An empty table that gives no number which this one has given.
    pub(crate) fn fork(&self) -> Self {
        Self { latest: self.latest, latest_earlier: self.latest, ..Self::default() }
    }

    /// The numbers for a pod under a profile; `None` when it must be evaluated on its own. The loose one is of the signature
    /// without the labels that number the pod, if nothing about the pod itself looks at these.
    pub(crate) fn of_pod(
        &mut self,
        profile: usize,
        plan: &SignPlan,
        pod: &Pod,
    ) -> Option<Signature> {
        if n_parts(pod) > MAX_PARTS {
            return None;
        }
        let all = plan.sign(profile, pod, SignatureWriter::new())?;
        let strict = NonZeroU64::new(self.number_of(&all.into_bytes())?)?;
        if !pod.is_numbered() || pod.has_affinity_by_number() || pod.spreads_by_number() {
            return Some(Signature::new(strict));
        }
        let loose = plan.sign(profile, pod, SignatureWriter::without_numbers());
        let loose = loose.filter(SignatureWriter::has_left_out);
        let loose = loose.and_then(|loose| self.number_of(&loose.into_bytes()));
        Some(Signature { strict, loose: loose.and_then(NonZeroU64::new).unwrap_or(strict) })
    }

    /// Whether the signature of a pod surely is among the recent ones. Otherwise the pod has to be signed again to keep its number.
    pub(crate) fn is_recent(&self, signature: Signature) -> bool {
        let Signature { strict, loose } = signature;
        strict.min(loose).get() > self.latest_earlier
    }

    fn number_of(&mut self, bytes: &[u8]) -> Option<u64> {
        if let Some(id) = self.recent.get(bytes) {
            return Some(*id);
        }
        if bytes.len() > MAX_SIGNATURE {
            return None;
        }
        let known = self.earlier.remove_entry(bytes);
        if let Some((bytes, _)) = &known {
            self.n_earlier_bytes -= bytes.len() + SIGNATURE_OVERHEAD;
        }
        let (bytes, id) = known.unwrap_or_else(|| {
            self.latest += 1;
            (bytes.into(), self.latest)
        });
        let size = bytes.len() + SIGNATURE_OVERHEAD;
        if self.n_bytes + size > MAX_SIGNATURE_BYTES / 2 {
            self.earlier = std::mem::take(&mut self.recent);
            self.n_earlier_bytes = std::mem::take(&mut self.n_bytes);
            self.latest_earlier = self.latest;
        }
        self.n_bytes += size;
        self.recent.insert(bytes, id);
        Some(id)
    }

    /// What all that are remembered take, in bytes.
    pub(crate) const fn n_bytes(&self) -> usize {
        self.n_bytes + self.n_earlier_bytes
    }

    /// How many are remembered.
    pub(crate) fn len(&self) -> usize {
        self.recent.len() + self.earlier.len()
    }
}

/// How many labels, resources, terms and similar parts the pod has.
fn n_parts(pod: &Pod) -> usize {
    let spec = &pod.spec;
    pod.labels.len()
        + pod.requests.totals.len()
        + spec.node_selector.as_ref().map_or(0, |pairs| pairs.len())
        + spec.tolerations.len()
        + spec.host_ports.len()
        + spec.topology_spread_constraints.len()
        + spec.affinity_terms().count()
}

/// Which plugins of a profile contribute to signatures.
#[derive(Clone, Debug)]
pub(crate) struct SignPlan {
    plugins: Option<Vec<Arc<dyn Plugin>>>,
}

impl SignPlan {
    /// A plan for `profile`; pods can be signed only if every plugin that judges nodes can sign.
    pub(crate) fn new(profile: &Profile) -> Self {
        use kube_scheduler_runtime::ExtensionPoint::{Filter, PreFilter, PreScore, Score};
        let mut used: Vec<PluginIdx> = [PreFilter, Filter, PreScore, Score]
            .iter()
            .flat_map(|point| profile.at(*point).to_vec())
            .collect();
        used.sort_unstable();
        used.dedup();
        let plugins: Vec<_> = used.iter().filter_map(|idx| profile.plugin(*idx)).collect();
        let can_sign = plugins.iter().all(|entry| entry.plugin.as_sign().is_some());
        Self {
            plugins: can_sign
                .then(|| plugins.into_iter().map(|entry| entry.plugin.clone()).collect()),
        }
    }

    fn sign(
        &self,
        profile: usize,
        pod: &Pod,
        mut signature: SignatureWriter,
    ) -> Option<SignatureWriter> {
        signature.len(profile);
        // The two kinds of signature never have the same bytes.
        let leaves_numbers_out = signature.leaves_numbers_out();
        signature.present(leaves_numbers_out);
        for plugin in self.plugins.as_ref()? {
            if !plugin.as_sign()?.sign(pod, &mut signature) {
                return None;
            }
        }
        Some(signature)
    }

    /// What a member of a group that is planned as a whole has in common with those that are alike, written to `signature`;
    /// `None` if it is like no other.
    pub(crate) fn sign_member(
        &self,
        cx: &Context<'_>,
        member: PlannedMember<'_>,
        mut signature: SignatureWriter,
    ) -> Option<Box<[u8]>> {
        let n_parts = n_parts(member.pod);
        if n_parts > MAX_PARTS {
            return None;
        }
        cx.count_work(WORK_OF_POD.saturating_add((n_parts as u64).saturating_mul(WORK_OF_PART)));
        for plugin in self.plugins.as_ref()? {
            if !plugin.as_sign()?.sign_member(cx, member, &mut signature) {
                return None;
            }
        }
        let bytes = signature.into_bytes();
        (bytes.len() <= MAX_SIGNATURE).then(|| bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n_bytes(signatures: &Signatures) -> usize {
        let all = signatures.recent.keys().chain(signatures.earlier.keys());
        all.map(|bytes| bytes.len() + SIGNATURE_OVERHEAD).sum()
    }

    /// 60 pods with 60,000 labels each, and then more pods than there is room for.
    #[test]
    fn signatures_are_bounded_in_bytes_and_those_in_use_stay() {
        let mut signatures = Signatures::default();
        let honest = signatures.number_of(b"honest");
        for n in 0..60_u8 {
            assert_eq!(signatures.number_of(&vec![n; 1_500_000]), None);
        }
        assert_eq!((signatures.len(), honest), (1, Some(1)));
        let long = |n: u32| {
            let mut bytes = vec![0; MAX_SIGNATURE];
            bytes[..4].copy_from_slice(&n.to_le_bytes());
            bytes
        };
        for n in 0..2_000 {
            let new = signatures.number_of(&long(n)).and_then(NonZeroU64::new).unwrap();
            // Only the first one after the others have become the earlier ones may be taken for one of them.
            assert!(signatures.is_recent(Signature::new(new)) || signatures.recent.len() == 1);
            assert!(n_bytes(&signatures) <= MAX_SIGNATURE_BYTES);
            assert_eq!(signatures.n_bytes(), n_bytes(&signatures));
            for (bytes, known) in &signatures.earlier {
                let number = NonZeroU64::new(*known).unwrap();
                assert!(!signatures.is_recent(Signature::new(number)), "{:?}", &bytes[..4]);
            }
            if n % 100 == 0 {
                assert_eq!(signatures.number_of(b"honest"), honest, "after {n}");
            }
        }
        assert_eq!(signatures.number_of(&long(1_999)), Some(2_001));
        assert_eq!(
            signatures.number_of(&long(0)),
            Some(2_002),
            "forgotten, and a number is never used twice"
        );
    }

    #[test]
    fn a_signature_that_was_cut_gives_no_number() {
        let mut signature = SignatureWriter::new();
        (0..100_000).for_each(|_| signature.text("value"));
        let bytes = signature.into_bytes();
        assert!(bytes.len() > MAX_SIGNATURE && bytes.len() < 4 * MAX_SIGNATURE);
        assert_eq!(Signatures::default().number_of(&bytes), None);
    }

    #[test]
    fn no_signature_is_made_for_a_pod_of_very_many_parts() {
        let plan = SignPlan { plugins: Some(Vec::new()) };
        let mut signatures = Signatures::default();
        let mut number = |n_labels: usize| {
            let labels: serde_json::Map<_, _> =
                (0..n_labels).map(|at| (format!("l{at}"), "v".into())).collect();
            let pod = serde_json::json!({"metadata": {"namespace": "a", "name": "p", "labels": labels}, "spec": {}});
            let signature = signatures.of_pod(0, &plan, &Pod::from_value(&pod).unwrap());
            signature.map(|signature| (signature.strict.get(), signature.loose.get()))
        };
        assert_eq!(
            [number(10), number(MAX_PARTS), number(MAX_PARTS + 1)],
            [Some((1, 1)), Some((1, 1)), None]
        );
    }
}
