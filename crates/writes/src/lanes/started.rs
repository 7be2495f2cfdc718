//! Which pods' bindings go on.

use std::collections::VecDeque;
use std::sync::Arc;

use kube_scheduler_api_types::KeyedMap;

/// How many pods are known whose binding has started with a write.
const MAX_STARTED: usize = 4_096;

/// Pods whose binding has started with a write about another object, so that more writes are likely to come: those that started
/// most recently, since nothing says that a binding was given up.
#[derive(Debug, Default)]
pub(super) struct StartedBindings {
    /// Each with the number of its entry in `order`. Looked up only, never walked through.
    pods: KeyedMap<Arc<str>, u64>,
    /// In the order in which they started. A pod that came again after it was removed has several entries; the others than its
    /// latest one say nothing any more.
    order: VecDeque<(u64, Arc<str>)>,
    latest: u64,
}

impl StartedBindings {
    pub(super) fn insert(&mut self, uid: &Arc<str>) {
        if self.pods.contains_key(uid) {
            return;
        }
        self.latest += 1;
        self.pods.insert(uid.clone(), self.latest);
        self.order.push_back((self.latest, uid.clone()));
        while self.pods.len() > MAX_STARTED || self.order.len() > 2 * MAX_STARTED {
            let Some((number, oldest)) = self.order.pop_front() else { return };
            if self.pods.get(&oldest) == Some(&number) {
                self.pods.remove(&oldest);
            }
        }
    }

    pub(super) fn remove(&mut self, uid: &Arc<str>) -> bool {
        self.pods.remove(uid).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_that_were_given_up_do_not_pile_up() {
        let mut started = StartedBindings::default();
        for i in 0..3 * MAX_STARTED {
            started.insert(&i.to_string().into());
        }
        assert_eq!((started.pods.len(), started.order.len()), (MAX_STARTED, MAX_STARTED));
        assert!(started.remove(&(3 * MAX_STARTED - 1).to_string().into()));
        assert!(!started.remove(&"0".into()));
        // So do those that started and went on, although there are few pods.
        for _ in 0..3 * MAX_STARTED {
            started.insert(&"a".into());
            assert!(started.remove(&"a".into()));
        }
        assert!(started.order.len() <= 2 * MAX_STARTED);
    }

    #[test]
    fn a_pod_that_starts_again_is_not_forgotten_for_its_first_start() {
        let mut started = StartedBindings::default();
        let again: Arc<str> = "again".into();
        started.insert(&again);
        assert!(started.remove(&again));
        (0..MAX_STARTED - 1).for_each(|i| started.insert(&i.to_string().into()));
        started.insert(&again);
        // The entry of the first start goes, then the oldest pod.
        started.insert(&"one more".into());
        assert!(!started.remove(&"0".into()));
        assert!(started.remove(&again));
    }
}
