//! Object metadata.

use super::Value;
use super::fault::FieldContext;
use super::fields::{FieldResult, Message, Pairs, fields};
use crate::wire::{ObjectMeta, OwnerReference};

/// Reads metadata. The annotations of pods are skipped, since no decision reads them.
pub(super) fn read_meta(
    meta: &mut ObjectMeta,
    value: Value<'_>,
    has_annotations: bool,
) -> FieldResult {
    let (mut labels, mut annotations) = (Pairs::default(), Pairs::default());
    fields(value.bytes()?, |number, value| {
        match number {
            1 => meta.name = value.text().at("name")?,
            3 => meta.namespace = value.text().at("namespace")?,
            5 => meta.uid = value.text().at("uid")?,
            6 => meta.resource_version = value.text().at("resourceVersion")?,
            7 => meta.generation = Some(value.int64().at("generation")?),
            8 => meta.creation_timestamp = value.date().at("creationTimestamp")?,
            9 => meta.deletion_timestamp = value.date().at("deletionTimestamp")?,
            11 => labels.take("labels", value)?,
            12 if has_annotations => annotations.take("annotations", value)?,
            13 => value.push("ownerReferences", &mut meta.owner_references)?,
            _ => {}
        }
        Ok(())
    })?;
    labels.add_to(&mut meta.labels);
    annotations.add_to(&mut meta.annotations);
    Ok(())
}

impl Message for OwnerReference {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                1 => self.kind = value.text().at("kind")?,
                3 => self.name = value.text().at("name")?,
                4 => self.uid = value.text().at("uid")?,
                5 => self.api_version = value.text().at("apiVersion")?,
                6 => self.controller = Some(value.bool().at("controller")?),
                _ => {}
            }
            Ok(())
        })
    }
}
