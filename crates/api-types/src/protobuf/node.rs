//! Nodes.

use super::fault::FieldContext;
use super::fields::{Amounts, FieldResult, Message, fields};
use super::meta::read_meta;
use crate::wire::{ContainerImage, Node, NodeCondition, NodeSpec, NodeStatus, Taint};

impl Message for Node {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| match number {
            1 => read_meta(&mut self.metadata, value, true).at("metadata"),
            2 => value.merge(&mut self.spec).at("spec"),
            3 => value.merge(&mut self.status).at("status"),
            _ => Ok(()),
        })
    }
}

impl Message for NodeSpec {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                4 => self.unschedulable = Some(value.bool().at("unschedulable")?),
                5 => value.push("taints", &mut self.taints)?,
                _ => {}
            }
            Ok(())
        })
    }
}

impl Message for Taint {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                1 => self.key = value.text().at("key")?,
                2 => self.value = value.text().at("value")?,
                3 => self.effect = value.text().at("effect")?,
                4 => self.time_added = value.date().at("timeAdded")?,
                _ => {}
            }
            Ok(())
        })
    }
}

impl Message for NodeStatus {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        let mut allocatable = Amounts::default();
        fields(bytes, |number, value| match number {
            2 => allocatable.take("allocatable", value),
            4 => value.push("conditions", &mut self.conditions),
            8 => value.push("images", &mut self.images),
            14 => value.push_text("declaredFeatures", &mut self.declared_features),
            _ => Ok(()),
        })?;
        allocatable.add_to(&mut self.allocatable);
        Ok(())
    }
}

impl Message for NodeCondition {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                1 => self.kind = value.text().at("type")?,
                2 => self.status = value.text().at("status")?,
                _ => {}
            }
            Ok(())
        })
    }
}

impl Message for ContainerImage {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                1 => value.push_text("names", &mut self.names)?,
                2 => self.size_bytes = Some(value.int64().at("sizeBytes")?),
                _ => {}
            }
            Ok(())
        })
    }
}
