//! Assumed objects and the index by class, against lists that are searched from end to end.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::Object;
use proptest::prelude::*;

use crate::reads::Reads;
use crate::{AssumeObjectError, ClusterState, ObjectKey, check};

const KINDS: [&str; 2] = ["PersistentVolume", "PersistentVolumeClaim"];
const CLASSES: [&str; 3] = ["", "a", "b"];

fn object(kind: usize, which: u8, revision: u8, class: usize, note: u8) -> Arc<Object> {
    let namespace = ["", "ns"][kind];
    let class = CLASSES[class];
    let (annotations, in_spec) = match note % 4 {
        0 => (format!(r#"{{"volume.beta.kubernetes.io/storage-class":"{class}"}}"#), "other"),
        _ => ("{}".to_owned(), class),
    };
    let json = format!(
        r#"{{"apiVersion":"v1","kind":"{}","metadata":{{"name":"o{which}","namespace":"{namespace}",
            "resourceVersion":"{revision}","labels":{{"note":"{note}"}},"annotations":{annotations}}},
            "spec":{{"storageClassName":"{in_spec}"}}}}"#,
        KINDS[kind]
    );
    Arc::new(Object::from_json(json).unwrap())
}

#[derive(Clone, Debug)]
enum Op {
    Apply { kind: usize, which: u8, revision: u8, class: usize, note: u8 },
    Remove { kind: usize, which: u8 },
    Assume { kind: usize, which: u8, revision: u8, note: u8 },
    Restore { kind: usize, which: u8, revision: u8 },
    Fork,
    Swap,
}

fn op() -> impl Strategy<Value = Op> {
    let (kind, which, revision) = (0_usize..2, 0_u8..4, 1_u8..4);
    prop_oneof![
        5 => (kind.clone(), which.clone(), revision.clone(), 0_usize..3, any::<u8>()).prop_map(
            |(kind, which, revision, class, note)| Op::Apply { kind, which, revision, class, note }
        ),
        2 => (kind.clone(), which.clone()).prop_map(|(kind, which)| Op::Remove { kind, which }),
        5 => (kind.clone(), which.clone(), revision.clone(), any::<u8>()).prop_map(
            |(kind, which, revision, note)| Op::Assume { kind, which, revision, note }
        ),
        2 => (kind, which, revision)
            .prop_map(|(kind, which, revision)| Op::Restore { kind, which, revision }),
        1 => Just(Op::Fork),
        1 => Just(Op::Swap),
    ]
}

/// What was reported and what was ever assumed, as plain lists. Visibility is worked out on reading.
#[derive(Clone, Default)]
struct Model {
    reported: Vec<(Arc<Object>, usize)>,
    assumed: Vec<Arc<Object>>,
}

fn is(object: &Object, kind: usize, which: u8) -> bool {
    *object.kind == *KINDS[kind] && *object.name == format!("o{which}")
}

impl Model {
    fn reported(&self, kind: usize, which: u8) -> Option<&Arc<Object>> {
        self.reported.iter().map(|(object, _)| object).find(|object| is(object, kind, which))
    }

    fn latest(&self, kind: usize, which: u8) -> Option<&Arc<Object>> {
        let reported = self.reported(kind, which)?;
        let assumed = self.assumed.iter().find(|object| is(object, kind, which));
        Some(
            assumed.filter(|a| a.resource_version == reported.resource_version).unwrap_or(reported),
        )
    }

    /// Drops what is not visible, as nothing can read it any more.
    fn collect(&mut self) {
        let reported = self.reported.clone();
        self.assumed.retain(|copy| {
            reported.iter().any(|(object, _)| {
                object.kind == copy.kind
                    && object.name == copy.name
                    && object.resource_version == copy.resource_version
            })
        });
    }
}

fn apply(cluster: &mut ClusterState, model: &mut Model, op: &Op) {
    let objects = cluster.objects_mut();
    let before = objects.sequence();
    let mut is_change = true;
    match *op {
        Op::Apply { kind, which, revision, class, note } => {
            let object = object(kind, which, revision, class, note);
            objects.upsert(object.clone());
            model.reported.retain(|(reported, _)| !is(reported, kind, which));
            model.reported.push((object, class));
        }
        Op::Remove { kind, which } => {
            let namespace = ["", "ns"][kind];
            is_change = objects.remove("", KINDS[kind], namespace, &format!("o{which}")).is_some();
            model.reported.retain(|(reported, _)| !is(reported, kind, which));
        }
        Op::Assume { kind, which, revision, note } => {
            let class = model
                .reported
                .iter()
                .find(|(reported, _)| is(reported, kind, which))
                .map_or(0, |(_, class)| *class);
            let copy = object(kind, which, revision, class, note);
            let expected = match model.reported(kind, which) {
                None => {
                    Err(AssumeObjectError::NotFound { kind: KINDS[kind].into(), key: copy.key() })
                }
                Some(reported) if reported.resource_version != copy.resource_version => {
                    Err(AssumeObjectError::OutOfSync {
                        key: copy.key(),
                        stored: reported.resource_version.clone(),
                        assumed: copy.resource_version.clone(),
                    })
                }
                Some(_) => Ok(()),
            };
            assert_eq!(objects.check_assumable(&copy), expected);
            assert_eq!(objects.assume(copy.clone()), expected);
            is_change = expected.is_ok();
            if is_change {
                model.assumed.retain(|copy| !is(copy, kind, which));
                model.assumed.push(copy);
            }
        }
        Op::Restore { kind, which, revision } => {
            let given = object(kind, which, revision, 0, 0);
            let n_before = model.assumed.len();
            model.assumed.retain(|copy| {
                !is(copy, kind, which) || copy.resource_version != given.resource_version
            });
            is_change = model.assumed.len() < n_before;
            assert_eq!(objects.restore(&given), is_change);
        }
        Op::Fork | Op::Swap => is_change = false,
    }
    assert_eq!(objects.sequence() > before, is_change, "{op:?}");
    model.collect();
}

fn assert_same(cluster: &ClusterState, model: &Model) {
    assert_eq!(check(cluster), []);
    let objects = cluster.objects();
    assert_eq!(objects.n_assumed(), model.assumed.len());
    for kind in 0..2 {
        for which in 0..4 {
            let (namespace, name) = (["", "ns"][kind], format!("o{which}"));
            let found = objects.get("", KINDS[kind], namespace, &name);
            assert_eq!(found, model.reported(kind, which));
            assert_eq!(
                objects.latest("", KINDS[kind], namespace, &name),
                model.latest(kind, which)
            );
        }
    }
    for (at, class) in CLASSES.iter().enumerate() {
        let expected: Vec<&Arc<Object>> = (0..4)
            .filter(|which| {
                model
                    .reported
                    .iter()
                    .any(|(reported, class)| is(reported, 0, *which) && *class == at)
            })
            .filter_map(|which| model.latest(0, which))
            .collect();
        assert_eq!(objects.latest_volumes_of_class(class).collect::<Vec<_>>(), expected);
    }
}

proptest! {
    #![proptest_config(crate::tests::cases(128))]

    #[test]
    fn assumed_objects_show_as_in_plain_lists(ops in prop::collection::vec(op(), 1..60)) {
        let (mut world, mut other) =
            <((ClusterState, Model), (ClusterState, Model))>::default();
        for op in &ops {
            match op {
                Op::Fork => other = world.clone(),
                Op::Swap => std::mem::swap(&mut world, &mut other),
                _ => apply(&mut world.0, &mut world.1, op),
            }
            assert_same(&world.0, &world.1);
            assert_same(&other.0, &other.1);
        }
    }
}

/// The table of the reference's assume cache (`docs/spec/plugins-storage.md` §12).
#[test]
fn an_assumption_lives_as_long_as_the_revision_it_was_made_from() {
    let mut cluster = ClusterState::new();
    let objects = cluster.objects_mut();
    let volume = |revision: &str, note: &str| {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"PersistentVolume","metadata":{{"name":"pv",
                "resourceVersion":"{revision}","labels":{{"note":"{note}"}}}}}}"#
        );
        Arc::new(Object::from_json(json).unwrap())
    };
    let shown = |objects: &crate::ObjectStore| {
        objects
            .latest("", "PersistentVolume", "", "pv")
            .map(|pv| pv.labels.get("note").unwrap().to_owned())
    };
    let text = |error: AssumeObjectError| error.to_string();

    assert_eq!(
        objects.assume(volume("5", "mine")).map_err(text),
        Err("PersistentVolume \"pv\" not found".to_owned())
    );
    objects.upsert(volume("5", "reported"));
    for other in ["4", "6", "x", ""] {
        assert_eq!(
            objects.assume(volume(other, "mine")).map_err(text),
            Err(format!("\"pv\" is out of sync (stored: 5, assume: {other})"))
        );
    }
    assert!(!objects.restore(&volume("5", "")), "nothing to restore");
    assert_eq!(objects.assume(volume("5", "mine")), Ok(()));
    assert_eq!(shown(objects).as_deref(), Some("mine"));
    objects.upsert(volume("5", "reported again"));
    assert_eq!(shown(objects).as_deref(), Some("mine"), "the same revision is no news");
    assert!(!objects.restore(&volume("4", "")), "another revision was assumed");
    assert_eq!(shown(objects).as_deref(), Some("mine"));
    objects.upsert(volume("6", "news"));
    assert_eq!(shown(objects).as_deref(), Some("news"));
    objects.upsert(volume("5", "old news"));
    assert_eq!(shown(objects).as_deref(), Some("old news"), "what was dropped does not come back");
    assert_eq!(objects.assume(volume("5", "mine")), Ok(()));
    objects.remove("", "PersistentVolume", "", "pv");
    assert_eq!(shown(objects), None);
    objects.upsert(volume("5", "new"));
    assert_eq!(shown(objects).as_deref(), Some("new"));
    assert_eq!(objects.assume(volume("5", "mine")), Ok(()));
    assert!(objects.restore(&volume("5", "")));
    assert_eq!(shown(objects).as_deref(), Some("new"));
    assert_eq!(objects.n_assumed(), 0);
}

#[test]
fn some_kinds_have_a_version_of_their_own() {
    let mut cluster = ClusterState::new();
    let objects = cluster.objects_mut();
    let devices = |kind: &str| Reads::of_kind("resource.k8s.io", kind);
    let others = ["", "apps", "resource.k8s.io.example.com", "storage.k8s.io"];
    let kinds = ["A", "DeviceClass", "ResourceClaim"];
    let is_other = |group: &&str| kinds.iter().all(|k| Reads::of_kind(group, k) == Reads::OBJECTS);
    assert!(others.iter().all(is_other));
    assert!(!devices("DeviceClass").intersects(Reads::OBJECTS.union(devices("ResourceClaim"))));
    assert_eq!(devices("ResourceSlice"), devices("ResourceClaim"));
    assert!(
        ["DeviceClass", "ResourceClaim"].iter().all(|k| Reads::ALL_OBJECTS.intersects(devices(k)))
    );
    let selectors = Reads::of_kind("", "Service");
    assert!(!selectors.intersects(Reads::OBJECTS) && Reads::ALL_OBJECTS.intersects(selectors));
    assert!(
        [("", "ReplicationController"), ("apps", "ReplicaSet"), ("apps", "StatefulSet")]
            .iter()
            .all(|(group, kind)| Reads::of_kind(group, kind) == selectors)
    );
    let object = |group: &str, kind: &str| {
        let version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        let json = format!(
            r#"{{"apiVersion":"{version}","kind":"{kind}","metadata":{{"name":"o","resourceVersion":"1"}}}}"#
        );
        Arc::new(Object::from_json(json).unwrap())
    };
    let of_devices = ("resource.k8s.io", ["DeviceClass", "ResourceClaim", "ResourceSlice"]);
    let of_selectors = [("", "Service"), ("apps", "ReplicaSet")];
    let all_kinds = others.map(|group| (group, kinds)).into_iter().chain([of_devices]);
    let all_kinds = all_kinds.flat_map(|(group, kinds)| kinds.map(|kind| (group, kind)));
    for (group, kind) in all_kinds.chain(of_selectors) {
        let changed = Reads::of_kind(group, kind);
        let all = [Reads::OBJECTS, devices("DeviceClass"), devices("ResourceClaim"), selectors];
        let kept = all.into_iter().filter(|reads| *reads != changed);
        let kept = kept.fold(Reads::NOTHING, Reads::union);
        let mut last = objects.versions();
        let mut assert_changed = |objects: &crate::ObjectStore, what: &str| {
            let now = objects.versions();
            assert!(!last.agree(&now, changed), "{what} {group} {kind}");
            assert!(last.agree(&now, kept), "{what} {group} {kind}");
            assert!(!last.agree(&now, changed.union(kept)), "{what} {group} {kind}");
            last = now;
        };
        objects.upsert(object(group, kind));
        assert_changed(objects, "added");
        objects.assume(object(group, kind)).unwrap();
        assert_changed(objects, "assumed");
        assert!(objects.restore(&object(group, kind)));
        assert_changed(objects, "restored");
        objects.remove(group, kind, "", "o").unwrap();
        assert_changed(objects, "removed");
    }
}

/// However often a pod's claims are created again, what is noted of it is bounded by the claims that there are.
#[test]
fn writes_without_an_answer_are_noted_while_pod_and_object_are_there() {
    let mut cluster = ClusterState::new();
    let uid: Arc<str> = "pod".into();
    for which in 0..3 {
        cluster.upsert_object(object(1, which, 1, 0, 0));
    }
    let objects = cluster.objects_mut();
    let known = object(1, 0, 1, 0, 0);
    objects.note_unanswered(
        &ObjectKey::from(&*known),
        &uid,
        Some(known.resource_version.clone()),
        false,
    );
    objects.note_unanswered(&ObjectKey::from(&*object(1, 1, 1, 0, 0)), &uid, None, false);
    objects.note_unanswered(&ObjectKey::from(&*object(1, 9, 1, 0, 0)), &uid, None, false);
    assert_eq!(objects.n_unanswered(), 2);
    assert!(objects.unanswered(&known, &uid).unwrap().ends(&known));
    assert!(!objects.unanswered(&known, &uid).unwrap().ends(&object(1, 0, 2, 0, 0)));
    assert!(!objects.unanswered(&object(1, 1, 1, 0, 0), &uid).unwrap().ends(&known));
    assert_eq!(objects.unanswered(&known, "another"), None);
    objects.note_unanswered(&ObjectKey::from(&*known), &"another".into(), None, false);
    assert_eq!(objects.n_unanswered(), 3);
    assert!(objects.unanswered_of_any(&known).unwrap().ends(&known), "the stronger one");
    assert!(!objects.unanswered_of_any(&object(1, 0, 2, 0, 0)).unwrap().ends(&known));
    assert_eq!(objects.unanswered_of_any(&object(1, 2, 1, 0, 0)), None);
    objects.forget_unanswered("another");
    assert_eq!(objects.n_unanswered(), 2);

    // A copy goes its own way.
    let copy = cluster.clone();
    cluster.objects_mut().forget_unanswered(&uid);
    assert_eq!((cluster.objects().n_unanswered(), copy.objects().n_unanswered()), (0, 2));

    let mut cluster = copy;
    cluster.remove_object("", KINDS[1], "ns", "o0");
    cluster.remove_object("", KINDS[1], "ns", "o1");
    let last = ObjectKey::from(&*object(1, 2, 1, 0, 0));
    cluster.objects_mut().note_unanswered(&last, &uid, None, false);
    assert_eq!(cluster.objects().n_unanswered(), 1);
}

/// A patch of one revision may have an effect as long as the object has that, whatever became of the pod.
#[test]
fn a_patch_of_one_revision_is_noted_until_there_is_another() {
    let mut cluster = ClusterState::new();
    let (uid, gone): (Arc<str>, Arc<str>) = ("pod".into(), "gone".into());
    let [known, later] = [1, 2].map(|revision| object(1, 0, revision, 0, 0));
    cluster.upsert_object(known.clone());
    let key = ObjectKey::from(&*known);
    let revision = Some(known.resource_version.clone());
    let objects = cluster.objects_mut();
    objects.note_unanswered(&key, &uid, revision.clone(), true);
    objects.note_unanswered(&key, &gone, revision.clone(), true);
    objects.forget_unanswered(&gone);
    assert_eq!(objects.n_unanswered(), 2);
    assert!(!objects.unanswered_of_any(&known).unwrap().ends(&known));
    assert_eq!(objects.unanswered_of_any(&later), None);

    cluster.upsert_object(later);
    assert_eq!(cluster.objects().n_unanswered(), 0);
    // What is over when it is asked for has no effect.
    cluster.objects_mut().note_unanswered(&key, &uid, revision, true);
    assert_eq!(cluster.objects().n_unanswered(), 0);

    let revision = Some("2".into());
    let last = cluster.objects().get("", KINDS[1], "ns", "o0").unwrap().resource_version.clone();
    assert_eq!(Some(&last), revision.as_ref());
    cluster.objects_mut().note_unanswered(&key, &uid, revision, true);
    assert_eq!(cluster.objects().n_unanswered(), 1);
    cluster.remove_object("", KINDS[1], "ns", "o0");
    assert_eq!(cluster.objects().n_unanswered(), 0);
}

proptest! {
    /// Notes of patches of one revision, against a model: a pod has one for each object, all pods that are gone have one together, and
    /// a new revision or the end of the object ends them.
    #[test]
    fn patches_of_one_revision_are_noted_once_for_all_pods_that_are_gone(
        turns in prop::collection::vec((0..4_u8, 0..3_u8, 0..5_usize), 0..60),
    ) {
        let mut cluster = ClusterState::new();
        let mut revisions = [1_u8; 3];
        (0..3).for_each(|which| drop(cluster.upsert_object(object(1, which, 1, 0, 0))));
        let mut noted: BTreeSet<(u8, usize)> = BTreeSet::new();
        const GONE: usize = 99;
        for (turn, which, pod) in turns {
            let revision = &mut revisions[usize::from(which)];
            let uid: Arc<str> = format!("pod-{pod}").into();
            match turn {
                0 => {
                    let key = ObjectKey::from(&*object(1, which, *revision, 0, 0));
                    let named = Some(revision.to_string().into());
                    cluster.objects_mut().note_unanswered(&key, &uid, named, true);
                    noted.insert((which, pod));
                }
                1 => {
                    cluster.objects_mut().forget_unanswered(&uid);
                    let of_pod: Vec<_> = noted.iter().filter(|of| of.1 == pod).copied().collect();
                    for of in of_pod {
                        noted.remove(&of);
                        noted.insert((of.0, GONE));
                    }
                }
                2 => {
                    *revision += 1;
                    cluster.upsert_object(object(1, which, *revision, 0, 0));
                    noted.retain(|of| of.0 != which);
                }
                _ => {
                    cluster.remove_object("", KINDS[1], "ns", &format!("o{which}"));
                    cluster.upsert_object(object(1, which, *revision, 0, 0));
                    noted.retain(|of| of.0 != which);
                }
            }
            prop_assert_eq!(cluster.objects().n_unanswered(), noted.len());
            for which in 0..3 {
                let known = object(1, which, revisions[usize::from(which)], 0, 0);
                let is_noted = noted.iter().any(|of| of.0 == which);
                let found = cluster.objects().unanswered_of_any(&known);
                prop_assert_eq!(found.map(|write| write.ends(&known)), is_noted.then_some(false));
            }
        }
    }
}
