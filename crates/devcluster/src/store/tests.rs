//! The store against a naive model.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::kinds::PODS;
use crate::testing::empty_store as store;
use crate::watch::Watcher;

#[derive(Debug, Clone)]
enum Step {
    Put { name: u8, app: u8 },
    Remove { name: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0u8..8, 0u8..3).prop_map(|(name, app)| Step::Put { name, app }),
        1 => (0u8..8).prop_map(|name| Step::Remove { name }),
    ]
}

/// Names 0 to 3 live in one namespace, the others in another one that sorts close to it.
fn place(name: u8) -> (&'static str, String) {
    (if name < 4 { "ns" } else { "ns-2" }, format!("p{name}"))
}

fn take(store: &Store, step: &Step) {
    let done = store.write(|state| {
        match step {
            Step::Put { name, app } => {
                let (namespace, name) = place(*name);
                let labels = json!({"app": app.to_string()});
                state.put(
                    PODS,
                    json!({"metadata": {"namespace": namespace, "name": name, "labels": labels}}),
                );
            }
            Step::Remove { name } => {
                let (namespace, name) = place(*name);
                state.remove(PODS, namespace, &name);
            }
        }
        Ok(())
    });
    assert!(done.is_ok());
}

type Shown = BTreeMap<String, (u64, Value)>;

fn shown<'o>(objects: impl IntoIterator<Item = &'o Arc<StoredObject>>) -> Shown {
    objects
        .into_iter()
        .map(|object| {
            (key_of(object.namespace(), object.name()), (object.resource_version(), object.value()))
        })
        .collect()
}

fn selections() -> Vec<Selection> {
    vec![
        Selection::all(),
        Selection::all().namespace("ns"),
        Selection::all().labels("app=1").expect("valid"),
        Selection::all().namespace("ns-2").labels("app!=1").expect("valid"),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn list_plus_watch_equals_the_later_list(steps in prop::collection::vec(step(), 1..60), start in 0usize..60) {
        for selection in selections() {
            let store = store(1000);
            let start = start.min(steps.len());
            steps[..start].iter().for_each(|step| take(&store, step));
            let (items, mut watcher) =
                Watcher::list_and_watch(store.clone(), PODS, selection.clone()).expect("watching");
            let mut seen = shown(&items);
            for (index, step) in steps[start..].iter().enumerate() {
                take(&store, step);
                if index % 3 != 0 {
                    continue;
                }
                for event in watcher.poll().expect("in history") {
                    replay(&mut seen, &event);
                }
                prop_assert_eq!(&seen, &shown(&store.list(PODS, &selection).items));
                prop_assert_eq!(watcher.position(), store.resource_version());
            }
        }
    }

    #[test]
    fn pages_of_the_past_equal_what_was_there(steps in prop::collection::vec(step(), 1..40), limit in 1usize..4) {
        let store = store(1000);
        let mut past = Vec::new();
        for step in &steps {
            take(&store, step);
            past.push((store.resource_version(), shown(&store.list(PODS, &Selection::all()).items)));
        }
        for selection in selections() {
            for (version, everything) in &past {
                let mut collected = Vec::new();
                let mut after = None;
                loop {
                    let page = Page { limit: Some(limit), after, at_version: Some(*version) };
                    let listing = store.list_page(PODS, &selection, &page).expect("in history");
                    prop_assert!(listing.items.len() <= limit);
                    collected.extend(listing.items);
                    after = listing.next;
                    if after.is_none() {
                        break;
                    }
                }
                let expected: Shown = everything
                    .iter()
                    .filter(|(_, (version, value))| selection.matches(&StoredObject::freeze(PODS, value, *version)))
                    .map(|(key, entry)| (key.clone(), entry.clone()))
                    .collect();
                prop_assert_eq!(shown(&collected), expected);
                let keys: Vec<String> = collected.iter().map(|one| key_of(one.namespace(), one.name())).collect();
                prop_assert!(keys.is_sorted());
            }
        }
    }

    #[test]
    fn a_short_history_answers_right_or_not_at_all(steps in prop::collection::vec(step(), 1..40), history in 1usize..6) {
        let store = store(history);
        let mut watchers = Vec::new();
        for step in &steps {
            let (items, watcher) =
                Watcher::list_and_watch(store.clone(), PODS, Selection::all()).expect("watching");
            watchers.push((shown(&items), watcher));
            take(&store, step);
        }
        let current = shown(&store.list(PODS, &Selection::all()).items);
        let mut lost = 0;
        for (mut seen, mut watcher) in watchers {
            match watcher.poll() {
                Ok(events) => {
                    events.iter().for_each(|event| replay(&mut seen, event));
                    prop_assert_eq!(&seen, &current);
                }
                Err(error) => {
                    prop_assert_eq!(error.code(), 410);
                    lost += 1;
                }
            }
        }
        // The newest watch is never lost: it is one change behind at most.
        prop_assert!(lost < steps.len());
    }
}

/// Applies an event the way a client's cache does, refusing what cannot happen.
fn replay(seen: &mut Shown, event: &crate::watch::WatchEvent) {
    let key = key_of(event.object.namespace(), event.object.name());
    let entry = (event.object.resource_version(), event.object.value());
    match event.change_type {
        ChangeType::Added => assert!(seen.insert(key, entry).is_none(), "added twice"),
        ChangeType::Modified => {
            assert!(seen.insert(key, entry).is_some(), "modified before it was added")
        }
        ChangeType::Deleted => assert!(seen.remove(&key).is_some(), "deleted before it was added"),
    }
}

#[tokio::test]
async fn a_waiting_watch_wakes_for_its_kind() {
    let store = store(10);
    let (_, mut watcher) =
        Watcher::list_and_watch(store.clone(), PODS, Selection::all()).expect("watching");
    let waiting = tokio::spawn(async move { watcher.next().await.map(|events| events.len()) });
    tokio::task::yield_now().await;
    take(&store, &Step::Put { name: 1, app: 1 });
    assert_eq!(waiting.await.expect("no panic").expect("events"), 1);
}
