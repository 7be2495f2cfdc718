//! Containers and what they ask for.

use super::fault::FieldContext;
use super::fields::{Amounts, FieldResult, Message, fields};
use crate::wire::{Container, ContainerPort, RestartRule, UsedClaim, WorkloadResources};

impl Message for Container {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                1 => self.name = value.text().at("name")?,
                2 => self.image = value.text().at("image")?,
                6 => value.push("ports", &mut self.ports)?,
                8 => value.merge(&mut self.resources).at("resources")?,
                24 => self.restart_policy = Some(value.text().at("restartPolicy")?),
                25 => value.push("restartPolicyRules", &mut self.restart_policy_rules)?,
                _ => {}
            }
            Ok(())
        })
    }
}

impl Message for ContainerPort {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                2 => self.host_port = Some(value.int32().at("hostPort")?),
                4 => self.protocol = value.text().at("protocol")?,
                5 => self.host_ip = value.text().at("hostIP")?,
                _ => {}
            }
            Ok(())
        })
    }
}

impl Message for RestartRule {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            if number == 1 {
                self.action = value.text().at("action")?;
            }
            Ok(())
        })
    }
}

impl Message for WorkloadResources {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        let (mut limits, mut requests) = (Amounts::default(), Amounts::default());
        fields(bytes, |number, value| match number {
            1 => limits.take("limits", value),
            2 => requests.take("requests", value),
            3 => value.push("claims", &mut self.claims),
            _ => Ok(()),
        })?;
        limits.add_to(&mut self.limits);
        requests.add_to(&mut self.requests);
        Ok(())
    }
}

impl Message for UsedClaim {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            if number == 1 {
                self.name = value.text().at("name")?;
            }
            Ok(())
        })
    }
}
