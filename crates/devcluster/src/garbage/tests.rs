//! Owners and dependents, without tasks and time.

use serde_json::json;

use super::*;
use crate::api::delete::delete;
use crate::history::ChangeType;
use crate::testing;
use crate::watch::Watcher;

fn config_maps() -> KindId {
    KindId::by_plural("", "v1", "configmaps").expect("served")
}

fn store() -> Arc<Store> {
    let store = testing::store();
    start(&store);
    store
}

/// A config map owned by others, all of which block the deletion of their owners.
fn add(store: &Store, name: &str, owners: &[&str]) {
    let references: Vec<Value> = owners
        .iter()
        .map(|owner| {
            let uid =
                store.get(config_maps(), "default", owner).map(|owner| owner.uid().to_owned());
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": owner, "blockOwnerDeletion": true,
                "uid": uid.unwrap_or("nobody".into()),
            })
        })
        .collect();
    let map = json!({"metadata": {"name": name, "ownerReferences": references}});
    store.add(config_maps(), "default", map);
}

fn remove(store: &Store, name: &str, propagation: Propagation) {
    let options = DeleteOptions { propagation, ..DeleteOptions::default() };
    delete(store, config_maps(), "default", name, &options).expect("deleted");
}

/// Collects to the end, and returns the names that are left.
fn left(store: &Store) -> Vec<String> {
    let mut n_batches = 0;
    while collect(store) {
        n_batches += 1;
        assert!(n_batches < 1000, "it ends");
    }
    names(store)
}

fn names(store: &Store) -> Vec<String> {
    let all = store.list(config_maps(), &crate::selectors::Selection::all()).items;
    all.iter().map(|object| object.name().to_owned()).collect()
}

#[test]
fn dependents_follow_their_last_owner() {
    let store = store();
    add(&store, "a", &[]);
    add(&store, "b", &[]);
    add(&store, "both", &["a", "b"]);
    add(&store, "child", &["a"]);
    add(&store, "grandchild", &["child"]);
    assert_eq!(left(&store), ["a", "b", "both", "child", "grandchild"]);
    remove(&store, "a", Propagation::Background);
    assert_eq!(left(&store), ["b", "both"]);
    let both = store.get(config_maps(), "default", "both").expect("there");
    assert_eq!(both.owners().len(), 1, "the owner that is gone is forgotten");
    remove(&store, "b", Propagation::Background);
    assert_eq!(left(&store), [""; 0]);
}

#[test]
fn an_object_of_an_owner_that_never_was_goes_as_well() {
    let store = store();
    add(&store, "a", &["unheard-of"]);
    assert_eq!(left(&store), [""; 0]);
}

#[test]
fn orphans_stay() {
    let store = store();
    add(&store, "a", &[]);
    add(&store, "b", &["a"]);
    remove(&store, "a", Propagation::Orphan);
    assert_eq!(left(&store), ["b"]);
    let orphan = store.get(config_maps(), "default", "b").expect("there").value();
    assert_eq!(orphan.pointer("/metadata/ownerReferences"), None);
}

#[test]
fn in_the_foreground_the_owner_goes_last() {
    let store = store();
    add(&store, "a", &[]);
    add(&store, "b", &["a"]);
    add(&store, "c", &["b"]);
    remove(&store, "a", Propagation::Foreground);
    assert_eq!(names(&store), ["a", "b", "c"], "it waits");
    let all = crate::selectors::Selection::all();
    let mut changes = Watcher::list_and_watch(store.clone(), config_maps(), all).expect("listed").1;
    assert_eq!(left(&store), [""; 0]);
    let changes = changes.poll().expect("changes");
    let gone = changes.iter().filter(|change| change.change_type == ChangeType::Deleted);
    let order: Vec<&str> = gone.map(|change| change.object.name()).collect();
    assert_eq!(order, ["c", "b", "a"]);
}

#[test]
fn long_chains_and_circles_are_collected_without_recursion() {
    let store = store();
    add(&store, "n0", &[]);
    for n in 1..3000 {
        add(&store, &format!("n{n}"), &[&format!("n{}", n - 1)]);
    }
    remove(&store, "n0", Propagation::Background);
    assert_eq!(left(&store), [""; 0]);

    add(&store, "x", &[]);
    add(&store, "y", &["x"]);
    let y = store.get(config_maps(), "default", "y").expect("there").uid().to_owned();
    let target = Target { kind: config_maps(), namespace: "default", name: "x", part: Part::Main };
    crate::api::update::modify(&store, target, &WriteOptions::default(), |old| {
        let mut new = old.clone();
        new["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "y", "uid": y}]);
        Ok(new)
    })
    .expect("changed");
    assert_eq!(left(&store), ["x", "y"]);
    remove(&store, "y", Propagation::Background);
    assert_eq!(left(&store), [""; 0]);
}
