//! Pods, except for their containers, affinities, volumes and status.

use super::fault::FieldContext;
use super::fields::{Amounts, FieldResult, Message, Pairs, fields};
use super::meta::read_meta;
use crate::wire::{Pod, PodResourceClaim, PodSpec, SchedulingGate, SchedulingGroup, Toleration};

impl Message for Pod {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| match number {
            1 => read_meta(&mut self.metadata, value, false).at("metadata"),
            2 => value.merge(&mut self.spec).at("spec"),
            3 => value.merge(&mut self.status).at("status"),
            _ => Ok(()),
        })
    }
}

impl Message for PodSpec {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        let (mut node_selector, mut overhead) = (Pairs::default(), Amounts::default());
        fields(bytes, |number, value| {
            match number {
                1 => value.push("volumes", &mut self.volumes)?,
                2 => value.push("containers", &mut self.containers)?,
                7 => node_selector.take("nodeSelector", value)?,
                10 => self.node_name = value.text().at("nodeName")?,
                11 => self.host_network = Some(value.bool().at("hostNetwork")?),
                18 => value.merge(&mut **self.affinity.get_or_insert_default()).at("affinity")?,
                19 => self.scheduler_name = value.text().at("schedulerName")?,
                20 => value.push("initContainers", &mut self.init_containers)?,
                22 => value.push("tolerations", &mut self.tolerations)?,
                25 => self.priority = Some(value.int32().at("priority")?),
                31 => self.preemption_policy = Some(value.text().at("preemptionPolicy")?),
                32 => overhead.take("overhead", value)?,
                33 => value
                    .push("topologySpreadConstraints", &mut self.topology_spread_constraints)?,
                37 => self.host_users = Some(value.bool().at("hostUsers")?),
                38 => value.push("schedulingGates", &mut self.scheduling_gates)?,
                39 => value.push("resourceClaims", &mut self.resource_claims)?,
                40 => value.merge_some(&mut self.resources).at("resources")?,
                43 => value.merge_some(&mut self.scheduling_group).at("schedulingGroup")?,
                _ => {}
            }
            Ok(())
        })?;
        if !node_selector.is_empty() {
            node_selector.add_to(self.node_selector.get_or_insert_default());
        }
        overhead.add_to(&mut self.overhead);
        Ok(())
    }
}

impl Message for Toleration {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                1 => self.key = value.text().at("key")?,
                2 => self.operator = value.text().at("operator")?,
                3 => self.value = value.text().at("value")?,
                4 => self.effect = value.text().at("effect")?,
                5 => self.toleration_seconds = Some(value.int64().at("tolerationSeconds")?),
                _ => {}
            }
            Ok(())
        })
    }
}

impl Message for SchedulingGate {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            if number == 1 {
                self.name = value.text().at("name")?;
            }
            Ok(())
        })
    }
}

impl Message for PodResourceClaim {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                1 => self.name = value.text().at("name")?,
                3 => self.resource_claim_name = Some(value.text().at("resourceClaimName")?),
                4 => {
                    let template = value.text().at("resourceClaimTemplateName")?;
                    self.resource_claim_template_name = Some(template);
                }
                _ => {}
            }
            Ok(())
        })
    }
}

impl Message for SchedulingGroup {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            if number == 1 {
                self.pod_group_name = Some(value.text().at("podGroupName")?);
            }
            Ok(())
        })
    }
}
