//! Pending and confirmed objects, against plain lists.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_api_types::Object;
use proptest::prelude::*;

use crate::ClusterState;

const GROUP: &str = "resource.k8s.io";
const KIND: &str = "ResourceClaim";

fn claim(which: u8, uid: u8, revision: u8, note: u8) -> Arc<Object> {
    let json = format!(
        r#"{{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{{"name":"c{which}","namespace":"ns",
            "uid":"u{uid}","resourceVersion":"{revision}","labels":{{"note":"{note}"}}}}}}"#
    );
    Arc::new(Object::from_json(json).unwrap())
}

#[derive(Clone, Debug)]
enum Op {
    Add { uid: u8, note: u8 },
    Take { uid: u8, for_all: bool },
    Watch { which: u8, uid: u8, revision: u8, note: u8 },
    Confirm { which: u8, uid: u8, revision: u8, note: u8 },
    Remove { which: u8 },
}

fn op() -> impl Strategy<Value = Op> {
    let (which, uid, revision, note) = (0_u8..3, 0_u8..3, 1_u8..12, any::<u8>());
    let of_claim = (which.clone(), uid.clone(), revision, note);
    prop_oneof![
        2 => (uid.clone(), note).prop_map(|(uid, note)| Op::Add { uid, note }),
        2 => (uid, any::<bool>()).prop_map(|(uid, for_all)| Op::Take { uid, for_all }),
        4 => of_claim.clone().prop_map(|(which, uid, revision, note)| Op::Watch { which, uid, revision, note }),
        3 => of_claim.prop_map(|(which, uid, revision, note)| Op::Confirm { which, uid, revision, note }),
        1 => which.prop_map(|which| Op::Remove { which }),
    ]
}

/// One stored claim: uid, revision, note, and whether the revision is known from an answer alone.
type Stored = (u8, u8, u8, bool);

#[derive(Default)]
struct Model {
    /// Note and number of sharers, by uid.
    pending: BTreeMap<u8, (u8, usize)>,
    stored: BTreeMap<u8, Stored>,
}

fn apply(cluster: &mut ClusterState, model: &mut Model, op: &Op) {
    match *op {
        Op::Add { uid, note } => {
            cluster.objects_mut().add_pending(claim(0, uid, 1, note));
            model.pending.entry(uid).or_insert((note, 0)).1 += 1;
        }
        Op::Take { uid, for_all } => {
            let left = model.pending.get(&uid).map(|(_, n)| if for_all { 0 } else { n - 1 });
            let is_over =
                cluster.objects_mut().remove_pending(GROUP, KIND, &format!("u{uid}"), for_all);
            assert_eq!(is_over.is_some(), left == Some(0));
            match left {
                Some(0) => drop(model.pending.remove(&uid)),
                Some(n) => model.pending.get_mut(&uid).unwrap().1 = n,
                None => {}
            }
        }
        Op::Watch { which, uid, revision, note } => {
            let object = claim(which, uid, revision, note);
            let known = model.stored.get(&which);
            let is_stale = known.is_some_and(|(known_uid, known, _, is_confirmed)| {
                *is_confirmed && *known_uid == uid && revision <= *known
            });
            assert_eq!(cluster.objects().is_stale(&object), is_stale);
            if !is_stale {
                cluster.upsert_object(object);
                model.stored.insert(which, (uid, revision, note, false));
            }
        }
        Op::Confirm { which, uid, revision, note } => {
            let known = model.stored.get(&which);
            let is_news = known.is_some_and(|known| known.0 == uid && known.1 < revision);
            let old = cluster.confirm_object(claim(which, uid, revision, note));
            assert_eq!(old.is_some(), is_news);
            if is_news {
                model.stored.insert(which, (uid, revision, note, true));
            }
        }
        Op::Remove { which } => {
            let removed = cluster.remove_object(GROUP, KIND, "ns", &format!("c{which}"));
            assert_eq!(removed.is_some(), model.stored.remove(&which).is_some());
        }
    }
}

proptest! {
    #![proptest_config(crate::tests::cases(256))]

    #[test]
    fn pending_and_confirmed_objects_show_as_in_plain_lists(ops in prop::collection::vec(op(), 1..60)) {
        let (mut cluster, mut model) = (ClusterState::new(), Model::default());
        for op in &ops {
            let before = cluster.objects().kind_sequence(GROUP, KIND);
            apply(&mut cluster, &mut model, op);
            let objects = cluster.objects();
            prop_assert!(objects.kind_sequence(GROUP, KIND) >= before);
            for uid in 0..3 {
                let found = objects.pending(GROUP, KIND, &format!("u{uid}"));
                let note = found.map(|object| object.labels.get("note").unwrap().to_owned());
                prop_assert_eq!(note, model.pending.get(&uid).map(|(note, _)| note.to_string()));
            }
            prop_assert_eq!(objects.list_pending(GROUP, KIND).count(), model.pending.len());
            prop_assert_eq!(objects.n_pending(), model.pending.len());
            for which in 0..3 {
                let found = objects.get(GROUP, KIND, "ns", &format!("c{which}"));
                let stored = found.map(|object| (**object).clone());
                let expected = model.stored.get(&which);
                let expected = expected
                    .map(|(uid, revision, note, _)| (*claim(which, *uid, *revision, *note)).clone());
                prop_assert_eq!(stored, expected);
            }
        }
    }
}
