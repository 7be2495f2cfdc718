//! Resource vectors: what a pod asks for and what a node has, in the scheduler's integer units.
//!
//! Invariant: `scalars` is sorted by name and has no name twice. A scalar entry of zero is kept: the reference
//! distinguishes "asked for none" from "did not mention it" in places (`docs/spec/plugins-node.md` §2.5).

use std::sync::Arc;

/// The name of a resource, as in the API (`nvidia.com/gpu`).
pub type ResourceName = Arc<str>;

/// Amounts per resource: CPU in milli-CPU, memory and ephemeral storage in bytes, scalar resources in whole units.
///
/// All arithmetic wraps like the reference's 64-bit integers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    /// CPU in thousandths of a core.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
    /// Local ephemeral storage in bytes.
    pub ephemeral_storage: i64,
    /// Scalar resources (extended resources, huge pages, attachable volumes and prefixed native ones), sorted by name.
    pub scalars: Vec<(ResourceName, i64)>,
}

impl Resources {
    /// The amount of the scalar resource `name`, `None` when it is not mentioned. O(log scalars).
    pub fn scalar(&self, name: &str) -> Option<i64> {
        let at = self.scalars.binary_search_by(|(n, _)| (**n).cmp(name)).ok()?;
        self.scalars.get(at).map(|(_, amount)| *amount)
    }

    /// A mutable place for the scalar resource `name`, created as zero when missing.
    pub fn scalar_mut(&mut self, name: &ResourceName) -> &mut i64 {
        let at = match self.scalars.binary_search_by(|(n, _)| (**n).cmp(name)) {
            Ok(at) => at,
            Err(at) => {
                self.scalars.insert(at, (name.clone(), 0));
                at
            }
        };
        &mut self.scalars[at].1
    }

    /// Adds `other` to every dimension.
    pub fn add(&mut self, other: &Self) {
        self.milli_cpu = self.milli_cpu.wrapping_add(other.milli_cpu);
        self.memory = self.memory.wrapping_add(other.memory);
        self.ephemeral_storage = self.ephemeral_storage.wrapping_add(other.ephemeral_storage);
        for (name, amount) in &other.scalars {
            let place = self.scalar_mut(name);
            *place = place.wrapping_add(*amount);
        }
    }

    /// Takes `other` from every dimension; scalar entries stay, at zero if need be.
    pub fn subtract(&mut self, other: &Self) {
        self.milli_cpu = self.milli_cpu.wrapping_sub(other.milli_cpu);
        self.memory = self.memory.wrapping_sub(other.memory);
        self.ephemeral_storage = self.ephemeral_storage.wrapping_sub(other.ephemeral_storage);
        for (name, amount) in &other.scalars {
            let place = self.scalar_mut(name);
            *place = place.wrapping_sub(*amount);
        }
    }
}

/// CPU and memory with the reference's defaults filled in for containers that ask for nothing
/// (`docs/spec/plugins-node.md` §2.4): what "least allocated" looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NonZeroRequest {
    /// CPU in thousandths of a core.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
}

/// CPU assumed for a container that does not ask for any, in milli-CPU.
pub(crate) const DEFAULT_MILLI_CPU_REQUEST: i64 = 100;
/// Memory assumed for a container that does not ask for any, in bytes.
pub(crate) const DEFAULT_MEMORY_REQUEST: i64 = 200 * 1024 * 1024;
