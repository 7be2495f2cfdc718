//! Volumes as written. The many kinds of sources are recognised while decoding, so that the common ones that no
//! decision reads (tokens, configuration) cost nothing.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::de::{List, Text, or_default};
use crate::storage::VolumeSource;

/// One volume: its name and, if it matters to scheduling, where it comes from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volume {
    /// Name within the pod.
    pub name: Text,
    /// Where it comes from; `None` for ConfigMaps, Secrets, projected, downward API and empty directories.
    pub source: Option<VolumeSource>,
    /// `image.reference`.
    pub image_reference: Option<Text>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSource {
    claim_name: Text,
    read_only: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EphemeralSource {
    #[serde(deserialize_with = "or_default")]
    volume_claim_template: ClaimTemplate,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClaimTemplate {
    #[serde(deserialize_with = "or_default")]
    spec: ClaimTemplateSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimTemplateSpec {
    storage_class_name: Option<Text>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CsiSource {
    driver: Text,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GceSource {
    pd_name: Text,
    read_only: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AwsSource {
    #[serde(rename = "volumeID")]
    volume_id: Text,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RbdSource {
    monitors: List<Text>,
    pool: Text,
    image: Text,
    read_only: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct IscsiSource {
    iqn: Text,
    read_only: Option<bool>,
}

impl<'de> Deserialize<'de> for Volume {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("Volume", &[], VolumeVisitor)
    }
}

struct VolumeVisitor;

impl<'de> Visitor<'de> for VolumeVisitor {
    type Value = Volume;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a volume")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Volume, A::Error> {
        let mut volume = Volume::default();
        while let Some(field) = fields.next_key::<String>()? {
            let source = match field.as_str() {
                "name" => {
                    volume.name = fields.next_value()?;
                    continue;
                }
                // No decision reads these, and most volumes are of these kinds: they are skipped without being built.
                "configMap" | "secret" | "projected" | "downwardAPI" | "emptyDir" => {
                    fields.next_value::<IgnoredAny>()?;
                    continue;
                }
                "persistentVolumeClaim" => {
                    fields.next_value::<Option<ClaimSource>>()?.map(|s| VolumeSource::Claim {
                        claim: s.claim_name.0,
                        is_read_only: s.read_only.unwrap_or_default(),
                    })
                }
                "ephemeral" => fields.next_value::<Option<EphemeralSource>>()?.map(|s| {
                    VolumeSource::Ephemeral {
                        storage_class: s
                            .volume_claim_template
                            .spec
                            .storage_class_name
                            .map(|class| class.0),
                    }
                }),
                "csi" => fields
                    .next_value::<Option<CsiSource>>()?
                    .map(|s| VolumeSource::Csi { driver: s.driver.0 }),
                "gcePersistentDisk" => fields.next_value::<Option<GceSource>>()?.map(|s| {
                    VolumeSource::GcePersistentDisk {
                        disk: s.pd_name.0,
                        is_read_only: s.read_only.unwrap_or_default(),
                    }
                }),
                "awsElasticBlockStore" => fields
                    .next_value::<Option<AwsSource>>()?
                    .map(|s| VolumeSource::AwsElasticBlockStore { volume_id: s.volume_id.0 }),
                "rbd" => fields.next_value::<Option<RbdSource>>()?.map(|s| VolumeSource::Rbd {
                    monitors: s.monitors.iter().map(|monitor| monitor.0.clone()).collect(),
                    pool: s.pool.0,
                    image: s.image.0,
                    is_read_only: s.read_only.unwrap_or_default(),
                }),
                "iscsi" => {
                    fields.next_value::<Option<IscsiSource>>()?.map(|s| VolumeSource::Iscsi {
                        iqn: s.iqn.0,
                        is_read_only: s.read_only.unwrap_or_default(),
                    })
                }
                kind => match fields.next_value::<Value>()? {
                    Value::Null => None,
                    value => {
                        if kind == "image" {
                            let reference = value.get("reference").and_then(Value::as_str);
                            volume.image_reference =
                                Some(Text::from(reference.unwrap_or_default()));
                        }
                        Some(VolumeSource::Other {
                            kind: Arc::from(kind),
                            json: sorted_json(value).into(),
                        })
                    }
                },
            };
            // A source that is null is an absent one, and does not replace another.
            if source.is_some() {
                volume.source = source;
            }
        }
        Ok(volume)
    }
}

/// JSON text with the keys of every object sorted, whatever order they came in.
fn sorted_json(mut value: Value) -> String {
    value.sort_all_objects();
    value.to_string()
}
