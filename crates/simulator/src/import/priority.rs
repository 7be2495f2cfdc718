//! Priority classes, which determine the priority of pods on creation.

use std::collections::BTreeMap;

use serde_json::Value;

use super::manifest::Document;

/// Classes that every cluster has.
const BUILT_IN: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

#[derive(Clone, Debug)]
struct PriorityClass {
    value: i32,
    preemption_policy: Option<String>,
}

/// A priority class without a usable value.
pub(super) struct PriorityClassError {
    /// The position of the class among the documents.
    pub(super) document: usize,
    pub(super) reason: String,
}

/// A priority class that is not in the input, by name.
pub(super) struct UnknownClass(pub(super) String);

/// All priority classes of an input.
#[derive(Debug)]
pub(super) struct PriorityClasses {
    by_name: BTreeMap<String, PriorityClass>,
    /// The class of pods without a class.
    default: Option<PriorityClass>,
}

impl PriorityClasses {
    /// Collects the classes of all documents.
    pub(super) fn collect(documents: &[Document]) -> Result<Self, PriorityClassError> {
        let built_in = |(name, value): (&str, i32)| {
            (name.to_owned(), PriorityClass { value, preemption_policy: None })
        };
        let mut classes = Self { by_name: BUILT_IN.map(built_in).into(), default: None };
        for (at, document) in documents.iter().enumerate() {
            if !document.is_of("scheduling.k8s.io", "PriorityClass") {
                continue;
            }
            let given = document.value.get("value").unwrap_or(&Value::Null);
            let value = given.as_i64().and_then(|value| i32::try_from(value).ok());
            let Some(value) = value else {
                let title = document.title();
                let reason =
                    format!("{title}: value: expected an integer of 32 bits, found {given}");
                return Err(PriorityClassError { document: at, reason });
            };
            let policy = document.value.get("preemptionPolicy").and_then(Value::as_str);
            let class = PriorityClass { value, preemption_policy: policy.map(str::to_owned) };
            if document.value.get("globalDefault").and_then(Value::as_bool) == Some(true) {
                // Of several defaults the lowest counts, as on admission.
                let is_lower =
                    classes.default.as_ref().is_none_or(|default| class.value < default.value);
                if is_lower {
                    classes.default = Some(class.clone());
                }
            }
            classes.by_name.insert(document.namespace_and_name().1, class);
        }
        Ok(classes)
    }

    /// Sets the priority of a pod or a group of pods that has none.
    pub(super) fn complete(&self, object: &mut Value) -> Result<(), UnknownClass> {
        let is_pod = object["kind"] == "Pod";
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
            return Ok(());
        };
        if spec.get("priority").is_some_and(|priority| !priority.is_null()) {
            return Ok(());
        }
        let name = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default();
        let class = if name.is_empty() {
            self.default.as_ref()
        } else {
            Some(self.by_name.get(name).ok_or_else(|| UnknownClass(name.to_owned()))?)
        };
        if let Some(class) = class {
            spec.insert("priority".to_owned(), class.value.into());
            if let Some(policy) = class.preemption_policy.as_ref().filter(|_| is_pod)
                && spec.get("preemptionPolicy").is_none_or(Value::is_null)
            {
                spec.insert("preemptionPolicy".to_owned(), policy.as_str().into());
            }
        }
        Ok(())
    }
}
