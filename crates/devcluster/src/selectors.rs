//! Which objects a list, watch or deletecollection request means: a namespace, a label selector and a field selector.
//!
//! The grammar of both selectors and the matching of labels are those of `kube_scheduler_api_types`. Added here: field
//! names are looked up in the table of kinds once, when the selector is read, so that matching an object compares
//! positions instead of names; and an invalid selector is rejected with status 400, as by an API server.

use std::sync::Arc;

use kube_scheduler_api_types::{
    FieldComparison, FieldSelector, LabelSelector, SelectorError, wire,
};
use serde::Deserialize;
use serde_json::Value;

use crate::kinds::{Kind, KindId};
use crate::object::StoredObject;
use crate::status::StatusError;

/// Which objects of a kind are selected. All conditions must hold; the default has none and selects everything.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    pub(crate) namespace: Option<String>,
    labels: LabelSelector,
    fields: Vec<FieldTerm>,
}

impl Selection {
    /// Everything, in all namespaces.
    pub fn all() -> Self {
        Self::default()
    }

    /// Restricts to one namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Restricts by a label selector such as `tier in (web, cache),!canary`.
    ///
    /// # Errors
    /// Status 400 if the selector cannot be read.
    pub fn labels(mut self, selector: &str) -> Result<Self, StatusError> {
        self.labels = LabelSelector::parse(selector).map_err(|error| refusal(&error))?;
        Ok(self)
    }

    /// Restricts by a field selector of `kind`, such as `spec.nodeName=,status.phase!=Failed`.
    ///
    /// # Errors
    /// Status 400 if the selector cannot be read or names a field that objects of `kind` cannot be selected by.
    pub fn fields(mut self, kind: KindId, selector: &str) -> Result<Self, StatusError> {
        let selector = FieldSelector::parse(selector).map_err(|error| refusal(&error))?;
        let terms = selector.comparisons().iter();
        self.fields =
            terms.map(|term| FieldTerm::resolve(kind.get(), term)).collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// Whether `object` is selected.
    pub fn matches(&self, object: &StoredObject) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| namespace == object.namespace())
            && self.fields.iter().all(|term| term.matches(object))
            && self.labels.matches(object.labels())
    }

    /// Whether every object is selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.namespace.is_none() && self.fields.is_empty() && self.labels.is_empty()
    }
}

/// The label selector that stands in an object as `matchLabels` and `matchExpressions`; `None` if it is malformed.
/// Controllers treat a malformed selector as one that selects nothing.
pub(crate) fn label_selector_in(object: &Value) -> Option<LabelSelector> {
    let written = wire::LabelSelector::deserialize(object).ok()?;
    LabelSelector::from_wire(&written).ok()
}

/// One comparison of a field selector.
#[derive(Debug, Clone)]
struct FieldTerm {
    field: Field,
    value: Arc<str>,
    is_equal: bool,
}

#[derive(Debug, Clone, Copy)]
enum Field {
    Name,
    Namespace,
    /// Position among the selectable fields of the kind.
    Indexed(usize),
}

impl FieldTerm {
    fn resolve(kind: &Kind, comparison: &FieldComparison) -> Result<Self, StatusError> {
        let field = match &*comparison.field {
            "metadata.name" => Field::Name,
            "metadata.namespace" => Field::Namespace,
            other => Field::Indexed(kind.field_index(other).ok_or_else(|| {
                StatusError::bad_request(format!("field label not supported: {other}"))
            })?),
        };
        Ok(Self { field, value: comparison.value.clone(), is_equal: comparison.is_equal })
    }

    fn matches(&self, object: &StoredObject) -> bool {
        let value = match self.field {
            Field::Name => object.name(),
            Field::Namespace => object.namespace(),
            Field::Indexed(index) => object.field(index),
        };
        (*value == *self.value) == self.is_equal
    }
}

fn refusal(error: &SelectorError) -> StatusError {
    StatusError::bad_request(match error {
        // Says so itself.
        SelectorError::Syntax(_) => error.to_string(),
        _ => format!("unable to parse requirement: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::kinds::PODS;

    #[test]
    fn field_selectors_escape_and_negate() {
        let pod = json!({"metadata": {"name": "a,b=c"}, "status": {"phase": "Running"}});
        let object = StoredObject::freeze(PODS, &pod, 1);
        let matches =
            |text: &str| Selection::all().fields(PODS, text).expect("valid").matches(&object);
        assert!(matches("metadata.name=a\\,b\\=c"));
        assert!(matches("status.phase!=Failed,spec.nodeName="));
        assert!(!matches("status.phase==Failed"));
        assert!(Selection::all().fields(PODS, "status.phase").is_err());
        assert!(Selection::all().fields(PODS, "involvedObject.name=a").is_err());
    }

    #[test]
    fn malformed_label_selectors_are_refused() {
        for text in [
            "a=b,", ",a", "a in b", "a in (b", "a b", "=b", "!", "a==!b", "-a=b", "a=b c", "a>x",
            "x/y/z=1",
        ] {
            let error = Selection::all().labels(text).expect_err(text);
            assert_eq!(error.code(), 400);
            let message = error.to_string();
            assert!(message.starts_with("unable to parse requirement: "), "{text}: {message}");
        }
    }

    #[test]
    fn a_selector_in_an_object_is_one_or_none() {
        let labels = [("app", "web")].into_iter().collect();
        let matches = |selector: Value| label_selector_in(&selector).map(|it| it.matches(&labels));
        assert_eq!(matches(json!({"matchLabels": {"app": "web"}})), Some(true));
        let not_web = json!([{"key": "app", "operator": "NotIn", "values": ["web"]}]);
        assert_eq!(matches(json!({"matchExpressions": not_web})), Some(false));
        assert_eq!(matches(json!({})), Some(true));
        let unknown = json!([{"key": "app", "operator": "Like", "values": ["web"]}]);
        assert_eq!(matches(json!({"matchExpressions": unknown})), None);
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "[ka-c=!,()<>in \\-\\./\\\\]{0,24}") {
            let _ = Selection::all().labels(&text);
            let _ = Selection::all().fields(PODS, &text);
        }
    }
}
