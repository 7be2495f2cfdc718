//! Pod status.

use super::fault::FieldContext;
use super::fields::{Amounts, FieldResult, Message, fields};
use crate::wire::{
    ContainerExtendedResourceRequest, ContainerStatus, ExtendedResourceClaimStatus,
    NodeAllocatableResourceClaimStatus, PodCondition, PodStatus, ResourceClaimStatus,
};

impl Message for PodStatus {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        let mut allocated = Amounts::default();
        fields(bytes, |number, value| {
            match number {
                1 => self.phase = value.text().at("phase")?,
                2 => value.push("conditions", &mut self.conditions)?,
                7 => self.start_time = value.date().at("startTime")?,
                8 => value.push("containerStatuses", &mut self.container_statuses)?,
                10 => value.push("initContainerStatuses", &mut self.init_container_statuses)?,
                11 => self.nominated_node_name = value.text().at("nominatedNodeName")?,
                15 => value.push("resourceClaimStatuses", &mut self.resource_claim_statuses)?,
                18 => value
                    .merge_some(&mut self.extended_resource_claim_status)
                    .at("extendedResourceClaimStatus")?,
                19 => allocated.take("allocatedResources", value)?,
                20 => value.merge_some(&mut self.resources).at("resources")?,
                21 => value.push(
                    "nodeAllocatableResourceClaimStatuses",
                    &mut self.node_allocatable_resource_claim_statuses,
                )?,
                _ => {}
            }
            Ok(())
        })?;
        allocated.add_to(&mut self.allocated_resources);
        Ok(())
    }
}

impl Message for PodCondition {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                1 => self.kind = value.text().at("type")?,
                2 => self.status = value.text().at("status")?,
                3 => self.last_probe_time = value.date().at("lastProbeTime")?,
                4 => self.last_transition_time = value.date().at("lastTransitionTime")?,
                5 => self.reason = value.text().at("reason")?,
                6 => self.message = value.text().at("message")?,
                7 => self.observed_generation = Some(value.int64().at("observedGeneration")?),
                _ => {}
            }
            Ok(())
        })
    }
}

impl Message for ContainerStatus {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        let mut allocated = Amounts::default();
        fields(bytes, |number, value| {
            match number {
                1 => self.name = value.text().at("name")?,
                10 => allocated.take("allocatedResources", value)?,
                11 => value.merge_some(&mut self.resources).at("resources")?,
                _ => {}
            }
            Ok(())
        })?;
        allocated.add_to(&mut self.allocated_resources);
        Ok(())
    }
}

impl Message for ResourceClaimStatus {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                1 => self.name = value.text().at("name")?,
                2 => self.resource_claim_name = Some(value.text().at("resourceClaimName")?),
                _ => {}
            }
            Ok(())
        })
    }
}

impl Message for ExtendedResourceClaimStatus {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                1 => value.push("requestMappings", &mut self.request_mappings)?,
                2 => self.resource_claim_name = value.text().at("resourceClaimName")?,
                _ => {}
            }
            Ok(())
        })
    }
}

impl Message for ContainerExtendedResourceRequest {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                1 => self.container_name = value.text().at("containerName")?,
                2 => self.resource_name = value.text().at("resourceName")?,
                3 => self.request_name = value.text().at("requestName")?,
                _ => {}
            }
            Ok(())
        })
    }
}

impl Message for NodeAllocatableResourceClaimStatus {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        let mut resources = Amounts::default();
        fields(bytes, |number, value| {
            match number {
                1 => self.resource_claim_name = value.text().at("resourceClaimName")?,
                2 => self.containers.0.push(value.text().at("containers")?),
                3 => resources.take("resources", value)?,
                _ => {}
            }
            Ok(())
        })?;
        resources.add_to(&mut self.resources);
        Ok(())
    }
}
