//! What plugins find out from objects for a key of their own, kept for the rest of a scheduling cycle.
//!
//! Invariant: a value is used only while the objects that it was found from are as they were, so it is the one that would be
//! found again.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kube_scheduler_cache::ClusterState;
use kube_scheduler_cache::reads::{ObjectVersions, ReadSet, Reads};

use crate::cluster_view::{ClusterView, Scope};

/// What a plugin found out, with what it was found from.
struct Found<T> {
    value: Arc<T>,
    reads: Reads,
    versions: ObjectVersions,
}

/// Values by key, one table for each pair of types.
type Tables = BTreeMap<TypeId, Box<dyn Any + Send>>;

/// What [`Context::once_per_cycle`](crate::Context::once_per_cycle) found in one scheduling cycle: the attempt at one pod, or
/// at all members of a group in all places where they may go. The engine drops it afterwards.
pub struct CycleMemo(Option<Mutex<Tables>>);

impl Default for CycleMemo {
    fn default() -> Self {
        Self(Some(Mutex::default()))
    }
}

impl CycleMemo {
    /// For contexts outside of a cycle: everything is found anew.
    pub const NONE: Self = Self(None);

    /// Forgets everything.
    pub fn clear(&mut self) {
        if let Some(tables) = &mut self.0 {
            tables.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    pub(crate) fn get_or_find<K, T>(
        &self,
        cluster: &ClusterState,
        reads: &ReadSet,
        key: &K,
        find: impl FnOnce(ClusterView<'_>) -> T,
    ) -> Arc<T>
    where
        K: Any + Clone + Ord + Send,
        T: Any + Send + Sync,
    {
        let versions = cluster.objects().versions();
        let known = self.with_table(|table: &mut BTreeMap<K, Found<T>>| {
            let found = table.get(key).filter(|it| it.versions.agree(&versions, it.reads))?;
            Some((found.value.clone(), found.reads))
        });
        if let Some((value, found_from)) = known.flatten() {
            reads.note(found_from);
            return value;
        }
        let own_reads = ReadSet::new();
        let value = Arc::new(find(ClusterView::recorded_by(cluster, &own_reads, Scope::Asked)));
        let found_from = own_reads.get();
        reads.note(found_from);
        // Whether anything else is as it was would have to be asked of the change log.
        if found_from.are_of_objects() {
            let found = Found { value: value.clone(), reads: found_from, versions };
            self.with_table(|table| table.insert(key.clone(), found));
        }
        value
    }

    fn with_table<K: Any + Ord + Send, T: Any + Send + Sync, R>(
        &self,
        then: impl FnOnce(&mut BTreeMap<K, Found<T>>) -> R,
    ) -> Option<R> {
        // No value is changed in place, so what a panic left behind is whole.
        let mut tables = self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let table = tables
            .entry(TypeId::of::<(K, T)>())
            .or_insert_with(|| Box::new(BTreeMap::<K, Found<T>>::new()));
        table.downcast_mut().map(then)
    }
}

impl fmt::Debug for CycleMemo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CycleMemo").finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use kube_scheduler_api_types::{Node, Object};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// What is read for a key.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Question {
        Services,
        Claims,
        Nodes,
    }

    #[derive(Debug, PartialEq, Eq)]
    struct Answer(usize);

    #[derive(Clone, Debug)]
    enum Step {
        Apply(&'static str, u8),
        Remove(&'static str, u8),
        AddNode(u8),
        Ask(Question),
        Clear,
    }

    const KINDS: [&str; 2] = ["Service", "PersistentVolumeClaim"];

    fn step() -> impl Strategy<Value = Step> {
        let questions = [Question::Services, Question::Claims, Question::Nodes];
        prop_oneof![
            3 => (prop::sample::select(&KINDS[..]), 0..3_u8).prop_map(|(kind, at)| Step::Apply(kind, at)),
            2 => (prop::sample::select(&KINDS[..]), 0..3_u8).prop_map(|(kind, at)| Step::Remove(kind, at)),
            1 => (0..3_u8).prop_map(Step::AddNode),
            8 => prop::sample::select(questions.to_vec()).prop_map(Step::Ask),
            1 => Just(Step::Clear),
        ]
    }

    fn answer(view: ClusterView<'_>, question: Question) -> Answer {
        Answer(match question {
            Question::Services => view.objects_of("").list_in("Service", "a").count(),
            Question::Claims => view.objects_of("").list_in("PersistentVolumeClaim", "a").count(),
            Question::Nodes => view.n_nodes(),
        })
    }

    fn change(cluster: &mut ClusterState, step: &Step) {
        match step {
            Step::Apply(kind, at) => {
                let object = json!({"apiVersion": "v1", "kind": kind,
                    "metadata": {"namespace": "a", "name": at.to_string()}});
                cluster.upsert_object(Arc::new(Object::from_value(object).unwrap()));
            }
            Step::Remove(kind, at) => {
                cluster.remove_object("", kind, "a", &at.to_string());
            }
            Step::AddNode(at) => {
                let node = json!({"metadata": {"name": at.to_string()}});
                cluster.add_node(Arc::new(Node::from_value(&node).unwrap()));
            }
            Step::Ask(_) | Step::Clear => {}
        }
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_would_be_found(steps in prop::collection::vec(step(), 0..60)) {
            let (mut cluster, mut memo) = (ClusterState::new(), CycleMemo::default());
            // The kind of objects that was looked at last time, as long as it is unchanged.
            let mut unchanged: Vec<Question> = Vec::new();
            for step in &steps {
                change(&mut cluster, step);
                match step {
                    Step::Apply(kind, _) | Step::Remove(kind, _) => {
                        let changed = if *kind == KINDS[0] { Question::Services } else { Question::Claims };
                        unchanged.retain(|question| *question != changed);
                    }
                    Step::AddNode(_) => {}
                    Step::Clear => {
                        memo.clear();
                        unchanged.clear();
                    }
                    Step::Ask(question) => {
                        let (reads, own, is_found) = (ReadSet::new(), ReadSet::new(), Cell::new(false));
                        let fresh = answer(ClusterView::recorded_by(&cluster, &own, Scope::Asked), *question);
                        let known = memo.get_or_find(&cluster, &reads, question, |view| {
                            is_found.set(true);
                            answer(view, *question)
                        });
                        prop_assert_eq!(&*known, &fresh);
                        prop_assert_eq!(reads.get(), own.get());
                        if unchanged.contains(question) {
                            prop_assert!(!is_found.get());
                        } else if *question == Question::Nodes {
                            prop_assert!(is_found.get());
                        } else {
                            unchanged.push(*question);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn outside_of_a_cycle_everything_is_found_anew() {
        let (cluster, reads, n_found) = (ClusterState::new(), ReadSet::new(), Cell::new(0));
        for _ in 0..3 {
            CycleMemo::NONE.get_or_find(&cluster, &reads, &(), |view| {
                n_found.set(n_found.get() + 1);
                answer(view, Question::Services)
            });
        }
        assert_eq!(n_found.get(), 3);
    }
}
