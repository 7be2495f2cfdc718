//! What an object's JSON is read as, kept with the object.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::Json;

/// The form in which an object was read first. Copies that are made afterwards share it, and it is gone with the last of them.
#[derive(Clone, Default)]
pub(super) struct ObjectForm(OnceLock<Form>);

#[derive(Clone)]
struct Form {
    /// What it was read from. A copy of the object may have been given other JSON since.
    json: Arc<Json>,
    form: Arc<dyn Any + Send + Sync>,
}

impl ObjectForm {
    /// What `read` makes of `json`. It is kept unless something else was kept before.
    pub(super) fn get<T: Send + Sync + 'static>(
        &self,
        json: &Arc<Json>,
        read: impl Fn(&Json) -> T,
    ) -> Arc<T> {
        let first = || Form { json: json.clone(), form: Arc::new(read(json)) };
        let known = self.0.get_or_init(first);
        let is_of_json = Arc::ptr_eq(&known.json, json);
        let known = is_of_json.then(|| known.form.clone().downcast().ok()).flatten();
        known.unwrap_or_else(|| Arc::new(read(json)))
    }
}

/// A form follows from the JSON, which is compared already.
impl PartialEq for ObjectForm {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for ObjectForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "read" } else { "not read" })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use serde_json::json;

    use crate::{Json, Object};

    fn object() -> Object {
        let json = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"n": 1}});
        Object::from_value(json).unwrap()
    }

    fn n(json: &Json) -> Option<i64> {
        json["spec"]["n"].as_i64()
    }

    #[test]
    fn it_is_read_once_and_gone_with_the_object() {
        let (object, n_times) = (object(), Cell::new(0));
        let read = |json: &Json| {
            n_times.set(n_times.get() + 1);
            n(json)
        };
        let form = object.read_as(read);
        let copy = object.clone();
        assert!(Arc::ptr_eq(&form, &copy.read_as(read)));
        assert_eq!((*form, n_times.get()), (Some(1), 1));
        let kept = Arc::downgrade(&form);
        drop((form, object));
        assert!(kept.upgrade().is_some());
        drop(copy);
        assert!(kept.upgrade().is_none());
    }

    #[test]
    fn other_json_and_other_types_are_read_anew() {
        let object = object();
        assert_eq!(*object.read_as(n), Some(1));
        let mut changed = object.clone();
        changed.set_field(&["spec", "n"], json!(2).into());
        assert_eq!(*changed.read_as(n), Some(2));
        let other = object.clone().with_json(json!({"spec": {"n": 3}}));
        assert_eq!(*other.read_as(n), Some(3));
        let mut replaced = object.clone();
        replaced.json = Arc::new(json!({"spec": {"n": 4}}).into());
        assert_eq!(*replaced.read_as(n), Some(4));
        assert_eq!(*object.read_as(|json| json["spec"]["n"].to_string()), "1");
        assert_eq!(*object.read_as(n), Some(1));
    }
}
