//! Versions of the parts of the cluster that do not belong to a single node, to see whether a cached answer is out of date.

use crate::affinity_terms::AffinityTermsVersion;
use crate::objects::ObjectVersions;
use crate::reads::Reads;
use crate::state::ClusterState;

/// The versions of the parts of the cluster that do not belong to a single node, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Versions {
    membership: u64,
    images: u64,
    objects: ObjectVersions,
    affinity_terms: AffinityTermsVersion,
}

impl Versions {
    /// The versions of a cluster as it is.
    pub fn of(cluster: &ClusterState) -> Self {
        Self {
            membership: cluster.membership_sequence(),
            images: cluster.image_sequence(),
            objects: cluster.objects().versions(),
            affinity_terms: cluster.affinity_terms_version(),
        }
    }

    /// Whether nothing that matters to an answer differs.
    pub fn agree(&self, now: &Self, reads: Reads) -> bool {
        (!reads.intersects(Reads::MEMBERSHIP) || self.membership == now.membership)
            && (!reads.intersects(Reads::IMAGE_STATES) || self.images == now.images)
            && self.objects.agree(&now.objects, reads)
            && (!reads.intersects(Reads::AFFINITY_TERMS) || self.has_terms_of(now))
    }

    /// Whether the distinct affinity terms on nodes are the same.
    pub fn has_terms_of(&self, now: &Self) -> bool {
        self.affinity_terms == now.affinity_terms
    }
}
