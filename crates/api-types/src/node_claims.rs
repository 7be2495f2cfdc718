//! Resources of nodes that devices take besides.

use std::sync::Arc;

use crate::quantity::Quantity;
use crate::resources::ResourceName;

/// What the devices of a claim take of their node's resources.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeResourceClaim {
    /// Name of the claim.
    pub claim: Arc<str>,
    /// The containers that use the claim, init containers first; one that names the claim twice is there twice.
    pub containers: Arc<[Arc<str>]>,
    /// Amounts by resource, sorted by name.
    pub resources: Arc<[(ResourceName, Quantity)]>,
}
