//! How good an allocation is, going by the alternatives that were chosen (`docs/spec/plugins-dra.md` §7.5).

use crate::api::{Allocation, Request, ResourceClaim};

/// How many alternatives a request can have.
const MAX_ALTERNATIVES: i64 = 8;

impl ResourceClaim {
    /// The score of an allocation of this claim: for every request with alternatives more, the earlier the alternative
    /// comes in its list.
    pub fn priority_score(&self, allocation: &Allocation) -> i64 {
        let mut score = 0;
        for request in &self.requests {
            let Request::FirstAvailable(alternatives) = &request.request else { continue };
            for (alternative, place) in alternatives.iter().zip(0_i64..) {
                let name = format!("{}/{}", request.name, alternative.name);
                if allocation.results.iter().any(|result| *result.request == *name) {
                    score += MAX_ALTERNATIVES - place;
                }
            }
        }
        score
    }
}
