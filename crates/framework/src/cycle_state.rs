//! Values that plugins hand to themselves from one extension point to the next, for one attempt.
//!
//! Invariant: one value per type; a value is found again by its type alone, so plugins cannot clash by name.

use std::any::{Any, TypeId};
use std::fmt;

use smallvec::SmallVec;

/// A value that can live in a [`CycleState`].
trait StateValue: Any + Send + Sync {
    /// A copy of the value.
    fn clone_value(&self) -> Box<dyn StateValue>;
}

impl<T: Any + Clone + Send + Sync> StateValue for T {
    fn clone_value(&self) -> Box<dyn StateValue> {
        Box::new(self.clone())
    }
}

/// Typed slots for one scheduling attempt. A handful of entries; look-ups scan.
#[derive(Default)]
pub struct CycleState {
    slots: SmallVec<[(TypeId, Box<dyn StateValue>); 8]>,
    /// The number of values, from the first on, that are sealed.
    n_sealed: usize,
    /// Whether a sealed value was touched.
    is_broken: bool,
}

impl CycleState {
    /// A state without values, as each attempt starts with.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores `value`, replacing one of the same type. Cloning it must be independent: evaluating "what if this pod were
    /// gone" works on a clone.
    pub fn insert<T: Any + Clone + Send + Sync>(&mut self, value: T) {
        let id = TypeId::of::<T>();
        let boxed: Box<dyn StateValue> = Box::new(value);
        match self.touch(id) {
            Some(at) => self.slots[at].1 = boxed,
            None => self.slots.push((id, boxed)),
        }
    }

    /// Finds a value that is going to be changed.
    fn touch(&mut self, id: TypeId) -> Option<usize> {
        let at = self.slots.iter().position(|(slot, _)| *slot == id)?;
        self.is_broken |= at < self.n_sealed;
        Some(at)
    }

    /// Marks the values that are there as those to go back to.
    pub fn seal(&mut self) {
        self.n_sealed = self.slots.len();
    }

    /// Drops the values that came after [`seal`](Self::seal). Returns whether those before are as they were then.
    pub fn unwind(&mut self) -> bool {
        self.slots.truncate(self.n_sealed);
        !self.is_broken
    }

    /// Adds copies of the values of `other`, in place of values of the same type.
    pub fn extend_from(&mut self, other: &Self) {
        for (id, value) in &other.slots {
            self.slots.retain(|(slot, _)| slot != id);
            self.slots.push((*id, (**value).clone_value()));
        }
    }

    /// The value of type `T`, if one was stored.
    pub fn get<T: Any>(&self) -> Option<&T> {
        let id = TypeId::of::<T>();
        let (_, value) = self.slots.iter().find(|(slot, _)| *slot == id)?;
        // Explicit deref: the box itself is a value too and must not answer here.
        let value: &dyn Any = &**value;
        value.downcast_ref()
    }

    /// The value of type `T`, mutably.
    pub fn get_mut<T: Any>(&mut self) -> Option<&mut T> {
        let id = TypeId::of::<T>();
        let at = self.touch(id)?;
        let value: &mut dyn Any = &mut *self.slots[at].1;
        value.downcast_mut()
    }
}

impl Clone for CycleState {
    fn clone(&self) -> Self {
        let slots = self.slots.iter().map(|(id, value)| (*id, (**value).clone_value()));
        Self { slots: slots.collect(), n_sealed: self.n_sealed, is_broken: self.is_broken }
    }
}

impl fmt::Debug for CycleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CycleState({} values)", self.slots.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Count(u32);

    #[test]
    fn values_are_found_by_type_and_clones_are_independent() {
        let mut state = CycleState::new();
        state.insert(Count(1));
        state.insert("text");
        let copy = state.clone();
        state.get_mut::<Count>().unwrap().0 = 2;
        state.insert("other");
        assert_eq!(copy.get::<Count>(), Some(&Count(1)));
        assert_eq!(copy.get::<&str>(), Some(&"text"));
        assert_eq!(state.get::<Count>(), Some(&Count(2)));
        assert_eq!(state.get::<u8>(), None);
    }

    #[test]
    fn sealed_values_come_back_unless_they_were_touched() {
        let mut state = CycleState::new();
        state.insert(Count(1));
        state.seal();
        state.insert("later");
        assert!(state.unwind());
        assert_eq!((state.get::<Count>(), state.get::<&str>()), (Some(&Count(1)), None));
        state.get_mut::<Count>().unwrap().0 = 2;
        assert!(!state.unwind());
        let mut other = CycleState::new();
        other.insert(Count(3));
        state.extend_from(&other);
        assert_eq!(state.get::<Count>(), Some(&Count(3)));
    }
}
