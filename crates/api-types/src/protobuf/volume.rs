//! Volumes: those that matter to scheduling, recognised by their field numbers.

use std::sync::Arc;

use super::Value;
use super::fault::FieldContext;
use super::fields::{FieldResult, Message, fields};
use super::volume_json;
use crate::storage::VolumeSource;
use crate::wire::{Text, Volume};

impl Message for Volume {
    fn read(&mut self, bytes: &[u8]) -> FieldResult {
        fields(bytes, |number, value| {
            match number {
                1 => self.name = value.text().at("name")?,
                2 => fields(value.bytes()?, |number, value| read_source(self, number, value))?,
                _ => {}
            }
            Ok(())
        })
    }
}

fn read_source(volume: &mut Volume, number: u32, value: Value<'_>) -> FieldResult {
    volume.source = Some(match number {
        3 => gce_persistent_disk(value).at("gcePersistentDisk")?,
        4 => {
            let volume_id = text_at(value, 1).at("awsElasticBlockStore")?;
            VolumeSource::AwsElasticBlockStore { volume_id }
        }
        8 => iscsi(value).at("iscsi")?,
        10 => claim(value).at("persistentVolumeClaim")?,
        11 => rbd(value).at("rbd")?,
        28 => VolumeSource::Csi { driver: text_at(value, 1).at("csi")? },
        29 => ephemeral(value).at("ephemeral")?,
        _ => {
            if number == 30 {
                volume.image_reference = Some(Text(text_at(value, 1).at("image")?));
            }
            match volume_json::source(number) {
                Some(known) => VolumeSource::Other {
                    kind: known.name.into(),
                    json: volume_json::json(known, value.bytes()?).at(known.name)?.into(),
                },
                // Tokens and configuration, and what does not exist yet.
                None => return Ok(()),
            }
        }
    });
    Ok(())
}

/// The text in a field of a message, empty if there is none.
fn text_at(value: Value<'_>, wanted: u32) -> FieldResult<Arc<str>> {
    let mut text = Text::default();
    fields(value.bytes()?, |number, value| {
        if number == wanted {
            text = value.text()?;
        }
        Ok(())
    })?;
    Ok(text.0)
}

fn claim(value: Value<'_>) -> FieldResult<VolumeSource> {
    let (mut claim, mut is_read_only) = (Text::default(), false);
    fields(value.bytes()?, |number, value| {
        match number {
            1 => claim = value.text().at("claimName")?,
            2 => is_read_only = value.bool().at("readOnly")?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(VolumeSource::Claim { claim: claim.0, is_read_only })
}

fn gce_persistent_disk(value: Value<'_>) -> FieldResult<VolumeSource> {
    let (mut disk, mut is_read_only) = (Text::default(), false);
    fields(value.bytes()?, |number, value| {
        match number {
            1 => disk = value.text().at("pdName")?,
            4 => is_read_only = value.bool().at("readOnly")?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(VolumeSource::GcePersistentDisk { disk: disk.0, is_read_only })
}

fn iscsi(value: Value<'_>) -> FieldResult<VolumeSource> {
    let (mut iqn, mut is_read_only) = (Text::default(), false);
    fields(value.bytes()?, |number, value| {
        match number {
            2 => iqn = value.text().at("iqn")?,
            6 => is_read_only = value.bool().at("readOnly")?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(VolumeSource::Iscsi { iqn: iqn.0, is_read_only })
}

fn rbd(value: Value<'_>) -> FieldResult<VolumeSource> {
    let (mut pool, mut image, mut is_read_only) = (Text::default(), Text::default(), false);
    let mut monitors = Vec::new();
    fields(value.bytes()?, |number, value| {
        match number {
            1 => monitors.push(value.text().at("monitors")?.0),
            2 => image = value.text().at("image")?,
            4 => pool = value.text().at("pool")?,
            8 => is_read_only = value.bool().at("readOnly")?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(VolumeSource::Rbd { monitors: monitors.into(), pool: pool.0, image: image.0, is_read_only })
}

/// Only the class of the claim matters: template 1, its specification 2, the class 5.
fn ephemeral(value: Value<'_>) -> FieldResult<VolumeSource> {
    let mut storage_class = None;
    let mut take_spec = |value: Value<'_>| {
        fields(value.bytes()?, |number, value| {
            if number == 5 {
                storage_class = Some(value.text().at("storageClassName")?.0);
            }
            Ok(())
        })
    };
    let mut take_template = |value: Value<'_>| {
        fields(value.bytes()?, |number, value| match number {
            2 => take_spec(value).at("spec"),
            _ => Ok(()),
        })
    };
    fields(value.bytes()?, |number, value| match number {
        1 => take_template(value).at("volumeClaimTemplate"),
        _ => Ok(()),
    })?;
    Ok(VolumeSource::Ephemeral { storage_class })
}
