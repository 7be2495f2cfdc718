//! What was found out from objects for a key, kept for as long as the objects are as they were.
//!
//! Invariant: a value is used only while the objects that it was found from are as they were, so it is the one that would be
//! found again.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kube_scheduler_api_types::lock;

use crate::reads::{ObjectVersions, Reads};

/// A value, with what it was found from.
struct MemoEntry<T> {
    value: Arc<T>,
    reads: Reads,
    versions: ObjectVersions,
}

/// Values by key, one table for each pair of types.
type Tables = BTreeMap<TypeId, Box<dyn Any + Send>>;

/// Values that were found out from objects, by key and type.
pub struct Memo(Option<Mutex<Tables>>);

impl Default for Memo {
    fn default() -> Self {
        Self(Some(Mutex::default()))
    }
}

impl Memo {
    /// A memo that keeps nothing, so that a value is found out each time.
    pub const NONE: Self = Self(None);

    /// Forgets everything.
    pub fn clear(&mut self) {
        if let Some(tables) = &mut self.0 {
            tables.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    /// The value for `key`, with what it was found from, if none of that has changed since.
    pub fn get<K, T>(&self, key: &K, now: &ObjectVersions) -> Option<(Arc<T>, Reads)>
    where
        K: Any + Ord + Send,
        T: Any + Send + Sync,
    {
        let found = self.with_table(|table: &mut BTreeMap<K, MemoEntry<T>>| {
            let found = table.get(key).filter(|found| found.versions.agree(now, found.reads))?;
            Some((found.value.clone(), found.reads))
        });
        found.flatten()
    }

    /// Keeps the value for `key`, unless something else than objects was read for it: whether that has changed, no version says.
    pub fn keep<K, T>(&self, key: K, value: Arc<T>, reads: Reads, versions: ObjectVersions)
    where
        K: Any + Ord + Send,
        T: Any + Send + Sync,
    {
        if reads.are_of_objects() {
            self.with_table(|table| table.insert(key, MemoEntry { value, reads, versions }));
        }
    }

    fn with_table<K: Any + Ord + Send, T: Any + Send + Sync, R>(
        &self,
        then: impl FnOnce(&mut BTreeMap<K, MemoEntry<T>>) -> R,
    ) -> Option<R> {
        // No value is changed in place, so what a panic left behind is whole.
        let mut tables = lock(self.0.as_ref()?);
        let table = tables
            .entry(TypeId::of::<(K, T)>())
            .or_insert_with(|| Box::new(BTreeMap::<K, MemoEntry<T>>::new()));
        table.downcast_mut().map(then)
    }
}

impl fmt::Debug for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Memo").finish()
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_api_types::{Node, Object};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::ClusterState;

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

    /// What is found, and what it is found from.
    fn answer(cluster: &ClusterState, question: Question) -> (Answer, Reads) {
        let of_kind = |kind: &str| {
            let n = cluster.objects().list_in("", kind, "a").count();
            (Answer(n), Reads::of_kind("", kind))
        };
        match question {
            Question::Services => of_kind(KINDS[0]),
            Question::Claims => of_kind(KINDS[1]),
            Question::Nodes => (Answer(cluster.n_nodes()), Reads::MEMBERSHIP),
        }
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
        #![proptest_config(crate::tests::cases(64))]

        #[test]
        fn what_is_kept_is_what_would_be_found(steps in prop::collection::vec(step(), 0..60)) {
            let (mut cluster, mut memo) = (ClusterState::new(), Memo::default());
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
                        let now = cluster.objects().versions();
                        let (fresh, reads) = answer(&cluster, *question);
                        let known = memo.get::<_, Answer>(question, &now);
                        if let Some((value, found_from)) = &known {
                            prop_assert_eq!((&**value, *found_from), (&fresh, reads));
                        }
                        prop_assert!(known.is_some() || !unchanged.contains(question));
                        prop_assert!(known.is_none() || *question != Question::Nodes);
                        if known.is_none() {
                            memo.keep(*question, Arc::new(fresh), reads, now);
                            unchanged.extend((*question != Question::Nodes).then_some(*question));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn one_that_keeps_nothing_has_nothing() {
        let cluster = ClusterState::new();
        let now = cluster.objects().versions();
        let (value, reads) = answer(&cluster, Question::Services);
        Memo::NONE.keep((), Arc::new(value), reads, now);
        assert!(Memo::NONE.get::<_, Answer>(&(), &now).is_none());
    }
}
